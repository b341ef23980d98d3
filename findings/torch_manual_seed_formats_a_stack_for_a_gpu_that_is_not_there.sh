#!/usr/bin/env bash
# Expected: torch.manual_seed sets a number in a generator, a matter of microseconds.
# Happens: where CUDA was never initialised, each call formats the caller's whole stack as text, for each kind of device, to
#   be shown if a seed that is kept for a later initialisation should fail then. On a machine without any GPU this happens
#   at every call, for ever; the deeper the caller, the longer it takes. torch.default_generator.manual_seed gives the same
#   numbers on the CPU and formats nothing.
# Version: torch 2.13.0 (torch/cuda/__init__.py, `_lazy_call` with seed_all). Seen by running it.
# Matters: code that seeds each part, each row or each episode by name spends its time there; it took 8 % of loading an
#   agent of 80 heads.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check torch==2.13.0 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import time
import traceback

import torch

formatted = []
plain = traceback.format_stack


def counted(*args, **kwargs):
    lines = plain(*args, **kwargs)
    formatted.append(len("".join(lines)))
    return lines


def deep(levels, call):
    return deep(levels - 1, call) if levels else call()


assert not torch.cuda.is_initialized()
traceback.format_stack = counted
deep(50, lambda: torch.manual_seed(7))
by_function, first = list(formatted), torch.rand(3)
formatted.clear()
deep(50, lambda: torch.default_generator.manual_seed(7))
by_generator, second = list(formatted), torch.rand(3)
traceback.format_stack = plain
print(f"torch.manual_seed formats {by_function} letters, default_generator.manual_seed {by_generator}")
print(f"the same numbers: {torch.equal(first, second)}")


def seconds(call):
    begin = time.perf_counter()
    for _ in range(200):
        deep(50, call)
    return time.perf_counter() - begin


ratio = seconds(lambda: torch.manual_seed(7)) / seconds(lambda: torch.default_generator.manual_seed(7))
print(f"fifty calls deep it takes {ratio:.0f} times as long")
assert len(by_function) >= 1 and min(by_function) > 300 and not by_generator, "the behaviour has changed"
assert torch.equal(first, second), "the behaviour has changed"
assert ratio > 5, "the behaviour has changed"
PYTHON
echo "as stated: torch.manual_seed formats the stack"
