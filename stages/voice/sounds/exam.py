"""The exam of `sounds`: recordings of a held-out fold, all three folds by a read-out, and sounds of no taught kind.

An agent is taught on two folds of three and asked about the third. The exam asks the arc, as `devmind
hear` does (effector `sort`); the head on the trunk is a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.algorithms.ridge import fit_ridge_classifier
from devmind.curriculum.exam import Exam, Exhibit, Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.errors import ExamError
from devmind.seeding import numpy_rng
from stages.voice.caregiver.speech import UNSEEN_PHRASES, bank
from stages.voice.exhibits import spectra, wav
from stages.voice.hear_words.exam import UNTAUGHT, untrained_agent
from stages.voice.moments import as_batch
from stages.voice.parts import KINDS_ARC, KINDS_HEAD
from stages.voice.sounds import strange
from stages.voice.sounds.floors import named_by_network, statistics
from stages.voice.sounds.kinds import KINDS, SPEECH, UNKNOWN
from stages.voice.sounds.lesson import LessonSounds, listened_to, long_enough, together
from stages.voice.sounds.readout import ALL_FOLDS, NETWORK, RIDGE, in_folds
from stages.voice.sounds.recorded import Recorded, read_recordings, source_group
from stages.voice.utterances import utterance_names

ESC, NO_KIND = "sounds/esc10", "sounds/unknown"
GATE = Gate([
    Threshold(ESC, 0.65, beats_floor=True, when_absent="skip"), Threshold(NO_KIND, None, beats_floor=True),
    Threshold(ALL_FOLDS, 0.65, beats_floor=True, when_absent="skip", goal=True),
])  # fmt: skip
"""Above 0.65, which a small convolutional network had on all three folds, and above the baselines on this fold."""
STRANGE, SPOKEN = 120, 120
ASKED_SECONDS = 2.0
BY_TRUNK = "by the head on the trunk"
_AT_ONCE = 10


@dataclass(frozen=True)
class Questions:
    """Sounds of known and unknown kinds: waves, kinds int64 [N] (UNKNOWN for a stranger), groups [N]."""

    waves: tuple[np.ndarray, ...]
    kinds: np.ndarray
    groups: np.ndarray


def examine(agent: Agent, context: Context) -> Exam:
    """Whether strange sounds are told from known ones; kinds of recordings too, if there are any."""
    fresh, recordings = cache(lambda: untrained_agent(agent)), read_recordings(context.data)
    unseen = None if recordings is None else unmet(agent, recordings)
    exams = [_unknown(agent, fresh, unseen, context)]
    if recordings is not None and unseen is not None:
        exams = [_kinds(agent, fresh, recordings, unseen), in_folds(agent, fresh, recordings, UNTAUGHT), *exams]
    return Exam.joined(exams)


def logits_of(agent: Agent, waves: Sequence[np.ndarray], heads: Sequence[str]) -> dict[str, Tensor]:
    """By head, logits [N, KINDS] for whole sounds float32 [S] of whole Moments."""
    logits = {name: torch.zeros(len(waves), len(KINDS)) for name in heads}
    lengths = np.array([len(wave) for wave in waves])
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        for some in np.array_split(rows, -(-len(rows) // _AT_ONCE)):
            outputs = agent(as_batch(torch.from_numpy(np.stack([waves[row] for row in some]))), heads)
            for name in heads:
                numbers = outputs[name].numbers()
                logits[name][torch.from_numpy(some)] = (
                    (numbers[:, -1] if name == KINDS_ARC else together(numbers)).float().cpu()
                )
    return logits


def unmet(agent: Agent, recordings: Recorded) -> Recorded:
    """The recordings of sources that the agent never learned from.

    Raises:
        ExamError: it learned from all of them.
    """
    is_known = np.array([source_group(str(name)) in agent.config.trained_on for name in recordings.sources])
    known = recordings.kinds != UNKNOWN
    if is_known[known].all():
        raise ExamError(
            "The agent learned from every source of the recorded sounds, so none is left to examine it on; give other"
            " --data."
        )
    return recordings.take(~is_known)


@in_parts
def _kinds(agent: Agent, fresh: Callable[[], Agent], recordings: Recorded, unseen: Recorded) -> Parts:
    asked = unseen.take(unseen.kinds != UNKNOWN)
    offered = np.unique(recordings.kinds[recordings.kinds != UNKNOWN])
    logits = logits_of(agent, asked.waves, [KINDS_ARC])[KINDS_ARC]
    chosen = likeliest(logits, offered)
    measure = Measure(
        ESC, "sounds named correctly", (chosen == asked.kinds).astype(float), 1 / len(offered), 1.0, rate=True,
        episodes=utterance_names(list(asked.waves)), groups=np.unique(asked.sources, return_inverse=True)[1],
        reference="over three folds: ridge 0.583, a small convolutional network 0.667 (measured); the goal is 0.80",
        note=f"{len(set(asked.sources))} sources that no lesson had; the likeliest of {len(offered)} kinds; one fold of"
        f" three, so the interval is wide: {ALL_FOLDS} has all three",
    )  # fmt: skip

    def share(of: Agent, head: str) -> float:
        return float((likeliest(logits_of(of, asked.waves, [head])[head], offered) == asked.kinds).mean())

    yield [measure]
    floors = _kind_floors(recordings, asked) | {UNTAUGHT: share(fresh(), KINDS_ARC)}
    free = logits.argmax(-1).numpy()
    rows = {
        BY_TRUNK: share(agent, KINDS_HEAD),
        "where unknown and speech are answers too": float((free == asked.kinds).mean()),
        "taken for unknown": float((free == UNKNOWN).mean()),
    }
    yield [replace(measure, floors=floors, rows=rows, exhibits=_exhibits(asked, chosen))]


def likeliest(logits: Tensor, offered: np.ndarray) -> np.ndarray:
    """The likeliest of the kinds `offered`, int64 [N]."""
    return np.asarray(offered[logits[:, torch.from_numpy(offered)].argmax(-1).numpy()])


def _kind_floors(recordings: Recorded, asked: Recorded) -> dict[str, float]:
    """Baselines that are fitted on the other sources of the same recordings."""
    known = recordings.take(~np.isin(recordings.sources, list(set(asked.sources))) & (recordings.kinds != UNKNOWN))
    if len(set(known.kinds)) < 2:
        return {}
    ridge = fit_ridge_classifier(statistics(known.waves), known.kinds)
    return {
        RIDGE: float((ridge.predict(statistics(asked.waves)) == asked.kinds).mean()),
        NETWORK: float((named_by_network(known.waves, known.kinds, asked.waves) == asked.kinds).mean()),
    }


def questions(context: Context, unseen: Recorded | None) -> Questions:
    """Sirens, bells and organs, which no lesson has, the caregiver in voices of exams, and held-out recordings.

    A recording of a kind that is not in KINDS is a stranger.
    """
    n, spoken = context.episodes(STRANGE), context.episodes(SPOKEN)
    whole = bank("sounds exam", context.seed, context.scaled(SPOKEN), UNSEEN_PHRASES, True).take(range(spoken))
    rng = numpy_rng("sounds exam", context.seed)
    waves = [
        *(strange.unmet(rng, ASKED_SECONDS) for _ in range(n)),
        *(long_enough(wave, ASKED_SECONDS) for wave in whole.waves),
    ]
    kinds = np.repeat([UNKNOWN, SPEECH], [n, spoken])
    groups = [f"made {i}" for i in range(n)] + list(whole.voices)
    if unseen is not None:
        waves += unseen.waves
        kinds = np.concatenate((kinds, unseen.kinds))
        groups += [str(name) for name in unseen.sources]
    return Questions(tuple(waves), kinds, np.unique(groups, return_inverse=True)[1])


@in_parts
def _unknown(agent: Agent, fresh: Callable[[], Agent], unseen: Recorded | None, context: Context) -> Parts:
    asked = questions(context, unseen)

    def answered(of: Agent, head: str) -> np.ndarray:
        return np.asarray(logits_of(of, asked.waves, [head])[head].argmax(-1).numpy())

    says, alien = answered(agent, KINDS_ARC), asked.kinds == UNKNOWN
    share = max(float(alien.mean()), 1 - float(alien.mean()))
    measure = Measure(
        NO_KIND, "known and unknown kinds told apart", ((says == UNKNOWN) == alien).astype(float), share, 1.0,
        rate=True, episodes=utterance_names(list(asked.waves)), groups=asked.groups,
        note=f"{int(alien.sum())} strangers (sirens, bells, organs; kinds that are not taught), "
        f"{int((asked.kinds == SPEECH).sum())} phrases, {int((asked.kinds > SPEECH).sum())} recordings of no lesson; "
        "no threshold: unknown is a kind that is taught",
    )  # fmt: skip
    yield [measure]
    alone, by_trunk = answered(fresh(), KINDS_ARC), answered(agent, KINDS_HEAD)
    floors = _stranger_floors(listened_to(context).without([] if unseen is None else unseen.sources), asked)
    floors[UNTAUGHT] = float(((alone == UNKNOWN) == alien).mean())
    rows = {
        "strangers called unknown": float((says[alien] == UNKNOWN).mean()),
        "speech called unknown": float((says[asked.kinds == SPEECH] == UNKNOWN).mean()),
        "speech called speech": float((says[asked.kinds == SPEECH] == SPEECH).mean()),
        BY_TRUNK: float(((by_trunk == UNKNOWN) == alien).mean()),
        f"{BY_TRUNK}, strangers called unknown": float((by_trunk[alien] == UNKNOWN).mean()),
    }
    if (of_a_kind := asked.kinds > SPEECH).any():
        rows["recordings called unknown"] = float((says[of_a_kind] == UNKNOWN).mean())
    yield [replace(measure, floors=floors, rows=rows)]


def _stranger_floors(taught: LessonSounds, asked: Questions) -> dict[str, float]:
    """Ridge, fitted on the same sounds and kinds, unknown among them."""
    if len(set(taught.kinds)) < 2:
        return {}
    says = fit_ridge_classifier(statistics(taught.waves), taught.kinds).predict(statistics(asked.waves))
    return {RIDGE: float(((says == UNKNOWN) == (asked.kinds == UNKNOWN)).mean())}


def _exhibits(asked: Recorded, chosen: np.ndarray) -> tuple[Exhibit, ...]:
    """Two sounds that were named correctly and six that were not, with spectra."""
    right, exhibits = chosen == asked.kinds, list[Exhibit]()
    for i in (*np.flatnonzero(right)[:2], *np.flatnonzero(~right)[:6]):
        kind: Literal["example", "failure"] = "example" if right[i] else "failure"
        caption = f"{KINDS[asked.kinds[i]]} ({asked.sources[i]}), heard as {KINDS[chosen[i]]}"
        exhibits.append(Exhibit(kind, caption, spectra(asked.waves[i]), wav(asked.waves[i])))
    return tuple(exhibits)
