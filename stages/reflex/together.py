"""Together: the trunk learns to see, hear, bind, look, reach and withdraw by itself, and to predict the next tokens.

Its heads begin as copies of the taught heads and arcs, reading the trunk's features of the same senses (`prepare`).
Their targets are the truth; the target of reaching is what the arc does. A batch has rows of all levels. Half of the
rows move at random and half as the trunk says, so that the body never reveals the target. Encoders and arcs stay as
they are, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from devmind.acting import Actor, Senses, rollout
from devmind.acting.rollout import Actions
from devmind.agent.agent import Agent
from devmind.agent.batch import as_tensors, clip, map_tensors, stack_ticks, to_device
from devmind.agent.decoders import zero_outputs
from devmind.agent.heads import WithReadoutHead
from devmind.agent.output import masked_mean
from devmind.agent.prediction import predicting, residuals
from devmind.agent.taps import Perceived
from devmind.curriculum.stage import Context, Rehearsed, Scalars
from devmind.learners.muon import MuonLearner
from devmind.seeding import lesson_seeds, numpy_rng
from devmind.worlds.nursery.state import NO_EVENT
from devmind.worlds.side_by_side import Joined
from stages.reflex.bind import lesson as bind
from stages.reflex.foresee import lesson as foresee
from stages.reflex.hear import lesson as hear
from stages.reflex.orient import lesson as orient
from stages.reflex.parts import COPIES, FORESEEN, NAME
from stages.reflex.see import lesson as see
from stages.reflex.startle import lesson as startle
from stages.reflex.trials import by_themselves

HEADS = ("heads.next_", "heads.spoken.", *(f"heads.{name}." for name in (*COPIES, *FORESEEN)))
"""Parameters that a twin learns, whose trunk does not."""
TRAINS = ("trunk.", "readout", *HEADS)
LEVELS = (
    "orient/motion", "track", "startle", "orient/sound", "reach", "orient/sight", "orient/motion",
    "orient/empty", "reach", "startle", "track", "orient/sight", "clutter/empty", "reach", "orient/motion", "room",
)  # fmt: skip
"""The levels of a batch's rows, in turn. The level `room` asks nothing: it is there to be predicted."""
FILMED = ("orient/motion", "orient/sight", "orient/empty", "clutter/empty", "track", "room")
"""Levels in which the share AS_FILMED of the rows gets what a camera gives: the trunk has to act in a life, too."""
AS_FILMED = 0.4
MOVES = {"look": 2, "reach": 4, "move": 1}
TICKS = 12
STEPS = 3
"""Optimizer steps a batch, each on its share of the rows: acting side by side is cheaper than in turn."""
PAIRS = 2
"""Pairs of Moments a row that a rehearsal adds; the second Moment of a pair may hold an event to withdraw from. The
rows hold few events, which later stages learned by heart (docs/log.md, 2026-11-27)."""
STARTS = 0.1
"""Probability a tick that a row which moves at random withdraws."""
PERCEIVED = ("see", "hear", "bind")
PERCEIVED_ROWS = {"see": 2, "hear": 1, "bind": 2}
"""Perceiving rows a row of the batch; these rows have 1, 5 and 1 Moments."""
UNSEEN = 1_000_000
"""First turn of the perceiving tasks here, so that no batch is one that `perceive` has shown."""
LEARNING_RATE, MUON_RATE, COPY_RATE, DECAY_FROM = 1e-3, 0.01, 5e-4, 0.4
EMPTY_WEIGHT = 2.0
"""Weight of a row without a target: a slightly wrong turn costs little with a target, and all rest without one."""
ALARM_WEIGHT = 5.0
"""Weight of a tick with an event to withdraw from. Such ticks are few: with equal weights a sixth of the looming
objects was missed, with a twentieth of the allowed false alarms (docs/log.md, 2026-11-26)."""
WEIGHTS = {"look": 2.0, "reach": 4.0, "startle": 1.0, "perceived": 0.5, "foresee": 0.5, "pixels": 0.1}


def level_effectors(level: str) -> tuple[str, ...]:
    """The effectors of a row of this level, as in its exam; in a room gaze and hand."""
    return {"reach": ("reach",), "startle": ("move",), "room": ("look", "reach")}.get(level, ("look",))


