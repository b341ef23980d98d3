"""Reading by pieces of a vocabulary, and on a pretrained trunk: the tokenizer of a run, the cost of pages, lessons."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from typer.testing import CliRunner

from devmind import worlds
from devmind.agent.agent import Agent
from devmind.agent.config import SIZES, AgentConfig
from devmind.agent.vocabulary import make_vocabulary
from devmind.cli.app import app
from devmind.config import load
from devmind.curriculum.examining import examination
from devmind.curriculum.journal import Journal
from devmind.curriculum.stage import Context, Lesson
from devmind.curriculum.start import give_reading
from devmind.curriculum.teaching import teach
from devmind.errors import ConfigError, ExamError
from devmind.learners.joint import JointLoss
from devmind.testing import tiny_agent
from stages.language import lessons, parts
from stages.language.grammar import exam as grammar
from stages.language.new_words import lesson as new_words
from stages.language.read import corpus, exam, saying
from stages.language.read import lesson as read_lesson
from stages.language.read.pages import pieces_of, telling_pieces
from stages.language.seeing import Page, as_read, pages_of
from stages.language.stage import LanguageStage
from stages.language.teaching import supervised_lesson


def context(folder: Path, *sets: str) -> Context:
    return Context(load("tiny", sets=["device=cpu", "threads=1", "loggers=[]", *sets]), 0, "cpu", folder, worlds.make)


def by_pieces(folder: Path, agent: Agent | None = None, pieces: int = 300) -> Agent:
    """An untaught agent that reads by pieces of the caregiver's sentences in lessons."""
    agent, stage = agent or tiny_agent(), LanguageStage()
    give_reading(stage, agent, context(folder, "text.tokenizer=bpe", f"text.pieces={pieces}"))
    stage.admit(agent)
    return agent.eval()


def reading(given: Context, steps: int) -> Lesson:
    """Reading alone, as `read` is taught beside others."""
    by, how = (read_lesson.loss, read_lesson.lesson_batch), (lessons.PAGES, lessons.LEARNING_RATE, 0.0)
    return supervised_lesson(
        given, "read", *by, {given.config.size: steps}, *how, learns_from=(read_lesson.group(given),)
    )


def test_a_vocabulary_is_made_only_of_the_lessons_text(tmp_path: Path) -> None:
    text = corpus.caregiver(context(tmp_path)).taught
    encoder = parts.reader(by_pieces(tmp_path))
    assert encoder.pieces.to_str() == make_vocabulary(text, 300) == make_vocabulary(text, 300)
    assert encoder.pieces.get_vocab_size() == len(encoder.table.weight) == 300
    file = tmp_path / "book.txt"
    file.write_text("one two " * 450 + "zebra " * 66)  # the zebras are held out
    stage, agent = LanguageStage(), tiny_agent()
    give_reading(stage, agent, context(tmp_path, "text.tokenizer=bpe", "text.pieces=280", f"text.files=[{file}]"))
    known = agent.encoder("text").pieces.get_vocab()  # type: ignore[union-attr]
    assert "Ġtwo" in known
    assert not any("z" in piece and len(piece) > 1 for piece in known)


@pytest.mark.parametrize("text", ["look, a red ball. ", "Grün ist der Baum, 猫は寝る\r\n", "<s> a </s>\t 12 "])
def test_the_cost_of_a_text_is_the_sum_over_its_pieces(tmp_path: Path, text: str) -> None:
    """On one page: the sum of log probabilities by hand, with every piece counted at a character."""
    agent, text = by_pieces(tmp_path), text * 2
    encoder = parts.reader(agent)
    pieces, begins = pieces_of(encoder, text)
    assert encoder.pieces.decode(pieces.tolist(), skip_special_tokens=False) == text
    assert (np.diff(begins) >= 0).all()
    with examination(agent):
        nats = exam.nats_of(agent, text, 4000)
        page = torch.tensor([[encoder.begin, *pieces[:-1]]])[:, None]
        here = torch.ones(1, 1, dtype=torch.bool)
        batch = {"senses": {"text": page}, "present": {"text": here}, "first": here, "valid": here}
        logits = agent.forward(batch, ["text"])["text"].logits[0, 0].log_softmax(-1)
    half = len(pieces) // 2  # what follows half a page of such a short text is predicted from all before it too
    each = -logits[torch.arange(len(pieces)), torch.from_numpy(pieces)].double().numpy()
    assert len(nats) == len(text)
    assert nats[: begins[half]].sum() == pytest.approx(each[:half].sum(), rel=1e-4)
    assert nats.sum() == pytest.approx(each.sum(), rel=1e-4)


