"""Rubik's cube as Rules: known counts and orders, and unsolvable colourings."""

from __future__ import annotations

import numpy as np
import pytest

from devmind.errors import WorldError
from devmind.testing import check_world
from devmind.worlds.cube import FACES, CubeRules, pieces

TWO, THREE = CubeRules("2"), CubeRules("3")


def after(rules: CubeRules, sequence: str) -> np.ndarray:
    colours = rules.goal[None]
    for name in sequence.split():
        colours = rules.turned(colours, np.array([rules.names.index(name)]))
    return colours[0]


@pytest.mark.parametrize("level", ["2", "3", "2-4", "3-20"])
def test_cubes_keep_the_laws_of_worlds(level: str) -> None:
    check_world(CubeRules(level))


@pytest.mark.parametrize("level", ["", "4", "3-0", "3-x", "3x3x3", "3-99999"])
def test_other_sizes_are_refused(level: str) -> None:
    with pytest.raises(WorldError, match="level of the world 'cube' is a side, '2' or '3'"):
        CubeRules(level)


@pytest.mark.parametrize("turn", [-1, 12])
def test_an_unknown_turn_is_refused(turn: int) -> None:
    with pytest.raises(WorldError, match="one of 0 to 11: U, U', R"):
        THREE.step(THREE.initial(np.array([1])), {"turn": np.array([turn])})


def test_an_empty_batch_of_cubes_is_stepped() -> None:
    none = THREE.initial(np.zeros(0))
    assert len(THREE.step(none, {"turn": np.zeros(0, np.int64)})) == 0


@pytest.mark.parametrize(
    ("rules", "counts"),
    # Numbers of positions by quarter turns: https://oeis.org/A079761 (2 x 2 x 2), https://oeis.org/A080583 (3 x 3 x 3).
    [(TWO, [1, 6, 27, 120, 534, 2256, 8969, 33058]), (THREE, [1, 12, 114, 1068, 10011])],
    ids=["2", "3"],
)
def test_the_number_of_positions_at_each_distance_is_the_published_one(rules: CubeRules, counts: list[int]) -> None:
    here, seen, found = rules.goal[None], {rules.goal.tobytes()}, [1]
    for _ in counts[1:]:
        n, many = len(here), len(rules.names)
        reached = np.unique(rules.turned(np.repeat(here, many, 0), np.tile(np.arange(many), n)), axis=0)
        here = np.array([one for one in reached if one.tobytes() not in seen])
        seen |= {one.tobytes() for one in here}
        found.append(len(here))
    assert found == counts


@pytest.mark.parametrize(("sequence", "order"), [("R", 4), ("R U R' U'", 6), ("R U", 105), ("R U U D' B D'", 1260)])
def test_sequences_have_their_known_orders(sequence: str, order: int) -> None:
    comes = np.arange(THREE.cells)
    for name in sequence.split():
        comes = comes[THREE.moves[THREE.names.index(name)]]
    colours, repeats = THREE.goal, list[int]()
    for n in range(1, order + 1):
        colours = colours[comes]
        repeats += [n] if THREE.solved(colours) else []
    assert repeats == [order]


def test_right_clockwise_moves_front_to_up() -> None:
    named = "".join(FACES[colour] for colour in after(THREE, "R"))
    assert named == "UUFUUFUUFRRRRRRRRRFFDFFDFFDDDBDDBDDBLLLLLLLLLUBBUBBUBB"
    board = THREE.observe(THREE.of(after(THREE, "R")[None]))["puzzle"][0]
    assert board.shape == (6, 9, 12)
    assert board.sum() == 54
    assert board[FACES.index("F"), :3, 5].all()  # front's colour in up's right column, above front


def test_scrambles_and_positions_reached_from_them_are_solvable() -> None:
    for rules in (TWO, THREE):
        colours = rules.initial(np.arange(200)).colours
        assert {rules.unsolvable(one) for one in colours} == {""}
        assert not rules.solved(colours).all()
    mixed, back = THREE.mixed(np.array([1, 1, 1]), np.random.default_rng(0))
    assert THREE.solved(THREE.turned(mixed, back)).all()


def exchanged(rules: CubeRules, kind: int, one: int, other: int, turn: int = 0) -> np.ndarray:
    """Swap two pieces or, given one piece twice, turn its stickers."""
    colours, made_of = after(rules, "R U F' R"), pieces(rules.side)[kind]
    a, b = (np.array(made_of[number]) for number in (one, other))
    if one == other:
        colours[a] = np.roll(colours[a], turn)
    else:
        colours[a], colours[b] = colours[b].copy(), colours[a].copy()
    return colours


@pytest.mark.parametrize(
    ("rules", "kind", "one", "other", "turn", "said"),
    [
        (THREE, 0, 1, 1, 1, "A corner is twisted"),
        (THREE, 0, 5, 5, 2, "A corner is twisted"),
        (TWO, 0, 0, 0, 1, "A corner is twisted"),
        (THREE, 1, 3, 3, 1, "An edge is flipped"),
        (THREE, 1, 2, 7, 0, "The parity is odd"),
        (THREE, 0, 2, 7, 0, "The parity is odd"),
        (TWO, 0, 0, 1, 0, ""),
    ],
)
def test_unsolvable_cubes_name_the_reason(
    rules: CubeRules, kind: int, one: int, other: int, turn: int, said: str
) -> None:
    told = rules.unsolvable(exchanged(rules, kind, one, other, turn))
    assert told.startswith(said) if said else not told


def test_one_of_twelve_random_assemblies_is_solvable() -> None:
    rng, corners, edges = np.random.default_rng(0), *pieces(3)
    solvable = 0
    for _ in range(1200):
        colours = THREE.goal.copy()
        for made_of in (corners, edges):
            for place, piece in enumerate(rng.permutation(len(made_of))):
                stickers = np.array(made_of[place])
                colours[stickers] = np.roll(THREE.goal[list(made_of[piece])], rng.integers(len(stickers)))
        solvable += THREE.unsolvable(colours) == ""
    assert 70 < solvable < 131  # 100 are expected; three standard deviations


def by_colours(name: str) -> list[int]:
    """The stickers of the edge whose home is there."""
    return next(list(edge) for edge in pieces(3)[1] if "".join(FACES[c] for c in THREE.goal[list(edge)]) == name)


def test_stickers_that_form_no_cube_are_refused_with_the_reason() -> None:
    many, mirrored, twice = (THREE.goal.copy() for _ in range(3))
    many[0] = 1
    assert THREE.unsolvable(many).startswith("There are 8 stickers of the colour U, and 9 are expected")
    a, b, _ = pieces(3)[0][0]
    mirrored[[a, b]] = mirrored[[b, a]]
    assert "There is no corner with the colours" in THREE.unsolvable(mirrored)
    # The edge UF also stands at UR, and there are still nine of each colour.
    uf, ur, rd = (by_colours(name) for name in ("UF", "UR", "DR"))
    twice[ur] = twice[uf]
    twice[rd[0]], twice[by_colours("DF")[1]] = FACES.index("D"), FACES.index("R")
    assert "The edge with the colours U, F is there twice, as at " in THREE.unsolvable(twice)
    moved = after(THREE, "R L'")
    centres = np.arange(4, 54, 9)
    moved[centres] = np.roll(moved[centres], 1)
    assert THREE.unsolvable(moved).startswith("The centres are not where turns leave them")
    whole = TWO.goal.reshape(6, 4)[[5, 1, 0, 2, 4, 3]].reshape(-1)  # the whole cube turned about its right side
    assert "turn the whole cube until it is" in TWO.unsolvable(whole)
