"""Outputs of heads: a distribution or a value with a loss, a sample and a mode, in plain tensor operations."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.agent.plans import Course, Lack, Plan
from devmind.errors import ConfigError, PluginError


def masked_mean(values: Tensor, mask: Tensor | None) -> Tensor:
    """Mean of `values` [..., *rest] where `mask` bool [...] is true (everywhere if None); 0 if it is true nowhere.

    A mask of numbers gives weights.
    """
    if mask is None:
        return values.mean()
    weight = mask.reshape(*mask.shape, *[1] * (values.ndim - mask.ndim)).expand_as(values)
    return (values * weight).sum() / weight.sum().clamp_min(1)


def fitting(target: Tensor, shape: torch.Size) -> Tensor:
    """The target, if it has the `shape` of the answer: torch would broadcast another one, and compare wrong pairs.

    Raises:
        ConfigError: it has another shape.
    """
    if target.shape != shape:
        raise ConfigError(f"A target has the shape of the head's answer, {list(shape)}; got {list(target.shape)}.")
    return target


@dataclass(frozen=True)
class Detections:
    """A head's detections in one tick of N rows, up to M things each, in any order.

    A head gives directions relative to the gaze (`Output.detections`); `seen_from` turns them into the torso's frame.
    Without embeddings, only the class distinguishes things.

    Args:
        here: which entries hold a thing, bool [N, M].
        kind: its class, int64 [N, M]; the head's `labels` are the names of the classes.
        azimuth_deg, elevation_deg, distance_m: from the eye, left and up positive, float [N, M].
        sure: the head's probability that the thing is there, [N, M].
        size_m: its width, [N, M]; None if the head gives none.
        embedding: its appearance, L2-normalised [N, M, E]; None if the head gives none.
    """

    here: np.ndarray
    kind: np.ndarray
    azimuth_deg: np.ndarray
    elevation_deg: np.ndarray
    distance_m: np.ndarray
    sure: np.ndarray
    size_m: np.ndarray | None = None
    embedding: np.ndarray | None = None

    def seen_from(self, pan_deg: np.ndarray, tilt_deg: np.ndarray, where: np.ndarray) -> Detections:
        """These detections in the torso's frame, for a gaze [N]; rows where `where` bool [N] is false hold nothing."""
        return Detections(
            self.here & where[:, None],
            self.kind,
            self.azimuth_deg + pan_deg[:, None],
            self.elevation_deg + tilt_deg[:, None],
            self.distance_m,
            np.where(where[:, None], self.sure, 0.0),
            self.size_m,
            self.embedding,
        )


