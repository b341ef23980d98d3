"""The eye for details: its tokens, when they are present, and that nothing else changes by it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.batch import collate
from devmind.agent.taps import Tapped
from devmind.errors import MomentError
from devmind.moment import Moment
from devmind.seeding import numpy_rng
from devmind.testing import tiny_agent
from stages.language import parts
from stages.language.caregiver.scene import COLOURS
from stages.language.eye import (
    COLOUR,
    FORM,
    LEAST,
    MOST,
    SIDE,
    THINGS,
    CellsHead,
    DetailEncoder,
    PointHead,
)
from stages.language.parts import CALLED, COLOUR_OF, DETAIL, NOUN_OF, OBJECTS, POINT, SIGHT, TEXT
from stages.language.seeing import cells

PICTURE = numpy_rng("seeing").integers(0, 256, (64, 64, 3)).astype(np.uint8)


def seeing() -> Agent:
    """An agent with an added eye that takes many cells for things."""
    agent = tiny_agent()
    agent.add_encoder(SIGHT)
    parts.admit(agent)
    torch.nn.init.zeros_(agent.encoder(DETAIL).things.bias)
    return agent.eval()


def moments(**senses: list) -> list[list[Moment]]:
    """One row a Moment, each with the senses whose entry is not None."""
    rows = [dict(zip(senses, each, strict=True)) for each in zip(*senses.values(), strict=True)]
    return [[Moment(0.0, {k: v for k, v in row.items() if v is not None}, first=True)] for row in rows]


@pytest.mark.parametrize("width", [16, 128])
def test_a_picture_of_any_size_gives_cells_and_a_token_for_each_thing(width: int) -> None:
    eye = DetailEncoder(width)
    torch.nn.init.zeros_(eye.things.bias)
    for shape in ((2, 64, 64, 3), (2, 5, 48, 80, 3)):
        encoded, lead = eye(torch.randint(0, 256, shape, dtype=torch.uint8)), shape[:-3]
        assert encoded.tokens.shape == (*lead, MOST, width)
        assert encoded.tokens.isfinite().all()
        things = encoded.maps[THINGS].flatten(-3)
        assert torch.equal(encoded.present.sum(-1), (things > LEAST).sum(-1).clamp_max(MOST))
        assert not (encoded.present[..., 1:] & ~encoded.present[..., :-1]).any(), "those that are there come first"
        assert {name: each.shape[len(lead) :] for name, each in encoded.maps.items()} == {
            name: (channels, SIDE, SIDE) for name, channels in eye.map_channels.items()
        }


def test_a_uniform_picture_gives_finite_codes() -> None:
    for value in (0, 255):
        encoded = DetailEncoder(16)(torch.full((1, 64, 64, 3), value, dtype=torch.uint8))
        assert all(each.isfinite().all() for each in (encoded.tokens, *encoded.maps.values()))


def test_the_most_certain_things_become_tokens_with_their_places() -> None:
    eye = DetailEncoder(16).eval()
    with torch.no_grad():
        eye.spread.weight.zero_()
        eye.spread.bias.zero_()
        eye.surety.zero_()
        eye.things.bias.fill_(5.0)
        encoded = eye(torch.from_numpy(PICTURE)[None])
        surest = encoded.maps[THINGS].flatten().topk(MOST).indices.sort().values
        torch.testing.assert_close(encoded.tokens[0], eye.norm(eye.places[surest]))


def test_a_cell_sees_its_surroundings_and_nothing_far_away() -> None:
    """Contrast is that of the whole picture, so the change must keep mean and contrast: two pixels swap places."""
    eye, picture = DetailEncoder(16).eval(), torch.from_numpy(PICTURE)[None].clone()
    before = eye(picture).maps[FORM][0]
    picture[0, 2, [1, 3]] = picture[0, 2, [3, 1]]
    moved = (eye(picture).maps[FORM][0] - before).abs().amax(0)
    assert moved[0, 0] > 1e-4
    assert moved[5:, :].max() < 1e-4
    assert moved[:, 5:].max() < 1e-4


def test_form_is_independent_of_colour() -> None:
    """A thing in another colour of the same brightness has the same form."""
    eye, picture = DetailEncoder(16).eval(), torch.from_numpy(PICTURE)
    one, other = (eye(each).maps for each in (picture, picture[..., [2, 0, 1]]))
    torch.testing.assert_close(one[FORM], other[FORM], atol=1e-4, rtol=1e-4)
    assert not torch.allclose(one[COLOUR], other[COLOUR], atol=1e-2), "colour is seen too"


def test_the_eye_is_present_only_beside_a_page() -> None:
    agent = seeing()
    batch = collate(moments(sight=[PICTURE, PICTURE, None], text=["what is that?", None, "what is that?"]))
    here = agent.encode_batch(batch).encoded[DETAIL].present
    assert here[0].any()
    assert not here[1:].any()


def test_moments_without_a_page_are_unchanged_to_the_bit() -> None:
    """Features, keys and answers of an agent with the eye and of one without, in batches and when stepping."""
    bare = tiny_agent()
    bare.add_encoder(SIGHT)
    bare.add_head("kind", "head.categorical", options={"classes": 4})
    grown = tiny_agent()
    grown.add_encoder(SIGHT)
    grown.add_head("kind", "head.categorical", options={"classes": 4})
    parts.admit(grown)
    rows = [[Moment(t / 10, {"sight": np.roll(PICTURE, t, 0)}, first=t == 0) for t in range(6)] for _ in range(2)]
    batch = collate(rows)
    one, other = (agent.eval().forward(batch, ["kind"])["kind"].logits for agent in (bare, grown))
    assert torch.equal(one, other)
    states = [agent.new_state(2) for agent in (bare, grown)]
    for tick in zip(*rows, strict=True):
        outs = []
        for number, agent in enumerate((bare, grown)):
            percepts = agent.encode(states[number], list(tick))
            states[number], output = agent.step(states[number], percepts, heads=["kind"])
            outs.append((percepts.keys, output.outputs["kind"].logits))
        assert outs[0][0].keys() == outs[1][0].keys()
        assert all(torch.equal(outs[0][0][name], outs[1][0][name]) for name in outs[0][0])
        assert torch.equal(outs[0][1], outs[1][1])


def test_a_tick_sees_what_a_batch_sees() -> None:
    agent = seeing()
    rows = moments(sight=[PICTURE, PICTURE[::-1].copy()], text=["where is the red ball?", "what is that?"])
    whole = agent.forward(collate(rows), [POINT, TEXT])
    percepts = agent.encode(agent.new_state(2), [row[0] for row in rows])
    assert DETAIL not in percepts.keys
    _, output = agent.step(agent.new_state(2), percepts, heads=[POINT, TEXT])
    for head in (POINT, TEXT):
        torch.testing.assert_close(output.outputs[head].logits, whole[head].logits[:, 0], atol=1e-4, rtol=1e-4)
    assert whole[POINT].logits.shape == (2, 1, SIDE**2)


def test_an_invalid_picture_is_refused_beside_a_page_too() -> None:
    with pytest.raises(MomentError, match="sight"):
        Moment(0.0, {"sight": PICTURE.astype(np.float32), "text": "what is that?"})


def test_an_older_agent_gets_the_eye_and_keeps_everything_else(tmp_path: Path) -> None:
    old = tiny_agent()
    old.add_encoder(SIGHT)
    old.save_pretrained(tmp_path / "old")
    agent = Agent.from_pretrained(tmp_path / "old")
    before = {name: value.clone() for name, value in agent.state_dict().items()}
    parts.admit(agent)
    assert all(torch.equal(agent.state_dict()[name], value) for name, value in before.items())
    with torch.no_grad():
        agent.encoder(DETAIL).spread.weight.add_(1.0)
    agent.save_pretrained(tmp_path / "new")
    again = Agent.from_pretrained(tmp_path / "new", strict=True)
    assert again.sha256() == agent.sha256()
    assert type(again.encoder(DETAIL)) is DetailEncoder
    batch = collate(moments(sight=[PICTURE], text=["what is that?"]))
    heads = [TEXT, POINT, *CALLED]
    one, other = (each.eval().forward(batch, heads) for each in (agent, again))
    assert all(torch.equal(one[head].logits, other[head].logits) for head in heads)


def test_heads_name_each_cell_and_point_at_the_sought_one() -> None:
    agent = seeing()
    encoded = agent.encode_senses({"sight": torch.from_numpy(PICTURE)[None], "text": torch.full((1, 4), 65)})[DETAIL]
    outputs = agent.run_heads(CALLED, {DETAIL: encoded})
    assert outputs[COLOUR_OF].logits.shape == (1, SIDE**2, len(COLOURS))
    code = encoded.maps[FORM][0, :, 3, 5]
    torch.testing.assert_close(outputs[NOUN_OF].logits[0, 3 * SIDE + 5], agent.head(NOUN_OF).read(code))
    torch.testing.assert_close(outputs[OBJECTS].log_prob(torch.ones(1, SIDE**2)).exp()[0],
                               encoded.maps[THINGS].flatten().sigmoid())  # fmt: skip
    head = agent.head(POINT)
    assert isinstance(head, PointHead)
    assert isinstance(agent.head(COLOUR_OF), CellsHead)
    with torch.no_grad():
        head.wanted.weight.zero_()
        head.wanted.bias.copy_(100 * torch.cat((code, encoded.maps[COLOUR][0, :, 3, 5])))
    tokens = torch.cat((encoded.tokens, torch.zeros(1, 1, 16)), 1)
    found = head(Tapped(tokens, torch.ones(1, MOST + 1, dtype=torch.bool), encoded.maps))
    assert found.mode().tolist() == [3 * SIDE + 5]


def test_cells_contain_the_middles_of_boxes() -> None:
    boxes = np.array([[0, 0, 8, 8], [56, 0, 64, 8], [24, 30, 40, 44], [0, 0, 0, 0]], np.float32)
    assert cells(boxes).tolist() == [0, 7, 4 * 8 + 4, 0]
