"""The delayed match: its episodes, its exam with and without memory, and its rule."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.heads import Inlet
from devmind.agent.taps import Tapped
from devmind.curriculum.ablation import Control, identity_trunk
from devmind.curriculum.journal import Journal
from devmind.curriculum.rehearsal import rehearsals
from devmind.curriculum.teaching import teach
from devmind.seeding import exam_seeds, lesson_seeds
from devmind.testing import tiny_agent, tiny_context
from devmind.worlds.nursery.looks import WITHOUT, tone_held_out
from stages.memory import parts
from stages.memory.match import exam, lesson
from stages.memory.match.exam import PAUSE, choose_matches, nearest
from stages.memory.match.heads import MatchHead, log_odds
from stages.memory.match.lesson import KINDS, LONGEST_TAUGHT, answers, lesson_batch, longest, show_episodes, things
from stages.memory.recall.things import HELD_OUT, SIZES_M, TAUGHT
from stages.memory.stage import MemoryStage
from stages.reflex.stage import ReflexStage


@pytest.fixture(scope="module")
def agent():
    agent = tiny_agent()
    ReflexStage().admit(agent)
    MemoryStage().admit(agent)
    return agent.eval()


def test_things_of_an_episode_differ_in_look_and_sound():
    of = things(exam_seeds(200, "match"), HELD_OUT)
    kinds = np.stack([of.shape, of.colour, of.texture], -1)
    for a in range(lesson.THINGS):
        for b in range(a):
            assert (kinds[:, a] != kinds[:, b]).any(1).all()
    apart = np.diff(np.sort(of.size_m, 1)).min()
    assert apart >= (SIZES_M[1] - SIZES_M[0]) / 16 - 1e-9
    assert answers(of).mean() == pytest.approx(0.5, abs=0.12)


def test_the_sample_returns_as_the_right_choice(monkeypatch):
    """Looks that show only the number of their thing."""
    monkeypatch.setattr(
        lesson, "looks", lambda of, which, look, senses: {senses[0]: which[..., None].astype(np.float32)}
    )
    of = things(exam_seeds(50, "match"), HELD_OUT)
    met = show_episodes(of, "sight", 5)[..., 0]
    assert met.shape == (50, 1 + 5 + 2)
    assert (met[:, 0] == 0).all()
    assert (met[:, 1:6] >= 2).all(), "neither choice comes between"
    right = answers(of)
    assert (met[np.arange(50), -2 + right] == 0).all()
    assert (met[np.arange(50), -1 - right] == 1).all()


def test_lessons_have_shorter_pauses_than_the_exam_and_none_at_first(tmp_path, monkeypatch):
    monkeypatch.setattr(
        lesson, "looks", lambda of, which, look, senses: {senses[0]: which[..., None].astype(np.float32)}
    )
    context = tiny_context(tmp_path)
    batches = [lesson_batch(None, context, update, 2, 60) for update in range(60)]
    pauses = [next(iter(batch["senses"].values())).shape[1] - 3 for batch in batches]
    assert not any(pauses[:15])
    assert [longest(share) for share in (0.2, 0.26, 0.36, 0.79, 0.8, 1.2)] == [0, 1, 2, 6, 6, 6]
    assert max(pauses[15:20]) <= 1
    assert max(pauses) == LONGEST_TAUGHT < PAUSE
    assert [next(iter(batch["senses"])) for batch in batches[:4]] == [*KINDS.values(), *KINDS.values()]
    assert not set(HELD_OUT) & set(TAUGHT)


def test_the_rule_takes_the_nearer_raw_input():
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (6, 4, 64, 64, 3)).astype(np.uint8)
    pictures[:, :, 8:40, 8:40] = (rng.integers(0, 256, (6, 4, 1, 1, 3))).astype(np.uint8)
    for at, right in ((-2, 0), (-1, 1)):
        met = pictures.copy()
        met[:, at] = met[:, 0]
        assert (nearest("sight", met) == right).all()


@pytest.mark.parametrize("kind", KINDS)
def test_without_short_term_memory_the_sample_changes_nothing(agent, kind):
    of = things(exam_seeds(24, "match", kind), HELD_OUT)
    met = show_episodes(of, KINDS[kind], 1)
    other = met.copy()
    other[:, 0] = met[::-1, 0]
    alone, with_other = (choose_matches(agent, KINDS[kind], x, short_term=False) for x in (met, other))
    assert (alone == with_other).all()


def test_the_head_compares_what_is_sensed_with_what_the_trunk_holds():
    torch.manual_seed(0)
    head = MatchHead(Inlet(8, 4))
    head.held.load_state_dict(head.sensed.state_dict())
    tokens = torch.randn(5, 4, 8)
    present = torch.tensor([True, True, False, True]).expand(5, 4)
    tokens[:3, -1] = tokens[:3, :2].mean(1)  # the trunk holds what is sensed, whatever the absent token holds
    sure = log_odds(head(Tapped(tokens, present)))
    assert (sure[:3] > 4.9).all()
    assert (sure[3:] < sure[:3].min()).all()


def test_the_ablation_twin_never_trains_the_trunk_even_by_rehearsal(tmp_path):
    """Each lesson that trains the trunk has a control, whose rehearsals do not train the trunk either."""
    context, agent = tiny_context(tmp_path, "lessons.match.batch=4"), tiny_agent()
    for stage in (ReflexStage(), MemoryStage()):
        stage.admit(agent)
        agent.config.stages.append(stage.name)
    twin = Agent.from_pretrained(identity_trunk(agent, tmp_path / "twin", agent, MemoryStage(), context))
    lessons = {lesson.name: lesson for lesson in Control(MemoryStage()).lessons(context)}
    assert list(lessons) == ["sign", "fetch", "tests", "recall", "match", "hidden", "review"]
    before = {name: value.clone() for name, value in twin.state_dict().items()}
    own = lessons["match"]
    before_it = [lessons[name] for name in ("fetch", "tests", "recall")]
    rehearsal = rehearsals(own, before_it, [ReflexStage()], twin, context)
    assert {one.lesson.name for one in rehearsal} == {"together", "fetch", "tests", "recall"}
    teach(own, 3, twin, context, Journal(tmp_path / "journal.jsonl"), rehearsal=rehearsal, every=2)
    learner = lessons["review"].make_learner(twin, context)
    changed = {name for name, value in twin.state_dict().items() if not torch.equal(value, before[name])}
    assert any(name.startswith("heads.same.") for name in changed)
    for name in (*changed, *learner.trains):
        assert name.startswith(("heads.", "encoders.")), name


def test_a_batch_says_which_choice_is_the_sample(tmp_path, monkeypatch):
    monkeypatch.setattr(
        lesson, "looks", lambda of, which, look, senses: {senses[0]: which[..., None].astype(np.float32)}
    )
    batch = lesson_batch(None, tiny_context(tmp_path), 0, 32, 60)
    assert torch.equal(batch["same"], (batch["senses"]["sight"][:, -2:, 0] == 0).long())
    assert (batch["same"].sum(1) == 1).all()


def test_a_batch_teaches_the_trunk_and_its_head(agent, tmp_path: Path):
    loss, _ = lesson.loss(agent, lesson_batch(agent, tiny_context(tmp_path), 1, 4, 2))
    loss.backward()
    moved = {name.split(".")[0] for name, p in agent.named_parameters() if p.grad is not None and p.grad.abs().sum()}
    agent.zero_grad()
    assert {"trunk", "heads"} <= moved
    batch = lesson_batch(agent, tiny_context(tmp_path), 1, 4, 2)
    with torch.no_grad():
        chosen = lesson.log_odds(agent(batch, [lesson.HEAD])[lesson.HEAD])[:, -lesson.CHOICES :].argmax(1)
        for sample, right in ((chosen, 1.0), (1 - chosen, 0.0)):
            same = torch.nn.functional.one_hot(sample, lesson.CHOICES)
            assert lesson.loss(agent, batch | {"same": same})[1]["right"] == right


def test_lessons_never_sound_held_out_tones_and_the_exam_has_a_row_for_them(monkeypatch, tmp_path):
    for seeds, among, some in ((lesson_seeds(400, "match"), TAUGHT, False), (exam_seeds(400, "match"), HELD_OUT, True)):
        of = things(seeds, among)
        assert tone_held_out(of.size_m).any() == some
        assert np.diff(np.sort(of.size_m, 1)).min() >= (SIZES_M[1] - SIZES_M[0]) / (16 if some else 20)
    agent, context = tiny_agent(), tiny_context(tmp_path)
    for sense in ("sight", "sound", "words"):
        agent.add_encoder(sense)
    parts.admit(agent)
    monkeypatch.setattr(exam, "choose_matches", lambda agent, sense, met, short_term=True: np.zeros(len(met), np.int64))
    for met, told in (([], 0), (list(WITHOUT), 2)):
        agent.config.trained_on = met
        seen, heard = exam.examine(agent, context).in_full()
        rows = {name: value for name, value in heard.rows.items() if name.startswith("of tones")}
        assert (len(rows), any(name.startswith("of tones") for name in seen.rows)) == (told, False)
        n = [int(name.rsplit(" ", 1)[1]) for name in rows]
        if told:
            assert sum(n) == heard.n
            assert np.average(list(rows.values()), weights=n) == pytest.approx(heard.values.mean())
