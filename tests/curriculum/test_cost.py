"""What a step is foretold to cost is what it costs: FLOPs beside a formula, memory beside the process itself."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.curriculum.cost import FlopCounter, LiveBytes, StepCost, cost_of_step, costs, fake_newborn
from devmind.curriculum.start import load_stage
from devmind.errors import ConfigError
from devmind.testing import tiny_context

ROOT = Path(__file__).parents[2]
STAGE, LESSON = "reflex", "perceive"

RESIDENT = """
import gc, sys, tempfile
from pathlib import Path
from devmind import worlds
from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.config import load
from devmind.curriculum.cost import costs
from devmind.curriculum.stage import Context
from devmind.curriculum.start import load_stage

def status(key):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(key))

_, told = costs("reflex/watch", ["nursery"])
agent, config = Agent(AgentConfig(size="nursery")), load("nursery", sets=["device=cpu"])
stage, context = load_stage("reflex"), Context(config, 0, "cpu", Path(tempfile.mkdtemp()), worlds.make)
stage.admit(agent)
lesson = next(one for one in stage.lessons(context) if one.name == "watch")
learner = lesson.make_learner(agent, context)
learner.steps, batch = 2, next(iter(lesson.make_batches(agent, context, 2)))
agent.train()
learner.begin(0)
gc.collect()
without = status("VmRSS") - told["nursery"].weights
learner.update(batch, 0)
learner.optimizer.zero_grad()
open("/proc/self/clear_refs", "w").write("5")  # forget the peak so far
learner.update(batch, 1)
print((status("VmHWM") - without) / told["nursery"].peak)
"""


def test_live_bytes_counts_each_live_storage_once() -> None:
    with LiveBytes() as counter:
        first = torch.zeros(1000)
        second = first + 1
        view = second[:10]
        assert (counter.live, counter.most) == (8000, 8000)
        del first
        assert (counter.live, counter.most) == (4000, 8000)
        del second
        assert counter.live == 4000, "a view keeps its storage alive"
        del view
    assert counter.live == 0


def test_flops_of_the_trunk_are_those_of_the_formula() -> None:
    """Kaplan et al. 2020: forward and backward pass are 6 FLOP a weight and token, and attention comes to it."""
    agent = Agent(AgentConfig(size="nursery"))
    decoder, rows, length = agent.trunk.decoder, 3, 64
    tokens = torch.randn(rows, length, agent.config.width, requires_grad=True)
    with FlopCounter() as counter:
        decoder(inputs_embeds=tokens).last_hidden_state.sum().backward()
    weights = sum(one.numel() for name, one in decoder.layers.named_parameters() if one.ndim == 2)
    # Two products of queries, keys and values forward; backward five, as scores are computed again.
    attention = (2 + 5) * 2 * rows * length**2 * agent.config.width * agent.config.layers
    assert counter.get_total_flops() == pytest.approx(6 * weights * rows * length + attention, rel=0.05)


def test_step_foretold_on_fake_tensors_is_the_step_of_real_ones(tmp_path: Path) -> None:
    context, found = tiny_context(tmp_path), list[StepCost]()
    for agent in (fake_newborn("tiny", [STAGE]), Agent(AgentConfig(size="tiny"))):
        stage = load_stage(STAGE)
        if found:
            stage.admit(agent)
        lesson = next(one for one in stage.lessons(context) if one.name == LESSON)
        found.append(cost_of_step(lesson, agent, context))
    fake, real = found
    assert (fake.parameters, fake.trained, fake.tokens) == (real.parameters, real.trained, real.tokens)
    assert fake.flops == real.flops > 6 * fake.tokens * 1000
    for name in ("weights", "gradients", "optimizer", "saved", "peak"):
        assert getattr(fake, name) == pytest.approx(getattr(real, name), rel=0.02), name
    assert fake.peak >= fake.weights + fake.saved
    assert fake.optimizer == pytest.approx(2 * fake.gradients, rel=0.01), "AdamW keeps two numbers for each that learns"
    assert fake.ddp(2) == 4 * fake.trained
    assert fake.fsdp(1) == fake.ddp(1) == 0


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of resident memory from /proc")
def test_peak_of_a_nursery_step_is_that_of_the_process() -> None:
    environment: dict[str, Any] = {"OMP_NUM_THREADS": "1", "MALLOC_MMAP_THRESHOLD_": "16384"}
    ran = subprocess.run(
        [sys.executable, "-c", RESIDENT],
        cwd=ROOT,
        env=os.environ | environment | {"MALLOC_TRIM_THRESHOLD_": "16384"},
        text=True,
        capture_output=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert float(ran.stdout.split()[-1]) == pytest.approx(1, abs=0.1)


def test_lessons_that_cannot_be_foretold_are_refused() -> None:
    with pytest.raises(ConfigError, match="goes down one loss can be foretold; 'motor' is of another kind"):
        costs("reflex/motor", ["tiny"])
    with pytest.raises(ConfigError, match="has no lesson 'perceeve'; did you mean 'perceive'"):
        costs("reflex/perceeve", ["tiny"])


def test_double_precision_is_not_foretold_as_bfloat16(tmp_path: Path) -> None:
    """Regression: whatever was not 32-true was counted under autocast to bfloat16."""
    agent, context = fake_newborn("tiny", [STAGE]), tiny_context(tmp_path, "precision=64-true")
    lesson = next(one for one in load_stage(STAGE).lessons(context) if one.name == LESSON)
    with pytest.raises(ConfigError, match="64-true takes twice the bytes"):
        cost_of_step(lesson, agent, context)
