"""The head that binds words to things, symmetric episodes, and how both are taught."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("minigrid")

from devmind.acting import rollout
from devmind.agent.agent import Agent
from devmind.agent.taps import Tapped
from devmind.curriculum.examining import examination
from devmind.curriculum.stage import Context
from devmind.errors import MomentError
from devmind.testing import check_learner, tiny_agent
from devmind.worlds.minigrid import LEFT, RIGHT, room
from stages.language import parts
from stages.language.follow import exam, learner, lesson, rooms, symmetries
from stages.language.follow.head import FollowHead, SampledActions
from tests.agent.conftest import shake

LOCAL, PICK_UP = lesson.ROOMS[1:]


@pytest.fixture
def agent() -> Agent:
    agent = tiny_agent()
    parts.admit(agent)
    agent.config.stages = ["reflex", "language"]
    return agent


def colours_and_kinds(board: np.ndarray) -> list[tuple[str, str]]:
    """Colour and kind of each thing in a view [13, 7, 7], by MiniGrid's numbers."""
    return sorted(
        (symmetries.COLOURS[board[11, *at]], kind)
        for kind, plane in symmetries.KINDS.items()
        for at in map(tuple, np.argwhere(board[plane] == 1))
    )


def test_renaming_changes_things_in_the_view_and_in_the_instruction() -> None:
    shown = next(one for seed in range(9) if (one := rooms.demonstrate(LOCAL, seed)) and len(one.choice) > 3)
    colours, kinds = np.array([1, 2, 3, 4, 5, 0]), np.array([2, 0, 1])
    other = symmetries.rename_things(shown, colours, kinds)
    word = {old: symmetries.COLOURS[new] for old, new in zip(symmetries.COLOURS, colours, strict=True)}
    word |= {old: list(symmetries.KINDS)[new] for old, new in zip(symmetries.KINDS, kinds, strict=True)}
    assert other.instruction.split() == [word.get(said, said) for said in shown.instruction.split()]
    assert other.instruction != shown.instruction
    for before, after in zip(shown.board, other.board, strict=True):
        assert colours_and_kinds(after) == sorted((word[c], word[k]) for c, k in colours_and_kinds(before))
    walls = shown.board[:, 2] == 1
    assert walls.any()
    assert (other.board[:, 11][walls] == shown.board[:, 11][walls]).all(), "a wall keeps its colour"
    assert (other.board[:, :11].sum(1) == 1).all()
    back = symmetries.rename_things(other, np.argsort(colours), np.argsort(kinds))
    assert back.instruction == shown.instruction
    np.testing.assert_array_equal(back.board, shown.board)


def test_mirrored_steps_in_the_mirrored_room_give_the_mirrored_view() -> None:
    """Swapping left and right keeps an episode right: the views that follow agree."""
    shown = rooms.demonstrate(LOCAL, 4)
    assert shown is not None
    said = replace(shown, instruction="pick up the ball on your left")
    other = symmetries.mirror_demonstration(said)
    assert other.instruction == "pick up the ball on your right"
    assert (other.board == shown.board[..., ::-1]).all()
    swap = {LEFT: RIGHT, RIGHT: LEFT}
    assert other.choice.tolist() == [swap.get(one, one) for one in shown.choice.tolist()]
    twice = symmetries.mirror_demonstration(other)
    assert twice.instruction == said.instruction
    np.testing.assert_array_equal(twice.board, said.board)


