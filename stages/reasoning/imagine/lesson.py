"""The lesson imagine: the agent acts by searches in the learned model, and the model learns from what happened.

MuZero (Schrittwieser et al. 2020) in two worlds in turn. The model unrolls a piece of a trajectory for five steps from
the observation at its start. The losses compare policy, value and reward of each step with what searches and the world
said. They also compare one latent of each piece with the agent's latent of the real observation there (consistency, Ye
et al. 2021, "Mastering Atari games with limited data"). After the end of an episode all rewards are 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate_tick
from devmind.curriculum.stage import Batches, Context, Lesson, Rehearsed, Scalars
from devmind.learners.gradient import GradientLearner
from devmind.seeding import lesson_seeds, numpy_rng
from stages.reasoning.imagine.head import Imagined, ImagineHead
from stages.reasoning.imagine.search import DOMAINS, Domain, dream, imagine_states
from stages.reasoning.imagine.trajectories import CUT, GOING, OVER, Trajectories

NAME = "imagine"
UNROLL = 5
VALUE, REWARD, CONSISTENT = 1.0, 1.0, 0.02
"""Weights of the losses beside the policy's."""


@dataclass(frozen=True)
class Drill:
    """An update of one world.

    Attributes:
        rows, ticks: rows that act side by side, and ticks that they act.
        capacity: ticks that are stored.
        steps, batch: gradient steps, and pieces in each.
    """

    rows: int
    ticks: int
    capacity: int
    steps: int
    batch: int


DRILLS: Mapping[str, Drill] = {
    "tictactoe": Drill(rows=64, ticks=1, capacity=160, steps=8, batch=96),
    "cartpole": Drill(rows=16, ticks=12, capacity=1000, steps=6, batch=96),
}
TINY = Drill(rows=4, ticks=4, capacity=64, steps=1, batch=8)
STEPS = {"tiny": 8, "nursery": 200, "child": 2000, "adult": 4000}
"""Updates, of both worlds in turn."""
REMEMBERED = 24
"""Ticks that the agent plays anew when another lesson begins to rehearse this one."""


def lesson(context: Context) -> Lesson:
    """Both worlds in turn."""
    size, names = context.config.size, list(DOMAINS)
    drills = dict.fromkeys(names, TINY) if size == "tiny" else dict(DRILLS)
    rows, rate = context.changed(NAME, drills[names[0]].batch, 2e-3)

    def learner(agent: Agent, context: Context) -> DreamLearner:
        return DreamLearner(agent, context, drills, learning_rate=rate)

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(
            lambda update: {"world": names[update % len(names)], "rows": context.rows(rows), "update": update}, steps
        )

    return Lesson(NAME, learner, batches, STEPS[size], minutes=1.1, rehearsed=True, skills=(NAME,), control=())


