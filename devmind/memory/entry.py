"""What memory holds: entries with keys; and what they can be filtered by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from devmind.errors import StoreError
from devmind.moment import Sense

KEY_SIZE = 64
VIEWS, BEFORE = "views", "before"
"""Parts of a payload beside the senses, uint8 [n, H, W, 3]: an example seen over a press of the button, and the scene
before it, whose key has the features of all its crops one after the other.
"""
LOOKED = "looked"
"""A part beside them too, uint8 [H, W, 3]: the thing as it is seen by who looks at it, with what is round it. It comes
back as `sight`, and the vector of that key is of it.
"""
_LENGTH_TOLERANCE = 1e-3


@dataclass(frozen=True, eq=False)
class Key:
    """The key of one sense of one entry.

    Args:
        vector: float32 [64] of length 1.
        encoder: names what made it; only keys of one encoder can be compared.
        features: float32 [F], finer than the key, kept with examples that names are fitted on; None without a name.

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
    """Where in a recorded session an entry lies: its payload that was not copied, or the ticks that recorded the same.

    Args:
        session: the file, absolute or relative to the folder of the store.
        tick: which Moment of it, from 0 on.
        identity: which recording the file is, so that another one of the same name is not taken for it.
        span: 0: what the entry does not hold itself lies at `tick`. n: the entry is whole, and the n ticks up to and
            with `tick` recorded what it was made of, so that they are forgotten with it; those that are more than the
            part has lie at the end of the part before.

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
        importance: what the writer thought of it, 0 or more.
        name: what it is an example of, or None.
        keys: by sense.
        senses: the payload: what was sensed, equal to what was written. Empty where it was not asked for.
        id: the store's number, never used again; 0 before it is stored.
        score: how well it answers a recall; None otherwise.
        pointer: where the rest of the payload lies, or None: `senses` is all there is.
        recalled: how often it was recalled.
        recalled_s: when last, seconds since 1970; None when never.
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
        """What a search by words looks through: name and words, whatever their case."""
        words = self.senses.get("words")
        return searchable(f"{self.name or ''}\n{words if isinstance(words, str) else ''}")


def searchable(text: str) -> str:
    """Text as it is searched: without case, and without what no database can keep (lone surrogates, NUL)."""
    return text.casefold().encode("utf-8", "replace").decode().replace("\0", " ").strip()


@dataclass(frozen=True)
class Filters:
    """Which entries are meant; all of them by default.

    Args:
        name: examples of this name only.
        named: True for examples of any name, False for what has none.
        since_s, until_s: written in [since_s, until_s), seconds since 1970.
        words: these are part of its name or of what it heard and read, whatever the case.
        session: what it points to lies in the recording of this identity.
        says: True for what has a name or words, False for what has neither.

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
                    f"A filter's {what} are text; got {text!r}, with half a letter (a lone surrogate). Write it anew."
                )
        if self.words is not None and not searchable(self.words):
            raise StoreError(
                f"A filter's words have a letter at least; got {self.words!r}, which every entry has. Leave words out "
                "to mean all."
            )