class Output:
    """Base of all outputs; [...] is [B, T] in a batch, [B] in a tick.

    Attributes:
        horizon: number of ticks that one answer covers; above 1 it is a sequence [..., horizon, *shape], whose rest
            waits in the state.
        follow: number of ticks after which the head is asked again (None: after all).
    """

    horizon: int = 1
    follow: int | None = None

    def loss(self, target: Tensor, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Mean loss against `target`, a scalar.

        Args:
            target: of the shape of the answer, as `mode` gives it, or what the kind of output says.
            mask: bool [...], which entries count, or float [...], their weights.
            generator: for a loss that draws random numbers (the noise of a denoiser).
        """
        raise NotImplementedError

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """One draw."""
        raise NotImplementedError

    def mode(self) -> Tensor:
        """The most likely value."""
        raise NotImplementedError

    def fires(self) -> Tensor | None:
        """Whether an arc answers, bool [...]; None: always."""
        return None

    def answer(self, generator: torch.Generator | None = None) -> Tensor:
        """The action: a sample if a generator is given, otherwise the mode."""
        return self.mode() if generator is None else self.sample(generator)

    def numbers(self) -> Tensor:
        """The unconstrained numbers [..., *shape] of the answer: logits, means or values."""
        raise NotImplementedError(f"A {type(self).__name__} is not made of one tensor of free numbers.")

    def with_numbers(self, numbers: Tensor) -> Self:
        """The same kind of answer with other numbers."""
        raise NotImplementedError(f"A {type(self).__name__} is not made of one tensor of free numbers.")

    def overlays(self, row: int = 0) -> dict[str, np.ndarray]:
        """What can be drawn over the tapped picture, for one row of the flattened [...]; nothing by default.

        Any of
            boxes float32 [K, 5]: x0, y0, x1, y1 in 0..1 of the picture, ends exclusive, and a score in 0..1
            masks uint8 [64, 64]: the number of the thing at each pixel, from 1; 0 where there is none
            depth float32 [64, 64]: metres
        """
        return {}

    def detections(self) -> Detections | None:
        """Detections in the tapped picture, in directions relative to the gaze; None if this is not a detector.

        Leading dimensions are flattened to rows.
        """
        return None

    def planned(self, row: int = 0) -> Plan | None:
        """The plan that a row of a tick's answer follows, for drawing; None if there is none."""
        return None

    def course(self, given: Mapping[int, str], row: int = 0) -> Course | None:
        """The plan that a row would follow with the `given` symbols, by number; None if the head draws no plans.

        Raises:
            ConfigError: there is no such symbol, or a number is beyond the plan's last one.
        """
        return None

    def along(self, course: Course, at: float, row: int = 0) -> tuple[float, np.ndarray]:
        """How far a row is along its `course`, in points, after having been `at`, and the command that continues it."""
        raise NotImplementedError(f"A {type(self).__name__} draws no courses.")

    def lacks(self, page: str, row: int = 0) -> Lack | None:
        """What a row would need to know to do what the `page` asks; None if nothing."""
        return None


@dataclass(frozen=True)
class Effector:
    """The form of an effector's action in one tick: an array of this shape and dtype ("float32" or "int64").

    Attributes:
        horizon: the most ticks that one answer may cover; 1: every tick has an answer of its own.
    """

    name: str
    shape: tuple[int, ...] = ()
    dtype: str = "float32"
    horizon: int = 1

    def __str__(self) -> str:
        return f"{self.dtype} {list(self.shape)}, sequences of up to {self.horizon}"

    def check(self, head: str, output: Output, answer: Tensor) -> None:
        """Raise PluginError unless `answer` [B, ...] of `output` has this effector's form."""
        shape, dtype = tuple(answer.shape[1:]), "float32" if answer.is_floating_point() else "int64"
        sequence = output.horizon > 1
        if (shape[1:] if sequence else shape, dtype) == (self.shape, self.dtype) and output.horizon <= self.horizon:
            return
        got = f"{dtype} {list(shape)}, {'a sequence of ' + str(output.horizon) if sequence else 'no sequence'}"
        raise PluginError(
            f"The effector '{self.name}' takes {self}; the head '{head}' answers with {got}. Declare the effector with "
            "`add_effector` before its first head, or let the head answer in its form."
        )


@dataclass
class Categorical(Output):
    """One of n classes from `logits` [..., n].

    With a `threshold` this is an arc that may rest: it fires where the probability of not resting, 1 - P(class `rest`),
    is above the threshold, and then answers with the best class other than `rest`. A `table` float [n, K] maps the
    class to a vector [..., K] for a continuous effector.
    """

    logits: Tensor
    threshold: float | None = None
    rest: int = 0
    table: Tensor | None = None

    def log_prob(self, value: Tensor) -> Tensor:
        """Log probability of classes int64 [...]."""
        return self.logits.log_softmax(-1).gather(-1, value.long()[..., None]).squeeze(-1)

    def probabilities(self) -> Tensor:
        """Probabilities [..., n], summing to 1."""
        return self.logits.softmax(-1)

    def entropy(self) -> Tensor:
        """Entropy in nats, [...]."""
        log_p = self.logits.log_softmax(-1)
        return -(log_p.exp() * log_p).sum(-1)

    def among(self, legal: Tensor) -> Categorical:
        """The same distribution restricted to `legal` bool [..., n]."""
        return Categorical(
            self.logits.masked_fill(~legal, torch.finfo(self.logits.dtype).min), self.threshold, self.rest, self.table
        )

    def loss(self, target: Tensor, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Cross-entropy with classes int64 [...], or with probabilities float [..., n] as soft targets."""
        soft = target.is_floating_point() and target.shape == self.logits.shape
        wanted = target.flatten(0, -2) if soft else fitting(target, self.logits.shape[:-1]).long().flatten()
        try:
            losses = F.cross_entropy(self.logits.flatten(0, -2), wanted, reduction="none")
        except IndexError as error:  # on a CPU; a graphics card ends the process
            raise ConfigError(f"Targets of {self.logits.shape[-1]} classes are 0 to n - 1: {error}") from error
        return masked_mean(losses.reshape(self.logits.shape[:-1]), mask)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        flat = self.logits.flatten(0, -2).softmax(-1)
        return torch.multinomial(flat, 1, generator=generator).reshape(self.logits.shape[:-1])

    def mode(self) -> Tensor:
        return self.logits.argmax(-1)

    def fires(self) -> Tensor | None:
        return None if self.threshold is None else 1.0 - self.probabilities()[..., self.rest] > self.threshold

    def answer(self, generator: torch.Generator | None = None) -> Tensor:
        if self.threshold is None:
            index = super().answer(generator)
        else:
            others = torch.arange(self.logits.shape[-1], device=self.logits.device) != self.rest
            index = Categorical(self.among(others).logits).answer(generator)
        return index if self.table is None else self.table[index]

    def numbers(self) -> Tensor:
        return self.logits

    def with_numbers(self, numbers: Tensor) -> Self:
        return replace(self, logits=numbers)


@dataclass
class Normal(Output):
    """Diagonal normal distribution: `mean` and `log_std`, both [..., K].

    With a `threshold` it is an arc that may rest: it fires where the norm of its mean is above the threshold.
    """

    mean: Tensor
    log_std: Tensor
    threshold: float | None = None

    def log_prob(self, value: Tensor) -> Tensor:
        """Log density of values [..., K], summed over K, [...]."""
        z = (value - self.mean) * (-self.log_std).exp()
        return (-0.5 * z.square() - self.log_std - 0.5 * math.log(2.0 * math.pi)).sum(-1)

    def entropy(self) -> Tensor:
        """Entropy in nats, summed over K, [...]."""
        return (self.log_std + 0.5 * math.log(2.0 * math.pi * math.e)).sum(-1)

    def loss(self, target: Tensor, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        return masked_mean(-self.log_prob(fitting(target, self.mean.shape)), mask)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        noise = torch.randn(self.mean.shape, generator=generator, device=self.mean.device, dtype=self.mean.dtype)
        return self.mean + noise * self.log_std.exp()

    def mode(self) -> Tensor:
        return self.mean

    def numbers(self) -> Tensor:
        return self.mean

    def with_numbers(self, numbers: Tensor) -> Self:
        return replace(self, mean=numbers)

    def fires(self) -> Tensor | None:
        return None if self.threshold is None else self.mean.norm(dim=-1) > self.threshold


_ELEMENTWISE = {"mse": F.mse_loss, "l1": F.l1_loss, "smooth_l1": F.smooth_l1_loss}


@dataclass
class Regression(Output):
    """A value of any shape [..., *shape] with an elementwise loss: `mse`, `l1` or `smooth_l1`.

    With a `horizon` above 1 the first dimension of the shape is time.
    """

    value: Tensor
    kind: str = "mse"
    horizon: int = 1
    follow: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in _ELEMENTWISE:
            raise ConfigError(f"A regression's loss must be one of {', '.join(_ELEMENTWISE)}; got '{self.kind}'.")

    def loss(self, target: Tensor, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        wanted = fitting(target, self.value.shape).to(self.value.dtype)
        return masked_mean(_ELEMENTWISE[self.kind](self.value, wanted, reduction="none"), mask)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return self.value

    def mode(self) -> Tensor:
        return self.value

    def numbers(self) -> Tensor:
        return self.value

    def with_numbers(self, numbers: Tensor) -> Self:
        return replace(self, value=numbers)


STEADY = 0.01
"""The least variance by which `drifts` divides, for heads that hardly vary: a tenth of an effector's range, squared."""


def drifts(outputs: Mapping[str, Output], wanted: Mapping[str, Output], here: Tensor) -> dict[str, Tensor]:
    """By head of `wanted`, the squared distance of `outputs` from it, divided by the variance of `wanted` in the batch.

    Args:
        here: which Moments count, bool [B, T].
    """
    found = {}
    for name, output in wanted.items():
        squares = spread = torch.zeros((), device=here.device)
        for key, old in vars(output).items():
            new = getattr(outputs[name], key)
            if isinstance(old, Tensor) and old.is_floating_point() and old.shape[:2] == here.shape:
                squares = squares + (new[here] - old[here]).square().mean()
                spread = spread + old[here].var(0, correction=0).mean()
        found[name] = squares / spread.clamp_min(STEADY)
    return found
