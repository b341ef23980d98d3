"""Built-in strangers: deterministic, of several kinds, cached, and unknown to taught names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from devmind.agent.agent import Agent
from devmind.agent.describing import describe
from devmind.live.remembering import strangers as built_in
from devmind.live.remembering.made_sounds import (
    COURSES,
    SOURCES,
    mixture,
    mixture_example,
    sound_example,
    sound_kind,
)
from devmind.live.remembering.strangers import made_pictures, made_sounds, strangers
from devmind.testing import tiny_agent


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Agent:
    monkeypatch.setenv("DEVMIND_CACHE", str(tmp_path))
    born = tiny_agent()
    for sense in ("sight", "sound"):
        born.add_encoder(sense)
    return born.eval()


def test_strangers_are_deterministic_and_valid_senses(monkeypatch: pytest.MonkeyPatch) -> None:
    for examples in ("SOUND_EXAMPLES", "PICTURE_EXAMPLES"):
        monkeypatch.setattr(built_in, examples, 1)
    for make, shape, kind in ((made_sounds, (1, None), np.float32), (made_pictures, (64, 64, 3), np.uint8)):
        made, kinds = make()
        again, _ = make()
        assert len(made) == len(kinds)
        assert len(set(kinds.tolist())) > 40
        for value, same in zip(made, again, strict=True):
            assert isinstance(value, np.ndarray)
            assert isinstance(same, np.ndarray)
            assert value.dtype == kind
            assert all(wanted in (None, found) for wanted, found in zip(shape, value.shape, strict=True))
            assert np.array_equal(value, same)
            assert np.isfinite(value).all()
            assert value.std() > 1e-4, "silence, or a picture of nothing"


def test_every_source_and_course_makes_a_sound_of_its_own_kind() -> None:
    rng = np.random.default_rng(0)
    kinds = [sound_kind(rng) for _ in range(60)]
    assert {kind.source for kind in kinds} == set(SOURCES)
    assert {kind.course for kind in kinds} == set(COURSES)
    for kind in kinds:
        sound = sound_example(kind, rng, 0.5)
        assert 1e-4 < sound.std() < 1
        assert abs(sound).max() <= 1
    mixed = [mixture(rng) for _ in range(30)]
    assert {len(kind.layers) for kind in mixed} == {1, 2}
    assert any(any(kind.strikes_s) for kind in mixed)
    for mix in mixed:
        sound = mixture_example(mix, rng, 0.7)
        assert sound.shape == (1, 11_200)
        assert 1e-3 < sound.std() < 1
        assert abs(sound).max() <= 1


def test_strangers_are_described_once_and_cached(agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    found = strangers(agent, "sight")
    assert found is not None
    tile = np.asarray(made_pictures()[0][5])
    np.testing.assert_allclose(found.features[5], describe(agent, {"sight": tile})["sight"].features, atol=1e-4)
    monkeypatch.setitem(built_in.MAKERS, "sight", lambda: pytest.fail("made again"))
    again = strangers(agent, "sight")
    assert again is not None
    assert np.array_equal(again.features, found.features)
    assert strangers(agent, "words") is None


def test_damaged_or_missing_cache_is_made_again(agent: Agent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = strangers(agent, "sight")
    assert found is not None
    [kept] = tmp_path.glob("*.npz")
    kept.write_bytes(kept.read_bytes()[:1000])
    again = strangers(agent, "sight")
    assert again is not None
    assert np.array_equal(again.features, found.features)
    blocked = tmp_path / "file"
    blocked.write_text("")
    monkeypatch.setenv("DEVMIND_CACHE", str(blocked))
    assert strangers(agent, "sight") is not None, "nothing can be kept there, and that is no fault"
