"""See: unseen handwritten digits, read from the sight encoder's tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.agent import Agent
from devmind.algorithms.ridge import fit_ridge_classifier
from devmind.curriculum.episodes import identities
from devmind.curriculum.exam import Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.errors import ExamError
from devmind.moment import SIGHT_SIZE
from devmind.seeding import numpy_rng, torch_generator
from stages.reflex.batches import one_tick
from stages.reflex.evidence import picture_exhibits
from stages.reflex.parts import on_trunk
from stages.reflex.recordings import Pictures, pictures, split_pictures


def gate(context: Context) -> Gate:
    """0.95 on scikit-learn's digits, 0.975 on larger sets like MNIST; 0.93 of either by the trunk."""
    small = pictures(context.data).source == "scikit-learn digits"
    return Gate([Threshold("see", 0.95 if small else 0.975), Threshold("see/see_trunk", 0.93, goal=True)])


def as_sight(images: np.ndarray, generator: torch.Generator | None = None) -> Tensor:
    """Grey pictures uint8 [N, H, W] as the fovea would show them, uint8 [N, 64, 64, 3].

    With a generator each is turned (15 deg), scaled (15 %), sheared (0.2) and shifted (8 %) at random.
    """
    planes = torch.from_numpy(np.ascontiguousarray(images))[:, None].float()
    n = len(planes)
    theta = torch.eye(2, 3).expand(n, 2, 3).clone()
    if generator is not None:
        turn, shear = (torch.rand(2, n, generator=generator) * 2 - 1) * torch.tensor([[0.26], [0.2]])
        scale = 1 + 0.15 * (torch.rand(2, n, generator=generator) * 2 - 1)
        cos, sin = turn.cos(), turn.sin()
        theta[:, 0, 0], theta[:, 0, 1] = cos * scale[0], (-sin + shear) * scale[0]
        theta[:, 1, 0], theta[:, 1, 1] = (sin + shear) * scale[1], cos * scale[1]
        theta[:, :, 2] = 0.16 * (torch.rand(n, 2, generator=generator) - 0.5) * 2
    grid = F.affine_grid(theta, [n, 1, SIGHT_SIZE, SIGHT_SIZE], align_corners=False)
    shown = F.grid_sample(planes, grid, mode="bilinear", align_corners=False)
    return shown.round().clamp(0, 255).to(torch.uint8)[:, 0, :, :, None].expand(-1, -1, -1, 3)


def lesson_batch(context: Context, update: int, size: int) -> dict[str, Any]:
    """`size` digits of the lesson's part, distorted at random, with labels int64 [N, 1]."""
    taught, _ = split_pictures(pictures(context.data), context.seed)
    index = numpy_rng(context.seed, "see", update).integers(0, len(taught.labels), size)
    sight = as_sight(taught.images[index], torch_generator(context.seed, "see", update))
    return one_tick({"sight": sight}) | {"digit": torch.from_numpy(taught.labels[index])[:, None]}


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Cross-entropy of the digit."""
    value = agent(batch, ["see"])["see"].loss(batch["digit"])
    return value, {"see": value.detach()}


def source_group(every: Pictures, seed: int) -> str:
    """How a set of pictures, split by a seed, is listed in the agent's `trained_on`."""
    return f"pictures:{every.source}#{seed}"


def exam_pictures(agent: Agent, context: Context) -> tuple[Pictures, Pictures]:
    """(pictures the floors are fitted on, pictures to examine): nothing the agent was taught is examined."""
    every = pictures(context.data)
    prefix = source_group(every, 0).rpartition("#")[0] + "#"
    seeds = [int(group.removeprefix(prefix)) for group in agent.config.trained_on if group.startswith(prefix)]
    if len(set(seeds)) > 1:
        raise ExamError(
            f"The agent was taught '{every.source}' under the seeds {sorted(set(seeds))}, whose held-out parts differ; "
            "nothing unseen is surely left. Examine with another --data."
        )
    return split_pictures(every, seeds[0] if seeds else context.seed)


