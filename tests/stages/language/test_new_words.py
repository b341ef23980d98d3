"""Words taught once: lives, the recalled memories of a batch, the exam, its floors, and recall by a name."""

from __future__ import annotations

import copy
from functools import partial
from pathlib import Path
from zlib import crc32

import numpy as np
import pytest
import torch

from devmind import worlds
from devmind.acting.recall import OwnMemories, brought_back
from devmind.acting.sentences import name_in, names_in, teaching
from devmind.agent.agent import Agent
from devmind.agent.batch import RECALLED_BUDGET, collate_tick
from devmind.agent.heads import Inlet
from devmind.agent.output import Categorical
from devmind.agent.taps import Tapped
from devmind.config import load
from devmind.curriculum.ablation import control
from devmind.curriculum.examining import examination
from devmind.curriculum.stage import Context
from devmind.live.remembering.show_and_tell import ShowAndTell
from devmind.memory import Entry, Key, Memory, open_store
from devmind.memory.entry import LOOKED, VIEWS
from devmind.moment import Moment
from devmind.seeding import exam_seeds, numpy_rng
from devmind.testing import check_learner, tiny_agent
from stages.language import parts, seeing, taught_words
from stages.language.caregiver.grammar import VOCABULARY
from stages.language.caregiver.scene import HELD_OUT, PAIRS, TAUGHT
from stages.language.eye import COLOUR, FORM, MOST
from stages.language.eye import THINGS as THINGS_MAP
from stages.language.name.scenes import THINGS
from stages.language.new_words import exam, lesson
from stages.language.new_words.heads import RecognisedHead, SoughtHead
from stages.language.new_words.lives import KEPT_WORDS, in_another_light, invent_words, lives
from stages.language.own_words import middle_of
from stages.language.parts import DETAIL, RECOGNISED, SIGHT, SOUGHT, TEXT, WORDS
from stages.language.taught_words import WHAT, where
from stages.language.word_questions import answer_by_look
from tests.stages.floors import held_to_the_floors


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(load("tiny", sets=["exam.episodes_scale=0.03"]), 0, "cpu", tmp_path, worlds.make)


@pytest.fixture(scope="module")
def agent() -> Agent:
    agent = tiny_agent()
    for sense in (SIGHT, WORDS):
        agent.add_encoder(sense)
    parts.admit(agent)
    return agent.eval()


def of_exam(context: Context, n: int = 12, looked_at: bool = True):
    return lives(context, exam_seeds(n, 0, "test"), HELD_OUT, PAIRS, np.full(n, looked_at), exam=True)


def test_exam_words_are_in_no_lesson_and_not_among_the_caregivers() -> None:
    of_lessons, of_exams = (
        {word for seed in range(300) for word in invent_words(numpy_rng("test", seed), THINGS, exam)}
        for exam in (False, True)
    )
    assert len(of_exams) > 200
    assert not of_lessons & of_exams
    assert not (of_lessons | of_exams) & VOCABULARY
    assert all(name_in(teaching(word)) == word for word in of_exams), "the page finds the same name in it"
    assert teaching("zib") == "this is a zib."
    assert teaching("ugan") == "this is an ugan."
    assert (teaching("Tom"), name_in(teaching("Tom"))) == ("this is Tom.", "Tom")
    assert (taught_words.WHAT, taught_words.where("zib")) == (WHAT, where("zib")), "asked as in lessons"


def test_a_thing_returns_in_another_look_among_all_taught_things(context: Context) -> None:
    of = of_exam(context)
    n = len(of.words)
    assert of.taught.shape == (n, THINGS, 64, 64, 3)
    assert all(len(set(row)) == THINGS for row in of.words.tolist())
    np.testing.assert_array_equal(of.looks.pairs.reshape(n, THINGS, 2), of.scenes.pairs)
    assert {tuple(pair) for pair in of.scenes.meant.tolist()} <= set(HELD_OUT)
    seen = of.looks.boxes[:, 0]
    assert np.abs((seen[:, :2] + seen[:, 2:]) / 2 - 32).max() < 6, "each is looked at when it is taught"
    others = np.arange(THINGS) != of.scenes.target[:, None]
    for word in range(2):  # neither the colour nor the form alone tells which word is meant
        alike = (of.scenes.pairs[..., word] == of.scenes.meant[:, None, word]) & others
        assert alike.any(1).all()
    again = of_exam(context)
    np.testing.assert_array_equal(again.taught, of.taught)
    np.testing.assert_array_equal(again.words, of.words)
    shown = lesson.lesson_batch(context, 0, 40)
    assert set(np.unique(shown["copied"].numpy())) <= {-1, *range(THINGS), RECALLED_BUDGET}


