"""`devmind plan tabletop:...`: the shown plan is the followed one, and impossible requests are refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from devmind import make_world
from devmind.acting import Actor, rollout
from devmind.agent.agent import Agent
from devmind.cli import app
from devmind.testing import tiny_agent
from devmind.worlds.tabletop import TabletopRules, observe_table
from stages.planning import parts
from stages.planning.arrange import film
from stages.planning.arrange.demonstrations import THERE


@pytest.fixture(scope="module")
def agent() -> Agent:
    agent = tiny_agent()
    parts.admit(agent)
    return agent.eval()


def test_the_pages_plan_is_the_one_in_the_state(agent: Agent) -> None:
    actor = Actor(agent, 1, effectors=[parts.ARM])
    for _ in rollout(actor, make_world("tabletop", "two", [5]), 1):
        kept = actor.state.carry[f"head.{parts.ARRANGE}"]
    found = film.arrange_table(agent, "two", 5)
    assert found.drawn is not None
    assert torch.equal(found.drawn.trajectory[found.chosen], kept["plan"][0])
    assert found.words == [film.WORDS[one] for one in kept["symbols"][0].tolist() if one != THERE]
    assert np.isclose(found.sure[found.chosen], float(kept["sure"][0].exp()))
    assert found.sure[found.chosen] == found.sure.max()
    assert len(found.walked) - 1 <= TabletopRules("two").horizon


def test_the_command_prints_and_shows_the_plan(agent: Agent, tmp_path: Path) -> None:
    agent.save_pretrained(tmp_path / "agent")
    page = tmp_path / "plan.html"

    def command(*words: str) -> tuple[int, str]:
        came = CliRunner().invoke(app, ["plan", *words, "--agent", str(tmp_path / "agent")])
        return came.exit_code, " ".join((came.output + str(came.exception or "")).split())

    code, said = command("table", "two", "--seed", "5", "--show", str(page))
    assert code in (0, 1), said
    assert re.search(r"2 candidates, \d+ to \d+ % sure of their symbols; number [12] chosen", said)
    assert ("not all is sorted" in said) == (code == 1)
    text = page.read_text()
    assert not re.findall(r"(?:src|href)=|@import|https?://(?!www\.w3\.org/2000/svg)", text)
    data = json.loads(re.search(r"const data = (\{.*\})", text)[1])  # type: ignore[index]
    assert len(data["frames"]) == 2 + 2  # symbols first
    assert len(data["plans"]) == len(data["marks"]) == 2
    assert sorted(one["name"] for one in data["discs"] if not one["ring"]) == ["thing 1", "thing 2"]
    hand = make_world("tabletop", "two", [5]).observe()["hand"][0, :2]
    np.testing.assert_allclose(data["walked"][0], hand * (1, -1), atol=1e-3)
    for words, says in (
        (["table", "nine"], "no level 'nine'"),
        (["table", "two", "--show", str(tmp_path)], "is a folder"),
        (["room", "BabyAI-GoToSeqS5R2-v0", "--show", str(page)], "has no option '--show'"),
    ):
        code, said = command(*words)
        assert code != 0
        assert says in said


def test_an_impossible_plan_and_missing_senses_are_reported(agent: Agent) -> None:
    table = observe_table(TabletopRules("three").initial(np.array([3])))
    actor = Actor(agent, 1, effectors=[parts.ARM])

    def said(senses: dict[str, Any], first: bool) -> str:
        actor(senses, np.array([first]))
        read: Any = actor.output.outputs[parts.ARRANGE]  # type: ignore[union-attr]
        return read.belief()

    said(table, True)
    kept = actor.state.carry[f"head.{parts.ARRANGE}"]
    kept["symbols"][:] = torch.tensor([2, 5, 1, 4, 0, 7])
    kept["at"][:], kept["made"][:] = 0, 1
    assert said(table, False) == "I know where all is."
    gone = table["things"].reshape(1, 4, 4).copy()
    gone[0, 2] = 0
    assert said(table | {"things": gone.reshape(1, -1)}, False) == (
        "I would have to know first where thing 3 is: I do not see it."
    )
    alike = table["things"].reshape(1, 4, 4).copy()
    alike[0, :3, 2] = 1.0
    assert said(table | {"things": alike.reshape(1, -1)}, True) == (
        "there is no plan that sorts all: 3 things of one kind, and places for 2."
    )
    assert said(table | {"things": np.zeros_like(table["things"])}, True).startswith("there is no thing on the table")
    without = {name: value for name, value in table.items() if name != "things"}
    assert said(without, True) == "I would have to know first what lies on the table: I do not sense it."
