#!/usr/bin/env bash
# Expected: torch.optim.AdamW(fused=True) makes the steps of AdamW(foreach=True) and of the plain loop, up to rounding.
# Happens: on a CPU, where a gradient lies in memory in another order than its parameter, as torch.autograd.grad gives it
#   for a convolution of pictures in channels_last, or for an einsum, numbers are stepped with the gradients of other
#   numbers of the same tensor. Nothing is raised or warned of; the other two ways are right. Adam and SGD do the same.
#   backward() hides it, since it stores a gradient in its parameter's order; and a training goes on, only worse.
# Version: torch 2.13.0 on the CPU, CPython 3.11. Seen by running it.
# Matters: losses of several tasks are often differentiated one by one by autograd.grad and the sum is assigned to .grad;
#   states that come from a file may lie in another order, too. fused=True is advised as a mere gain of speed.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check numpy torch==2.13.0
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import torch

draw = torch.Generator().manual_seed(0)
kernels, matrix, pictures, rows = (
    torch.randn(shape, generator=draw) for shape in ((4, 3, 3, 3), (3, 5), (2, 3, 8, 8), (40, 5))
)
pictures = pictures.to(memory_format=torch.channels_last)
LOSSES = {
    "convolution": (kernels, lambda w: torch.nn.functional.conv2d(pictures, w).square().mean()),
    "einsum": (matrix, lambda w: torch.einsum("ni,oi->no", rows, w).square().mean()),
}


def step(start, loss, kind, way):
    """How a parameter changes in one step down the loss, and whether its gradient lies in its order."""
    w = torch.nn.Parameter(start.clone())
    (w.grad,) = torch.autograd.grad(loss(w), w)
    kind([w], lr=0.1, **{way: True} if way else {}).step()
    return (w - start).detach(), w.stride() == w.grad.stride()


for name, (start, loss) in LOSSES.items():
    for kind in (torch.optim.AdamW, torch.optim.Adam, torch.optim.SGD):
        plain, alike = step(start, loss, kind, "")
        foreach, fused = step(start, loss, kind, "foreach")[0], step(start, loss, kind, "fused")[0]
        wrong = int(((plain - fused).abs() > 1e-4).sum())
        print(f"{name}, {kind.__name__}: fused differs in {wrong} of {start.numel()} numbers, by at most"
              f" {float((plain - fused).abs().max()):.3f} in steps of at most {float(plain.abs().max()):.3f}")
        assert not alike and torch.allclose(plain, foreach, atol=1e-6), "the behaviour has changed"
        assert wrong > 5, "the behaviour has changed"
PYTHON
echo "as stated: fused steps on a CPU take gradients by their place in memory"
