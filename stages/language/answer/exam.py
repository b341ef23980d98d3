"""The skill `answer`: questions about new scenes, of taught pairs of colour and noun and of held-out ones."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from devmind.agent.agent import Agent
from devmind.algorithms.calibration import calibration_error
from devmind.curriculum.episodes import identities
from devmind.curriculum.exam import Exam, Exhibit, Measure, Parts, in_parts
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.report.exhibits import png
from devmind.seeding import exam_seeds, lesson_seeds
from stages.language.answer.lesson import ASKED, Questions, draw_questions
from stages.language.answering import SURE, answers, answers_with_confidence
from stages.language.caregiver.grammar import UNKNOWN
from stages.language.caregiver.scene import HELD_OUT, TAUGHT, Scene, Thing
from stages.language.hand_rules import CutOuts
from stages.language.parts import SIGHT, TEXT

SCENES, PAIRS = "answer/scenes", "answer/pairs"
GATE = Gate([Threshold(SCENES, 0.90), Threshold(PAIRS, 0.80)])
EPISODES = 1000
EXAMPLES = 2000
"""Questions of lessons on which the baselines are counted, and scenes of these from which things are cut out."""
CUT = 500
LONGEST = 20
"""Bytes of an answer: the longest, ' a magenta box.', has 15."""
NOTE = {
    SCENES: "scenes that no lesson showed, of pairs of colour and noun that lessons show",
    PAIRS: "scenes of the six pairs of colour and noun that no lesson shows",
}


def examine(agent: Agent, context: Context) -> Exam:
    """One value a question: whether the written answer is right, byte by byte."""
    n = context.episodes(EPISODES)
    rules = cache(lambda: Rules(context))
    return Exam.joined(
        _exam(agent, name, draw_questions(context, exam_seeds(n, context.seed, name), of), rules)
        for name, of in ((SCENES, TAUGHT), (PAIRS, HELD_OUT))
    )


@in_parts
def _exam(agent: Agent, name: str, questions: Questions, rules: Callable[[], Rules]) -> Parts:
    senses = {SIGHT: questions.shown.sight, TEXT: questions.questions}
    replies, confidence = answers_with_confidence(agent, senses, LONGEST)
    right = _right(replies, questions)
    measure = Measure(
        name, "answered rightly", right, chance=0.0, ceiling=1.0, rate=True, note=NOTE[name],
        episodes=identities({SIGHT: senses[SIGHT], TEXT: senses[TEXT]}),
    )  # fmt: skip
    yield [measure]
    kinds = np.array(questions.kinds)
    rows = {f"asked for {kind}": float(right[kinds == kind].mean()) for kind in ASKED if (kinds == kind).any()}
    rows[SURE] = calibration_error(confidence, right)
    rows["sight off"] = float(_right(answers(agent, {TEXT: questions.questions}, LONGEST), questions).mean())
    floors = {
        "the question alone": float(_right(rules().unseen(questions), questions).mean()),
        **{name: float(_right(replies, questions).mean()) for name, replies in rules().seen(questions).items()},
    }
    yield [replace(measure, floors=floors, rows=rows, exhibits=_mistakes(questions, right, replies))]


def shown_in_lessons(context: Context, n: int) -> np.ndarray:
    """Pictures and questions of lessons, int64 [n]."""
    seeds = lesson_seeds(n, context.seed, "answer", "episodes")
    parts = [draw_questions(context, part, TAUGHT) for part in np.array_split(seeds, -(-n // 1000))]
    return np.concatenate([identities({SIGHT: one.shown.sight, TEXT: one.questions}) for one in parts])


class Rules:
    """Baselines: the commonest answer to a question in lessons, and what follows from names by rules on pixels."""

    def __init__(self, context: Context) -> None:
        known = draw_questions(
            context, lesson_seeds(context.episodes(EXAMPLES), context.seed, "answer", "floors"), TAUGHT
        )
        self.common: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for question, answer in zip(known.questions, known.answers, strict=True):
            self.common[question][answer] += 1
            self.common[_form(question)][answer] += 1
        self.cut_outs = CutOuts.of(known.shown.rows(context.episodes(CUT)))

    def unseen(self, questions: Questions) -> list[str]:
        """The commonest answer to the same question, else to one of its form."""
        counters = [self.common[q] or self.common[_form(q)] for q in questions.questions]
        return [counts.most_common(1)[0][0] if counts else "" for counts in counters]

    def seen(self, questions: Questions) -> dict[str, list[str]]:
        """By rule, the answers that would be true if each thing, whose place is told, were what the rule calls it."""
        crops, shape = questions.shown.crops(), questions.shown.pairs.shape
        flat = crops.reshape(-1, crops.shape[-1])
        return {
            name: _true_answers(questions, rule.called(flat).reshape(shape)) for name, rule in self.cut_outs.items()
        }


def _true_answers(questions: Questions, called: np.ndarray) -> list[str]:
    """The answers about things that are `called` colour and noun, int64 [N, K, 2]."""
    boxes = questions.shown.boxes
    replies = []
    for row, question in enumerate(questions.questions):
        here = np.flatnonzero(boxes[row, :, 2] > boxes[row, :, 0])
        order = here[np.argsort(boxes[row, here, 0] + boxes[row, here, 2], kind="stable")]
        places = [thing.place for thing in questions.shown.scenes[row].things]
        things = zip(called[row, order].tolist(), sorted(places), strict=False)
        scene = Scene(tuple(Thing(colour, noun, place) for (colour, noun), place in things))
        answer_to: dict[str, str] = {}
        for ask in ASKED.values():
            for put, answer in ask(scene):  # two things may be called alike
                answer_to[put] = "yes." if answer_to.get(put) == "yes." else answer
        replies.append(" " + answer_to.get(question, "no." if question.startswith("is ") else UNKNOWN))
    return replies


def _form(question: str) -> str:
    """A question by its first two words."""
    return " ".join(question.split()[:2])


def _right(replies: Sequence[str], questions: Questions) -> np.ndarray:
    return np.array([one == answer for one, answer in zip(replies, questions.answers, strict=True)], float)


def _mistakes(questions: Questions, right: np.ndarray, replies: list[str]) -> tuple[Exhibit, ...]:
    wrong = np.flatnonzero(right == 0)[:6]
    return tuple(
        Exhibit("failure", f"'{questions.questions[i]}' was answered '{replies[i].strip()}' instead of "
                f"'{questions.answers[i].strip()}'", png=png(questions.shown.sight[i]))
        for i in wrong
    )  # fmt: skip