def test_an_absent_piece_costs_and_changes_nothing(tmp_path: Path) -> None:
    agent = by_pieces(tmp_path)
    rows = torch.tensor([[40, 41, 42, -1, -1], [40, 41, 42, 43, 44]])
    with torch.no_grad():
        nats, alone = telling_pieces(agent, rows), telling_pieces(agent, rows[:1, :3])
    torch.testing.assert_close(nats[0], torch.cat((alone[0], torch.zeros(2))))
    assert (nats[1] > 0).all()


def test_a_vocabulary_that_loses_letters_is_refused(tmp_path: Path) -> None:
    from tokenizers import normalizers

    agent = by_pieces(tmp_path)
    parts.reader(agent).pieces.normalizer = normalizers.Lowercase()
    with pytest.raises(ExamError, match="does not reproduce a text exactly"):
        exam.nats_of(agent, "Look, A Ball.", 64)


def test_pages_of_bytes_become_pieces_with_the_same_targets(tmp_path: Path) -> None:
    agent = by_pieces(tmp_path)
    encoder = parts.reader(agent)
    asked = [Page("what is that?", " a red ball.", given=len(" a red ")), Page("how many?", " two."), Page("look.")]
    read, written = pages_of(asked)
    here = torch.ones(3, 1, dtype=torch.bool)
    batch = {"senses": {"text": read[:, None]}, "present": {"text": here}, "written": written[:, None]}
    found = as_read(agent, batch)
    pages, learned = found["senses"]["text"][:, 0], found["written"][:, 0]
    assert encoder.decode(pages) == ["what is that? a red ball.", "how many? two.", "look."]
    assert encoder.decode(learned) == ["ball.", " two.", ""]
    for page, each in zip(pages.tolist(), learned.tolist(), strict=True):  # each position predicts its next piece
        assert all(page[at + 1] == number for at, number in enumerate(each) if number >= 0)
    assert torch.equal(as_read(lessons_reader(), batch)["senses"]["text"], batch["senses"]["text"])


def test_pieces_lie_where_the_batch_lies(tmp_path: Path) -> None:
    """On a graphics card targets that were left on the CPU ended every lesson with an answer; here all that is made
    without a device lies elsewhere."""
    agent = by_pieces(tmp_path)
    read, written = pages_of([Page("what is that?", " a red ball."), Page("look.")])
    here = torch.ones(2, 1, dtype=torch.bool)
    batch = {"senses": {"text": read[:, None]}, "present": {"text": here}, "written": written[:, None]}
    with torch.device("meta"):
        found = as_read(agent, batch)
    assert (found["senses"]["text"].device, found["written"].device) == (read.device, read.device)


def lessons_reader() -> Agent:
    agent = tiny_agent()
    parts.admit(agent)
    return agent


@pytest.mark.parametrize("part", sorted(lessons.OF))
def test_every_lesson_can_be_taught_by_pieces(tmp_path: Path, part: str) -> None:
    given, agent = context(tmp_path), by_pieces(tmp_path)
    value, _ = lessons.LOSSES[part](agent, lessons.OF[part].lesson_batch(given, 0, 4))
    value.backward()
    assert float(value) > 0
    assert agent.encoder("text").table.weight.grad is not None  # type: ignore[union-attr]


def test_new_words_and_grammar_work_by_pieces(tmp_path: Path) -> None:
    given, agent = context(tmp_path), by_pieces(tmp_path)
    assert float(new_words.loss(agent, new_words.lesson_batch(given, 0, 4))[0]) > 0
    with examination(agent):
        told = grammar.nats(agent, ["look, a red ball.", "no."])
        alone = exam.nats_of(agent, "no.", 64).sum()
    assert told[1] == pytest.approx(alone, rel=1e-4)
    assert told[0] > told[1]


