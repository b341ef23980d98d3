"""Labelled recordings: groups stay apart, bad files are named, and nothing taught is examined."""

from __future__ import annotations

import numpy as np
import pytest
import soundfile
import torch

from devmind.config import load
from devmind.curriculum.start import make_context
from devmind.errors import ExamError
from devmind.seeding import torch_generator
from devmind.sessions.spoken import clips, held_out_speaker, speaker_group
from devmind.sessions.written import home_pictures, pictures, source_group, split_pictures, unmet_pictures
from devmind.testing import tiny_agent
from stages.reflex import parts
from stages.reflex.hear import exam as hear_exam
from stages.reflex.hear import lesson as hear
from stages.reflex.lessons import groups
from stages.reflex.see import exam as see_exam
from stages.reflex.see import lesson as see

SPEAKERS = ("ann", "bob", "cyd")


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    (tmp_path / "images").mkdir()
    labels = np.arange(200) % 10
    images = (labels[:, None, None] * 20 + rng.integers(0, 20, (200, 12, 12))).astype(np.uint8)
    np.savez(tmp_path / "images" / "some.npz", images=images, labels=labels)
    (tmp_path / "speech" / "set").mkdir(parents=True)
    for digit in range(10):
        for speaker in SPEAKERS:
            wave = np.sin(np.arange(3000) * 0.02 * (digit + 1)) * np.hanning(3000)
            soundfile.write(tmp_path / "speech" / "set" / f"{digit}_{speaker}_0.wav", wave, 8000)
    return tmp_path


def context(data, *sets):
    return make_context(load("tiny", sets=["exam.episodes_scale=1", "device=cpu", *sets]), data, data, ())


def agent():
    made = tiny_agent()
    parts.admit(made)
    return made


def test_a_fifth_of_the_pictures_is_held_out_by_the_seed_alone(folder):
    every = pictures(folder)
    taught, unseen = split_pictures(every, 0)
    assert (len(taught.labels), len(unseen.labels)) == (160, 40)
    rows = lambda p: {image.tobytes() for image in p.images}  # noqa: E731
    assert not rows(taught) & rows(unseen)
    assert rows(split_pictures(every, 0)[1]) == rows(unseen) != rows(split_pictures(every, 1)[1])


def test_without_a_folder_the_last_writers_of_scikit_learns_digits_are_held_out():
    every = pictures(None)
    taught, unseen = split_pictures(every, 0)
    assert len(taught.labels) + len(unseen.labels) == 1797
    assert len(unseen.labels) == 600
    assert np.array_equal(unseen.images, every.images[-600:])


def test_an_agent_is_examined_on_the_part_that_its_own_seed_held_out(folder):
    child = agent()
    child.config.trained_on = [source_group(pictures(folder), 7)]
    _, unseen = see_exam.exam_pictures(child, context(folder, "seed=3"))
    assert np.array_equal(unseen.images, split_pictures(pictures(folder), 7)[1].images)
    child.config.trained_on = [source_group(pictures(folder), seed) for seed in (7, 8)]
    with pytest.raises(ExamError, match="seeds"):
        see_exam.exam_pictures(child, context(folder))
    child.config.trained_on = [source_group(pictures(None), seed) for seed in (7, 8)]
    assert len(unmet_pictures(pictures(None), child.config.trained_on, 0)[1].labels) == 600, "split alike by any seed"


def test_pictures_that_no_lesson_saw_are_elsewhere_and_the_exam_is_at_home(folder):
    child, here = agent(), context(folder)
    assert home_pictures(folder, [])[1] is None, "an agent that was taught none is examined on what is given"
    child.config.trained_on = [source_group(pictures(folder), 0), source_group(pictures(None), 0)]
    assert see_exam._elsewhere(child, here, pictures(folder)) == [], "lessons saw it"
    child.config.trained_on = [source_group(pictures(None), 0)]
    taught, unseen = see_exam.exam_pictures(child, here)
    assert unseen.source == "scikit-learn digits"
    with torch.inference_mode():
        found, gain = see_exam._elsewhere(child, here, taught.take(np.arange(100)))
    assert (found.name, found.n, len(found.floors)) == ("see/elsewhere", 200, 3)
    assert gain.score == pytest.approx(found.score - max(found.floors.values()))
    assert "some" in found.note


def test_lessons_never_play_the_held_out_speaker(folder):
    for sets in ((), ("exam.holdout=bob",)):
        here = context(folder, *sets)
        out = held_out_speaker(SPEAKERS, 0, here.config.exam.holdout)
        assert out not in set(hear.lesson_clips(here).speakers)
        assert speaker_group(out) not in groups(here)
        assert len(groups(here)) == 3
    with pytest.raises(ExamError, match="no speaker of the data"):
        hear.lesson_clips(context(folder, "exam.holdout=zoe"))


def test_only_unmet_speakers_are_examined_and_none_left_is_an_error(folder):
    child, every = agent(), clips(folder)
    child.config.trained_on = [speaker_group("ann"), speaker_group("bob")]
    assert set(every.unmet(child.config.trained_on).speakers) == {"cyd"}
    child.config.trained_on += [speaker_group("cyd")]
    with pytest.raises(ExamError, match="every speaker"):
        every.unmet(child.config.trained_on)