def test_another_light_changes_brightness_and_hardly_the_colours() -> None:
    picture = np.full((8, 8, 3), (120, 60, 90), np.uint8)
    lit = np.stack([in_another_light(picture, numpy_rng("light", i))[0, 0] for i in range(200)]).astype(float)
    assert lit.sum(1).min() < 0.8 * 270 < 1.1 * 270 < lit.sum(1).max()
    assert np.abs(lit / lit.sum(1, keepdims=True) - np.array([120, 60, 90]) / 270).max() < 0.05


def test_a_batch_recalls_entries_in_a_memorys_order(context: Context, agent: Agent) -> None:
    batch = lesson.lesson_batch(context, 3, 40)
    recalled, place, shown = lesson.brought_back(agent, batch)
    senses, valid = recalled["senses"], recalled["valid"][:, 0]
    asked = batch["copied"] >= 0
    assert asked.sum() == 20
    strange = batch["copied"] == RECALLED_BUDGET
    assert strange.any()
    assert (valid.sum(1) == torch.where(strange, THINGS - 1, THINGS)).all()
    rows = torch.arange(40)
    pages = batch["senses"][TEXT][:, 0]
    for row in rows.tolist():
        page = bytes(n for n in pages[row].tolist() if 0 <= n < 256).decode()
        word = bytes(senses[WORDS][row, 0, 0].tolist()).rstrip(b"\0").decode()
        if not asked[row]:
            assert page == f"where is the {word}?", "what is named comes first"
            assert batch["pointed"][row].any()
        else:
            assert page == "what is that?"
            assert not batch["pointed"][row].any()
    known = asked & ~strange
    before = batch["recalled"]["senses"][SIGHT][rows, 0, batch["copied"].clamp(0, THINGS - 1)]
    behind = senses[SIGHT][rows, 0, place.clamp_max(THINGS - 1)]
    assert torch.equal(before[known], behind[known])
    sight = senses[SIGHT][:1, 0]
    maps = agent.encode_senses({SIGHT: sight, TEXT: senses[TEXT][:1, 0]}, names=[DETAIL])[DETAIL].maps
    codes = torch.cat((maps[FORM], maps[COLOUR]), -3)[0].flatten(2)
    for at in range(THINGS):
        alike = torch.isclose(codes[at].mT, shown[0, at], atol=1e-4).all(1)
        assert alike.any(), "of one cell of the same picture"
    loss, scalars = lesson.loss(agent, batch)
    assert loss.isfinite()
    assert {"says", "points", "unlike"} <= set(scalars)


def test_the_lesson_and_its_control_change_only_the_two_heads(context: Context, agent: Agent) -> None:
    taught = lesson.lesson(context)
    assert taught.control is not None
    for make in (taught.make_learner, partial(control, taught)):
        child = tiny_agent()
        child.add_encoder(SIGHT)
        parts.admit(child)
        child.config.stages = ["reflex", "language"]
        before = {name: value.clone() for name, value in child.state_dict().items()}
        learner = make(child, context)
        learner.steps = taught.steps
        learner.begin(0)
        learner.update(lesson.lesson_batch(context, 0, 8), 0)
        changed = {name for name, value in child.state_dict().items() if not torch.equal(value, before[name])}
        assert {name.split(".")[1] for name in changed} == {RECOGNISED, SOUGHT}
        assert all(name.startswith("heads.") for name in changed)


def child_of() -> Agent:
    child = tiny_agent()
    for sense in (SIGHT, WORDS):
        child.add_encoder(sense)
    parts.admit(child)
    child.config.stages = ["reflex", "language"]
    return child


