"""Reading: the counts of the floors, the corpus, pages, the exam, and continuing a text."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle, islice
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from devmind import worlds
from devmind.agent.agent import Agent
from devmind.agent.text import TextEncoder
from devmind.config import load
from devmind.curriculum.examining import examination
from devmind.curriculum.journal import Journal
from devmind.curriculum.stage import Context
from devmind.curriculum.teaching import teach
from devmind.errors import ConfigError, DevmindError, ExamError
from devmind.testing import tiny_agent
from stages.language import parts
from stages.language.read import corpus, exam, lesson, saying
from stages.language.read.ngrams import WittenBell
from stages.language.read.pages import page_batch, telling
from stages.language.read.readout import ReadOut
from tests.stages.language.test_reading_pieces import reading


def reader(tokenizer: str = "bytes", random: bool = False) -> Agent:
    """An untaught agent; `random` fills the trunk's output projections, so that it attends to earlier tokens."""
    agent = tiny_agent()
    parts.admit(agent, tokenizer)
    if random:
        for name, parameter in agent.named_parameters():
            if "o_proj" in name or "down_proj" in name:
                torch.nn.init.normal_(parameter, std=0.5, generator=torch.Generator().manual_seed(1))
    return agent.eval()


def numbers(text: str) -> np.ndarray:
    return np.frombuffer(text.encode(), np.uint8).astype(np.int64)


@pytest.mark.parametrize("order", [1, 2, 5])
def test_a_gram_gives_every_context_a_distribution(order: int) -> None:
    model = WittenBell(numbers("abracadabra abrakadabra"), 256, order)
    for context in ("", "a", "abr", "zzzz", "abra"):
        every = np.array([model.nats(numbers(context + chr(c)) if c < 128 else np.append(numbers(context), c))[-1]
                          for c in range(256)])  # fmt: skip
        assert np.exp(-every).sum() == pytest.approx(1.0)


def test_grams_equal_a_hand_calculation() -> None:
    # Of 'abab': a and b twice each, so T = 2, p1(a) = (2 + 2/4) / 6; after a came b twice: p2(b|a) = (2 + p1) / 3.
    one = (2 + 2 / 4) / 6
    nats = WittenBell(np.array([0, 1, 0, 1]), 4, 2).nats(np.array([0, 1, 2]))
    np.testing.assert_allclose(np.exp(-nats), [one, (2 + one) / 3, (0 + (0 + 2 / 4) / 6) / 2], atol=1e-12)


