"""Muon: its directions, AdamW beside it against torch's own, and going on from a saved state."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from devmind.learners.muon import MATRICES, RMS, Muon, orthogonalised


@pytest.mark.parametrize("shape", [(16, 16), (48, 16), (16, 48)])
def test_a_direction_keeps_singular_vectors_and_evens_values(shape: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(0)
    left, _ = torch.linalg.qr(torch.randn(shape[0], shape[0], generator=generator))
    right, _ = torch.linalg.qr(torch.randn(shape[1], shape[1], generator=generator))
    values = torch.linspace(0.2, 3.0, min(shape))
    given = left[:, : len(values)] @ torch.diag(values) @ right[:, : len(values)].mT
    found = left[:, : len(values)].mT @ orthogonalised(given[None])[0] @ right[:, : len(values)]
    assert ((found.diagonal() > 0.6) & (found.diagonal() < 1.25)).all()
    assert (found - torch.diag(found.diagonal())).abs().max() < 1e-4


def test_nothing_to_learn_moves_nothing() -> None:
    assert orthogonalised(torch.zeros(1, 8, 8)).abs().max() == 0


def parameters(seed: int = 0) -> dict[str, nn.Parameter]:
    generator = torch.Generator().manual_seed(seed)
    shapes = {f"{MATRICES}0.w": (12, 8), f"{MATRICES}0.gain": (8,), "heads.a.w": (5, 8), "heads.a.b": (5,)}
    return {name: nn.Parameter(torch.randn(shape, generator=generator)) for name, shape in shapes.items()}


def teach(optimizer: torch.optim.Optimizer, own: dict[str, nn.Parameter], steps: range) -> None:
    for step in steps:
        generator = torch.Generator().manual_seed(100 + step)
        for parameter in own.values():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step()


def test_all_but_the_trunks_matrices_step_as_by_adamw() -> None:
    own, other = parameters(), parameters()
    teach(Muon(own.items(), 0.01, weight_decay=0.1), own, range(5))
    matrices, vectors = ([p for p in other.values() if (p.ndim == 2) is wanted] for wanted in (True, False))
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    teach(torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.95)), other, range(5))
    for name in own:
        if name == f"{MATRICES}0.w":
            assert not torch.allclose(own[name], other[name])
        else:
            torch.testing.assert_close(own[name], other[name])


def test_a_matrix_steps_by_the_same_size_whatever_its_gradient() -> None:
    for scale in (1e-6, 1.0, 1e3):
        own = parameters()
        matrix = own[f"{MATRICES}0.w"]
        before = matrix.detach().clone()
        matrix.grad = scale * torch.randn(matrix.shape, generator=torch.Generator().manual_seed(1))
        Muon(own.items(), 0.01, weight_decay=0.0).step()
        step = (matrix.detach() - before).square().mean().sqrt()
        assert step == pytest.approx(0.01 * RMS, rel=0.25)


def test_who_has_no_gradient_stays() -> None:
    own = parameters()
    before = {name: parameter.detach().clone() for name, parameter in own.items()}
    own["heads.a.b"].grad = torch.ones(5)
    Muon(own.items(), 0.01, weight_decay=0.1).step()
    assert [name for name in own if not torch.equal(own[name], before[name])] == ["heads.a.b"]


def test_it_goes_on_from_a_saved_state() -> None:
    own, other = parameters(), parameters()
    optimizer = Muon(own.items(), 0.01)
    teach(optimizer, own, range(3))
    for name, parameter in own.items():
        other[name].data.copy_(parameter.data)
    resumed = Muon(other.items(), 0.01)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    teach(optimizer, own, range(3, 6))
    teach(resumed, other, range(3, 6))
    assert all(torch.equal(own[name], other[name]) for name in own)
