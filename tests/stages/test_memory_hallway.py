"""MiniGrid's Memory rooms: the teacher, what memory decides, and what can be reached without it."""

import numpy as np
import pytest

from devmind.acting import rollout
from devmind.testing import check_world
from devmind.worlds.minigrid import FORWARD, LEFT, RIGHT, Board
from stages.memory import matching
from stages.memory.hallway import LONGEST, Hallway


def test_the_view_is_a_board_of_planes():
    hallway = Hallway(7)
    board = hallway.begin(0).observe()["board"][0]
    image = hallway.env.gen_obs()["image"]
    assert board.shape == (13, 7, 7)
    assert board.dtype == np.int8
    np.testing.assert_array_equal(board[:11].argmax(0), image[..., 0].T)
    np.testing.assert_array_equal(board[11:], image[..., 1:].transpose(2, 1, 0))
    check_world(Hallway(7).world, ticks=6)
    assert isinstance(hallway.world.env, Board)


@pytest.mark.parametrize("size", [7, 13])
def test_the_teacher_looks_first_and_arrives_soon(size):
    hallway, asked = Hallway(size), []
    for seed in range(12):

        def teaching(senses, first):
            choice = hallway.teach()
            if hallway.at_the_fork:
                side = hallway.env.success_pos[1] - hallway.env.height // 2
                asked.append(choice == (RIGHT if side > 0 else LEFT))
            return {"choose": np.array([choice])}

        *_, last = rollout(teaching, hallway.begin(seed))
        assert last.reward[0] > 0
        assert last.tick < LONGEST[size] // 3 + 1
    assert asked == [True] * 12


def test_a_hand_that_slips_is_told_what_it_should_have_done():
    walks = [matching.walk(7, seed) for seed in range(30)]
    lengths = [len(walk["choice"]) for walk in walks]
    assert max(lengths) > 8  # some strayed
    assert max(lengths) <= LONGEST[7]
    assert all(walk["asked"].any() for walk in walks)
    assert {int(choice) for walk in walks for choice in walk["choice"]} == {LEFT, RIGHT, FORWARD}
    assert all((np.diff(walk["told"]) != 0).sum() <= 1 for walk in walks)  # nothing is told before it was seen
    assert {int(walk["told"][-1]) for walk in walks} == {0, 1}


def test_without_memory_half_of_the_rooms_are_won():
    seeds = np.arange(60)
    left, right = (matching.reached(7, seeds, matching.straight_on(side)) for side in (LEFT, RIGHT))
    assert (left + right == 1).all()  # each room is won by one of the two sides
    assert 0.25 < left.mean() < 0.75
