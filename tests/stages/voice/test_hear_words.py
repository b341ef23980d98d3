"""Words heard: the decoding, the two lessons, and the exam's three laws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from devmind.acting import Actor
from devmind.acting.sentences import name_in
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.curriculum.exam import Measure
from devmind.curriculum.examining import examine_skill
from devmind.curriculum.gate import GOAL_MISSED, PASSED
from devmind.curriculum.stage import Context
from devmind.errors import ExamError
from devmind.learners.gradient import GradientLearner
from devmind.learners.muon import MuonLearner
from devmind.sessions.spoken import speaker_group
from devmind.testing import tiny_agent, tiny_context
from stages.voice import parts, utterances
from stages.voice.caregiver.formants import Voice, speak
from stages.voice.caregiver.speech import (
    DIGITS,
    NAMES,
    TAUGHT_NAMING,
    TAUGHT_PHRASES,
    UNSEEN_NAMING,
    UNSEEN_PHRASES,
    trim_and_level,
)
from stages.voice.ear import frames
from stages.voice.hear_words import exam, lesson, listen
from stages.voice.moments import as_batch
from stages.voice.small_net import named_by_small_net
from stages.voice.stage import SKILLS, VoiceStage
from stages.voice.transcript import BLANK, KNOWN, ctc, join_frames, likeliest, read_off, word_error_rate, word_numbers


def logits_of(texts: Sequence[str], frames: int) -> torch.Tensor:
    """Frames that encode texts: each word twice, with a blank only between equal words."""
    found = torch.zeros(len(texts), frames, len(KNOWN))
    for row, text in enumerate(texts):
        words = [BLANK]
        for a, b in pairwise([*word_numbers(text), BLANK]):
            words += [a, a, BLANK] if a == b else [a, a]
        for at, word in enumerate(words + [BLANK] * (frames - len(words))):
            found[row, at, word] = 9.0
    return found


def test_a_text_that_needs_more_frames_is_impossible_and_teaches_nothing() -> None:
    logits = torch.randn(4, 3, len(KNOWN), generator=torch.Generator().manual_seed(0)).requires_grad_()
    losses = ctc(logits, torch.tensor([2, 3, 3, 3]), ["red red", "red red", "two red balls", ""])
    assert losses.isinf().tolist() == [True, False, False, False]  # between equal words there is nothing
    losses.clamp_max(50.0).mean().backward()
    assert logits.grad is not None
    assert (logits.grad != 0).any((1, 2)).tolist() == [False, True, True, True]
    assert torch.isfinite(logits.grad).all()


def test_frames_are_decoded_as_ctc_defines() -> None:
    texts = ["three three balls", "seven", ""]
    frames, counts = logits_of(texts, 48), torch.tensor([48, 48, 48])
    assert read_off(frames, counts) == texts
    assert ctc(frames, counts, texts).max() < 0.5
    assert ctc(frames, counts, ["two", "two", "two"]).min() > 5
    with pytest.raises(KeyError, match="apple"):
        word_numbers("two apple")
    assert likeliest(frames[1:2], counts[1:2], DIGITS).tolist() == [7]
    whole = frames[0].argmax(-1).numpy()
    for cut in (2, 4, 7):  # in two parts it is the same, as in a life
        assert join_frames(whole[:cut]) + join_frames(whole[cut:], int(whole[cut - 1])) == join_frames(whole)


def test_word_errors_equal_a_hand_count() -> None:
    assert word_error_rate("two red balls", "two red balls") == 0
    assert word_error_rate("two balls", "two red balls") == pytest.approx(1 / 3)
    assert word_error_rate("a too red bowls", "two red balls") == pytest.approx(1.0)
    assert word_error_rate("", "two red balls") == 1


def test_every_word_of_a_held_out_phrase_is_taught_in_other_phrases() -> None:
    assert not set(TAUGHT_PHRASES) & set(UNSEEN_PHRASES)
    assert (len(TAUGHT_PHRASES), len(UNSEEN_PHRASES)) == (96, 24)
    taught = {word for phrase in TAUGHT_PHRASES for word in phrase.split()}
    assert {word for phrase in UNSEEN_PHRASES for word in phrase.split()} <= taught


def test_exams_name_things_in_other_phrases_than_lessons() -> None:
    assert not set(TAUGHT_NAMING) & set(UNSEEN_NAMING)
    assert (len(TAUGHT_NAMING), len(UNSEEN_NAMING)) == (14, 7)
    taught = {word for text in TAUGHT_NAMING for word in text.split()}
    assert {word for text in UNSEEN_NAMING for word in text.split()} == taught <= set(KNOWN)
    assert {name_in(text) for text in UNSEEN_NAMING} == set(NAMES), "a life learns these names by them"


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of data with digits by two speakers of the small synthesiser, at 8 kHz."""
    folder = tmp_path_factory.mktemp("data")
    (folder / "speech" / "small").mkdir(parents=True)
    for who, pitch_hz in (("ann", 210.0), ("bob", 110.0)):
        for number, word in enumerate(DIGITS):
            for take in range(2):
                wave = trim_and_level(speak(word, Voice(pitch_hz, pitch_hz / 150, 0.02, take), 0.9 + 0.2 * take))
                soundfile.write(folder / "speech" / "small" / f"{number}_{who}_{take}.wav", wave[::2], 8_000)
    return folder


