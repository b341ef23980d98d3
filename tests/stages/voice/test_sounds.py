"""Kinds of sounds: folds by source, stepping the arc, the lessons, and the exam's three laws."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import soundfile
import torch

from devmind.acting import Actor
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.bounds import data_files
from devmind.curriculum.exam import Measure
from devmind.curriculum.examining import examine_skill
from devmind.curriculum.journal import Journal
from devmind.curriculum.stage import Context, check_lessons
from devmind.curriculum.teaching import teach
from devmind.errors import ConfigError, ExamError, SessionError
from devmind.learners.gradient import GradientLearner
from devmind.moment import Moment
from devmind.sessions.sounds import mono_wave
from devmind.testing import tiny_agent, tiny_context
from stages.voice import commands, parts
from stages.voice.abilities import heard_words
from stages.voice.ear import frames
from stages.voice.listening import Hearing
from stages.voice.moments import as_batch
from stages.voice.sounds import exam, floors, lesson, readout, strange
from stages.voice.sounds.floors import named_by_network, statistics
from stages.voice.sounds.kinds import KINDS, SPEECH, UNKNOWN
from stages.voice.sounds.recorded import (
    FOLDS,
    Recorded,
    folds,
    groups,
    lesson_recordings,
    read_recordings,
    source_group,
    source_of,
)
from stages.voice.stage import SKILLS, VoiceStage

SKILL = next(skill for skill in SKILLS if skill.name == "sounds")
RATE_HZ = 8_000
RAIN = KINDS.index("rain")
TWO = (readout.EARS, readout.TRUNK)


def sound_like(kind: str, seed: int) -> np.ndarray:
    """One second of a kind: rain is noise, a rooster a falling tone, a dog bursts of noise; a siren is of no kind."""
    rng, t = np.random.default_rng(seed), np.arange(RATE_HZ) / RATE_HZ
    noise = rng.normal(0, 0.1, RATE_HZ)
    pitch_hz = rng.uniform(700, 900)
    made = {
        "rain": noise,
        "dog": noise * ((t * rng.uniform(2.5, 3.5)) % 1 < 0.3),
        "rooster": 0.3 * np.sin(2 * np.pi * pitch_hz * (t - 0.3 * t**2)),
        "siren": 0.3 * np.sin(2 * np.pi * 300 * t),
    }
    return np.asarray(made[kind] + rng.normal(0, 1e-3, RATE_HZ), np.float32)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of data: three kinds of six clips each, from three sources, and a kind that is not taught."""
    folder = tmp_path_factory.mktemp("data")
    for number, kind in enumerate(("rain", "dog", "rooster", "siren")):
        (folder / "sounds" / "some" / kind).mkdir(parents=True)
        for source in range(3):
            for take in "AB":
                wave = sound_like(kind, 100 * number + 10 * source + ord(take))
                soundfile.write(folder / "sounds" / "some" / kind / f"1-{number}{source}-{take}-9.wav", wave, RATE_HZ)
    return folder


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The floor's network trains for a few steps only."""
    monkeypatch.setattr(floors, "STEPS", 4)


def context_of(tmp_path: Path, data: Path | None) -> Context:
    return replace(tiny_context(tmp_path, "exam.episodes_scale=0.1"), data=data)


def test_folds_keep_takes_of_one_source_together_and_kinds_even(data: Path) -> None:
    every = read_recordings(data)
    assert every is not None
    assert (len(every.waves), set(every.names[every.kinds == UNKNOWN])) == (24, {"siren"})
    assert all(wave.shape == (16_000,) for wave in every.waves)
    fold = folds(every)
    for source in set(every.sources):
        assert len(set(fold[every.sources == source])) == 1
    for kind in set(every.kinds):
        assert np.bincount(fold[every.kinds == kind], minlength=FOLDS).tolist() == [2, 2, 2]
    shared = Recorded(every.waves[:4], np.array([2, 2, 3, 3]), np.array(["a", "b", "a", "b"]), every.names[:4])
    assert folds(shared)[0] == folds(shared)[2], "one source of two kinds is in one fold"
    assert (source_of(Path("4-164064-C-1.wav")), source_of(Path("my dog.wav"))) == ("4-164064", "my dog")
    assert read_recordings(None) is None


