"""A lesson of the reasoning stage learns from carts that another process pushes; a killed one goes on bit for bit."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch

from devmind.acting import rollout
from devmind.acting.carts import balance_ticks
from devmind.config import load
from devmind.curriculum.examining import examination
from devmind.curriculum.stage import Context
from devmind.curriculum.start import make_context
from devmind.errors import ConfigError, FeedError, WorldError
from devmind.feed import reader, spool
from devmind.feed.client import Pushing
from devmind.feed.reader import PIECE, Episodes, Source
from devmind.feed.schema import Row
from devmind.feed.spool import Spool
from devmind.moment import Action, Moment
from devmind.seeding import exam_seeds, lesson_seeds, numpy_rng
from devmind.testing import tiny_agent
from devmind.worlds.restarting import Restarting
from stages.reasoning import parts
from stages.reasoning.values import exam
from stages.reasoning.values.lesson import CARTPOLE, DRILLS, ValueLearner
from tests.feed.conftest import Serve, client, connection, row

SIMULATOR = Path(__file__).parents[2] / "docs" / "feed_carts.py"


def fed_context(folder: Path, place: str, *sets: str) -> Context:
    config = load("nursery", {}, ["size=tiny", f"feed.place={place}", "feed.world=cartpole", *sets])
    return make_context(config, folder / "out", None, ())


def cart_learner(context: Context, length: int, **changes: Any) -> ValueLearner:
    torch.manual_seed(0)
    agent = tiny_agent()
    parts.admit(agent)
    agent.config.stages = ["reasoning"]
    learner = ValueLearner(agent, context, {CARTPOLE: replace(DRILLS[CARTPOLE], **changes)}, learning_rate=1e-3)
    learner.steps = length
    learner.begin(0)
    return learner


def push_carts(server: Any, episodes: int) -> None:
    """Some whole episodes of one cart."""
    rng = np.random.default_rng(1)
    with client(server, world="cartpole") as feed:
        cart = Pushing(gymnasium.make("CartPole-v1"), feed)
        for number in range(episodes):
            cart.reset(seed=number)
            while not any(cart.step(int(rng.integers(2)))[2:4]):
                pass


def test_killed_lesson_goes_on_bit_for_bit_while_the_spool_grows(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    push_carts(server, 12)
    context = fed_context(tmp_path, str(tmp_path / "spool"))
    small = {"rows": 3, "ticks": 12, "steps": 3}
    whole = cart_learner(context, 6, **small)
    for step in range(6):
        whole.update({"drill": CARTPOLE}, step)
    first = cart_learner(context, 6, **small)
    for step in range(3):
        first.update({"drill": CARTPOLE}, step)
    saved = {name: x.clone() for name, x in first.agent.state_dict().items()}, first.state_dict()
    push_carts(server, 5)
    again = cart_learner(fed_context(tmp_path, str(tmp_path / "spool")), 6, **small)
    again.agent.load_state_dict(saved[0])
    again.load_state_dict(saved[1])
    for step in range(3, 6):
        again.update({"drill": CARTPOLE}, step)
    assert again.lasting[CARTPOLE].state().episode.max() >= 3
    for (name, one), other in zip(whole.agent.state_dict().items(), again.agent.state_dict().values(), strict=True):
        assert torch.equal(one, other), name


def test_remote_reader_sees_what_the_folder_holds(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    push_carts(server, 4)
    here = Episodes(Source(str(tmp_path / "spool")), "cartpole")
    there = Episodes(Source(f"127.0.0.1:{server.port}", server.token_file), "cartpole")
    for number in range(4):
        one, other = here.get(number), there.get(number)
        assert np.array_equal(one.senses["body"], other.senses["body"])
        assert np.array_equal(one.effectors["push"], other.effectors["push"])
        assert one.terminal
        assert one.reward[0] == 0
        assert (one.reward[1:] == 1).all()
    assert "lesson" in connection(server).ask("status")["readers"]
    with pytest.raises(FeedError, match="needs its token"):
        Source("127.0.0.1:1")
    with pytest.raises(FeedError, match="is the folder of a spool, or HOST:PORT"):
        Source("nowhere")


def test_fed_rows_are_what_the_environment_gave(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    push_carts(server, 6)
    world = fed_context(tmp_path, str(tmp_path / "spool")).make_world("cartpole", "", lesson_seeds(2, 0))
    world = Restarting(world, numpy_rng(0))
    real, rng = gymnasium.make("CartPole-v1"), np.random.default_rng(1)
    wanted = []
    for number in range(6):
        wanted.append([real.reset(seed=number)[0]])
        ended = False
        while not ended:
            observation, _, terminated, truncated, _ = real.step(int(rng.integers(2)))
            wanted[-1].append(observation)
            ended = terminated or truncated
    at, tick, following = [0, 1], [0, 0], 2
    for transition in rollout(lambda senses, first: {}, world, 30):
        for lane in range(2):
            assert np.array_equal(transition.senses["body"][lane], wanted[at[lane]][tick[lane]])
            assert transition.reward[lane] == 1
            tick[lane] += 1
            assert np.array_equal(transition.led_to["body"][lane], wanted[at[lane]][tick[lane]])
            assert transition.terminated[lane] == (tick[lane] == len(wanted[at[lane]]) - 1)
            if transition.terminated[lane]:
                at[lane], tick[lane], following = following, 0, following + 1
        if following >= 5:
            break


def test_every_episode_is_taken_as_often_as_the_ratio_allows_and_no_oftener(
    serve: Serve, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "AGAIN", 4)
    server = serve()
    push_carts(server, 10)
    source = Source(str(tmp_path / "spool"))
    once = Episodes(source, "cartpole")
    plain = [once.get(number) for number in range(10)]
    thrice = Episodes(source, "cartpole", samples=3)
    wanted = [*(0, 1, 2, 3) * 3, *(4, 5, 6, 7) * 3, 8, 9]
    for number, at in enumerate(wanted):
        thrice.let_go(number - 2)
        assert np.array_equal(thrice.get(number).senses["body"], plain[at].senses["body"])
    assert len(thrice._finished) <= 10 - 4
    thrice.patience_s = 0.2
    with pytest.raises(FeedError, match="has brought 10 episodes"):
        thrice.get(len(wanted))  # the limit: not the same again before others have come
    with pytest.raises(FeedError, match="was let go of"):
        thrice.get(0)
    fed = fed_context(tmp_path, str(tmp_path / "spool"), "feed.samples_per_insert=3")
    world = fed.make_world("cartpole", "", lesson_seeds(5, 0))
    assert np.array_equal(world.observe()["body"][0], world.observe()["body"][4])


def test_lesson_that_acts_itself_and_foreign_senses_are_refused(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    push_carts(server, 3)
    context = fed_context(tmp_path, str(tmp_path / "spool"))
    world = context.make_world("cartpole", "", lesson_seeds(2, 0))
    world.step({})
    with pytest.raises(WorldError, match=r"acts in 'cartpole' by itself \(`push`\), and the feed brings"):  # noqa: PT012
        for push in (0, 1):
            world.step({"push": np.full(2, push)})
    assert type(context.make_world("cartpole", "", exam_seeds(2, 0)).rules).__name__ == "CartPoleRules"
    with client(server, "other", world="market") as feed:
        feed.push([row(0), row(1), Row(0, Moment(9.0, row(2).moment.senses, last=True), Action())])
    odd = fed_context(tmp_path, str(tmp_path / "spool"), "feed.world=market").make_world(
        "market", "trend", lesson_seeds(1, 0)
    )
    with pytest.raises(WorldError, match="the feed brings"):
        odd.observe()


def test_world_is_read_from_the_spool_or_must_be_said(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    with pytest.raises(ConfigError, match="does not say whose experience it is"):
        fed_context(tmp_path, str(tmp_path / "spool"), "feed.world=null")
    push_carts(server, 2)
    context = fed_context(tmp_path, str(tmp_path / "spool"), "feed.world=null")
    assert type(context.make_world("cartpole", "", lesson_seeds(1, 0)).rules).__name__ == "FedRules"


def test_what_never_ends_or_breaks_off_is_cut(tmp_path: Path) -> None:
    from devmind.feed.schema import Layout, encode

    ticks = [row(number) for number in range(PIECE + 10)]
    broken = [row(0), *[row(number) for number in (1, 2)]]
    layout = Layout("x")
    for one in ticks:
        layout.add(one)
    log = Spool(tmp_path / "spool")
    for sequence, rows in enumerate(([row(0)], ticks, broken, broken), 1):
        log.append([spool.Frame("one", sequence, len(rows), encode(layout.batch(rows)))])
    log.close()
    episodes = Episodes(Source(str(tmp_path / "spool")), "x")
    assert [len(episodes.get(number)) for number in range(3)] == [PIECE + 1, 10, 3]
    assert episodes.get(1).senses["body"][0, 0] == PIECE, "the next piece begins where the one before ended"
    assert not episodes.get(2).terminal
    episodes.patience_s = 0.2
    with pytest.raises(FeedError, match=r"has brought 3 episodes of 'x', and none in 0 s"):
        episodes.get(3)
    episodes.let_go(2)
    with pytest.raises(FeedError, match="was let go of"):
        episodes.get(0)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_carts_of_another_process_teach_balancing(serve: Serve, tmp_path: Path) -> None:
    server = serve()
    command = [sys.executable, str(SIMULATOR), f"127.0.0.1:{server.port}", str(server.token_file), "6000"]
    with subprocess.Popen(command) as simulator:
        learner = cart_learner(fed_context(tmp_path, str(tmp_path / "spool")), 120)

        def score() -> float:
            with examination(learner.agent):
                policy = exam._policy(learner.agent, CARTPOLE, parts.PUSHES)
                return float(balance_ticks(exam_seeds(32, 0, "fed"), policy).mean())

        untaught = score()
        for step in range(120):
            learner.update({"drill": CARTPOLE}, step)
        taught = score()
        simulator.kill()
    print(untaught, taught)
    assert untaught < 60
    assert taught > 120
