"""Built-in strangers: made-up sounds and pictures, described by today's encoders, that no taught name is for.

Names need them to say "unknown" truly and to know, before anything is taught, what differs between two examples of one
thing. This is where the agent, which describes, meets what is made up; memory is only handed features.

Making and describing takes some seconds, so it is done once for an encoder, and kept in the user's cache: it holds
nothing but numbers made of made-up things. Where nothing can be kept it is done once a process.
"""

from __future__ import annotations

import io
import os
import sys
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

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
    from devmind.agent.sensing import Sensing

VERSION = 2
"""Counts changes of what is made up here."""
SOUND_KINDS, SOUND_EXAMPLES, SOUND_S = 120, 4, (0.8, 1.4)
PICTURE_EXAMPLES = 3
AT_ONCE = 32
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


def strangers(agent: Sensing, sense: str) -> Strangers | None:
    """Strangers of a sense as this agent's encoder describes them; None for a sense that none are made for."""
    if sense not in MAKERS or sense not in agent.sense_order:
        return None
    place = _cache() / f"{encoder_hashes(agent)[sense]}-{VERSION}.npz"
    found = _kept(place, SHARES.get(sense, 0))
    if found is None:
        made, kinds = MAKERS[sense]()
        parts = [made[start : start + AT_ONCE] for start in range(0, len(made), AT_ONCE)]
        described = [what.features for part in parts for what in describe_many(agent, sense, part)]
        found = Strangers(np.stack(described), kinds, SHARES.get(sense, 0))
        _keep(place, found.features, kinds)
    return found


def _cache() -> Path:
    """The user's cache for this, or what DEVMIND_CACHE says."""
    told, folder = os.environ.get("DEVMIND_CACHE"), os.environ.get("XDG_CACHE_HOME")
    if told:
        return Path(told)
    usual = Path.home() / "Library" / "Caches" if sys.platform == "darwin" else Path.home() / ".cache"
    return (Path(folder) if folder else usual) / "devmind"


def _kept(place: Path, shares: int) -> Strangers | None:
    """What was kept there; None where nothing can be read."""
    try:
        with np.load(place, allow_pickle=False) as file:
            return Strangers(file["features"], file["kinds"], shares)
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
        return None


def _keep(place: Path, features: np.ndarray, kinds: np.ndarray) -> None:
    """Write under another name first, so that nobody reads half of it; in silence where nothing can be written."""
    written = io.BytesIO()
    np.savez(written, features=features, kinds=kinds)
    with suppress(OSError, CheckpointError):
        place.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(place, written.getvalue())
