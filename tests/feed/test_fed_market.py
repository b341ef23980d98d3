"""Made-up markets and rooms of other processes teach here: paths, cursors, the newest weights, and the picture."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from devmind.acting import Actor
from devmind.agent.agent import Agent
from devmind.agent.batch import map_tensors
from devmind.agent.prediction import prediction_loss
from devmind.checkpointing.engine import save
from devmind.checkpointing.generations import load_newest
from devmind.cli import feed as feed_command
from devmind.config import load
from devmind.curriculum.stage import Context, Learner
from devmind.curriculum.start import make_context
from devmind.errors import WorldError
from devmind.feed.schema import Row
from devmind.learners.population import EvolutionLearner, fitness
from devmind.moment import Action, Moment
from devmind.testing import tiny_agent
from devmind.worlds.adapter import VectorWorld
from devmind.worlds.market import SEEN, TICKS, Costs, MarketRules
from stages.planning import parts
from stages.planning.trade import lesson
from stages.reflex import parts as reflex_parts
from stages.reflex.foresee import lesson as foresee
from stages.reflex.lessons import lessons as reflex_lessons
from tests.feed.conftest import Serve, client, stored

DOCS = Path(__file__).parents[2] / "docs"
RULES = MarketRules("shocks")
STEPS = 72
"""Of the lesson that watches a camera, without those of its batches that are the nursery's: they take longer."""