def test_recordings_of_one_speaker_give_no_speech_exam(folder, tmp_path_factory):
    alone = tmp_path_factory.mktemp("alone")
    (alone / "speech" / "one").mkdir(parents=True)
    for path in (folder / "speech").glob("*/*_ann_*.wav"):
        (alone / "speech" / "one" / path.name).write_bytes(path.read_bytes())
    assert set(clips(alone).speakers) == {"ann"}
    assert hear_exam.examine_speech(agent(), context(alone)).in_full() == []
    assert hear_exam.examine_speech(agent(), context(alone).glimpse()).alone() == []


def test_clips_are_one_second_around_the_speech_at_16_khz(folder):
    every = clips(folder)
    assert every.waves.shape == (30, 16000)
    assert np.abs(every.waves).max() == pytest.approx(0.5, abs=1e-3)
    assert (np.abs(every.waves[:, :3000]) == 0).all()
    # Three eighths of a second, a little less for the quiet ends.
    assert ((every.lengths > 5000) & (every.lengths < 6010)).all()


def test_variation_keeps_shape_and_repeats_by_seed():
    waves = torch.randn(3, 16000, generator=torch.Generator().manual_seed(0))
    first, again = (hear.vary(waves, torch.Generator().manual_seed(5)) for _ in range(2))
    assert first.shape == waves.shape
    assert torch.equal(first, again)


def test_a_slower_voice_is_lower():
    tone = torch.sin(2 * torch.pi * 1000 * torch.arange(16000) / 16000)[None].repeat(64, 1)
    spectrum = torch.fft.rfft(hear.vary(tone, torch.Generator().manual_seed(1))).abs()
    peaks = spectrum.argmax(-1).float()
    assert 780 < peaks.min() < 900
    assert 1100 < peaks.max() < 1270


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "images"),
        (b"not an archive", "images"),
        ({"images": np.zeros((2, 4, 4), np.uint8)}, "labels"),
        ({"images": np.zeros((2, 4, 4), np.float32), "labels": np.zeros(2)}, "uint8"),
        ({"images": np.zeros((2, 4, 4), np.uint8), "labels": np.array([0, 12])}, "0..9"),
        ({"images": np.zeros((2, 4, 4), np.uint8), "labels": np.zeros(3)}, "as many"),
        ({"images": np.zeros((2, 4, 4), np.uint8), "labels": np.eye(2)}, "as many"),
    ],
)
def test_pictures_in_another_layout_are_refused(tmp_path, content, said):
    (tmp_path / "images").mkdir()
    path = tmp_path / "images" / "bad.npz"
    if isinstance(content, bytes):
        path.write_bytes(content)
    else:
        np.savez(path, **content)
    with pytest.raises(ExamError, match=said):
        pictures(tmp_path)


def test_pictures_damaged_inside_the_archive_are_refused(folder):
    rng, path = np.random.default_rng(0), folder / "images" / "some.npz"
    with np.load(path) as file:
        np.savez_compressed(path, **file)
    whole = path.read_bytes()
    for at in range(200, 2_000, 200):
        path.write_bytes(whole[:at] + rng.bytes(2_000) + whole[at + 2_000 :])
        pictures.cache_clear()
        with pytest.raises(ExamError, match=r"some.npz must be an .npz"):
            pictures(folder)


def test_a_broken_recording_is_named(tmp_path):
    (tmp_path / "speech" / "set").mkdir(parents=True)
    (tmp_path / "speech" / "set" / "1_ann_0.wav").write_bytes(b"RIFF nonsense")
    with pytest.raises(ExamError, match="1_ann_0"):
        clips(tmp_path)


def test_digits_of_another_source_are_smaller_anywhere_and_fainter_and_a_rule_finds_their_ink():
    images, generator = pictures(None).images[:64], torch_generator("test", "shifts")
    plain = see.as_sight(images)[..., 0].float()
    small = see.as_sight(images, generator, ("margin",))[..., 0].float()
    ink = (small > 80).float().mean((1, 2)) / (plain > 80).float().mean((1, 2))
    assert ink.min() < 0.2, "a third of the side"
    assert ink.max() > 0.7
    where = torch.stack([(small > 80).any(along).float().argmax(1) for along in (1, 2)])
    assert where.float().std(1).min() > 5, "px"
    light = see.as_sight(images, generator, ("light",))[..., 0].float()
    assert light.amin((1, 2)).max() > 60
    assert light.amax((1, 2)).min() < 180
    found, known = see_exam._ink(see.as_sight(images, generator, ("margin",))), see_exam._ink(see.as_sight(images))
    nearest = (found @ known.T).argmax(1)
    assert (pictures(None).labels[nearest] == pictures(None).labels[:64]).mean() > 0.7


def test_digits_keep_their_shape_as_sight():
    sight = see.as_sight(pictures(None).images[:4])
    assert sight.shape == (4, 64, 64, 3)
    small = sight[..., 0].float().unfold(1, 8, 8).unfold(2, 8, 8).mean((-1, -2))
    wanted = torch.from_numpy(pictures(None).images[:4].astype(np.float32))
    # Bilinear enlarging blurs, so the cells' means are near the pixels, not equal to them.
    assert torch.corrcoef(torch.stack((small.flatten(), wanted.flatten())))[0, 1] > 0.95
