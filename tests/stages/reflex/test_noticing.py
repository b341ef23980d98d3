"""The targets that teach the wide view and the startle arc."""

from __future__ import annotations

from pathlib import Path

import torch

from devmind import worlds
from devmind.config import load
from devmind.curriculum.stage import Context
from stages.reflex.orient import lesson as orient
from stages.reflex.startle import lesson as startle


def make_context(folder: Path) -> Context:
    return Context(load("tiny"), 0, "cpu", folder, worlds.make)


def test_the_change_lies_where_the_target_says(tmp_path: Path) -> None:
    batch = orient.motion_batch(make_context(tmp_path), 0, 16)
    change, told = batch["senses"]["periphery"][:, :, 0], batch["moving"]
    assert change.shape == (16, orient.MOTION_TICKS, 16, 16)
    columns = torch.linspace(1, -1, 16)
    across = (change.sum(2) * columns).sum(-1) / change.sum((2, 3)).clamp_min(1e-6)
    agreement = torch.corrcoef(torch.stack([across.flatten(), told[..., 0].flatten()]))[0, 1]
    assert agreement > 0.8


def test_bangs_are_loud_and_looming_objects_change_the_picture(tmp_path: Path) -> None:
    batch = startle.event_batch(make_context(tmp_path), 0, 96)
    event = batch["event"][:, 1]
    assert all(int((event == kind).sum()) > 5 for kind in range(3))
    loud = batch["senses"]["sound"].square().mean((2, 3))
    assert loud[event == 1].median() > 3 * loud[event == 0].median()
    sight = batch["senses"]["sight"].float()
    change = (sight[:, 1] - sight[:, 0]).abs().mean((1, 2, 3))
    assert change[event == 2].median() > change[event == 0].median()


def test_batches_are_functions_of_seed_and_update(tmp_path: Path) -> None:
    context = make_context(tmp_path)
    for make in (orient.motion_batch, startle.event_batch):
        one, same, other = make(context, 3, 4), make(context, 3, 4), make(context, 4, 4)
        assert all(torch.equal(one["senses"][name], same["senses"][name]) for name in one["senses"])
        assert not all(torch.equal(one["senses"][name], other["senses"][name]) for name in one["senses"])