def test_the_lesson_resumes_with_its_kept_batches(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lesson, "KEPT", 2)
    check_learner(lesson.lesson(context), child_of(), context)


def test_an_update_steps_on_the_new_batch_and_some_earlier_ones(
    context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lesson, "KEPT", 3)
    learner = lesson.lesson(context).make_learner(child_of(), context)
    learner.steps = 8
    learner.begin(0)
    stepped: list[tuple[int, float]] = []
    batches = [lesson.lesson_batch(context, update, 4) for update in range(5)]
    names = [one["pointed"][:, 0] for one in batches]
    told = lesson.loss_of

    def noted(agent: Agent, lives: dict, like: float):
        (at,) = [at for at, one in enumerate(names) if torch.equal(one, lives["pointed"])]
        stepped.append((at, like))
        return told(agent, lives, like)

    monkeypatch.setattr(lesson, "loss_of", noted)
    for update, batch in enumerate(batches):
        stepped.clear()
        expected = told(learner.agent, lesson.read_features(learner.agent, batch), max(0.0, 1 - update / 4))[0]
        scalars = learner.update(batch, update)
        assert float(scalars["loss"]) == pytest.approx(float(expected), rel=1e-5)
        assert len(stepped) == 1 + lesson.AGAIN
        assert stepped[0][0] == update
        assert {at for at, _ in stepped} <= set(range(max(0, update - 2), update + 1)), "of the newest three"
        assert {like for _, like in stepped} == {max(0.0, 1 - update / 4)}
    assert len(learner.recent) == 3


def test_the_cached_input_of_the_heads_equals_the_whole_batchs(context: Context, agent: Agent) -> None:
    batch = lesson.lesson_batch(context, 3, 12)
    lives_read = lesson.read_features(agent, batch)
    recalled, place, shown = lesson.brought_back(agent, batch)
    outputs = agent.forward({**batch, "recalled": recalled}, [SOUGHT, RECOGNISED])
    alone = Tapped(lives_read["tokens"], lives_read["present"], lives_read["maps"])
    for head in (SOUGHT, RECOGNISED):
        torch.testing.assert_close(agent.head(head)(alone).logits, outputs[head].logits[:, 0])
    assert torch.equal(lives_read["place"], place)
    assert torch.equal(lives_read["shown"], shown)
    assert not any(value.requires_grad for value in (lives_read["tokens"], lives_read["memories"]))


def test_the_likeness_weight_affects_only_the_sought_head(context: Context, agent: Agent) -> None:
    lives_read = lesson.read_features(agent, lesson.lesson_batch(context, 3, 12))
    looked = [agent.head(head).looked.weight for head in (SOUGHT, RECOGNISED)]
    whole, none = (lesson.loss_of(agent, lives_read, like)[0] for like in (1.0, 0.0))
    of_whole, of_none = (torch.autograd.grad(each, looked) for each in (whole, none))
    assert whole > none
    assert not torch.allclose(of_whole[0], of_none[0])
    torch.testing.assert_close(of_whole[1], of_none[1])


def tapped(head, memories: torch.Tensor, codes: torch.Tensor, here: torch.Tensor, readout: torch.Tensor) -> Tapped:
    """The input of a head: memories [R, D], cells [C, 64] that all hold a thing, and a readout [D]."""
    things = torch.zeros(1, MOST, memories.shape[-1])
    tokens = torch.cat((things, memories[None], readout[None, None]), 1)
    present = torch.cat((torch.ones(1, MOST, dtype=torch.bool), here[None], torch.ones(1, 1, dtype=torch.bool)), 1)
    form, colour = codes.unflatten(-1, (8, 8)).chunk(2)
    return Tapped(tokens, present, {FORM: form[None], COLOUR: colour[None], THINGS_MAP: torch.zeros(1, 1, 8, 8)})


