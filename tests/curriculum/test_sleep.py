"""Sleep: it moves memories from the store into the weights, keeps the rest, and resumes exactly."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from devmind import worlds
from devmind.acting.recall import as_recall
from devmind.agent.agent import Agent
from devmind.agent.batch import collate
from devmind.agent.config import AgentConfig
from devmind.agent.describing import describe, encoder_hashes
from devmind.agent.output import drifts
from devmind.config import CheckpointConfig, RunConfig
from devmind.curriculum import sleep as sleeping
from devmind.curriculum.journal import Journal
from devmind.curriculum.plan import LessonPlan
from devmind.curriculum.sleep import Slept, load_state, prune, save_state, sleep
from devmind.curriculum.stage import Batches, Context, Lesson
from devmind.curriculum.teaching import LessonResult
from devmind.errors import CheckpointError, ConfigError, StoreError
from devmind.learners.replay import Replay, candidates, questions
from devmind.learners.sleeping import SleepLearner, heads_to_sleep
from devmind.memory import Entry, Key, Memory, open_store
from devmind.memory.sampling import Reservoir
from devmind.moment import TICK_SAMPLES, Moment

WORDS = ("ba", "di", "gu", "ko")
THINGS = 6


def thing(rng: np.random.Generator) -> np.ndarray:
    return rng.normal(size=8).astype(np.float32)


@pytest.fixture(scope="module")
def awake() -> Agent:
    """A tiny agent that has learned only to say the words of the first recalled memory."""
    agent = Agent(AgentConfig(size="tiny", width=32, attention_heads=2))
    for sense in ("body", "words"):
        agent.add_encoder(sense)
    agent.add_head("said", "head.categorical", options={"classes": len(WORDS)}, recalls=True, labels=WORDS)
    agent.add_head("other", "head.regression", options={"shape": 3})
    rng, optimizer = np.random.default_rng(0), torch.optim.AdamW(agent.parameters(), lr=5e-3)
    for name, parameter in agent.named_parameters():
        parameter.requires_grad_(not name.startswith("encoders."))
    for _ in range(150):
        cues, answers = [thing(rng) for _ in range(32)], rng.integers(0, len(WORDS), 32)
        rows = [[Moment(0.0, {"body": cue}, first=True)] for cue in cues]
        said = [[answer, *rng.integers(0, len(WORDS), rng.integers(0, 4))] for answer in answers]
        recalled = [
            [[({"body": cue if at == 0 else thing(rng), "words": WORDS[a]}, 5.0) for at, a in enumerate(those)]]
            for cue, those in zip(cues, said, strict=True)
        ]
        loss = agent(collate(rows, recalled), ["said"])["said"].loss(torch.from_numpy(answers)[:, None])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    agent.requires_grad_(True)
    assert loss < 0.2
    return agent.eval()


def write(agent: Agent, memory: Memory, n: int = THINGS, seed: int = 1, name: str | None = None) -> list[Entry]:
    rng, hashes, written = np.random.default_rng(seed), encoder_hashes(agent), []
    for number in range(n):
        said = {} if name else {"words": WORDS[number % len(WORDS)]}
        senses = {"body": thing(rng), **said}
        key = Key(describe(agent, {"body": senses["body"]})["body"].vector, hashes["body"])
        written.append(memory.write(Moment(0.0, senses), {"body": key}, importance=float(number), name=name))
    return written


@pytest.fixture
def memory(awake: Agent) -> Memory:
    memory = Memory(open_store(None))
    write(awake, memory)
    return memory


@pytest.fixture
def context(tmp_path: Path) -> Context:
    config = RunConfig(size="tiny", device="cpu", loggers=(), checkpoint={"every": "1e9 s"})
    return Context(config, 3, "cpu", tmp_path / "night", worlds.make)


def answers(agent: Agent, memory: Memory) -> float:
    """The share of memories whose words are answered without the store."""
    entries = memory.store.find()
    rows = [[Moment(0.0, {"body": entry.senses["body"]}, first=True)] for entry in entries]
    with torch.no_grad():
        said = agent(collate(rows), ["said"])["said"].mode()[:, 0]
    return float(np.mean([WORDS[number] == entry.senses["words"] for number, entry in zip(said, entries, strict=True)]))


def test_weights_answer_without_the_store_after_sleep(awake: Agent, memory: Memory, context: Context) -> None:
    agent = copy.deepcopy(awake)
    slept = sleep(agent, memory, context, steps=140)
    assert slept.asked == THINGS
    assert slept.before < 0.7
    assert slept.after >= 0.95
    assert answers(agent, memory) == 1.0 > answers(awake, memory)
    assert set(slept.known) == {entry.id for entry in memory.store.find()}
    assert slept.consolidated.items == sorted(slept.known)
    # Encoders stay bit-equal, so keys and names stay valid.
    assert encoder_hashes(agent) == encoder_hashes(awake)
    events = [event["event"] for event in Journal(context.out / "journal.jsonl").events("sleep", "slept")]
    assert events == ["sleep", "slept"]


def test_each_night_rehearses_other_batches_than_the_nights_before(
    awake: Agent, memory: Memory, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each night began again at the first ones."""
    begun: list[int] = []

    def noted(plan: LessonPlan, night: Lesson, agent: Agent, **more: object) -> LessonResult:
        plan.earlier = [Rehearsable()]
        begun.append(plan.rehearsed(night, agent)["walking", "walk"])
        return LessonResult(1, 0.0, "done", {}, 0, 0.0, {})

    monkeypatch.setattr(LessonPlan, "teach", noted)
    consolidated = Reservoir(100, 0)
    for number in range(2):
        place = replace(context, out=context.out / str(number))
        monkeypatch.setattr(sleeping, "known_views", lambda replay, agent: np.ones((1, len(replay.ids)), bool))
        consolidated = sleep(copy.deepcopy(awake), memory, place, steps=5, consolidated=consolidated).consolidated
    assert begun == [0, THINGS]


