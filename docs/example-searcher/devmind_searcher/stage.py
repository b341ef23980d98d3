"""The stage `noughts`: policy and value learn from a search over them; the exam plays every line there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.agent import Agent, AgentConfig, collate_tick
from devmind.algorithms.tree_search import Expanded, Found, Roots, gumbel_search
from devmind.curriculum.exam import Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Batches, Context, Lesson, Skill
from devmind.learners.gradient import GradientLearner
from devmind.seeding import numpy_rng
from devmind_searcher.game import NoughtsRules, Position

POLICY, VALUE = "noughts_policy", "noughts_value"
RULES = NoughtsRules()
SIMULATIONS = 32


def judge(agent: Agent, position: Position) -> tuple[np.ndarray, np.ndarray]:
    """What the agent thinks of N positions: logits float [N, 9] and value [N] to the player whose turn it is."""
    senses = {name: torch.from_numpy(value) for name, value in RULES.observe(position).items()}
    found = agent.evaluate(senses, [POLICY, VALUE])
    return found[POLICY].logits.cpu().numpy(), found[VALUE].mode().cpu().numpy().clip(-1, 1)


def search(agent: Agent, position: Position, gumbel: np.ndarray | None = None) -> Found[Position]:
    """32 simulations from each of N positions, with one call of `evaluate` for all of them a simulation."""

    def expand(positions: Position, actions: np.ndarray) -> Expanded[Position]:
        reached = RULES.step(positions, {"place": actions})
        outcome, (logits, value) = RULES.outcome(reached), judge(agent, reached)
        legal = RULES.legal(reached)["place"]
        return Expanded(reached, logits, value, legal, outcome.reward, outcome.discount, outcome.terminal)

    roots = Roots(position, *judge(agent, position), RULES.legal(position)["place"])
    return gumbel_search(roots, expand, SIMULATIONS, gumbel=gumbel, bounds=(-1, 1))


def positions(n: int, rng: np.random.Generator) -> Position:
    """N positions after 0 to 7 random moves, none of them at its end."""
    position, moves = RULES.initial(np.zeros(n)), rng.integers(0, 8, n)
    for move in range(7):
        among = np.where(RULES.legal(position)["place"], rng.random((n, 9)), -1)
        further = RULES.step(position, {"place": among.argmax(-1)})
        going = (move < moves) & ~RULES.outcome(further).terminal
        position.put(going, further.take(going))
    return position


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """Policy and value towards what the search found."""
    outputs = agent(batch, [POLICY, VALUE])
    policy, value = outputs[POLICY].loss(batch["weights"]), outputs[VALUE].loss(batch["value"])
    return policy + value, {"policy": policy.detach(), "value": value.detach()}


def lost_lines(move: Callable[[Position], np.ndarray], side: int) -> np.ndarray:
    """Every line of the game in which `side` plays `move` and the other whatever is legal: who loses, bool [lines]."""
    position, lost = RULES.initial(np.zeros(1)), []
    for ply in range(9):
        if ply % 2 == side:
            places = move(position)
        else:
            rows, places = np.nonzero(RULES.legal(position)["place"])
            position = position.take(rows)
        position = RULES.step(position, {"place": places})
        outcome = RULES.outcome(position)
        lost.append((outcome.reward[outcome.terminal] > 0) & (ply % 2 != side))
        position = position.take(~outcome.terminal)
        if not len(position):
            break
    return np.concatenate(lost)


def examine(agent: Agent, context: Context, level: str) -> Sequence[Measure]:
    """The whole game tree as either side: by search, by the network alone, and by what the gate wants it compared with."""

    def alone(position: Position) -> np.ndarray:
        return np.where(RULES.legal(position)["place"], judge(agent, position)[0], -np.inf).argmax(-1)

    def random(position: Position) -> np.ndarray:
        rng = numpy_rng("noughts", "random", len(position))
        return np.where(RULES.legal(position)["place"], rng.random((len(position), 9)), -1).argmax(-1)

    untaught = Agent(AgentConfig(size=agent.config.size, seed=agent.config.seed)).eval().to(agent.device)
    NoughtsStage().admit(untaught)
    players = {
        "search": lambda position: search(agent, position).action,
        "network alone": alone,
        "search over an untaught network": lambda position: search(untaught, position).action,
        "random": random,
    }
    lost = {name: [lost_lines(player, side) for side in (0, 1)] for name, player in players.items()}
    sides = {name: np.array([1.0 - both.any() for both in each]) for name, each in lost.items()}
    kept = {name: 1.0 - np.concatenate(each) for name, each in lost.items()}
    floors, rows = ("random", "search over an untaught network"), ("network alone",)
    note = "Every line of the game is played: nothing is sampled, and an interval says nothing."
    return [
        Measure(name, unit, values["search"], 0.0, 1.0, {f: values[f].mean() for f in floors}, rate=unit == "lines",
                note=note, rows={r: values[r].mean() for r in rows})
        for name, unit, values in (("noughts", "sides never lost", sides), ("noughts/lines", "lines", kept))
    ]  # fmt: skip


class NoughtsStage:
    """Noughts and crosses, learned from its own search: it never loses."""

    name = "noughts"
    requires = ()
    skills = (Skill("noughts", examine, Gate([Threshold("noughts", 1.0)]), "never loses, whatever is played"),)

    def admit(self, agent: Agent) -> None:
        """Add the sense of boards, and what the search asks: a policy and a value on the trunk."""
        if "board" not in agent.encoders:
            agent.add_encoder("board", stage=self.name)
        if POLICY not in agent.heads:
            agent.add_head(POLICY, "head.categorical", stage=self.name, options={"classes": 9})
            agent.add_head(VALUE, "head.value", stage=self.name)

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """One lesson; a batch is a function of seed, update and weights: the search is made with those of the moment."""

        def learner(agent: Agent, context: Context) -> GradientLearner:
            return GradientLearner(agent, loss, seed=context.seed, learning_rate=3e-3)

        def batches(agent: Agent, context: Context, steps: int) -> Batches:
            def make(update: int) -> dict[str, Any]:
                rng = numpy_rng("noughts", context.seed, update)
                position = positions(128, rng)
                found = search(agent, position, rng.gumbel(size=(128, 9)))
                batch = collate_tick(RULES.observe(position), np.ones(128, dtype=bool))
                targets = {"weights": found.weights[:, None], "value": found.value[:, None]}
                return batch | {name: torch.from_numpy(value).float() for name, value in targets.items()}

            return Batches(make, steps)

        return [Lesson("play", learner, batches, steps=150, minutes=2.0, rehearse=True, skills=("noughts",))]
