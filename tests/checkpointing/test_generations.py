"""Save then load is the identity, any damage is reported, and `newest` and `retire` keep the last good generation."""

from __future__ import annotations

import json
import math
import mmap
import os
import shutil
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from devmind.checkpointing import generations
from devmind.checkpointing.engine import save
from devmind.checkpointing.generations import load, name_of, newest, retire, verify
from devmind.checkpointing.nested import join, split_tensors
from devmind.errors import CheckpointError


def same(a: Any, b: Any) -> bool:
    """Equal in type and bits, NaN included."""
    if type(a) is not type(b):
        return False
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and a.shape == b.shape and torch.equal(a, b)
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b or (isinstance(a, float) and math.isnan(a) and math.isnan(b))


leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text()
keys = st.text() | st.integers() | st.booleans() | st.none() | st.tuples(st.integers(), st.text())
states = st.recursive(
    leaves | st.integers(0, 5).map(torch.arange),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(keys, inner, max_size=4) | st.lists(inner).map(tuple),
    max_leaves=15,
)


@given(states)
@settings(max_examples=150, deadline=None)
def test_split_and_join_are_inverse_through_json(state: Any) -> None:
    tree, tensors = split_tensors(state)
    assert same(join(json.loads(json.dumps(tree, allow_nan=False)), tensors), state)


def trained() -> tuple[torch.nn.Module, torch.optim.Optimizer, Any]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, amsgrad=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 20)
    return model, optimizer, schedule


