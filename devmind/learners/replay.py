"""What is replayed in sleep: memories as questions, and what the awake agent answers to them.

A memory that says something (it has words, or is an example of a name) is asked with the rest of what was sensed. The
awake agent recalls, so it can answer; those answers are the targets. No label is needed, only memories and an agent
that has learned to use them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.acting.recall import SAID, as_recall
from devmind.agent.agent import Agent
from devmind.agent.batch import RECALLED_BUDGET, Recall, collate, last_tick
from devmind.agent.output import Categorical
from devmind.errors import ConfigError, StoreError
from devmind.learners.distil import divergence
from devmind.memory import Entry, Filters, Memory
from devmind.memory.entry import searchable
from devmind.memory.sampling import Prioritised, Reservoir
from devmind.memory.scoring import Weights
from devmind.memory.views import other_view
from devmind.moment import Moment, Sense
from devmind.seeding import numpy_rng

TOGETHER = 32
IMPORTANCE_SHARE = 0.1
"""What the most important memory adds to its priority, beside a surprise in nats."""
LEAST = 0.05
"""Priority, in nats, of what does not surprise any more."""
BETA = 0.4
"""Where the importance weights' exponent begins; it ends at 1 (Schaul et al. 2016, table 3)."""


@dataclass(frozen=True)
class Question:
    """A memory to be asked: what was sensed besides words, and what the awake agent had at hand."""

    senses: Mapping[str, Sense]
    recalled: Sequence[Recall]


def questions(memory: Memory, ids: Iterable[int], senses: Sequence[str]) -> Iterator[tuple[Entry, Question]]:
    """The memories of these numbers that can be asked by `senses`, with what is recalled for each, itself first."""
    table = memory.index.update()
    for number in ids:
        for entry in memory.get([number]):
            asked = last_tick({name: x for name, x in entry.senses.items() if name != SAID and name in senses})
            keys = {name: key for name, key in entry.keys.items() if name in asked}
            if not keys or not says(entry):
                continue
            # Not `recall`: what sleep looks up must not count as recalled in life.
            alike = memory.nearest(table, keys, RECALLED_BUDGET, Filters(), Weights())
            others = memory.get(found for found in alike if found != number)
            yield entry, Question(asked, [as_recall(e, entry.time_s) for e in (entry, *others)[:RECALLED_BUDGET]])


def says(entry: Entry) -> bool:
    """Whether a memory says what it is of."""
    return entry.name is not None or bool(entry.senses.get(SAID))


