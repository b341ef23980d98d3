"""Kinds of encoders, features and word heads: each learns, and stepping equals hearing at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from devmind.acting import Actor
from devmind.agent.agent import Agent
from devmind.agent.batch import collate_tick
from devmind.agent.heads import Inlet
from devmind.agent.rows import initial_carry
from devmind.agent.taps import Tapped
from devmind.curriculum import runner
from devmind.curriculum.start import give_settings, load_stage
from devmind.errors import ConfigError, ExamError
from devmind.learners.gradient import GradientLearner
from devmind.learners.muon import MuonLearner
from devmind.testing import check_head, tiny_agent, tiny_config, tiny_context
from stages.voice import bodies, parts
from stages.voice.arc import WordsHead
from stages.voice.ear import CEPSTRA, LEAD, MELS, EarEncoder, frames
from stages.voice.hear_words import exam, lesson, listen
from stages.voice.hear_words.written import HEARD, LONGEST, WrittenHead, counting_words, targets, texts_of
from stages.voice.moments import as_batch
from stages.voice.transcript import BLANK, KNOWN, word_numbers

WAYS = [*((kind, features) for kind in bodies.KINDS for features in ("logmel", "mfcc")), ("conv", "logmel2d")]
LEARNED = [("gru", "logmel"), ("conv", "logmel2d"), ("conv", "mfcc")]
"""Each body and each front end once."""


def hearing(kind: str, features: str, words: str = "seq2seq", seed: int = 3) -> Agent:
    """An agent of size tiny whose ear and arcs are of these kinds."""
    agent = tiny_agent(seed)
    settings = tiny_config(
        f"stages.voice.encoder={kind}", f"stages.voice.features={features}", f"stages.voice.words={words}"
    )
    give_settings(load_stage("voice"), agent, settings)
    parts.admit(agent)
    return agent.eval()


def noise(moments: int, rows: int = 1) -> torch.Tensor:
    return 0.1 * torch.randn(rows, moments * 1600, generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("kind", bodies.KINDS)
def test_stepping_a_body_equals_the_whole_row_within_and_beyond_its_context(kind: str) -> None:
    """Token by token or in pieces of any length, it equals the row at once, and its state does not grow."""
    body = bodies.body(kind, 8, 16).eval()
    row = torch.randn(3, 150, 8, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        whole, last = body.over(row, initial_carry(body.carry_spec, 3))
        for pieces in (row.split(1, 1), row.split([1, 2, 40, 70, 30, 7], 1)):
            carry, found = initial_carry(body.carry_spec, 3), []
            for piece in pieces:
                features, carry = body.over(piece, carry)
                found.append(features)
            torch.testing.assert_close(torch.cat(found, 1), whole, atol=1e-5, rtol=1e-5)
            assert {name: value.shape for name, value in carry.items()} == {n: v.shape for n, v in last.items()}
        # A row whose episode begins is a row of zeros in the state.
        again = body.over(row[:, :5], {name: torch.zeros_like(value) for name, value in last.items()})[0]
        torch.testing.assert_close(again, whole[:, :5], atol=1e-5, rtol=1e-5)


def test_convolutions_see_exactly_their_context_and_never_ahead() -> None:
    body, sees = bodies.body("conv", 8, 16).eval(), 31
    row = torch.randn(1, 100, 8, requires_grad=True)
    (body.over(row, initial_carry(body.carry_spec, 1))[0][0, 80] * torch.arange(16)).sum().backward()
    assert row.grad is not None
    met = row.grad[0].abs().sum(-1).nonzero().flatten().tolist()
    assert met == list(range(80 - sees + 1, 81))


@pytest.mark.parametrize("kind", bodies.KINDS)
def test_word_heads_keep_the_laws_of_heads(kind: str) -> None:
    check_head(WordsHead(Inlet(8, 2), len(KNOWN), kind=kind))
    wanted = torch.zeros(3, 2, LONGEST, dtype=torch.int64)
    wanted[..., 0] = torch.tensor([[1, 2], [3, 4], [5, 6]])
    check_head(WrittenHead(Inlet(8, 2), len(KNOWN), kind=kind), wanted)


@pytest.mark.parametrize(("kind", "features"), WAYS)
def test_stepping_words_equals_the_words_at_once(kind: str, features: str) -> None:
    """For both arcs; the writing arc's output after each Moment is that of a row that ends there."""
    agent, sound = hearing(kind, features), noise(6)
    with torch.inference_mode():
        outputs: Any = agent(as_batch(sound), [parts.WORDS_ARC, parts.WRITTEN_ARC])
        whole = outputs[parts.WRITTEN_ARC]
        nats = torch.stack([whole.nats(["two red"], torch.tensor([2 * t + 2])) for t in range(6)], 1)
    heads = {parts.NOTE: (parts.WORDS_ARC,), parts.TELL: (parts.WRITTEN_ARC,)}
    actor = Actor(agent, 1, effectors=tuple(heads), trunk=False, standing=heads)
    for _ in range(2):  # the second time it starts anew
        for number, moment in enumerate(sound[0].reshape(6, 1, 1, 1600).numpy()):
            done: Any = actor.act(collate_tick({parts.SOUND: moment}, np.array([number == 0])))
            told, written = done.outputs[parts.WORDS_ARC], done.outputs[parts.WRITTEN_ARC]
            torch.testing.assert_close(told.numbers(), outputs[parts.WORDS_ARC].logits[:, number], atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(written.nats(["two red"]), nats[:, number], atol=1e-4, rtol=1e-5)
            assert torch.equal(done.action[parts.TELL], whole.mode()[:, number])


@pytest.mark.parametrize("kind", bodies.KINDS)
def test_moments_without_sound_change_nothing_that_is_heard(kind: str) -> None:
    """In a batch the bodies ran over zeros there; a life passes over them."""
    agent, sound = hearing(kind, "logmel"), noise(7, rows=2)
    batch = as_batch(sound)
    there = torch.tensor([[1, 1, 0, 0, 1, 0, 1], [0, 1, 1, 0, 1, 1, 0]], dtype=torch.bool)
    batch["present"][parts.SOUND] = there
    with torch.inference_mode():
        outputs: Any = agent(batch, [parts.WORDS_ARC, parts.WRITTEN_ARC])
        letters, whole = outputs[parts.WRITTEN_ARC].mode(), outputs[parts.WRITTEN_ARC]
        nats = torch.stack([whole.nats(["two red"] * 2, ends) for ends in whole._ends()], 1)
        loss = whole.loss(torch.ones(2, 7, LONGEST, dtype=torch.int64), there)
    assert torch.isfinite(loss)
    heads = {parts.NOTE: (parts.WORDS_ARC,), parts.TELL: (parts.WRITTEN_ARC,)}
    for row in range(2):
        actor = Actor(agent, 1, effectors=tuple(heads), trunk=False, standing=heads)
        for number, moment in enumerate(sound[row].reshape(7, 1, 1, 1600).numpy()):
            senses = {parts.SOUND: moment} if there[row, number] else {}
            done: Any = actor.act(collate_tick(senses, np.array([number == 0])))
            if senses:
                told, written = done.outputs[parts.WORDS_ARC], done.outputs[parts.WRITTEN_ARC]
                wanted = outputs[parts.WORDS_ARC].logits[row : row + 1, number]
                torch.testing.assert_close(told.numbers(), wanted, atol=1e-5, rtol=1e-5)
                torch.testing.assert_close(written.nats(["two red"]), nats[row : row + 1, number], atol=1e-4, rtol=1e-5)
                assert torch.equal(done.action[parts.TELL], letters[row : row + 1, number])


def test_writing_with_the_cache_equals_writing_without() -> None:
    """Each word is the most likely after all words before it, with or without the cache; nothing follows an end."""
    tokens, here, every = 3.0 * torch.randn(8, 9, 2, 8), torch.ones(8, 9, 2, dtype=torch.bool), set[tuple[int, ...]]()
    for seed in range(30):
        torch.manual_seed(seed)
        head = WrittenHead(Inlet(8, 2), len(KNOWN)).eval()
        with torch.inference_mode():
            for parameter in head.parameters():
                parameter *= 2.0  # so that different heads say different words
            output = head.respond(Tapped(tokens, here))
            words, (heard, there) = output.words(), output.window()
            plain = torch.full((8, 1), BLANK)
            for _ in range(LONGEST):
                following = head.foretold(heard, there, plain)[:, -1].argmax(-1)
                ended = (plain[:, -1] == BLANK) & (plain.shape[1] > 1)
                plain = torch.cat((plain, torch.where(ended, BLANK, following)[:, None]), 1)
        assert torch.equal(words, plain[:, 1:])
        every |= {tuple(row) for row in words.tolist()}
    assert len(every) > 10
    assert any(row[0] != BLANK == row[-1] for row in every), "some end before the last word"
    assert any(row[-1] != BLANK for row in every), "some do not"


def test_the_writing_head_ignores_input_beyond_its_window() -> None:
    head = WrittenHead(Inlet(8, 2), len(KNOWN), kind="conv").eval()
    one, other = torch.randn(2, 1, 120, 2, 8)
    other[:, 30:] = one[:, 30:]
    here = torch.ones(1, 120, 2, dtype=torch.bool)
    with torch.inference_mode():
        outputs = [head.respond(Tapped(row, here)) for row in (one, other)]
    late, early = (
        [float(output.nats(["red"], torch.tensor([end]))[0]) for output in outputs] for end in (240, 60 + HEARD - 4)
    )
    assert late[0] == pytest.approx(late[1], abs=1e-5)
    assert early[0] != pytest.approx(early[1], abs=1e-5)


def test_texts_and_numbers_are_inverse_and_one_end_counts() -> None:
    texts = ["two red balls", "seven", ""]
    wanted = targets(texts)
    assert texts_of(wanted[:, 1:]) == texts
    assert counting_words(wanted).sum(1).tolist() == [4, 2, 1]
    long = targets(["one two three four five"])
    assert texts_of(long[:, 1:]) == ["one two three four"]
    assert counting_words(long).sum(1).tolist() == [LONGEST]


def test_mfcc_are_the_first_cepstral_coefficients_of_log_mel() -> None:
    import librosa

    ear = EarEncoder(16, "mfcc")
    assert isinstance(ear.cepstra, torch.Tensor)
    mel = frames(noise(2)[:, :3200])[0]
    wanted = librosa.feature.mfcc(S=mel.numpy().T, n_mfcc=CEPSTRA).T
    torch.testing.assert_close(mel @ ear.cepstra, torch.from_numpy(wanted), atol=1e-4, rtol=1e-4)
    assert (ear.net[0].in_channels, EarEncoder(16).net[0].in_channels) == (CEPSTRA, MELS)


def test_the_two_dimensional_ear_convolves_over_bands_without_delay() -> None:
    ear = EarEncoder(16, "logmel2d").eval()
    generator = torch.Generator().manual_seed(4)
    mel = torch.randn(1, LEAD + 8 * 5, MELS, generator=generator)
    with torch.inference_mode():
        tokens = ear.convolved(mel)
        assert tokens.shape == EarEncoder(16).convolved(mel).shape == (1, 10, 16)
        later = mel.clone()
        later[:, LEAD + 8 * 3 :] += 1.0
        told = (ear.convolved(later) - tokens).abs().amax((0, 2)) > 0
        assert told.tolist() == [False] * 6 + [True] * 4, "of what comes later nothing is known"
        # Four bands higher is one step of the second convolution over bands: the same numbers one place further.
        first = ear.net[:4]
        tone = torch.zeros(1, MELS, 20)
        tone[:, 20:30] = torch.randn(1, 10, 20, generator=generator)
        torch.testing.assert_close(first(tone.roll(4, 1))[:, :, 3:11], first(tone)[:, :, 2:10])


@pytest.mark.parametrize(("kind", "features"), LEARNED)
def test_each_kind_learns_words_frame_by_frame_and_in_writing(kind: str, features: str, tmp_path: Path) -> None:
    pupil, context = hearing(kind, features), tiny_context(tmp_path)
    trains = ("encoders.listen.", "heads.heard_words_arc.", "heads.written_words_arc.")
    learner = GradientLearner(pupil.train(), listen.loss, seed=0, learning_rate=1e-2, trains=trains, steps=80)
    batch = listen.batch(context, 0, 6, 50)
    learner.begin(0)
    told = [learner.update(batch, step) for step in range(80)]
    assert float(told[-1]["words by the arc"]) < 0.5 * float(told[1]["words by the arc"])
    assert float(told[-1]["written by the arc"]) < 0.4 * float(told[0]["written by the arc"])
    # What it has learned it writes without teacher forcing.
    ear: Any = pupil.eval().encoder(parts.LISTEN)
    with torch.inference_mode():
        tokens = ear.tokens_of(batch["mel"])
        written: Any = pupil.head(parts.WRITTEN_ARC).respond(
            Tapped(tokens, torch.ones(tokens.shape[:-1], dtype=torch.bool))
        )
    right = np.mean([said == meant for said, meant in zip(texts_of(written.words()), batch["texts"], strict=True)])
    assert right == 1.0


def test_the_trunk_learns_to_write(tmp_path: Path) -> None:
    pupil, context = hearing("gru", "logmel"), tiny_context(tmp_path)
    trains = parts.trained_weights(pupil)
    assert f"heads.{parts.WRITTEN}." in trains
    assert f"heads.{parts.WRITTEN_ARC}." not in trains
    learner = MuonLearner(pupil, lesson.loss, seed=0, learning_rate=1e-2, trains=trains, steps=30)
    heard = lesson.lesson_batch(context, 0, 6)
    learner.begin(0)
    missed = [float(learner.update(heard, step)["written"]) for step in range(30)]
    assert missed[-1] < 0.7 * missed[0]


def test_settings_choose_the_parts_and_learned_parts_are_not_rebuilt() -> None:
    agent = hearing("conv", "mfcc", "ctc")
    assert agent.config.hearing == {"encoder": "conv", "features": "mfcc", "words": "ctc"}
    assert isinstance(agent.head(parts.WORDS_ARC).memory, bodies.Convolved)  # type: ignore[union-attr]
    assert parts.WRITTEN not in agent.heads
    for setting in ("encoder=gru", "features=logmel"):
        with pytest.raises(
            ConfigError, match=rf"stages.voice.{setting} cannot be used: the agent has learned to hear by"
        ):
            give_settings(load_stage("voice"), agent, tiny_config(f"stages.voice.{setting}"))
    give_settings(load_stage("voice"), agent, tiny_config("stages.voice.words=seq2seq", "stages.voice.encoder=conv"))
    parts.admit(agent)
    assert isinstance(agent.head(parts.WRITTEN).memory, bodies.Convolved)  # type: ignore[union-attr]
    begins = tiny_agent()
    give_settings(load_stage("voice"), begins, tiny_config())
    best = {"encoder": "conv", "features": "logmel2d"}
    assert begins.config.hearing == best, "by which words are learned in fewer steps, and voices never met understood"
    give_settings(load_stage("voice"), begins, tiny_config("stages.voice.encoder=gru"))
    give_settings(load_stage("voice"), begins, tiny_config())
    assert begins.config.hearing == {**best, "encoder": "gru"}, "what was told stays until there is an ear"
    plain = tiny_agent()
    parts.admit(plain)
    assert isinstance(plain.head(parts.WORDS_ARC).memory, torch.nn.GRU)  # type: ignore[union-attr]
    for made in (lambda: bodies.body("gruu", 8, 8), lambda: EarEncoder(8, "mfc")):
        with pytest.raises(ConfigError, match="did you mean"):
            made()


def test_an_agent_with_settings_round_trips_through_disk(tmp_path: Path) -> None:
    agent, sound = hearing("conv", "mfcc"), noise(3)
    agent.save_pretrained(tmp_path / "agent")
    again = Agent.from_pretrained(tmp_path / "agent").eval()
    with torch.inference_mode():
        outputs: list[Any] = [
            one(as_batch(sound), [parts.WORDS_ARC, parts.WRITTEN])[parts.WORDS_ARC] for one in (agent, again)
        ]
    assert torch.equal(outputs[0].logits, outputs[1].logits)
    assert again.config.hearing == agent.config.hearing


def test_an_exam_of_a_missing_part_says_so(tmp_path: Path) -> None:
    hearing("gru", "logmel", "ctc").save_pretrained(tmp_path / "agent")
    with pytest.raises(ExamError, match=f"it lacks {parts.WRITTEN}, {parts.WRITTEN_ARC}"):
        runner.examine("voice", tmp_path / "agent", tiny_config("stages.voice.words=seq2seq"))
    with pytest.raises(ConfigError, match=r"stages.voice.features=mfcc cannot be used"):
        runner.examine("voice", tmp_path / "agent", tiny_config("stages.voice.features=mfcc"))


def test_an_exam_reads_the_written_words_where_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A player that writes the truth has no wrong word, whatever the frames say."""
    agent, context = hearing("gru", "logmel"), tiny_context(tmp_path, "exam.episodes_scale=0.05")
    asked = exam.bank("hear_words exam", context.seed, context.episodes(exam.UTTERANCES), exam.UNSEEN_PHRASES, True)
    knows = {wave.tobytes(): text for wave, text in zip(asked.waves, asked.texts, strict=True)}

    def told(agent: Agent, waves: Any, heads: Any, words: Any = ()) -> dict[str, exam.Transcribed]:
        wrong = exam.Transcribed(["zero"] * len(waves), np.zeros(len(waves), np.int64))
        right = exam.Transcribed([knows[wave.tobytes()] for wave in waves], wrong.likeliest)
        return {name: right if name == parts.WRITTEN else wrong for name in heads}

    real = {measure.name: measure for measure in exam.examine(agent, context).in_full()}[exam.CAREGIVER]
    monkeypatch.setattr(exam, "writing_of", told)
    found = {measure.name: measure for measure in exam.examine(agent, context).in_full()}[exam.CAREGIVER]
    assert found.score == 0.0 < real.score
    assert found.rows[exam.OFF] > 0.5
    assert found.rows[exam.FRAMES] == real.rows[exam.FRAMES] > 0.5


def test_writing_of_a_batch_equals_writing_of_each_alone() -> None:
    """Silence after a shorter sound of a batch is ignored."""
    agent = hearing("gru", "logmel")
    waves = [noise(n)[0].numpy() for n in (3, 9)]
    together = exam.writing_of(agent, waves, [parts.WRITTEN_ARC], ("one", "two", "red"))[parts.WRITTEN_ARC]
    alone = [exam.writing_of(agent, [wave], [parts.WRITTEN_ARC], ("one", "two", "red")) for wave in waves]
    assert together.texts == [one[parts.WRITTEN_ARC].texts[0] for one in alone]
    assert together.likeliest.tolist() == [int(one[parts.WRITTEN_ARC].likeliest[0]) for one in alone]
    assert word_numbers("one two red")