def docs_script(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def push_market(server: Any, seeds: range, ticks: int = TICKS, name: str = "one") -> None:
    """One account a seed, each in an environment of its own, that trades at random."""
    state, rng = RULES.initial(np.array(seeds)), np.random.default_rng(seeds.start)
    with client(server, name, world="market") as feed:
        for tick in range(ticks + 1):
            senses, reward = RULES.observe(state), RULES.outcome(state).reward
            trade = rng.uniform(-1, 1, (len(seeds), 1)).astype(np.float32)
            for i in range(len(seeds)):
                here = {sense: x[i] for sense, x in senses.items()}
                moment = Moment(tick / 10, here, float(reward[i]), first=tick == 0, last=tick == TICKS)
                feed.push([Row(i, moment, Action({} if tick == TICKS else {"trade": trade[i]}))])
            state = RULES.step(state, {"trade": trade})


def fed_context(folder: Path, *sets: str, size: str = "tiny") -> Context:
    place = f"feed.place={folder / 'spool'}"
    return make_context(load("nursery", {}, [f"size={size}", place, *sets]), folder / "out", None, ())


def trader() -> Agent:
    torch.manual_seed(0)
    agent = tiny_agent()
    parts.admit(agent)
    agent.config.stages = ["planning"]
    return agent


def trade_learner(context: Context) -> tuple[Learner, Any]:
    one, agent = lesson.lesson(context), trader()
    learner = one.make_learner(agent, context)
    learner.steps = 4
    learner.begin(0)
    return learner, one.make_batches(agent, context, 4)


def test_paths_of_a_feed_are_the_markets_whoever_traded(serve: Serve, tmp_path: Path) -> None:
    push_market(serve(), range(8))
    context = fed_context(tmp_path, "lessons.trade.options.tax=0.4")
    batch = lesson.make(trader(), context, 0, 8)
    wanted = RULES.initial(np.arange(8)).price
    np.testing.assert_allclose(np.sort(batch["price"], 0), np.sort(wanted, 0), rtol=2e-5)
    assert batch["price"].shape == (8, SEEN + TICKS + 1)
    assert batch["tax"].tolist() == pytest.approx([0.4] * 8)
    assert batch["fee"].tolist() == pytest.approx([0.001] * 8)
    assert set(lesson.loss(trader(), batch)[1]) == {"market"}
    # The next batch begins a quarter further on; going back reads again from the first.
    assert context.feed is not None
    later = context.feed.episodes(2, 4)
    again = context.feed.episodes(0, 4)
    np.testing.assert_array_equal(later[0].senses["returns"], again[2].senses["returns"])


def test_broken_off_episodes_are_left_out_and_foreign_ones_refused(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    push_market(server, range(3), ticks=100)
    push_market(server, range(3, 6))  # the same environments begin anew
    batch = lesson.make(trader(), fed_context(tmp_path), 0, 6)
    assert batch["price"].shape == (3, SEEN + TICKS + 1)
    with pytest.raises(WorldError, match="has 257 Moments; of 3 in the feed none has"):
        lesson.make(trader(), fed_context(tmp_path), 0, 3)
    with client(server, "other", world="cartpole") as feed:
        senses = {"body": np.zeros(3, np.float32)}
        feed.push([Row(0, Moment(0.1 * at, senses, first=not at, last=at == 1), Action()) for at in range(2)])
    with pytest.raises(WorldError, match="The world 'cartpole' has the sense 'body'"):
        fed_context(tmp_path, "feed.world=cartpole").feed.episodes(0, 1)  # type: ignore[union-attr]
    with pytest.raises(WorldError, match="no world named 'cartpol'; did you mean 'cartpole'"):
        fed_context(tmp_path, "feed.world=cartpol")


def test_killed_trade_lesson_goes_on_bit_for_bit_while_the_spool_grows(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    push_market(server, range(12))
    rows = "lessons.trade.batch=4"
    learner, batches = trade_learner(fed_context(tmp_path, rows))
    for step in range(4):
        learner.update(batches.make(step), step)
    first, batches = trade_learner(fed_context(tmp_path, rows))
    for step in range(2):
        first.update(batches.make(step), step)
    saved = {name: x.clone() for name, x in first.agent.state_dict().items()}, first.state_dict()
    push_market(server, range(12, 15), name="two")
    again, batches = trade_learner(fed_context(tmp_path, rows))
    again.agent.load_state_dict(saved[0])
    again.load_state_dict(saved[1])
    for step in range(2, 4):
        again.update(batches.make(step), step)
    assert not torch.equal(learner.agent.state_dict()["heads.trade.lasting"], saved[0]["heads.trade.lasting"])
    for (name, one), other in zip(learner.agent.state_dict().items(), again.agent.state_dict().values(), strict=True):
        assert torch.equal(one, other), name


def test_the_newest_checkpoint_of_a_run_acts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_command, "LOOK_S", -1.0)
    agent, start = trader(), tmp_path / "run" / "start"
    agent.save_pretrained(start)
    policy = feed_command.newest_actors(start)(("trade",))
    senses, first = RULES.observe(RULES.initial(np.arange(5))), np.ones(5, bool)

    def wanted() -> np.ndarray:
        return Actor(agent, 5, effectors=["trade"], trunk=False)(senses, first)["trade"]

    in_the_middle = feed_command.newest_actors(start)(("trade",))(senses, ~first)["trade"]
    answers = [policy(senses, first)["trade"]]
    np.testing.assert_array_equal(in_the_middle, answers[0], "as after a kill of the feed: it remembers nothing")
    np.testing.assert_array_equal(answers[0], wanted())
    for number in (1, 2):
        with torch.no_grad():
            agent.heads["trade"].read[-1].bias += torch.tensor([1.0, -1.0])
        save(tmp_path / "run" / "checkpoints" / f"gen-{number:08d}", {"agent": agent.state_dict()})
        answers.append(policy(senses, first)["trade"])
        np.testing.assert_array_equal(answers[-1], wanted())
    assert not np.array_equal(answers[1], answers[0])
    assert not np.array_equal(answers[2], answers[1])
    broken = tmp_path / "run" / "checkpoints" / "gen-00000003"
    broken.mkdir()
    np.testing.assert_array_equal(policy(senses, first)["trade"], answers[2], "a damaged one leaves the one before")


def push_room(server: Any, episodes: int, moments: int = 20) -> list[np.ndarray]:
    """A square that moves to the right, and the pictures of each episode."""
    seen = []
    with client(server, "webcam", world="room") as feed:
        for episode in range(episodes):
            for at in range(moments):
                sight = np.full((64, 64, 3), 10 * episode, np.uint8)
                sight[20:30, (2 * at) % 50 : (2 * at) % 50 + 10] = 255
                feed.push([Row(0, Moment(at / 10, {"sight": sight}, first=at == 0), Action())])
                seen.append(sight)
        feed.push([Row(0, Moment(0.0, {"sight": sight}, first=True), Action())])
    return [np.stack(seen[at : at + moments]) for at in range(0, len(seen), moments)]


def test_a_room_elsewhere_is_watched_as_a_session_is(serve: Serve, tmp_path: Path) -> None:
    shown = push_room(serve(), 3)
    context = fed_context(tmp_path)
    watch = next(one for one in reflex_lessons(context) if one.name == "watch")
    batches = watch.make_batches(tiny_agent(), context, 48)
    assert not batches.prefetch
    for update, episode in ((1, 0), (15, 0), (17, 1), (33, 2)):
        batch = batches.make(update)
        assert batch["first"].sum() == len(batch["first"]), "each row begins once, where its window does"
        for row in batch["senses"]["sight"].numpy():
            starts = [at for at in range(5) if np.array_equal(row, shown[episode][at : at + foresee.TICKS])]
            assert len(starts) == 1, update
    again = watch.make_batches(tiny_agent(), fed_context(tmp_path), 48).make(17)
    assert torch.equal(again["senses"]["sight"], batches.make(17)["senses"]["sight"])
    assert set(batches.make(2)["senses"]) > {"sight", "sound"}, "every other batch is the nursery's"
    assert map_tensors(batches.make(17), lambda x: x)["valid"].all()


def test_the_picture_is_drawn_from_its_table(tmp_path: Path) -> None:
    market, table = docs_script("market"), json.loads((DOCS / "market.json").read_text(encoding="utf-8"))
    picture = (DOCS / "market.svg").read_text(encoding="utf-8")
    assert market.draw(table) == picture, "python docs/market.py --draw docs/market.json"
    assert len(picture) < 60_000
    assert "](market.svg)" in (DOCS / "market.md").read_text(encoding="utf-8")
    page = " ".join((DOCS / "market.md").read_text(encoding="utf-8").split())
    for line in market.tell(table).splitlines():
        for number in re.findall(r"[+-]\d+\.\d+", line):
            assert number in page, f"the page does not say: {line}"
    assert len([kill for kill in table["kills"] if not kill[1]]) >= 3


def film(path: Path) -> Path:
    """A bright square that swings over a grey wall, 30 frames a second."""
    import cv2

    writer = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), 30, (160, 120))
    for at in range(1800):
        frame = np.full((120, 160, 3), 70, np.uint8)
        x = int(70 + 45 * np.sin(at / 6))
        frame[45:75, x - 15 : x + 15] = 230
        writer.write(frame)
    writer.release()
    return path


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_camera_of_another_process_teaches_to_foresee(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    command = [sys.executable, str(DOCS / "feed_webcam.py"), f"127.0.0.1:{server.port}", str(server.token_file), "300"]
    with subprocess.Popen([*command, str(film(tmp_path / "film.mp4")), "20"]) as camera:
        context = fed_context(tmp_path, "feed.world=room", "lessons.watch.learning_rate=1e-2", "lessons.watch.batch=16")
        watch = next(one for one in reflex_lessons(context) if one.name == "watch")
        torch.manual_seed(0)
        agent = tiny_agent()
        reflex_parts.admit(agent)
        agent.config.stages = ["reflex"]
        learner, batches = watch.make_learner(agent, context), watch.make_batches(agent, context, 2 * STEPS)
        learner.steps = STEPS
        learner.begin(0)
        later = [foresee.session_rows(context, update * foresee.FED_AGAIN, 16) for update in (10, 11)]

        def error() -> float:
            """Relative to predicting no change, on episodes after those of the lesson."""
            with torch.no_grad():
                return float(np.mean([float(prediction_loss(agent, batch)[1]["next_sight"]) for batch in later]))

        untaught = error()
        for step in range(STEPS):
            learner.update(batches.make(2 * step + 1), step)
        taught = error()
        camera.kill()
    print(untaught, taught)
    assert untaught > 0.95
    assert taught < 0.9


def test_a_population_lives_on_the_paths_of_a_feed(serve: Serve, tmp_path: Path) -> None:
    push_market(serve(), range(8))
    sets = ["learner=population", "options.members=6", "options.episodes=8", "options.tax=0.4"]
    context = fed_context(tmp_path, *(f"lessons.trade.{one}" for one in sets))
    learner = lesson.lesson(context).make_learner(trader(), context)
    assert isinstance(learner, EvolutionLearner)
    fed = lesson.fed_market(context, 0, 8)
    assert fed is not None
    here, rules = fed["market"], MarketRules("shocks")
    rules.costs = Costs(tax=0.4)
    own = VectorWorld(rules, 8)
    own.begin(np.arange(8))
    by_feed, by_rules = (fitness(learner.niche, learner.of, learner.members, world) for world in (here, own))
    np.testing.assert_allclose(np.sort(by_feed, 1), np.sort(by_rules, 1), atol=1e-3)
    assert np.ptp(by_feed, 0).min() > 1e-3
    before = learner.of.read()
    learner.update({}, 0)
    assert not torch.equal(learner.of.read(), before)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_genetic_algorithm_learns_from_a_market_elsewhere_and_its_fittest_trades_there(tmp_path: Path) -> None:
    """It is taken up again after a kill, from what was on the disk."""
    market = docs_script("market")
    market.KILLS = (2,)
    found = market.play(tmp_path, 100_000, "population", until=5)  # more episodes than a slow lesson waits for
    assert len(found["kills"]) == 1
    assert found["steps"][0][0] >= 5
    assert sum(row[2] for row in found["rows"]) > 0, "what to trade was asked and answered"
    members = load_newest(tmp_path / "run" / "checkpoints", None, print)["learner"]["members"]
    assert len(members) == 256
    assert len(members.unique(dim=0)) > 200


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_market_goes_on_while_lesson_and_feed_are_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    market = docs_script("market")
    monkeypatch.setattr(market, "KILLS", (1, 2, 2, 3))
    found = market.play(tmp_path, 100_000, until=4)
    steps = [step for _, _, step in found["kills"]]
    assert [bool(is_feed) for _, is_feed, _ in found["kills"]] == [False, False, True, False]
    assert steps == sorted(steps)
    assert found["steps"][0][0] >= 4, "what was on the disk was gone on from"
    answered = [(at_s, count) for at_s, _, count, *_ in found["rows"]]
    feed_killed_s = found["kills"][2][0]
    assert sum(count for at_s, count in answered if at_s < feed_killed_s) > 0
    assert sum(count for at_s, count in answered if at_s > feed_killed_s) > 0
    numbers = [round(10 * one.moment.time_s) for _, one in stored(tmp_path / "spool") if one.env == 0]
    assert len(numbers) > TICKS
    assert numbers == [at % (TICKS + 1) for at in range(len(numbers))], (
        "each tick once and in order, over the feed's kill"
    )
