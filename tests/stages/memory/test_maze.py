"""MiniGrid's Memory rooms: the teacher, what memory decides, and what can be reached without it."""

import numpy as np
import pytest

from devmind.acting import rollout
from devmind.seeding import EXAM_SEEDS_FROM
from devmind.testing import check_world, tiny_context
from devmind.worlds.minigrid import FORWARD, LEFT, RIGHT, Board
from stages.memory.maze import exam, rooms
from stages.memory.maze.rooms import LONGEST, Hallway


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


def test_a_slipping_hand_is_taught_the_right_choice():
    walks = [rooms.walk(7, seed) for seed in range(30)]
    lengths = [len(walk["choice"]) for walk in walks]
    assert max(lengths) > 8  # some strayed
    assert max(lengths) <= LONGEST[7]
    assert all(walk["asked"].any() for walk in walks)
    assert {int(choice) for walk in walks for choice in walk["choice"]} == {LEFT, RIGHT, FORWARD}
    assert all((np.diff(walk["told"]) != 0).sum() <= 1 for walk in walks)  # nothing is told before it was seen
    assert {int(walk["told"][-1]) for walk in walks} == {0, 1}


def test_half_of_the_rooms_are_won_without_memory():
    seeds = np.arange(60)
    left, right = (exam.right_things(7, seeds, exam.straight_on(side)) for side in (LEFT, RIGHT))
    assert (left + right == 1).all()  # each room is won by one of the two sides
    assert 0.25 < left.mean() < 0.75


def test_exam_rooms_are_exactly_those_that_lessons_never_show(tmp_path):
    context = tiny_context(tmp_path)
    for size, many in rooms.ROOMS.items():
        seeds = rooms.exam_rooms(context.seed, size)
        examined = {rooms.layout(size, int(seed)) for seed in seeds}
        assert len(seeds) == len(examined) == many
        assert seeds.min() >= EXAM_SEEDS_FROM
        lessons = {rooms.layout(size, int(seed)) for seed in rooms.lesson_rooms(context.seed, size)}
        assert len(rooms.lesson_rooms(context.seed, size)) == rooms.POOL
        assert rooms.lesson_rooms(context.seed, size).max() < EXAM_SEEDS_FROM
        assert not examined & lessons
        every = {rooms.layout(size, seed) for seed in range(40 * many)}
        assert examined | lessons == every
        assert len(every) == 2 * many
        for part in range(3):  # each start, thing and side occurs in lessons: only their combination is new
            assert {room[part] for room in lessons} == {room[part] for room in every}


def teachers_steps(size, seed):
    """The number of steps that the teacher takes in a room with a steady hand."""
    hallway = rooms.Hallway(size)
    hallway.begin(seed)
    for step in range(1, 100):
        _, reward, ended, *_ = hallway.world.step({"choose": np.array(hallway.teach())})
        if ended:
            assert reward > 0
            return step
    raise AssertionError("it never arrives")


def test_all_rooms_of_untaught_sizes_are_asked_with_enough_time(tmp_path):
    context = tiny_context(tmp_path)
    assert not set(rooms.UNSEEN_SIZES) & {size for size in rooms.LONGEST}
    for size, longest in rooms.UNSEEN_SIZES.items():
        seeds = rooms.exam_rooms(context.seed, size)
        asked = {rooms.layout(size, int(seed)) for seed in seeds}
        assert len(seeds) == len(asked)
        assert asked == {rooms.layout(size, seed) for seed in range(400)}
        assert seeds.min() >= EXAM_SEEDS_FROM
        assert longest == 3 * max(teachers_steps(size, int(seed)) for seed in seeds)
    left, right = (exam.right_things(9, rooms.exam_rooms(0, 9), exam.straight_on(side)) for side in (LEFT, RIGHT))
    assert (left + right == 1).all()


def test_rows_report_the_sizes_that_lessons_lack(tmp_path, monkeypatch):
    """A player that always goes left wins half of them at any size."""
    context = tiny_context(tmp_path)
    monkeypatch.setattr(exam.short_term, "agent_policy", lambda agent, short_term=True: exam.straight_on(LEFT))
    small, large = (exam._exam(None, context, name, "").in_full()[0] for name in (exam.S7, exam.S13))
    told = {name: value for name, value in large.rows.items() if "lessons have none" in name}
    assert told == {f"all {n} rooms of size {size}, of which lessons have none": 0.5 for size, n in ((9, 24), (11, 32))}
    assert not [name for name in small.rows if "lessons have none" in name]


def test_the_exam_plays_every_room_once(tmp_path, monkeypatch):
    context, played = tiny_context(tmp_path), []
    monkeypatch.setattr(exam, "right_things", lambda size, seeds, policy: played.append((size, seeds)) or np.ones(1))
    for name, size in exam.SIZES.items():
        exam.arrivals(context, name, 3, exam.straight_on(LEFT))
        assert played[-1][0] == size
        np.testing.assert_array_equal(played[-1][1], rooms.exam_rooms(context.seed, size))
