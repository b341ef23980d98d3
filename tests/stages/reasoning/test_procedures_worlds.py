"""Procedures at work: blocks world, the shuttle's jets, Tileworld's published order, searches as primitives."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from devmind.cli.app import app
from devmind.curriculum.exam import bootstrap
from devmind.errors import WorldError
from devmind.testing import tiny_agent
from stages.reasoning import parts
from stages.reasoning.games import TICTACTOE, Judge, moves
from stages.reasoning.procedures.blocks import Blocks
from stages.reasoning.procedures.checking import check
from stages.reasoning.procedures.commitment import Forced, live, reactive
from stages.reasoning.procedures.interpreter import Interpreter
from stages.reasoning.procedures.jets import MANIFOLDS, Jets
from stages.reasoning.procedures.parser import FOLDER, read_library, shipped_library
from stages.reasoning.procedures.tileworld import STEP, Tileworld


def test_procedures_solve_every_blocks_world() -> None:
    for seed in range(100):
        world = Blocks.drawn(3 + seed % 13, np.random.default_rng(seed))
        it = Interpreter(shipped_library("blocks"), world.beliefs, world.actions)
        it.run(20_000)
        assert world.solved, seed
        assert not it.intentions, seed
        assert world.moves <= 2 * len(world.below)


def test_search_as_a_primitive_needs_no_more_moves_than_procedures() -> None:
    fewer = 0
    for seed in range(15):
        world = Blocks.drawn(6, np.random.default_rng(seed))
        twin = Blocks(world.below, world.goal)
        Interpreter(shipped_library("blocks_by_search"), world.beliefs, world.actions).run()
        Interpreter(shipped_library("blocks"), twin.beliefs, twin.actions).run()
        assert world.solved
        assert twin.solved
        assert world.moves <= twin.moves
        fewer += world.moves < twin.moves
    assert fewer, "in some of these worlds the written procedures are not shortest"


def test_impossible_stacks_are_refused() -> None:
    for below in ([1, 0], [2, 2, -1], [0], [5, -1]):
        with pytest.raises(WorldError, match="stands on the table"):
            Blocks(np.array(below), np.full(len(below), -1))
    world = Blocks(np.array([-1, 0]), np.array([-1, -1]))
    assert not world.move("b0", "table")
    assert not world.move("b1", "b0")
    assert world.move("b1", "table")


@pytest.mark.parametrize("names", [("x1", "b0"), ("b01", "b0"), ("b1", "b2"), ("b-1", "b0"), (1, "table")])
def test_a_block_that_does_not_exist_is_not_moved(names: tuple[str, str]) -> None:
    world = Blocks(np.array([-1, -1]), np.array([-1, -1]))
    with pytest.raises(LookupError, match="expected two of table, b0, b1"):
        world.move(*names)
    assert world.below.tolist() == [-1, -1]


def latencies(jets: Jets) -> list[int]:
    """The cycles from each failure to the first answer about it; -1 if there was none."""
    feeds, cycles = {jet: manifold for manifold, of in MANIFOLDS.items() for jet in of}, []
    for at, (kind, what) in jets.failures:
        due = ("close" if kind == "failed_on" else "isolate", feeds.get(what, what))
        cycles.append(next((cycle - at for cycle, *did in jets.done if tuple(did) == due and cycle >= at), -1))
    return cycles


def test_a_failing_jet_is_handled_within_a_cycle_and_the_routine_continues() -> None:
    for seed in range(200):
        rng = np.random.default_rng(seed)
        jets = Jets([(int(rng.integers(5, 60)), ("failed_on", f"jet_{rng.integers(1, 5)}"))])
        it = jets.run(shipped_library("jets"))
        assert 0 <= latencies(jets)[0] <= 1, seed
        assert jets.log == jets.lines, "the routine is resumed"
        assert not it.intentions, "and finished"


def test_an_answer_of_one_step_is_among_the_intentions_that_there_were() -> None:
    jets = Jets([(5, ("leaking", "tank")), (9, ("failed_on", "jet_1"))], lines=5)
    met = jets.watched_by(Interpreter(shipped_library("jets"), jets.beliefs, jets.actions), 200)
    assert [repr(one) for one in met] == ["watched (done)", "isolate (done)", "shut_off (done)"]


def test_a_leak_interrupts_a_shutdown_and_both_are_handled() -> None:
    interrupted = 0
    for seed in range(200):
        jets = Jets.drawn(np.random.default_rng(seed))
        it = jets.run(shipped_library("jets"))
        late = latencies(jets)
        assert all(0 <= cycles <= 8 for cycles in late), (seed, late)
        assert not it.intentions, seed
        for (_, (kind, _)), cycles in zip(jets.failures, late, strict=True):
            assert kind != "leaking" or cycles == 0, "nothing comes before a leak"
            interrupted += kind != "leaking" and cycles > 1
        closed = {argument for _, action, argument in jets.done if action == "close"}
        failed = sum(kind == "failed_on" for _, (kind, _) in jets.failures)
        assert len(closed) == failed
        alarms = [argument for _, action, argument in jets.done if action == "alarm"]
        assert len(alarms) == (failed == 2), "the second manifold has nothing to rely on"
    assert interrupted


@pytest.mark.parametrize("name", [path.stem for path in sorted(FOLDER.glob("*.plan"))])
def test_shipped_plans_use_only_existing_actions(name: str) -> None:
    actions = {
        "blocks": Blocks.drawn(3, np.random.default_rng(0)).actions,
        "blocks_by_search": Blocks.drawn(3, np.random.default_rng(0)).actions,
        "jets": Jets([]).actions,
        "tileworld": dict.fromkeys(("begin_period", "find_route", "step", "step_first", "rest")),
        "errand": dict.fromkeys(("look_at", "say")),
        "way": dict.fromkeys(("find_way", "say")),
        "maze": dict.fromkeys(("follow_plan", "say")),
        "table": dict.fromkeys(("follow_plan", "say")),
    }
    assert check(shipped_library(name), list(actions[name])) == []


def test_holes_do_not_depend_on_actions() -> None:
    one, other = Tileworld(7, 2.0), Tileworld(7, 2.0)
    while not one.over:
        one.step(one.steps[one.at][0])
        other.spend(STEP)
    assert one.offered == other.offered > 0
    assert one.opened == other.opened
    assert Tileworld(8, 2.0).free != one.free
    assert 0 <= one.effectiveness <= 1


def test_a_route_is_a_shortest_path_to_the_best_hole_per_step() -> None:
    world = Tileworld(3, 1.0)
    way = world.route()
    assert way
    assert way[-1] in world.holes
    assert way[0] in world.steps[world.at]
    assert all(b in world.steps[a] for a, b in itertools.pairwise(way))
    hole, collected = world.holes[way[-1]], world.collected
    earned = sum(world.step(cell) for cell in way)
    assert earned >= hole.score
    assert world.collected == collected + earned


def effectiveness(rate: float, n: int = 80) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    seeds = range(1000, 1000 + n)
    bold, cautious = (np.array([live(seed, rate, Forced(plan))[0] for seed in seeds]) for plan in ("bold", "cautious"))
    return bold, cautious, np.array([reactive(seed, rate) for seed in seeds])


def test_tileworld_has_the_published_shape() -> None:
    """Kinny and Georgeff (1991): effectiveness falls with the rate of change; bold is better where little changes and
    cautious where much does; 95 % intervals of the paired differences.
    """
    found = {rate: effectiveness(rate) for rate in (0.25, 1.2, 6.0)}
    means = [bold.mean() for bold, *_ in found.values()]
    assert means == sorted(means, reverse=True)
    assert means[0] > 0.9
    assert means[-1] < 0.4
    bold, cautious, planless = found[1.2]
    assert bootstrap(bold - cautious, 1000, "slow")[0] > 0
    assert bootstrap(cautious - planless, 1000, "slow, reactive")[0] > 0.2
    bold, cautious, _ = found[6.0]
    assert bootstrap(cautious - bold, 1000, "fast")[0] > 0


def test_a_forced_commitment_may_change_from_period_to_period() -> None:
    once, situations = live(5, 1.0, Forced("bold"))
    mixed, met = live(5, 1.0, Forced("bold", "cautious"))
    assert len(situations) >= 3
    assert len(met) >= 3
    assert any(
        live(seed, 4.0, Forced("bold"))[0] != live(seed, 4.0, Forced("bold", "cautious"))[0] for seed in range(5)
    )
    assert 0 <= mixed <= 1
    assert np.isnan(met[0][0])
    assert not np.isnan(met[2][0])
    told = live(5, 1.0, worth=lambda situation: [1.0, 0.0])
    assert told[0] == once


def test_tree_search_by_the_agents_judge_is_a_primitive() -> None:
    agent = tiny_agent()
    parts.admit(agent)
    judge, rules, done = Judge(agent.eval(), TICTACTOE), TICTACTOE.rules, list[int]()
    board = rules.initial(np.zeros(1))
    for place in (0, 3, 1, 4):
        board = rules.step(board, {"place": np.array([place])})
    library = read_library("plan play { for achieve played do { think() -> Place place(Place) } }")
    actions = {"think": lambda: int(moves(judge, board, 64)[0]), "place": done.append}
    assert Interpreter(library, actions=actions).solve(("played",))
    assert done == [2], "it wins in one"


def test_terms_are_printed_as_plan_files_write_them(tmp_path: Path) -> None:
    (file := tmp_path / "said.plan").write_text(
        "achieve said plan say { for achieve said do { print(a, [b, to(c, 1 / 2)]) } }"
    )
    done = CliRunner().invoke(app, ["procedures", str(file)])
    assert done.stdout.splitlines()[0] == "a [b, to(c, 0.5)]"


def test_a_folder_does_not_hide_a_packaged_plan_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("blocks").mkdir()
    assert CliRunner().invoke(app, ["procedures", "blocks", "--check"]).exit_code == 0
    assert "There is no plan file '.'" in CliRunner().invoke(app, ["procedures", ".", "--check"]).stderr


def test_check_reports_an_empty_or_missing_file(tmp_path: Path) -> None:
    (empty := tmp_path / "empty.plan").write_text("")
    done = CliRunner().invoke(app, ["procedures", str(empty), "--check"])
    assert (done.exit_code, done.output) == (1, f"Expected at least one plan in '{empty}'; got none.\n")
    done = CliRunner().invoke(app, ["procedures", "nope", "--check"])
    assert done.exit_code == 2
    assert done.stderr.startswith("There is no plan file 'nope'. Give a path, or the name of a packaged plan file: ")
    assert "blocks, blocks_by_search, errand, jets, maze, table, tileworld, way." in done.stderr
