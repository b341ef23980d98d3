"""Pages: tokenizer round trips, reading in pieces, cached writing, a pretrained trunk's own tokenizer."""

from __future__ import annotations

import copy
import json
import string
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from devmind.agent.agent import Agent
from devmind.agent.batch import collate, collate_tick
from devmind.agent.config import AgentConfig
from devmind.agent.describing import describe
from devmind.agent.text import END, NOTHING, TextEncoder, add_text, from_bytes, page_nats, text_loss
from devmind.agent.vocabulary import load_pieces, make_vocabulary
from devmind.agent.writing import STOPS, Writer, answer_questions, write
from devmind.errors import ConfigError, MomentError, PluginError
from devmind.moment import Moment
from devmind.testing.laws import ATOL
from tests.agent.conftest import make_rows, shake
from tests.agent.test_stepping import all_at_once, stepped

PAGES = ["Grün ist der Baum.", "a", "the cat sat on the mat and the dog", "猫は寝る"]


@pytest.fixture
def vocabulary(tmp_path: Path) -> Path:
    """A small byte-level BPE of the tokenizers library, with start and end tokens."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    pieces = Tokenizer(models.BPE())
    pieces.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pieces.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=["<s>", "</s>"], initial_alphabet=alphabet)
    pieces.train_from_iterator(PAGES * 3, trainer)
    pieces.save(str(tmp_path / "tokenizer.json"))
    return tmp_path / "tokenizer.json"


def reader(small_agent: Callable[..., Agent], tokenizer: str = "bytes", limit: int = 512, **config: object) -> Agent:
    agent = small_agent(senses=("body", "words"), shaken=False, **config)
    add_text(agent, tokenizer, limit)
    return shake(agent)


def pages(texts: list[str]) -> dict:
    return collate([[Moment(0.0, {"text": text}, first=True)] for text in texts])


@pytest.mark.parametrize("tokenizer", ["bytes", "patches", "bpe"])
def test_every_tokenizer_restores_the_page(small_agent: Callable[..., Agent], tokenizer: str, vocabulary: Path) -> None:
    agent = reader(small_agent, str(vocabulary) if tokenizer == "bpe" else tokenizer)
    encoder = agent.encoder("text")
    assert isinstance(encoder, TextEncoder)
    x = pages(PAGES)["senses"]["text"][:, 0]
    numbers = encoder.numbers(x)
    assert encoder.decode(numbers) == PAGES
    assert from_bytes(x) == PAGES
    lengths = encoder.present(numbers).sum(1).tolist()
    in_bytes = [len(page.encode()) for page in PAGES]
    if tokenizer == "bytes":
        assert lengths == [n + 1 for n in in_bytes]
    elif tokenizer == "patches":
        assert lengths == [-(-n // 8) + 1 for n in in_bytes]
    else:
        assert all(n < m for n, m in zip(lengths, in_bytes, strict=True) if m > 5)


def test_a_vocabulary_that_cuts_texts_reads_pages_whole(small_agent: Callable[..., Agent], vocabulary: Path) -> None:
    """Files of others often say so: pages were cut to that length, and filled up with a piece, without a word."""
    from tokenizers import Tokenizer

    x = pages(PAGES)["senses"]["text"][:, 0]
    whole = reader(small_agent, str(vocabulary)).encoder("text").numbers(x)
    pieces = Tokenizer.from_file(str(vocabulary))
    pieces.enable_truncation(3)
    pieces.enable_padding(length=9)
    pieces.save(str(vocabulary))
    encoder = reader(small_agent, str(vocabulary)).encoder("text")
    assert torch.equal(encoder.numbers(x), whole)
    assert encoder.decode(whole) == PAGES


def test_the_name_of_a_mark_in_a_text_is_no_mark(small_agent: Callable[..., Agent], vocabulary: Path) -> None:
    encoder = reader(small_agent, str(vocabulary)).encoder("text")
    said = ["the </s> cat <s> sat"]
    numbers = encoder.numbers(pages(said)["senses"]["text"][:, 0])
    assert encoder.decode(numbers) == said
    assert encoder.end not in numbers
    assert (numbers == encoder.begin).sum() == 1


def test_targets_are_the_next_tokens_and_then_the_end(small_agent: Callable[..., Agent]) -> None:
    x = pages(["abc", "a"])["senses"]["text"][:, 0]
    by_bytes = reader(small_agent).encoder("text")
    assert by_bytes.numbers(x).tolist() == [[256, 97, 98, 99], [256, 97, -1, -1]]
    assert by_bytes.targets(x).tolist() == [[97, 98, 99, END], [97, END, -1, -1]]
    patches = reader(small_agent, "patches").encoder("text")
    x = pages(["abcdefghi"])["senses"]["text"][:, 0]
    assert patches.numbers(x)[0, 1:].tolist() == [[97, 98, 99, 100, 101, 102, 103, 104], [105] + [NOTHING] * 7]
    assert patches.targets(x)[0].tolist() == [
        [97, 98, 99, 100, 101, 102, 103, 104], [105, END] + [NOTHING] * 6, [END] + [NOTHING] * 7
    ]  # fmt: skip


@pytest.mark.parametrize("tokenizer", ["bytes", "patches"])
def test_stepping_with_pages_equals_all_at_once(small_agent: Callable[..., Agent], tokenizer: str) -> None:
    agent, rng = reader(small_agent, tokenizer, layers=2, window=4), np.random.default_rng(0)
    rows = make_rows(2, 14, 3, ("body", "words"))
    rows = [
        [
            Moment(m.time_s, {**m.senses, "text": "x" * int(rng.integers(0, 70))}, first=m.first) if t % 3 else m
            for t, m in enumerate(row)
        ]
        for row in rows
    ]
    batch = collate(rows)
    assert not batch["present"]["text"].all()
    torch.testing.assert_close(stepped(agent, batch), all_at_once(agent, batch), atol=ATOL, rtol=0)


@pytest.mark.parametrize("tokenizer", ["bytes", "patches", "bpe"])
def test_page_written_with_the_cache_equals_greedy_rereading(
    small_agent: Callable[..., Agent], tokenizer: str, vocabulary: Path
) -> None:
    """Each written token is the likeliest one after those before it, by a pass over the whole page."""
    agent = reader(small_agent, str(vocabulary) if tokenizer == "bpe" else tokenizer, layers=2)
    encoder, head = agent.encoder("text"), agent.head("text")
    state = agent.new_state(2)
    percepts = agent.encode(state, [Moment(0.0, {"text": text}, first=True) for text in ("the cat ", "mat it is")])
    state, output = agent.begin(state, percepts, heads=["text"])
    kept = state.clone()
    state, said = write(agent, state, percepts, output, most=6)
    assert state.ring.is_open.all()
    _, more = write(agent, kept, percepts, output, most=6)
    assert more == said
    numbers = encoder.numbers(percepts.batch["senses"]["text"][:, 0])
    state, out = agent.end(state, percepts, effectors=[], heads=["guess"])
    assert out.outputs["guess"].logits.shape == (2, 5)
    # By hand: the page so far is read again for every token.
    for row in range(2):
        page = numbers[row, : int(encoder.present(numbers)[row].sum())][None]
        for _ in range(6):
            x = page.flatten(1)
            batch = {"senses": {"text": x[:, None]}, "present": {"text": torch.ones(1, 1, dtype=torch.bool)}}
            batch["first"] = batch["valid"] = torch.ones(1, 1, dtype=torch.bool)
            with torch.no_grad():
                features = agent.perceive(batch, ["trunk:text"]).of_senses["text"]
                best = head(_tapped(features)).mode()[0, 0, -1]
            if bool((best == encoder.end).any()):
                page = torch.cat((page, best[None, None]), 1)
                break
            page = torch.cat((page, best[None, None]), 1)
        begun = int(encoder.present(numbers)[row].sum())
        assert encoder.decode(page[:, begun:]) == [said[row]]


def test_confidence_of_a_writer_is_the_probability_of_its_tokens(small_agent: Callable[..., Agent]) -> None:
    """By one pass over the whole page; an answer's confidence is that of all its bytes up to the full stop."""
    agent = reader(small_agent)
    asked = collate_tick({"text": ["what?"]}, np.ones(1, bool))
    state = agent.new_state(1)
    percepts = agent.encode(state, asked)
    state, output = agent.begin(state, percepts, heads=["text"])
    writer = Writer(agent, state, percepts, output, 5)
    written = torch.cat(list(writer), 1)
    page = torch.cat((agent.encoder("text").numbers(asked["senses"]["text"][:, 0]), written), 1)
    here = torch.ones(1, 1, dtype=torch.bool)
    batch = {"senses": {"text": page[:, None]}, "present": {"text": here}, "first": here, "valid": here}
    with torch.no_grad():
        told = agent.forward(batch, ["text"])["text"].logits[0, 0].softmax(-1)
    begun = page.shape[1] - written.shape[1]
    each = told[torch.arange(begun - 1, page.shape[1] - 1), page[0, begun:]]
    torch.testing.assert_close(torch.cat(writer.sure), each, atol=1e-4, rtol=1e-3)
    (text,), (sure,) = answer_questions(agent, asked, 5)
    ends = [at + 1 for at, byte in enumerate(written[0].tolist()) if byte in STOPS.encode()]
    said = written[:, : min(ends, default=5)]
    assert text == agent.encoder("text").decode(said)[0]
    assert sure == pytest.approx(float(each[: said.shape[1]].prod()), rel=1e-2)


