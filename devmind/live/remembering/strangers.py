"""Built-in strangers: made-up sounds and pictures without a taught name, described by today's encoders.

Names need them to say "unknown" correctly and to know, before anything is taught, the differences between two examples
of one thing. This code joins the agent, which describes, and what is made up; memory gets only features.

Making and describing either takes some seconds, so it is done once for each encoder and kept in the user's cache, which
holds nothing but numbers of made-up things. Without a writable cache it is done once for each process.
"""

from __future__ import annotations

import io
import os
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from devmind.agent.describing import COLOURS, describe_many, encoder_hashes
from devmind.checkpointing.files import write_atomically
from devmind.errors import CheckpointError
from devmind.live.remembering.made_pictures import picture_example, tiles
from devmind.live.remembering.made_sounds import as_recorded, mixture, mixture_example
from devmind.memory import Strangers
from devmind.moment import Sense
from devmind.seeding import numpy_rng

if TYPE_CHECKING:
    from devmind.agent.encoders import EncoderHolder

VERSION = 2
"""Counts changes of the made-up things."""
SOUND_KINDS, SOUND_EXAMPLES, SOUND_S = 120, 4, (0.8, 1.4)
PICTURE_EXAMPLES = 3
AT_ONCE = 32
UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile)
SHARES = {"sight": COLOURS}
"""By sense, how many of the last features are shares."""


def made_sounds() -> tuple[list[Sense], np.ndarray]:
    """Sounds [1, S], and their kinds int64 [m]."""
    rng = numpy_rng("strangers", "sound")
    kinds = [mixture(rng) for _ in range(SOUND_KINDS)]
    sounds = [mixture_example(kind, rng, rng.uniform(*SOUND_S)) for kind in kinds for _ in range(SOUND_EXAMPLES)]
    made: list[Sense] = [as_recorded(sound, rng) for sound in sounds]
    return made, np.repeat(np.arange(SOUND_KINDS), SOUND_EXAMPLES)


def made_pictures() -> tuple[list[Sense], np.ndarray]:
    """Pictures [64, 64, 3], and their kinds int64 [m]."""
    rng = numpy_rng("strangers", "sight")
    made: list[Sense] = [picture_example(tile, rng) for tile in tiles() for _ in range(PICTURE_EXAMPLES)]
    return made, np.repeat(np.arange(len(tiles())), PICTURE_EXAMPLES)


MAKERS: dict[str, Callable[[], tuple[list[Sense], np.ndarray]]] = {"sound": made_sounds, "sight": made_pictures}


def strangers(agent: EncoderHolder, sense: str) -> Strangers | None:
    """Strangers of a sense, described by this agent's encoder; None for a sense without any."""
    if sense not in MAKERS or sense not in agent.sense_order:
        return None
    cache, file = _cache(), f"{encoder_hashes(agent)[sense]}-{VERSION}.npz"
    found = _cached_strangers(cache / file, SHARES.get(sense, 0)) if cache else None
    if found is None:
        made, kinds = MAKERS[sense]()
        parts = [made[start : start + AT_ONCE] for start in range(0, len(made), AT_ONCE)]
        described = [what.features for part in parts for what in describe_many(agent, sense, part)]
        found = Strangers(np.stack(described), kinds, SHARES.get(sense, 0))
        if cache:
            _write(cache / file, features=found.features, kinds=kinds)
    return found


def _cache() -> Path | None:
    """The user's cache for strangers, or DEVMIND_CACHE; None for a user without a home."""
    given_cache, folder = os.environ.get("DEVMIND_CACHE"), os.environ.get("XDG_CACHE_HOME")
    if given_cache:
        return Path(given_cache)
    if folder:
        return Path(folder) / "devmind"
    try:
        return Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache") / "devmind"
    except RuntimeError:  # neither HOME nor an account
        return None


def _cached_strangers(place: Path, shares: int) -> Strangers | None:
    """The cached strangers; None where nothing can be read."""
    try:
        with np.load(place, allow_pickle=False) as file:
            return Strangers(file["features"], file["kinds"], shares)
    except UNREADABLE:
        return None


def _write(place: Path, **arrays: Any) -> None:
    """Write under another name first, so that nobody reads half of it; ignores a place that cannot be written."""
    written = io.BytesIO()
    np.savez(written, **arrays)
    with suppress(OSError, CheckpointError):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, written.getvalue())