def test_the_bots_step_is_right_in_the_renamed_episode_too() -> None:
    """The things of a real room are repainted as in the view, and its bot then takes the same steps."""
    from minigrid.core.world_object import Ball, Box, Key

    made = {"key": Key, "ball": Ball, "box": Box}
    colours, kinds = np.array([3, 5, 0, 1, 2, 4]), np.array([1, 2, 0])
    names, words = list(symmetries.KINDS), symmetries.COLOURS
    same = 0
    for seed in range(12):
        shown = rooms.demonstrate(LOCAL, seed)
        if shown is None:
            continue
        world = room(LOCAL)
        world.reset(seed=seed)
        env = world.env.unwrapped
        for x, y in np.ndindex(env.width, env.height):
            thing = env.grid.get(x, y)
            if thing is not None and thing.type in made:
                kind, colour = names[kinds[names.index(thing.type)]], words[colours[words.index(thing.color)]]
                env.grid.set(x, y, made[kind](colour))
                env.grid.get(x, y).init_pos = env.grid.get(x, y).cur_pos = (x, y)
        wanted = env.instrs.desc
        wanted.type, wanted.color = (
            names[kinds[names.index(wanted.type)]], words[colours[words.index(wanted.color)]]
        )  # fmt: skip
        env.instrs.reset_verifier(env)
        bot, other = rooms.Bot(world), symmetries.rename_things(shown, colours, kinds)
        np.testing.assert_array_equal(view_of(env), other.board[0])
        for step in other.choice.tolist():
            assert bot.choose() == step
            bot.done = step
            world.step({"choose": step})
        same += 1
    assert same > 6


def view_of(env) -> np.ndarray:
    from devmind.worlds.minigrid import planes

    return planes(env.gen_obs()["image"])