def test_lessons_and_exams_share_no_source(agent: Agent, data: Path, tmp_path: Path) -> None:
    every = read_recordings(data)
    assert every is not None
    seen = []
    for seed in range(FOLDS):
        context = replace(context_of(tmp_path, data), seed=seed)
        known = lesson_recordings(context)
        assert known is not None
        assert not (known.kinds == UNKNOWN).any()
        agent.config.trained_on = list(groups(context))
        asked = exam.unmet(agent, every)
        assert not set(asked.sources) & set(known.sources)
        assert (len(known.waves), int((asked.kinds != UNKNOWN).sum())) == (12, 6)
        seen += [str(name) for name in set(asked.sources[asked.kinds != UNKNOWN])]
    assert sorted(seen) == sorted({str(name) for name in every.sources[every.kinds != UNKNOWN]})
    agent.config.trained_on = [source_group(str(name)) for name in every.sources]
    with pytest.raises(ExamError, match="every source"):
        exam.unmet(agent, every)
    agent.config.trained_on = []


def examined(agent: Agent, context: Context) -> dict[str, Measure]:
    return dict(examine_skill(VoiceStage(), SKILL, agent, context).measures)


def knowing(table: dict[bytes, int], turn: Callable[[int], np.ndarray]) -> Any:
    """Logits of a player that knows each sound's kind, or gives another's; the trunk's head knows nothing."""

    def told(agent: Agent, waves: Sequence[np.ndarray], heads: Sequence[str]) -> Any:
        kinds = torch.tensor([table[wave.tobytes()] for wave in waves])[torch.from_numpy(turn(len(waves)))]
        sure = 9.0 * torch.nn.functional.one_hot(kinds, len(KINDS)).float()
        return {head: sure * (head == parts.KINDS_ARC) for head in heads}

    return told