def examine(agent: Agent, context: Context, level: str) -> Sequence[Measure]:
    """Share of unseen digits named rightly, with ridge on pixels and on random features as floors."""
    taught, unseen = exam_pictures(agent, context)
    n = min(context.episodes(len(unseen.labels)), len(unseen.labels))
    # Spread over the set, whose rows may come writer by writer.
    chosen_rows = np.linspace(0, len(unseen.labels) - 1, n if level != "glimpse" else max(1, n // 5)).astype(int)
    unseen = unseen.take(chosen_rows)
    sight = as_sight(unseen.images)
    chosen = _named(agent, "see", sight)
    right = chosen == unseen.labels
    full = level == "full"
    wrong = np.flatnonzero(~right)[:8]
    captions = [f"a {unseen.labels[i]}, taken for a {chosen[i]}" for i in wrong]
    measures = [
        Measure(
            "see",
            "digits named rightly",
            right.astype(np.float64),
            chance=0.1,
            ceiling=1.0,
            rate=True,
            floors=_floors(taught, unseen) if full else {},
            rows={"ridge on this agent's sight tokens": _linear_row(agent, taught, unseen)} if full else {},
            reference="a small convolutional net: 0.99 on MNIST digits (measured, 8,000 examples)",
            note=f"{unseen.source}; {len(unseen.labels)} held out of the lessons",
            episodes=identities({"picture": unseen.images}),
            exhibits=picture_exhibits("failure", sight[wrong].numpy(), captions) if full else (),
        )
    ]
    if own := on_trunk(agent, "see"):
        by_itself = (_named(agent, own, sight) == unseen.labels).astype(np.float64)
        measures.append(replace(measures[0], name="see/see_trunk", values=by_itself, rows={}, exhibits=()))
    return measures


def taught_pictures(context: Context, n: int) -> np.ndarray:
    """Up to `n` of the pictures that lessons show, before they are distorted: int64."""
    return identities({"picture": split_pictures(pictures(context.data), context.seed)[0].images[:n]})


def _named(agent: Agent, head: str, sight: Tensor) -> np.ndarray:
    """The digit that `head` takes each picture [N, ...] for, int64 [N]."""
    chosen = [agent(one_tick({"sight": part}), [head])[head].mode()[:, 0] for part in sight.split(256)]
    return torch.cat(chosen).cpu().numpy()


def _floors(taught: Pictures, unseen: Pictures) -> dict[str, float]:
    x, y = (part.images.reshape(len(part.images), -1) / 255.0 for part in (taught, unseen))
    rng = numpy_rng("see", "random features")
    weights = rng.standard_normal((x.shape[1], 1000)) / np.sqrt(x.shape[1]) * 3
    lifted = [np.tanh((part - x.mean(0)) @ weights) for part in (x, y)]
    return {
        "ridge on pixels": _accuracy(x, taught.labels, y, unseen.labels),
        "ridge on random features": _accuracy(lifted[0], taught.labels, lifted[1], unseen.labels),
    }


def _linear_row(agent: Agent, taught: Pictures, unseen: Pictures) -> float:
    """A linear head fitted in closed form on the frozen tokens of the sight encoder."""
    x, y = (
        torch.cat([agent.encode_senses({"sight": s})["sight"].tokens.flatten(1) for s in as_sight(p.images).split(256)])
        .cpu().numpy()
        for p in (taught.take(np.arange(min(3000, len(taught.labels)))), unseen)
    )  # fmt: skip
    return _accuracy(x, taught.labels[: len(x)], y, unseen.labels)


def _accuracy(x: np.ndarray, labels: np.ndarray, y: np.ndarray, wanted: np.ndarray) -> float:
    return float((fit_ridge_classifier(x, labels, penalty=100.0).predict(y) == wanted).mean())
