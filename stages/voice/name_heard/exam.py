"""The exam of `name_heard`: a digit is spoken by a new voice, and one of four new pictures shows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import cv2
import numpy as np
import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.algorithms.kernel_ridge import fit_kernel_classifier
from devmind.algorithms.ridge import fit_ridge_classifier
from devmind.curriculum.exam import Exam, Exhibit, Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.seeding import numpy_rng
from devmind.sessions.spoken import Clips, clips
from devmind.sessions.written import Pictures, pictures, unmet_pictures
from stages.voice.caregiver.speech import DIGITS
from stages.voice.exhibits import wav
from stages.voice.hear_words.exam import UNTAUGHT, untrained_agent
from stages.voice.moments import in_a_row
from stages.voice.name_heard.head import PICTURES
from stages.voice.name_heard.lesson import sources
from stages.voice.name_heard.shown import Shown, as_batch, draw_views, views
from stages.voice.parts import NAMED
from stages.voice.recogniser import Recogniser, with_changes
from stages.voice.small_net import scores_by_small_net
from stages.voice.utterances import Waves, of_exam, speech_of, utterance_names, where

CAREGIVER, DIGIT = "name_heard/caregiver", "name_heard/digits"
GATE = Gate([Threshold(CAREGIVER, 0.85), Threshold(DIGIT, 0.85, when_absent="skip")])
ASKED = 400
CLASSIFIERS = "two separate classifiers"
KERNELS = "kernel ridges on log-mel and pixels"
NETWORK = "a small network on log-mel, kernel ridge on pixels"
SEEN_BY, KERNELS_BY = 1500, 4000
"""Pictures of CLASSIFIERS, and pictures and clips of the other two, on which baselines are fitted, at most."""
TOGETHER = 25


def examine(agent: Agent, context: Context) -> Exam:
    """The caregiver's digits; recorded ones of speakers never met too, if there are any."""
    if NAMED not in agent.heads:
        return Exam([])
    speech = of_exam("name_heard exam", context, ASKED, DIGITS)
    hers = sources(*where(context))[0]
    digits = np.array([DIGITS.index(text) for text in speech.texts])
    sets = [(CAREGIVER, speech.waves, digits, np.array(speech.voices), hers)]
    all_clips = clips(context.data)
    if all_clips is not None:
        some = _some(all_clips.unmet(agent.config.trained_on), context)
        sets.append((DIGIT, _waves(some), some.labels, some.speakers, _of_others(all_clips, some) or hers))
    return Exam.joined(_exam(agent, context, *one, speech.speaker) for one in sets)


def _waves(some: Clips) -> tuple[np.ndarray, ...]:
    return tuple(speech_of(some, row) for row in range(len(some.labels)))


def _of_others(all_clips: Clips, asked: Clips) -> Waves | None:
    """Digits of speakers who are not asked about, with their texts; None if there are none."""
    others = all_clips.take(~np.isin(all_clips.speakers, list(set(asked.speakers))))
    return (_waves(others), tuple(DIGITS[label] for label in others.labels)) if len(others.labels) else None


def _some(unseen: Clips, context: Context) -> Clips:
    n = min(context.scaled(ASKED), len(unseen.labels))
    return unseen.take(np.linspace(0, len(unseen.labels) - 1, n).astype(int)[:: context.one_in])


@in_parts
def _exam(
    agent: Agent,
    context: Context,
    name: str,
    waves: Sequence[np.ndarray],
    digits: np.ndarray,
    voices: np.ndarray,
    others: Waves,
    speaker: str,
) -> Parts:
    known, unseen = unmet_pictures(pictures(context.data), agent.config.trained_on, context.seed)
    of = draw_views(numpy_rng(name, "exam", context.seed), unseen, digits)
    sight = views(unseen.images[of.rows])
    chosen = find_pictures(agent, waves, sight)
    right = chosen == of.which
    whose = f"spoken by {speaker} in voices" if name == CAREGIVER else f"speakers ({', '.join(sorted(set(voices)))})"
    measure = Measure(
        name, "pictures found", right.astype(float), 1 / PICTURES, 1.0, rate=True,
        episodes=utterance_names(list(waves)),
        groups=np.unique(voices, return_inverse=True)[1],
        note=f"{whose} that no lesson had; pictures held out of {unseen.source}",
    )  # fmt: skip
    yield [measure]
    share = lambda which: float((which == of.which).mean())  # noqa: E731
    floors = {UNTAUGHT: share(find_pictures(untrained_agent(agent), waves, sight))}
    floors[CLASSIFIERS] = share(_classified(others, known, waves, unseen.images[of.rows]))
    by_rule = _floors(others, known, waves, unseen.images[of.rows])
    floors |= {rule: share(which) for rule, which in by_rule.items()}
    # Every fourth question, because the clips of a speaker are sorted by digit.
    few = np.arange(0, len(waves), 4 if len(waves) > 32 else 1)
    other = find_pictures(agent, [waves[i] for i in says_another(digits)[few].tolist()], sight[few])
    blind = find_pictures(agent, [waves[i] for i in few.tolist()], torch.zeros_like(sight[few]))
    rows = {"another name heard": float((other == of.which[few]).mean()),
            "nothing seen": float((blind == of.which[few]).mean())}  # fmt: skip
    yield [replace(measure, floors=floors, rows=rows, exhibits=_exhibits(waves, sight, of, chosen))]


