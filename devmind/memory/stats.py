"""The contents of memory, as plain data for people and programs."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from devmind.errors import StoreError
from devmind.memory.entry import Entry, Pointer
from devmind.memory.episodic import Memory
from devmind.moment import SOUND_RATE_HZ


def statistics(memory: Memory) -> dict[str, Any]:
    """Counts, times and bytes of a whole memory; times are seconds since 1970, None when there is no entry."""
    facts, sizes, table = memory.store.facts(), memory.store.sizes(), memory.index.update()
    names = Counter(name for name in facts.names if name is not None)
    senses = {
        sense: {"keys": int(table.alive[held.places].sum()), "encoder": held.encoder}
        for sense, held in sorted(table.senses.items())
    }
    return {
        "entries": sizes.entries,
        "named": names.total(),
        "names": dict(sorted(names.items())),
        "pointed": sum(entry.pointer is not None for entry in memory.store.find(payloads=False)),
        "first_s": float(facts.time_s.min()) if len(facts) else None,
        "last_s": float(facts.time_s.max()) if len(facts) else None,
        "recalls": int(facts.recalled.sum()),
        "never_recalled": int((facts.recalled == 0).sum()),
        "payload_bytes": sizes.payload_bytes,
        "key_bytes": sizes.key_bytes,
        "senses": senses,
    }


def as_plain(entry: Entry) -> dict[str, Any]:
    """One entry without its arrays: senses as their kind and shape."""
    words = entry.senses.get("words")
    pointer = entry.pointer
    return {
        "id": entry.id,
        "time_s": entry.time_s,
        "name": entry.name,
        "score": entry.score,
        "importance": entry.importance,
        "recalled": entry.recalled,
        "recalled_s": entry.recalled_s,
        "words": words if isinstance(words, str) else "",
        "senses": {
            sense: f"{value.dtype} {list(value.shape)}" if isinstance(value, np.ndarray) else f"{len(value)} characters"
            for sense, value in entry.senses.items()
        },
        "keys": {sense: key.encoder[:8] for sense, key in entry.keys.items()},
        "pointer": pointer and f"{_ticks(pointer)} of {pointer.session}",
    }


def _ticks(pointer: Pointer) -> str:
    return f"the {pointer.span} ticks up to {pointer.tick}" if pointer.span > 1 else f"tick {pointer.tick}"


def write_senses(entry: Entry, folder: Path) -> list[Path]:
    """Write an entry's picture as PNG and its sound as WAV, for its owner only; returns the files, [] without either.

    Raises:
        StoreError: they cannot be written there.
    """
    try:
        return _written(entry, folder)
    except OSError as error:
        raise StoreError(
            f"The files of entry {entry.id} cannot be written into '{folder}': {error.strerror}; choose another folder."
        ) from error


def why_nothing(entry: Entry) -> str:
    """The reason why `write_senses` wrote no file, a sentence."""
    if entry.pointer is None:
        return "nothing was written, since it has neither a picture nor a sound."
    return (
        f"nothing was written: '{entry.pointer.session}', the recording it points to, is gone, is another one now, or "
        "has no picture and no sound at that tick."
    )


def _written(entry: Entry, folder: Path) -> list[Path]:
    files: list[Path] = []
    picture, sound = entry.senses.get("sight"), entry.senses.get("sound")
    if isinstance(picture, np.ndarray) or isinstance(sound, np.ndarray):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if isinstance(picture, np.ndarray):
        import cv2

        files.append(folder / f"memory-{entry.id}.png")
        _write(files[-1], cv2.imencode(".png", cv2.cvtColor(picture, cv2.COLOR_RGB2BGR))[1].tobytes())
    if isinstance(sound, np.ndarray):
        import io

        import soundfile

        data = io.BytesIO()
        soundfile.write(data, sound.T, SOUND_RATE_HZ, format="WAV")
        files.append(folder / f"memory-{entry.id}.wav")
        _write(files[-1], data.getvalue())
    return files


def _write(file: Path, data: bytes) -> None:
    with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as opened:
        opened.write(data)
