"""Learning by one deterministic solve: a linear layer of a head, fitted in closed form on frozen features.

Each batch is added to sums of integers (`devmind.algorithms.closed_form`), so the layer does not depend on the order of
the batches. There is no learning rate, and every example is seen once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from devmind.agent.config import by_size
from devmind.algorithms.closed_form import HELD_OUT, LEVELS, Solution, Sums
from devmind.curriculum.stage import Batches, Context, Learner, Lesson, Scalars
from devmind.errors import ConfigError, DevmindError
from devmind.learners.gradient import TINY_ROWS, Loss, head_loss

if TYPE_CHECKING:
    from devmind.agent.agent import Agent

Features = Callable[["Agent", Any], Tensor]
"""Of a batch, what the layer reads, [..., F]."""
HEADROOM = 4.0
"""Where no scale is given, it is so many times the root mean square of the first batch's features."""


def reaching(agent: Agent, head: str, batch: Any, layer: str = "") -> Tensor:
    """What reaches a linear layer of a head, by default its last one, when the head answers, [..., F].

    Raises:
        ConfigError: no layer is named, and the head's answer is not what its last one says.
    """
    met: list[tuple[Tensor, Tensor]] = []
    module = agent.head(head)
    name = layer or last_linear(module)
    handle = module.get_submodule(name).register_forward_hook(
        lambda module, given, answer: met.append((given[0], answer))
    )
    try:
        output: Any = agent(batch, [head])[head]
    finally:
        handle.remove()
    if not layer and not (len(met) == 1 and _says(output, met[0][1])):
        raise ConfigError(
            f"The head '{head}' does not answer by its last linear layer, '{name}', alone, so what solves this layer "
            "would not solve the head; name another `layer`, give `features`, or teach it by gradient."
        )
    return met[0][0]


def _says(output: Any, numbers: Tensor) -> bool:
    """Whether an answer is made of these numbers and no others."""
    try:
        return torch.equal(output.numbers().flatten(), numbers.flatten())
    except NotImplementedError:
        return False


def last_linear(head: nn.Module) -> str:
    """The name of the last linear layer of a head.

    Raises:
        ConfigError: it has none.
    """
    names = [name for name, part in head.named_modules() if isinstance(part, nn.Linear)]
    if not names:
        raise ConfigError(f"A {type(head).__name__} has no linear layer that could be solved in closed form.")
    return names[-1]


