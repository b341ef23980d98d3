"""The caregiver, the pictures that are asked about, and the exam of names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from devmind import worlds
from devmind.agent.agent import Agent
from devmind.config import load
from devmind.curriculum.examining import examination
from devmind.curriculum.stage import Context
from devmind.errors import DevmindError
from devmind.seeding import numpy_rng
from devmind.testing import tiny_agent
from stages.language import parts, seeing
from stages.language.answering import SURE
from stages.language.caregiver import grammar, scene
from stages.language.caregiver.scene import HELD_OUT, PAIRS, TAUGHT, Scene, Thing
from stages.language.caregiver.views import in_light_of_one_colour
from stages.language.hand_rules import CLASSIFIERS, HUE, CutOuts, brightness, hue
from stages.language.name import exam, lesson
from stages.language.name.scenes import scenes
from stages.language.parts import COLOUR_OF, NOUN_OF, OBJECTS
from stages.language.seeing import Page
from tests.stages.floors import held_to_the_floors


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return Context(load("tiny", sets=["exam.episodes_scale=0.04"]), 0, "cpu", tmp_path, worlds.make)


@pytest.fixture(scope="module")
def agent() -> Agent:
    agent = tiny_agent()
    agent.add_encoder("sight")
    parts.admit(agent)
    return agent.eval()


SCENE = Scene((Thing(0, 0, 0), Thing(6, 1, 1), Thing(2, 0, 2)))  # red ball, orange box, blue ball


def test_answers_are_true() -> None:
    asked = {question: answer for ask in grammar.ASKED for question, answer in ask(SCENE)}
    assert asked["what colour is the box?"] == "orange."
    assert "what colour is the ball?" not in asked  # there are two
    assert asked["where is the blue ball?"] == "on the right."
    assert asked["what is in the middle?"] == "an orange box."
    assert asked["how many balls are there?"] == "two."
    assert asked["how many cans are there?"] == "none."
    assert asked["is the red ball on the left?"] == "yes."
    assert asked["is the red ball in the middle?"] == "no."
    there = {question for question, _ in grammar.presences(SCENE)}
    assert (
        sum(asked[question] == "yes." for question in there) == sum(asked[question] == "no." for question in there) == 3
    )


def test_every_word_of_the_caregiver_is_known() -> None:
    for line in grammar.talk(20_000, "test")[0].splitlines():
        if line:
            grammar.check_words(line)


@pytest.mark.parametrize(
    ("said", "says"),
    [
        ("go to the red bal", "'bal' .* did you mean 'ball'"),
        ("fetch", "'fetch'"),
        (" ", "no words"),
        ("gehe", "'gehe'"),
    ],
)
def test_an_unknown_word_is_named(said: str, says: str) -> None:
    with pytest.raises(DevmindError, match=says):
        grammar.check_words(said)


def test_the_nats_of_choices_are_those_of_the_draws() -> None:
    """Over many exchanges a listener that knows all choices needs what `nats` says: equally likely options."""
    choices = grammar.Choices(numpy_rng("test"))
    drawn = [choices.of("abcd") for _ in range(4000)]
    assert choices.nats == pytest.approx(4000 * np.log(4))
    assert np.abs(np.bincount([ord(c) - 97 for c in drawn]) / 4000 - 0.25).max() < 0.03


def test_held_out_pairs_share_their_words_with_taught_ones() -> None:
    assert set(HELD_OUT) | set(TAUGHT) == set(PAIRS)
    assert not set(HELD_OUT) & set(TAUGHT)
    for word in range(2):
        assert {pair[word] for pair in HELD_OUT} <= {pair[word] for pair in TAUGHT}


def test_lessons_show_no_held_out_pair_and_exams_ask_for_them(context: Context) -> None:
    shown = scenes(context, np.arange(40), TAUGHT, TAUGHT, np.zeros(40, bool))
    assert {tuple(pair) for pair in shown.pairs.reshape(-1, 2).tolist()} <= set(TAUGHT)
    asked = scenes(context, 2_000_000 + np.arange(40), HELD_OUT, PAIRS, np.zeros(40, bool))
    assert {tuple(pair) for pair in asked.meant.tolist()} <= set(HELD_OUT)
    others = np.arange(4) != asked.target[:, None]
    for word in range(2):  # one thing beside it has its colour, one its noun
        alike = (asked.pairs[..., word] == asked.meant[:, None, word]) & others
        assert alike.any(1).all()
    assert (asked.boxes[..., 2] > asked.boxes[..., 0]).mean() > 0.95


def test_the_looked_at_thing_is_in_the_middle(context: Context) -> None:
    shown = scenes(context, np.arange(20), TAUGHT, TAUGHT, np.ones(20, bool))
    middle = seeing.centres(shown.boxes)[np.arange(20), shown.target]
    assert np.abs(middle - 32).max() < 6


def test_the_scene_of_the_nursery_is_described_truly(context: Context) -> None:
    world = context.make_world("nursery", "bind", np.array([3]))
    truth = world.truth()
    spoken = scene.visible_scene(truth, 0)
    order = np.argsort(truth["boxes"][0, :4, 0])
    assert [thing.colour for thing in spoken.things] == truth["colour"][0, order].tolist()
    assert spoken.things[0].place == 0
    assert spoken.things[-1].place == 2


def test_an_answer_follows_its_question() -> None:
    pages, written = seeing.pages_of([Page("what?", " a."), Page("where is it?"), Page("what?", " a b.", given=2)])
    page, said = pages[0], written[0]
    assert bytes(n for n in page.tolist() if 0 <= n < 256) == b"what? a."
    assert bytes(n for n in said.tolist() if n >= 0) == b" a."
    at = int((said >= 0).nonzero()[0])
    assert page[at] == ord("?")  # what follows the question mark is the answer's first byte
    assert page[at + 1] == said[at]
    assert (written[1] == -1).all()
    assert bytes(n for n in pages[2].tolist() if 0 <= n < 256) == b"what? a b."
    assert bytes(n for n in written[2].tolist() if n >= 0) == b" b.", "what is given is read, not learned"


def test_no_answer_in_plain_light_reveals_which_pairs_occur(context: Context) -> None:
    """A noun is taught after any colour and in single-colour light; in plain light only the colour is taught."""
    pairs = [pair for pair in TAUGHT for _ in range(40)]
    pages = [lesson._question_page(numpy_rng("test", n, *pair), *pair) for n, pair in enumerate(pairs)]
    before = {colour: set() for colour in scene.COLOURS}
    for page, (colour, noun) in zip(pages, pairs, strict=True):
        learned = page.said[page.given : page.until]
        named = {word for word in (scene.COLOURS[colour], scene.NOUNS[noun]) if word in learned.strip(" .").split()}
        assert named == {scene.NOUNS[noun] if page.one_colour else scene.COLOURS[colour]}
        if page.question == lesson.WHAT and page.one_colour:
            before[page.said.split()[1]].add(scene.NOUNS[noun])
    assert all(nouns == set(scene.NOUNS) for nouns in before.values()), "a colour does not tell which noun follows"
    assert {page.question for page in pages} == {lesson.WHAT, lesson.COLOUR, lesson.KIND}


def test_single_colour_light_keeps_shapes_and_removes_colours() -> None:
    picture = np.array([[[215, 30, 30], [30, 165, 45], [35, 70, 225]]], np.uint8)
    lit = in_light_of_one_colour(np.repeat(picture[None], 500, 0), numpy_rng("light")).astype(float)
    share = lit / np.maximum(lit.sum(-1, keepdims=True), 1)
    clear = (lit.max(-1) < 255).all((1, 2)) & (lit.sum(-1) > 60).all((1, 2))
    assert clear.sum() > 100
    assert np.abs(share[clear] - share[clear][:, :, :1]).max() < 0.06, "all things have the light's colour"
    assert len(np.unique(lit[clear].argmax(-1))) == 3


def test_known_answers_score_one_and_shuffled_answers_are_at_chance(
    context: Context, agent: Agent, monkeypatch
) -> None:
    big = Context(load("tiny", sets=["exam.episodes_scale=1"]), 0, "cpu", context.out, worlds.make)
    truth: list = []
    real = scenes

    def remembered(*given):
        truth.append(real(*given))
        return truth[-1]

    def judged(shuffle: bool) -> dict[str, float]:
        truth.clear()
        order = numpy_rng("shuffled").permutation
        say = lambda a, sight: [lesson.answer(truth[0].names[i]) for i in turn(len(sight))]  # noqa: E731
        middle = lambda shown: seeing.cells(shown.boxes)[np.arange(len(shown.target)), shown.target]  # noqa: E731
        turn = order if shuffle else np.arange
        monkeypatch.setattr(exam, "scenes", remembered)
        monkeypatch.setattr(exam, "says", lambda a, sight: (say(a, sight), np.ones(len(sight))))
        monkeypatch.setattr(exam, "finds", lambda a, shown, questions=None: (exam.nearest(
            middle(shown)[turn(len(shown.target))], shown.boxes), np.ones(len(shown.target))))  # fmt: skip
        return {measure.name: measure.score for measure in exam.examine(agent, big.glimpse()).alone()}

    with examination(agent):
        assert judged(shuffle=False) == {exam.SAY: 1.0, exam.FIND: 1.0}
        shuffled = judged(shuffle=True)
    assert abs(shuffled[exam.SAY] - 1 / len(HELD_OUT)) < 0.12
    assert abs(shuffled[exam.FIND] - 0.25) < 0.15


def test_an_untaught_agent_is_at_chance_and_below_the_floors(agent: Agent, tmp_path: Path) -> None:
    measures = held_to_the_floors("name", agent, tmp_path).measures
    assert measures[exam.SAY].score == 0.0
    assert measures[exam.FIND].score < 0.6
    assert 0 <= measures[exam.SAY].rows[SURE] <= 1
    assert 0 <= measures[exam.FIND].rows[exam.OF_CELL] <= 1
    for measure in measures.values():
        floors = measure.floors
        assert floors[HUE] > floors[CLASSIFIERS] + 0.2, "who tells the noun by brightness knows it in any colour"
    assert measures[exam.FIND].floors["nearest neighbours on cut-out pixels"] > 1 / 4
    assert measures[exam.SAY].rows["sight off"] == 0.0
    assert not exam.GATE.judge(measures).passed


def test_things_are_named_in_the_light_that_teaches_the_word(context: Context) -> None:
    batch = lesson.lesson_batch(context, 0, 80)
    pointed, called, sight = batch["pointed"][:, 0], batch["called"], batch["senses"]["sight"][:, 0]
    asked, several = pointed.any(-1), (pointed > 0).sum(-1)
    assert int(asked.sum()) >= 75  # every row is about something, except what is hidden
    assert (several[::2] <= 1).all(), "who is asked what it looks at is asked about one thing"
    torch.testing.assert_close(pointed[asked].sum(-1), torch.ones(int(asked.sum())))
    assert set(several[asked].tolist()) >= {1, 2}
    plain = (sight == batch["plain"]).flatten(1).all(1)
    assert torch.equal(sight[~plain], batch["lit"][~plain])
    for row in range(80):
        thing, colour, noun = (called[head][row] for head in (OBJECTS, COLOUR_OF, NOUN_OF))
        assert 1 <= thing.sum() <= 4
        assert set(thing.tolist()) == {0, 1}
        assert torch.equal(colour >= 0, thing > 0)
        assert torch.equal(noun >= 0, thing > 0)
        assert (thing[pointed[row] > 0] > 0).all(), "what is pointed at is something"
        if several[row] > 1:
            assert not plain[row], "who goes by the noun alone sees no colours"
            assert len(set(noun[pointed[row] > 0].tolist())) == 1, "all that is meant has one noun"


def test_the_loss_counts_pointing_only_where_something_is_pointed_at(context: Context, agent: Agent) -> None:
    batch = lesson.lesson_batch(context, 0, 8)
    loss, scalars = seeing.loss(agent, batch)
    assert loss.isfinite()
    assert 1.0 < scalars["points"] < 2 * np.log(64)
    wrong = {**batch, "pointed": batch["pointed"].roll(9, -1)}
    assert seeing.loss(agent, wrong)[1]["points"] != scalars["points"]
    silent = {**batch, "pointed": torch.zeros_like(batch["pointed"])}
    assert "points" not in seeing.loss(agent, silent)[1]


def test_brightness_hides_the_colour_of_a_thing_and_hue_its_form() -> None:
    rng = numpy_rng("rules")
    form, colour = rng.uniform(0.2, 1.0, (5, 12 * 12, 1)), rng.uniform(0.2, 1.0, (5, 1, 3))
    cut_outs = (form * colour).reshape(5, -1)
    recoloured, reformed = (each.reshape(5, -1) for each in (form * colour[..., [1, 2, 0]], form[::-1] * colour))
    np.testing.assert_allclose(brightness(recoloured), brightness(cut_outs))
    np.testing.assert_allclose(hue(reformed), hue(cut_outs))
    assert np.abs(hue(recoloured) - hue(cut_outs)).max() > 0.1
    assert np.abs(brightness(reformed) - brightness(cut_outs)).max() > 0.5
    np.testing.assert_allclose(np.linalg.norm(hue(cut_outs), axis=1), 1.0)
    assert np.isfinite(brightness(np.zeros((1, 432)))).all()
    assert np.isfinite(hue(np.zeros((1, 432)))).all()


def test_likeness_adds_the_nearest_of_the_colour_and_of_the_noun() -> None:
    known = np.array([[0.0, 0.0], [0.0, 9.0], [9.0, 0.0]], np.float32)
    rules = CutOuts(known, np.array([[0, 0], [0, 1], [1, 0]]), (None, None))  # type: ignore[arg-type]
    shown = np.array([[[1.0, 1.0], [9.0, 9.0]]], np.float32)
    # The nearest of colour 1 lies at (9, 0), the nearest of noun 1 at (0, 9).
    np.testing.assert_allclose(rules.likeness(shown, np.array([[1, 1]])), [[-(65 + 65), -(81 + 81)]])
    np.testing.assert_allclose(rules.likeness(shown, np.array([[0, 0]])), [[-4, -162]])


def test_every_colour_is_spelled_to_its_end_beside_every_form() -> None:
    """Where the noun is learned the light has one colour, so the colour's first letter is given, and no more of it."""
    assert len({colour[0] for colour in scene.COLOURS}) == len(scene.COLOURS), "the first letter tells a colour"
    rng, spelled = numpy_rng("spelled"), set()
    for _ in range(400):
        for noun, name in enumerate(scene.NOUNS):
            page = seeing.named_apart(rng, lesson.WHAT, 0, noun)
            if page.one_colour:
                learned = page.said[page.given :]
                spelled.add((page.said[page.given - 1] + learned[: -len(f" {name}.")], noun))
                assert learned.endswith(f" {name}.")
    assert spelled == {(colour, noun) for colour in scene.COLOURS for noun in range(len(scene.NOUNS))}
