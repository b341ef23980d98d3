"""Muon against the singular value decomposition, torch's own Muon, and AdamW."""

import copy

import pytest
import torch
from torch import nn

from devmind.algorithms.muon import Muon, orthogonal
from devmind.testing.laws import ATOL


@pytest.mark.parametrize("shape", [(3, 16, 16), (2, 24, 8), (2, 8, 24)])
def test_orthogonal_keeps_singular_vectors_and_evens_out_singular_values(shape):
    given = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    got = orthogonal(given)
    u, _, v = torch.linalg.svd(given, full_matrices=False)
    lengths = torch.linalg.diagonal((u.mT @ got @ v.mT)[..., : min(shape[1:]), : min(shape[1:])])
    assert lengths.min() > 0.3
    assert lengths.max() < 1.3
    torch.testing.assert_close(u @ torch.diag_embed(lengths) @ v, got, atol=2e-3, rtol=0)
    torch.testing.assert_close(orthogonal(given[:1]), got[:1], atol=ATOL, rtol=0)


def stepped(make, module, steps=4):
    optimizer = make(module)
    for step in range(steps):
        generator = torch.Generator().manual_seed(step)
        for parameter in module.parameters():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
        optimizer.step()
    return module


def test_matrices_are_stepped_as_by_torch_muon():
    begun = nn.Sequential(nn.Linear(12, 20, bias=False), nn.Linear(20, 12, bias=False))
    group = {"lr": 0.01, "weight_decay": 0.1}
    theirs = stepped(lambda m: torch.optim.Muon(m.parameters(), momentum=0.95, **group), copy.deepcopy(begun))
    ours = stepped(
        lambda m: Muon([{"params": m.parameters(), "orthogonal": True, "betas": (0.95, 0.95), **group}]),
        copy.deepcopy(begun),
    )
    for was, one, other in zip(begun.parameters(), ours.parameters(), theirs.parameters(), strict=True):
        # torch's Muon rounds to bfloat16.
        assert (one - other).norm() < 0.03 * (one - was).norm()


def test_other_parameters_are_stepped_as_by_adamw_and_state_is_restored():
    begun = nn.Sequential(nn.Linear(6, 6), nn.Linear(6, 6))

    def mixed(module):
        return Muon(
            [{"params": [module[0].weight], "orthogonal": True}, {"params": [module[0].bias, *module[1].parameters()]}],
            lr=0.01,
        )

    ours = stepped(mixed, copy.deepcopy(begun))
    theirs = stepped(lambda m: torch.optim.AdamW(m.parameters(), lr=0.01), copy.deepcopy(begun))
    assert torch.equal(ours[0].bias, theirs[0].bias)
    assert torch.equal(ours[1].weight, theirs[1].weight)
    assert not torch.equal(ours[0].weight, theirs[0].weight)

    def again(module):
        optimizer = mixed(module)
        stepped_once = mixed(half := copy.deepcopy(begun))
        for parameter in half.parameters():
            parameter.grad = torch.ones_like(parameter)
        stepped_once.step()
        optimizer.load_state_dict(copy.deepcopy(stepped_once.state_dict()))
        return optimizer

    one, other = stepped(again, copy.deepcopy(begun), 1), stepped(again, copy.deepcopy(begun), 1)
    assert torch.equal(one[0].weight, other[0].weight)
    assert not torch.equal(one[0].weight, stepped(mixed, copy.deepcopy(begun), 1)[0].weight), "momentum is kept"


def test_orthogonal_of_zero_is_zero():
    assert orthogonal(torch.zeros(1, 8, 8)).abs().max() == 0


def test_kernel_is_stepped_as_a_matrix_of_its_rows():
    kernel = nn.Conv2d(3, 8, 3, bias=False)
    matrix = nn.Linear(27, 8, bias=False)
    with torch.no_grad():
        matrix.weight.copy_(kernel.weight.flatten(1))
    for step in range(3):
        gradient = torch.randn(kernel.weight.shape, generator=torch.Generator().manual_seed(step))
        kernel.weight.grad, matrix.weight.grad = gradient, gradient.flatten(1)
        if not step:
            optimizers = [
                Muon([{"params": each.parameters(), "orthogonal": True, "betas": (0.95, 0.95)}], lr=0.01)
                for each in (kernel, matrix)
            ]
        for optimizer in optimizers:
            optimizer.step()
    torch.testing.assert_close(kernel.weight.flatten(1), matrix.weight, atol=ATOL, rtol=0)
    state = optimizers[0].state_dict()["state"][0]
    assert state["momentum"].shape == kernel.weight.shape
