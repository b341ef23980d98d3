#!/usr/bin/env bash
# Expected: a tensor on the device "meta" has a shape and no numbers, so that it is the cheap way to ask how large
#   something would be; nothing is compiled, so no compiler is loaded.
# Happens: operations without a kernel of their own for "meta" run in Python (torch._refs). The first such call in a process
#   (adding, arange, linspace, eye) imports sympy and, behind a decorator, torch._dynamo: some 500 to 800 modules and one to
#   three CPU seconds, where empty, zeros, full and rand import nothing.
# Version: torch 2.13.0 (torch/_prims_common/wrappers.py; torch/__init__.py, `_check_with`; torch/_compile.py). Seen by
#   running it.
# Matters: a guard that asked "meta" for the size of each tensor before it was allocated made every command that loads an
#   agent three seconds slower: transformers' rotary positions call arange. The size follows from the arguments as well.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check torch==2.13.0 numpy==2.4.6
cd "$folder"
cat >ask.py <<'PYTHON'
import sys
import time

import torch

CALLS = {
    "zeros": lambda: torch.zeros(3, device="meta"),
    "full": lambda: torch.full((3,), 1.0, device="meta"),
    "rand": lambda: torch.rand(3, device="meta"),
    "arange": lambda: torch.arange(3, device="meta"),
    "linspace": lambda: torch.linspace(0, 1, 3, device="meta"),
    "eye": lambda: torch.eye(3, device="meta"),
    "add": lambda: torch.ones(3, device="meta") + 1,
}
before, begin = len(sys.modules), time.process_time()
CALLS[sys.argv[1]]()
loaded = [name for name in ("sympy", "torch._dynamo") if name in sys.modules]
print(f"{sys.argv[1]}: {len(sys.modules) - before} modules, {loaded}, {time.process_time() - begin:.2f} CPU s")
PYTHON
for call in zeros full rand arange linspace eye add; do "$folder/env/bin/python" ask.py "$call"; done | tee seen.txt
grep -qE "^zeros: 0 modules" seen.txt && grep -qE "^full: 0 modules" seen.txt && grep -qE "^rand: 0 modules" seen.txt
grep -qE "^arange: [3-9][0-9]{2} modules, \['sympy'" seen.txt && grep -qE "^linspace: [3-9][0-9]{2} modules, \['sympy'" seen.txt
grep -qE "^eye: .*'torch._dynamo'" seen.txt && grep -qE "^add: .*'torch._dynamo'" seen.txt
echo "as stated: a sum on the device meta loads the compiler"
