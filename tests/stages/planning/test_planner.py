"""The planner: the laws of heads, and a plan that is kept, replaced when due, and chosen by a critic."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from devmind import make_world
from devmind.acting import Actor, rollout
from devmind.agent.agent import Agent
from devmind.agent.rows import initial_carry
from devmind.algorithms.diffusion import HybridPipeline
from devmind.errors import ConfigError
from devmind.seeding import exam_seeds, numpy_rng
from devmind.testing import check_head, tiny_agent
from devmind.testing.laws import ATOL
from stages.planning import parts
from stages.planning.judge import draft
from stages.planning.parts import HORIZON, ROUTE, WALK
from stages.planning.places import middles, square, unscale_places
from stages.planning.planner import WARM, PlannerHead, interpolate_plan
from stages.planning.route import trips

pytest.importorskip("ogbench")
FOLLOW = 48


@pytest.fixture
def agent() -> Agent:
    agent = tiny_agent()
    parts.admit(agent)
    # An untaught agent leaves its plan and does not get on.
    head_of(agent).surprise, head_of(agent).patience = np.inf, 10**6
    return agent.eval()


def head_of(agent: Agent) -> PlannerHead:
    head: Any = agent.head(ROUTE)
    return head


def lived(agent: Agent, seeds: np.ndarray, ticks: int) -> tuple[list[dict[str, Tensor]], np.ndarray]:
    """The state kept after each tick, and the commands [ticks, N, 2]."""
    actor, kept, done = Actor(agent, len(seeds), effectors=[WALK]), [], []
    for tick in rollout(actor, make_world("pointmaze", "medium", seeds), ticks):
        kept.append({name: value.clone() for name, value in actor.state.carry[f"head.{ROUTE}"].items()})
        done.append(np.asarray(tick.actions[WALK]))
    return kept, np.stack(done)


def read_of(agent: Agent) -> Any:
    """The planner's input in the first tick of two episodes."""
    actor = Actor(agent, 2, effectors=[WALK])
    for _ in rollout(actor, make_world("pointmaze", "medium", [0, 1]), 1):
        assert actor.output is not None
    return actor.output.outputs[ROUTE]  # type: ignore[union-attr]


def test_the_planner_keeps_the_laws_of_heads_and_trains_every_part(agent: Agent) -> None:
    g = torch.Generator().manual_seed(1)
    target = {
        "plan": torch.randn(3, 2, HORIZON, 2, generator=g),
        "symbols": torch.randint(5, (3, 2, HORIZON), generator=g),
        "ahead": torch.randn(3, 2, 2, generator=g),
        "walk": torch.rand(3, 2, 2, generator=g),
        "pushed": torch.randn(3, 2, 2, generator=g),
        "moved": torch.randn(3, 2, 2, generator=g),
        "at": torch.rand(3, 2, 2, generator=g),
        "wall": torch.rand(3, 2, 4, generator=g) < 0.5,
        "been": torch.rand(3, 2, 2, generator=g),
        "maze": torch.eye(4)[torch.zeros(3, 2, dtype=torch.int64)],
    }
    check_head(head_of(agent), target)


def test_a_plan_starts_at_the_place_ends_at_the_goal_and_is_kept_until_due(agent: Agent) -> None:
    seeds = np.arange(3)
    kept, _ = lived(agent, seeds, FOLLOW + 2)
    world = make_world("pointmaze", "medium", seeds)
    senses = world.observe()
    np.testing.assert_allclose(kept[0]["plan"][:, 0], senses["body"], atol=1e-5)
    np.testing.assert_allclose(kept[0]["plan"][:, -1], senses["goal"], atol=1e-5)
    ages = [int(one["age"][0]) for one in kept]
    assert ages == [*range(1, FOLLOW + 1), 1, 2]
    assert torch.equal(kept[FOLLOW - 1]["plan"], kept[0]["plan"])
    assert not torch.equal(kept[FOLLOW]["plan"], kept[0]["plan"])