def test_the_loss_does_not_depend_on_the_grouping_of_episodes(
    agent: Agent, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch, found = lesson.lesson_batch(context, 0, 7), []
    ticks, written = batch["valid"].sum(1), (batch["senses"][parts.TEXT] >= 0).sum((1, 2))
    for together in (1, 3, 7):
        monkeypatch.setattr(learner, "TOGETHER", together)
        some = learner.groups(agent, batch)
        assert max(len(part["valid"]) for part in some) == together
        assert sorted(n for part in some for n in part["valid"].sum(1).tolist()) == sorted(ticks.tolist())
        agent.zero_grad()
        loss, _ = lesson.loss(agent, batch)
        loss.backward()
        gradient = torch.cat([p.grad.flatten() for p in agent.parameters() if p.grad is not None])
        found.append((loss.detach(), gradient))
        computed = sum(part["valid"].numel() for part in some)
        assert computed == int(ticks.sum()) if together == 1 else computed >= int(ticks.sum())
    for loss, gradient in found[1:]:
        torch.testing.assert_close(loss, found[0][0])
        torch.testing.assert_close(gradient, found[0][1], atol=1e-5, rtol=1e-4)
    monkeypatch.setattr(learner, "TOGETHER", 1)
    tokens = [int((part["senses"][parts.TEXT] >= 0).sum()) for part in learner.groups(agent, batch)]
    assert sorted(tokens) == sorted(written.tolist())
    assert tokens == sorted(tokens), "shorter ones beside shorter ones"


def test_the_head_needs_both_the_word_and_the_thing() -> None:
    """The same view is answered by the words and the same page by the place of the thing: neither alone is enough."""
    torch.manual_seed(0)
    width, words = 32, torch.eye(32)[:2] * 6
    agent = tiny_agent()
    parts.admit(agent)
    head = agent.head(parts.FOLLOW)
    assert isinstance(head, FollowHead)
    inlet = replace(head.inlet, width=width)
    head = FollowHead(inlet, 2)
    optimizer = torch.optim.AdamW(head.parameters(), lr=3e-3)
    rng = np.random.default_rng(0)

    def moments(n: int) -> tuple[Tapped, torch.Tensor]:
        """A red and a green ball, one in the left half and one in the right; the instruction names one."""
        planes, said, side = np.zeros((n, 16, 7, 7), np.float32), rng.integers(0, 2, n), rng.integers(0, 2, n)
        planes[:, 1] = 1
        for row in range(n):
            for colour in (0, 1):
                left = colour == side[row]
                at = rng.integers(0, 7), rng.integers(0, 3) + (0 if left else 4)
                planes[row, 1, *at], planes[row, 6, *at], planes[row, 11, *at] = 0, 1, colour
        tokens = torch.zeros(n, 8 + 1 + 3, width)
        tokens[:, 10] = words[said]
        wanted = (said == side).astype(np.int64)
        return Tapped(
            tokens, torch.ones(n, 12, dtype=torch.bool), {"planes": torch.from_numpy(planes)}
        ), torch.from_numpy(wanted)

    for _ in range(80):
        tapped, wanted = moments(48)
        loss = head.respond(tapped).loss(wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    tapped, wanted = moments(256)
    assert (head.respond(tapped).mode() == wanted).float().mean() > 0.95
    deaf = Tapped(tapped.tokens * 0, tapped.present, tapped.maps)
    assert (head.respond(deaf).mode() == wanted).float().mean() < 0.65
    assert torch.isfinite(head.respond(Tapped(tapped.tokens[:, :9], tapped.present[:, :9], tapped.maps)).logits).all()
    blind = head.respond(Tapped(tapped.tokens, tapped.present)).logits
    assert len(blind.unique(dim=0)) == 2, "without a view it goes by what is said alone"


def test_actions_are_drawn_by_the_heads_probabilities() -> None:
    shares, n = torch.tensor([0.7, 0.2, 0.1]), 20_000
    logits, same, numbers = shares.log().expand(n, 3), torch.full((n,), 12_345), torch.arange(n)
    for drawn in (SampledActions(logits, seen=numbers, tick=same), SampledActions(logits, seen=same, tick=numbers)):
        counts = torch.bincount(drawn.answer(), minlength=3) / n
        torch.testing.assert_close(counts, shares, atol=0.015, rtol=0)
        after_one = drawn.answer()[1:][drawn.answer()[:-1] == 1]
        assert (after_one == 1).float().mean() == pytest.approx(0.2, abs=0.03), "an action does not depend on the last"
        assert (drawn.mode() == 0).all()


def test_drawn_actions_do_not_depend_on_other_rows_and_a_replay_repeats_them(agent: Agent) -> None:
    shake(agent)
    seeds = np.arange(4)

    def acted(rows: list[int]) -> np.ndarray:
        worlds = rooms.rooms_with_instructions([room(LOCAL) for _ in rows], seeds[rows])
        return np.stack([tick.actions["choose"] for tick in rollout(rooms.following(agent), worlds, 12)], 1)

    together = acted([0, 1, 2, 3])
    assert (acted([0, 1, 2, 3]) == together).all()
    assert (np.concatenate([acted([row]) for row in range(4)]) == together).all()
    assert len(np.unique(together, axis=0)) == 4


def test_a_view_that_does_not_change_is_left_after_some_ticks(agent: Agent) -> None:
    """A likeliest action that changes nothing, such as a step against a wall, would be repeated for ever."""
    head: Any = agent.head(parts.FOLLOW)
    with torch.no_grad():
        last = head.choose[-1]
        last.weight.zero_()
        last.bias.copy_(torch.tensor([1.0, 0, 0, 0, 0, 0, 0]))
    worlds = rooms.rooms_with_instructions([room(LOCAL)], np.array([0]))
    stays = next(rollout(lambda senses, first: {"choose": np.array([6])}, worlds, 1)).senses
    actor, likeliest = rooms.following(agent), rooms.Likeliest(agent)
    first = [np.array([tick == 0]) for tick in range(16)]
    assert len({int(actor(stays, one)["choose"][0]) for one in first}) > 1
    assert {int(likeliest(stays, one)["choose"][0]) for one in first} == {0}


def test_a_view_of_another_size_is_refused(agent: Agent) -> None:
    head = agent.head(parts.FOLLOW)
    tokens = torch.zeros(1, 12, agent.config.width)
    with pytest.raises(MomentError, match=r"13 planes of 7x7; got 16 of 5x5"):
        head.respond(Tapped(tokens, torch.ones(1, 12, dtype=torch.bool), {"planes": torch.zeros(1, 16, 5, 5)}))


def test_the_follow_head_acts_only_where_it_is_chosen(agent: Agent) -> None:
    assert parts.FOLLOW not in agent.heads_of(parts.CHOOSE)
    actor = rooms.following(agent)
    boards = np.zeros((2, 13, 7, 7), np.int8)
    with examination(agent):
        actor({"board": boards, "text": ["go to the red ball"] * 2}, np.ones(2, bool))
    assert actor.counts == {parts.CHOOSE: {parts.FOLLOW: 2}}


def test_rooms_take_turns_and_the_agent_acts_in_some(context: Context, agent: Agent) -> None:
    batch = lesson.lesson_batch(context, 0, 6)
    said = ["".join(map(chr, page[page >= 0][1:].tolist())) for page in batch["senses"]["text"][:, 0]]
    assert [one.startswith("pick up") for one in said] == [False, False, True] * 2
    plain = lesson.mixed_batch(agent, context, 0, 6, 0.0, plain=True)
    assert not torch.equal(plain["senses"]["board"], batch["senses"]["board"])
    acted = []

    def noted(agent: Agent, context: Context, name: str, update: int, rows: int) -> list[rooms.Demonstration]:
        acted.append((name, rows))
        return []

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lesson, "own_episodes", noted)
        for update in (0, 4, 5, 6):
            lesson.dagger_batch(agent, context, update, 10, 10)
    assert acted == [(lesson.ROOMS[1], 2), (lesson.ROOMS[2], 2), (lesson.ROOMS[0], 2)]


def test_the_lessons_cached_input_equals_the_heads_input_in_an_episode(context: Context, agent: Agent) -> None:
    """Its loss on cached Moments is the lesson's own loss; no Moment is lost or repeated."""
    batch = lesson.lesson_batch(context, 3, 8)
    tapped, choice = learner.moments_of(agent, batch)
    assert len(choice) == int(batch["valid"].sum())
    head = agent.head(parts.FOLLOW)
    assert head.respond(tapped).loss(choice).item() == pytest.approx(lesson.loss(agent, batch)[0].item(), rel=1e-4)
    order = torch.Generator().manual_seed(0)
    longer = learner.moments_of(agent, lesson.lesson_batch(context, 4, 8))
    both, wanted = learner.draw_moments([(tapped, choice), longer], 10_000, order)
    assert len(wanted) == len(choice) + len(longer[1])
    assert head.respond(both).loss(wanted).isfinite()
    assert len(learner.draw_moments([(tapped, choice), longer], 7, order)[1]) == 7


def test_the_lesson_changes_only_its_head_and_resumes(
    context: Context, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner, "STEPS", 2)
    monkeypatch.setattr(learner, "KEPT", 2)
    check_learner(lesson.lesson(context), agent, context)


def test_a_misleading_instruction_is_never_the_rooms_own(monkeypatch: pytest.MonkeyPatch) -> None:
    seeds, heard = np.arange(2_000_000, 2_000_006), []

    def deaf(senses, first):
        heard.append(list(senses["text"]))
        return {"choose": np.zeros(len(first), np.int64)}

    monkeypatch.setattr(
        exam, "returns", lambda where, seeds, policy, said: np.zeros(len(seeds)) + (heard.append(said) or 0)
    )
    exam.returns_with_other_words(seeds, deaf, LOCAL)
    mine = rooms.missions(LOCAL, seeds)
    assert len(set(mine)) > 2
    assert all(one != own and one in mine for one, own in zip(heard[0], mine, strict=True))
    exam.returns_with_other_words(seeds, deaf)
    assert heard[1] == [exam.ELSEWHERE] * len(seeds)
    exam.returns_without_words(seeds, deaf)
    assert heard[2] == [rooms.HIDDEN] * len(seeds)
