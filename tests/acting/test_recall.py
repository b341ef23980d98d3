"""One stored memory gives equal tokens wherever an agent acts: lesson, exam, sleep, life and the replay check."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from devmind.acting import Actor
from devmind.acting.recall import OwnMemories, as_recall, keys_of, payload, recalled_tokens
from devmind.agent.agent import Agent
from devmind.agent.batch import collate, collate_recalled
from devmind.config import MemoryConfig
from devmind.learners.replay import questions as consolidated
from devmind.live.checking import _Replay
from devmind.live.remembering.recalling import Recalling
from devmind.live.remembering.show_and_tell import ShowAndTell
from devmind.memory import Entry, Memory, open_store
from devmind.memory.entry import LOOKED
from devmind.moment import TICK_SAMPLES, Moment
from devmind.testing import tiny_agent
from devmind.testing.laws import ATOL
from stages.memory import parts
from stages.memory.recall import lesson
from stages.memory.recall.things import lives, looks
from stages.reflex import parts as reflex

AGE_S = 7.0


@pytest.fixture(scope="module")
def agent() -> Agent:
    agent = tiny_agent()
    reflex.admit(agent)
    parts.admit(agent)
    return agent.eval()


@pytest.fixture
def memory(agent: Agent) -> Memory:
    """One thing that was seen and heard and named by teaching; its entry holds no words."""
    of = lives(np.array([3]), 1)
    shown = {name: value[0, 0] for name, value in looks(of, np.array([[0]]), "named").items()}
    moment = Moment(0.0, shown, first=True)
    keys = keys_of(agent, Actor(agent).encode(moment), ("sight", "sound"))[0]
    written = Memory(open_store(None), clock=lambda: 0.0)
    written.write(moment, keys, importance=1.0, name=lesson.NAMES[int(of.answer[0, 0])])
    return Memory(written.store, clock=lambda: AGE_S)


def only(memory: Memory) -> Entry:
    (entry,) = memory.get([1])
    return entry


def in_a_lesson(agent: Agent, memory: Memory) -> Tensor:
    """As in the batches of the lesson `recall`: `stages.memory.recall.lesson.entries`."""
    of = lives(np.array([3]), 1)
    kept = lesson.tensors(looks(of, np.array([[0]]), "named"))
    which, age_s = torch.zeros(1, 1, 1, dtype=torch.int64), torch.full((1, 1, 1), AGE_S)
    back = lesson.entries(kept, lesson.SPELT[of.answer], which, age_s)
    here = torch.ones(1, 1, 1, dtype=torch.bool)
    with torch.no_grad():
        recalled = agent.encode_recalled(back | {"present": dict.fromkeys(back["senses"], here), "valid": here})
    return recalled.tokens[0, 0]


def in_an_exam(agent: Agent, memory: Memory) -> Tensor:
    """As an exam's Actor recalls it by the keys of its senses: `OwnMemories`."""
    senses = {name: value for name, value in only(memory).senses.items() if name in ("sight", "sound")}
    recall = OwnMemories(agent, [memory], ("sight", "sound"))
    tokens = recall(Actor(agent).encode(Moment(0.0, senses, first=True)))
    assert tokens is not None
    return tokens.tokens[0]


def in_sleep(agent: Agent, memory: Memory) -> Tensor:
    """As a night's question recalls it. The night asks at the time of the memory, so the age is set here."""
    ((_, question),) = consolidated(memory, [1], ["sight", "sound", "words"])
    row = [(senses, AGE_S) for senses, _ in question.recalled]
    with torch.no_grad():
        return agent.encode_recalled(collate_recalled([row])).tokens[0]


def in_life(agent: Agent, memory: Memory) -> Tensor:
    """As the live loop's recaller publishes it for a Moment."""
    child = ShowAndTell(agent, memory)
    config = MemoryConfig(use="always")
    moment = Moment(0.0, {name: only(memory).senses[name] for name in ("sight", "sound")})
    with Recalling(child, config, keeps=lambda: False, clock=lambda: AGE_S) as recalling:
        recalling.put(moment)
        for _ in range(200):
            if found := recalling.latest():
                break
            time.sleep(0.02)
    assert found is not None, recalling.fault
    assert found.tokens is not None
    return found.tokens.tokens[0]


