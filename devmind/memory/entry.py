"""The contents of memory: entries with keys, and filters for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from devmind.errors import StoreError
from devmind.moment import Sense

KEY_SIZE = 64
VIEWS, BEFORE = "views", "before"
"""Parts of a payload beside the senses, uint8 [n, H, W, 3]: an example seen over a press of the button, and the scene
before it, whose key has the features of all its crops in a row."""
LOOKED = "looked"
"""Another part beside the senses, uint8 [H, W, 3]: the thing with its surroundings, as the agent sees it when it looks
there. It is recalled as `sight`, and the vector of that key describes it."""
_LENGTH_TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class Key:
    """The key of one sense of one entry.

    Args:
        vector: float32 [64] of length 1.
        encoder: names its encoder; only keys of one encoder can be compared.
        features: float32 [F], more detailed than the key, kept with examples for fitting names; None without a name.

    Raises:
        StoreError: another shape or dtype, a length that is not 1, or a number that is not finite.
    """

    vector: np.ndarray
    encoder: str
    features: np.ndarray | None = None

    def __post_init__(self) -> None:
        vector, features = self.vector, self.features
        if vector.dtype != np.float32 or vector.shape != (KEY_SIZE,):
            raise StoreError(f"A key is float32 [{KEY_SIZE}]; got {vector.dtype} {list(vector.shape)}.")
        # Also true for NaN, which compares false with everything.
        if not abs(float(np.linalg.norm(vector)) - 1) <= _LENGTH_TOLERANCE:
            raise StoreError(f"A key has length 1; got {float(np.linalg.norm(vector)):.3g}. Normalise it.")
        if features is not None and (features.dtype != np.float32 or features.ndim != 1):
            raise StoreError(f"Features are float32 [F]; got {features.dtype} {list(features.shape)}.")
        if features is not None and not np.isfinite(features).all():
            raise StoreError("Features are finite numbers; got NaN or infinity.")


@dataclass(frozen=True)
class Pointer:
    """The place of an entry in a recorded session: of its payload that was not copied, or of the ticks that recorded
    the same.

    Args:
        session: the file, absolute or relative to the folder of the store.
        tick: the number of its Moment, from 0 on.
        identity: of the recording, so that another file of the same name is not taken for it.
        span: 0: the parts that the entry itself lacks are at `tick`. n: the entry is whole, and the n ticks up to and
            including `tick` recorded its content, so that forgetting deletes them too; if the part has fewer ticks, the
            others are at the end of the part before.

    Raises:
        StoreError: a negative tick or span, or no session.
    """

    session: str
    tick: int
    identity: str
    span: int = 0

    def __post_init__(self) -> None:
        if self.tick < 0 or self.span < 0 or not self.session:
            raise StoreError(
                f"A pointer names a session, a tick and a span from 0 on; got '{self.session}', {self.tick} and "
                f"{self.span}."
            )


@dataclass(frozen=True, eq=False)
class Entry:
    """One remembered Moment, or one example of a name.

    Args:
        time_s: when it was written, seconds since 1970.
        importance: given by the writer, 0 or more.
        name: the name of which it is an example, or None.
        keys: by sense.
        senses: the payload, equal to what was written. Empty if it was not requested.
        id: the store's number, never used again; 0 before it is stored.
        score: of a recall; None otherwise.
        pointer: place of the rest of the payload, or None: `senses` is complete.
        recalled: number of recalls.
        recalled_s: time of the last recall, seconds since 1970; None for never.
    """

    time_s: float
    importance: float
    name: str | None
    keys: Mapping[str, Key]
    senses: Mapping[str, Sense] = field(default_factory=dict)
    id: int = 0
    score: float | None = None
    pointer: Pointer | None = None
    recalled: int = 0
    recalled_s: float | None = None

    @property
    def text(self) -> str:
        """The text for a search by words: name and words, in any case."""
        words = self.senses.get("words")
        return searchable(f"{self.name or ''}\n{words if isinstance(words, str) else ''}")


def searchable(text: str) -> str:
    """Text as it is searched: without case, and without characters that no database can keep (lone surrogates, NUL)."""
    return text.casefold().encode("utf-8", "replace").decode().replace("\0", " ").strip()


@dataclass(frozen=True)
class Filters:
    """A selection of entries; all of them by default.

    Args:
        name: examples of this name only.
        named: True for examples of any name, False for entries without a name.
        since_s, until_s: written in [since_s, until_s), seconds since 1970.
        words: part of the name or of the words heard and read, in any case.
        session: the entry points into the recording of this identity.
        says: True for entries with a name or words, False for those with neither.

    Raises:
        StoreError: blank words, which are part of every text, or a text that no database can keep as it is.
    """

    name: str | None = None
    named: bool | None = None
    since_s: float | None = None
    until_s: float | None = None
    words: str | None = None
    session: str | None = None
    says: bool | None = None

    def __post_init__(self) -> None:
        for what, text in (("words", self.words), ("name", self.name), ("session", self.session)):
            if text is not None and any("\ud800" <= letter <= "\udfff" for letter in text):
                raise StoreError(
                    f"A filter's {what} are text; got {text!r}, with half a character (a lone surrogate). "
                    "Type it again."
                )
        if self.words is not None and not searchable(self.words):
            raise StoreError(
                f"A filter's words need at least one letter; got {self.words!r}, which every entry contains. "
                "Leave words out to select all."
            )