def test_heads_match_memories_with_cells_in_view() -> None:
    """Memories that encode known cells: each is found there, and the looked-at cell is recognised."""
    rng = torch.Generator().manual_seed(0)
    inlet = Inlet(16, MOST + 5, {FORM: 8, COLOUR: 8, THINGS_MAP: 1})
    codes = torch.randn(16, 64, generator=rng)
    memories = codes[:, [3, 40, 27, 9]].mT.contiguous()
    readout, here = torch.zeros(16), torch.ones(4, dtype=torch.bool)
    found, known = SoughtHead(inlet), RecognisedHead(inlet)
    with torch.no_grad():
        for head in (found, known):
            head.looked.weight.copy_(torch.eye(16))
            head.looked.bias.zero_()
            head.gain.fill_(20.0)
        found.asks.bias.zero_()
        found.asks.bias[0] = 100.0
        found.answers.weight.zero_()
        for at in range(4):  # one number of each memory says which is sought
            marked = memories.clone()
            found.answers.weight[0] = torch.linalg.lstsq(marked, torch.eye(4)[:, at : at + 1]).solution[:, 0]
            found.answers.bias.zero_()
            assert int(found(tapped(found, marked, codes, here, readout)).mode()) == (3, 40, 27, 9)[at]
        for cell, at in ((3, 0), (40, 1), (27, 2), (9, 3)):
            known.looks.bias.copy_(torch.where(torch.arange(64) == cell, 50.0, 0.0))
            known.none.bias.fill_(5.0)
            assert int(known(tapped(known, memories, codes, here, readout)).mode()) == at
            gone = here & (torch.arange(4) != at)
            others = known(tapped(known, memories, codes, gone, readout)).logits[0]
            assert others[at] < -1e30, "what is absent cannot be pointed at"
        nothing = found(tapped(found, memories, codes, torch.zeros(4, dtype=torch.bool), readout))
        assert torch.equal(nothing.logits, torch.zeros(1, 64)), "without a memory it is one of the things in view"


def test_a_new_head_looks_at_the_middle() -> None:
    head = RecognisedHead(Inlet(16, MOST + 5, {FORM: 8, COLOUR: 8, THINGS_MAP: 1}))
    assert set(head.looks.bias.topk(4).indices.tolist()) == {27, 28, 35, 36}


def key(*numbers: float) -> dict[str, Key]:
    vector = np.zeros(64, np.float32)
    vector[: len(numbers)] = numbers
    return {SIGHT: Key(vector / np.linalg.norm(vector), "eye")}


def test_a_spoken_name_recalls_what_was_taught_by_it() -> None:
    memory = Memory(open_store(None))
    for name, at in (("zib", (1, 0)), ("dop", (0, 1)), (None, (0.9, 0.1)), ("zib", (0.5, 0.5)), ("zibber", (0, 1))):
        memory.write(Moment(0.0, {TEXT: "x"}), key(*at), name=name)
    brought = [entry.name for entry in brought_back(memory, key(0, 1), "where is the zib?")]
    assert brought[0] == "zib"
    assert len(brought) == RECALLED_BUDGET
    assert set(brought[1:3]) == {"dop", "zibber"}, "then what is most like what is seen"
    first = brought_back(memory, key(1, 0), "Where is the ZIB?")[0]
    assert first.keys[SIGHT].vector[0] == 1, "of two examples the one that is most like what is seen"
    assert len(brought_back(memory, key(1, 0), "zib dop zibber", budget=2)) == 2
    assert [one.id for one in brought_back(memory, key(1, 0), "what is that?")] == [
        one.id for one in memory.recall(key(1, 0))
    ]
    assert names_in("the zib-dop", ["dop", "zi", "zib"]) == ["zib", "dop"], "in the order of the text"


def test_a_name_within_a_longer_name_is_not_meant() -> None:
    """Asked for the red zib, the life pointed at the other thing, that was taught as "zib"."""
    memory = Memory(open_store(None))
    for name in ("red", "zib", "red zib"):
        memory.write(Moment(0.0, {TEXT: "x"}), key(1, 0), name=name)
    known = memory.index.update().known
    assert names_in("where is the Red Zib?", known) == ["red zib"]
    assert names_in("is the zib beside the red zib?", known) == ["zib", "red zib"]
    assert names_in("where is the zib?", known) == ["zib"]
    assert names_in("is the red zib beside the zib?", known) == ["red zib", "zib"]
    assert brought_back(memory, key(1, 0), "where is the red zib?")[0].name == "red zib"


