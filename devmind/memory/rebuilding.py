"""New keys from old payloads, when an agent's weights have changed or it has gained a sense."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from itertools import islice

import numpy as np

from devmind.memory.entry import Entry, Key
from devmind.memory.index import Table
from devmind.moment import Sense

Describe = Callable[[Mapping[str, Sense]], Mapping[str, Key]]
"""Keys of a payload."""
LOOKED_AT, DESCRIBED = 64, 4
"""So many entries are looked at for a sense that no key is of, and so many of those that hold it are described."""


def gained(
    table: Table, get: Callable[[Iterable[int]], Iterable[Entry]], describe: Describe, encoders: Mapping[str, str]
) -> bool:
    """Whether entries hold senses that are described today and have no keys yet.

    To be cheap at every opening it looks at a sample, spread evenly: a sense that hardly any entry holds may be missed.
    """
    senses, ids = encoders.keys() - table.senses.keys(), table.ids[table.alive]
    if not senses or not len(ids):
        return False
    places = np.unique(np.linspace(0, len(ids) - 1, LOOKED_AT).astype(int))
    found = (entry.senses for number in ids[places].tolist() for entry in get([number]))
    holding = islice((held for held in found if senses & held.keys()), DESCRIBED)
    return any(senses & describe(held).keys() for held in holding)


def described(entry: Entry, describe: Describe, encoders: Mapping[str, str]) -> dict[str, Key]:
    """New keys of an entry; features are kept for examples of names only.

    An old key that cannot be made anew, since what it was made of is gone, goes as well: it compares with nothing.
    """
    strange = {sense: key for sense, key in entry.keys.items() if sense not in encoders}
    new = {
        sense: replace(k, features=k.features if entry.name else None) for sense, k in describe(entry.senses).items()
    }
    return {**strange, **new}