def test_a_row_acts_the_same_alone_and_continues_from_its_state(agent: Agent) -> None:
    seeds = np.arange(3)
    _, together = lived(agent, seeds, FOLLOW + 3)
    _, alone = lived(agent, seeds[1:2], FOLLOW + 3)
    np.testing.assert_allclose(together[:, 1:2], alone, atol=1e-4)
    actor, other = (Actor(agent, 3, effectors=[WALK]) for _ in range(2))
    world = make_world("pointmaze", "medium", seeds)
    for _ in rollout(actor, world, 5):
        pass
    other.state, twin = actor.state.clone(), make_world("pointmaze", "medium", seeds)
    twin.restore(world.state())
    none = np.zeros(3, bool)
    one, two = (
        [t.actions[WALK] for t in rollout(who, where, 4, none)] for who, where in ((actor, world), (other, twin))
    )
    np.testing.assert_array_equal(one, two)


def test_a_new_episode_starts_without_the_old_plan(agent: Agent) -> None:
    actor = Actor(agent, 2, effectors=[WALK])
    for _ in rollout(actor, make_world("pointmaze", "medium", [0, 1]), 3):
        pass
    first = np.array([False, True])
    world = make_world("pointmaze", "medium", [0, 6])
    for _ in rollout(actor, world, 1, first):
        pass
    age = actor.state.carry[f"head.{ROUTE}"]["age"]
    assert age.tolist() == [4, 1]


def test_each_plan_of_a_row_uses_the_noise_of_its_number(agent: Agent) -> None:
    head, read = head_of(agent), read_of(agent)
    first, again, second = (head.search(read, number=number) for number in (0, 0, 1))
    assert torch.equal(first.plans, again.plans)
    assert (first.plans - second.plans).abs().max() > 0.01
    kept, _ = lived(agent, np.arange(2), FOLLOW + 1)
    assert [one["made"].tolist() for one in (kept[0], kept[FOLLOW - 1], kept[FOLLOW])] == [[1, 1], [1, 1], [2, 2]]


def test_rows_with_different_numbers_are_planned_together_with_their_own_noise(agent: Agent) -> None:
    head, read = head_of(agent), read_of(agent)
    both = head.search(read, number=torch.tensor([3, 1]))
    for row, number in enumerate((3, 1)):
        alone = head.search(read.rows(torch.tensor([row])), number=number)
        torch.testing.assert_close(both.plans[row], alone.plans[0], atol=ATOL, rtol=0)
        torch.testing.assert_close(both.marks[row], alone.marks[0], atol=1e-4, rtol=0)
    before, calls = initial_carry(head.carry_spec, 2) | {"made": torch.tensor([3, 1])}, []
    head.search = lambda *args, number, **how: (  # type: ignore[method-assign]
        calls.append(number.tolist()) or PlannerHead.search(head, *args, number=number, **how)
    )
    read.advance(before)
    assert calls == [[3, 1]]
    assert read.carry["made"].tolist() == [4, 2]


def on_a_plan(read: Any, age: int, along: list[float], at: list[float]) -> Tensor:
    """Let `read` follow straight plans [2, H, 2] of some age, on which its place is the point `at`, in strides; it had
    come as far as `along`. Returns the plans.
    """
    points = torch.arange(HORIZON) - torch.tensor(at)[:, None]
    plan = read.place[:, None] + points[..., None] * torch.tensor([0.1, 0.05])
    before = initial_carry(read.head.carry_spec, 2) | {
        "plan": plan, "age": torch.full((2,), age), "made": torch.ones(2, dtype=torch.int64),
        "along": torch.tensor(along), "goal": read.goal, "last": read.place,
    }  # fmt: skip
    read.advance(before)
    return plan


