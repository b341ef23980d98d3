"""The lesson explain: the agent learns to write sentences about the results of its own searches.

The searches run once, when the lesson begins, and every move that they looked at becomes a page. The agent learns a
page with the question and the sentence beside the position and the search tree behind it (the sense `lookahead`). The
senses `lookahead` and `position` and the stage's layers learn; language's text head does not change.

From the position alone, 0.73 to 0.76 of the sentences about held-out positions were true after 900 steps: the agent
guessed what its search would find (docs/reasoning.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch
from devmind.agent.config import by_size
from devmind.agent.text import text_loss
from devmind.curriculum.examining import examination
from devmind.curriculum.stage import Batches, Context, Lesson
from devmind.learners.muon import MuonLearner
from devmind.seeding import numpy_rng
from stages.reasoning import parts
from stages.reasoning.explain.lines import GAME, QUESTION, line_of, positions, question_batch, sentence, weighed_moves

NAME = "explain"
STEPS = {"tiny": 10, "nursery": 700, "child": 2000, "adult": 2000}
ROWS = by_size(64, tiny=8)
"""Pages of a batch."""
MINUTES = 7.0
SHOWN = ("after", "value", "lookahead")
"""The fields of `Moved` that the lesson keeps."""
STRANGERS = 3
"""One page in STRANGERS stands beside another page's position."""
WRITES = (f"heads.{parts.TEXT}.",)
"""What the control trains further: language's text head, which reads what the trunk makes of a page. Unchanged, it
could not even spell on a trunk that passes all tokens through.
"""
SENSE_RATE = 5.0
"""Factor on the lesson's learning rate for the sense `lookahead`, which is new and small."""
HELD_OUT = 3
"""One position in HELD_OUT, with all its images, is kept for exams."""


def lesson(context: Context) -> Lesson:
    """Sentences about tic-tac-toe."""
    count, rate = context.changed(NAME, ROWS[context.config.size], 2e-3)

    def learner(agent: Agent, context: Context) -> Explaining:
        return Explaining(agent, seed=context.seed, learning_rate=rate)

    def batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: {"update": update, "rows": context.rows(count)}, steps)

    steps = STEPS[context.config.size]
    return Lesson(NAME, learner, batches, steps, MINUTES, skills=(NAME,), control=WRITES)


def held_out(marks: np.ndarray) -> np.ndarray:
    """Which positions int8 [N, 9] are held out with all their images, bool [N]."""
    keys = GAME.canonical(marks)[0]
    return np.array([numpy_rng("explain", int(key)).integers(HELD_OUT) == 0 for key in keys.tolist()], bool)


class Explaining(MuonLearner):
    """Learns to write the lines that the agent's own searches found when the lesson began. Muon steps the trunk, as in
    the lessons of the language stage.
    """

    def __init__(self, agent: Agent, *, seed: int, learning_rate: float, trains: Sequence[str] | None = None) -> None:
        trains = parts.trained_weights(agent) if trains is None else trains
        # The weight decay is high because some hundred positions are soon known by heart.
        super().__init__(agent, self.loss_of, seed=seed, learning_rate=learning_rate, trains=trains, weight_decay=0.1)
        self.examples: dict[str, np.ndarray] = {}

    def kind(self, name: str, parameter: nn.Parameter) -> str:
        """The sense `lookahead` is a kind of its own."""
        return parts.LOOKAHEAD if name.startswith(f"encoders.{parts.LOOKAHEAD}.") else super().kind(name, parameter)

    def groups(self, options: Mapping[str, Mapping[str, Any]]) -> list[dict[str, Any]]:
        """The parameter groups; in the control all have the full rate: what writes has to learn there what the trunk's
        layers do here."""
        if set(WRITES) <= set(self.trains):
            self.of_stage = lambda name: 1.0
        return super().groups(options)

    def options(self) -> dict[str, Mapping[str, Any]]:
        """Options of the parameter groups, by kind."""
        return super().options() | {
            parts.LOOKAHEAD: {"rate": SENSE_RATE * self.learning_rate, "weight_decay": self.weight_decay}
        }

    def begin(self, step: int) -> None:
        """Search the positions once, before the first step."""
        if not self.examples:
            self.remember()
        super().begin(step)

    def remember(self) -> None:
        """Store what the agent's searches find now."""
        with examination(self.agent):
            examples = weighed_moves(self.agent, positions())
        examples = examples.take(np.flatnonzero(~held_out(examples.after)))
        self.examples = {name: getattr(examples, name) for name in SHOWN}

    def loss_of(self, agent: Agent, batch: Mapping[str, Any]) -> tuple[Tensor, dict[str, Tensor]]:
        """Nats a byte of the pages."""
        return text_loss(agent, self.drawn(batch["update"], batch["rows"]))

    def drawn(self, update: int, rows: int) -> Batch:
        """Random images of stored positions, with a sentence about each."""
        if not self.examples:
            self.remember()
        after, value, lookahead = (self.examples[name] for name in SHOWN)
        rng = numpy_rng("lesson", NAME, self.seed, update)
        at, image = rng.integers(0, len(after), rows), rng.integers(0, len(GAME.symmetries[0]), rows)
        cells, moves = (each[image] for each in GAME.symmetries)
        marks = np.take_along_axis(after[at], cells, 1)
        turned = np.take_along_axis(lookahead[at], moves[:, None, :, None], 2)
        turned = np.take_along_axis(turned, moves[:, None, None, :], 3)
        # So that the agent reads the search: it could know the lesson's few positions by heart.
        strangers = rows // STRANGERS
        marks[:strangers] = np.roll(marks[:strangers], 1, axis=0)
        lines = line_of(turned).tolist()
        pages = [QUESTION + sentence(*each) for each in zip(lines, value[at].tolist(), strict=True)]
        return question_batch(marks, turned, pages)

    def state_dict(self) -> dict[str, Any]:
        """The optimizer and the stored searches."""
        return super().state_dict() | {"shown": {name: torch.from_numpy(each) for name, each in self.examples.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore them."""
        super().load_state_dict(state)
        self.examples = {name: each.numpy() for name, each in state["shown"].items()}
