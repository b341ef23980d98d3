"""Seeds are functions of names; lessons and exams never share one."""

import numpy as np

from devmind.seeding import EXAM_SEEDS_FROM, derive_seed, exam_seeds, lesson_seeds, numpy_rng, torch_generator


def test_seed_depends_on_every_part_and_its_type():
    seeds = {derive_seed(*parts) for parts in [(0,), (1,), ("0",), (0, 0), (0, "a"), ("a", 0), ("a0",), ()]}
    assert len(seeds) == 8
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_numpy_numbers_and_strings_give_the_seeds_of_python_ones():
    assert derive_seed(np.int64(7), np.str_("ann")) == derive_seed(7, "ann")


def test_lessons_and_exams_share_no_world_seed():
    assert lesson_seeds(1000, 3, "watch").max() < EXAM_SEEDS_FROM
    exam = exam_seeds(1000, "orient")
    assert exam.min() >= EXAM_SEEDS_FROM
    assert len(set(exam)) == 1000
    assert np.array_equal(exam, exam_seeds(1000, "orient"))
    assert not np.array_equal(exam, exam_seeds(1000, "track"))


def test_generators_repeat_by_name():
    assert numpy_rng(1, "x").random() == numpy_rng(1, "x").random() != numpy_rng(1, "y").random()
    assert torch_generator(1, "x").initial_seed() == torch_generator(1, "x").initial_seed()