def test_a_due_plan_begins_from_the_rest_of_the_last_one(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    head, read, calls, draw = head_of(agent), read_of(agent), list[dict[str, Any]](), HybridPipeline.__call__

    def noted(self: HybridPipeline, *args: Any, **how: Any) -> Any:
        calls.append(how)
        return draw(self, *args, **how)

    monkeypatch.setattr(HybridPipeline, "__call__", noted)
    head.steps, head.warm_steps = 7, 2
    plan = on_a_plan(read, FOLLOW, [2.0, 3.5], [2.25, 4.0])
    (how,) = calls
    rest = interpolate_plan(plan, torch.arange(HORIZON) + torch.tensor([[2.25], [4.0]]))
    torch.testing.assert_close(unscale_places(how["start"]).unflatten(0, (2, -1))[:, 0], rest)
    assert (how["begin"], how["steps"]) == (WARM, head.warm_steps * round(1 / WARM))
    assert read.carry["age"].tolist() == [1, 1]
    assert read.carry["along"].tolist() == [0.0, 0.0], "the new plan is at its beginning"
    read.advance(initial_carry(head.carry_spec, 2))
    assert (calls[1]["start"], calls[1]["steps"]) == (None, head.steps)


def test_progress_along_a_plan_is_never_taken_back(agent: Agent) -> None:
    read = read_of(agent)
    on_a_plan(read, 3, [2.0, 3.0], [2.5, 2.5])
    assert read.carry["along"].tolist() == [2.5, 3.0]
    assert read.carry["age"].tolist() == [4, 4]


def test_the_first_candidate_draws_the_likeliest_symbols(agent: Agent) -> None:
    noise, luck = head_of(agent)._chance(3, None, 0, torch.device("cpu"))
    assert not luck[0].any()
    assert luck[1:].any((1, 2)).all()
    assert noise[0].any()


def test_an_agent_off_its_plan_replans_but_at_most_once_a_stride(agent: Agent) -> None:
    head_of(agent).surprise = 0.0
    kept, _ = lived(agent, np.arange(2), 40)
    assert [int(one["age"][0]) for one in kept[:34]] == [*range(1, 17), *range(1, 17), 1, 2]
    head_of(agent).surprise = 100.0
    kept, _ = lived(agent, np.arange(2), 40)
    assert int(kept[-1]["age"][0]) == 40


def test_silenced_inputs_are_not_read(agent: Agent) -> None:
    head, read = head_of(agent), read_of(agent)
    head.silenced = frozenset({"symbols"})
    assert (head.search(read).symbols == len(parts.WORDS)).all()
    head.silenced = frozenset({"trunk"})
    deaf = read_of(agent)
    assert not deaf.present[:, 1:-3].any()  # the first is the code of the pair of cells
    assert deaf.present[:, -3:].all()


def test_there_is_no_plan_without_a_goal(agent: Agent) -> None:
    actor = Actor(agent, 2, effectors=[WALK], without=["goal"])
    for tick in rollout(actor, make_world("pointmaze", "medium", [0, 1]), 2):
        assert tick.actions[WALK].shape == (2, 2)
    assert actor.state.carry[f"head.{ROUTE}"]["age"].tolist() == [0, 0]


@pytest.mark.parametrize("sense", ["body", "goal"])
def test_an_agent_without_a_full_position_stands_still_and_keeps_its_plan(agent: Agent, sense: str) -> None:
    """A NaN used to be read as 0, so the agent walked from, or to, the maze's origin."""
    actor, world = Actor(agent, 2, effectors=[WALK]), make_world("pointmaze", "medium", [0, 1])
    senses = world.observe()
    actor(senses, np.ones(2, bool))
    before = {name: value.clone() for name, value in actor.state.carry[f"head.{ROUTE}"].items()}
    broken = np.array(senses[sense])
    broken[1, 1] = np.nan
    walked = actor(senses | {sense: broken}, np.zeros(2, bool))[WALK]
    kept = actor.state.carry[f"head.{ROUTE}"]
    assert walked[0].any()
    assert not walked[1].any()
    assert kept["age"].tolist() == [2, 1]
    for name in ("plan", "last", "goal", "evidence", "along", "none"):
        assert torch.equal(kept[name][1], before[name][1]), name
    assert actor(senses, np.zeros(2, bool))[WALK][1].any(), "it goes on when it is told again"


def test_classifier_free_guidance_is_passed_to_the_denoiser(agent: Agent) -> None:
    head, read = head_of(agent), read_of(agent)
    alone = head.search(read)
    head.free_guidance = 2.0
    found = head.search(read)
    noise, luck = head._chances(2, head.candidates, None, 0, read.place.device)
    n = head.candidates
    drawn = head.pipeline(
        read.condition.repeat_interleave(n, 0), read.present.repeat_interleave(n, 0), noise,
        {at: place.repeat_interleave(n, 0) for at, place in head.held(read, None).items()},
        steps=head.steps, guidance=2.0, luck=luck, words_first=head.word_steps,
    )  # fmt: skip
    torch.testing.assert_close(found.plans.flatten(0, 1), unscale_places(drawn.trajectory))
    assert not torch.equal(found.plans, alone.plans)


def test_a_plan_that_the_judge_finds_colliding_is_marked_down_by_the_agents_own_judge(agent: Agent) -> None:
    head, read = head_of(agent), read_of(agent)
    judge: Any = agent.head(parts.JUDGE)
    assert head.judges == (judge,)
    assert not any("judge" in name for name in head.state_dict())
    head.doubt = 0.0
    critics = head.search(read)
    head.doubt = 3.0
    both = head.search(read)
    torch.testing.assert_close(both.plans, critics.plans)
    doubts = judge.doubts(both.plans, read.maze[:, None])
    torch.testing.assert_close(both.marks, critics.marks - 3.0 * doubts)
    # The judgement of a plan equals that of the same plan as a draft, in nats of no collision.
    plan, words = both.plans[1, 0].detach().numpy(), both.symbols[1, 0].numpy()
    shown = draft(plan, words, read.goal[1].numpy(), read.maze[1, :4].numpy(), 1000)
    told: Any = agent.evaluate({parts.DRAFT: torch.from_numpy(shown[None])}, [parts.JUDGE])[parts.JUDGE]
    torch.testing.assert_close(doubts[1, 0], torch.nn.functional.softplus(told.strides[0]).sum())
    copied = copy.deepcopy(agent)
    assert copied.head(parts.ROUTE).judges == (copied.head(parts.JUDGE),)  # type: ignore[comparison-overlap]


def test_the_critic_chooses_and_given_points_are_kept(agent: Agent) -> None:
    head = head_of(agent)
    read = read_of(agent)
    place = torch.tensor([[0.4, 0.4], [0.8, 1.2]])
    alone, words = head.search(read, given={5: place}), {0: torch.tensor([1, 4])}
    assert torch.equal(alone.chosen, alone.marks.argmax(-1))
    found = head.search(read, given={5: place}, words=words)
    assert found.plans.shape == (2, head.candidates, HORIZON, 2)
    torch.testing.assert_close(found.plans[:, :, 5], place[:, None].expand(-1, head.candidates, -1))
    assert found.symbols[:, :, 0].tolist() == [[1] * head.candidates, [4] * head.candidates]
    # Of two plans that differ only in length, the shorter has the better mark.
    straight = interpolate_plan(torch.tensor([[[0.0, 0.0], [1.0, 0.0]]]), torch.linspace(0, 1, HORIZON)[None])
    detour = straight + torch.sin(torch.linspace(0, torch.pi, HORIZON))[None, :, None] * torch.tensor([0.0, 1.0])
    head.sound[-1].weight.data.zero_()
    marks = head.marks(torch.stack((straight, detour), 1), read.maze[:1])
    assert marks[0, 0] > marks[0, 1]
    with pytest.raises(ConfigError, match="1 to 100 steps"):
        head.search(read, steps=101)
    with pytest.raises(ConfigError, match="point 26 cannot be given"):
        head.search(read, given={HORIZON: place})


def test_moves_are_named_from_the_drawn_trajectory(agent: Agent) -> None:
    head, read = head_of(agent), read_of(agent)
    found = head.search(read)
    assert torch.equal(found.symbols, head.moves(found.plans, read.maze[:, None, None]).argmax(-1))
    # Each name depends on two strides, so moving one point changes only the names beside it.
    other = found.plans.clone()
    other[:, :, 7] += 0.3
    same = head.moves(other, read.maze[:, None, None]) == head.moves(found.plans, read.maze[:, None, None])
    assert same.all(-1).all(0).all(0).nonzero().flatten().tolist() == [*range(6), *range(9, HORIZON)]


def test_names_of_strides_are_learned_from_trips(agent: Agent) -> None:
    head, walks = head_of(agent), [trips.make_trips("medium", 0, 4_000)]
    held_out = [trips.make_trips("medium", 0, 4_000, exam_seeds)]
    optimizer = torch.optim.AdamW(head.names.parameters(), lr=1e-2)

    def told(of: list[trips.Trips], n: int, rows: int) -> tuple[Any, Any]:
        asked = trips.batch(of, 1, 1, rows, numpy_rng("names", n))["asked"]
        maze = torch.nn.functional.pad(asked["maze"], (0, head.inlet.width - asked["maze"].shape[-1]))
        return head.moves(asked["plan"], maze[:, None]), asked["symbols"]

    for step in range(250):
        logits, words = told(walks, step, 24)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(logits.transpose(1, 2), words).backward()
        optimizer.step()
    logits, words = told(held_out, 1000, 64)
    moving = words > 0
    assert (logits.argmax(-1) == words)[moving].float().mean() > 0.75, "chance is 0.25"


def test_guidance_pulls_towards_sounder_strides_and_keeps_given_points(agent: Agent) -> None:
    head, read = head_of(agent), read_of(agent)

    def told(plans: Tensor) -> Tensor:
        return head.soundness(plans[..., :-1, :], plans[..., 1:, :], read.maze[:, None, None])

    with torch.inference_mode():  # as lives are stepped
        alone = head.search(read, steps=2)
        head.guidance = 0.02
        pulled = head.search(read, steps=2)
    assert told(pulled.plans).sum() > told(alone.plans).sum()
    torch.testing.assert_close(pulled.plans[:, :, 0], alone.plans[:, :, 0])
    torch.testing.assert_close(pulled.plans[:, :, -1], alone.plans[:, :, -1])


def test_a_hypothetical_route_reads_the_same_input_without_the_trunk(agent: Agent) -> None:
    head, read = head_of(agent), read_of(agent)
    asked = head.thinking(read.place, read.goal, read.maze[:, :4])
    assert asked.present.any(-1).all()
    told = asked.present[0]
    assert torch.equal(asked.condition[:, told], read.condition[:, told])
    both = read.and_of(asked)
    assert len(both.place) == 4
    assert torch.equal(both.goal[2:], read.goal)


def test_a_held_up_agent_is_not_late_and_goes_back_when_patience_ends(agent: Agent) -> None:
    head = head_of(agent)
    head.patience = 3
    actor = Actor(agent, 1, effectors=[WALK])
    world = make_world("pointmaze", "medium", [0])
    senses = world.observe()  # it stays where it is, whatever it does
    kept = []
    for tick in range(6):
        actor(senses, np.array([tick == 0]))
        kept.append({name: value.clone() for name, value in actor.state.carry[f"head.{ROUTE}"].items()})
    assert all(float(one["along"][0]) == 0.0 for one in kept)
    assert [bool(one["around"][0]) for one in kept[:3]] == [False] * 3
    back = next(one for one in kept if bool(one["around"][0]))
    middle = middles(torch.device("cpu"))[square(torch.as_tensor(senses["body"]))]
    torch.testing.assert_close(back["plan"][:, -1], middle)
    torch.testing.assert_close(back["plan"][:, 0], torch.as_tensor(senses["body"]))
    assert not back["symbols"].any(), "its moves are no longer those of the plan that was given up"


def test_the_denoiser_is_saved_as_a_diffusers_pipeline(agent: Agent, tmp_path) -> None:
    pipeline = head_of(agent).pipeline
    pipeline.save_pretrained(tmp_path)
    again = HybridPipeline.from_pretrained(tmp_path)
    noise = torch.randn(3, HORIZON, 2, generator=torch.Generator().manual_seed(1))
    form = pipeline.denoiser.config
    condition = torch.ones(3, form.told_by, form.condition)
    present = torch.ones(3, form.told_by, dtype=torch.bool)
    one, two = (pipe(condition, present, noise, {0: torch.zeros(3, 2)}, steps=3) for pipe in (pipeline, again))
    assert torch.equal(one.trajectory, two.trajectory)
    assert torch.equal(one.symbols, two.symbols)


def test_a_planner_without_symbols_works_and_too_short_a_plan_is_refused(agent: Agent) -> None:
    inlet = head_of(agent).inlet
    plain = PlannerHead(inlet, length=0, width=32, layers=1, attention_heads=2, candidates=2, steps=2)
    assert plain.carry_spec["symbols"].shape == (0,)
    with pytest.raises(ConfigError, match="needs at least one candidate"):
        PlannerHead(inlet, horizon=4, stride=4, follow=9)


def test_interpolation_gives_places_between_points() -> None:
    plan = torch.tensor([[[0.0, 0.0], [2.0, 0.0], [2.0, 4.0]]])
    found = interpolate_plan(plan, torch.tensor([[0.5, 1.0, 1.25, 9.0]]))
    assert found.tolist() == [[[1.0, 0.0], [2.0, 0.0], [2.0, 1.0], [2.0, 4.0]]]
