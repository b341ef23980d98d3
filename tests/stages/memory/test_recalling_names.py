"""Names of things: what a life is, what a lesson's batch holds, and that the exams ask what they declare."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest
import torch

from devmind import worlds
from devmind.acting import Actor
from devmind.agent.agent import AGE_SCALE, Agent
from devmind.agent.config import AgentConfig
from devmind.agent.output import Categorical
from devmind.agent.pointing import PointerHead
from devmind.config import RunConfig
from devmind.curriculum.exam import LEFT_OUT, SHOWN
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds
from devmind.worlds.nursery.looks import WITHOUT
from stages.memory import parts
from stages.memory.lessons import lessons
from stages.memory.recall import exam, lesson
from stages.memory.recall.lesson import INVENTED_EVERY, SPELT, lesson_batch, most_alike
from stages.memory.recall.things import (
    HELD_OUT,
    NAMES,
    PAIRS,
    TAUGHT,
    invent_words,
    lives,
    looks,
    nearest_raw,
    not_joined,
    rename_lives,
)
from stages.memory.sleep import exam as sleep


@pytest.fixture(scope="module")
def agent() -> Agent:
    agent = Agent(AgentConfig(size="tiny"))
    for sense in ("sight", "sound", "words"):
        agent.add_encoder(sense)
    parts.admit(agent)
    return agent.eval()


@pytest.fixture
def context(tmp_path: Path) -> Context:
    config = RunConfig.model_validate({"size": "tiny", "device": "cpu", "exam": {"episodes_scale": 0.02}})
    return Context(config, 0, "cpu", tmp_path, worlds.make)


def test_a_life_is_a_function_of_its_own_seed() -> None:
    together, alone = lives(np.array([5, 9]), 12), lives(np.array([9]), 12)
    for name in ("shape", "colour", "texture", "size_m", "answer"):
        np.testing.assert_array_equal(getattr(together, name)[1:], getattr(alone, name))
    kinds = together.shape + 3 * together.colour + 24 * together.texture
    assert all(len(np.unique(row)) == 12 for row in kinds)
    answers = lives(np.arange(400), 12).answer
    assert np.abs(np.bincount(answers.ravel()) / answers.size - 1 / len(NAMES)).max() < 0.02
    np.testing.assert_array_equal(together.part(1, 2).answer, alone.answer)


def test_lessons_and_exams_of_names_use_different_combinations_of_looks(context: Context) -> None:
    def parts(kinds: np.ndarray) -> list[set[int]]:
        return [set(kinds % 3), set(kinds // 3 % 8), set(kinds // 24)]

    assert not set(HELD_OUT) & set(TAUGHT)
    assert (len(HELD_OUT), len(TAUGHT)) == (24, 72)
    assert parts(HELD_OUT) == parts(TAUGHT) == [set(range(3)), set(range(8)), set(range(4))]
    for seeds, among in ((np.arange(20), HELD_OUT), (np.arange(20), TAUGHT)):
        of = lives(seeds, 16, among)
        assert set((of.shape + 3 * of.colour + 24 * of.texture).ravel()) <= set(among)
    drawn = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            lesson, "lives", lambda seeds, things, among=None: drawn.append(among) or lives(seeds, things, among)
        )
        lesson.lesson_episodes(context, 3)
        patch.setattr(exam, "lives", lesson.lives)
        with pytest.raises(AttributeError):  # no agent is needed to see what would be asked
            exam.examine(None, context.glimpse()).alone()  # type: ignore[arg-type]
    of_lessons, *of_exams = drawn
    assert of_lessons is TAUGHT
    assert len(of_exams) == 2
    assert all(among is HELD_OUT for among in of_exams)


def test_a_lessons_life_is_recognised_among_longer_lives_of_exams() -> None:
    of = lives(np.arange(4), 6, TAUGHT)
    longer = lives(np.arange(4, 8), 9, TAUGHT)
    names = [one.name for one in fields(of) if one.name != "seed"]
    longer = replace(longer, **{n: np.concatenate((getattr(of, n), getattr(longer, n)[:, 6:]), 1) for n in names})
    assert (longer.episodes(6) == of.episodes()).all()
    assert not np.isin(longer.episodes(), of.episodes()).any()


def test_two_looks_show_one_thing_differently() -> None:
    of, which = lives(np.array([3]), 4), np.array([[0, 1]])
    one, other = looks(of, which, "a"), looks(of, which, "b")
    assert one["sight"].shape == (1, 2, 64, 64, 3)
    assert one["sound"].shape == (1, 2, 2, 1600)
    again = looks(of, which, "a", ["sound"])
    assert list(again) == ["sound"]
    np.testing.assert_array_equal(again["sound"], one["sound"])
    for sense in one:
        assert not np.array_equal(one[sense], other[sense])
        assert not np.array_equal(one[sense][0, 0], one[sense][0, 1])


@pytest.mark.parametrize("update", [0, 90, 93, 94, 99])
def test_a_batch_recalls_the_right_names(agent: Agent, context: Context, update: int) -> None:
    batch = lesson_batch(agent, context, update, 16, 100)
    rows, length = batch["asked"].shape
    assert rows * length == 16
    assert batch["asked"][:, -1].all()
    recalled, asked = batch["recalled"], batch["asked"]
    told = batch["present"].get("words", torch.zeros_like(asked))
    assert told.any() == (update < 40)
    asked = asked & ~told
    assert (recalled["valid"] == asked[..., None]).all()
    assert set(recalled["senses"]) == {*batch["senses"], "words"}
    # With the keys of an untaught agent, most things are still found among the four.
    called, copied = batch["called"], batch["copied"]
    assert ((copied >= 0) == asked).all()
    named = asked & (called >= 0) & (copied < 4)
    if update % INVENTED_EVERY or update < 40:
        spelt = recalled["senses"]["words"][named].gather(1, copied[named][:, None, None].expand(-1, 1, 64))[:, 0]
        assert (spelt == SPELT[called[named]]).all()
        assert named.sum() > 0.3 * asked.sum()
    else:
        assert not named.any()
        words = recalled["senses"]["words"][asked].flatten(0, 1)
        assert not (words[:, None] == SPELT).all(-1).any(), "a word that is known by heart"
    same = lesson_batch(agent, context, update, 16, 100)
    assert torch.equal(same["recalled"]["senses"]["words"], recalled["senses"]["words"])
    loss, scalars = lesson.loss(agent, batch)
    assert loss.isfinite()
    with torch.no_grad():
        outputs = agent(batch, [lesson.HEAD, lesson.COPIED])
        for wrong in (0, 1):
            own = {head: outputs[head].logits.argmax(-1) for head in (lesson.HEAD, lesson.COPIED)}
            answers = {head: ((said + wrong) % outputs[head].logits.shape[-1]).masked_fill(batch[head] < 0, -1)
                       for head, said in own.items()}  # fmt: skip
            _, told = lesson.loss(agent, batch | answers)
            assert {name: value for name, value in told.items() if name.endswith("right")} == {
                name: 1.0 - wrong for name in scalars if name.endswith("right")
            }


def test_the_most_similar_thing_is_the_thing_itself(agent: Agent) -> None:
    of = lives(np.array([1, 2]), 5)
    kept = lesson.tensors(looks(of, lesson.every(of), 0))
    found = most_alike(agent, kept, kept)
    assert (found[..., 0] == torch.arange(5)).all()
    assert found.shape == (2, 5, 4)


def test_an_old_memory_is_no_louder_than_a_new_one(agent: Agent) -> None:
    words = SPELT[:1].expand(1, 2, -1)
    here = torch.ones(1, 2, dtype=torch.bool)
    recalled = {"senses": {"words": words}, "present": {"words": here}, "valid": here}
    ages = torch.tensor([[1.0, 3e8]])
    with torch.no_grad():
        tokens = agent.encode_recalled(recalled | {"age_s": ages}).tokens
    assert tokens[0, 1].norm() < 2 * tokens[0, 0].norm()
    assert torch.log1p(ages[0, 1]) / AGE_SCALE < 1.25


def test_each_sense_of_a_memory_has_equal_weight(agent: Agent) -> None:
    of = lives(np.array([4]), 1)
    sight = lesson.tensors(looks(of, np.array([[0]]), 0, ["sight"]))["sight"]
    words, here, age = SPELT[None, :1], torch.ones(1, 1, dtype=torch.bool), torch.zeros(1, 1)

    def token(senses: dict[str, torch.Tensor]) -> torch.Tensor:
        present = dict.fromkeys(senses, here)
        with torch.no_grad():
            return agent.encode_recalled({"senses": senses, "present": present, "age_s": age, "valid": here}).tokens

    both = token({"sight": sight, "words": words})
    torch.testing.assert_close(both, (token({"sight": sight}) + token({"words": words})) / 2)


def test_an_exam_of_recall_asks_what_it_declares(
    agent: Agent, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    doubles = object()  # `test_doubles.py` measures them
    monkeypatch.setattr(exam, "_of_doubles", lambda *given: doubles)
    *both, doubled = exam.examine(agent, context).in_full()
    assert doubled is doubles
    for measure in both:
        assert measure.n == 8
        assert set(measure.rows) >= {
            "memory off", "short-term only", "long-term only", "both, by sight alone", "both, by sound alone"
        }  # fmt: skip
        assert measure.floors["name of the nearest key"] > 0.5 > measure.chance
    _, new = both
    assert new.rows["memory off"] == new.rows["short-term only"] == 0.0, "a word was said that nothing brought back"
    for measure, again in zip(both, exam.examine(agent, context).alone(), strict=True):  # the same without rows
        np.testing.assert_array_equal(again.values, measure.values)


@pytest.mark.parametrize("strangers", [True, False])
def test_pointing_at_nothing_counts_only_for_things_never_named(
    agent: Agent, context: Context, monkeypatch: pytest.MonkeyPatch, strangers: bool
) -> None:
    of = lives(np.arange(2_000_000, 2_000_008), exam.THINGS + exam.STRANGERS, HELD_OUT)
    words, asked = invent_words(of.seed, exam.THINGS, exam=True), 0

    def points(output: Categorical) -> list[int | None]:
        """Point at nothing for the things never named, which are asked last, or for the others alone."""
        nonlocal asked
        asked += 1
        return [None if (asked > exam.ASKED) == strangers else 0] * len(output.logits)

    monkeypatch.setattr(exam, "pointed_at", points)
    monkeypatch.setattr(exam, "_rows", lambda *args: {})
    (new,) = exam._exam(exam.NEW, agent, of, "copied", words, "").in_full()
    assert asked == 2 * exam.ASKED
    assert new.rows == {"points at nothing for things never named": 1.0 if strangers else 0.0}
    assert new.score == (new.floors["name of the nearest key"] if strangers else 0.0)


def test_lessons_never_use_the_words_of_exams() -> None:
    taught = set(invent_words(np.arange(500), 12, exam=False).ravel())
    asked = invent_words(np.arange(1_000_000, 1_000_400), 12, exam=True)
    assert len(taught) > 5000
    assert not taught & set(asked.ravel())
    assert not set(NAMES) & (taught | set(asked.ravel()))
    assert all(len(set(row)) == 12 for row in asked.tolist())
    np.testing.assert_array_equal(invent_words(np.array([1_000_003]), 12, exam=True)[0], asked[3])


def test_an_unknown_word_is_copied_from_the_memory_pointed_at(agent: Agent) -> None:
    of = lives(np.array([2_000_003]), exam.THINGS + exam.STRANGERS)
    words = invent_words(of.seed, exam.THINGS, exam=True)

    def said(logits: list[float]) -> tuple[np.ndarray, np.ndarray]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PointerHead, "forward", lambda self, tapped: Categorical(torch.tensor([logits])))
            answers = exam.play(agent, of, short=False, long=True, words=words)
        return answers.copied, answers.nearest

    copied, nearest = said([9.0, 0.0, 0.0, 0.0, 0.0])
    np.testing.assert_array_equal(copied, nearest)
    assert set(copied.ravel()) <= set(words.ravel())
    copied, nearest = said([0.0, 9.0, 0.0, 0.0, 0.0])
    assert (copied != nearest).all()
    assert (said([0.0, 0.0, 0.0, 0.0, 9.0])[0] == "").all()


def test_the_exam_answers_from_the_store(agent: Agent) -> None:
    of = lives(np.array([2_000_000, 2_000_001]), exam.THINGS + exam.STRANGERS)
    given = []
    with pytest.MonkeyPatch.context() as patch:
        step = Actor.step

        def watched(self: Actor, percepts: object, recalled: object = None) -> object:
            given.append((recalled is not None, bool(percepts.batch["present"].get("words", torch.zeros(1)).any())))
            return step(self, percepts, recalled)

        patch.setattr(Actor, "step", watched)
        both, off = (exam.play(agent, of, short=False, long=long) for long in (True, False))
    np.testing.assert_array_equal(both.nearest, off.nearest)
    assert both.said.shape == (2, exam.ASKED)
    named, asked = [(False, True)] * exam.THINGS, [(True, False)] * exam.ASKED
    nothing = [(False, False)] * exam.ASKED
    assert given == [*named, *asked, *named, *nothing], "(a memory comes back, words are heard) by tick"


def test_looks_that_return_while_time_passes_are_encoded_once_and_as_they_are_seen(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = lives(np.array([2_000_000, 2_000_001]), exam.THINGS + exam.STRANGERS, HELD_OUT)
    words = np.array(NAMES)[of.answer]
    group = exam._Group(agent, of, True, True, ("sight", "sound"), words)
    between = group._looks(exam.THINGS + np.arange(exam.STRANGERS), "between")
    encode, step, encoded, paused = group._encode, Actor.step, [], []

    def counted(rows: object) -> object:
        encoded.append(group.tick)
        return encode(rows)

    def watched(self: Actor, percepts: object, recalled: object = None) -> object:
        tick = group.tick - exam.THINGS
        if 0 <= tick < agent.config.window + exam.MORE:
            at = tick % exam.STRANGERS
            fresh = encode([{name: x[row, at] for name, x in between.items()} for row in range(2)])
            for sense in ("sight", "sound"):
                assert torch.equal(fresh.encoded[sense].tokens, percepts.encoded[sense].tokens)
            paused.append(tick)
        return step(self, percepts, recalled)

    monkeypatch.setattr(group, "_encode", counted)
    monkeypatch.setattr(Actor, "step", watched)
    group.play()
    assert len(paused) == agent.config.window + exam.MORE
    assert len(encoded) == exam.THINGS + exam.STRANGERS + 1 + exam.ASKED


def test_looks_at_one_thing_are_averaged_in_the_exam_of_sleep() -> None:
    things = sleep.THINGS
    right = np.tile(np.arange(things) % 2, sleep.VIEWS).astype(float)  # every second thing, in all looks at it
    right[0] = 1.0  # and the first thing in its first look
    np.testing.assert_allclose(sleep.by_thing(right), [1 / sleep.VIEWS, *(np.arange(1, things) % 2)])


@pytest.mark.slow
def test_an_exam_of_sleep_changes_nothing(agent: Agent, context: Context) -> None:
    before = agent.sha256()
    with torch.inference_mode():
        kept, change, earlier = sleep.examine(agent, context).in_full()
    assert agent.sha256() == before
    assert kept.floors == {"no sleep": 0.0}
    assert kept.n == exam.THINGS
    assert change.n == exam.THINGS * context.episodes(sleep.OTHERS)
    assert earlier.n == len(sleep.earlier_skills(agent, context, 0))
    assert not any(parameter.is_inference() for parameter in agent.parameters())


def test_a_lesson_of_names_shows_no_combination_of_the_exam(agent: Agent, context: Context) -> None:
    shown = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lesson, "lives", lambda *given: shown.append(lives(*given)) or shown[-1])
        for update in range(0, 100, 10):
            lesson_batch(agent, context, update, 16, 100)
    kinds = np.concatenate([(of.shape + 3 * of.colour + 24 * of.texture).ravel() for of in shown])
    assert len(kinds) > 100
    assert not set(kinds) & set(HELD_OUT)


def test_a_lesson_of_names_never_pairs_held_out_names_with_a_colour(
    agent: Agent, context: Context, monkeypatch
) -> None:
    plain, told = rename_lives, []
    monkeypatch.setattr(lesson, "rename_lives", lambda of: told.append((of, plain(of))) or told[-1][1])
    for update in range(0, 200, 10):
        lesson_batch(agent, context, update, 64, 100)
    lesson.lesson_episodes(context, 40)
    drawn, shown = ([of[which] for of in told] for which in (0, 1))
    before, after = (np.concatenate([of.answer.ravel() for of in lives_]) for lives_ in (drawn, shown))
    colour = np.concatenate([of.colour.ravel() for of in shown])
    left = (colour + before) % 4 == 0
    assert 0.2 < left.mean() < 0.3
    assert not ((colour + after) % 4 == 0).any()
    np.testing.assert_array_equal(after[~left], before[~left])
    assert len({*zip(colour.tolist(), after.tolist(), strict=True)}) == 48, "all other names of each colour are said"


def test_the_exam_splits_names_by_whether_lessons_paired_them_with_the_colour(
    agent: Agent, context: Context, monkeypatch
) -> None:
    """A player that is right only on pairs that no lesson had."""
    of, calm = lives(exam_seeds(40, "pairs"), exam.THINGS + exam.STRANGERS, HELD_OUT), np.array(NAMES)
    left = not_joined(of.colour, of.answer)[:, : exam.ASKED]
    right = calm[of.answer[:, : exam.ASKED]]
    answers = exam.Answers(np.where(left, right, ""), right, right)
    monkeypatch.setattr(exam, "play", lambda *given, **more: answers)
    monkeypatch.setattr(exam, "_rows", lambda *given: {})
    monkeypatch.setattr(exam, "_without_learning", lambda *given: {})
    n = int(left.sum())
    assert 8 < n < 40
    told = {f"of names with a colour {LEFT_OUT}, n {n}": 1.0, f"of names with a colour {SHOWN}, n {80 - n}": 0.0}
    for met, rows in (([*WITHOUT, PAIRS], told), ([PAIRS], {}), (list(WITHOUT), {})):
        agent.config.trained_on = met
        assert exam._exam("recall", agent, of, "said", calm[of.answer], "").in_full()[0].rows == rows
    assert next(one for one in lessons(context) if one.name == "recall").learns_from == (PAIRS,)


def test_untaught_rules_name_the_asked_thing_by_its_looks(agent: Agent, monkeypatch) -> None:
    """A rule finds the name of the thing asked for and, if another thing is shown in its place, that thing's name."""
    of = lives(np.arange(6), 16, HELD_OUT)
    words = invent_words(of.seed, 12, exam=True)
    found = exam._without_learning(agent, of, words)
    assert len(found) == 3
    assert found["name of the nearest raw sound"] > 0.8
    monkeypatch.setattr(
        exam, "looks", lambda of, which, look, senses: looks(of, which + (look == "asked"), look, senses)
    )
    assert max(exam._without_learning(agent, of, words).values()) < 0.2


def test_the_nearest_kept_thing_is_found_by_all_senses_together() -> None:
    """Two equal pictures are told apart by their sound."""
    rng = np.random.default_rng(0)
    pictures = rng.integers(0, 256, (2, 3, 64, 64, 3)).astype(np.uint8)
    pictures[:, 1] = pictures[:, 0]
    at = np.arange(1600) / 16_000
    tones = np.stack([np.sin(2 * np.pi * hz * at) for hz in (300, 900, 2700)]).astype(np.float32)
    kept = {"sight": pictures, "sound": np.tile(tones[None, :, None], (2, 1, 2, 1))}
    seen = {name: value[:, [1, 2, 0]] for name, value in kept.items()}
    np.testing.assert_array_equal(nearest_raw(seen, kept), [[1, 2, 0]] * 2)
    np.testing.assert_array_equal(nearest_raw({"sight": seen["sight"]}, kept), [[0, 2, 0]] * 2)
