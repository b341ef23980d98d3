"""The floor "ridge on an untaught encoder's tokens": it is there, and no lesson changes it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from devmind.agent.agent import Agent
from devmind.curriculum.stage import Context
from devmind.seeding import exam_seeds
from devmind.testing import tiny_agent, tiny_context
from stages.reflex import parts
from stages.reflex.bind import exam as bind
from stages.reflex.hear import exam as hear
from stages.reflex.see import exam as see
from stages.reflex.untaught import FLOOR


def reflex_agent() -> Agent:
    agent = tiny_agent()
    parts.admit(agent)
    return agent.eval()


@torch.no_grad()
def numb(agent: Agent) -> Agent:
    """The agent with encoders that give the same tokens whatever is seen or heard."""
    for sense in ("sight", "sound"):
        for parameter in agent.encoder(sense).parameters():
            parameter.zero_()
    return agent


def context_of(folder: Path, scale: float) -> Context:
    return tiny_context(folder, f"exam.episodes_scale={scale}")


def test_the_floor_of_see_is_of_an_encoder_as_it_is_before_any_lesson(tmp_path: Path) -> None:
    """An agent whose own tokens tell nothing has the same floor as one whose tokens are still untaught."""
    taught, unseen = see.exam_pictures(reflex_agent(), context_of(tmp_path, 1.0))
    some = [part.take(np.arange(n)) for part, n in ((taught, 250), (unseen, 100))]
    with torch.inference_mode():
        (floor, own), (still, nothing) = (
            (see._floors(agent, *some)[FLOOR], see._linear_row(agent, *some))
            for agent in (reflex_agent(), numb(reflex_agent()))
        )
    assert floor == own > 0.4, "nobody taught it, so these are the same tokens"
    assert still == floor > nothing + 0.2, "the row is this agent's, the floor is not"


def test_the_floor_of_hear_is_of_an_encoder_as_it_is_before_any_lesson(tmp_path: Path) -> None:
    context = context_of(tmp_path, 0.02)
    with torch.inference_mode():
        whole, without = (
            hear.examine_sounds(agent, context, "full")[0] for agent in (reflex_agent(), numb(reflex_agent()))
        )
    assert without.floors[FLOOR] == whole.floors[FLOOR] > whole.chance + 0.2
    assert len(whole.floors) == 3


def test_binding_by_untaught_tokens_is_above_chance_and_no_lesson_changes_it(tmp_path: Path) -> None:
    context, n = context_of(tmp_path, 0.2), 100
    senses, truth = bind.scenes(context, exam_seeds(n, 0, "bind"), bind.TICKS)
    boxes = truth["boxes"][:, :4]
    whole, without = (
        bind._by_untaught(agent, context, senses, list(boxes)) for agent in (reflex_agent(), numb(reflex_agent()))
    )
    np.testing.assert_array_equal(whole, without)
    right = (whole == boxes[np.arange(n), truth["target"]]).all(1).mean()
    assert right > 0.4, "chance 0.25"
    with torch.inference_mode():
        found = bind.examine(reflex_agent(), context, "full")
    assert all(FLOOR in measure.floors for measure in found)