def test_reading_by_pieces_is_taught_examined_and_continued(tmp_path: Path) -> None:
    agent, given = by_pieces(tmp_path), context(tmp_path)
    before = score(agent, given)
    teach(reading(given, 60), 60, agent, given, Journal(tmp_path / "journal.jsonl"))
    after = score(agent, given)
    assert after < before - 0.5
    agent.save_pretrained(tmp_path / "agent")
    again = CliRunner().invoke(app, ["say", "look, a", "--agent", str(tmp_path / "agent"), "--length", "40"])
    assert again.exit_code == 0, again.output
    said = "".join(saying.go_on(agent.eval(), "look, a", 40, torch.Generator().manual_seed(1)))
    assert len(said.encode()) >= 40
    assert again.stdout.startswith("look, a")


def test_a_text_that_ends_in_half_a_character_is_no_error(tmp_path: Path) -> None:
    by_pieces(tmp_path).save_pretrained(tmp_path / "agent")
    said = []
    for seed in range(8):
        words = ["say", "look, a", "--agent", str(tmp_path / "agent"), "--length", "1", "--seed", str(seed)]
        result = CliRunner().invoke(app, words)
        assert result.exit_code == 0, repr(result.exception)
        said.append(result.stdout)
    assert "look, a\n" in said, "half a character alone is not printed"
    assert len(set(said)) > 1


def score(agent: Agent, given: Context) -> float:
    with examination(agent):
        (measure,) = exam.examine(agent, given.glimpse()).alone()
    return measure.score


@pytest.mark.parametrize("tokenizer", ["bytes", "bpe", "own"])
def test_a_pretrained_trunk_is_taught_the_same_lessons(tmp_path: Path, tokenizer: str) -> None:
    agent, stage = pretrained(tmp_path), LanguageStage()
    given = context(tmp_path, f"text.tokenizer={tokenizer}", "text.pieces=300")
    give_reading(stage, agent, given)
    stage.admit(agent)
    assert parts.reader(agent).tokenizer == ("bytes" if tokenizer == "bytes" else "bpe")
    before = score(agent.eval(), given)
    teach(reading(given, 30), 30, agent, given, Journal(tmp_path / "journal.jsonl"))
    assert score(agent.eval(), given) < before - 0.1
    loss = JointLoss(lessons.LOSSES, lessons.WEIGHTS)
    value, _ = loss(agent, lessons.batch_in_turn(given, "talk", 0, 4))
    assert torch.isfinite(value)
    assert "".join(saying.go_on(agent, "look, a", 20, torch.Generator().manual_seed(1)))


def test_every_lesson_leaves_a_pretrained_trunk_unchanged(tmp_path: Path) -> None:
    agent, stage = pretrained(tmp_path), LanguageStage()
    given = context(tmp_path, "text.tokenizer=own")
    give_reading(stage, agent, given)
    stage.admit(agent)
    agent.config.stages = ["reflex", "language"]
    beneath = len(agent.trunk.decoder.layers) - SIZES["tiny"].grown
    theirs = tuple(f"trunk.decoder.layers.{number}." for number in range(beneath))
    for lesson in stage.lessons(given):
        before = copy.deepcopy(agent.state_dict())
        teach(lesson, 2, agent, given, Journal(tmp_path / f"{lesson.name}.jsonl"))
        changed = [name for name, value in agent.state_dict().items() if not torch.equal(value, before[name])]
        assert changed, lesson.name
        assert not [name for name in changed if name.startswith(theirs)], lesson.name


def pretrained(folder: Path) -> Agent:
    """A newborn on a decoder of its width, whose vocabulary is made of the caregiver's sentences."""
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=310, tie_word_embeddings=False, **shape))
    model.save_pretrained(folder / "decoder")
    (folder / "tokenizer.json").write_text(make_vocabulary(corpus.caregiver(context(folder)).taught, 300))
    file = str(folder / "tokenizer.json")
    PreTrainedTokenizerFast(tokenizer_file=file, bos_token="<s>", eos_token="</s>").save_pretrained(folder / "decoder")
    return Agent(AgentConfig(size="tiny", pretrained=str(folder / "decoder")))


