"""Together: the trunk learns to see, hear, bind, look, reach and start away by itself, and to foresee the next tokens.

Its heads begin as copies of what perception and practice have taught, reading the trunk's features of the same senses
(`prepare`), and are then told the truth (reaching: what the arc does). Rows are of all levels side by side. Half of
the children move at random and half as the trunk says, so that the body never tells what is wanted. Encoders and arcs
stay as they are, bit for bit.
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
from devmind.agent.batch import as_tensors, clip, map_tensors, stacked, to_device
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
"""What a twin on a trunk that does not learn is taught."""
TRAINS = ("trunk.", "readout", *HEADS)
LEVELS = (
    "orient/motion", "track", "startle", "orient/sound", "reach", "orient/sight", "orient/motion",
    "orient/empty", "reach", "startle", "track", "orient/sight", "clutter/empty", "reach", "orient/motion", "room",
)  # fmt: skip
"""Of the rows of a batch, in turn. In a room nothing is asked: it is there to be foreseen."""
FILMED = ("orient/motion", "orient/sight", "orient/empty", "clutter/empty", "track", "room")
"""Levels in which a share of the rows sense what a camera would give them: the trunk is to act in a life, too."""
AS_FILMED = 0.4
MOVES = {"look": 2, "reach": 4, "move": 1}
TICKS = 12
STEPS = 3
"""Of the optimizer on the rows of a batch, each on its share: acting side by side is cheaper than one after another."""
PAIRS = 2
"""In a rehearsal, so many times its rows of pairs of Moments of which the second may be one to start away at: rows that
are lived through hold a few of these, which later stages learned by heart (docs/log.md, 2026-11-27)."""
STARTS = 0.1
"""How often a tick a child who moves at random starts away."""
PERCEIVED = ("see", "hear", "bind")
PERCEIVED_ROWS = {"see": 2, "hear": 1, "bind": 2}
"""So many times the rows of a batch: these rows are of 1, 5 and 1 Moments."""
UNSEEN = 1_000_000
"""Turns of the tasks of perception are counted from here on: no batch is one that `perceive` has shown."""
MUON_RATE, COPY_RATE, DECAY_FROM = 0.01, 5e-4, 0.4
EMPTY_WEIGHT = 2.0
"""How much a row without a thing counts: a turn that is a little wrong costs nothing where a thing is, and all rest."""
ALARM_WEIGHT = 5.0
"""How much a tick to start away at counts: they are few, and by equal weights a sixth of what looms was missed, with a
twentieth of the false alarms that are allowed (docs/log.md, 2026-11-26)."""
WEIGHTS = {"look": 2.0, "reach": 4.0, "startle": 1.0, "perceived": 0.5, "foresee": 0.5, "pixels": 0.1}


def level_effectors(level: str) -> tuple[str, ...]:
    """What a child of this level moves, as in its exam; in a room gaze and hand."""
    return {"reach": ("reach",), "startle": ("move",), "room": ("look", "reach")}.get(level, ("look",))


def lesson_batch(agent: Agent, context: Context, update: int, size: int, rehearsed: bool = False) -> dict[str, Any]:
    """`size` children of all levels for twelve ticks with what is wanted of them, and a batch of each perceiving task.

    `moved` holds the share of each of the steps that are taken on the children; they take turns with `perceived`.

    Args:
        rehearsed: for a later stage: one step is taken on all of it, and nothing depends on what is learned meanwhile,
            as the children who do not move at random move by their arcs.
    """
    size, steps = max(size, STEPS), 1 if rehearsed else STEPS
    tasks = (*PERCEIVED, *(("speech",) if hear.has_speech(context) else ()))
    perceived = [{"task": task} | _perceived(context, task, UNSEEN + update, size // STEPS) for task in tasks]
    moved = moved_rows(agent, context, update, size, rehearsed)
    batch = {"moved": [_part(moved, np.arange(step, size, steps)) for step in range(steps)], "perceived": perceived}
    return batch | {"events": _events(agent, context, UNSEEN + update, PAIRS * size)} if rehearsed else batch


def _events(agent: Agent, context: Context, turn: int, size: int) -> dict[str, Any]:
    """`size` pairs of Moments as the encoders, which do not learn here, have them; withdraw int64 [B, 2], of the second
    whether it is one to start away at."""
    pairs = startle.event_batch(context, turn, size)
    event = pairs.pop("event")
    with torch.no_grad():
        seen = agent.encode_batch(to_device(pairs, agent.device)).without_maps()
    return {"seen": seen, "first": pairs["first"], "withdraw": (event != NO_EVENT).long()}


def _part(batch: Mapping[str, Any], rows: np.ndarray) -> dict[str, Any]:
    """Some rows of a batch; what the encoders made of it too."""
    index = torch.from_numpy(rows)
    seen: Perceived = batch["seen"]
    kept = {name: value for name, value in batch.items() if name != "seen"}
    return map_tensors(kept, lambda x: x[index]) | {"seen": seen.map(lambda x: x[index.to(x.device)])}


def _perceived(context: Context, task: str, turn: int, size: int) -> dict[str, Any]:
    if task == "speech":
        return hear.speech_batch(context, turn, size)
    make = {"see": see.lesson_batch, "hear": hear.lesson_batch, "bind": bind.lesson_batch}[task]
    return make(context, turn, PERCEIVED_ROWS[task] * size)


def moved_rows(agent: Agent, context: Context, update: int, size: int, by_arcs: bool = False) -> dict[str, Any]:
    """`size` rows of twelve Moments, half of them moved by the trunk, or `by_arcs`. Beside the senses:

    turn [B, T, 2] and axes [B, T, 2] (how much each counts), withdraw int64 [B, T] and quiet bool [B, T] (whether
    that is judged), reaches bool [B]; and what the encoders, which do not learn here, made of them: `seen`.
    """
    levels = sorted(LEVELS[(update + row) % len(LEVELS)] for row in range(size))
    seeds = lesson_seeds(size, context.seed, "together", update)
    kinds = sorted(set(levels))
    worlds = [context.make_world("nursery", kind, seeds[[one == kind for one in levels]]) for kind in kinds]
    world: Any = worlds[0] if len(worlds) == 1 else Joined(worlds)
    by_itself = (np.arange(size) // STEPS + update) % 2 == 0
    policy = _moving(agent, levels, by_itself, by_arcs, numpy_rng(context.seed, "together", "moves", update))
    ticks, told = [], [_told(worlds, levels)]
    for tick in rollout(policy, world, TICKS):
        ticks.append(as_tensors(tick.senses))
        told.append(_told(worlds, levels))
    batch = clip(stacked(ticks))
    rng = numpy_rng(context.seed, "together", "filmed", update)
    orient.as_filmed(batch, rng, np.array([level in FILMED for level in levels]) & (rng.random(size) < AS_FILMED))
    wanted = stacked(told[:TICKS])
    with torch.no_grad():
        seen = agent.encode_batch(to_device(batch, agent.device)).without_maps()
    return batch | wanted | {"reaches": torch.tensor([level == "reach" for level in levels]), "seen": seen}


def _moving(agent: Agent, levels: Sequence[str], by_itself: np.ndarray, by_arcs: bool, rng: np.random.Generator) -> Any:
    """Rows `by_itself` move as the agent's trunk says, or its arcs, the others drift at random; each with its level's
    effector.
    """
    size, mine = len(levels), np.flatnonzero(by_itself)
    standing = None if by_arcs else by_themselves(agent)
    actor = Actor(agent, effectors=list(MOVES), standing=standing, trunk=not by_arcs, beliefs=not by_arcs)
    drift = {name: rng.normal(0, 0.5, (size, width)) for name, width in MOVES.items() if name != "move"}
    uses = {name: np.array([name in level_effectors(level) for level in levels])[:, None] for name in MOVES}

    def act(senses: Senses, first: np.ndarray) -> Actions:
        for name, value in drift.items():
            drift[name] = 0.8 * value + rng.normal(0, 0.4, value.shape)
        actions = {name: value.clip(-1, 1) for name, value in drift.items()}
        actions["move"] = np.where(rng.random((size, 1)) < STARTS, -1.0, 0.0)
        if len(mine):
            felt = {
                name: [value[i] for i in mine] if name == "words" else value[mine] for name, value in senses.items()
            }
            said = actor(felt, first[mine])
            for name, action in actions.items():
                value = said.get(name, np.zeros(0)).reshape(len(mine), -1)
                # Where nothing was answered, or in another width than this world's effector, nothing moves.
                action[mine] = value if value.shape[1] == action.shape[1] else 0.0
        return {name: (value * uses[name]).astype(np.float32) for name, value in actions.items()}

    return act


def _told(worlds: Sequence[Any], levels: Sequence[str]) -> dict[str, np.ndarray]:
    """What is wanted of every row just now."""
    truths = [world.truth() for world in worlds]
    turn = np.concatenate([orient.wanted(truth) for truth in truths])
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
    """All that a batch asks, its steps taken together: what later lessons rehearse."""
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
    """What the second Moments of pairs come to by the head that starts away."""
    head = agent.run_heads(["move_trunk"], agent.think(batch["seen"], batch["first"]))["move_trunk"]
    judged = torch.zeros_like(batch["first"])
    judged[:, 1] = True
    return head.loss(batch["withdraw"], judged)


def step_loss(agent: Agent, batch: Mapping[str, Any], step: int) -> tuple[Tensor, dict[str, Tensor]]:
    """The weighted sum of what looks, reaches, starts away, perceives and foresees missed, in one step's share."""
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
    told = {name: found.ratio() for name, found in residuals({name: outputs[name] for name in pixels}, batch).items()}
    each["foresee"], each["pixels"] = (sum(part.values(), start=torch.zeros(())) for part in (ratios, told))
    total = sum((WEIGHTS[name] * value for name, value in each.items()), start=torch.zeros(()))
    scalars = {name: each[name].detach() for name in ("look", "reach", "startle")}
    return total, scalars | {name.replace("_", " "): value.detach() for name, value in {**ratios, **told}.items()}


