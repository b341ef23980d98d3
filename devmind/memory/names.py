"""Names taught by a few examples, fitted in closed form, with "unknown" as a possible answer.

A name's model is the mean of its examples' rows (`similarity.py`), and the nearest name has the highest cosine.
`confidence.py` gives its probability, calibrated on made-up kinds, from the similarity of the thing to the name, to the
other names and to built-in strangers, and from the similarity of the taught examples to each other. The reasons for
this choice: docs/decisions.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import numpy as np

from devmind.errors import StoreError, nearest
from devmind.memory.confidence import (
    GUESSED_FROM,
    NAMED_FROM,
    USUAL_OTHER,
    USUAL_OWN,
    WEIGHTS,
    Evidence,
    log_odds,
    usual,
)
from devmind.memory.entry import BEFORE, Entry, Filters, Key
from devmind.memory.episodic import Memory
from devmind.memory.similarity import SHARES_WEIGHT, Likeness, Strangers, exact_sums, sums_of, unit

NEAREST_STRANGERS = 5
"""The similarity to strangers is the mean over so many of the most similar kinds: a single one may be similar by
chance."""
MAX_NAME = 64
_LEAST_DISTANCE = 0.05
"""Smaller distances count as this one: an example taught twice does not make a name narrow."""


def proper_name(text: str) -> str:
    """A name without the blanks around it; StoreError when it is empty, too long or has several lines."""
    name = text.strip()
    if not name or len(name.encode()) > MAX_NAME or not name.isprintable():
        raise StoreError(f"A name is one line of 1 to {MAX_NAME} bytes; got {name[: MAX_NAME + 1]!r}.")
    return name


class Rows(Protocol):
    """Makes rows of length 1 from features, as `Likeness` does."""

    def rows(self, features: np.ndarray) -> np.ndarray:
        """[n, D] of [n, F]."""
        ...


@dataclass(frozen=True)
class Named:
    """An answer of one sense.

    Args:
        name: the name, or None for unknown.
        nearest: the name it would have if it were known.
        confidence: the probability, 0..1, that `nearest` is right, if half of the questions are about a named thing.
            `name` is given from `NAMED_FROM` on, and from `GUESSED_FROM` on messages say "perhaps".
        likeness: cosine to the nearest name, -1..1.
        shares: the probability of every name, `confidence` for the nearest; the rest to 1 is unknown's.
    """

    name: str | None
    nearest: str
    confidence: float
    likeness: float
    shares: Mapping[str, float] = field(default_factory=dict, compare=False)

    def __str__(self) -> str:
        """For messages: "cup (71 %)", "perhaps cup (38 %)", "unknown (most like cup, 22 %)"."""
        percent = f"{round(100 * self.confidence)} %"
        if self.name is not None:
            return f"{self.name} ({percent})"
        if self.confidence >= GUESSED_FROM:
            return f"perhaps {self.nearest} ({percent})"
        return f"unknown (most like {self.nearest}, {percent})"


class Fitted:
    """Names fitted on the examples of one sense.

    Args:
        features: float32 [n, F].
        names: n of them, None for things shown as no name: such a model is fitted like a name's, and never given as an
            answer. At least one must be a name.
        groups: int [n]: examples of one group come from one thing shown once, and count as one; by default each is a
            group of its own.
        strangers: things without a name. Without any, the irrelevant directions of features are unknown too.
        likeness: makes rows of features; by default fitted on these strangers.
        sense: selects the weights (`WEIGHTS`).
        pressed: names that were taught by a press. Shares (colours) count for these and for the scenes shown as no
            name, which were seen in the same light, and both use the weights of a press.

    Attributes:
        names: the K names in sorted order.
    """

    def __init__(
        self,
        features: np.ndarray,
        names: Sequence[str | None],
        *,
        groups: Sequence[int] | np.ndarray | None = None,
        strangers: Strangers | None = None,
        likeness: Rows | None = None,
        sense: str = "sight",
        pressed: Collection[str] = (),
    ) -> None:
        shown = list(range(len(names))) if groups is None else np.asarray(groups).tolist()
        self.names = np.array(sorted({name for name in names if name is not None}))
        self._likeness = likeness or Likeness(features.shape[1], strangers)
        # Each row by itself: a product of several rows may round one differently than a product of others.
        rows = np.concatenate([self._likeness.rows(one[None]) for one in features])
        # One model for each name, and one for each group of no name, because two scenes may differ.
        models = {name: place for place, name in enumerate(self.names.tolist())}
        for name, group in zip(names, shown, strict=True):
            models.setdefault(name if name is not None else ("no name", group), len(models))
        every = [
            models[name if name is not None else ("no name", group)] for name, group in zip(names, shown, strict=True)
        ]
        # One row for everything shown at once, however many crops of it were kept.
        once = sorted(set(zip(every, shown, strict=True)))
        place = {pair: number for number, pair in enumerate(once)}
        belongs = np.array([place[pair] for pair in zip(every, shown, strict=True)])
        shares = strangers.shares if strangers is not None else 0
        means, owner = unit(exact_sums(rows, belongs, len(once)), shares), np.array([model for model, _ in once])
        by_press = np.array([not isinstance(model, str) or model in pressed for model in models])
        self._weights = np.where(by_press[:, None], WEIGHTS["press"], WEIGHTS.get(sense, WEIGHTS["sight"]))
        self._shared, self._share_count = by_press & bool(shares), shares
        sums = exact_sums(means, owner, len(models))
        self._models = self._scaled(unit(sums, shares))
        self._strangers = self._kinds(strangers)
        named = owner < len(self.names)
        self._own, self._other = self._usual(means[named], owner[named], sums)

    def _scaled(self, rows: np.ndarray) -> np.ndarray:
        """One row [F] for each model, its shares and its other features weighted for that model."""
        if not self._share_count:
            return rows
        share = SHARES_WEIGHT * self._shared[:, None]
        return np.hstack((rows[:, : -self._share_count] * (1 - share), rows[:, -self._share_count :] * share))

    def _kinds(self, strangers: Strangers | None) -> np.ndarray:
        """One row for each kind of strangers."""
        if strangers is None or not len(strangers):
            return np.zeros((0, self._models.shape[1]))
        kinds = np.arange(len(strangers)) if strangers.kinds is None else strangers.kinds
        _, kind = np.unique(kinds, return_inverse=True)
        return unit(sums_of(self._likeness.rows(strangers.features), kind, int(kind.max()) + 1), strangers.shares)

    def _usual(self, means: np.ndarray, owner: np.ndarray, sums: np.ndarray) -> tuple[float, float]:
        """Usual log distances of taught examples [g, F] to the rest of their name, and to the next name or scene."""
        rest = unit(sums[owner] - means, self._share_count)
        several = np.linalg.norm(rest, axis=1) > 0
        share = SHARES_WEIGHT * self._shared[owner]
        parts = means * rest
        split = parts.shape[1] - self._share_count
        cosine = (1 - share) * parts[:, :split].sum(1) + share * parts[:, split:].sum(1)
        own = _log_distance(cosine[several])
        cosines = np.stack([self._models @ mean for mean in means])
        cosines[np.arange(len(owner)), owner] = -np.inf
        other = _log_distance(cosines.max(1)) if len(self._models) > 1 else np.zeros(0)
        return usual(own, USUAL_OWN), usual(other, USUAL_OTHER)

    def cosines(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Cosines to every model [q, K + no names], and to the strangers most similar in its comparison [the same]."""
        rows = self._likeness.rows(features)
        cosines = rows @ self._models.T
        if not len(self._strangers):
            return cosines, np.zeros_like(cosines)
        plain = rows[:, : rows.shape[1] - self._share_count] @ self._strangers[:, : rows.shape[1] - self._share_count].T
        strange = np.repeat(_most(plain)[:, None], len(self._models), 1)
        if self._shared.any():
            shares = rows[:, -self._share_count :] @ self._strangers[:, -self._share_count :].T
            strange[:, self._shared] = _most((1 - SHARES_WEIGHT) * plain + SHARES_WEIGHT * shares)[:, None]
        return cosines, strange

    def speaks_for(self, cosines: np.ndarray, strange: np.ndarray, model: np.ndarray) -> Evidence:
        """The evidence for one model each, int64 [q]."""
        places = np.arange(len(cosines))
        distance, strangers = _log_distance(cosines[places, model]), _log_distance(strange[places, model])
        rest = cosines.copy()
        rest[places, model] = -np.inf
        alone = cosines.shape[1] == 1
        second = strangers if alone else _log_distance(rest.max(1))
        return Evidence(
            strangers=strangers - distance,
            second=second - distance,
            other=self._other - distance,
            own=self._own - distance,
            alone=np.full(len(cosines), float(alone)),
        )

    def log_odds(self, cosines: np.ndarray, strange: np.ndarray, model: np.ndarray) -> np.ndarray:
        """Log odds that one model each is right, int64 [q] to float64 [q]."""
        return log_odds(self.speaks_for(cosines, strange, model), self._weights[model])

    def answers(self, features: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Of features [q, F]: places of the nearest names in `names` int64 [q], their cosines [q] and confidences [q].

        The nearest name, the most similar thing shown as no name, and "nothing of all" compete by their odds.
        """
        return self._answers(*self.cosines(features))

    def _answers(self, cosines: np.ndarray, strange: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """`answers` of things with these cosines."""
        best = cosines[:, : len(self.names)].argmax(1)
        odds = np.exp(self.log_odds(cosines, strange, best))
        against = np.ones(len(best))
        if cosines.shape[1] > len(self.names):
            scene = len(self.names) + cosines[:, len(self.names) :].argmax(1)
            against += np.exp(self.log_odds(cosines, strange, scene))
        return best, cosines[np.arange(len(best)), best], odds / (odds + against)

    def ask(self, features: np.ndarray) -> Named:
        """The answer for features float32 [F]."""
        cosines, strange = self.cosines(features[None])
        best, cosine, confidence = (value[0] for value in self._answers(cosines, strange))
        nearest, shares = str(self.names[best]), self._shares(cosines, strange, int(best), float(confidence))
        return Named(nearest if confidence >= NAMED_FROM else None, nearest, float(confidence), float(cosine), shares)

    def _shares(self, cosines: np.ndarray, strange: np.ndarray, nearest: int, confidence: float) -> dict[str, float]:
        """The probability of every name for one thing; the other names share at most what the nearest leaves."""
        every = np.arange(len(self.names))
        cosines, strange = cosines.repeat(len(every), 0), strange.repeat(len(every), 0)
        odds = np.exp(self.log_odds(cosines, strange, every))
        shares = odds / (1 + odds)
        shares[nearest] = 0.0
        shares *= min(1.0, (1 - confidence) / max(float(shares.sum()), 1e-12))
        shares[nearest] = confidence
        return {str(name): float(share) for name, share in zip(self.names, shares, strict=True)}


def _most(cosines: np.ndarray) -> np.ndarray:
    """The mean over the most similar kinds [q] of [q, kinds]."""
    return np.asarray(np.sort(cosines, axis=1)[:, -NEAREST_STRANGERS:].mean(1))


def _log_distance(cosines: np.ndarray) -> np.ndarray:
    return np.asarray(np.log(np.maximum(1 - cosines, _LEAST_DISTANCE)))


StrangersOf = Callable[[str, str], Strangers | None]
"""Strangers of a sense, described by an encoder (by its name); None where there are none."""


class Row(NamedTuple):
    """One row for fitting a name: `name` None for no name; rows of one `group` were shown at once."""

    features: np.ndarray
    name: str | None
    group: int


class _Fits(NamedTuple):
    """All names at one state of the examples: by sense, the fit and the encoder of its keys."""

    examples: bytes
    fitted: Mapping[str, Fitted]
    encoders: Mapping[str, str]


class Names:
    """The names of a memory, refitted whenever it has changed.

    A fit may take a second, and the first one asks for strangers. A caller that must not wait calls `fit` in another
    thread, and asks with `refit=False` meanwhile.

    Args:
        strangers: things for calibrating "unknown", by sense and encoder; none by default.
    """

    def __init__(self, memory: Memory, strangers: StrangersOf | None = None) -> None:
        self.memory, self._strangers = memory, strangers
        self._fits = _Fits(b"", {}, {})

    @property
    def encoders(self) -> dict[str, str]:
        """By sense with a taught name, the encoder of the keys of the last fit."""
        return dict(self._fits.encoders)

    def known(self) -> dict[str, int]:
        """Number of examples by name."""
        names = self.memory.store.facts(Filters(named=True)).names
        return dict(sorted(Counter(str(name) for name in names).items()))

    def forget(self, name: str, tell: Callable[[str], object] = str) -> int:
        """Delete every example of a name from the memory and the disk; returns their number. `tell`: see
        `Memory.forget`.

        Raises:
            StoreError: there is no such name (the nearest is named), or another process prevents erasing.
        """
        known = self.known()
        # Also for a deleted name: it erases what another reader may have kept from being erased before.
        forgotten = self.memory.forget(Filters(name=name), tell)
        if not forgotten:
            raise StoreError(f"No name '{name}' was taught{nearest(name, known)}")
        return forgotten

    def ask(self, keys: Mapping[str, Key], refit: bool = True) -> dict[str, Named]:
        """Answers by sense, for the senses with a taught name; empty without any.

        Args:
            refit: `fit` first; else the answers are of the last fit, and the store is not touched.

        Raises:
            StoreError: a key of another encoder than the examples', or without features.
        """
        if refit:
            self.fit()
        _, fitted, encoders = self._fits
        answers = {}
        for sense in keys.keys() & fitted.keys():
            key = keys[sense]
            if key.encoder != encoders[sense] or key.features is None:
                raise StoreError(
                    f"The examples of '{sense}' were described by another encoder ({encoders[sense][:8]}, asked "
                    f"with {key.encoder[:8]}), or no features came; rebuild the memory and describe again."
                )
            answers[sense] = fitted[sense].ask(key.features)
        return answers

    def fit(self) -> None:
        """Refit if the examples have changed; from any thread, beside `ask`."""
        table = self.memory.index.update()
        named = table.alive & (table.names >= 0)
        state = np.stack((table.ids[named], table.changed[named])).tobytes()
        if state == self._fits.examples:
            return
        examples = self.memory.store.find(Filters(named=True), payloads=False)
        fitted, encoders = {}, {}
        for sense in {sense for entry in examples for sense in entry.keys} - {BEFORE}:
            rows = self._rows(sense, examples)
            if any(row.name is not None for row in rows):
                encoders[sense] = next(entry.keys[sense].encoder for entry in examples if sense in entry.keys)
                pressed = {str(entry.name) for entry in examples if BEFORE in entry.keys} if sense == "sight" else set()
                fitted[sense] = self._fitted(rows, sense, encoders[sense], pressed)
        self._fits = _Fits(state, fitted, encoders)

    def _rows(self, sense: str, entries: Sequence[Entry]) -> list[Row]:
        """The rows for fitting the names of a sense: the one place where examples become rows."""
        keys = [(entry, entry.keys[sense].features) for entry in entries if sense in entry.keys]
        rows = [Row(features, entry.name, entry.id) for entry, features in keys if features is not None]
        if sense == "sight" and rows:  # the scene before a press is no example, and each place of it a thing of its own
            scenes = [key.features for entry in entries if (key := entry.keys.get(BEFORE)) is not None]
            crops = [row for all in scenes if all is not None for row in all.reshape(-1, len(rows[0].features))]
            rows += [Row(crop, None, -number) for number, crop in enumerate(crops, 1)]
        return rows

    def _fitted(self, rows: Sequence[Row], sense: str, encoder: str, pressed: Collection[str]) -> Fitted:
        strangers = None if self._strangers is None else self._strangers(sense, encoder)
        features, names, groups = zip(*rows, strict=True)
        return Fitted(np.stack(features), names, groups=groups, strangers=strangers, sense=sense, pressed=pressed)
