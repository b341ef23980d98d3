"""The package keeps devmind's laws; run beside an installed devmind: `pip install -e . && pytest`."""

from pathlib import Path

import numpy as np
from devmind_thermal.stage import WarmthStage
from devmind_thermal.world import ThermalRules

from devmind import plugins
from devmind.moment import Action, Moment
from devmind.sessions.reader import open_session
from devmind.sessions.recorder import Recorder
from devmind.testing import check_stage, check_world, tiny_agent
from devmind.worlds.adapter import RulesWorld, moment


def test_both_are_found_by_entry_point() -> None:
    assert plugins.load("worlds", "thermal") is ThermalRules
    assert plugins.load("stages", "warmth") is WarmthStage


def test_the_world_keeps_its_laws() -> None:
    check_world(ThermalRules())


def test_the_stage_keeps_its_laws() -> None:
    check_stage(WarmthStage())


def test_warmth_is_recorded_replayed_and_encoded(tmp_path: Path) -> None:
    agent = tiny_agent()
    WarmthStage().admit(agent)
    world, lived = RulesWorld(ThermalRules()), []
    senses, _ = world.reset(seed=3)
    with Recorder(tmp_path / "chair.mcap", source="thermal") as recorder:
        for tick in range(5):
            lived.append((moment(senses, tick), Action({"turn": np.array([1.0], np.float32)})))
            recorder.write(*lived[-1])
            senses, *_ = world.step(lived[-1][1].effectors)
    replayed = list(open_session(tmp_path / "chair.mcap"))
    assert replayed == lived
    state = agent.new_state()
    for felt, _ in replayed:
        percepts = agent.encode(state, felt)
        assert isinstance(felt, Moment)
        assert percepts.encoded["warmth"].tokens.shape[0] == 1
        assert abs(float(percepts.keys["warmth"].norm()) - 1) < 1e-5