def in_the_check(agent: Agent, memory: Memory) -> Tensor:
    """As the replay check steps with the recalled entries of a recording."""
    replay = _Replay({}, lambda number: payload(memory.get([number])[0]))
    replay.agent = agent
    replay._recall([1], [AGE_S])
    assert replay.recalled is not None
    return replay.recalled.tokens[0]


@pytest.mark.parametrize("where", [in_an_exam, in_sleep, in_life, in_the_check])
def test_one_memory_gives_equal_tokens_everywhere(agent: Agent, memory: Memory, where) -> None:
    wanted, found = in_a_lesson(agent, memory), where(agent, memory)
    assert found.shape == wanted.shape
    assert torch.allclose(found, wanted, atol=ATOL)


def test_taught_name_changes_the_recalled_tokens(agent: Agent, memory: Memory) -> None:
    entry = only(memory)
    assert "words" not in entry.senses
    assert payload(entry)["words"] == entry.name
    named, unnamed, heard = (
        recalled_tokens(agent, [[as_recall(each, AGE_S)]])
        for each in (entry, replace(entry, name=None), replace(entry, senses={**entry.senses, "words": "another"}))
    )
    assert named is not None
    assert unnamed is not None
    assert heard is not None
    assert not torch.allclose(named.tokens, unnamed.tokens)
    assert not torch.allclose(named.tokens, heard.tokens)  # words that were heard take precedence over the name


def test_memory_written_in_the_future_has_no_age(memory: Memory) -> None:
    """As after a clock was set back."""
    assert [as_recall(only(memory), now_s)[1] for now_s in (-3.0, 0.0, 2.5)] == [0.0, 0.0, 2.5]


def test_recalled_sound_is_cut_to_its_last_tick(agent: Agent) -> None:
    long = np.arange(3 * TICK_SAMPLES, dtype=np.float32)[None].repeat(2, 0) / 1e5
    back = payload(Entry(0.0, 1.0, None, {}, {"sound": long}))
    assert np.array_equal(back["sound"], long[:, -TICK_SAMPLES:])


def test_recalled_pictures_of_other_sizes_are_area_resized(agent: Agent) -> None:
    small = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    large = small.repeat(2, 0).repeat(2, 1)
    entries = [Entry(0.0, 1.0, None, {}, {"sight": picture}) for picture in (small, large)]
    entries.append(Entry(0.0, 1.0, None, {}, {"sight": small[::2], LOOKED: large}))
    for entry in entries:
        assert np.array_equal(payload(entry)["sight"], small)
    assert recalled_tokens(agent, [[as_recall(entry, AGE_S) for entry in entries]]) is not None


def test_recalled_tokens_is_none_without_entries_and_skips_unknown_senses(agent: Agent) -> None:
    assert recalled_tokens(agent, [[], []]) is None
    assert recalled_tokens(agent, [[({"smell": np.ones(3, np.float32)}, 1.0)]]) is None
    body = np.ones(12, np.float32)
    with_smell = recalled_tokens(agent, [[({"smell": np.ones(3, np.float32), "body": body}, 1.0)], []])
    plain = recalled_tokens(agent, [[({"body": body}, 1.0)], []])
    assert with_smell is not None
    assert plain is not None
    assert torch.equal(with_smell.tokens, plain.tokens)
    assert with_smell.present.tolist() == [[True], [False]]


def test_each_row_queries_its_own_memory_by_its_present_senses(agent: Agent, memory: Memory) -> None:
    empty = Memory(open_store(None), clock=lambda: AGE_S)
    recall = OwnMemories(agent, [empty, memory], ("sight", "sound"))
    senses = {name: only(memory).senses[name] for name in ("sight", "sound")}
    rows = [[Moment(0.0, senses, first=True)], [Moment(0.0, {"sound": senses["sound"]}, first=True)]]
    percepts = Actor(agent, 2).encode(collate(rows))
    assert [sorted(keys) for keys in keys_of(agent, percepts, ("sight", "sound"))] == [["sight", "sound"], ["sound"]]
    tokens = recall(percepts)
    assert tokens is not None
    assert tokens.present.any(1).tolist() == [False, True]
    assert [len(found) for found in recall.entries] == [0, 1]
