"""Draws the three pictures of learners.md from three small trainings of some seconds: python docs/learners.py"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate
from devmind.agent.config import AgentConfig
from devmind.algorithms import population
from devmind.algorithms.closed_form import Sums
from devmind.learners.gradient import gradient_lesson, head_loss
from devmind.moment import Moment
from devmind.seeding import numpy_rng
from devmind.testing import tiny_context

DOCS = Path(__file__).parent
WIDE, HIGH, STEPS = 640, 220, 320
Curve = Sequence[tuple[float, float]]


def picture(title: str, below: str, curves: Sequence[tuple[Curve, str, float]], words: str = "", low: float = 0) -> str:
    """Curves (points, colour, width) as SVG, over one scale from `low` to their highest point."""
    points = [point for curve, _, _ in curves for point in curve]
    right, top = max(x for x, _ in points), max(y for _, y in points)

    def place(x: float, y: float) -> str:
        return f"{50 + (WIDE - 70) * x / right:.1f},{34 + (HIGH - 74) * (top - max(y, low)) / (top - low):.1f}"

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDE} {HIGH}" font-family="sans-serif"']
    parts.append(f' font-size="12"><rect width="100%" height="100%" fill="white"/><text x="50" y="18">{title}</text>')
    parts.append(f'<path d="M{place(0, top)} {place(0, low)} {place(right, low)}" fill="none" stroke="#666"/>')
    for y in (low, top):
        parts.append(f'<text x="44" y="{place(0, y).split(",")[1]}" text-anchor="end" dy="4">{y:.3g}</text>')
    parts.append(f'<text x="{WIDE - 20}" y="{HIGH - 14}" text-anchor="end">{below}: 0 to {right:.0f}</text>')
    for curve, colour, width in curves:
        line = " ".join(place(x, y) for x, y in curve)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="{width}"/>')
    parts.append(f'<text x="50" y="{HIGH - 14}" fill="#333">{words}</text></svg>')
    return "\n".join(parts) + "\n"


def digits() -> tuple[Tensor, Tensor]:
    """scikit-learn's digits: pixels [1797, 64] in 0..1, and labels."""
    data = load_digits()
    return torch.from_numpy(data.data).float() / 16, torch.from_numpy(data.target)


def closed_form() -> str:
    """Digits in three orders: what is known of unseen ones on the way differs, the end does not."""
    pixels, labels = digits()
    features = torch.cat(
        (pixels, (pixels @ torch.randn(64, 256, generator=torch.Generator().manual_seed(0))).tanh()), 1
    )
    taught, curves, ends = torch.arange(1200), [], []
    for seed, colour in enumerate(("#1f5fbf", "#c04040", "#208040")):
        order = taught[torch.randperm(len(taught), generator=torch.Generator().manual_seed(seed))]
        sums, curve = Sums(320, 10, 4.0), [(0.0, 0.1)]
        for rows in order.split(60):
            sums.update(features[rows], labels[rows])
            right = sums.solve().scores(features[1200:]).argmax(1) == labels[1200:]
            curve.append((float(sums.seen), float(right.float().mean())))
        curves.append((curve, colour, 1.5))
        ends.append(sums.state_dict())
    assert all(torch.equal(value, end[name]) for end in ends for name, value in ends[0].items())
    title = "Closed form: share of unseen digits said rightly, for three orders of the same digits"
    return picture(title, "digits seen", curves, "in the end the same bits", low=0.6)


def many() -> str:
    """Loss of 200 small networks with learning rates from 0.001 to 10, and the one that becomes the head."""
    pixels, labels = digits()
    seeds, rates = torch.arange(200), torch.logspace(-3, 1, 200)
    crowd = population.make((64, 16, 10), seeds, rates)
    losses = population.train(crowd, pixels[:1200], labels[:1200], 240, 32)
    smooth = losses.nan_to_num(9.0, 9.0).clamp_max(3.5).unfold(1, 12, 6).mean(2)
    best = int(population.ranked(crowd, losses[:, -48:].mean(1))[0])
    shown = [*range(0, 200, 4), best]
    curves = []
    for member in shown:
        part = member / 200
        colour = f"rgb({int(40 + 200 * part)},70,{int(220 - 190 * part)})"
        curve = [(12.0 + 6 * at, float(value)) for at, value in enumerate(smooth[member])]
        curves.append((curve, "black" if member == best else colour, 2.5 if member == best else 0.6))
    words = f"black: the one that becomes the head (rate {float(rates[best]):.2g})"
    return picture("A population: loss of 51 of 200 networks, blue to red by learning rate", "steps", curves, words)


def signals(update: int, rows: int) -> Batch:
    """Signals of eight numbers; the class is the place of the largest of the products of neighbours."""
    values = numpy_rng(0, "growing", update).normal(size=(rows, 1, 8)).astype("float32")
    made = collate([[Moment(0.0, {"signal": row[0]})] for row in values])
    made["class"] = torch.from_numpy((values[..., ::2] * values[..., 1::2]).argmax(-1).astype(np.int64))
    return made


def growth() -> str:
    """Neurons of a tiny agent's trunk that are alive, and how much gradient the newborn get beside all others."""
    agent = Agent(AgentConfig(size="tiny"))
    agent.add_encoder("signal", "encoder.vector", options={"size": 8})
    agent.add_head("choose", "head.categorical", effector="choose", options={"classes": 4})
    found: dict[str, list[tuple[float, float]]] = {"growth/neurons": [], "growth/newborn_gradient": []}
    with TemporaryDirectory() as folder:
        settings = {"grow": 8, "grow_size": 16, "grow_deaths": 1, "grow_synapses": 0.5}
        context = tiny_context(Path(folder), *(f"lessons.grows.options.{key}={n}" for key, n in settings.items()))

        def make(agent: Agent, context: Any, update: int, rows: int, steps: int) -> Mapping[str, Any]:
            return signals(update, rows)

        loss = head_loss("choose", "class")
        lesson = gradient_lesson(
            context, "grows", loss, make, steps={"tiny": STEPS}, rows=64, learning_rate=3e-3, minutes=1
        )
        learner = lesson.make_learner(agent, context)
        learner.steps = STEPS
        learner.begin(0)
        for step in range(STEPS):
            scalars = learner.update(signals(step, 64), step)
            for name, curve in found.items():
                if name in scalars:
                    curve.append((float(step), float(scalars[name])))
        learner.end()
    neurons, share = found.values()
    times = [(x, math.log10(y)) for x, y in share]
    low, high, most = min(y for _, y in times), max(y for _, y in times), neurons[-1][1]
    scaled = [(x, low + (high - low) * y / most) for x, y in neurons]
    title = "Growth: log10 of the newborn neurons' gradient, as a multiple of that of all others"
    words = f"green: neurons alive, {neurons[0][1]:.0f} to {most:.0f}"
    return picture(title, "steps", [(scaled, "#208040", 2.0), (times, "#c07020", 1.2)], words, low)


if __name__ == "__main__":
    for name, draw in (("closed-form", closed_form), ("population", many), ("growth", growth)):
        (DOCS / f"learner-{name}.svg").write_text(draw(), encoding="utf-8")