def test_an_answer_ends_behind_its_first_stop(
    small_agent: Callable[..., Agent], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What an untaught agent writes holds no full stop, so a letter that it writes is made one. It writes letters alone
    if the other tokens' vectors are zero: the likeliest token is then one of the 26, unless all of them have logits
    below zero.
    """
    agent = reader(small_agent)
    table = agent.encoder("text").table.weight
    letters = torch.zeros(len(table), 1)
    letters[torch.tensor(list(string.ascii_lowercase.encode()))] = 1
    table.data.mul_(letters)
    texts = [f"{word} is it?" for word in ("what", "who", "where", "how big", "which", "whose", "when", "why")]
    asked = collate_tick({"text": texts}, np.ones(len(texts), bool))
    whole, _ = answer_questions(agent, asked, 12)
    assert [len(text) for text in whole] == [12] * len(texts)
    at, row = max((text.index(byte), row) for row, text in enumerate(whole) for byte in text[:-1])
    stop = whole[row][at]
    monkeypatch.setattr("devmind.agent.writing.STOPS", stop)
    texts, sure = answer_questions(agent, asked, 12)
    assert texts == [text[: text.index(stop) + 1] if stop in text else text for text in whole]
    assert len(texts[row]) < len(whole[row])
    assert all(0 < one < 1 for one in sure)


def _tapped(encoded):
    from devmind.agent.taps import Tapped

    return Tapped(encoded.tokens, encoded.present)


@pytest.mark.parametrize("tokenizer", ["bytes", "patches", "bpe"])
def test_page_is_learned_and_recited(small_agent: Callable[..., Agent], tokenizer: str, vocabulary: Path) -> None:
    torch.manual_seed(0)
    agent = Agent(AgentConfig(size="tiny", width=32, layers=2))
    add_text(agent, str(vocabulary) if tokenizer == "bpe" else tokenizer)
    batch = pages(["the cat sat on the mat", "a dog ran home"])
    optimizer = torch.optim.AdamW(agent.parameters(), 1e-2)
    before = float(text_loss(agent, batch)[0].detach())
    for _ in range(150):
        optimizer.zero_grad()
        loss, scalars = text_loss(agent, batch)
        loss.backward()
        optimizer.step()
    assert before > 2
    assert float(scalars["nats"]) < 0.2
    agent.eval()
    state = agent.new_state(2)
    start = ("the cat ", "a dog ra") if tokenizer == "patches" else ("the cat", "a dog")
    percepts = agent.encode(state, [Moment(0.0, {"text": text}, first=True) for text in start])
    state, output = agent.begin(state, percepts, heads=["text"])
    _, said = write(agent, state, percepts, output, most=40)
    assert [a + b for a, b in zip(start, said, strict=True)] == ["the cat sat on the mat", "a dog ran home"]


@pytest.mark.parametrize("tokenizer", ["bytes", "patches", "bpe"])
def test_nats_per_byte_of_a_uniform_model_have_their_known_value(
    small_agent: Callable[..., Agent], tokenizer: str, vocabulary: Path
) -> None:
    agent = reader(small_agent, str(vocabulary) if tokenizer == "bpe" else tokenizer)
    alone = torch.cat([page_nats(agent, pages([page])) for page in PAGES])
    torch.testing.assert_close(page_nats(agent, pages(PAGES)), alone, atol=1e-4, rtol=0)
    encoder = agent.encoder("text")
    encoder.table.weight.data.zero_()
    size, bytes_of = len(encoder.table.weight), torch.tensor([len(page.encode()) for page in PAGES])
    written = bytes_of
    if tokenizer == "bpe":
        # All but the first token, which means "a page begins".
        written = encoder.present(encoder.numbers(pages(PAGES)["senses"]["text"][:, 0])).sum(-1) - 1
    expected = written * np.log(size) / bytes_of
    torch.testing.assert_close(page_nats(agent, pages(PAGES))[:, 0], expected.float(), atol=1e-4, rtol=0)


def test_text_loss_is_made_of_page_nats_and_the_end_token(small_agent: Callable[..., Agent]) -> None:
    agent = reader(small_agent)
    batch, n = pages([PAGES[2]]), len(PAGES[2])
    logits = agent(batch, ["text"])["text"].logits[0, 0].log_softmax(-1)
    mean = (page_nats(agent, batch)[0, 0] * n - logits[n, END]) / (n + 1)
    torch.testing.assert_close(mean, text_loss(agent, batch)[0], atol=ATOL, rtol=0)


def test_text_that_is_too_long_raises_an_error_with_the_limit(small_agent: Callable[..., Agent]) -> None:
    agent = reader(small_agent, limit=20)
    with pytest.raises(MomentError, match=r"up to 20 tokens \(bytes\); got 31. Give it in several"):
        all_at_once(agent, pages(["x" * 30]))
    with pytest.raises(MomentError, match=r"'words' may have up to 64 bytes in a tick; got 66 \('ääää"):
        collate([[Moment(0.0, {"words": "ä" * 33})]])
    with pytest.raises(MomentError, match="may not hold the character with number zero"):
        collate([[Moment(0.0, {"text": "a\0b"})]])


def test_absent_text_changes_no_features(small_agent: Callable[..., Agent]) -> None:
    agent = small_agent(senses=("body", "words"))
    batch = collate(make_rows(2, 6, 0, ("body", "words")))
    before = all_at_once(agent, batch)
    agent.add_encoder("text")
    assert torch.equal(all_at_once(agent, batch), before)
    empty = collate([[Moment(0.0, {"text": ""}, first=True)]])
    assert not empty["present"]["text"].any()
    tick = collate_tick({"text": ["", "page"]}, np.array([True, True]))
    assert tick["present"]["text"].tolist() == [[False], [True]]
    assert from_bytes(tick["senses"]["text"][:, 0]) == ["", "page"]
    assert describe(agent, {"text": "a page"})["text"].features.shape == (agent.config.width,)


def test_text_is_saved_copied_and_tied(small_agent: Callable[..., Agent], tmp_path: Path, vocabulary: Path) -> None:
    agent, batch = reader(small_agent, str(vocabulary)), pages(PAGES)
    with torch.no_grad():
        logits = agent.forward(batch, ["text"])["text"].logits
        agent.save_pretrained(tmp_path / "agent")
        vocabulary.unlink()
        for other in (Agent.from_pretrained(tmp_path / "agent", strict=True), copy.deepcopy(agent)):
            assert torch.equal(other.forward(batch, ["text"])["text"].logits, logits)
            other.encoder("text").table.weight.zero_()
            assert not other.head("text").table.any()
    assert torch.equal(agent.forward(batch, ["text"])["text"].logits, logits)
    listed = [id(parameter) for group in agent.parts().values() for parameter in group]
    assert sorted(listed) == sorted(id(parameter) for parameter in agent.parameters())


@pytest.mark.parametrize("tied", [True, False])
def test_pretrained_trunk_reads_and_writes_with_its_own_tokenizer(tmp_path: Path, vocabulary: Path, tied: bool) -> None:
    from transformers import PreTrainedTokenizerFast

    torch.manual_seed(0)
    shape = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    model = LlamaForCausalLM(LlamaConfig(vocab_size=310, tie_word_embeddings=tied, **shape)).eval()
    model.save_pretrained(tmp_path / "decoder")
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(vocabulary), bos_token="<s>", eos_token="</s>")
    tokenizer.save_pretrained(tmp_path / "decoder")
    agent = Agent(AgentConfig(size="tiny", width=32, slots=0, pretrained=str(tmp_path / "decoder"))).eval()
    add_text(agent, own=True)
    text = "the cat sat"
    ids = torch.tensor([[tokenizer.bos_token_id, *tokenizer.encode(text, add_special_tokens=False)]])
    with torch.no_grad():
        wanted = model(input_ids=ids).logits
        logits = agent.forward(pages([text]), ["text"])["text"].logits[0]
        torch.testing.assert_close(logits, wanted, atol=1e-4, rtol=0)
        state = agent.new_state()
        percepts = agent.encode(state, Moment(0.0, {"text": text}, first=True))
        state, output = agent.begin(state, percepts, heads=["text"])
        _, said = write(agent, state, percepts, output, most=8)
        theirs = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False)
        theirs = theirs[0, ids.shape[1] :]
    assert said == [tokenizer.decode(theirs, skip_special_tokens=True)]
    agent.save_pretrained(tmp_path / "agent")
    again = Agent.from_pretrained(tmp_path / "agent", strict=True)
    assert torch.equal(again.forward(pages([text]), ["text"])["text"].logits[0], logits)


def test_unavailable_tokenizers_and_taps_are_refused(small_agent: Callable[..., Agent], tmp_path: Path) -> None:
    agent = small_agent()
    with pytest.raises(PluginError, match="no pretrained decoder, so it has no words of its own"):
        add_text(agent, own=True)
    with pytest.raises(ConfigError, match=r"no tokenizer 'byte': expected bytes, patches, or a file tokenizer\.json"):
        add_text(agent, "byte")
    (tmp_path / "odd.json").write_text("{}")
    with pytest.raises(ConfigError, match="cannot be read as a tokenizer"):
        add_text(agent, str(tmp_path / "odd.json"))
    with pytest.raises(PluginError, match="must tap the trunk's features of a sense of text"):
        agent.add_head("spell", "head.text", tap="trunk:words")
    assert "text" not in agent.encoders


def _vocabulary(change: Callable[[dict], object]) -> str:
    found = json.loads(make_vocabulary("the cat sat on the mat", 262))
    change(found)
    return json.dumps(found)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda v: v.update(normalizer={"type": "Lowercase"}), "has a normalizer"),
        (lambda v: v.update(pre_tokenizer={"type": "Whitespace"}), "a pre-tokenizer that is not ByteLevel"),
        (lambda v: v.update(pre_tokenizer=None), "a pre-tokenizer that is not ByteLevel"),
        (
            lambda v: v.update(
                pre_tokenizer={
                    "type": "Sequence",
                    "pretokenizers": [{"type": "Split", "pattern": {"Regex": "a"}}, v["pre_tokenizer"]],
                }
            ),
            "a step before ByteLevel that is not known",
        ),
        (lambda v: v.update(decoder={"type": "WordPiece"}), "a decoder that is not ByteLevel"),
        (lambda v: v["model"].update(type="Unigram"), "a model of the type 'Unigram'"),
        (lambda v: v["model"].update(dropout=0.5), "a model with dropout"),
        (lambda v: v["model"].update(byte_fallback=True), "pieces for unknown bytes"),
        (lambda v: v["model"]["vocab"].update({"far": 400}), "not 0 to n-1"),
        (lambda v: v["model"]["vocab"].update({"e": True}), "not 0 to n-1"),
        (lambda v: v["model"].update(merges=[["q", "zz"]]), "is no two pieces of it"),
        (lambda v: v["added_tokens"][0].update(id="7"), "without content and number"),
        (lambda v: v.pop("model"), "has no model"),
    ],
)
def test_vocabulary_of_another_structure_does_not_reach_the_library(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[dict], object], sentence: str
) -> None:
    import tokenizers

    class Untouched:
        """In the place of the library's class: nothing may be asked of it."""

    changed = _vocabulary(change)
    monkeypatch.setattr(tokenizers, "Tokenizer", Untouched)
    with pytest.raises(ConfigError, match=sentence):
        load_pieces(changed)


def test_steps_around_a_page_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"truncation": {"max_length": 2, "stride": 0, "strategy": "LongestFirst", "direction": "Right"}}
    extra["padding"] = {
        "strategy": {"Fixed": 5},
        "direction": "Right",
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "<s>",
    }
    pieces = load_pieces(_vocabulary(lambda v: v.update(extra)))
    plain = load_pieces(_vocabulary(lambda v: None))
    for text in ("the cat", "sat on the mat, the cat", ""):
        assert pieces.encode(text).ids == plain.encode(text).ids
        assert pieces.decode(pieces.encode(text).ids) == text
