#!/usr/bin/env bash
# Expected: the Trainer's precision "64-true" turns the model and each batch into float64. A thread that makes the next batch
#   meanwhile is not part of that: it computes what it computes at "32-true", so the data of two runs are the same.
# Happens: around each training step Lightning sets torch's default dtype to float64, and that is one setting for the whole
#   process. While the step runs, tensors that another thread makes without a dtype are float64: torch.rand draws other
#   numbers from the same seed, and what was float32 by default no longer fits it. Between two steps they are float32
#   again, so which of the two a batch gets depends on when its thread happened to run.
# Version: lightning 2.6.6 (lightning/pytorch/plugins/precision/double.py, `forward_context`), torch 2.13.0. Seen by running.
# Matters: whoever prefetches batches by a thread and asks for double precision gets data that depend on the clock, without a
#   word; a comparison of the two precisions then compares other data, and a killed run does not resume to the same bits.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check torch==2.13.0 lightning==2.6.6 numpy==2.4.6
cd "$folder"
cat >teach.py <<'PYTHON'
import logging
import sys
import threading
import warnings

import torch
from lightning import LightningModule, Trainer

warnings.simplefilter("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def make_batch():
    return torch.rand(1, generator=torch.Generator().manual_seed(7))


class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer, self.made = torch.nn.Linear(1, 1), []

    def training_step(self, batch, number):
        thread = threading.Thread(target=lambda: self.made.append(make_batch()))  # as a loader does for the next step
        thread.start()
        thread.join()
        return self.layer(batch).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


model = Model()
Trainer(
    max_steps=1, precision=sys.argv[1], accelerator="cpu", logger=False, enable_checkpointing=False,
    enable_progress_bar=False, enable_model_summary=False,
).fit(model, torch.utils.data.DataLoader([torch.ones(1)]))
after = make_batch()
print(f"{sys.argv[1]}: in the step {model.made[0].item():.6f} {model.made[0].dtype}, after it {after.item():.6f} {after.dtype}")
PYTHON
for precision in 32-true 64-true; do "$folder/env/bin/python" teach.py "$precision"; done | tee seen.txt
number=$(sed -nE 's/^32-true: in the step ([0-9.]+) torch.float32, after it \1 torch.float32$/\1/p' seen.txt)
test -n "$number"
grep -qE "^64-true: in the step [0-9.]+ torch.float64, after it $number torch.float32$" seen.txt
! grep -qE "^64-true: in the step $number " seen.txt
echo "as stated: another thread draws other numbers while a step of 64-true runs"
