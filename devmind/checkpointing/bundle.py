"""A bundle is a nested state as a folder of safetensors and JSON, without pickle: saved whole or not at all, and
verified on loading.

`NAME/state.json` has the tree, the format's version and a running number; `NAME/tensors.safetensors` the tensors;
`NAME/checksums.json` the size and SHA-256 of both.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from devmind import bounds
from devmind.checkpointing.files import explain_os_errors
from devmind.checkpointing.folders import INCOMPLETE, remove, verify, write_sealed
from devmind.checkpointing.nested import join, split_tensors
from devmind.errors import CheckpointError

FORMAT = 1
STATE, TENSORS = "state.json", "tensors.safetensors"


def save(folder: Path, state: Any) -> Path:
    """Save `state` (see `nested.split` for what it may hold) as `folder`, replacing an older one of that name.

    Only one process may write to a shelf (the parent folder of bundles) at a time.

    Raises:
        CheckpointError: the state holds something that cannot be saved, or the disk refuses; nothing is left behind.
    """
    from safetensors.torch import save_file

    folder = Path(folder)
    tree, tensors = split_tensors(state)
    # A running number says which bundle is newest, since clocks jump and copies lose their times.
    number = 1 + max((_number(path) for path in _bundles(folder.parent)), default=0)
    with write_sealed(folder) as incomplete:
        text = json.dumps({"format": FORMAT, "number": number, "state": tree}, allow_nan=False)
        (incomplete / STATE).write_text(text, encoding="utf-8")
        save_file(tensors, incomplete / TENSORS)
    return folder


def load(folder: Path, device: str = "cpu") -> Any:
    """The state saved in `folder`, its tensors on `device`.

    Raises:
        CheckpointError: the bundle is missing, was never finished, is damaged, or has a newer format.
    """
    from safetensors.torch import load_file

    folder = Path(folder)
    verify(folder)
    content = _content(folder)
    if not isinstance(content["format"], int) or content["format"] > FORMAT:
        raise CheckpointError(
            f"{folder} has format {content['format']}, this devmind reads up to {FORMAT}; update devmind."
        )
    return join(content["state"], load_file(folder / TENSORS, device=device))


def newest(shelf: Path) -> Path | None:
    """The newest bundle in the folder `shelf` that verifies; None if there is none. Damaged ones are skipped."""
    return next((path for path in _newest_first(shelf) if _good(path)), None)


def retire(shelf: Path, keep: int = 2) -> list[Path]:
    """Remove bundles older than the `keep` newest that verify, and remains of interrupted writes; gives the removed.

    Nothing is removed before `keep` newer bundles have been verified. Damaged bundles that are newer than those stay,
    so that a person can look at them.
    """
    if keep < 1:
        raise CheckpointError(f"At least one bundle must be kept; got keep={keep}.")
    good, older = 0, []
    for path in _newest_first(shelf):
        if good == keep:
            older.append(path)
        elif _good(path):
            good += 1
    if good == keep:
        older += sorted(path for path in Path(shelf).glob(f"*{INCOMPLETE}") if path.is_dir())
    with explain_os_errors(Path(shelf)):
        for path in older:
            remove(path)
    return older


def _bundles(shelf: Path) -> list[Path]:
    if not Path(shelf).is_dir():
        return []
    return [path for path in Path(shelf).iterdir() if (path / STATE).is_file() and not path.name.endswith(INCOMPLETE)]


def _newest_first(shelf: Path) -> list[Path]:
    return sorted(_bundles(shelf), key=lambda path: (_number(path), path.name), reverse=True)


def _content(folder: Path) -> dict[str, Any]:
    sentence = f"{folder / STATE} is not the state of a bundle ({{}}); use an older one."
    content = bounds.parse_json(bounds.read_file(folder / STATE, CheckpointError, 1 << 30), CheckpointError, sentence)
    with bounds.damage(CheckpointError, sentence):
        return {key: content[key] for key in ("format", "number", "state")}


def _number(folder: Path) -> int:
    try:
        number = _content(folder)["number"]
    except CheckpointError:
        return 0
    return number if isinstance(number, int) else 0


def _good(folder: Path) -> bool:
    try:
        verify(folder)
    except CheckpointError:
        return False
    return True