def prepare(agent: Agent, context: Context) -> None:
    """What the lesson starts from: a trunk that lets all tokens through, and heads on it as new, or copies.

    The whitening of what is foreseen is measured on rooms of the lesson.
    """
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
    """Muon on the trunk's matrices, AdamW on the rest, more slowly on the copies; `prepare` before the first step."""

    muon_rate = MUON_RATE

    def __init__(self, agent: Agent, context: Context, trains: Sequence[str] = TRAINS) -> None:
        super().__init__(agent, loss, seed=context.seed, learning_rate=1e-3, trains=trains, decay_from=DECAY_FROM)
        self.context = context
        self.first = set(agent.config.stages) <= {NAME}

    def begin(self, step: int) -> None:
        """A lesson that goes on where it was stopped, or in another round, has been prepared already; and what other
        stages have taught the trunk is not undone."""
        if step == 0 and self.first and not self.again:
            prepare(self.agent, self.context)
        super().begin(step)

    def update(self, batch: Any, step: int) -> Scalars:
        """A few steps on the same rollouts, each on its share of the rows."""
        if isinstance(batch, Rehearsed):
            return super().update(batch, step)
        self.set_rates(step)
        scalars: dict[str, Tensor] = {}
        for part in range(STEPS):
            value, told = step_loss(self.agent, batch, part)
            self.descend(value)
            scalars |= {"loss": value.detach()} | told
        return scalars

    def kind(self, name: str, parameter: nn.Parameter) -> str:
        """Copies of arcs are of a kind of their own too."""
        return "copy" if ".inner." in name else super().kind(name, parameter)

    def options(self) -> dict[str, Mapping[str, Any]]:
        """Copies learn slowly, and do not decay."""
        return super().options() | {"copy": {"rate": COPY_RATE, "weight_decay": 0.0}}
