"""The head that looks at the picture while it writes: byte by byte as all at once, only where there is a picture."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.batch import collate, collate_tick
from devmind.agent.heads import Inlet
from devmind.agent.output import Categorical
from devmind.agent.taps import Tapped
from devmind.agent.text import TextHead
from devmind.agent.writing import answer_questions
from devmind.moment import Moment
from devmind.seeding import numpy_rng
from devmind.testing import tiny_agent
from stages.language import parts
from stages.language.eye import COLOUR, FORM, SIDE, THINGS
from stages.language.looking import LookingTextHead, Written
from stages.language.parts import DETAIL, OBJECTS, SIGHT, TEXT
from stages.language.seeing import nats_looked

PICTURES = numpy_rng("looking").integers(0, 256, (2, 64, 64, 3)).astype(np.uint8)


@pytest.fixture(scope="module")
def agent() -> Agent:
    agent = tiny_agent()
    agent.add_encoder(SIGHT)
    parts.admit(agent)
    torch.nn.init.zeros_(agent.encoder(DETAIL).things.bias)  # it takes many cells for things
    return agent.eval()


def test_writing_byte_by_byte_equals_the_whole_page(agent: Agent) -> None:
    assert isinstance(agent.head(TEXT), LookingTextHead)
    asked = ["what is that?", "where is it?"]
    (one, other), _ = answer_questions(agent, collate_tick({SIGHT: PICTURES, TEXT: asked}, np.ones(2, bool)), 6)
    for row, said in enumerate((one, other)):
        numbers = torch.tensor([[256, *asked[row].encode()]])
        for _ in range(6):
            batch = collate([[Moment(0.0, {SIGHT: PICTURES[row], TEXT: "x"}, first=True)]])
            batch["senses"][TEXT] = numbers[None]
            with torch.no_grad():
                expected = int(agent(batch, [TEXT])[TEXT].logits[0, 0, numbers.shape[1] - 1].argmax())
            numbers = torch.cat((numbers, torch.tensor([[expected]])), 1)
            if expected >= 256:
                break
        written = bytes(n for n in numbers[0, 1 + len(asked[row]) :].tolist() if n < 256).decode(errors="replace")
        assert said
        assert written.startswith(said) or said.startswith(written)


def test_the_picture_affects_writing_only_in_its_own_row(agent: Agent) -> None:
    def logits(*rows: dict) -> torch.Tensor:
        batch = collate([[Moment(0.0, senses, first=True)] for senses in rows])
        with torch.no_grad():
            return agent(batch, [TEXT])[TEXT].logits[:, 0]

    page = {TEXT: "what is that?"}
    alone, mixed = logits(page, page), logits({**page, SIGHT: PICTURES[0]}, page)
    torch.testing.assert_close(mixed[1], alone[0])
    assert not torch.allclose(mixed[0], alone[0])
    head = agent.head(TEXT)
    maps = agent.encoder(DETAIL)(torch.from_numpy(PICTURES)).maps
    tapped = Tapped(torch.zeros(2, 5, 16), torch.ones(2, 5, dtype=torch.bool), maps)
    features = torch.randn(2, 5, 16)
    looked, seen = head.look(features, tapped)
    assert looked.shape == (2, 5, SIDE**2)
    empty = Tapped(tapped.tokens, tapped.present, {**maps, THINGS: torch.full_like(maps[THINGS], -30.0)})
    assert head.look(features, empty)[1].abs().max() < 1e-6 < seen.abs().max(), "where no thing is, nothing is seen"


def test_two_equal_things_are_seen_twice_as_strongly_as_one(agent: Agent) -> None:
    head = LookingTextHead(Inlet(16, 13, {FORM: 4, COLOUR: 4, THINGS: 1}))
    torch.nn.init.zeros_(head.places)
    torch.nn.init.zeros_(head.asks.weight)
    head.asks.bias.data[-1] = 30.0  # it attends to everything
    codes = torch.randn(1, 4, 1, 1).expand(1, 4, SIDE, SIDE)
    here, seen = torch.full((1, 1, SIDE, SIDE), -30.0), []
    for things in range(1, 4):
        here[0, 0, 0, things] = 30.0
        tapped = Tapped(torch.zeros(1, 1, 16), torch.ones(1, 1), {FORM: codes, COLOUR: codes, THINGS: here})
        seen.append(head.look(torch.randn(1, 1, 16), tapped)[1])
    torch.testing.assert_close(seen[1], 2 * seen[0])
    torch.testing.assert_close(seen[2], 3 * seen[0])


def test_looking_is_taught_only_where_something_is_written(agent: Agent) -> None:
    """At the things that the page is about and at no other thing; cells without a thing do not matter."""
    pointed = torch.zeros(1, 1, SIDE**2)
    pointed[..., 9] = 1.0
    called = torch.zeros(1, SIDE**2, dtype=torch.long)
    called[0, [9, 20]] = 1
    written = torch.full((1, 1, 3), -1)
    written[..., 1] = 65
    batch = {"pointed": pointed, "called": {OBJECTS: called}, "written": written}

    def nats(**cells: float) -> float:
        looked = torch.zeros(1, 1, 3, SIDE**2)
        for cell, logit in cells.items():
            looked[..., 1, int(cell[1:])] = logit
        return float(nats_looked(Written(torch.zeros(1, 1, 3, 4), looked=looked), batch))

    assert nats(c9=9.0, c20=-9.0) < 0.01
    assert nats(c9=9.0, c20=9.0) > 8
    assert nats(c9=9.0, c20=-9.0, c30=9.0) < 0.01
    assert nats() == pytest.approx(2 * np.log(2))
    assert nats_looked(Categorical(torch.zeros(1, 1, 3, 4)), batch) == 0


def test_the_writing_loss_does_not_train_the_eye(agent: Agent) -> None:
    batch = collate([[Moment(0.0, {SIGHT: PICTURES[0], TEXT: "a"}, first=True)]])
    head = agent.head(TEXT)
    seen = agent.perceive(batch, [agent.tap_of(TEXT)])
    maps = list(seen.encoded[DETAIL].maps.values())
    for each in maps:
        each.retain_grad()
    seen.of_senses[TEXT].tokens = seen.of_senses[TEXT].tokens.detach()
    agent.run_heads([TEXT], seen)[TEXT].logits.sum().backward()
    assert all(each.grad is None or not each.grad.any() for each in maps)
    assert head.shows.weight.grad.any()
    agent.zero_grad()


def test_an_agent_with_the_plain_text_head_keeps_it() -> None:
    from devmind.agent.text import add_text

    agent = tiny_agent()
    agent.add_encoder(SIGHT)
    add_text(agent)
    parts.admit(agent)
    assert type(agent.head(TEXT)) is TextHead