@pytest.mark.usefixtures("hurried")
def test_known_kinds_reach_the_ceiling_and_shuffled_kinds_fall(
    agent: Agent, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = context_of(tmp_path, data)
    agent.config.trained_on = list(groups(context))
    every = read_recordings(data)
    assert every is not None
    asked = exam.questions(context, exam.unmet(agent, every))
    table = {wave.tobytes(): int(kind) for wave, kind in zip(asked.waves, asked.kinds, strict=True)}
    monkeypatch.setattr(exam, "logits_of", knowing(table, np.arange))
    best = examined(agent, context)
    assert {name: best[name].score for name in (exam.ESC, exam.NO_KIND)} == {exam.ESC: 1.0, exam.NO_KIND: 1.0}
    assert best[exam.ESC].n == 6
    assert best[exam.NO_KIND].n == 12 + 12 + 12  # made by rule, phrases, six of known kinds and six sirens
    monkeypatch.setattr(exam, "logits_of", knowing(table, np.random.default_rng(6).permutation))
    worst = examined(agent, context)
    assert worst[exam.ESC].score < 0.7
    assert worst[exam.NO_KIND].score < 0.8
    assert not exam.GATE.judge(worst, 200).passed
    agent.config.trained_on = []


@pytest.mark.usefixtures("hurried")
def test_an_untaught_agent_stays_at_the_floors_and_kinds_need_recordings(
    agent: Agent, data: Path, tmp_path: Path
) -> None:
    context = context_of(tmp_path, data)
    agent.config.trained_on = list(groups(context))
    found = examined(agent, context)
    agent.config.trained_on = []
    assert found[exam.ESC].score < 0.7 < found[exam.ESC].floors[exam.RIDGE]
    assert found[exam.NO_KIND].score < 0.8
    assert set(examined(agent, context_of(tmp_path, None))) == {exam.NO_KIND}
    assert exam.GATE.judge({exam.NO_KIND: found[exam.NO_KIND]}, 200).decisions[0].measure == exam.NO_KIND


def test_each_recording_is_asked_once_by_a_readout_of_other_sources(data: Path) -> None:
    every = read_recordings(data)
    assert every is not None
    fold, asked_about = folds(every), list[int]()

    def named(taught: np.ndarray, asked: np.ndarray) -> np.ndarray:
        assert not set(every.sources[taught]) & set(every.sources[asked])
        asked_about.extend(asked.tolist())
        return every.kinds[asked]

    assert (readout.out_of_fold(every.kinds, fold, named) == every.kinds).all()
    assert sorted(asked_about) == list(range(len(every.kinds)))


@pytest.mark.usefixtures("hurried")
def test_known_kinds_are_read_out_of_all_folds_and_shuffled_ones_are_not(
    agent: Agent, data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = read_recordings(data)
    assert every is not None
    known = every.kinds[every.kinds != UNKNOWN]
    with torch.inference_mode():
        (plain,) = readout.in_folds(agent, lambda: agent, every, exam.UNTAUGHT).alone()
    assert (plain.n, plain.floors) == (18, {})
    for turn, low, high in ((np.arange(18), 1.0, 1.0), (np.random.default_rng(1).permutation(18), 0.0, 0.7)):
        features = np.eye(len(KINDS))[known[turn]]
        monkeypatch.setattr(readout, "features", lambda agent, waves, of=features: dict.fromkeys(TWO, of))
        (found,) = readout.in_folds(agent, lambda: agent, every, exam.UNTAUGHT).in_full()
        assert low <= found.score <= high
        assert found.rows[readout.TRUNK] == found.score
        assert set(found.floors) == {exam.RIDGE, exam.NETWORK, exam.UNTAUGHT}


def test_features_of_a_batch_equal_those_of_each_sound_alone(agent: Agent) -> None:
    waves = [sound_like("dog", seed)[: 1600 * n] for seed, n in enumerate((3, 5, 1, 3))]
    with torch.inference_mode():
        together, alone = readout.features(agent, waves), [readout.features(agent, [wave]) for wave in waves]
    for name in TWO:
        wanted = np.concatenate([one[name] for one in alone])
        np.testing.assert_allclose(together[name], wanted, atol=1e-5)


def test_stepping_the_arc_equals_its_answer_at_once_and_an_episode_resets_it(agent: Agent) -> None:
    sound = torch.randn(1, 6 * 1600, generator=torch.Generator().manual_seed(1)) * torch.linspace(0.3, 0.01, 6 * 1600)
    with torch.inference_mode():
        output: Any = agent(as_batch(sound), [parts.KINDS_ARC])[parts.KINDS_ARC]
    actor = Actor(agent, 1, effectors=(parts.SORT,), trunk=False)
    for _ in range(2):  # the second time it starts anew
        told = []
        for number, moment in enumerate(sound[0].reshape(6, 1, 1, 1600).numpy()):
            done = actor.act(collate_tick({parts.SOUND: moment}, np.array([number == 0])))
            told.append(done.outputs[parts.KINDS_ARC].numbers()[0])
        torch.testing.assert_close(torch.stack(told), output.logits[0], atol=1e-4, rtol=1e-4)


def test_a_files_kind_equals_the_exams(agent: Agent) -> None:
    wave = strange.make_sound(np.random.default_rng(0), 0.8)
    hearing = Hearing(agent, list(wave.reshape(-1, 1600)))
    assert hearing.kind() is None
    list(hearing.words())
    with torch.inference_mode():
        sure = exam.logits_of(agent, [wave], [parts.KINDS_ARC])[parts.KINDS_ARC][0].softmax(-1)
    kind = hearing.kind()
    assert kind is not None
    assert kind == (KINDS[int(sure.argmax())], pytest.approx(float(sure.max()), abs=1e-4))


def test_both_lessons_lower_their_losses_and_change_nothing_else(data: Path, tmp_path: Path) -> None:
    pupil, context = tiny_agent(3), context_of(tmp_path, data)
    parts.admit(pupil)
    arc = GradientLearner(
        pupil, lesson.arc_loss, seed=0, learning_rate=3e-3, trains=("heads.heard_kind_arc.",), steps=30
    )
    batch = lesson.arc_batch(context, 0, 6)
    assert torch.allclose(batch["wanted"].sum(-1), torch.ones(6))
    arc.begin(0)
    missed = [float(arc.update(batch, step)["kinds by the arc"]) for step in range(30)]
    assert missed[-1] < 0.7 * missed[0]
    trunk = GradientLearner(pupil, lesson.loss, seed=0, learning_rate=1e-2, trains=lesson.trains(pupil), steps=20)
    kept = {name: value.clone() for name, value in pupil.state_dict().items()}
    heard = lesson.lesson_batch(context, 0, 6)
    trunk.begin(0)
    missed = [float(trunk.update(heard, step)["kinds"]) for step in range(20)]
    assert missed[-1] < 0.9 * missed[0]
    changed = {name for name, value in pupil.state_dict().items() if not torch.equal(value, kept[name])}
    assert changed
    assert all(name.startswith(f"heads.{parts.KINDS_HEAD}.") for name in changed), "words need the layers as they are"


def test_lessons_teach_every_kind_and_skip_quiet_stretches(data: Path, tmp_path: Path) -> None:
    context = context_of(tmp_path, data)
    every = lesson.listened_to(context)
    index = lesson.draw_clips(np.random.default_rng(0), every, 400)
    shares = np.bincount(every.kinds[index], minlength=len(KINDS)) / 400
    assert set(np.flatnonzero(shares)) == {UNKNOWN, SPEECH, *(KINDS.index(name) for name in ("rain", "dog", "rooster"))}
    assert abs(shares[UNKNOWN] - lesson.UNKNOWN_SHARE) < 0.06
    of_arc = lesson.draw_clips(np.random.default_rng(0), every, 400, lesson.UNKNOWN_SHARE / 2)
    assert 0.05 < (every.kinds[of_arc] == UNKNOWN).mean() < 0.16, "as many again are turned round"
    energy = np.zeros(100)
    energy[40:45] = 1.0
    starts = [lesson.piece(np.random.default_rng(seed), energy, 20) for seed in range(50)]
    assert all(energy[start : start + 20].sum() >= 2 for start in starts)
    assert len(set(starts)) > 5


def test_mixed_sounds_add_their_powers() -> None:
    rng = np.random.default_rng(0)
    mel, other = torch.from_numpy(rng.uniform(-2, 1, (2, 1, 5, 64)))
    torch.testing.assert_close(10 ** (2 * lesson.add_log_mels(mel, other)), 10 ** (2 * mel) + 10 ** (2 * other))


def test_the_floors_tell_kinds_apart() -> None:
    waves = [sound_like(kind, seed) for kind in ("rain", "dog", "rooster") for seed in range(8)]
    labels = np.repeat([8, 6, 9], 8)
    half = np.arange(24) % 2 == 0
    taught, asked = [[wave for wave, one in zip(waves, half == side, strict=True) if one] for side in (True, False)]
    assert statistics(waves).shape == (24, 120)
    with torch.inference_mode():
        named = named_by_network(taught, labels[half], asked)
    assert (named == labels[~half]).mean() > 0.7


def sound_moments(wave: np.ndarray) -> list[np.ndarray]:
    return list(wave[: len(wave) // 1600 * 1600].reshape(-1, 1600))


def as_heard(wave: np.ndarray) -> list[Moment]:
    return [Moment(k / 10, {"sound": sound[None]}) for k, sound in enumerate(sound_moments(wave))]


@pytest.mark.slow
def test_words_are_written_only_for_what_sounds_like_speech(data_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`hear` wrote "nine can can" for a dog. Real clips, of which an arc is taught some."""
    pupil = tiny_agent(3)
    parts.admit(pupil)
    pupil.eval()
    monkeypatch.setattr(Hearing, "_every_word", lambda self: iter([(2, "nine"), (3, "can"), (20, "can")]))
    rains = [mono_wave(file)[: 3 * 16_000] for file in data_files(data_folder, "sounds/esc10/rain/*.wav")]
    digits = [mono_wave(file) for file in data_files(data_folder, "speech/fsdd/*_jackson_1*.wav")][:12]
    digits = [np.resize(np.concatenate((wave, np.zeros(3200, np.float32))), 16_000 * 3) for wave in digits]
    taught = [(wave, kind) for waves, kind in ((rains, RAIN), (digits, SPEECH)) for wave in waves[::2]]
    pieces = [heard_words.as_piece(as_heard(wave)[at : at + 20]) for wave, _ in taught for at in (0, 8)]
    waves = np.stack([np.concatenate([one.senses["sound"][0] for one in piece]) for piece in pieces])  # type: ignore[index]
    wanted = torch.nn.functional.one_hot(torch.tensor([kind for _, kind in taught]).repeat_interleave(2), len(KINDS))
    batch = {"mel": frames(torch.from_numpy(waves)), "wanted": wanted.float()}
    learner = GradientLearner(
        pupil, lesson.arc_loss, seed=0, learning_rate=1e-2, trains=(f"heads.{parts.KINDS_ARC}.",), steps=120
    )
    learner.begin(0)
    for step in range(120):
        learner.update(batch, step)
    pupil.eval()
    written = lambda wave: len(list(Hearing(pupil, sound_moments(wave)).words()))  # noqa: E731
    words = [sum(written(wave) for wave in waves) for waves in (rains[::2], digits[1::2])]
    assert words[0] <= 3, "of nine in what is no speech"
    assert words[1] >= 15, "of eighteen in digits that were not taught"


def test_hear_prints_the_kind_and_then_the_words(
    agent: Agent, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    agent.save_pretrained(tmp_path / "agent")
    monkeypatch.setattr(Hearing, "_every_word", lambda self: iter(self._heard_all()))

    def heard_all(self: Hearing) -> list[tuple[int, str]]:
        self._sounds_like = torch.eye(len(KINDS))[SPEECH] * 9
        return [(2, "nine"), (3, "can")]

    monkeypatch.setattr(Hearing, "_heard_all", heard_all, raising=False)
    memo = tmp_path / "memo.m4a"
    with av.open(str(memo), "w", format="ipod") as container:
        stream = container.add_stream("aac", rate=16_000, layout="mono")
        for start in range(0, 16_000, 1024):
            frame = av.AudioFrame.from_ndarray(np.full((1, 1024), 0.1, np.float32), "fltp", "mono")
            frame.rate, frame.pts = 16_000, start
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    commands.listen(memo, tmp_path / "agent")
    assert capsys.readouterr().out.splitlines()[:2] == ["kind of sound: speech (1.00)", "nine can"]


def test_hear_refuses_what_is_no_sound_before_an_agent_is_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commands, "agent_with_head", lambda *_: pytest.fail("an agent was loaded"))
    (tmp_path / "a.wav").write_text("no sound " * 100)
    with pytest.raises(SessionError, match="cannot be read as sound: it has none, is damaged"):
        commands.listen(tmp_path / "a.wav")
    with pytest.raises(SessionError, match="cannot be read as sound"):
        commands.listen(tmp_path / "a.wav", echo=tmp_path / "b.wav")


def test_kinds_are_solved_in_closed_form_if_the_configuration_says_so(agent: Agent, tmp_path: Path) -> None:
    context = tiny_context(tmp_path, "lessons.kinds.learner=closed_form")
    own = copy.deepcopy(agent)
    (lesson,) = (one for one in VoiceStage().lessons(context) if one.name == "kinds")
    teach(lesson, 6, own, context, Journal(tmp_path / "journal.jsonl"))
    before = agent.state_dict()
    changed = {name for name, value in own.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {"heads.heard_kind.read.net.2.weight", "heads.heard_kind.read.net.2.bias"}
    with pytest.raises(ConfigError, match="has no learner 'population'; it has its own, or one by closed_form"):
        check_lessons([VoiceStage()], tiny_context(tmp_path, "lessons.kinds.learner=population"))
