"""The lesson values: the value of a push of a cart and of a step in a room, by Q-learning of two heads in turn.

A head on the body's numbers keeps the pole up. In a room, a head on the board's tokens acts and learns. A head on the
trunk's features, which the exam asks, learns that head's values of all actions (distillation, Rusu et al. 2016, arXiv
1511.06295). A trunk learns nothing from tokens that do not yet say what stands where, and targets of one action a
transition took three times as many of its expensive steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from devmind.acting import Senses
from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate_tick, to_device
from devmind.agent.encoders import Encoder
from devmind.agent.taps import Perceived
from devmind.agent.threads import stepping_threads
from devmind.curriculum.stage import Batches, Context, Lesson, Scalars
from devmind.errors import ConfigError
from devmind.learners.gradient import GradientLearner
from devmind.learners.policy import restore_worlds, saved_worlds
from devmind.learners.population import Niche, evolution_lesson
from devmind.learners.q_learning import Practice, QLearning
from devmind.seeding import lesson_seeds, numpy_rng
from devmind.worlds import minigrid
from devmind.worlds.restarting import Restarting
from stages.reasoning import parts
from stages.reasoning.values.rooms import rooms


class HeadValues(nn.Module):
    """The `ValueNetwork` of a head that taps one sense, encoded or raw; it has weights of its own.

    Raises:
        ConfigError: the head taps the trunk, or several senses.
    """

    def __init__(self, agent: Agent, head: str, effector: str) -> None:
        super().__init__()
        self.effector, self.tap = effector, agent.tap_of(head)
        if self.tap.on_trunk or len(self.tap.parts) != 1:
            raise ConfigError(f"Q-learning acts by a head that taps one sense; '{head}' taps '{self.tap}'.")
        [self.sense] = *self.tap.senses, *self.tap.raw
        self.head = agent.head(head)
        self.encoder: Encoder | None = agent.encoder(self.sense) if self.tap.encoded else None

    def read(self, senses: Senses) -> Tensor:
        """The sense itself, [N, ...]."""
        return torch.from_numpy(np.asarray(senses[self.sense]))

    def forward(self, observation: Tensor) -> Tensor:
        """Quantiles [B, A, K]."""
        observation = observation.to(next(self.head.parameters()).device)
        if self.encoder is None:
            perceived = Perceived({}, {self.sense: (observation, None)})
        else:
            perceived = Perceived({self.sense: self.encoder(observation)})
        tapped = self.tap.read(perceived)
        assert tapped is not None
        quantiles: Tensor = self.head(tapped).quantiles
        return quantiles


CARTPOLE, ROOMS = "cartpole", "rooms"


@dataclass(frozen=True)
class Drill:
    """A training step of one head.

    Attributes:
        effector, sense: how it acts, and what it reads.
        head: the head that acts and learns.
        student_head: the head on the trunk that learns its values, or "".
        learning: settings of Q-learning; learning_rate: at its highest.
        rows, ticks: of a rollout.
        steps, student_steps: gradient steps of either head.
        lasting: episodes go on from one training step to the next; else each step begins new ones.
        turns: training steps in a row before another drill's turn.
    """

    effector: str
    sense: str
    head: str
    learning: QLearning
    learning_rate: float
    rows: int
    ticks: int
    steps: int
    student_head: str = ""
    student_steps: int = 0
    lasting: bool = False
    turns: int = 1

    @property
    def examined(self) -> str:
        """The head that the exam asks."""
        return self.student_head or self.head


DRILLS: Mapping[str, Drill] = {
    CARTPOLE: Drill(
        "push", "body", parts.PUSHES,
        # Few transitions are stored: n-step sums belong to the policy that earned them, and a poor policy's sums hold
        # values down. Each step earns 1, so no return exceeds 1 / (1 - discount).
        QLearning(
            discount=0.99, n_step=3, double=True, batch=128, capacity=10_000, target_every=48, bounds=(0.0, 100.0),
            epsilon=(1.0, 0.02, 0.1),
        ),
        learning_rate=1e-3, rows=8, ticks=32, steps=48, lasting=True,
    ),
    ROOMS: Drill(
        "choose", parts.BOARD, parts.CHOICE_GLANCES,
        QLearning(
            discount=0.9, n_step=3, double=False, batch=32, capacity=20_000, target_every=50, epsilon=(1.0, 0.1, 0.3)
        ),
        learning_rate=2e-3, rows=16, ticks=24, steps=6, student_head=parts.CHOICES, student_steps=4, turns=3,
    ),
}  # fmt: skip
ROUNDS = {"tiny": 2, "nursery": 195, "child": 195, "adult": 195}
"""Rounds in which every drill has its turns: 195 of 256 steps are 49,920 steps of CartPole."""
MINUTES = 2.0
GENERATIONS = {"tiny": 2, "nursery": 25, "child": 50, "adult": 50}
"""Of CartPole as a lesson of its own."""


def lessons(context: Context) -> list[Lesson]:
    """Both drills in one lesson. Or, where the configuration says so, CartPole in a lesson of its own by a population:
    the room's head reads the trunk, so thousands cannot act by it at once."""
    said, size = context.config.lessons.get(CARTPOLE), context.config.size
    if said is None or said.learner != "population":
        return [lesson(context)]
    members, episodes = (24, 2) if size == "tiny" else (128, 4)
    niche = Niche(
        DRILLS[CARTPOLE].effector, CARTPOLE, head=DRILLS[CARTPOLE].head, members=members, episodes=episodes, spread=0.3
    )
    cart = evolution_lesson(
        context, CARTPOLE, niche, steps=GENERATIONS[size], minutes=1.0, skills=("values",), control=()
    )
    return [cart, *([lesson(context, (ROOMS,))] if minigrid.minigrid_installed() else ())]


