"""Learning by gradient on a loss: AdamW, warm-up and linear decay, rehearsal of earlier lessons mixed in."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from lightning import LightningModule
from torch import Tensor, nn

from devmind.seeding import derive_seed

if TYPE_CHECKING:
    from devmind.agent.agent import Agent

Loss = Callable[["Agent", Any], tuple[Tensor, Mapping[str, Tensor]]]


class Rehearsed(NamedTuple):
    """A batch of another lesson than the one that is taught; `which` counts the learner's `rehearsal`."""

    which: int
    batch: Any


class Learner(LightningModule):
    """Base of every learner: an agent, a position in its lesson, and what the runner keeps for an exact resume.

    The position `update` counts training steps since the lesson began; learning rates and random numbers are functions
    of it, so a resumed lesson goes on as if it had never stopped.
    """

    def __init__(self, agent: Agent, *, steps: int, seed: int) -> None:
        super().__init__()
        self.agent = agent
        self.steps = steps
        self.seed = seed
        self.update = 0
        self.resumed_optimizers: list[dict[str, Any]] = []

    def extra_state(self) -> dict[str, Any]:
        """What besides the agent, the optimizers and the position the next step depends on; nothing by default."""
        return {}

    def load_extra_state(self, state: Mapping[str, Any]) -> None:
        """Take back what `extra_state` gave."""

    def on_train_start(self) -> None:
        """Give the optimizers the state they were saved with."""
        optimizers = self.trainer.optimizers
        for optimizer, state in zip(optimizers, self.resumed_optimizers, strict=bool(self.resumed_optimizers)):
            optimizer.load_state_dict(state)

    def on_train_batch_start(self, batch: Any, batch_idx: int) -> None:
        """Every step has its own named random numbers."""
        torch.manual_seed(derive_seed(self.seed, type(self).__name__, self.update))

    def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Count the step."""
        self.update += 1

    def report(self, values: Mapping[str, Tensor | float]) -> None:
        """Log scalars; the progress bar, the journal and Lightning's loggers read them."""
        self.log_dict(dict(values), on_step=True, on_epoch=False, batch_size=1)

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        """Move tensors (nested in dicts) to the device; what is no tensor stays."""
        if isinstance(batch, Tensor):
            return batch.to(device)
        if isinstance(batch, Mapping):
            return {key: self.transfer_batch_to_device(value, device, dataloader_idx) for key, value in batch.items()}
        if isinstance(batch, Rehearsed):
            return Rehearsed(batch.which, self.transfer_batch_to_device(batch.batch, device, dataloader_idx))
        return batch


def schedule(update: int, steps: int, warm_up: int = 20, decay_from: float = 0.3) -> float:
    """Factor on the learning rate: linear warm-up, flat, linear decay to zero from `decay_from` of the steps on."""
    if update < warm_up:
        return (update + 1) / warm_up
    left = (steps - update) / max(1.0, steps * (1 - decay_from))
    return max(0.0, min(1.0, left))


class GradientLearner(Learner):
    """Minimises `loss(agent, batch) -> (loss, scalars to log)` over the parameters named by `trains`.

    Args:
        learning_rate: at its highest, of groups of the optimizer that name no `rate` of their own.
        trains: prefixes of parameter names to train ('' trains everything); all others are frozen meanwhile.
        decay_from: the share of the steps from which on rates fall.

    Attributes:
        rehearsal: losses of the lessons whose batches come among its own, as `Rehearsed`.
    """

    def __init__(
        self,
        agent: Agent,
        loss: Loss,
        *,
        steps: int,
        seed: int,
        learning_rate: float,
        trains: Sequence[str] = ("",),
        weight_decay: float = 0.02,
        decay_from: float = 0.3,
    ) -> None:
        super().__init__(agent, steps=steps, seed=seed)
        self.rehearsal: tuple[Loss, ...] = ()
        self.loss, self.learning_rate, self.weight_decay = loss, learning_rate, weight_decay
        self.trains, self.decay_from = tuple(trains), decay_from

    def trained_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """Names and parameters this lesson changes."""
        for name, parameter in self.agent.named_parameters():
            if name.startswith(self.trains):
                yield name, parameter

    def on_fit_start(self) -> None:
        """Freeze what this lesson does not train: no gradient is computed for it."""
        trained = {name for name, _ in self.trained_parameters()}
        for name, parameter in self.agent.named_parameters():
            parameter.requires_grad_(name in trained)

    def on_fit_end(self) -> None:
        """Give every parameter its gradient back for the lessons to come."""
        self.agent.requires_grad_(True)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """AdamW; matrices decay, vectors and gains do not."""
        parameters = [p for _, p in self.trained_parameters()]
        groups = [
            {"params": [p for p in parameters if p.ndim >= 2], "weight_decay": self.weight_decay},
            {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
        ]
        return torch.optim.AdamW([g for g in groups if g["params"]], lr=self.learning_rate, betas=(0.9, 0.95))

    def set_rates(self, optimizer: Any) -> None:
        """Every group's learning rate at this position."""
        for group in optimizer.param_groups:
            full = group.get("rate", self.learning_rate)
            group["lr"] = full * schedule(self.update, self.steps, decay_from=self.decay_from)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """One loss; the learning rate is a function of the position alone."""
        self.set_rates(self.optimizers())
        loss_of, prefix = self.loss, ""
        if isinstance(batch, Rehearsed):
            loss_of, batch, prefix = self.rehearsal[batch.which], batch.batch, "rehearsal/"
        loss, scalars = loss_of(self.agent, batch)
        self.report({prefix + "loss": loss.detach()} | {prefix + name: value for name, value in scalars.items()})
        return loss

    def configure_gradient_clipping(
        self, optimizer: Any, gradient_clip_val: Any = None, gradient_clip_algorithm: Any = None
    ) -> None:
        """Clip the global norm at 1: rendered scenes give an outlier now and then."""
        nn.utils.clip_grad_norm_([p for _, p in self.trained_parameters()], 1.0, foreach=True)
