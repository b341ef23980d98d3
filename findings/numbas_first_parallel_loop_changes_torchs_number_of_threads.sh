#!/usr/bin/env bash
# Expected: after torch.set_num_threads(1), torch computes on one thread until the program says otherwise. numba has a
#   number of threads of its own (NUMBA_NUM_THREADS, numba.set_num_threads).
# Happens: the first @njit(parallel=True) function that a thread calls sets torch's number for that thread to numba's,
#   since both use one OpenMP runtime and numba's layer "omp" sets its number of threads when it starts. The gradient of
#   a LayerNorm's weight then has other last bits than before. Nothing is printed, other threads keep their number, and
#   a second call of torch.set_num_threads(1) holds from then on.
# Version: numba 0.68.1 (threading layer omp), torch 2.13.0 on the CPU, CPython 3.11. Seen by running it; NUMBA_NUM_THREADS
#   is set to 3, so that it does not depend on the machine; by default it is the number of processors.
# Matters: programs that fix one thread for equal bits, or because they share a machine, lose it in the middle of a run,
#   in the one thread that renders with numba and learns with torch. On a busy machine small operations then wait at
#   barriers for a thread that is not running: 4 ms each were seen for 0.03.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check numba==0.68.1 numpy torch==2.13.0
cd "$folder"
NUMBA_NUM_THREADS=3 NUMBA_THREADING_LAYER=omp "$folder/env/bin/python" - <<'PYTHON'
import threading

import numba
import numpy as np
import torch


@numba.njit(parallel=True)
def total(x):
    found = 0.0
    for place in numba.prange(len(x)):
        found += x[place]
    return found


rows = torch.randn(1001, 64, generator=torch.Generator().manual_seed(1))


def gradient():
    weight = torch.ones(64, requires_grad=True)
    torch.nn.functional.layer_norm(rows, (64,), weight).square().sum().backward()
    return weight.grad


torch.set_num_threads(1)
before, first, second = torch.get_num_threads(), gradient(), gradient()
total(np.ones(10))
after, third = torch.get_num_threads(), gradient()
elsewhere = []
thread = threading.Thread(target=lambda: elsewhere.append(torch.get_num_threads()))
thread.start()
thread.join()
torch.set_num_threads(1)
total(np.ones(10))
again = torch.get_num_threads()
print(f"torch's threads: {before} before numba's first parallel loop, {after} after it, {elsewhere[0]} in another thread,"
      f" {again} behind a second set_num_threads(1) and loop; {(first != third).sum()} of 64 gradients have other bits")
assert (before, after, elsewhere[0], again) == (1, 3, 1, 1), "the behaviour has changed"
assert torch.equal(first, second) and not torch.equal(first, third), "the behaviour has changed"
PYTHON
echo "as stated: numba's first parallel loop changed torch's number of threads, and the last bits of a gradient"