def lesson_batch(agent: Agent, context: Context, update: int, size: int, rehearsed: bool = False) -> dict[str, Any]:
    """`size` rows of all levels for twelve ticks with their targets, and a batch of each perceiving task.

    `moved` holds the rows of each optimizer step; the steps also take the batches of `perceived` in turn.

    Args:
        rehearsed: for a later stage: one step takes all of it. Rows that do not move at random move by their arcs, so
            the batch does not depend on what is learned meanwhile.
    """
    size, steps = max(size, STEPS), 1 if rehearsed else STEPS
    tasks = (*PERCEIVED, *(("speech",) if hear.has_speech(context) else ()))
    perceived = [{"task": task} | _perceived(context, task, UNSEEN + update, size // STEPS) for task in tasks]
    moved = moved_rows(agent, context, update, size, rehearsed)
    batch = {"moved": [_part(moved, np.arange(step, size, steps)) for step in range(steps)], "perceived": perceived}
    return batch | {"events": _events(agent, context, UNSEEN + update, PAIRS * size)} if rehearsed else batch


def _events(agent: Agent, context: Context, turn: int, size: int) -> dict[str, Any]:
    """`size` pairs of Moments, encoded (encoders do not learn here); withdraw int64 [B, 2], 1 if the second holds
    an event."""
    pairs = startle.event_batch(context, turn, size)
    event = pairs.pop("event")
    with torch.no_grad():
        seen = agent.encode_batch(to_device(pairs, agent.device)).without_maps()
    return {"seen": seen, "first": pairs["first"], "withdraw": (event != NO_EVENT).long()}


def _part(batch: Mapping[str, Any], rows: np.ndarray) -> dict[str, Any]:
    """The given rows of a batch, its encoded senses included."""
    index = torch.from_numpy(rows)
    seen: Perceived = batch["seen"]
    tensors = {name: value for name, value in batch.items() if name != "seen"}
    return map_tensors(tensors, lambda x: x[index]) | {"seen": seen.map(lambda x: x[index.to(x.device)])}


def _perceived(context: Context, task: str, turn: int, size: int) -> dict[str, Any]:
    if task == "speech":
        return hear.speech_batch(context, turn, size)
    make = {"see": see.lesson_batch, "hear": hear.lesson_batch, "bind": bind.lesson_batch}[task]
    return make(context, turn, PERCEIVED_ROWS[task] * size)


def moved_rows(agent: Agent, context: Context, update: int, size: int, by_arcs: bool = False) -> dict[str, Any]:
    """`size` rows of twelve Moments, half of them moved by the trunk, or `by_arcs`. Beside the senses:

    turn [B, T, 2] and axes [B, T, 2] (the weight of each axis), withdraw int64 [B, T] and quiet bool [B, T] (whether
    it counts), reaches bool [B]; and `seen`, the encoded senses (encoders do not learn here).
    """
    levels = sorted(LEVELS[(update + row) % len(LEVELS)] for row in range(size))
    seeds = lesson_seeds(size, context.seed, "together", update)
    kinds = sorted(set(levels))
    worlds = [context.make_world("nursery", kind, seeds[[one == kind for one in levels]]) for kind in kinds]
    world: Any = worlds[0] if len(worlds) == 1 else Joined(worlds)
    by_itself = (np.arange(size) // STEPS + update) % 2 == 0
    policy = _moving(agent, levels, by_itself, by_arcs, numpy_rng(context.seed, "together", "moves", update))
    ticks, truths = [], [_truths(worlds, levels)]
    for tick in rollout(policy, world, TICKS):
        ticks.append(as_tensors(tick.senses))
        truths.append(_truths(worlds, levels))
    batch = clip(stack_ticks(ticks))
    rng = numpy_rng(context.seed, "together", "filmed", update)
    orient.as_filmed(batch, rng, np.array([level in FILMED for level in levels]) & (rng.random(size) < AS_FILMED))
    targets = stack_ticks(truths[:TICKS])
    with torch.no_grad():
        seen = agent.encode_batch(to_device(batch, agent.device)).without_maps()
    return batch | targets | {"reaches": torch.tensor([level == "reach" for level in levels]), "seen": seen}


def _moving(agent: Agent, levels: Sequence[str], by_itself: np.ndarray, by_arcs: bool, rng: np.random.Generator) -> Any:
    """A policy: rows `by_itself` move by the agent's trunk, or its arcs; the others drift at random. Each row uses the
    effectors of its level.
    """
    size, moving = len(levels), np.flatnonzero(by_itself)
    standing = None if by_arcs else by_themselves(agent)
    actor = Actor(agent, effectors=list(MOVES), standing=standing, trunk=not by_arcs, beliefs=not by_arcs)
    drift = {name: rng.normal(0, 0.5, (size, width)) for name, width in MOVES.items() if name != "move"}
    uses = {name: np.array([name in level_effectors(level) for level in levels])[:, None] for name in MOVES}

    def act(senses: Senses, first: np.ndarray) -> Actions:
        for name, value in drift.items():
            drift[name] = 0.8 * value + rng.normal(0, 0.4, value.shape)
        actions = {name: value.clip(-1, 1) for name, value in drift.items()}
        actions["move"] = np.where(rng.random((size, 1)) < STARTS, -1.0, 0.0)
        if len(moving):
            felt = {
                name: [value[i] for i in moving] if name == "words" else value[moving] for name, value in senses.items()
            }
            own_actions = actor(felt, first[moving])
            for name, action in actions.items():
                value = own_actions.get(name, np.zeros(0)).reshape(len(moving), -1)
                # Without an answer, or with one of another width than this world's effector, nothing moves.
                action[moving] = value if value.shape[1] == action.shape[1] else 0.0
        return {name: (value * uses[name]).astype(np.float32) for name, value in actions.items()}

    return act


def _truths(worlds: Sequence[Any], levels: Sequence[str]) -> dict[str, np.ndarray]:
    """The targets of every row at this tick."""
    truths = [world.truth() for world in worlds]
    turn = np.concatenate([orient.target_turn(truth) for truth in truths])
    event = np.concatenate([truth["event"] for truth in truths])
    since = np.concatenate([truth["tick"] - truth["event_tick"] for truth in truths])
    since = np.where(event == NO_EVENT, -1, since)
    # A sound's height is not judged: the ears cannot tell it.
    sideways = np.array([level_effectors(level) == ("look",) for level in levels])
    upwards = sideways & np.array([level != "orient/sound" for level in levels])
    empty = np.array([level.endswith("/empty") for level in levels])
    axes = np.stack([sideways, upwards], 1) * np.where(empty, EMPTY_WEIGHT, 1.0)[:, None]
    return {
        "turn": turn,
        "axes": axes.astype(np.float32),
        "withdraw": ((since >= 0) & (since <= 1)).astype(np.int64),
        "quiet": since <= 1,
    }


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of a whole batch, all steps together: what later lessons rehearse."""
    parts = [step_loss(agent, batch, step) for step in range(len(batch["moved"]))]
    scalars: dict[str, Tensor] = {}
    for _, each in parts:
        scalars |= each
    value = sum((value for value, _ in parts), start=torch.zeros(())) / len(parts)
    if "events" not in batch:
        return value, scalars
    starts = _events_loss(agent, to_device(batch["events"], agent.device))
    return value + WEIGHTS["startle"] * starts, scalars | {"startle at pairs": starts.detach()}


def _events_loss(agent: Agent, batch: Mapping[str, Any]) -> Tensor:
    """The loss of the withdrawing head on the second Moments of pairs."""
    head = agent.run_heads(["move_trunk"], agent.think(batch["seen"], batch["first"]))["move_trunk"]
    judged = torch.zeros_like(batch["first"])
    judged[:, 1] = True
    return head.loss(batch["withdraw"], judged)


def step_loss(agent: Agent, batch: Mapping[str, Any], step: int) -> tuple[Tensor, dict[str, Tensor]]:
    """The weighted sum of the losses of all that one step's share asks."""
    value, scalars = _moved_loss(agent, to_device(batch["moved"][step], agent.device))
    for part in batch["perceived"][step :: len(batch["moved"])]:
        perceived, more = _perceived_loss(agent, to_device(part, agent.device))
        value, scalars = value + WEIGHTS["perceived"] * perceived, {**scalars, **more}
    return value, scalars


def _perceived_loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    if batch["task"] == "speech":
        return hear.speech_loss(agent, batch)
    name = f"{batch['task']}_trunk"
    target = batch[{"see": "digit", "hear": "kind", "bind": "cell"}[batch["task"]]]
    value = agent(batch, [name])[name].loss(target)
    return value, {name.replace("_", " "): value.detach()}


def _moved_loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    pixels = predicting(agent, batch["senses"])
    names = ["look_trunk", "reach_trunk", "move_trunk", *FORESEEN, *pixels]
    seen = agent.think(batch["seen"], batch["first"])
    outputs = agent.run_heads(names, seen)
    with torch.no_grad():
        arc = agent.run_heads(["reach_arc"], seen)["reach_arc"].mode().clamp(-1, 1)
    off = (outputs["look_trunk"].mode() - batch["turn"]).abs() * batch["axes"]
    each = {"look": off.sum() / batch["axes"].sum().clamp_min(1)}
    reaches = batch["reaches"][:, None].expand(batch["first"].shape)
    each["reach"] = masked_mean((outputs["reach_trunk"].mode() - arc).abs().mean(-1), reaches)
    judged = batch["quiet"] * torch.where(batch["withdraw"] > 0, ALARM_WEIGHT, 1.0)
    each["startle"] = outputs["move_trunk"].loss(batch["withdraw"], judged)
    ratios = {name: found.ratio() for name, found in foresee.residuals(agent, outputs, seen, batch).items()}
    pixel_ratios = {
        name: found.ratio() for name, found in residuals({name: outputs[name] for name in pixels}, batch).items()
    }
    each["foresee"], each["pixels"] = (sum(part.values(), start=torch.zeros(())) for part in (ratios, pixel_ratios))
    total = sum((WEIGHTS[name] * value for name, value in each.items()), start=torch.zeros(()))
    scalars = {name: each[name].detach() for name in ("look", "reach", "startle")}
    return total, scalars | {
        name.replace("_", " "): value.detach() for name, value in {**ratios, **pixel_ratios}.items()
    }


def prepare(agent: Agent, context: Context) -> None:
    """Set the start of the lesson: a trunk that passes all tokens through, and new heads on it, or copies.

    A pretrained decoder stays as it is: what it knows is why it was given. The copies then begin less right. The
    whitening of the predicted tokens is measured on rooms of the lesson.
    """
    if agent.config.trunk_source is None:
        for layer in agent.trunk.decoder.layers:
            zero_outputs(layer)
    new = Agent(agent.config).to(agent.device)
    for name in (*COPIES, *FORESEEN):
        agent.head(name).load_state_dict(new.head(name).state_dict())
    for name, source in COPIES.items():
        head = agent.head(name)
        assert isinstance(head, WithReadoutHead)
        head.copy_of(agent.head(source))
    foresee.measure_whitening(agent, context)


class TrunkLearner(MuonLearner):
    """Muon on the trunk's matrices, AdamW on the rest, a lower rate for copies; `prepare` before the first step."""

    muon_rate = MUON_RATE

    def __init__(self, agent: Agent, context: Context) -> None:
        _, rate = context.changed("together", 0, LEARNING_RATE)
        super().__init__(agent, loss, seed=context.seed, learning_rate=rate, trains=TRAINS, decay_from=DECAY_FROM)
        self.context = context
        self.first = set(agent.config.stages) <= {NAME}

    def begin(self, step: int) -> None:
        """Prepare the agent, unless the lesson continues after a stop or in another round, or other stages have taught
        the trunk already."""
        if step == 0 and self.first and not self.again:
            prepare(self.agent, self.context)
        super().begin(step)

    def update(self, batch: Any, step: int) -> Scalars:
        """STEPS steps on the same rollouts, each on its share of the rows."""
        if isinstance(batch, Rehearsed):
            return super().update(batch, step)
        self.set_rates(step)
        scalars: dict[str, Tensor] = {}
        for part in range(STEPS):
            value, scalars_of_part = step_loss(self.agent, batch, part)
            self.descend(value)
            scalars |= {"loss": value.detach()} | scalars_of_part
        return scalars

    def kind(self, name: str, parameter: nn.Parameter) -> str:
        """The parameter's group; copies of arcs have their own."""
        return "copy" if ".inner." in name else super().kind(name, parameter)

    def options(self) -> dict[str, Mapping[str, Any]]:
        """Options by group: copies have a low rate and no weight decay."""
        return super().options() | {"copy": {"rate": COPY_RATE, "weight_decay": 0.0}}
