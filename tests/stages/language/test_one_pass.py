"""A language model in one pass: `devmind say --readout`, texts of turns, and the seed's layer beside a mended one."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.cli.app import app
from devmind.errors import ConfigError
from devmind.seeding import numpy_rng
from stages.language import parts
from stages.language.read.corpus import blocks_of, read_text
from stages.language.read.one_pass import MENDED, SEED, TRUNK, OnTrunk, Window, blocks_in, learn


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(words))
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    agent, folder = Agent(AgentConfig(size="tiny")), tmp_path_factory.mktemp("reader")
    parts.admit(agent)
    agent.save_pretrained(folder)
    return folder


def story(n: int = 1200, seed: int = 0) -> str:
    """Sentences in which the third word depends on the first, 14 letters before it."""
    rng = numpy_rng("story", seed)
    pairs = (("cat", "milk"), ("dog", "bone"), ("cow", "herb"))
    chosen = rng.integers(0, 3, n)
    return "".join(f"{pairs[one][0]} likes some {pairs[one][1]}.\n" for one in chosen)


@pytest.mark.parametrize("way", [SEED, MENDED])
def test_one_pass_learns_what_depends_on_a_word_before(way: str) -> None:
    """By the frequency of letters alone a character costs 2.6 nats."""
    text, fresh = story(), np.frombuffer(story(50, seed=1).encode(), np.uint8)
    model = learn(blocks_in(text), way, neurons=256)
    shares = np.bincount(fresh, minlength=256)[fresh] / len(fresh)
    assert np.log(3) / 21 < model.nats_of(fresh).mean() < 0.5
    assert -np.log(shares).mean() > 2.5


def test_the_seeds_layer_is_a_linear_model() -> None:
    """Its tanh is a straight line, which the mended one is not."""
    data = np.frombuffer(story(100).encode(), np.uint8)
    for mended, most, least in ((False, 0.006, 0.0), (True, 1.0, 0.1)):
        window = Window(mended)
        features = window(data).double()
        inner = features.atanh()
        bent = float(((features - inner).abs() / inner.abs()).mean())
        assert least <= bent < most


def test_blocks_may_come_in_any_order() -> None:
    blocks = blocks_in(story(500))
    one, other = (learn(order, MENDED, neurons=64).solution for order in (blocks, blocks[::-1]))
    assert torch.equal(one.weight, other.weight)
    assert torch.equal(one.bias, other.bias)


def test_trunk_features_of_a_page_are_those_the_head_reads(reader: Path) -> None:
    agent = Agent.from_pretrained(reader).eval()
    features, data = OnTrunk(agent), np.frombuffer(story(10).encode(), np.uint8)
    rows = features(data)
    assert len(rows) == len(data)
    changed = data.copy()
    changed[100] = ord("?")
    assert torch.equal(features(changed)[:101], rows[:101])  # a byte is predicted from those before it
    assert not torch.equal(features(changed)[101:110], rows[101:110])
    model = learn(blocks_in(story(300)), TRUNK, agent, neurons=32)
    # An untaught trunk tells little more than the last letter.
    assert model.nats_of(data).mean() < 2.0


def test_say_learns_in_one_pass_from_turns(reader: Path, tmp_path: Path) -> None:
    file = tmp_path / "turns.jsonl"
    lines = [json.dumps({"user": f"what does it like? {at}", "assistant": story(6, at)}) for at in range(40)]
    more = {"messages": [{"role": "system", "content": "x"}, {"role": "user", "content": "hi"},
                         {"role": "assistant", "content": "cow likes some herb."}]}  # fmt: skip
    file.write_text("\n".join([*lines, json.dumps(more)]) + "\n")
    assert list(blocks_of(file))[-1] == "<s> <user> hi <bot> cow likes some herb. </bot> <eos>\n"
    assert read_text(file).count("<eos>") == 41
    words = ("say", "cat likes some ", "--agent", str(reader), "--readout", "mended", "--text", str(file))
    code, said = run(*words, "--length", "30")
    assert code == 0
    assert "the read-out 'mended' learned from" in said
    assert "nats a held-out character, the agent's own head" in said
    assert "cat likes some " in said.splitlines()[-1] or "cat likes some " in said
    assert run(*words, "--length", "30")[1].split("Note")[0] == said.split("Note")[0]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b'{"user": "a"}\n', "Line 1 of '.*' has no turns"),
        (b'{"messages": [{"role": "judge", "content": "a"}]}\n', "has no turns"),
        (b'{"user": "a", "assistant": "b"}\n{nothing\n', "Line 2 of '.*' has no turns"),
        (b'"' + b"x" * (1 << 20) + b'"\n', "is longer than 1,048,576 bytes"),
        (b"[" * 100_000 + b"\n", "has no turns"),
        (b'{"user": "a\\u0000", "assistant": "b"}\n', "character number zero"),
    ],
)
def test_a_line_without_turns_is_refused(content: bytes, says: str, tmp_path: Path) -> None:
    file = tmp_path / "turns.jsonl"
    file.write_bytes(content)
    with pytest.raises(ConfigError, match=says):
        list(blocks_of(file))


def test_a_text_that_cannot_be_learned_from_is_refused(reader: Path, tmp_path: Path) -> None:
    broken = tmp_path / "broken.txt"
    broken.write_bytes(b"a" * 9000 + b"\xff")
    with pytest.raises(ConfigError, match="byte 9000 cannot be read"):
        list(blocks_of(broken))
    agent = ("--agent", str(reader))
    for words, says in (
        (("--text", str(broken)), "--text is what --readout learns from"),
        (("--readout", "mended", "--text", str(tmp_path / "none.txt")), "There is no text"),
        (("--readout", "mended", "--text", str(broken)), "is not UTF-8"),
    ):
        code, said = run("say", "once", *agent, *words)
        assert code == 2
        assert says in said
