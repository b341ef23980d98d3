"""Filters as a condition of SQL, the same for all databases except for the placeholder and the text search."""

from __future__ import annotations

from devmind.memory.entry import Filters, searchable

EVERYTHING = "TRUE"
"""The condition of filters that pass everything."""


def condition(filters: Filters, mark: str, find: str) -> tuple[str, list[object]]:
    """The condition and its values.

    Args:
        mark: the placeholder for a value.
        find: a function of a text and the wanted text, above 0 where it is found.
    """
    conditions = {
        f"name = {mark}": filters.name,
        f"time_s >= {mark}": filters.since_s,
        f"time_s < {mark}": filters.until_s,
        f"{find}(text, {mark}) > 0": None if filters.words is None else searchable(filters.words),
        f"session_identity = {mark}": filters.session,
    }
    used = {text: value for text, value in conditions.items() if value is not None}
    texts = [*used, *([] if filters.named is None else [f"name IS {'NOT ' if filters.named else ''}NULL"])]
    texts += [] if filters.says is None else [f"text {'<>' if filters.says else '='} ''"]
    return " AND ".join(texts) or EVERYTHING, list(used.values())