def lesson(context: Context, names: Sequence[str] = tuple(DRILLS)) -> Lesson:
    """Drills of these names; the room's if MiniGrid is installed."""
    drills = {name: DRILLS[name] for name in names if name != ROOMS or minigrid.minigrid_installed()}
    if context.config.size == "tiny":
        drills = {name: _tiny(drill) for name, drill in drills.items()}
    turns = [name for name, drill in drills.items() for _ in range(drill.turns)]
    _, rate = context.changed("values", 0, fastest(drills))

    def learner(agent: Agent, context: Context) -> ValueLearner:
        return ValueLearner(agent, context, drills, learning_rate=rate)

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: {"drill": turns[update % len(turns)]}, steps)

    steps = ROUNDS[context.config.size] * len(turns)
    return Lesson(
        "values", learner, batches, steps, MINUTES, skills=("values",), settings=("learning_rate",), control=(),
    )  # fmt: skip


def fastest(drills: Mapping[str, Drill]) -> float:
    """The highest learning rate of the drills: the lesson's own, of which each drill has its share."""
    return max(drill.learning_rate for drill in drills.values())


def _tiny(drill: Drill) -> Drill:
    return replace(
        drill, learning=replace(drill.learning, batch=16), steps=4, student_steps=min(1, drill.student_steps), turns=1
    )