class DreamLearner(GradientLearner):
    """Acts by searches in the latent and learns from the trajectories; a batch names its world.

    The trunk does not change: other lessons have taught it boards. Here, a trunk that learned along made the model
    worse, at three times the time a step. Other lessons rehearse only boards, whose features they change.
    """

    def __init__(self, agent: Agent, context: Context, drills: Mapping[str, Drill], *, learning_rate: float) -> None:
        trains = [f"heads.{DOMAINS[name].head}." for name in drills]
        super().__init__(agent, self.loss_of, seed=context.seed, learning_rate=learning_rate, trains=trains)
        self.lives = {name: Life(DOMAINS[name], drill, name, context.seed) for name, drill in drills.items()}

    def update(self, batch: Any, step: int) -> Scalars:
        """Act for some ticks, then learn from stored pieces; or take a step of a rehearsal."""
        if isinstance(batch, Rehearsed):
            return super().update(batch, step)
        name, life = batch["world"], self.lives[batch["world"]]
        # The first time, until all targets of a piece are known.
        missing = UNROLL + life.domain.n_step + 1 - life.replay.count
        scalars_of_life: dict[str, Any] = life.act(self.agent, max(life.drill.ticks, missing))
        self.set_rates(step)
        for number in range(life.drill.steps):
            pieces = life.replay.draw(batch["rows"], UNROLL, numpy_rng("imagine", self.seed, name, step, number))
            loss, scalars = self.loss_of(self.agent, {"world": name, "pieces": pieces})
            self.descend(loss)
            scalars_of_life |= {"loss": loss.detach(), **scalars}
        return {f"{name}/{key}": value for key, value in scalars_of_life.items()}

    def loss_of(self, agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """The losses of one world's model along pieces."""
        domain, pieces = DOMAINS[batch["world"]], batch["pieces"]
        known = {
            name: torch.from_numpy(x).to(agent.device).float() if x.dtype == float else torch.from_numpy(x)
            for name, x in pieces.items()
        }
        known = {name: x.to(agent.device) for name, x in known.items()}
        head = agent.head(domain.head)
        assert isinstance(head, ImagineHead)
        output = agent(moments(domain.sense, pieces["observed"]), [domain.head], short_term=False)[domain.head]
        assert isinstance(output, Imagined)
        now = replace(output, latent=output.latent[:, 0], logits=output.logits[:, 0], value=output.value[:, 0])
        later = imagine_states(agent, domain, pieces["later"]).latent.detach()
        off = {name: torch.zeros((), device=agent.device) for name in ("policy", "value", "reward", "apart")}
        for step in range(UNROLL + 1):
            alive, known_value = known["alive"][:, step], known["known"][:, step]
            off["policy"] = off["policy"] + now.policy.loss(known["weights"][:, step], alive)
            off["value"] = off["value"] + _mean((now.value - known["value"][:, step]).square(), known_value)
            there = known["followed"] & (known["ahead"] == step)
            off["apart"] = off["apart"] + ((now.latent - later).square().mean(-1) * there).sum() / len(there)
            if step < UNROLL:
                # Half of the gradient goes on to the step before, so that later steps do not outweigh early ones.
                now, earned = head.imagine((now.latent + now.latent.detach()) / 2, known["action"][:, step])
                wrong = earned - known["reward"][:, step] / domain.scale
                off["reward"] = off["reward"] + _mean(wrong.square(), known_value)
        mean = {name: one / (1 if name == "apart" else UNROLL + 1) for name, one in off.items()}
        loss = mean["policy"] + VALUE * mean["value"] + REWARD * mean["reward"] + CONSISTENT * mean["apart"]
        return loss, {name: one.detach() for name, one in mean.items()}

    def rehearse(self, batch: Any) -> tuple[Tensor, Scalars]:
        """The lesson's loss on stored boards."""
        life = self.lives["tictactoe"]
        if not life.replay.pieces(UNROLL):
            self.remember()
        pieces = life.replay.draw(batch["rows"], UNROLL, numpy_rng("imagine", self.seed, "rehearse", batch["update"]))
        return self.loss_of(self.agent, {"world": "tictactoe", "pieces": pieces})

    def remember(self) -> None:
        """Play some games with the agent as it is now."""
        self.lives["tictactoe"].act(self.agent, max(REMEMBERED, UNROLL + DOMAINS["tictactoe"].n_step + 4))

    def state_dict(self) -> dict[str, Any]:
        """The optimizer, the trajectories and the state of the worlds."""
        return super().state_dict() | {"lives": {name: life.state_dict() for name, life in self.lives.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them."""
        super().load_state_dict(state)
        for name, life in state["lives"].items():
            self.lives[name].load_state_dict(life)


class Life:
    """Rows of one world side by side, each acting by a search of its own, with their trajectories."""

    def __init__(self, domain: Domain, drill: Drill, name: str, seed: int) -> None:
        self.domain, self.drill, self.name, self.seed = domain, drill, name, seed
        self.rules = domain.rules()
        self.replay = Trajectories(drill.capacity, domain.discount, domain.n_step)
        self.state = self.begun(drill.rows, 0)
        self.episodes = 0

    def begun(self, n: int, number: int) -> Any:
        """`n` new episodes, each after some random actions if the domain has openings."""
        state = self.rules.initial(lesson_seeds(n, self.seed, "imagine", self.name, number))
        rng = numpy_rng("imagine", self.seed, self.name, "openings", number)
        many = rng.integers(0, self.domain.opening + 1, n)
        for step in range(self.domain.opening):
            able = self.domain.legal(self.rules, state)
            moves = np.where(able, rng.random(able.shape), -1).argmax(-1)
            further = self.rules.step(state, {self.domain.effector: moves})
            going = (step < many) & ~self.rules.outcome(further).terminal
            state.put(going, further.take(going))
        return state

    def act(self, agent: Agent, ticks: int) -> dict[str, float]:
        """Act for some ticks; the result is a function of the agent and of the number of earlier ticks."""
        training = agent.training
        agent.eval()
        values = [self._tick(agent) for _ in range(ticks)]
        agent.train(training)
        return {"episodes": float(self.episodes), "hoped": float(np.mean(values))}

    def _tick(self, agent: Agent) -> float:
        domain, number = self.domain, self.replay.count
        observed = np.asarray(self.rules.observe(self.state)[domain.sense])
        legal = domain.legal(self.rules, self.state)
        noise = numpy_rng("imagine", self.seed, self.name, "noise", number).gumbel(size=legal.shape)
        searched = dream(agent, domain, observed, legal, domain.simulations, noise)
        self.state = self.rules.step(self.state, {domain.effector: searched.action})
        outcome = self.rules.outcome(self.state)
        ended = np.where(outcome.terminal, OVER, np.where(outcome.truncated, CUT, GOING))
        self.replay.add(
            observed=observed, action=searched.action, reward=domain.scale * np.asarray(outcome.reward, float),
            ended=ended, weights=searched.weights, value=searched.value,
        )  # fmt: skip
        anew = np.flatnonzero(ended != GOING)
        if len(anew):
            self.state.put(anew, self.begun(len(anew), number + 1))
            self.episodes += len(anew)
        return float(searched.value.mean())

    def state_dict(self) -> dict[str, Any]:
        """The state of the world and the trajectories."""
        world = {name: torch.from_numpy(np.array(value)) for name, value in vars(self.state).items()}
        return {"world": world, "met": self.replay.state_dict(), "episodes": self.episodes}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them."""
        self.replay.load_state_dict(state["met"])
        self.episodes = int(state["episodes"])
        self.state = type(self.state)(**{name: x.cpu().numpy().copy() for name, x in state["world"].items()})


def moments(sense: str, observed: np.ndarray) -> Batch:
    """Observations [N, ...] as N rows of one Moment."""
    return collate_tick({sense: observed}, np.ones(len(observed), bool))


def _mean(values: Tensor, counts: Tensor) -> Tensor:
    """The mean of `values` [N] where `counts` bool [N]; 0 if nowhere."""
    return (values * counts).sum() / counts.sum().clamp_min(1)
