"""The head that writes with the picture before its eyes: byte by byte as all at once, only where there is a picture."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from devmind.agent.agent import Agent
from devmind.agent.batch import collate, collate_tick
from devmind.agent.text import TextHead
from devmind.agent.writing import answered
from devmind.moment import Moment
from devmind.seeding import numpy_rng
from devmind.testing import tiny_agent
from stages.language import parts
from stages.language.looking import LookingTextHead
from stages.language.parts import DETAIL, SIGHT, TEXT

PICTURES = numpy_rng("looking").integers(0, 256, (2, 64, 64, 3)).astype(np.uint8)


@pytest.fixture(scope="module")
def agent() -> Agent:
    agent = tiny_agent()
    agent.add_encoder(SIGHT)
    parts.admit(agent)
    torch.nn.init.zeros_(agent.encoder(DETAIL).things.bias)  # it takes many cells for things
    return agent.eval()


def test_what_is_written_byte_by_byte_is_what_the_whole_page_expects(agent: Agent) -> None:
    assert isinstance(agent.head(TEXT), LookingTextHead)
    asked = ["what is that?", "where is it?"]
    (one, other), _ = answered(agent, collate_tick({SIGHT: PICTURES, TEXT: asked}, np.ones(2, bool)), 6)
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


def test_the_picture_decides_what_is_written_and_only_where_it_is(agent: Agent) -> None:
    def logits(*rows: dict) -> torch.Tensor:
        batch = collate([[Moment(0.0, senses, first=True)] for senses in rows])
        with torch.no_grad():
            return agent(batch, [TEXT])[TEXT].logits[:, 0]

    page = {TEXT: "what is that?"}
    alone, mixed = logits(page, page), logits({**page, SIGHT: PICTURES[0]}, page)
    torch.testing.assert_close(mixed[1], alone[0])
    assert not torch.allclose(mixed[0], alone[0])
    head = agent.head(TEXT)
    features, things = torch.randn(2, 5, 16), torch.randn(2, 8, 16)
    nothing = torch.zeros(2, 8, dtype=torch.bool)
    torch.testing.assert_close(head.look(features, things, nothing), head.tells.bias.expand(2, 5, -1))
    here = nothing.clone()
    here[:, 3] = True
    changed = things.clone()
    changed[:, 4] += 1  # a thing that is not there
    torch.testing.assert_close(head.look(features, things, here), head.look(features, changed, here))
    changed[:, 3] += 1
    assert not torch.allclose(head.look(features, things, here), head.look(features, changed, here))


def test_the_eye_is_not_taught_by_what_is_looked_at(agent: Agent) -> None:
    batch = collate([[Moment(0.0, {SIGHT: PICTURES[0], TEXT: "a"}, first=True)]])
    head = agent.head(TEXT)
    seen = agent.perceive(batch, [agent.tap_of(TEXT)])
    things = seen.encoded[DETAIL].tokens
    things.retain_grad()
    seen.of_senses[TEXT].tokens = seen.of_senses[TEXT].tokens.detach()
    agent.run_heads([TEXT], seen)[TEXT].logits.sum().backward()
    assert things.grad is None or not things.grad.any()
    assert head.tells.weight.grad is not None
    agent.zero_grad()


def test_an_agent_that_writes_by_the_plain_head_keeps_it() -> None:
    from devmind.agent.text import add_text

    agent = tiny_agent()
    agent.add_encoder(SIGHT)
    add_text(agent)
    parts.admit(agent)
    assert type(agent.head(TEXT)) is TextHead