def test_an_agents_tokenizer_stays(tmp_path: Path) -> None:
    agent, stage = by_pieces(tmp_path), LanguageStage()
    before = copy.deepcopy(agent.state_dict())
    for same in ("text.tokenizer=bpe", "size=tiny"):
        give_reading(stage, agent, context(tmp_path, same))
    assert all(torch.equal(value, before[name]) for name, value in agent.state_dict().items())
    with pytest.raises(ConfigError, match="the agent has learned to read by 'bpe'"):
        give_reading(stage, agent, context(tmp_path, "text.tokenizer=bytes"))
    with pytest.raises(ConfigError, match="the agent has learned to read by 'bytes'"):
        give_reading(stage, lessons_reader(), context(tmp_path, "text.tokenizer=bpe"))


def test_unavailable_tokenizers_are_refused(tmp_path: Path) -> None:
    stage = LanguageStage()
    with pytest.raises(ConfigError, match="no tokenizer 'byte'"):
        give_reading(stage, tiny_agent(), context(tmp_path, "text.tokenizer=byte"))
    agent = tiny_agent()
    give_reading(stage, agent, context(tmp_path, "text.tokenizer=patches"))
    with pytest.raises(ConfigError, match="language is read only, not spoken"):
        stage.admit(agent)
    vocabulary = make_vocabulary("look, a red ball", 260).replace("<s>", "<q>")
    (tmp_path / "odd.json").write_text(vocabulary)
    with pytest.raises(ConfigError, match="no token that begins a page"):
        give_reading(stage, tiny_agent(), context(tmp_path, f"text.tokenizer={tmp_path / 'odd.json'}"))


def test_one_line_of_10_mb_is_read_by_pieces(tmp_path: Path) -> None:
    file = tmp_path / "line.txt"
    file.write_bytes(b"abcdefghij" * 1_000_000)
    agent = tiny_agent()
    give_reading(LanguageStage(), agent, context(tmp_path, "text.tokenizer=bpe", f"text.files=[{file}]"))
    pieces, begins = pieces_of(parts.reader(agent), "abcdefghij" * 10_000)
    assert len(pieces) < 10_000
    assert begins[-1] < 100_000


def test_a_text_given_by_name_is_read(tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    for name in ("text/one.txt", "two.txt"):
        (tmp_path / name).write_text(f"this is {name} " * 300)
    given = replace(context(tmp_path, f"text.files=[{tmp_path / 'two.txt'}]"), data=tmp_path)
    assert corpus.corpus(given).source == "two.txt"
    assert corpus.corpus(replace(given, config=load("tiny"))).source == "one.txt"
    with pytest.raises(ConfigError, match="There is no text"):
        corpus.corpus(context(tmp_path, "text.files=[gone.txt]"))


@pytest.mark.parametrize("command", [("run", "language", "--config", "tiny"), ("exam", "language")])
@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("odd.txt", b"caf\xe9 " * 1000, "is not UTF-8: byte 3"),
        ("empty.txt", b"", "has 0 characters"),
        ("folder", None, "text.files expects a file, and"),
        ("gone.txt", None, "There is no file"),
    ],
)
def test_an_invalid_text_is_reported_in_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: tuple[str, ...], name: str, data: bytes | None, says: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if data is not None:
        (tmp_path / name).write_bytes(data)
    elif name == "folder":
        (tmp_path / name).mkdir()
    agent = lessons_reader()
    agent.config.stages = ["reflex", "language"]
    agent.save_pretrained(tmp_path / "agent")
    words = ["stage", *command, "--set", f"text.files=[{name}]", "--agent", "agent"]
    result = CliRunner().invoke(app, words + (["--skill", "read"] if command[0] == "exam" else ["--out", "out"]))
    assert result.exit_code == 2, result.output
    assert says in " ".join(result.output.split())


def test_the_report_counts_pieces_beside_bytes(tmp_path: Path) -> None:
    agent = by_pieces(tmp_path)
    assert "pieces of a vocabulary of 300" in exam.tokens_of(agent, "look, a red ball.")
    assert exam.tokens_of(lessons_reader(), "look") == ""
