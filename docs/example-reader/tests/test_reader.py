"""The package keeps devmind's laws; run beside an installed devmind: `pip install -e . && pytest`."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from devmind_reader.stage import ReaderStage, batch_of, say
from devmind_reader.text import apart, count, counted_nats, split

from devmind.agent.text import page_nats
from devmind.testing import check_stage, tiny_agent


def test_the_stage_keeps_its_laws() -> None:
    check_stage(ReaderStage())


def test_a_unigram_is_worth_its_entropy_and_a_5_gram_less() -> None:
    text = ("abcab" * 50).encode()
    page, shares = text[:200].decode(), [n / len(text) for n in Counter(text).values()]
    entropy = -sum(share * math.log(share) for share in shares)
    assert counted_nats(count(text)[:1], page) == pytest.approx(entropy, abs=0.1)
    assert counted_nats(count(text), page) < 0.2


def test_held_out_pages_share_no_byte_with_each_other_and_stand_behind_what_is_taught() -> None:
    taught, held_out = split(None)
    pages = apart(held_out, 10**6)
    assert "".join(pages).encode() == held_out[: sum(map(len, pages))]
    assert len(taught) > 8 * len(held_out)


def test_what_is_said_with_the_cache_is_the_likeliest_by_the_whole_page() -> None:
    agent = tiny_agent()
    ReaderStage().admit(agent)
    table = agent.encoder("text").table.weight.data
    table.normal_(std=3.0, generator=torch.Generator().manual_seed(0))
    # Nothing but plain letters is likely: other bytes would be shown as one character or another.
    table[0], table[128:] = 0.0, 0.0
    compared = 0
    for text in ("Once upon", "a", "The end", "12", "of the"):
        for letter in say(agent, text, most=6, seed=None):
            logits = agent(batch_of([text]), ["text"])["text"].logits[0, 0, len(text)]
            assert int(logits.argmax()) == ord(letter)
            text, compared = text + letter, compared + 1
    assert compared == 30


def test_an_untaught_agent_knows_as_much_as_chance() -> None:
    agent = tiny_agent()
    ReaderStage().admit(agent)
    nats = page_nats(agent, batch_of(apart(split(None)[1], 8)))
    assert nats.shape == (8, 1)
    assert np.isclose(float(nats.mean()), math.log(256), atol=0.6)