class ValueLearner(GradientLearner):
    """Q-learning of an agent's heads, one drill a training step; a batch names the drill.

    Args:
        learning_rate: of the drill that learns fastest; the others have as much less as their own rates say.
    """

    mixes: ClassVar[bool] = False

    def __init__(self, agent: Agent, context: Context, drills: Mapping[str, Drill], *, learning_rate: float) -> None:
        heads = {name for drill in drills.values() for name in (drill.head, drill.examined)}
        trains = [f"heads.{name}." for name in sorted(heads)]
        super().__init__(agent, self._unasked, seed=context.seed, learning_rate=learning_rate, trains=trains)
        self.context, self.drills = context, dict(drills)
        self.practices: dict[str, Practice] = {}
        self.lasting: dict[str, Any] = {}

    @staticmethod
    def _unasked(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """A batch has no loss: the heads learn from stored transitions."""
        raise ConfigError("Values train heads of their own, so later lessons change nothing of theirs.")

    def practice(self, name: str) -> Practice:
        """The drill's network with its transitions; made at the first call."""
        if name not in self.practices:
            drill = self.drills[name]
            network = HeadValues(self.agent, drill.head, drill.effector)
            self.practices[name] = Practice(network, drill.learning, "values", self.seed, name)
        return self.practices[name]

    def update(self, batch: Any, step: int) -> Scalars:
        """Act for one rollout, then learn from stored transitions.

        This runs on one intra-op thread, because it has thousands of small operations; the trunk's steps use all
        threads.
        """
        name, drill = batch["drill"], self.drills[batch["drill"]]
        practice, progress = self.practice(name), step / max(1, self.steps)
        self.set_rates(step)
        for group in self.optimizer.param_groups:
            group["lr"] *= drill.learning_rate / fastest(self.drills)
        with torch.autocast(self.agent.device.type, enabled=False):
            with stepping_threads():
                reward = practice.act(self._world(name, step), drill.ticks, drill.learning.explores(progress), step)
                scalars = practice.learn(drill.steps, step, self._down(practice.network))
            if drill.student_head:
                scalars["told"] = self._hand_over(name, drill, step)
        return {f"{name}/{key}": value for key, value in {"reward": reward, **scalars}.items()}

    def _down(self, network: nn.Module) -> Callable[[Tensor], None]:
        """A gradient step on this network alone; the norm of its gradient is clipped at 10, as is usual here."""
        parameters = list(network.parameters())

        def descend(loss: Tensor) -> None:
            self.optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 10.0)
            self.optimizer.step()

        return descend

    def _hand_over(self, name: str, drill: Drill, step: int) -> float:
        """Teach the trunk's head the other head's values of all actions, in stored states; returns the last loss."""
        practice, rng = self.practice(name), numpy_rng("values", self.seed, name, "told", step)
        for _ in range(drill.student_steps):
            rows, _, _ = practice.draw(rng)
            batch = to_device(moments(drill.sense, rows["observation"]), self.agent.device)
            # The encoder does not learn here: the trunk's gradient unlearned what the other head reads.
            with torch.no_grad():
                perceived = self.agent.encode_batch(batch, {drill.sense})
                targets = practice.fixed(rows["observation"])
            thought = self.agent.think(perceived, batch["first"], short_term=False)
            loss = self.agent.run_heads([drill.student_head], thought)[drill.student_head].loss(targets[:, None])
            self.descend(loss)
        return float(loss.detach())

    def _world(self, name: str, step: int) -> Any:
        """The drill's world in its current state, or with new episodes for this step."""
        drill = self.drills[name]
        if name == ROOMS:
            return rooms(lesson_seeds(drill.rows, self.seed, "values", name, step))
        world = self.lasting.get(name)
        if world is None or not drill.lasting:
            seeds = lesson_seeds(drill.rows, self.seed, "values", name, *([] if drill.lasting else [step]))
            world = self.context.make_world(name, "", seeds)
        if drill.lasting:
            self.lasting[name] = world = Restarting(world, numpy_rng(self.seed, "values", name, "starts", step))
        return world

    def state_dict(self) -> dict[str, Any]:
        """The optimizer, transitions, target networks and lasting worlds."""
        practices = {name: practice.state_dict() for name, practice in self.practices.items()}
        return super().state_dict() | {"practices": practices, "lasting": saved_worlds(self.lasting)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them."""
        super().load_state_dict(state)
        for name, practice in state["practices"].items():
            self.practice(name).load_state_dict(practice)
        for name, tensors in state["lasting"].items():
            world = self.context.make_world(name, "", lesson_seeds(self.drills[name].rows, 0))
            self.lasting[name] = restore_worlds(world, tensors)


def moments(sense: str, sensed: Tensor) -> Batch:
    """Readings [N, ...] of one sense as N rows of one Moment."""
    return collate_tick({sense: sensed.cpu().numpy()}, np.ones(len(sensed), bool))
