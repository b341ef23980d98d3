"""The skill `converse`: games with the caregiver about held-out pairs.

A game is won by pointing at the thing she means, and by asking back if, and only if, her words leave it open. A second
measure asks whether the agent asks what unnamed things are (`asking.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace

import numpy as np

from devmind.agent.agent import Agent
from devmind.agent.batch import Batch, collate_tick
from devmind.agent.writing import Conversation
from devmind.algorithms.calibration import calibration_error
from devmind.curriculum.episodes import identities
from devmind.curriculum.exam import Exam, Exhibit, Measure
from devmind.curriculum.gate import Gate, Threshold
from devmind.curriculum.stage import Context
from devmind.report.exhibits import png
from devmind.seeding import exam_seeds, lesson_seeds, numpy_rng
from stages.language.answering import TOGETHER
from stages.language.caregiver.scene import HELD_OUT, PAIRS, TAUGHT, name_of
from stages.language.caregiver.turns import answer, looked_at, repair_turn
from stages.language.converse import asking
from stages.language.converse.asking import ASKS
from stages.language.converse.games import SAID, Games, games
from stages.language.converse.lesson import THERE, WHICH
from stages.language.hand_rules import CutOuts
from stages.language.name.exam import EXAMPLES, nearest
from stages.language.name.scenes import THINGS, scenes
from stages.language.new_words import lesson as new_words_lesson
from stages.language.parts import POINT, SIGHT, TEXT

CONVERSE = "converse"
GATE = Gate([Threshold(CONVERSE, 0.90), Threshold(ASKS, 0.90, goal=True)])
EPISODES = 500
LONGEST = len(WHICH) + 4
CHANCE = 1 / (2 * THINGS)
NOTE = "right if it points at the thing that she means, and asks if and only if her first words fit several things"


@dataclass
class Played:
    """How N games went.

    Attributes:
        asked: whether the agent asked back; sure: its probability of asking.
        found: the thing it pointed at: after the first turn, or, if it asked, after the second.
        last: the thing it pointed at in the end.
    """

    asked: np.ndarray
    sure: np.ndarray
    found: np.ndarray
    last: np.ndarray

    def won(self, drawn_games: Games) -> np.ndarray:
        """1 for each game that is won, else 0, float64 [N]."""
        return ((self.found == drawn_games.target) & (self.asked == ~drawn_games.clear)).astype(float)


def examine(agent: Agent, context: Context) -> Exam:
    """One value a game. The baselines are told where each thing is, and play with one habit each."""
    n = context.episodes(EPISODES)
    drawn_games = games(context, exam_seeds(n, context.seed, CONVERSE), HELD_OUT, PAIRS)
    played = play(agent, context, drawn_games)
    won = played.won(drawn_games)
    measure = Measure(
        CONVERSE, "games won", won, CHANCE, 1.0, rate=True, note=NOTE,
        episodes=identities({SIGHT: drawn_games.sight, TEXT: drawn_games.openings}),
    )  # fmt: skip

    def complete() -> list[Measure]:
        floors, rows = _floors(context, drawn_games), _rows(agent, context, drawn_games, played)
        return [replace(measure, floors=floors, rows=rows, exhibits=_lost(drawn_games, played, won))]

    return Exam.joined((Exam([measure], complete), asking.examine(agent, context)))


def shown_in_lessons(context: Context, n: int) -> np.ndarray:
    """Pictures with first words of lessons' games, and lives of lessons, int64 [about 2 n]."""
    seeds = lesson_seeds(n, context.seed, CONVERSE, "episodes")
    parts = [games(context, part, TAUGHT, TAUGHT) for part in np.array_split(seeds, -(-n // 1000))]
    episodes = [identities({SIGHT: one.sight, TEXT: one.openings}) for one in parts]
    return np.concatenate([*episodes, new_words_lesson.lesson_episodes(context, n)])


def play(agent: Agent, context: Context, drawn_games: Games, dark: bool = False) -> Played:
    """The agent plays each game: her first words, what the agent writes, her pause, and how she goes on.

    Args:
        dark: whether all pictures are black.
    """
    if dark:
        drawn_games = replace(drawn_games, sight=np.zeros_like(drawn_games.sight))
    played, order = list[Played](), list[np.ndarray]()
    for silent in np.unique(drawn_games.silent):  # games with equally long pauses are played together
        same = np.flatnonzero(drawn_games.silent == silent)
        order += [same[part] for part in _parts(len(same))]
    for rows in order:
        played.append(_played(agent, context, drawn_games, rows, dark))
    turn = np.argsort(np.concatenate(order))
    return Played(*(np.concatenate([getattr(part, each.name) for part in played])[turn] for each in fields(Played)))


def _parts(n: int) -> list[np.ndarray]:
    return np.array_split(np.arange(n), -(-n // TOGETHER))


def _played(agent: Agent, context: Context, drawn_games: Games, rows: np.ndarray, dark: bool) -> Played:
    talk = Conversation(agent, len(rows))
    first = talk.turn(turn_batch(drawn_games, rows, drawn_games.openings, first=True), LONGEST, [POINT])
    asked = np.array([text.strip().startswith("which") for text in first.texts])
    pointed_at = _thing(first.outputs[POINT].mode().cpu().numpy(), drawn_games, rows)
    looks_at = be_silent(talk, context, drawn_games, rows, np.where(asked, -1, pointed_at), dark)
    replies = [
        answer(*each)
        for each in zip(
            asked, looks_at, drawn_games.target[rows], np.array(drawn_games.completions)[rows].tolist(), strict=True
        )
    ]
    second = talk.turn(turn_batch(drawn_games, rows, dict(zip(rows.tolist(), replies, strict=True))), LONGEST, [POINT])
    then = _thing(second.outputs[POINT].mode().cpu().numpy(), drawn_games, rows)
    sure = np.where(asked, first.sure, 1 - np.array(first.sure))
    return Played(
        asked, sure, np.where(asked, then, pointed_at), np.where(looks_at == drawn_games.target[rows], pointed_at, then)
    )


def be_silent(
    talk: Conversation, context: Context, drawn_games: Games, rows: np.ndarray, looks_at: np.ndarray, dark: bool = False
) -> np.ndarray:
    """Her pause, equally long in all of these games; the child turns its gaze to a thing, or, at -1, to none.

    Returns:
        The thing that she sees it look at, int64 [n], -1 for none.
    """
    views_of_look = drawn_games.seen_by(context, looks_at, rows)
    sight = np.zeros_like(views_of_look.sight) if dark else views_of_look.sight
    for _ in range(int(drawn_games.silent[rows[0]])):
        talk.listen(collate_tick({SIGHT: sight}, np.zeros(len(rows), bool)))
    return looked_at(views_of_look.boxes)


def turn_batch(
    drawn_games: Games, rows: np.ndarray, words: Sequence[str] | Mapping[int, str], first: bool = False
) -> Batch:
    """Her turn in these games: the picture, and her words by game."""
    return collate_tick({SIGHT: drawn_games.sight[rows], TEXT: [words[row] for row in rows]}, np.full(len(rows), first))


def _thing(cell: np.ndarray, drawn_games: Games, rows: np.ndarray) -> np.ndarray:
    """The thing nearest to the cell pointed at, int64 [n]."""
    return nearest(cell, drawn_games.boxes[rows])


def put_right(agent: Agent, context: Context, drawn_games: Games, before: bool = True) -> np.ndarray:
    """Whether "no, the red one." makes the agent find the thing she means, if her words left it open and it did not
    ask: float64 [M] of the M games with such words. Whatever the agent would have answered, its answer here is
    "there.", and in her pause it looks at another thing that fits her words.

    Args:
        before: False removes the first turn and the pause, so that both words cannot be known.
    """
    right = list[np.ndarray]()
    opened, others = ~drawn_games.clear, drawn_games.fitting & (np.arange(THINGS) != drawn_games.target[:, None])
    first_words = {row: f"{words}{THERE}" for row, words in enumerate(drawn_games.openings)}
    corrections = [repair_turn(words) for words in drawn_games.completions]
    for silent in np.unique(drawn_games.silent[opened]):
        rows = np.flatnonzero(opened & (drawn_games.silent == silent))
        talk = Conversation(agent, len(rows))
        if before:
            talk.turn(turn_batch(drawn_games, rows, first_words, first=True), 0)
            be_silent(talk, context, drawn_games, rows, others[rows].argmax(1))
        turn = talk.turn(turn_batch(drawn_games, rows, corrections, first=not before), 0, [POINT])
        right.append(_thing(turn.outputs[POINT].mode().cpu().numpy(), drawn_games, rows) == drawn_games.target[rows])
    return np.concatenate(right).astype(float)


def _rows(agent: Agent, context: Context, drawn_games: Games, played: Played) -> dict[str, float]:
    """Rows: the parts of the score, and games won with black pictures."""
    opened, right = ~drawn_games.clear, played.found == drawn_games.target
    astray = ~played.asked & ~right
    return {
        "asked when the words fit several things": float(played.asked[opened].mean()),
        "asked when they fit one thing": float(played.asked[~opened].mean()),
        "calibration error of asking": calibration_error(played.sure, opened),
        "found after asking": _share(right[played.asked]),
        "found without asking": _share(right[~played.asked]),
        "found after looking at another thing first": _share(played.last[astray] == drawn_games.target[astray]),
        "corrected by 'no, the ...'": float(put_right(agent, context, drawn_games).mean()),
        "corrected without the first turn": float(put_right(agent, context, drawn_games, before=False).mean()),
        "sight off": float(play(agent, context, drawn_games, dark=True).won(drawn_games).mean()),
    }


def _share(right: np.ndarray) -> float:
    return float(right.mean()) if len(right) else 0.0


def _floors(context: Context, drawn_games: Games) -> dict[str, float]:
    """Classifiers on cut-out pixels, fitted apart on scenes of lessons, say which things her words fit."""
    n = context.episodes(EXAMPLES)
    known = scenes(context, lesson_seeds(n, context.seed, CONVERSE, "floors"), TAUGHT, TAUGHT, np.ones(n, bool))
    crops, shape = drawn_games.crops(), drawn_games.pairs.shape
    called = {rule: of.called(crops.reshape(-1, crops.shape[-1])) for rule, of in CutOuts.of(known).items()}
    by_rule = [_habits(rule, drawn_games, each.reshape(shape), context) for rule, each in called.items()]
    return {floor: score for each in by_rule for floor, score in each.items()}


def _habits(rule: str, drawn_games: Games, classified: np.ndarray, context: Context) -> dict[str, float]:
    """The scores of a rule that calls things `classified`, int64 [N, K, 2], with each habit of asking."""
    target_pair = drawn_games.pairs[np.arange(len(drawn_games.target)), drawn_games.target][:, None]
    rng = numpy_rng(context.seed, CONVERSE, "rules")
    spoken = np.array([[word in words for word in (0, 1)] for words, _, _ in SAID])[drawn_games.kind][:, None]
    matches = classified == target_pair
    fits, whole = (matches | ~spoken).all(-1), matches.all(-1)

    def one_of(fit: np.ndarray) -> np.ndarray:
        return np.where(fit, 1 + rng.random(fit.shape), rng.random(fit.shape)).argmax(-1)

    several, guess, if_answered = fits.sum(-1) > 1, one_of(fits), one_of(whole)
    habits = {"never asks": np.zeros_like(several), "always asks": ~np.zeros_like(several), "asks": several}
    ends = {habit: np.where(asks, if_answered, guess) for habit, asks in habits.items()}
    right = {habit: Played(asks, asks, ends[habit], ends[habit]).won(drawn_games) for habit, asks in habits.items()}
    names = {
        "never asks": f"{rule}, never asks",
        "always asks": f"{rule}, always asks",
        "asks": f"{rule}, asks where several fit",
    }
    return {names[habit]: float(value.mean()) for habit, value in right.items()}


def _lost(drawn_games: Games, played: Played, won: np.ndarray) -> tuple[Exhibit, ...]:
    names = [[name_of(*pair) for pair in pairs] for pairs in drawn_games.pairs.tolist()]
    return tuple(
        Exhibit(
            "failure",
            f"'{drawn_games.openings[i]}' It {'asked' if played.asked[i] else 'did not ask'} and pointed at the "
            f"{names[i][played.found[i]]}; the {names[i][drawn_games.target[i]]} was meant",
            png=png(drawn_games.sight[i]),
        )
        for i in np.flatnonzero(won == 0)[:6]
    )
