"""Codes as tokens of the trunk: prediction, learning, and that writing on with the cache equals predicting the page."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import torch
from typer.testing import CliRunner

from devmind.agent.agent import Agent
from devmind.agent.batch import one_tick
from devmind.cli import app
from devmind.errors import DevmindError, MomentError
from devmind.testing import tiny_agent, tiny_context
from devmind.testing.laws import ATOL
from stages.voice import parts
from stages.voice.codec import CODES, LEVELS
from stages.voice.echo.tokens import exam, lesson
from stages.voice.echo.tokens.model import MOST, NextCode, places_of
from stages.voice.echo.tokens.writing import written_on
from stages.voice.listening import LONGEST_ON, repeat


@pytest.fixture(scope="module")
def agent() -> Agent:
    """An agent whose trunk attends: a newborn's passes tokens on nearly unchanged."""
    agent = tiny_agent()
    parts.admit(agent)
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        for weight in agent.trunk.decoder.parameters():
            weight.add_(0.3 * torch.randn_like(weight))
    return agent.eval()


def page(n: int, length: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(CODES, (n, length, 2), generator=torch.Generator().manual_seed(seed))


def test_levels_are_numbered_from_zero() -> None:
    every = torch.stack((torch.arange(CODES), torch.arange(CODES)), -1)
    places = places_of(every)
    assert torch.equal(places.amin(0), torch.zeros(10, dtype=torch.int64))
    assert places.amax(0).tolist() == [level - 1 for level in LEVELS * 2]


def test_probabilities_of_all_codes_sum_to_one_over_valid_levels() -> None:
    logits = torch.randn(10, 7, generator=torch.Generator().manual_seed(0))
    logits[torch.arange(7) >= torch.tensor(LEVELS * 2)[:, None]] = torch.finfo(torch.float32).min
    output = NextCode(logits)
    every = torch.stack((torch.arange(CODES), torch.full((CODES,), 7)), -1)
    first = NextCode(logits[None].expand(CODES, -1, -1)).log_prob(every)
    alone = NextCode(torch.cat((torch.zeros_like(logits[:5]), logits[5:]))[None]).logits
    second = alone[0, 5:].log_softmax(-1).gather(-1, places_of(every[0])[5:, None]).sum()
    assert math.isclose(float((first - second).exp().sum()), 1.0, abs_tol=1e-4)
    likeliest = output.log_prob(output.mode())
    drawn = torch.stack([output.sample(torch.Generator().manual_seed(seed)) for seed in range(50)])
    assert (NextCode(logits[None].expand(50, -1, -1)).log_prob(drawn) <= likeliest + 1e-5).all()
    assert drawn.max() < CODES
    assert len(drawn.unique(dim=0)) > 10


def test_each_token_is_predicted_from_earlier_ones_only(agent: Agent) -> None:
    one = page(2, 9)
    other = one.clone()
    other[:, 6:] = page(2, 3, seed=1)
    with torch.no_grad():
        first, second = (lesson.foretold(agent, some).logits for some in (one, other))
    torch.testing.assert_close(first[:, :6], second[:, :6], atol=ATOL, rtol=0)
    assert not torch.allclose(first[:, 6:], second[:, 6:], atol=1e-4)
    earlier = one.clone()
    earlier[:, 0] = page(2, 1, seed=2)[:, 0]
    with torch.no_grad():
        third = lesson.foretold(agent, earlier).logits
    assert not torch.allclose(first[:, 5], third[:, 5], atol=1e-6), "the trunk looks back"


def test_writing_on_with_the_cache_equals_predicting_the_whole_page(agent: Agent) -> None:
    begun = page(3, 8, seed=3)
    with torch.inference_mode():
        written = written_on(agent, begun, 5)
        whole = begun
        for _ in range(5):
            whole = torch.cat((whole, lesson.foretold(agent, whole).mode()[:, -1:].cpu()), 1)
    assert torch.equal(written, whole[:, 8:])


def test_a_page_is_written_on_only_if_its_sense_is_last(agent: Agent) -> None:
    """The sense of codes comes after that of text in agents that could read before, and before it in others."""
    text = torch.tensor([[256, 97, 98]])
    for senses, sense, allowed in (
        ({parts.TEXT: text}, parts.TEXT, True),
        ({parts.CODES: page(1, 4)}, parts.CODES, True),
        ({parts.CODES: page(1, 4), parts.TEXT: text}, parts.CODES, agent.sense_order[-1] == parts.CODES),
        ({parts.CODES: page(1, 4), parts.TEXT: text}, parts.TEXT, agent.sense_order[-1] == parts.TEXT),
    ):
        state = agent.new_state()
        percepts = agent.encode(state, one_tick(senses))
        state, _ = agent.begin(state, percepts)
        more = text[:, 1:2] if sense == parts.TEXT else page(1, 1)
        order = [name for name in agent.sense_order if name in (parts.TEXT, parts.CODES)]
        if allowed or sense == order[-1]:
            agent.extend(state, sense, more)
        else:
            with pytest.raises(DevmindError, match=f"stands last \\(that is '{order[-1]}'\\); got '{sense}'"):
                agent.extend(state, sense, more)


def test_a_page_that_is_too_long_is_refused(agent: Agent) -> None:
    with pytest.raises(MomentError, match=f"up to {MOST} tokens of 25 ms; got {MOST + 1}"):
        lesson.foretold(agent, page(1, MOST + 1))


def test_counted_frequencies_give_the_expected_nats() -> None:
    same = torch.zeros(1, 101, 2, dtype=torch.int64)
    counted = exam.Counted.of(same, torch.tensor([101]))
    sizes = torch.tensor(LEVELS * 2).double()
    each = -(10 * math.log(102 / 108))
    behind = -(10 * math.log(101 / 107))
    assert sizes.sum() == 54
    assert torch.allclose(counted.nats(same, False), torch.full((1, 100), each), atol=1e-4)
    assert torch.allclose(counted.nats(same, True), torch.full((1, 100), behind), atol=1e-4)


def test_the_lesson_lowers_its_loss_and_changes_only_its_own_parts(tmp_path: Path) -> None:
    context = tiny_context(tmp_path)
    pupil = tiny_agent()
    parts.admit(pupil)
    before = {name: value.clone() for name, value in pupil.state_dict().items()}
    taught = lesson.lesson(context)
    learner = taught.make_learner(pupil, context)
    learner.steps = 40
    batch = lesson.lesson_batch(context, 0, 6)
    first, _ = lesson.loss(pupil, batch)
    learner.begin(0)
    for step in range(12):
        learner.update(batch, step)
    last, told = lesson.loss(pupil, batch)
    assert float(last) < float(first) - 0.5
    assert math.isclose(float(told["nats a token"]), float(last))
    changed = {name for name, value in pupil.state_dict().items() if not torch.equal(value, before[name])}
    assert changed
    assert all(name.startswith(lesson.trains(pupil)) for name in changed)


def test_the_exam_gives_nats_beside_its_floors_and_a_continuation(agent: Agent, tmp_path: Path) -> None:
    context = tiny_context(tmp_path)
    with torch.inference_mode():
        (told,) = exam.token_exam(agent, context).in_full()
        assert set(told.floors) == {exam.EACH, exam.BEFORE_IT, "untaught agent"}
        assert 0 < told.floors[exam.EACH] < sum(map(math.log, LEVELS * 2)) + 1.0
        sound = 0.1 * torch.randn(2, 6 * 1600, generator=torch.Generator().manual_seed(0))
        other = sound.clone()
        other[:, 4 * 1600 :] = 0.0
        at = torch.tensor([3, 2])
        one, two = (exam.gone_on_by_tokens(agent, some, at) for some in (sound, other))
        assert one.shape == (2, 16, 64)
        assert one.isfinite().all()
        assert torch.equal(one, two), "what comes is not heard"
    without = tiny_agent()
    assert exam.token_exam(without, context).in_full() == []
    assert exam.beside(without, sound, at, None) == {}


def test_a_recording_is_continued_by_the_exams_code(agent: Agent) -> None:
    rng = np.random.default_rng(0)
    short, long = ([rng.normal(0, 0.1, 1600).astype(np.float32) for _ in range(n)] for n in (8, 40))
    for moments, further, room in ((short, 3, 32), (long, LONGEST_ON, MOST - 4 * LONGEST_ON)):
        codes, sound = repeat(agent, moments, further)
        begun = len(moments)
        np.testing.assert_array_equal(codes[:begun], repeat(agent, moments)[0])
        with torch.inference_mode():
            page = exam.pages(agent, torch.from_numpy(np.concatenate(moments))[None])
            written = written_on(agent, page[:, -room:], 4 * further)
        np.testing.assert_array_equal(codes[begun:].reshape(-1, 2), written[0].numpy())
        assert sound.shape == (1600 * (begun + further),)


def test_the_command_writes_a_continuation_and_names_an_agent_without_the_head(agent: Agent, tmp_path: Path) -> None:
    wave = np.random.default_rng(0).normal(0, 0.1, 16_000).astype(np.float32)
    soundfile.write(tmp_path / "a.wav", wave, 16_000)
    agent.save_pretrained(tmp_path / "agent")

    def echo(out: str, *words: str, by: str = "agent") -> Any:
        given = [str(tmp_path / "a.wav"), "--echo", str(tmp_path / out), "--agent", str(tmp_path / by)]
        return CliRunner().invoke(app, ["hear", *given, *words])

    for out, seconds, words in (("b.wav", 1.0, []), ("c.wav", 1.5, ["--go-on", "0.5"])):
        assert echo(out, *words).exit_code == 0
        assert soundfile.info(tmp_path / out).duration == pytest.approx(seconds)
    assert "equal to 10" in echo("d.wav", "--go-on", "11").output
    without = tiny_agent()
    without.save_pretrained(tmp_path / "without")
    came = echo("d.wav", "--go-on", "0.5", by="without")
    assert came.exit_code == 2
    assert "was never taught to go on with a sound: it has no head 'next_code'" in " ".join(came.output.split())
    assert not (tmp_path / "d.wav").exists()
