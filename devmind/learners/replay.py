"""Replay in sleep: memories become questions, and the awake agent's answers are the targets.

The question of a memory that has words, or is an example of a name, consists of its other senses. The awake agent
recalls memories, so it can answer; its answers are the targets. No labels are needed, only memories and an agent that
has learned to use them.
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
"""What the most important memory adds to its priority, which is otherwise its surprise in nats."""
LEAST = 0.05
"""The lowest priority, in nats, for memories that no longer surprise."""
BETA = 0.4
"""The first exponent of the importance weights; it rises to 1 (Schaul et al. 2016, table 3)."""


@dataclass(frozen=True)
class Question:
    """A memory as a question: its senses without words, and the entries that the awake agent recalls for it."""

    senses: Mapping[str, Sense]
    recalled: Sequence[Recall]


def questions(memory: Memory, ids: Iterable[int], senses: Sequence[str]) -> Iterator[tuple[Entry, Question]]:
    """The memories with these ids that have words and one of `senses`, with what is recalled for each, itself first."""
    table = memory.index.update()
    for number in ids:
        for entry in memory.get([number]):
            asked = last_tick({name: x for name, x in entry.senses.items() if name != SAID and name in senses})
            keys = {name: key for name, key in entry.keys.items() if name in asked}
            if not keys or not says(entry):
                continue
            # Not `recall`, because searches of sleep must not count as recalls.
            alike = memory.nearest(table, keys, RECALLED_BUDGET, Filters(), Weights())
            others = memory.get(found for found in alike if found != number)
            yield entry, Question(asked, [as_recall(e, entry.time_s) for e in (entry, *others)[:RECALLED_BUDGET]])


def says(entry: Entry) -> bool:
    """Whether a memory has words or a name."""
    return entry.name is not None or bool(entry.senses.get(SAID))


def candidates(
    memory: Memory, limit: int, senses: Iterable[str], seed: Sequence[int | str], kept: Iterable[int] = ()
) -> list[int]:
    """Ids of the memories to sleep on: up to `limit`, and those in `kept` (slept on before) that still exist.

    Half of them are the most important, newer ones first if equal; the other half is drawn uniformly from the rest (a
    reservoir). Only memories with words or a name, and with a key of one of `senses`, can be asked.

    Raises:
        StoreError: there is no such memory.
    """
    facts, table = memory.store.facts(Filters(says=True)), memory.index.update()
    ids_by_sense = [
        table.ids[table.senses[sense].places] for sense in senses if sense != SAID and sense in table.senses
    ]
    has_keys = np.isin(facts.ids, np.concatenate(ids_by_sense) if ids_by_sense else [])
    ids, importance = facts.ids[has_keys], facts.importance[has_keys]
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
        agent: the agent at the beginning of sleep; it answers all questions here, with recall and without.
        ids: memories to sleep on; those that cannot be asked are left out.
        heads: categorical heads that answer.
        moments: number of Moments in a batch.

    Attributes:
        ids: ids of the memories that are asked, in ascending order.
        wanted: by head, the awake agent's probabilities [n, ..., classes].
        sure: by head, the certainty of those answers, [n], from 0 (uniform) to 1.
        memory_is_right: whether one of those answers is the memory's own word, bool [n]; see
            `Agent.add_head(labels=...)`.

    Raises:
        StoreError: no memory can be asked.
        ConfigError: a head is not categorical.
    """

    def __init__(
        self, agent: Agent, memory: Memory, ids: Iterable[int], heads: Sequence[str], *, seed: int, moments: int = 64
    ) -> None:
        self.heads, self.seed, self.moments, self._window = list(heads), seed, moments, agent.config.window
        # All payloads are held (some 25 kB each), since the memory may delete entries during sleep.
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
        self.memory_is_right = _memory_is_right(agent, self.wanted, words)
        self.sampler = Prioritised(self.ids.tolist(), seed, "sleep", floor=LEAST)
        self.surprised(self.ids, self.surprise(self.alone(agent, self.ids, view=None)).mean(0))

    # -- asking --------------------------------------------------------------------------------------------------

    @torch.no_grad()
    def _answers(
        self, agent: Agent, asked: Sequence[tuple[Mapping[str, Sense], Sequence[Recall]]]
    ) -> dict[str, Tensor]:
        """Probabilities [n, ..., classes] by head for unrelated Moments, with the recalled entries of each."""
        rows = [[Moment(0.0, senses, first=True)] for senses, _ in asked]
        recalled = [[back] for _, back in asked] if any(back for _, back in asked) else None
        outputs = agent(collate(rows, recalled), self.heads)
        for name, output in outputs.items():
            if not isinstance(output, Categorical):
                raise ConfigError(f"Sleep moves answers of heads that choose among classes; '{name}' does not.")
        return {name: outputs[name].probabilities()[:, 0] for name in self.heads}

    def alone(self, agent: Agent, ids: Iterable[int], view: int | None) -> dict[str, Tensor]:
        """Answers of `agent` without recall: probabilities [n, ..., classes] by head.

        Args:
            view: number of a view that is never replayed; None: the payload itself.
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
        """KL divergence in nats of all answers from the awake ones, times certainty, by head, float64 [heads, n]."""
        rows = [
            (self.sure[head] * divergence(self.wanted[head], alone[head].clamp_min(1e-9).log())).cpu().double().numpy()
            for head in self.heads
        ]
        return np.stack(rows)

    # -- replaying -----------------------------------------------------------------------------------------------

    def surprised(self, ids: np.ndarray, surprise: np.ndarray) -> None:
        """Set priorities by how much these memories surprised the sleeping agent; surprising ones are replayed more."""
        importance = self.importance[[self.place[int(number)] for number in ids]]
        # Rounding can make a very small divergence negative.
        self.sampler.update(ids.tolist(), np.maximum(surprise, 0.0) + IMPORTANCE_SHARE * importance)

    def batch(self, update: int, steps: int) -> dict[str, Any]:
        """Views of memories drawn by priority, as a Batch [B, T, ...] with `place` int64 and `weight` float [B, T].

        Rows have 1, 8 or a window's Moments, in turn. About a third of the memories are asked with only one sense,
        because they may be met so.
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
    """The error for a memory without any question."""
    return StoreError(
        "There is nothing to sleep on: no memory has both words (or a name) and a sense that this agent has. "
        "Let it live with a memory, or teach names, first."
    )


def _memory_is_right(agent: Agent, wanted: Mapping[str, Tensor], words: Sequence[str]) -> np.ndarray:
    """Whether a head's answer, by the label of its class, is each memory's word, bool [n]."""
    correct = np.zeros(len(words), bool)
    for entry in agent.config.heads:
        labels = [searchable(label) for label in entry.get("labels", ())]
        if labels and entry["name"] in wanted:
            best = wanted[entry["name"]].argmax(-1).tolist()
            correct |= [labels[answer] == searchable(word) for answer, word in zip(best, words, strict=True)]
    return correct


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
