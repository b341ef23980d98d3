"""The checks of learners and heads pass correct ones, and name the law that a broken one breaks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from devmind.agent import Agent
from devmind.agent.heads import CategoricalHead, Head, Inlet, NormalHead, RegressionHead, Tapped, ValueHead
from devmind.agent.output import Categorical, Output
from devmind.agent.rows import Carry, Leaf
from devmind.curriculum.stage import Context, Lesson
from devmind.learners.gradient import GradientLearner
from devmind.testing import BrokenLawError, check_head, check_learner, tiny_agent, tiny_context
from tests.test_testing_stages import LampStage, loss, make_lamps


class Idle(GradientLearner):
    """Has a learning rate of zero."""

    def descend(self, loss: Tensor) -> None:
        super().descend(loss * 0.0)


class Forgetful(GradientLearner):
    """Keeps unsaved state that decides the next step."""

    seen = 0

    def descend(self, loss: Tensor) -> None:
        self.seen += 1
        super().descend(loss * (1e-3 if self.seen == 1 else 1.0))


class Drawing(GradientLearner):
    """Draws from an unseeded generator."""

    rng = np.random.default_rng(0)

    def descend(self, loss: Tensor) -> None:
        super().descend(loss * float(self.rng.uniform(1e-4, 1)))


class Unsaved(GradientLearner):
    """Does not save its optimizer."""

    def state_dict(self) -> dict[str, Any]:
        return {"optimizer": None}


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (Idle, "a learner improves its agent"),
        (Forgetful, "goes on exactly where it was"),
        (Drawing, "a function of seed, update and weights"),
        (Unsaved, "goes on exactly where it was"),
    ],
)
def test_broken_law_of_a_learner_is_named(kind: type[GradientLearner], law: str, tmp_path: Path) -> None:
    context, agent = tiny_context(tmp_path, make_world=make_lamps), tiny_agent()
    LampStage().admit(agent)
    (lesson,) = LampStage().lessons(context)
    decay = 0.0 if kind is Idle else 0.02

    def make(agent: Agent, context: Context) -> GradientLearner:
        return kind(agent, loss, seed=0, learning_rate=3e-3, weight_decay=decay)

    with pytest.raises(BrokenLawError) as told:
        check_learner(Lesson("lamps", make, lesson.make_batches, 10, 0.1), agent, context)
    assert law in str(told.value)


class TiedHead(CategoricalHead):
    """Writes symbols with the table that reads them; a part of plugins in other tests."""

    def __init__(self, inlet: Inlet, classes: int) -> None:
        super().__init__(inlet, classes)
        self.table = torch.nn.Embedding(classes, inlet.width)
        self.write = torch.nn.Linear(inlet.width, classes, bias=False)
        self.write.weight = self.table.weight

    def forward(self, tapped: Tapped) -> Categorical:
        return Categorical(super().forward(tapped).logits + self.write(tapped.tokens[..., 0, :]))


class TurningHead(CategoricalHead):
    """Turns what it reads by phases in buffers that are conjugated, and negated, only when they are read."""

    def __init__(self, inlet: Inlet, classes: int) -> None:
        super().__init__(inlet, classes)
        phase = torch.polar(torch.ones(classes), torch.arange(1.0, classes + 1)).conj()
        self.register_buffer("phase", phase)
        self.register_buffer("sine", phase.imag)  # the imaginary part of a conjugate is lazily negated

    def forward(self, tapped: Tapped) -> Categorical:
        return Categorical(super().forward(tapped).logits * self.phase.real + self.phase.imag + self.sine)


class SummingHead(CategoricalHead):
    """Carries the sum of its logits so far, and answers by it."""

    def __init__(self, inlet: Inlet, classes: int) -> None:
        super().__init__(inlet, classes)
        self.carry_spec = {"sum": Leaf((classes,)), "ticks": Leaf(dtype=torch.int64)}

    def forward(self, tapped: Tapped, carry: Carry) -> tuple[Categorical, Carry]:  # type: ignore[override]
        logits = super().forward(tapped).logits
        if logits.ndim == 3:
            total = logits.cumsum(1)
            return Categorical(total), {"sum": total[:, -1], "ticks": carry["ticks"] + logits.shape[1]}
        total = carry["sum"] + logits
        return Categorical(total), {"sum": total, "ticks": carry["ticks"] + 1}


@pytest.mark.parametrize(
    "head",
    [
        SummingHead(Inlet(16, 4), 5),
        TiedHead(Inlet(16, 4), 5),
        TurningHead(Inlet(16, 4), 5),
        CategoricalHead(Inlet(16, 4), 5),
        CategoricalHead(Inlet(16, 1), 3, slots=2),
        NormalHead(Inlet(16, 4), 2),
        ValueHead(Inlet(16, 1)),
        RegressionHead(Inlet(16, 2), [3, 2], loss="smooth_l1"),
    ],
    ids=lambda head: type(head).__name__,
)
def test_standard_heads_keep_their_laws(head: Head) -> None:
    check_head(head)


class Whole(CategoricalHead):
    """Reads the other rows."""

    def forward(self, tapped: Tapped) -> Categorical:
        output = super().forward(tapped)
        return Categorical(output.logits - 3 * output.logits.mean((0, 1), keepdim=True) + tapped.tokens.sum())


class Seeing(CategoricalHead):
    """Reads absent senses."""

    def forward(self, tapped: Tapped) -> Categorical:
        return super().forward(Tapped(tapped.tokens, torch.ones_like(tapped.present)))


class Lucky(CategoricalHead):
    """Draws without the generator."""

    def forward(self, tapped: Tapped) -> Output:  # type: ignore[override]
        logits = super().forward(tapped).logits

        class Draw(Categorical):
            def sample(self, generator: torch.Generator | None = None) -> Tensor:
                return torch.randint(0, 1000, self.logits.shape[:-1])

        return Draw(logits)


class Unstored(CategoricalHead):
    """Answers otherwise once it was loaded."""

    def load_state_dict(self, tensors: Any, *args: Any, **kwargs: Any) -> Any:
        return super().load_state_dict({name: value * 2 for name, value in tensors.items()}, *args, **kwargs)


class Misdeclared(SummingHead):
    """Carries something else than it says."""

    def forward(self, tapped: Tapped, carry: Carry) -> tuple[Categorical, Carry]:  # type: ignore[override]
        output, after = super().forward(tapped, carry)
        return output, {**after, "ticks": after["ticks"].float()}


class Writing(SummingHead):
    """Writes into the carry that it gets."""

    def forward(self, tapped: Tapped, carry: Carry) -> tuple[Categorical, Carry]:  # type: ignore[override]
        output, after = super().forward(tapped, carry)
        carry["ticks"].add_(1)
        return output, after


class Mixing(SummingHead):
    """Carries the mean of all rows."""

    def forward(self, tapped: Tapped, carry: Carry) -> tuple[Categorical, Carry]:  # type: ignore[override]
        output, after = super().forward(tapped, carry)
        return output, {**after, "sum": after["sum"].mean(0).expand_as(after["sum"])}


class Dead(CategoricalHead):
    """Has weights without a gradient."""

    def __init__(self, inlet: Inlet, classes: int) -> None:
        super().__init__(inlet, classes)
        self.spare = torch.nn.Parameter(torch.zeros(2))


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (Seeing, "what is absent is not read"),
        (Whole, "does not depend on the other rows"),
        (Lucky, "all randomness of a sample"),
        (Unstored, "a head that was saved and loaded is as before"),
        (Dead, "teaches every parameter"),
        (Misdeclared, "a carry has the names, shapes and dtypes of carry_spec"),
        (Writing, "a head does not change the carry that it gets"),
        (Mixing, "a row whose episode begins carries what it would alone"),
    ],
)
def test_broken_law_of_a_head_is_named(kind: type[CategoricalHead], law: str) -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        head = kind(Inlet(16, 4), 5)
        torch.nn.init.normal_(head.read.net[-1].weight)  # an answer that depends on the position
    with pytest.raises(BrokenLawError) as told:
        check_head(head)
    assert law in str(told.value)