def test_the_floor_equals_an_independent_count(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted independently on this split: 1.774, 1.669 and 1.698 nats a character."""
    monkeypatch.setattr(ReadOut, "__init__", lambda self, taught: None)  # another floor, and the dearest one
    monkeypatch.setattr(ReadOut, "nats", lambda self, data: np.zeros(len(data)))
    text = corpus.of_files((data_folder / "text" / "tinyshakespeare.txt",))
    assert len(text.held_out) == 111_540
    assert text.sha256.startswith(exam.SHAKESPEARE)
    assert exam.floors(text)["Witten-Bell 5-gram"] == pytest.approx(1.669, abs=5e-4)


def test_a_text_is_split_and_hashed(tmp_path: Path) -> None:
    file = tmp_path / "grüße.txt"
    file.write_text("ä schöner tag\n" * 1000, encoding="utf-8")
    text = corpus.of_files((file,))
    assert len(text.held_out) == 1400
    assert text.taught + text.held_out == file.read_text(encoding="utf-8")
    file.write_text("ä schöner tax\n" * 1000, encoding="utf-8")
    corpus.of_files.cache_clear()
    assert corpus.of_files((file,)).sha256 != text.sha256


def test_a_readout_gives_a_distribution_over_bytes_and_learns_the_next() -> None:
    taught = np.frombuffer(b"abcabcabd" * 400, np.uint8)
    model = ReadOut(taught)
    before = np.frombuffer(b"abcab", np.uint8)
    every = np.array([model.nats(np.append(before, byte))[-1] for byte in np.unique(taught)])
    assert np.exp(-every).sum() == pytest.approx(1.0)
    told = model.nats(np.frombuffer(b"abcabcabdabc", np.uint8))
    assert told[4:].mean() < 0.3  # the four bytes before tell everything except whether the third letter is a c or a d
    assert model.nats(np.frombuffer(b"ab!", np.uint8))[-1] == pytest.approx(2 * log(256))


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"caf\xe9 " * 1000, "is not UTF-8: byte 3"),
        (b"", "has 0 characters"),
        (b"a\0" * 2000, "the character number zero"),
    ],
)
def test_files_that_are_no_text_are_refused(tmp_path: Path, data: bytes, says: str) -> None:
    file = tmp_path / "text.txt"
    file.write_bytes(data)
    with pytest.raises(ConfigError, match=says):
        corpus.read_text(file)


def test_one_line_of_10_mb_is_read(tmp_path: Path, context: Context) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "long.txt").write_bytes(b"abcdefghij" * 1_000_000)
    given = Context(context.config, 0, "cpu", tmp_path, worlds.make, tmp_path)
    batch = lesson.lesson_batch(given, 0, 4)
    assert batch["pieces"].shape == (4, 1, 64)
    assert len(corpus.corpus(given).held_out) == 1_000_000


@pytest.mark.slow
def test_one_line_of_10_mb_goes_through_its_lesson_and_the_exam_with_floors(tmp_path: Path) -> None:
    """Of words that are drawn at random, so counting is a floor that an agent after three steps does not reach."""
    rng, letters = np.random.default_rng(0), np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(["".join(rng.choice(letters, length)) for length in rng.integers(2, 9, 2000)])
    line = " ".join(rng.choice(words, 1_800_000))[: 10 * 2**20]
    assert len(line) == 10 * 2**20
    (tmp_path / "line.txt").write_text(line)
    config = load("tiny", sets=["device=cpu", f"text.files=[{tmp_path / 'line.txt'}]"])
    given, agent = Context(config, 0, "cpu", tmp_path, worlds.make), reader()
    with examination(agent):
        before = exam.nats_of(agent, line[:2000], 64).mean()
    teach(reading(given, 3), 3, agent, given, Journal(tmp_path / "journal.jsonl"))
    with examination(agent):
        after = exam.nats_of(agent, line[:2000], 64).mean()
        (measure,) = exam.examine(agent, given).in_full()
    assert f"{int(len(line) * 0.9):,} characters taught" in measure.note
    assert measure.n == round((len(line) - int(len(line) * 0.9)) / exam.BLOCK)
    assert len(measure.floors) == 3
    assert after < before, "it learned of the line"
    assert measure.score == pytest.approx(after, abs=0.1), "the end of the line is read as its beginning is"
    assert measure.floor < log(27) < measure.score


def test_the_exam_has_new_sentences_of_the_caregiver(context: Context) -> None:
    text = corpus.corpus(context)
    assert text.source == corpus.CAREGIVER
    exchanges = set(text.taught.split("\n\n"))
    heard = [one for one in text.held_out.split("\n\n") if one]
    assert np.mean([one in exchanges for one in heard]) < 0.05
    assert 0.05 < text.ceiling < exam.floors(text)["Witten-Bell 5-gram"]


@pytest.mark.parametrize("tokenizer", ["bytes", "patches"])
def test_a_page_predicts_each_byte_from_earlier_ones(tokenizer: str) -> None:
    agent = reader(tokenizer, random=True)
    page = np.frombuffer(b"here is a red ball on the left. ", np.uint8)
    other = page.copy()
    other[20] = ord("x")
    with torch.no_grad():
        one, two = (telling(agent, page_batch(x[None])) for x in (page, other))
    torch.testing.assert_close(one[:, :20], two[:, :20])
    assert (one[0, 20:] - two[0, 20:]).abs().max() > 1e-4


def test_predictions_when_writing_equal_those_when_reading() -> None:
    """What the exam counts is what cached writing computes."""
    agent = reader(random=True)
    page = np.frombuffer(b"here is a red ba", np.uint8)
    with torch.no_grad():
        nats = telling(agent, page_batch(page[None]))[0]
    from devmind.moment import Moment

    state = agent.new_state()
    percepts = agent.encode(state, Moment(0.0, {"text": "here"}, first=True))
    state, output = agent.begin(state, percepts, heads=["text"])
    logits = [output.outputs["text"].logits[0, -1]]
    for byte in page[4:-1]:
        state, output = agent.extend(state, "text", torch.tensor([[int(byte)]]), heads=["text"])
        logits.append(output.outputs["text"].logits[0, -1])
    told = torch.nn.functional.cross_entropy(
        torch.stack(logits), torch.from_numpy(page[4:].astype(np.int64)), reduction="none"
    )
    torch.testing.assert_close(told, nats[4:], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("length", [64, 96, 200, 500])
def test_every_byte_is_predicted_once_from_at_least_half_a_page(length: int) -> None:
    agent, data = reader(random=True), np.frombuffer(bytes(range(32, 127)) * 11, np.uint8)[:500]
    with torch.no_grad():
        nats = exam.page_nats(data, length, lambda pages: telling(agent, page_batch(pages)))
        first = telling(agent, page_batch(data[None, :length]))[0]
    assert len(nats) == len(data)
    np.testing.assert_allclose(nats[: length // 2], first[: length // 2].numpy(), atol=1e-5)


def test_blocks_consist_of_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "ä" * exam.BLOCK + "b" * exam.BLOCK
    monkeypatch.setattr(exam, "telling", lambda agent, batch: torch.ones(len(batch["pieces"]), 64))
    np.testing.assert_allclose(exam.by_block(exam.nats_of(reader(), text, 64)), [2.0, 1.0])


def test_an_untaught_agent_is_at_chance(context: Context) -> None:
    agent = reader()
    with examination(agent):
        (measure,) = exam.examine(agent, context).in_full()
    assert measure.score == pytest.approx(log(256), abs=0.7)
    assert measure.score > measure.floors["frequency of characters"] > measure.floors["Witten-Bell 5-gram"]
    assert not exam.gate(context).judge({"read": measure}).passed


def test_a_certain_right_prediction_reaches_the_ceiling(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """An agent that is certain of each right byte passes; on other bytes it fails."""
    monkeypatch.setattr(exam, "telling", lambda agent, batch: 0.04 + 0.02 * torch.rand(len(batch["pieces"]), 64))
    with examination(agent := reader()):
        (measure,) = exam.examine(agent, context).in_full()
    assert measure.score == pytest.approx(0.05, abs=0.002)
    assert exam.gate(context).judge({"read": measure}).passed


def test_shuffled_answers_are_worse_than_counting(context: Context, monkeypatch: pytest.MonkeyPatch) -> None:
    """Certainty about the bytes of another page is worse than counting characters."""

    def shuffled(agent: Agent, batch: Mapping[str, Any]) -> torch.Tensor:
        bytes_of = batch["pieces"].flatten(1)
        right = bytes_of == bytes_of.roll(1, 0)
        return torch.where(right, 0.05, 12.0)[:, :64]

    monkeypatch.setattr(exam, "telling", shuffled)
    with examination(agent := reader()):
        (measure,) = exam.examine(agent, context).in_full()
    assert measure.score > measure.floors["frequency of characters"]
    assert not exam.gate(context).judge({"read": measure}).passed


def test_another_text_of_the_same_name_is_refused(tmp_path: Path, context: Context) -> None:
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "book.txt").write_text("once upon a time " * 400)
    given = Context(context.config, 0, "cpu", tmp_path, worlds.make, tmp_path)
    agent = reader()
    agent.config.trained_on = ["text:book.txt#0123456789abcdef"]
    with examination(agent), pytest.raises(ExamError, match=r"another text of the name 'book.txt'"):
        exam.examine(agent, given.glimpse()).alone()


def test_a_text_is_continued_beyond_a_page() -> None:
    agent = reader(random=True)
    said = "".join(saying.go_on(agent, "once upon", 150, torch.Generator().manual_seed(3)))
    again = "".join(saying.go_on(agent, "once upon", 150, torch.Generator().manual_seed(3)))
    assert said == again
    assert len(said.encode()) >= 100
    assert said != "".join(saying.go_on(agent, "once upon", 150, torch.Generator().manual_seed(4)))


def writing(monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    """Let an agent write the bytes of `text` again and again, from its beginning on each page."""

    def writer(agent: Any, state: Any, percepts: Any, output: Any, most: int, generator: Any = None) -> Any:
        return (torch.tensor([[byte]]) for byte in islice(cycle(text), most))

    monkeypatch.setattr(saying, "Writer", writer)


@pytest.mark.parametrize("begun", ["a", "ab", "abc", "abcd"])
def test_no_character_is_cut_by_the_end_of_a_page(monkeypatch: pytest.MonkeyPatch, begun: str) -> None:
    writing(monkeypatch, "é€😀".encode())
    said = "".join(saying.go_on(reader(), begun, 200))
    assert set(said) == set("é€😀")
    assert len(said.encode()) >= 200


def test_the_number_zero_is_no_text_and_does_not_stop_the_next_page(monkeypatch: pytest.MonkeyPatch) -> None:
    writing(monkeypatch, b"a\0b")
    said = "".join(saying.go_on(reader(), "a", 200))
    assert set(said) == {"a", "b"}


def test_an_agent_that_cannot_read_says_so() -> None:
    with pytest.raises(DevmindError, match="never taught to read"):
        next(saying.go_on(tiny_agent(), "once", 3))
    with pytest.raises(DevmindError, match="no text to continue"):
        next(saying.go_on(reader(), " ", 3))


def test_one_line_of_10_mb_is_continued() -> None:
    assert "".join(saying.go_on(reader(), "abcdefghij" * 1_000_000, 4))
    assert "".join(saying.go_on(reader(), "ä" * 5_000_000, 4)) is not None


def test_patches_use_the_patched_text_encoder() -> None:
    encoder = reader("patches").encoder("text")
    assert isinstance(encoder, TextEncoder)
    assert encoder.patched