class Rehearsable:
    """A stage with one lesson, which nights rehearse."""

    name, requires, skills = "walking", (), ()

    def admit(self, agent: Agent) -> None:
        pass

    def lessons(self, context: Context) -> list[Lesson]:
        batches = lambda agent, context, steps: Batches(int, steps)  # noqa: E731
        return [Lesson("walk", None, batches, 10, 1.0, rehearsed=True)]  # type: ignore[arg-type]


@pytest.mark.slow
def test_other_heads_keep_their_answers(
    awake: Agent, memory: Memory, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [[Moment(0.0, {"body": entry.senses["body"]}, first=True)] for entry in memory.store.find()]
    moved = {}
    for guarded in (True, False):
        agent = copy.deepcopy(awake)
        if not guarded:
            monkeypatch.setattr("devmind.learners.sleeping.drifts", lambda outputs, wanted, here: {})
        sleep(agent, memory, replace(context, out=context.out / str(guarded)), steps=40)
        with torch.no_grad():
            new, old = (each(collate(rows), ["other"])["other"].mode() for each in (agent, awake))
        moved[guarded] = float((new - old).square().mean() / old.var())
    assert moved[True] < 0.5 * moved[False], moved


class Killed(Exception):  # noqa: N818 - it is none
    pass


def test_step_of_a_night_encodes_once_and_holds_other_heads_as_with_tokens_of_their_own(
    awake: Agent, memory: Memory
) -> None:
    agent = copy.deepcopy(awake)
    replay = Replay(agent, memory, [entry.id for entry in memory.store.find()], ["said"], seed=0, moments=8)
    learner, encoded = SleepLearner(agent, replay, seed=0, learning_rate=1e-3), []
    with torch.no_grad():
        for parameter in agent.trunk.parameters():
            parameter.add_(0.05)
    batch = replay.batch(1, 10)
    off = drifts(agent(batch, ["other"]), learner._born(batch, ["other"]), batch["valid"])["other"].detach()
    for whose in (agent, learner._born):
        whose.encoder("body").register_forward_hook(lambda *_, whose=whose: encoded.append(whose))
    _, scalars = learner._loss(agent, batch)
    assert off > 0
    assert torch.equal(scalars["drift"], off)
    assert encoded == [agent]


@pytest.mark.slow
def test_killed_night_resumes_exactly(
    awake: Agent, memory: Memory, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, often = (
        copy.deepcopy(awake),
        context.config.model_copy(update={"checkpoint": CheckpointConfig(every="1 step")}),
    )
    context = replace(context, config=often)
    straight = sleep(whole, memory, replace(context, out=context.out / "whole"), steps=24)
    killed = replace(context, out=context.out / "killed")
    batch = Replay.batch
    with monkeypatch.context() as patch:
        patch.setattr(
            Replay, "batch", lambda self, update, steps: die() if update == 13 else batch(self, update, steps)
        )
        with pytest.raises(Killed):
            sleep(copy.deepcopy(awake), memory, killed, steps=24)
    agent = copy.deepcopy(awake)
    resumed = sleep(agent, memory, killed, steps=24)
    assert agent.sha256() == whole.sha256()
    assert (resumed.known, resumed.after) == (straight.known, straight.after)
    with pytest.raises(CheckpointError, match="has ended"):
        sleep(agent, memory, killed, steps=24)


def die() -> dict[str, object]:
    raise Killed


def test_night_with_another_seed_or_forgotten_memories_is_refused(
    awake: Agent, memory: Memory, context: Context
) -> None:
    journal = Journal(context.out / "journal.jsonl")
    context.out.mkdir()
    journal.write("sleep", ids=[1], heads=["said"], agent=awake.sha256(), seed=99)
    with pytest.raises(CheckpointError, match="another seed"):
        sleep(copy.deepcopy(awake), memory, context, steps=1)
    journal.write("sleep", ids=[1, 99], heads=["said"], agent=awake.sha256(), seed=3)
    with pytest.raises(CheckpointError, match="were forgotten"):
        sleep(copy.deepcopy(awake), memory, context, steps=1)


def test_known_memories_are_pruned_but_names_are_kept(awake: Agent, memory: Memory, tmp_path: Path) -> None:
    (named,) = write(awake, memory, 1, seed=5, name="ba")
    ids, journal = [entry.id for entry in memory.store.find()], Journal(tmp_path / "journal.jsonl")
    consolidated = Reservoir(10, 0)
    consolidated.offer(ids)
    slept = Slept(60, 1.0, "done", len(ids), 0.2, 0.9, (ids[0], ids[2], named.id, 999), consolidated)
    assert prune(memory, slept, journal) == [ids[0], ids[2]]
    left = [number for number in ids if number not in (ids[0], ids[2])]
    assert [entry.id for entry in memory.store.find()] == consolidated.items == left
    assert [event["ids"] for event in journal.events("pruned")] == [[ids[0], ids[2]]]


def test_sleep_refuses_memories_and_heads_without_questions(awake: Agent, context: Context) -> None:
    memory = Memory(open_store(None))
    with pytest.raises(StoreError, match="nothing to sleep on"):
        sleep(copy.deepcopy(awake), memory, context, steps=1)
    silent = Key(describe(awake, {"body": np.ones(3, np.float32)})["body"].vector, encoder_hashes(awake)["body"])
    memory.write(Moment(0.0, {"body": np.ones(3, np.float32)}), {"body": silent})
    with pytest.raises(StoreError, match="nothing to sleep on"):
        sleep(copy.deepcopy(awake), memory, context, steps=1)
    write(awake, memory, 1)
    with pytest.raises(ConfigError, match="answers of heads that choose"):
        sleep(copy.deepcopy(awake), memory, context, heads=["other"], steps=1)
    reflexive = Agent(AgentConfig(size="tiny"))
    with pytest.raises(ConfigError, match="taught to answer from memory"):
        heads_to_sleep(reflexive)


def test_question_lacks_the_words_and_recalls_its_memory_first(awake: Agent, memory: Memory) -> None:
    entries = memory.store.find()
    for entry, question in questions(memory, [entry.id for entry in entries], ["body", "words"]):
        assert set(question.senses) == {"body"}
        assert len(question.recalled) == 4
        assert question.recalled[0][0]["words"] == entry.senses["words"]
    named = Entry(7.0, 0.0, "cup", {}, {"body": np.ones(2, np.float32)})
    assert as_recall(named, 9.5)[0]["words"] == "cup"
    assert as_recall(named, 9.5)[1] == 2.5
    assert as_recall(replace(named, senses={"words": "hello"}), 9.0)[0] == {"words": "hello"}


def test_candidates_are_the_most_important_some_others_and_kept_ones(awake: Agent) -> None:
    memory = Memory(open_store(None))
    ids = [entry.id for entry in write(awake, memory, 30)]
    assert candidates(memory, 100, ["body"], (0,)) == ids
    chosen = candidates(memory, 8, ["body"], (0,), kept=[ids[0], 999])
    assert set(ids[-4:]) <= set(chosen)
    assert ids[0] in chosen
    assert 999 not in chosen
    assert len(chosen) in (8, 9)
    assert chosen == candidates(memory, 8, ["body"], (0,), kept=[ids[0]])
    assert chosen != candidates(memory, 8, ["body"], (1,), kept=[ids[0]])


def test_candidates_can_be_asked_and_every_night_draws_others(awake: Agent) -> None:
    memory = Memory(open_store(None))
    hashes, rng = encoder_hashes(awake), np.random.default_rng(0)
    for number in range(200):  # almost no words are said in this life
        silent = thing(rng)
        key = Key(describe(awake, {"body": silent})["body"].vector, hashes["body"])
        memory.write(Moment(0.0, {"body": silent}), {"body": key}, importance=float(number))
    ids = {entry.id for entry in write(awake, memory, 20)}
    assert set(candidates(memory, 40, ["body", "words"], (0,))) == ids
    with pytest.raises(StoreError, match="nothing to sleep on"):
        candidates(memory, 40, ["sight"], (0,))
    nights = [set(candidates(memory, 8, ["body"], (0, night))) for night in range(40)]
    assert set.union(*nights) == ids


def test_memory_counts_as_known_only_if_the_weights_give_its_words(awake: Agent, context: Context) -> None:
    memory = Memory(open_store(None))
    ids = [entry.id for entry in write(awake, memory, 4)]
    rng, body = np.random.default_rng(9), thing(np.random.default_rng(9))
    key = Key(describe(awake, {"body": body})["body"].vector, encoder_hashes(awake)["body"])
    secret = memory.write(Moment(0.0, {"body": body, "words": f"the number is {rng.integers(9)}"}), {"body": key})
    replay = Replay(awake, memory, [*ids, secret.id], ["said"], seed=0)
    assert replay.memory_is_right.tolist() == [*[True] * 4, False]
    slept = sleep(copy.deepcopy(awake), memory, context, steps=60)
    assert secret.id not in slept.known
    without = copy.deepcopy(awake)
    for entry in without.config.heads:
        entry.pop("labels", None)
    assert not Replay(without, memory, ids, ["said"], seed=0).memory_is_right.any()


def test_memory_deleted_during_the_night_does_not_end_it(awake: Agent, memory: Memory, context: Context) -> None:
    ids = [entry.id for entry in memory.store.find()]
    replay = Replay(awake, memory, ids, ["said"], seed=0, moments=16)
    memory.store.delete(ids)
    assert replay.batch(0, 10)["place"].shape == (16, 1)
    assert replay.alone(awake, ids, view=0)["said"].shape == (len(ids), len(WORDS))


def test_sleep_takes_sounds_of_any_length(tmp_path: Path) -> None:
    """A sound taught by ear has its own length; a batch has one length."""
    agent = Agent(AgentConfig(size="tiny", width=32, attention_heads=2))
    for sense in ("sound", "words"):
        agent.add_encoder(sense)
    agent.add_head("said", "head.categorical", options={"classes": len(WORDS)}, recalls=True)
    memory, rng = Memory(open_store(None)), np.random.default_rng(0)
    for name, samples in (("ba", TICK_SAMPLES), ("di", 19_200), ("gu", 900)):
        sound = rng.normal(0, 0.1, (1, samples)).astype(np.float32)
        key = Key(describe(agent, {"sound": sound})["sound"].vector, encoder_hashes(agent)["sound"])
        memory.write(Moment(0.0, {"sound": sound}), {"sound": key}, name=name)
    config = RunConfig(size="tiny", device="cpu", loggers=())
    slept = sleep(agent, memory, Context(config, 0, "cpu", tmp_path / "night", worlds.make), steps=2)
    assert slept.asked == 3


def test_sleep_record_is_saved_with_the_agent(tmp_path: Path) -> None:
    reservoir = Reservoir(4, 0)
    reservoir.offer(range(10))
    assert load_state(tmp_path) is None
    save_state(tmp_path, reservoir)
    again = load_state(tmp_path)
    assert again is not None
    assert again.state_dict() == reservoir.state_dict()
    (tmp_path / sleeping.STATE).write_text("{}")
    with pytest.raises(CheckpointError, match="damaged"):
        load_state(tmp_path)
