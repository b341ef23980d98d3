"""The stage `noughts`: policy and value learn from a search over them; the exam plays every line of the game."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from devmind.agent import Agent, AgentConfig, Encoded, Encoder, collate_tick
from devmind.algorithms.tree_search import Expanded, Found, Roots, gumbel_search
from devmind.curriculum.exam import Exam, Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Batches, Context, Lesson, Skill
from devmind.learners.gradient import GradientLearner
from devmind.seeding import numpy_rng
from devmind_searcher.game import NoughtsRules, Position

POLICY, VALUE = "noughts_policy", "noughts_value"
RULES = NoughtsRules()
SIMULATIONS = 32


class NoughtsEncoder(Encoder):
    """A board of nine cells to eight tokens, by linear layers, which learn a small board sooner than convolutions."""

    sense_dims = 3

    def __init__(self, width: int, hidden: int = 128) -> None:
        super().__init__(width, n_tokens=8)
        layers = [nn.Linear(18, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 8 * width)]
        self.net = nn.Sequential(*layers)

    def encode(self, x: Tensor, previous: Tensor | None, previous_present: Tensor | None) -> Encoded:
        tokens = self.net(x.flatten(1).float()).unflatten(-1, (8, -1))
        return Encoded(tokens, self.all_present(tokens))


def judge(agent: Agent, position: Position) -> tuple[np.ndarray, np.ndarray]:
    """The agent's evaluation of N positions: logits float [N, 9] and value [N] for the player to move."""
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


def best(position: Position, scores: np.ndarray) -> np.ndarray:
    """The legal cell with the highest of scores [N, 9], int64 [N]."""
    return np.where(RULES.legal(position)["place"], scores, -np.inf).argmax(-1)


def positions(n: int, rng: np.random.Generator) -> Position:
    """N positions after 0 to 7 random moves, without ended games."""
    position, moves = RULES.initial(np.zeros(n)), rng.integers(0, 8, n)
    for move in range(7):
        further = RULES.step(position, {"place": best(position, rng.random((n, 9)))})
        going = (move < moves) & ~RULES.outcome(further).terminal
        position.put(going, further.take(going))
    return position


def loss(agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
    """The loss of policy and value towards the result of the search."""
    outputs = agent(batch, [POLICY, VALUE])
    policy, value = outputs[POLICY].loss(batch["weights"]), outputs[VALUE].loss(batch["value"])
    return policy + value, {"policy": policy.detach(), "value": value.detach()}


def lost_lines(move: Callable[[Position], np.ndarray], side: int) -> np.ndarray:
    """Every line of the game in which `side` plays `move` and the other any move: whether `side` lost, bool [lines]."""
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


def examine(agent: Agent, context: Context) -> Exam:
    """The whole game tree as either side: by search, by the network alone, and by baselines."""
    untaught = Agent(AgentConfig(size=agent.config.size, seed=agent.config.seed)).eval().to(agent.device)
    NoughtsStage().admit(untaught)
    players = {
        "search": lambda position: search(agent, position).action,
        "network alone": lambda position: best(position, judge(agent, position)[0]),
        "search over an untaught network": lambda position: search(untaught, position).action,
        "random": lambda position: best(position, numpy_rng("noughts", len(position)).random((len(position), 9))),
    }
    lost = {name: [lost_lines(player, side) for side in (0, 1)] for name, player in players.items()}
    sides = {name: np.array([1.0 - both.any() for both in each]) for name, each in lost.items()}
    kept = {name: 1.0 - np.concatenate(each) for name, each in lost.items()}
    floors, rows = ("random", "search over an untaught network"), ("network alone",)
    note = "Every line of the game is played: nothing is sampled, and an interval says nothing."
    measures = [
        Measure(name, unit, values["search"], 0.0, 1.0, {f: values[f].mean() for f in floors}, rate=unit == "lines",
                exhaustive=True, note=note, rows={r: values[r].mean() for r in rows})
        for name, unit, values in (("noughts", "sides never lost", sides), ("noughts/lines", "lines", kept))
    ]  # fmt: skip
    return Exam(measures)


class NoughtsStage:
    """Noughts and crosses, learned from its own search: it never loses."""

    name = "noughts"
    requires = ()
    skills = (Skill("noughts", examine, Gate([Threshold("noughts", 1.0)]), "never loses, whatever is played"),)

    def admit(self, agent: Agent) -> None:
        """Add the sense of boards, and a policy and a value for the search, which read its tokens."""
        agent.ensure_encoder("board", "encoder.noughts", stage=self.name)
        if POLICY not in agent.heads:
            options = {"hidden": 128}
            agent.add_head(POLICY, "head.categorical", "board", stage=self.name, options=options | {"classes": 9})
            agent.add_head(VALUE, "head.value", "board", stage=self.name, options=options)

    def lessons(self, context: Context) -> Sequence[Lesson]:
        """One lesson; a batch is a function of seed, update and weights: the search uses the present weights."""

        def make(agent: Agent, update: int) -> dict[str, Any]:
            rng = numpy_rng("noughts", context.seed, update)
            position = positions(n := context.rows(128), rng)
            found = search(agent, position, rng.gumbel(size=(n, 9)))
            batch = collate_tick(RULES.observe(position), np.ones(n, dtype=bool))
            targets = {"weights": found.weights[:, None], "value": found.value[:, None]}
            return batch | {name: torch.from_numpy(value).float() for name, value in targets.items()}

        def learner(agent: Agent, context: Context) -> GradientLearner:
            return GradientLearner(agent, loss, seed=context.seed, learning_rate=5e-3)

        def batches(agent: Agent, context: Context, steps: int) -> Batches:
            return Batches(lambda update: make(agent, update), steps)

        return [Lesson("play", learner, batches, steps=350, minutes=2.0, skills=("noughts",))]
