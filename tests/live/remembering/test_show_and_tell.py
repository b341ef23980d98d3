"""Show and tell with a newborn: a taught name is recognised by eye and ear, also with other weights."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.errors import StoreError
from devmind.live.remembering.show_and_tell import ShowAndTell, as_example, cut_examples
from devmind.memory import Memory, open_store
from devmind.moment import Moment, Sense
from devmind.testing import tiny_agent


@pytest.fixture
def agent() -> Agent:
    born = tiny_agent()
    for sense in ("sight", "sound"):
        born.add_encoder(sense)
    return born.eval()


def thing(kind: int, seed: int) -> Moment:
    """A picture and a sound: each kind has its own pattern and pitch, with noise."""
    rng = np.random.default_rng([kind, seed])
    pattern = np.random.default_rng(kind).integers(40, 200, (4, 4, 3)).repeat(16, 0).repeat(16, 1)
    sight = np.clip(pattern + rng.normal(0, 12, (64, 64, 3)), 0, 255).astype(np.uint8)
    tone = np.sin(2 * np.pi * 300 * 2 ** (kind / 2) * np.arange(4800) / 16_000) * 0.3 + rng.normal(0, 0.02, 4800)
    return Moment(0.0, {"sight": sight, "sound": tone[None].astype(np.float32)})


def taught(agent: Agent, memory: Memory) -> ShowAndTell:
    child = ShowAndTell(agent, memory)
    for kind, name in enumerate(("cup", "ball", "key")):
        for seed in range(3):
            child.teach(name, thing(kind, seed))
    return child


def test_taught_thing_is_recognised_by_eye_and_ear(agent: Agent) -> None:
    child = taught(agent, Memory(open_store(None)))
    for kind, name in enumerate(("cup", "ball", "key")):
        answers = child.ask(thing(kind, 9))
        assert {sense: answer.nearest for sense, answer in answers.items()} == {"sight": name, "sound": name}
    strange = child.ask(Moment(0.0, {"sight": np.tile(np.uint8([0, 255]), (64, 32, 1)).repeat(3).reshape(64, 64, 3)}))
    assert strange["sight"].name is None
    assert child.forget("cup") == 3
    assert child.ask(thing(0, 9))["sight"].nearest != "cup"


def test_other_weights_rebuild_keys_and_refit_names(agent: Agent, tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        child = taught(agent, Memory(store))
        assert ShowAndTell(agent, Memory(store)).rebuilt == 0
        old = child.ask(thing(0, 9))
        with torch.no_grad():
            for parameter in agent.encoder("sight").parameters():
                parameter.mul_(1.3)
        assert child.refresh(agent) == 9
        new = child.ask(thing(0, 9))
        assert new["sound"] == old["sound"]
        assert new["sight"].nearest == "cup"
        assert new["sight"].likeness != old["sight"].likeness
    with open_store(tmp_path) as store:  # a restart with the new weights finds everything in order
        again = ShowAndTell(agent, Memory(store))
        assert again.rebuilt == 0
        assert again.ask(thing(0, 9)) == new


def test_example_is_the_last_picture_and_all_of_the_sound() -> None:
    rng = np.random.default_rng(0)
    sounds = [rng.normal(0, 0.1, (1, 1600)).astype(np.float32) for _ in range(3)]
    pictures = [np.full((4, 4, 3), number, dtype=np.uint8) for number in range(2)]
    senses: list[dict[str, Sense]] = [
        {"sound": sounds[0], "sight": pictures[0]},
        {"sound": sounds[1], "sight": pictures[1], "body": np.ones(2, dtype=np.float32)},
        {"sound": sounds[2]},
    ]
    example = as_example([Moment(tick / 10, each) for tick, each in enumerate(senses)])
    assert example.senses.keys() == {"sight", "sound"}
    assert np.array_equal(example.senses["sight"], pictures[1])
    assert np.array_equal(example.senses["sound"], np.concatenate(sounds, 1))


def test_long_file_gives_an_example_for_every_five_seconds() -> None:
    def lengths(ticks: int) -> list[int]:
        sound = np.zeros((1, 1600), dtype=np.float32)
        examples = cut_examples(Moment(tick / 10, {"sound": sound}) for tick in range(ticks))
        return [np.asarray(example.senses["sound"]).shape[1] // 1600 for example in examples]

    assert lengths(3) == [3]
    assert lengths(50) == [50]
    assert lengths(59) == [50]
    assert lengths(60) == [50, 10]
    with pytest.raises(StoreError, match="no picture and no sound"):
        cut_examples([Moment(0.0, {"words": "cup"})])


@pytest.mark.parametrize("name", ["", "  ", "x" * 65, "two\nlines"])
def test_name_must_be_one_line(agent: Agent, name: str) -> None:
    with pytest.raises(StoreError, match="A name is one line"):
        ShowAndTell(agent, Memory(open_store(None))).teach(name, thing(0, 0))


def test_agent_without_the_sense_gives_a_clear_error() -> None:
    with pytest.raises(StoreError, match="no sense for sight or sound"):
        ShowAndTell(tiny_agent(), Memory(open_store(None))).teach("cup", thing(0, 0))
