"""Sokoban as Rules: levels from texts and from seeds, what a push does, and deadlocks."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest

from devmind.errors import WorldError
from devmind.testing import check_world
from devmind.worlds.sokoban import MOVES, SokobanRules, parse, split_levels

RULES = SokobanRules("8-2")
ROOM = """
  ######
  #    #
  # #@ #
  # $* #
  # .# #
  #    #
  ######
"""


def walked(rules: SokobanRules, state, *names: str):
    for name in names:
        state = rules.step(state, {"walk": np.array([MOVES.index(name)])})
    return state


@pytest.mark.parametrize("level", ["5-1", "8-2", "10-4"])
def test_sokoban_keeps_the_laws_of_worlds(level: str) -> None:
    check_world(SokobanRules(level))


@pytest.mark.parametrize("level", ["", "8", "4-1", "33-1", "8-0", "8-13", "5-2", "8x2"])
def test_an_invalid_level_is_refused(level: str) -> None:
    with pytest.raises(WorldError, match="level of the world 'sokoban' is a side from 5 to 32 and a number of boxes"):
        SokobanRules(level)


def test_a_text_level_is_read_and_written() -> None:
    state = RULES.read([ROOM])
    assert state.box.sum() == state.goal.sum() == 2
    (told,) = RULES.text(state)
    assert "#@ #" in told
    assert (RULES.read([told]).box == state.box).all()
    assert RULES.text(RULES.read([told])) == [told]
    assert len(RULES.step(RULES.read([]), {"walk": np.zeros(0, np.int64)})) == 0


def test_boxes_are_pushed_one_at_a_time_and_never_pulled() -> None:
    # The box on its goal, below the player, is against a wall; from the left, the other can be pushed alone.
    state = RULES.read([ROOM])
    assert RULES.legal(state)["walk"][0].tolist() == [True, False, False, True]
    with pytest.raises(WorldError, match="a wall is there, or a box that cannot be pushed"):
        walked(RULES, state, "down")
    line = RULES.read(["########\n#@$ $..#\n########"])
    pushed = walked(RULES, line, "right")
    assert "#" + " @$$..#" in RULES.text(pushed)[0]
    assert not RULES.legal(pushed)["walk"][0, MOVES.index("right")]  # two boxes in a row
    back = walked(RULES, pushed, "left")
    assert "#@ $$..#" in RULES.text(back)[0]


def test_all_boxes_on_goals_end_the_episode_and_moves_cost_one() -> None:
    state = RULES.read(["#####\n#@$.#\n#####"])
    done = walked(RULES, state, "right")
    outcome = RULES.outcome(done)
    assert outcome.terminal[0]
    assert outcome.reward[0] == -1
    assert RULES.outcome(walked(RULES, done, "right")).reward[0] == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "this text is empty"),
        ("#####\n#@$x#\n#####", "line 2, column 4: 'x' is no sign of a level"),
        ("#####\n#.$ #\n#####", "one player, '@' or '+'; got 0"),
        ("######\n#@$.+#\n######", "got 2: line 2, column 2; line 2, column 5"),
        ("#####\n#@$ #\n#####", "as many boxes as goals, one at least; got 1 and 0"),
        ("#####\n#@ ##\n#####", "got 0 and 0"),
        ("\n#####\n#@$. \n#####", "line 3, column 5: the player's room has a gap in its walls"),
        ("#######\n#@.#$ #\n#######", "line 2, column 5: the player can never come to this box"),
        ("#########\n#@$.    #\n#########", "at most 8 by 8; this one has 3 lines and 9 columns"),
    ],
)
def test_an_invalid_text_is_refused_by_line_and_column(text: str, said: str) -> None:
    with pytest.raises(WorldError) as told:
        RULES.read([text])
    assert said in str(told.value)


def test_a_collection_is_split() -> None:
    levels = split_levels("; 0\n#####\n#@$.#\n#####\n\n; 1\nAuthor: nobody\n####\n#@.#\n#$ #\n####\n")
    assert [len(level.splitlines()) for level in levels] == [3, 4]
    assert parse(levels[1])[3, 1, 1]


def test_dead_squares_are_those_from_which_a_lone_box_reaches_no_goal() -> None:
    rules = SokobanRules("6-2")
    state = rules.initial(np.arange(12))
    told, pushes = rules.dead(state), rules.pushes(state)
    for row in range(len(state)):
        for cell in np.flatnonzero(~state.wall[row]).tolist():
            if told[row, cell]:
                assert not pushed_alone(rules, state, row, cell)
            else:
                assert 0 <= pushes[row, cell] < 40


def pushed_alone(rules: SokobanRules, state, row: int, cell: int) -> bool:
    """Whether a lone box there can reach a goal, with the player anywhere beside it, by exhaustive search."""
    for player in np.flatnonzero(~state.wall[row]).tolist():
        if player == cell:
            continue
        queue, seen = deque([(player, cell)]), {(player, cell)}
        while queue:
            at, box = queue.popleft()
            if state.goal[row, box]:
                return True
            for step in rules.steps.tolist():
                to, further = at + step, box + step if at + step == box else box
                if state.wall[row, to] or state.wall[row, further] or (to, further) in seen:
                    continue
                seen.add((to, further))
                queue.append((to, further))
    return False


def solution(rules: SokobanRules, state) -> int | None:
    """The fewest moves, breadth first, or None."""
    seen, here, moves = {(state.box.tobytes(), int(state.player[0]))}, state, 0
    while len(here):
        if rules.solved(here).any():
            return moves
        rows, which = np.nonzero(rules.able(here))
        reached = rules.step(here.take(rows), {"walk": which})
        keys = [(box.tobytes(), int(at)) for box, at in zip(reached.box, reached.player, strict=True)]
        new = [n for n, key in enumerate(keys) if key not in seen and not seen.add(key)]
        here, moves = reached.take(np.array(new, np.int64)), moves + 1
    return None


def test_seeded_levels_are_solvable_and_not_reported_as_lost() -> None:
    rules = SokobanRules("6-2")
    state = rules.initial(np.arange(10**6, 10**6 + 6))
    assert rules.unsolvable(state) == [""] * 6
    for row in range(6):
        assert solution(rules, state.take([row]))
        assert 2 * (state.box & ~state.goal)[row].sum() >= 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("######\n#$@ .#\n######", "The box in line 2, column 2 can never be pushed to a goal."),
        ("#######\n#@ $$ #\n#  $$ #\n# ....#\n#######", "The box in line 2, column 4"),
        ("#######\n# @   #\n#  $$ #\n#  $$ #\n# ....#\n#  #  #\n#######", "closes"),
    ],
)
def test_deadlocks_are_reported_and_have_no_solution(text: str, said: str) -> None:
    state = RULES.read([text])
    (told,) = RULES.unsolvable(state)
    assert told.startswith(said) if said != "closes" else "close a square of two by two" in told
    assert solution(RULES, state) is None
