"""Ridge regression from sums of quantised features: one pass over the data, in any order (Hoerl and Kennard 1970).

Features are rounded to integers from -127 to 127 by a scale that is fixed beforehand, so the sums of their products are
integers and exact: the same bits for any order of rows, any batches, any number of workers whose sums are merged, and
after rows were taken out as if they had never come. The penalty minimises generalised cross-validation (Golub, Heath
and Wahba 1979, eq. 1.4) on one eigendecomposition.

Class scores become probabilities by three numbers that are fitted on rows which the sums leave out. A hash of a row
decides whether it is left out, so this does not depend on the order either. Equal rows are left out together, perhaps
with all that is known of a class, so the weights are then solved once more with them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.errors import DevmindError

LEVELS, HALF = 127, 128
DIGITS = LEVELS * HALF
"""The largest integer of a quantised feature, and of a target that is no class: two digits to the base HALF, each of
which is multiplied exactly like a feature.
"""
EXACT = 1 << 24
"""Integers up to here are float32 numbers, and so are their sums."""
TOGETHER = EXACT // LEVELS**2
"""Rows that are multiplied at once: no partial sum of so many products passes EXACT, so a product in float32, which is
several times faster than one of integers where a processor has no instructions for these, is exact.
"""
CONDITION = 1e12
"""The largest condition number that is solved: in float64 about four digits of the weights are right then."""
PENALTIES = tuple(10.0 ** (e / 2) for e in range(-18, 5))
"""What generalised cross-validation chooses from: penalties a row, on standardised features."""
HELD_OUT = 1 / 32
"""The share of rows that probabilities are calibrated on."""
MOST_CALIBRATED = 20_000
MOST_CLIPPED = 0.1
"""The share of values beyond their scale at which nothing is solved. Of any distribution at most 1/16 are beyond four
times the root mean square, which learners take as scale.
"""
_HASH_BITS = 16


@dataclass(frozen=True)
class Solution:
    """A linear map: `features @ weight.T + bias`.

    Attributes:
        weight, bias: float64 [C, F] and [C] for features as they came, not quantised.
        penalty: the one used, a row. condition: of the system that was solved.
        rows: that were summed. nats: of the held-out rows after calibration, the mean; NaN without any.
    """

    weight: Tensor
    bias: Tensor
    penalty: float
    condition: float
    rows: int
    nats: float = math.nan

    def scores(self, features: Tensor) -> Tensor:
        """Outputs float64 [n, C]: targets; of classes, logits after calibration."""
        return features.double() @ self.weight.T + self.bias


class Sums:
    """What regression needs to know of all rows so far, in integers.

    Args:
        features: F, their number.
        targets: C, the number of classes, or of the numbers of a target.
        scale: the value that becomes 127, one or [F]; larger ones are clipped and counted.
        classes: whether targets are labels int64 [n]; else they are numbers [n, C].
        target_scale: the largest value of a target that is no class.
        held_out: the share of rows that are kept for calibration instead; only for classes.
    """

    def __init__(
        self,
        features: int,
        targets: int,
        scale: float | Tensor,
        *,
        classes: bool = True,
        target_scale: float | Tensor = 1.0,
        held_out: float = HELD_OUT,
        device: torch.device | str = "cpu",
    ) -> None:
        self.classes, self.held_share = classes, held_out if classes else 0.0
        self.scale = _scale(scale, features, "feature").to(device)
        self.target_scale = _scale(target_scale, targets, "target").to(device)
        zeros = partial(torch.zeros, dtype=torch.int64, device=device)
        self.rows = 0
        self.gram, self.totals = zeros((features, features)), zeros((features,))
        self.cross, self.counts = zeros((targets, features)), zeros((targets,))
        self.squares, self.clipped = zeros((targets,)), zeros(())
        self.held = torch.zeros(0, features, dtype=torch.int8, device=device)
        self.held_labels, self.held_order = zeros((0,)), zeros((0,))

    @property
    def features(self) -> int:
        """F, the number of features."""
        return len(self.totals)

    @property
    def seen(self) -> int:
        """All rows that came, those held out among them."""
        return self.rows + len(self.held)

    def update(self, features: Tensor, targets: Tensor) -> None:
        """Add rows.

        Args:
            features: [n, F]; int8 are taken as quantised.
            targets: labels int64 [n], or numbers [n, C].

        Raises:
            DevmindError: shapes do not fit, a label is no class, or a number is not finite; nothing is added then.
        """
        self._add(*self._checked(features, targets), 1)

    def forget(self, features: Tensor, targets: Tensor) -> None:
        """Take out rows that were added, leaving the bits of never having seen them.

        Raises:
            DevmindError: as `update`, or such rows cannot have been added; nothing is taken out then.
        """
        before = {name: value.clone() for name, value in self.state_dict().items()}
        checked = self._checked(features, targets)
        try:
            self._add(*checked, -1)
            counts = bool((self.counts < 0).any()) and self.classes
            if self.rows < 0 or counts or bool((self.gram.diagonal() < 0).any()) or int(self.clipped) < 0:
                raise DevmindError(_NEVER_SEEN)
        except DevmindError:
            self.load_state_dict(before)
            raise

    def merge(self, other: Sums) -> None:
        """Add all that another one has summed.

        Raises:
            DevmindError: it has other features, targets or scales.
        """
        if self._shape() != other._shape():
            raise DevmindError(
                "Only sums of the same features, targets, scales and held-out share can be merged; make both in the "
                "same way."
            )
        self.rows += other.rows
        for name in _SUMMED:
            getattr(self, name).add_(getattr(other, name).to(self.gram.device))
        self._keep(*(getattr(other, name).to(self.gram.device) for name in _HELD))

    def state_dict(self) -> dict[str, Tensor]:
        """Everything, as tensors; equal rows give equal bits, in whatever order they came."""
        order = self.held_order.argsort(stable=True)
        held = {name: getattr(self, name)[order] for name in _HELD}
        return {"rows": torch.tensor(self.rows), **{name: getattr(self, name) for name in (*_SCALES, *_SUMMED)}, **held}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self.rows = int(state["rows"])
        for name in (*_SCALES, *_SUMMED, *_HELD):
            setattr(self, name, state[name].clone().to(self.gram.device))

    def quantise(self, features: Tensor) -> Tensor:
        """Features [n, F] as integers -127..127 in float32."""
        return features.float().mul(LEVELS / self.scale).round_().clamp_(-LEVELS, LEVELS)

    def solve(self, penalty: float | None = None, *, codes: Tensor | None = None, standard: bool = True) -> Solution:
        """The regression on all rows so far; probabilities of classes are calibrated if enough rows were held out.

        Args:
            penalty: a row; None has it chosen.
            codes: [C, D]: regress to the code of each class, and calibrate nothing.
            standard: features are standardised and the bias is free; False: the features as they are, and no bias.

        Raises:
            DevmindError: there are fewer than two rows, only one class, no feature that varies, or more than
                MOST_CLIPPED of all values are beyond the scale; or the system's condition number is above CONDITION,
                since features depend on each other.
        """
        if not self.classes or codes is not None or not standard:
            return self._regression(penalty, codes, standard)
        apart = None
        if self.rows > 1 and int((self.counts > 0).sum()) > 1:
            apart = self._regression(penalty)
            if not len(self.held):
                return self.calibrated(apart)
        share, self.held_share = self.held_share, 0.0
        self._add(self.held, self.held_labels, 1)
        try:
            try:
                whole = self._regression(penalty if apart is None else apart.penalty)
            except DevmindError:
                if apart is None or penalty is not None:
                    raise
                whole = self._regression()  # what was chosen for fewer rows is too little for all
            shares = self._shares()
        finally:
            self._add(self.held, self.held_labels, -1)
            self.held_share = share
        return _spread(whole, shares, *((1.0, 1.0, 1.0, math.nan) if apart is None else self._calibration(apart)))

    def calibrated(self, solution: Solution) -> Solution:
        """Logits a (s - p) / p^k + b log p of scores s, with the classes' shares p; a, b and k of the held-out rows."""
        return _spread(solution, self._shares(), *self._calibration(solution))

    def _regression(self, penalty: float | None = None, codes: Tensor | None = None, standard: bool = True) -> Solution:
        """`solve` on the rows that are summed, without probabilities."""
        if self.rows < 2:
            raise DevmindError(f"A closed-form solution needs two rows at least; got {self.rows}. Give more data.")
        if self.classes and int((self.counts > 0).sum()) < 2:
            raise DevmindError("All rows are of one class, so there is nothing to tell apart; give rows of a second.")
        if penalty is not None and not 0 <= penalty < math.inf:
            raise DevmindError(f"The penalty must be 0 or more; got {penalty}. Leave it out to have it chosen.")
        if int(self.clipped) > MOST_CLIPPED * self.seen * self.features:
            raise DevmindError(
                f"Of all values of features {int(self.clipped) / (self.seen * self.features):.0%} are beyond the scale "
                "and were clipped, so the weights would be those of other numbers; give a larger scale."
            )
        # Everything from here on is float64 on the processor, so the weights do not depend on the device.
        n, unit = self.rows, self.scale.double().cpu() / LEVELS
        lower = self.gram.cpu().double()
        gram = (lower.tril() + lower.tril(-1).T) * unit * unit[:, None]
        cross, means = self.cross.cpu().double() * unit, self.totals.cpu().double() * unit / n
        targets, squares = self.counts.cpu().double() / n, self.squares.cpu().double()
        if not self.classes:
            digit = self.target_scale.double().cpu() / DIGITS
            cross, targets, squares = cross * digit[:, None], targets * digit, squares * digit**2
        else:
            squares = self.counts.cpu().double()
        if codes is not None:
            coded = codes.double().cpu()
            squares = self.counts.cpu().double() @ coded.square()
            cross, targets = coded.T @ cross, targets @ coded
        if not standard:
            weight, used, condition = _solve(gram, cross, squares, n, penalty)
            return Solution(weight, torch.zeros(len(weight), dtype=torch.float64), used, condition, n)
        gram, cross = gram - n * means * means[:, None], cross - n * targets[:, None] * means
        deviation = (gram.diagonal() / n).clamp_min(0).sqrt()
        varies = deviation > 1e-6 * unit  # a constant feature gets weight 0
        inverse = torch.where(varies, 1 / deviation.where(varies, torch.ones(())), 0.0)
        kept = varies.nonzero().flatten()
        if not len(kept):
            raise DevmindError(
                "Every feature is the same in all rows, so nothing can be told from them; look at what reaches the "
                "layer, or give other features."
            )
        inner = (gram * inverse * inverse[:, None])[kept][:, kept]
        weight = torch.zeros_like(cross)
        weight[:, kept], used, condition = _solve(
            inner, (cross * inverse)[:, kept], squares - n * targets**2, n, penalty
        )
        weight *= inverse
        return Solution(weight, targets - weight @ means, used, condition, n)

    def _shares(self) -> Tensor:
        """The share of each class, float64 [C], none of them 0."""
        return (self.counts.cpu().double() + 0.5) / (self.rows + 0.5 * len(self.counts))

    def _calibration(self, solution: Solution) -> tuple[float, float, float, float]:
        """`calibrate` on the held-out rows of classes that the sums know; without any, the numbers 1, and NaN."""
        state = self.state_dict()
        rows, labels = (state[name][:MOST_CALIBRATED].cpu() for name in ("held", "held_labels"))
        known = self.counts.cpu()[labels] > 0
        if not bool(known.any()):
            return 1.0, 1.0, 1.0, math.nan
        scores = solution.scores(rows[known].double() * (self.scale.double().cpu() / LEVELS))
        return calibrate(scores.numpy(), labels[known].numpy(), self._shares().numpy())

    def _checked(self, features: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        n, count = len(features), len(self.counts)
        wanted = (n,) if self.classes else (n, count)
        if features.ndim != 2 or features.shape[1] != self.features or tuple(targets.shape) != wanted:
            kind = "labels [n]" if self.classes else f"targets [n, {count}]"
            raise DevmindError(
                f"Expected features [n, {self.features}] and {kind}; got {list(features.shape)} and "
                f"{list(targets.shape)}."
            )
        if features.numel() and not bool(torch.stack(features.aminmax()).isfinite().all()):
            raise DevmindError("A feature is NaN or infinite; closed form needs finite ones. Drop those rows.")
        if self.classes:
            if n and not bool(((targets >= 0) & (targets < count)).all()):
                raise DevmindError(
                    f"Labels are 0 to {count - 1}; got {int(targets.min())} to {int(targets.max())}. Drop other rows."
                )
        elif not bool(targets.isfinite().all()):
            raise DevmindError("A target is NaN or infinite; closed form needs finite ones. Drop those rows.")
        return features.to(self.gram.device), targets.to(self.gram.device)

    @torch.no_grad()
    def _add(self, features: Tensor, targets: Tensor, sign: int) -> None:
        for rows, wanted in zip(features.split(TOGETHER), targets.split(TOGETHER), strict=True):
            if rows.dtype == torch.int8:
                integers = rows.float()
            else:
                integers = rows.float().mul(LEVELS / self.scale).round_()
                self.clipped += sign * (integers.abs() > LEVELS).sum()
                integers.clamp_(-LEVELS, LEVELS)
            if self.held_share:
                code = _hash(integers)
                held = (code & ((1 << _HASH_BITS) - 1)) < round(self.held_share * (1 << _HASH_BITS))
                if bool(held.any()):
                    order = _mix(code[held] + wanted[held])
                    (self._keep if sign > 0 else self._drop)(integers[held].to(torch.int8), wanted[held], order)
                    integers, wanted = integers[~held], wanted[~held]
            self.rows += sign * len(integers)
            add_gram(self.gram, integers, sign)
            self.totals += sign * integers.sum(0).long()
            if self.classes:
                present, place = wanted.unique(return_inverse=True)
                sums = integers.new_zeros(len(present), self.features).index_add_(0, place, integers)
                self.cross.index_add_(0, present, sums.long(), alpha=sign)
                self.counts += sign * torch.bincount(wanted, minlength=len(self.counts))
            else:
                digits = wanted.double().mul(DIGITS / self.target_scale).round_().clamp_(-DIGITS, DIGITS)
                high = ((digits + HALF // 2) / HALF).floor()
                low = digits - HALF * high
                for part, unit in ((high, HALF), (low, 1)):
                    self.cross += sign * unit * (part.float().T @ integers).long()
                self.counts += sign * digits.sum(0).long()
                self.squares += sign * digits.square().sum(0).long()

    def _keep(self, held: Tensor, labels: Tensor, order: Tensor) -> None:
        self.held = torch.cat((self.held, held))
        self.held_labels, self.held_order = torch.cat((self.held_labels, labels)), torch.cat((self.held_order, order))

    def _drop(self, held: Tensor, labels: Tensor, order: Tensor) -> None:
        left = torch.ones(len(self.held), dtype=torch.bool, device=held.device)
        for row, label, code in zip(held, labels, order, strict=True):
            same = (left & (self.held_order == code) & (self.held_labels == label)).nonzero().flatten()
            if not len(same) or not bool((self.held[same[0]] == row).all()):
                raise DevmindError(_NEVER_SEEN)
            left[same[0]] = False
        self.held, self.held_labels, self.held_order = self.held[left], self.held_labels[left], self.held_order[left]

    def _shape(self) -> tuple[Any, ...]:
        return self.classes, self.held_share, self.scale.tolist(), self.target_scale.tolist(), len(self.counts)


_SCALES = ("scale", "target_scale")
_SUMMED = ("gram", "totals", "cross", "counts", "squares", "clipped")
_HELD = ("held", "held_labels", "held_order")
_NEVER_SEEN = "Such rows were never added, so they cannot be forgotten; give the rows as they were given to `update`."


def add_gram(total: Tensor, rows: Tensor, sign: int = 1) -> None:
    """Add rows.T @ rows to the lower triangle of int64 `total` [F, F], exactly.

    Args:
        rows: at most TOGETHER of integers -127..127 in float32, [n, F].
    """
    if rows.device.type == "cpu":
        from scipy.linalg.blas import ssyrk

        # Half of the products, by BLAS; its upper triangle in columns is the lower one in rows.
        total.add_(torch.from_numpy(ssyrk(1.0, rows.numpy().T).T).to(torch.int32), alpha=sign)
        return
    total.add_((rows.T @ rows).to(torch.int32), alpha=sign)


def calibrate(scores: np.ndarray, labels: np.ndarray, prior: np.ndarray) -> tuple[float, float, float, float]:
    """The numbers a, b and k with the fewest nats of logits a (s - p) / p^k + b log p, and these nats.

    A normal prior of width 1 around log a = 0, b = 1, k = 1, where the logits are the classes' log odds to first order,
    keeps a few rows from deciding alone.

    Args:
        scores: s float64 [n, C]; labels: int64 [n]; prior: p float64 [C], all above 0.
    """
    from scipy.optimize import minimize
    from scipy.special import log_softmax

    right, apart, log_prior = np.arange(len(labels)), scores - prior, np.log(prior)

    def cost(numbers: np.ndarray) -> float:
        return nats(numbers) + 0.5 * float(np.square(numbers - (0.0, 1.0, 1.0)).sum()) / len(labels)

    def nats(numbers: np.ndarray) -> float:
        a, b, k = numbers
        logits = np.exp(np.clip(a, -20, 20)) * apart * np.exp(-np.clip(k, -2, 2) * log_prior) + b * log_prior
        return -float(log_softmax(logits, axis=1)[right, labels].mean())

    starts = [minimize(cost, start, method="Nelder-Mead", options={"xatol": 1e-2, "fatol": 1e-4, "maxiter": 120})
              for start in ((1.5, 1.0, 0.2), (0.0, 1.0, 1.0))]  # fmt: skip
    best = min(starts, key=lambda found: float(found.fun))
    a, b, k = (float(x) for x in best.x)
    return math.exp(min(max(a, -20), 20)), b, min(max(k, -2), 2), nats(best.x)


def _spread(solution: Solution, shares: Tensor, a: float, b: float, k: float, nats: float) -> Solution:
    """A solution whose scores are the logits of `calibrate`."""
    spread = a / shares**k
    weight, bias = solution.weight * spread[:, None], (solution.bias - shares) * spread + b * shares.log()
    return Solution(weight, bias, solution.penalty, solution.condition, solution.rows, nats)


def _solve(gram: Tensor, cross: Tensor, squares: Tensor, n: int, penalty: float | None) -> tuple[Tensor, float, float]:
    """Weights [C, F] of (gram + n penalty I) W = cross.T, the penalty and the condition number."""
    from scipy.linalg import lapack

    if penalty is None:
        values, vectors = torch.linalg.eigh(gram)
        values = values.clamp_min(0)
        turned = cross @ vectors
        energy = turned.square().sum(0)
        found = dict[float, float]()
        for one in PENALTIES:
            ridge = n * one
            if float((values[-1] + ridge) / (values[0] + ridge)) > CONDITION:
                continue
            rest = float(squares.sum() - (energy * (values + 2 * ridge) / (values + ridge) ** 2).sum())
            free = 1 - (1 + float((values / (values + ridge)).sum())) / n
            found[one] = max(rest, 0.0) / n / free**2 if free > 0 else math.inf
        penalty = min(found, key=lambda one: found[one])
        ridge = n * penalty
        return (turned / (values + ridge)) @ vectors.T, penalty, float((values[-1] + ridge) / (values[0] + ridge))
    system = gram.clone()
    system.diagonal().add_(n * penalty)
    factor, failed = lapack.dpotrf(system.numpy(), lower=1)
    # The reciprocal condition number in the 1-norm, from the factor (Higham 1988).
    reciprocal = 0.0 if failed else lapack.dpocon(factor, float(system.abs().sum(0).max()), uplo="L")[0]
    if reciprocal < 1 / CONDITION:
        raise DevmindError(
            f"The features depend on each other: the system's condition number is "
            f"{'beyond float64' if failed or not reciprocal else f'{1 / reciprocal:.1e}'}, and at most {CONDITION:.0e} "
            "is solved, as the weights would be noise. Give a larger penalty, or none to have it chosen."
        )
    solved, _ = lapack.dpotrs(factor, cross.T.contiguous().numpy(), lower=1)
    return torch.from_numpy(np.ascontiguousarray(solved.T)), penalty, 1 / reciprocal


def _hash(integers: Tensor) -> Tensor:
    """A number int64 [n] of each row of integers, the same on every device: their products with small integers are
    exact in float32.
    """
    drawn = torch.randint(-3, 4, (integers.shape[1], 4), generator=torch.Generator().manual_seed(1)).float()
    parts = (integers @ drawn.to(integers.device)).long()
    code = torch.zeros_like(parts[:, 0])
    for part in parts.T:
        code = _mix(code ^ part)
    return code


def _mix(code: Tensor) -> Tensor:
    """A permutation of int64 that spreads its bits (splitmix64's, Steele, Lea and Flood 2014); shifts keep the sign."""
    code = code + (0x9E3779B97F4A7C15 - (1 << 64))
    code = (code ^ (code >> 30)) * (0xBF58476D1CE4E5B9 - (1 << 64))
    code = (code ^ (code >> 27)) * (0x94D049BB133111EB - (1 << 64))
    return code ^ (code >> 31)


def _scale(scale: float | Tensor, count: int, of: str) -> Tensor:
    given = torch.as_tensor(scale, dtype=torch.float32)
    if given.numel() not in (1, count) or not bool((given > 0).all() and given.isfinite().all()):
        raise DevmindError(f"A {of}'s scale is a number above 0, one or {count} of them; got {given.tolist()}.")
    return given.flatten().expand(count).clone()