def candidates(
    memory: Memory, limit: int, senses: Iterable[str], seed: Sequence[int | str], kept: Iterable[int] = ()
) -> list[int]:
    """Numbers of up to `limit` memories to sleep on: half the most important (of these the newest), half of the others
    drawn evenly (a reservoir); and besides those the ones in `kept`, slept on before, which are there still.

    Only what says something and has a key of one of `senses` can be asked.

    Raises:
        StoreError: nothing can.
    """
    facts, table = memory.store.facts(Filters(says=True)), memory.index.update()
    held = [table.ids[table.senses[sense].places] for sense in senses if sense != SAID and sense in table.senses]
    here = np.isin(facts.ids, np.concatenate(held) if held else [])
    ids, importance = facts.ids[here], facts.importance[here]
    if not len(ids):
        raise nothing_to_ask()
    order = np.lexsort((-ids, -importance))
    chosen = set(ids[order[: limit - limit // 2]].tolist())
    if limit // 2:
        others = Reservoir(limit // 2, *seed, "candidates")
        others.offer(number for number in ids.tolist() if number not in chosen)
        chosen.update(others.items)
    return sorted(chosen | (set(ids.tolist()) & set(kept)))


class Replay:
    """The questions of some memories, the awake agent's answers, and batches of them.

    Args:
        agent: as it falls asleep; it answers all questions here, with recall and without.
        ids: memories to sleep on; those that cannot be asked are left out.
        heads: categorical heads that answer.
        moments: in a batch.

    Attributes:
        ids: of the memories that are asked, in ascending order.
        wanted: by head, the awake agent's probabilities [n, ..., classes].
        sure: by head, how certain those are, [n], 1 for no doubt and 0 for no idea.
        told: whether one of those answers is what the memory itself says, bool [n]; see `Agent.add_head(labels=...)`.

    Raises:
        StoreError: no memory can be asked.
        ConfigError: a head's answers are no classes.
    """

    def __init__(
        self, agent: Agent, memory: Memory, ids: Iterable[int], heads: Sequence[str], *, seed: int, moments: int = 64
    ) -> None:
        self.heads, self.seed, self.moments, self._window = list(heads), seed, moments, agent.config.window
        # All of them, some 25 kB each: the memory they are from may let go of them while it is slept on.
        self._payloads: dict[int, Mapping[str, Sense]] = {}
        importance, wanted, words = [], [], []
        for part in _parts(questions(memory, ids, list(agent.sense_order)), TOGETHER):
            self._payloads |= {entry.id: question.senses for entry, question in part}
            importance += [entry.importance for entry, _ in part]
            words += [entry.name or str(entry.senses[SAID]) for entry, _ in part]
            wanted.append(self._answers(agent, [(q.senses, q.recalled) for _, q in part]))
        if not self._payloads:
            raise nothing_to_ask()
        self.ids = np.array(list(self._payloads), np.int64)
        self.place = {number: at for at, number in enumerate(self._payloads)}
        self.importance = np.array(importance) / max(1e-9, *importance) if any(importance) else np.zeros(len(words))
        self.wanted = {head: torch.cat([each[head] for each in wanted]) for head in self.heads}
        self.sure = {head: _certainty(probabilities) for head, probabilities in self.wanted.items()}
        self.told = _told(agent, self.wanted, words)
        self.sampler = Prioritised(self.ids.tolist(), seed, "sleep", floor=LEAST)
        self.surprised(self.ids, self.surprise(self.alone(agent, self.ids, view=None)).mean(0))

    # -- asking --------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _answers(
        self, agent: Agent, asked: Sequence[tuple[Mapping[str, Sense], Sequence[Recall]]]
    ) -> dict[str, Tensor]:
        """Probabilities [n, ..., classes] by head of unrelated Moments, with what is recalled for each."""
        rows = [[Moment(0.0, senses, first=True)] for senses, _ in asked]
        recalled = [[back] for _, back in asked] if any(back for _, back in asked) else None
        outputs = agent(collate(rows, recalled), self.heads)
        for name, output in outputs.items():
            if not isinstance(output, Categorical):
                raise ConfigError(f"Sleep moves answers of heads that choose among classes; '{name}' does not.")
        return {name: outputs[name].probabilities()[:, 0] for name in self.heads}

    def alone(self, agent: Agent, ids: Iterable[int], view: int | None) -> dict[str, Tensor]:
        """What `agent` answers without recall: probabilities [n, ..., classes] by head.

        Args:
            view: number of a view that was never replayed; None asks with the payload as it is.
        """
        found = []
        for part in _parts(iter(ids), TOGETHER):
            asked = [self._payloads[int(number)] for number in part]
            if view is not None:
                rngs = (numpy_rng(self.seed, "held out", view, int(number)) for number in part)
                asked = [other_view(senses, rng) for senses, rng in zip(asked, rngs, strict=True)]
            found.append(self._answers(agent, [(senses, ()) for senses in asked]))
        return {head: torch.cat([each[head] for each in found]) for head in self.heads}

    def surprise(self, alone: Mapping[str, Tensor]) -> np.ndarray:
        """KL divergence in nats of answers to all questions from the awake ones, by head, float64 [heads, n]."""
        rows = [
            (self.sure[head] * divergence(self.wanted[head], alone[head].clamp_min(1e-9).log())).cpu().double().numpy()
            for head in self.heads
        ]
        return np.stack(rows)

    # -- replaying -----------------------------------------------------------------------------------------------

    def surprised(self, ids: np.ndarray, surprise: np.ndarray) -> None:
        """How surprised the sleeping agent was by these memories: those that surprise are replayed more."""
        importance = self.importance[[self.place[int(number)] for number in ids]]
        # A divergence of almost nothing may be rounded to below it.
        self.sampler.update(ids.tolist(), np.maximum(surprise, 0.0) + IMPORTANCE_SHARE * importance)

    def batch(self, update: int, steps: int) -> dict[str, Any]:
        """Views of memories drawn by priority, alone and in rows of a window: `place` int64 and `weight` float [B, T].

        Every third is asked by one of its senses only, as it may be met again.
        """
        length = min((1, 8, self._window)[update % 3], self._window, self.moments)
        rng = numpy_rng(self.seed, "sleep", update)
        done = update / max(1, steps)
        ids, weights = self.sampler.draw(self.moments // length * length, BETA + (1 - BETA) * min(1.0, done))
        order = rng.permutation(len(ids))
        rows: list[list[Moment]] = []
        for at, number in enumerate(ids[order].tolist()):
            senses = other_view(self._payloads[number], rng)
            if rng.random() < 1 / 3:
                only = sorted(senses)[rng.integers(len(senses))]
                senses = {only: senses[only]}
            if at % length == 0:
                rows.append([])
            rows[-1].append(Moment(0.0, senses, first=at % length == 0))
        shape = (len(rows), length)
        return collate(rows) | {
            "place": torch.tensor([self.place[number] for number in ids[order].tolist()]).reshape(shape),
            "weight": torch.from_numpy(weights[order]).float().reshape(shape),
        }


def nothing_to_ask() -> StoreError:
    """A sentence on a memory that says nothing."""
    return StoreError(
        "There is nothing to sleep on: no memory has both words (or a name) and a sense that this agent has. "
        "Let it live with a memory, or teach names, first."
    )


def _told(agent: Agent, wanted: Mapping[str, Tensor], words: Sequence[str]) -> np.ndarray:
    """Whether a head's answer, by the label of its class, is what each memory says: bool [n]."""
    told = np.zeros(len(words), bool)
    for entry in agent.config.heads:
        labels = [searchable(label) for label in entry.get("labels", ())]
        if labels and entry["name"] in wanted:
            best = wanted[entry["name"]].argmax(-1).tolist()
            told |= [labels[answer] == searchable(said) for answer, said in zip(best, words, strict=True)]
    return told


def _certainty(probabilities: Tensor) -> Tensor:
    """1 - entropy / log(classes), [n]."""
    entropy = -(probabilities * probabilities.clamp_min(1e-9).log()).sum(-1)
    sure = 1 - entropy / float(np.log(probabilities.shape[-1]))
    return sure.flatten(1).mean(1) if sure.ndim > 1 else sure


def _parts(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    part: list[Any] = []
    for item in items:
        part.append(item)
        if len(part) == size:
            yield part
            part = []
    if part:
        yield part