def says_another(digits: np.ndarray) -> np.ndarray:
    """For each clip the next one that says another of the digits int64 [N], the first behind the last; int64 [N]."""
    behind = (np.arange(len(digits)) + np.arange(1, len(digits))[:, None]) % len(digits)
    return behind[(digits[behind] != digits).argmax(0), np.arange(len(digits))]


def find_pictures(agent: Agent, waves: Sequence[np.ndarray], sight: Tensor) -> np.ndarray:
    """The picture found in each of sights [N, 64, 64, 3] while a sound float32 [S] is heard, int64 [N]."""
    sound, counts = in_a_row(waves)
    parts = []
    for rows in torch.arange(len(sound)).split(TOGETHER):
        longest = int(counts[rows].max())
        batch = as_batch(sound[rows].unflatten(1, (-1, 1600))[:, :longest].flatten(1), sight[rows])
        output: Any = agent(batch, [NAMED])[NAMED]
        parts.append(output.mode()[torch.arange(len(rows)), counts[rows] - 1].cpu())
    return torch.cat(parts).numpy()


def _classified(others: Waves, known: Pictures, waves: Sequence[np.ndarray], pictures_shown: np.ndarray) -> np.ndarray:
    """The likeliest picture by ridge on log-mel of digits of other voices, and by ridge on pixels that lessons show,
    which is told where each picture begins.
    """
    rule = Recogniser.of(others[0], np.array([DIGITS.index(text) for text in others[1]]))
    rows = np.linspace(0, len(known.labels) - 1, min(SEEN_BY, len(known.labels))).astype(int)
    flat = lambda images: images.reshape(len(images), -1) / 255.0  # noqa: E731
    classifier = fit_ridge_classifier(flat(known.images[rows]), known.labels[rows], penalty=100.0)
    assert classifier.classes is not None
    scores = classifier.scores(flat(pictures_shown.reshape(-1, *pictures_shown.shape[2:]))).reshape(
        *pictures_shown.shape[:2], -1
    )
    column = {int(kind): at for at, kind in enumerate(classifier.classes)}
    return np.array([row[:, column[int(kind)]].argmax() for row, kind in zip(scores, rule.named(waves), strict=True)])


def _floors(
    others: Waves, known: Pictures, waves: Sequence[np.ndarray], pictures_shown: np.ndarray
) -> dict[str, np.ndarray]:
    """By baseline, the picture whose kind sounds most like what is heard, int64 [N]: heard by kernel ridge on log-mel
    and its changes, or by a small network, and seen by kernel ridge on pixels, which is told where each picture begins.
    All are fitted on what lessons have.
    """
    rows = np.linspace(0, len(others[0]) - 1, min(KERNELS_BY, len(others[0]))).astype(int)
    spoken_by, digits = [others[0][row] for row in rows], np.array([DIGITS.index(others[1][row]) for row in rows])
    ear = fit_kernel_classifier(with_changes(spoken_by), digits, width=0.5)
    by_kernels = np.full((len(waves), len(DIGITS)), -np.inf)
    by_kernels[:, ear.classes] = ear.scores(with_changes(waves))
    by_network = np.full_like(by_kernels, -np.inf)
    by_network[:, : digits.max() + 1] = scores_by_small_net(spoken_by, digits, waves)
    kinds = _kinds(known, pictures_shown)
    heard_as = {KERNELS: by_kernels, NETWORK: by_network}
    return {name: np.take_along_axis(scores, kinds, 1).argmax(1) for name, scores in heard_as.items()}


def _kinds(known: Pictures, pictures_shown: np.ndarray) -> np.ndarray:
    """The kind of each picture uint8 [N, 4, H, W], int64 [N, 4], by kernel ridge on pixels of known ones."""
    some = known.take(np.linspace(0, len(known.labels) - 1, min(KERNELS_BY, len(known.labels))).astype(int))
    flat = lambda images: _at_length_1(images.reshape(-1, images.shape[-1] * images.shape[-2]) / 255.0)  # noqa: E731
    eye = fit_kernel_classifier(flat(some.images), some.labels, width=0.25)
    return eye.predict(flat(pictures_shown)).reshape(pictures_shown.shape[:2])


def _at_length_1(vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-6))


def _exhibits(waves: Sequence[np.ndarray], sight: Tensor, of: Shown, chosen: np.ndarray) -> tuple[Exhibit, ...]:
    """Two pictures that were found and four that were not, with the sound."""
    right, exhibits = chosen == of.which, list[Exhibit]()
    for i in (*np.flatnonzero(right)[:2], *np.flatnonzero(~right)[:4]):
        kind: Literal["example", "failure"] = "example" if right[i] else "failure"
        caption = f"'{DIGITS[of.kinds[i, of.which[i]]]}' was heard, and picture {chosen[i] + 1} was found"
        large = cv2.resize(sight[i].numpy(), None, fx=4, fy=4, interpolation=cv2.INTER_NEAREST)
        exhibits.append(Exhibit(kind, caption, cv2.imencode(".png", large[..., ::-1])[1].tobytes(), wav(waves[i])))
    return tuple(exhibits)