class ClosedFormLearner(Learner):
    """Solves a linear layer, by default the last one of a head, for classes or for numbers.

    The layer is solved behind the steps 1, 2, 4, 8 and so on, and behind the last one. Each round of a lesson that is
    taught in rounds has sums of its own.

    Args:
        head: its name.
        target: the entry of a batch with labels int64 [...], below 0 for rows to leave out, or numbers [..., C].
        features: by default what reaches the layer when the head answers.
        scale: of a feature, the largest value that is told from larger ones, one or [F]; by default HEADROOM times the
            size in the first batch. Sums that are to be merged need the same one.
        layer: the name of the layer in the head; by default the last linear one.
        classes: whether the targets are labels. target_scale: the largest of other targets.
        penalty: a row; by default it is chosen by generalised cross-validation at each solve.
        loss: by which a later lesson rehearses this one; by default the head's own.
    """

    def __init__(
        self,
        agent: Agent,
        head: str,
        target: str,
        *,
        seed: int,
        features: Features | None = None,
        scale: float | Tensor | None = None,
        layer: str = "",
        classes: bool = True,
        target_scale: float | Tensor = 1.0,
        penalty: float | None = None,
        held_out: float = HELD_OUT,
        loss: Loss | None = None,
    ) -> None:
        module = agent.head(head)
        own, layer = not layer, layer or last_linear(module)
        super().__init__(agent, seed=seed, trains=(f"heads.{head}.{layer}.",))
        self.head, self.target, self.penalty, self.scale = head, target, penalty, scale
        self.layer: Any = module.get_submodule(layer)
        self.features = features or (lambda agent, batch: reaching(agent, head, batch, "" if own else layer))
        self.classes, self.target_scale, self.held_out = classes, target_scale, held_out
        self.sums: Sums | None = None
        self.loss, self.solved = loss or head_loss(head, target), -1

    def rows(self, batch: Any) -> tuple[Tensor, Tensor]:
        """Features [n, F] and targets [n] or [n, C] of a batch."""
        training = self.agent.training
        self.agent.eval()  # without dropout, as features are fixed numbers
        try:
            with torch.no_grad(), torch.autocast(self.layer.weight.device.type, enabled=False):
                features = self.features(self.agent, batch).float()
        finally:
            self.agent.train(training)
        features = features.flatten(0, -2)
        targets = batch[self.target].to(features.device)
        if not self.classes:
            return features, targets.reshape(len(features), -1)
        targets = targets.flatten()
        if len(targets) != len(features):
            raise ConfigError(
                f"The batch has {len(targets)} labels '{self.target}' for {len(features)} rows of features; give one "
                "a row, -1 for rows without any."
            )
        return features[targets >= 0], targets[targets >= 0]

    def update(self, batch: Any, step: int) -> Scalars:
        """Add the batch to the sums, and solve where the step's number is a power of two, or the last."""
        features, targets = self.rows(batch)
        if self.sums is None:
            self.sums = self._empty(features)
        self.sums.update(features, targets)
        told: dict[str, Tensor | float] = {"examples": float(self.sums.seen)}
        last = step + 1 == self.steps
        if last or (step + 1) & step == 0:
            try:
                solution = self.solve()
            except DevmindError:
                if last:
                    raise
                return told  # too few examples so far
            told |= {"condition": solution.condition, "penalty": solution.penalty}
            if solution.nats == solution.nats:
                told["nats"] = solution.nats
        return told

    @torch.no_grad()
    def solve(self) -> Solution:
        """Solve for all examples so far, and write the weights into the layer."""
        assert self.sums is not None, "update comes before solve"
        solution = self.sums.solve(self.penalty)
        self.layer.weight.copy_(solution.weight)
        self.layer.bias.copy_(solution.bias)
        self.solved = self.sums.seen
        return solution

    def end(self) -> None:
        """Solve if the lesson was cut short of its last step."""
        if self.sums is not None and self.solved != self.sums.seen:
            self.solve()
        super().end()

    def state_dict(self) -> dict[str, Any]:
        """The sums; None before the first batch."""
        return {"sums": None if self.sums is None else self.sums.state_dict(), "solved": self.solved}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore these."""
        self.solved, self.sums = int(state["solved"]), None
        if state["sums"] is not None:
            self.sums = self._sums(state["sums"]["scale"])
            self.sums.load_state_dict(state["sums"])

    def rehearse(self, batch: Any) -> tuple[Tensor, Scalars]:
        """The loss, down which a later lesson goes by gradient."""
        return self.loss(self.agent, batch)

    def _empty(self, features: Tensor) -> Sums:
        if self.scale is not None:
            return self._sums(self.scale)
        size = features.double().square().mean(0).sqrt().float()
        least = size.max().clamp_min(1e-6) / LEVELS  # a feature that is silent in the first batch may not stay so
        return self._sums(HEADROOM * torch.maximum(size, least))

    def _sums(self, scale: float | Tensor) -> Sums:
        count, size = self.layer.weight.shape
        device, share = self.layer.weight.device, self.held_out
        return Sums(size, count, scale, classes=self.classes, target_scale=self.target_scale, held_out=share,
                    device=device)  # fmt: skip


def closed_form_lesson(
    context: Context,
    name: str,
    learner: Callable[[Agent, Context], ClosedFormLearner],
    make: Callable[[Agent, Context, int, int], Any],
    *,
    steps: Mapping[str, int],
    rows: int | Mapping[str, int],
    minutes: float,
    settings: Sequence[str] = ("batch",),
    prefetch: bool = False,
    **more: Any,
) -> Lesson:
    """A lesson that `learner` solves; the configuration may change its rows.

    Args:
        make: `(agent, context, update, rows) -> batch`; with `prefetch` it must not read the agent.
        steps, rows: by size, as for `gradient_lesson`; more: further arguments of Lesson.
    """
    size = context.config.size
    rows = rows if isinstance(rows, Mapping) else by_size(rows, tiny=TINY_ROWS)
    count, _ = context.changed(name, rows[size], 0.0)

    def make_batches(agent: Agent, context: Context, steps: int) -> Batches:
        return Batches(lambda update: make(agent, context, update, context.rows(count)), steps, prefetch)

    return Lesson(name, learner, make_batches, steps[size], minutes, settings=tuple(settings), **more)