def train(model: torch.nn.Module, optimizer: torch.optim.Optimizer, schedule: Any, steps: range) -> None:
    for step in steps:
        x = torch.randn(16, 4, generator=torch.Generator().manual_seed(step))
        optimizer.zero_grad()
        (model(x) - x.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
        schedule.step()


def test_training_continues_bit_equal_after_loading(tmp_path: Path) -> None:
    parts = trained()
    train(*parts, range(5))
    save(tmp_path / "step-5", [part.state_dict() for part in parts])
    train(*parts, range(5, 12))
    again = trained()
    for part, state in zip(again, load(tmp_path / "step-5"), strict=True):
        part.load_state_dict(state)
    train(*again, range(5, 12))
    assert same(dict(again[0].state_dict()), dict(parts[0].state_dict()))
    assert same(again[2].state_dict(), parts[2].state_dict())


def test_save_and_load_preserve_every_kind_of_value(tmp_path: Path) -> None:
    whole = torch.arange(12.0)
    state = {
        "tied": [whole, whole],
        "view": whole[2:5],
        "strided": whole.view(3, 4).t(),
        "empty": (torch.empty(0), torch.empty(0, 3)),
        "scalar": torch.tensor(1.5),
        "types": [
            torch.ones(2, dtype=t) for t in (torch.bool, torch.uint8, torch.int64, torch.bfloat16, torch.float64)
        ],
        "rng": torch.get_rng_state(),
        "python": (True, -1, 2**80, 0.1, math.inf, None, "ü\n\x00", [], {}, ()),
        0: {"0": torch.zeros(1)},
        "0": {0: torch.ones(1)},
    }
    assert same(load(save(tmp_path / "b", state)), state)


@pytest.mark.parametrize("n", [1, 4096, 5000])
def test_numbers_are_written_past_the_cache_or_through_it(tmp_path: Path, n: int) -> None:
    """Those that do not fill whole blocks of memory, and file systems that refuse, get the same bytes."""
    layout = generations.Layout((("a", "U8", (n,)),))
    given = np.random.default_rng(n).integers(0, 256, 2 * 4096, np.uint8)
    blocks = memoryview(mmap.mmap(-1, len(given)))
    blocks[:] = given.data
    odd = memoryview(bytearray(given.tobytes()))[:n]
    for name, numbers in (("whole", blocks), ("odd", odd)):
        generations.write(tmp_path / name, {}, {}, layout, numbers)
        written = (tmp_path / name / generations.TENSORS).read_bytes()
        assert written == layout.header() + given[:n].tobytes()
    assert len(layout.header()) % generations.BLOCK == 0


def test_subclasses_load_as_their_base_type() -> None:
    tree, tensors = split_tensors({"lr": np.float64(0.1), "od": OrderedDict(a=1), "shape": torch.zeros(2, 3).shape})
    assert same(join(tree, tensors), {"lr": 0.1, "od": {"a": 1}, "shape": (2, 3)})


@pytest.mark.parametrize("value", [b"bytes", {1, 2}, np.zeros(3), print, torch.zeros(2, device="meta")])
def test_save_names_the_place_of_an_unsupported_value(tmp_path: Path, value: Any) -> None:
    with pytest.raises(CheckpointError, match="state/optimizer/1"):
        save(tmp_path / "b", {"optimizer": [1, value]})
    assert list(tmp_path.iterdir()) == []


SMALL = {"w": torch.arange(3.0), "step": 7}


def test_load_detects_any_flipped_bit(tmp_path: Path) -> None:
    folder = save(tmp_path / "b", SMALL)
    rng = np.random.default_rng(0)
    for path in sorted(folder.iterdir()):
        whole = path.read_bytes()
        for bit in rng.choice(8 * len(whole), 120, replace=False):
            content = bytearray(whole)
            content[bit // 8] ^= 1 << (bit % 8)
            path.write_bytes(content)
            with pytest.raises(CheckpointError, match=r"damaged|missing|not match"):
                load(folder)
        path.write_bytes(whole)
    assert same(load(folder), SMALL)


def test_load_error_names_the_damage(tmp_path: Path) -> None:
    folder = save(tmp_path / "b", SMALL)
    with pytest.raises(CheckpointError, match="There is no folder"):
        load(tmp_path / "nothing")
    shutil.copytree(folder, tmp_path / "c.incomplete")
    with pytest.raises(CheckpointError, match="never finished"):
        load(tmp_path / "c.incomplete")
    (folder / "tensors.safetensors").write_bytes(b"short")
    with pytest.raises(CheckpointError, match=r"should have \d+ bytes and has 5"):
        load(folder)
    (folder / "tensors.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"'tensors.safetensors' is missing"):
        load(folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(CheckpointError, match=r"no manifest.json"):
        load(folder)


def test_load_of_a_newer_format_asks_for_an_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(generations, "FORMAT", 3)
    folder = save(tmp_path / "b", SMALL)
    monkeypatch.undo()
    with pytest.raises(CheckpointError, match=r"format 3, this devmind reads 2; use"):
        load(folder)


def damage(folder: Path) -> None:
    path = folder / "tensors.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"?")


def test_newest_follows_the_order_of_saving_and_skips_damage(tmp_path: Path) -> None:
    assert newest(tmp_path / "none") is None
    for number in (9, 10, 100_000_000):
        save(tmp_path / name_of(number), SMALL)
    for folder in tmp_path.iterdir():
        os.utime(folder, (0, 0))
    assert newest(tmp_path) == tmp_path / "gen-100000000"
    damage(tmp_path / "gen-100000000")
    said: list[str] = []
    assert newest(tmp_path, tell=said.append) == tmp_path / name_of(10)
    assert "gen-100000000" in said[0]
    assert f"Going on with {tmp_path / name_of(10)}" in said[0]
    save(tmp_path / name_of(10), {"replaced": True})
    assert load(newest(tmp_path)) == {"replaced": True}


def test_backup_stands_in_for_a_damaged_generation_and_for_a_lost_shelf(tmp_path: Path) -> None:
    shelf, backup = tmp_path / "shelf", tmp_path / "backup"
    for number in (1, 2):
        for place in (shelf, backup):
            save(place / name_of(number), SMALL)
    assert newest(shelf, backup) == shelf / name_of(2)
    damage(shelf / name_of(2))
    assert newest(shelf, backup) == backup / name_of(2)
    damage(backup / name_of(2))
    assert newest(shelf, backup) == shelf / name_of(1)
    shutil.rmtree(shelf)
    assert newest(shelf, backup) == backup / name_of(1)


def test_retire_keeps_the_newest_that_verify(tmp_path: Path) -> None:
    for i in range(5):
        save(tmp_path / name_of(i), SMALL)
    (tmp_path / "gen-00000009.incomplete").mkdir()
    damage(tmp_path / name_of(4))
    gone = retire(tmp_path, keep=2)
    assert sorted(path.name for path in gone) == [name_of(0), name_of(1), "gen-00000009.incomplete"]
    assert sorted(path.name for path in tmp_path.iterdir()) == [name_of(2), name_of(3), name_of(4)]


def test_retire_removes_nothing_while_too_few_verify(tmp_path: Path) -> None:
    for i in range(3):
        save(tmp_path / name_of(i), SMALL)
    damage(tmp_path / name_of(2))
    damage(tmp_path / name_of(1))
    assert retire(tmp_path, keep=2) == []
    assert newest(tmp_path) == tmp_path / name_of(0)
    with pytest.raises(CheckpointError, match="At least one"):
        retire(tmp_path, keep=0)


def test_failed_save_keeps_the_old_bundle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = save(tmp_path / "last", SMALL)
    rename = os.rename

    def refuse(source: Path, target: Path) -> None:
        if str(source).endswith(".incomplete"):
            raise OSError(28, os.strerror(28))
        rename(source, target)

    monkeypatch.setattr(os, "rename", refuse)
    with pytest.raises(CheckpointError, match="disk is full"):
        save(folder, {"new": 1})
    monkeypatch.undo()
    verify(folder)
    assert same(load(folder), SMALL)
    assert [path.name for path in tmp_path.iterdir()] == ["last"]