def examined(agent: Agent, context: Context) -> dict[str, Measure]:
    return dict(examine_skill(VoiceStage(), SKILLS[0], agent, context).measures)


def knowing(turn: Callable[[int], np.ndarray]) -> Any:
    """An agent's frames from a player that knows what is said, or gives another's words."""
    real = exam.frames_of

    def told(agent: Agent, waves: Sequence[np.ndarray], heads: Sequence[str]) -> Any:
        counts = real(agent, waves[:1], heads)[1].max() * 0 + 64
        texts = [knowing.texts[wave.tobytes()] for wave in waves]  # type: ignore[attr-defined]
        frames = logits_of([texts[i] for i in turn(len(texts))], 64)
        # The arc knows nothing: its head does not count for the trunk's.
        by_head = {head: frames * (head == parts.WORDS) for head in heads}
        return by_head, counts.repeat(len(waves))

    return told


def test_known_words_reach_the_ceiling_and_shuffled_words_fall(
    agent: Agent, recorded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = replace(tiny_context(tmp_path, "exam.episodes_scale=0.1"), data=recorded)
    agent.config.trained_on = [speaker_group("ann")]
    asked = exam.bank("hear_words exam", context.seed, context.episodes(exam.UTTERANCES), UNSEEN_PHRASES, True)
    named = exam.bank("naming exam", context.seed, context.episodes(exam.SENTENCES), UNSEEN_NAMING, True)
    every = exam.clips(recorded)
    assert every is not None
    both = zip((*asked.waves, *named.waves), (*asked.texts, *named.texts), strict=True)
    knowing.texts = {wave.tobytes(): text for wave, text in both}  # type: ignore[attr-defined]
    knowing.texts |= {utterances.speech_of(every, row).tobytes(): DIGITS[every.labels[row]] for row in range(40)}  # type: ignore[attr-defined]
    told, shuffled = (knowing(turn) for turn in (np.arange, np.random.default_rng(3).permutation))
    monkeypatch.setattr(exam, "frames_of", told)
    best = examined(agent, context)
    scores = {name: measure.score for name, measure in best.items()}
    assert scores == {exam.DIGIT: 1.0, exam.CAREGIVER: 0.0, exam.NAMING: 0.0}
    heard = best[exam.NAMING].rows
    assert heard["names heard correctly"] == heard["sentences without an error"] == 1.0
    assert best[exam.DIGIT].n == 20, "ann was met, bob was not"
    many = replace(best[exam.NAMING], values=np.zeros(200), episodes=np.arange(200), groups=None, floors={})
    assert {one.measure: one.verdict for one in exam.GATE.judge({**best, exam.NAMING: many}, 200).decisions}[
        exam.NAMING
    ] == PASSED
    monkeypatch.setattr(exam, "frames_of", shuffled)
    worst = examined(agent, context)
    assert worst[exam.DIGIT].score < 0.4
    assert worst[exam.CAREGIVER].score > 0.4
    assert worst[exam.NAMING].score > 0.2
    assert worst[exam.NAMING].rows["names heard correctly"] < 0.6
    verdict = exam.GATE.judge(worst, 200)
    assert {one.measure: one.verdict for one in verdict.decisions}[exam.NAMING] == GOAL_MISSED
    assert not verdict.passed
    agent.config.trained_on = []


def test_people_are_elsewhere_for_an_agent_that_heard_nobody(agent: Agent, recorded: Path, tmp_path: Path) -> None:
    context, every = tiny_context(tmp_path, "exam.episodes_scale=0.1"), exam.clips(recorded)
    assert every is not None
    with torch.inference_mode():
        found = {one.name: one for one in exam._digits(agent, lambda: agent, every, context).in_full()}
    assert set(found) == {exam.DIGIT, "hear_words/elsewhere", "hear_words/elsewhere/gain"}
    whole = found["hear_words/elsewhere"]
    rule = whole.floors["kernel ridge on 150 made digits"]
    assert rule > 0.3 > whole.score, "made digits say something of others; the agent is untaught"
    assert found["hear_words/elsewhere/gain"].score == pytest.approx(whole.score - rule)


def test_an_untaught_agent_stays_at_the_floors_and_met_speakers_are_not_examined(
    agent: Agent, recorded: Path, tmp_path: Path
) -> None:
    context = replace(tiny_context(tmp_path, "exam.episodes_scale=0.1"), data=recorded)
    agent.config.trained_on = [speaker_group("ann")]
    found = examined(agent, context)
    assert found[exam.DIGIT].score < 0.4 <= found[exam.DIGIT].floors["time-normalised log-mel + ridge"]
    assert found[exam.CAREGIVER].score > 0.9 > found[exam.CAREGIVER].floors["a ridge for each of three words"]
    agent.config.trained_on = [speaker_group("ann"), speaker_group("bob")]
    with pytest.raises(ExamError, match="every speaker"):
        examined(agent, context)
    agent.config.trained_on = []
    assert utterances.groups(context) in ((speaker_group("ann"),), (speaker_group("bob"),))
    batches = [lesson.lesson_batch(context, update, 4) for update in range(12)]
    assert any(set(batch["texts"]) <= set(DIGITS) for batch in batches)
    assert any(" " in batch["texts"][0] for batch in batches)


def test_the_ear_hears_a_clip_at_once_as_when_stepping(agent: Agent) -> None:
    """What the lesson `listen` teaches is what the agent hears."""
    ear: Any = agent.encoder(parts.LISTEN)
    sound = torch.randn(2, 5 * 1600, generator=torch.Generator().manual_seed(0)) * 0.1
    with torch.inference_mode():
        one_by_one = agent.perceive(as_batch(sound), [parts.LISTEN]).encoded[parts.LISTEN].tokens
        at_once = ear.tokens_of(frames(torch.cat((torch.zeros(2, 1600), sound), 1))[:, 1:])
    torch.testing.assert_close(at_once, one_by_one, atol=1e-5, rtol=1e-5)


def test_stepping_the_arc_equals_its_answer_at_once_and_an_episode_resets_it(agent: Agent) -> None:
    sound = torch.randn(1, 4 * 1600, generator=torch.Generator().manual_seed(1)) * 0.1
    with torch.inference_mode():
        output: Any = agent(as_batch(sound), [parts.WORDS_ARC])[parts.WORDS_ARC]
    actor = Actor(agent, 1, effectors=(parts.NOTE,), trunk=False)
    for first in (True, True):  # the second time it starts anew
        told = []
        for number, moment in enumerate(sound[0].reshape(4, 1, 1, 1600).numpy()):
            done = actor.act(collate_tick({parts.SOUND: moment}, np.array([number == 0 and first])))
            told.append(done.outputs[parts.WORDS_ARC].numbers()[0])
        torch.testing.assert_close(torch.stack(told), output.logits[0], atol=1e-5, rtol=1e-5)


def test_the_flat_start_spreads_words_evenly_over_the_speech() -> None:
    wanted = listen.flat_start(["two red", "one"], torch.tensor([[2.0, 18.0], [0.0, 4.0]]), 24)
    two, red, one = word_numbers("two red one")
    # Eight places of two tokens each: a word starts at 0.6 of its four tokens and lasts two tokens longer.
    assert wanted[0].tolist() == [0] * 7 + [two] * 5 + [0] * 3 + [red] * 5 + [0] * 4
    assert (wanted[1] == one).nonzero().max() < 6


def test_augmentation_keeps_the_place_of_speech() -> None:
    """A burst in silence is loud between the reported begin and end, and nowhere else."""
    mel = torch.full((7 + 32 + 16, 64), listen.SILENCE)
    mel[7:39] = 1.0
    made, spans = listen.disguise([mel] * 20, torch.Generator().manual_seed(0))
    loud = made.mean(-1)
    for row, (begin, end) in enumerate(((spans * 4) + 6).round().int().tolist()):
        inside, outside = loud[row, begin + 3 : end - 3], torch.cat((loud[row, : begin - 2], loud[row, end + 2 :]))
        assert inside.median() > outside.max()


def test_noise_often_hums_except_when_gentle() -> None:
    """In silence, a hum raises the lowest bands over those far above by more than any coloured noise does."""
    silence = [torch.full((7 + 32 + 16, 64), listen.SILENCE)] * 300
    shares = []
    for gently in (False, True):
        made, _ = listen.disguise(silence, torch.Generator().manual_seed(1), gently)
        shares.append(float((made[..., 0].mean(1) - made[..., 2:20].mean((1, 2)) > 0.8).float().mean()))
    assert 0.08 < shares[0] < listen.HUM
    assert shares[1] == 0.0


def test_both_lessons_lower_their_losses(tmp_path: Path) -> None:
    pupil, context = tiny_agent(3), tiny_context(tmp_path)
    parts.admit(pupil)
    ear = GradientLearner(
        pupil, listen.loss, seed=0, learning_rate=1e-2, trains=("encoders.listen.", "heads.heard_words_arc."), steps=40
    )
    batch = listen.batch(context, 0, 6, 40)
    ear.begin(0)
    missed = [float(ear.update(batch, step)["words by the arc"]) for step in range(40)]
    assert missed[-1] < 0.5 * missed[1]
    trunk = MuonLearner(pupil, lesson.loss, seed=0, learning_rate=1e-2, trains=parts.trained_weights(pupil), steps=30)
    kept = {name: value.clone() for name, value in pupil.state_dict().items()}
    heard = lesson.lesson_batch(context, 0, 6)
    trunk.begin(0)
    missed = [float(trunk.update(heard, step)["words"]) for step in range(30)]
    assert missed[-1] < 0.7 * missed[0]
    changed = {name for name, value in pupil.state_dict().items() if not torch.equal(value, kept[name])}
    assert not any(name.startswith((f"encoders.{parts.LISTEN}.", f"heads.{parts.WORDS_ARC}.")) for name in changed)
    assert any(name.startswith("trunk.") for name in changed)


def test_the_small_network_tells_digits_apart() -> None:
    taught, asked = exam.bank("test small", 0, 300, DIGITS, False), exam.bank("test small asked", 0, 40, DIGITS, False)
    numbers = [np.array([DIGITS.index(text) for text in of.texts]) for of in (taught, asked)]
    with torch.inference_mode():
        named = named_by_small_net(taught.waves, numbers[0], asked.waves)
    assert (named == numbers[1]).mean() > 0.5