def test_a_page_without_a_name_changes_no_recall(agent: Agent) -> None:
    picture = numpy_rng("test").integers(0, 256, (1, 64, 64, 3)).astype(np.uint8)
    found = []
    for said in ("", "what is that?", "where is the zib?"):
        memory = Memory(open_store(None))
        recall = OwnMemories(agent, [memory], (SIGHT,))
        for at, name in enumerate(("dop", "gan", "rem", "tuk", "zib")):
            vector = key(1, -at)[SIGHT].vector
            memory.write(Moment(0.0, {TEXT: name}), {SIGHT: Key(vector, recall.hashes[SIGHT])}, name=name)
        recall(agent.encode(agent.new_state(1), collate_tick({SIGHT: picture, TEXT: [said]}, np.ones(1, bool))))
        found.append([entry.name for entry in recall.entries[0]])
    assert found[0] == found[1]
    assert len(found[2]) == RECALLED_BUDGET
    assert found[2][0] == "zib"


def answering(monkeypatch: pytest.MonkeyPatch, turn, current: list) -> None:
    """Points at the memory of the thing asked for, and at its middle; at another row's where shuffled.

    `current` holds the lives that are asked.
    """
    real = taught_words.Actor

    class Knowing:
        of: exam.Lives
        rows: np.ndarray

        def __init__(self, agent, n, **more) -> None:
            self.agent, self.n, self.recall = agent, n, more["recall"]
            self.real = real(agent, n, **more)

        def act(self, batch):
            output = self.real.act(batch)
            seen = batch["senses"][SIGHT][:, 0].numpy()
            of = current[0]
            at = {sight.tobytes(): row for row, sight in enumerate(of.scenes.sight)}
            rows = [at[one.tobytes()] for one in seen]
            points, cells = torch.zeros(self.n, RECALLED_BUDGET + 1), torch.zeros(self.n, 64)
            points[:, -1] = 1.0
            order = turn(self.n)
            middle = seeing.cells(of.scenes.boxes)[np.arange(len(of.words)), of.scenes.target]
            for row in range(self.n):
                if self.recall is not None:
                    names = [entry.name for entry in self.recall.entries[row]]
                    word = of.asked[rows[row]]
                    if word in names:
                        points[row, (names.index(word) + (order[row] - row)) % len(names)] = 2.0
                    cells[row, middle[rows[order[row]]]] = 1.0
            output.outputs[RECOGNISED], output.outputs[SOUGHT] = Categorical(points), Categorical(cells)
            return output

    ask = exam.NewWordLives.__init__

    def remembered(self, agent, of, *given, **more):
        current[:] = [of]
        ask(self, agent, of, *given, **more)

    monkeypatch.setattr(exam.NewWordLives, "__init__", remembered)
    monkeypatch.setattr(taught_words, "Actor", Knowing)


def test_known_answers_are_right_and_shuffled_answers_are_not(context: Context, agent: Agent, monkeypatch) -> None:
    current: list = []

    def judged(turn) -> dict[str, float]:
        with monkeypatch.context() as patch:
            answering(patch, turn, current)
            found = exam.examine(agent, context).in_full()
        of = current[0]
        assert {tuple(pair) for pair in of.scenes.meant.tolist()} <= set(HELD_OUT)
        assert all(crc32(word.encode()) % KEPT_WORDS == 0 for word in of.words.flat), "words that no lesson says"
        for measure in found:
            assert measure.rows["memory off"] <= 0.5, "who lives by memory knows nothing without it"
        said = next(measure for measure in found if measure.name == exam.SAID)
        assert said.rows["says no word for a thing that was never shown"] == 1.0
        return {measure.name: measure.score for measure in found}

    with examination(agent):
        assert judged(np.arange) == {exam.SAID: 1.0, exam.FOUND: 1.0}
        shuffled = judged(lambda n: np.roll(np.arange(n), 1))
    assert shuffled[exam.SAID] == 0.0
    assert shuffled[exam.FOUND] < 0.6


def test_a_life_answers_as_the_exam_does_with_the_same_tokens(
    context: Context, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Taught and asked as by the live page, each life gives the exam's answers."""
    tokens: list[torch.Tensor] = []
    real = taught_words.Actor.step

    def noted(self, percepts, recalled=None):
        tokens.append(self.recall(percepts).tokens)
        return real(self, percepts, recalled)

    monkeypatch.setattr(taught_words.Actor, "step", noted)
    of, agent = of_exam(context, 5), copy.deepcopy(agent)
    with torch.no_grad():  # certain of what it says, so that every life answers with one of the words
        agent.heads[RECOGNISED].none.bias.fill_(-9.0)
        agent.heads[RECOGNISED].gain.fill_(40.0)
    for questions in ([WHAT] * 5, [where(word) for word in of.asked]):
        tokens.clear()
        examined = exam.NewWordLives(agent, of).answered(questions)
        [by_exam] = tokens
        for row in range(5):
            now_s = [0.0]
            memory = Memory(open_store(None), clock=lambda now_s=now_s: now_s[0])
            child = ShowAndTell(agent, memory)
            for sight, name in zip(of.taught[row], of.words[row].tolist(), strict=True):
                crop = np.roll(sight, 9, 0)  # names are looked up by it, and it is not recalled
                child.teach(name, Moment(0.0, {SIGHT: crop, LOOKED: sight, VIEWS: crop[None], TEXT: teaching(name)}))
            memory.write(Moment(0.0, {SIGHT: of.scenes.sight[row]}), child.describe({SIGHT: of.scenes.sight[row]}))
            now_s[0] = exam.LATER_S
            typed = questions[row].capitalize()
            answered = answer_by_look(agent, memory, child.hashes, typed, of.scenes.sight[row])
            assert answered is not None
            torch.testing.assert_close(tokens[-1], by_exam[row : row + 1], atol=1e-5, rtol=1e-5)
            if typed == "What is that?":
                assert (answered.text, answered.points) == (examined.words[row], None)
                assert answered.sure == pytest.approx(examined.sure[row], abs=1e-4)
            else:
                assert (answered.text, answered.points) == ("there.", middle_of(int(examined.cells[row])))
                assert answered.sure == pytest.approx(examined.cells_sure[row], abs=1e-4)


def test_several_memories_of_one_word_add_up(agent: Agent) -> None:
    entries = [Entry(0.0, 1.0, name, {}, {}) for name in ("zib", "dop", "zib", None)]
    told = taught_words._words(np.array([0.2, 0.3, 0.2, 0.05, 0.25]), entries)
    assert taught_words._likeliest(told) == ("zib", pytest.approx(0.4))
    told = taught_words._words(np.array([0.2, 0.8]), entries[:1])
    assert taught_words._likeliest(told) == ("", pytest.approx(0.8))
    assert taught_words._likeliest(taught_words._named(told)) == ("zib", pytest.approx(0.2))
    told = taught_words._words(np.array([1.0]), [])
    assert taught_words._likeliest(told) == ("", 1.0)
    assert taught_words._likeliest(taught_words._named(told)) == ("", 0.0)


def test_an_untaught_agent_stays_below_the_floors(agent: Agent, tmp_path: Path) -> None:
    measures = held_to_the_floors("new_words", agent, tmp_path).measures
    for measure in measures.values():
        assert not measure.score > 0.8
        assert max(measure.floors.values()) > measure.chance + 0.2, "rules that see the looks do better than chance"
    assert not exam.GATE.judge(measures).passed


def test_an_agent_without_the_two_heads_is_not_examined_and_fails_the_gate(context: Context) -> None:
    agent = tiny_agent()
    agent.add_encoder(SIGHT)
    parts.admit(agent)
    agent.heads.pop(RECOGNISED)
    with examination(agent.eval()):
        assert exam.examine(agent, context).in_full() == []
    verdict = exam.GATE.judge({})
    assert not verdict.passed
    assert all("was not measured" in decision.reason for decision in verdict.decisions)


def test_lessons_have_only_taught_pairs(context: Context) -> None:
    of = lives(context, np.arange(30), TAUGHT, TAUGHT, np.zeros(30, bool), exam=False)
    assert {tuple(pair) for pair in of.scenes.pairs.reshape(-1, 2).tolist()} <= set(TAUGHT)
    assert len(np.unique(lesson.lesson_episodes(context, 40))) == 40
