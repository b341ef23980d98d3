"""Exams and studies on a Ray cluster of two nodes, which the tests begin on this machine."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.config import RunConfig
from devmind.curriculum import side_by_side
from devmind.curriculum.cluster import Cluster
from devmind.curriculum.side_by_side import WORKER, ExamTask, hold, hold_all, hold_on
from devmind.curriculum.stage import Context
from devmind.curriculum.start import make_context
from devmind.curriculum.study.run import FROZEN, _seed_there
from devmind.errors import ConfigError, ExamError
from tests.curriculum.cluster_works import dies, pid_once_killed, waits_once
from tests.curriculum.test_run import config
from tests.curriculum.three_exams import STAGE


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A cluster of two nodes of one core each, on loopback."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}  # before its import
    ray = pytest.importorskip("ray", reason="the extra 'cluster' is not installed")
    from ray.cluster_utils import Cluster as LocalCluster

    nodes = {"num_cpus": 1, "node_ip_address": "127.0.0.1", "include_dashboard": False, "object_store_memory": 80 << 20}
    try:
        cluster = LocalCluster(initialize_head=True, head_node_args=nodes)
    except Exception:  # Ray gives a node 30 s to begin, which a busy machine may take
        cluster = LocalCluster(initialize_head=True, head_node_args=nodes)
    cluster.add_node(num_cpus=1, node_ip_address="127.0.0.1", object_store_memory=80 << 20)
    yield cluster.address
    ray.shutdown()
    cluster.shutdown()


@pytest.fixture(scope="module")
def agent() -> Agent:
    newborn = Agent(AgentConfig(size="tiny", seed=3))
    STAGE.admit(newborn)
    return newborn


@pytest.fixture
def context(tmp_path: Path) -> Context:
    return make_context(config(), tmp_path, None, ())


def connected(address: str) -> Cluster:
    return Cluster(f"ray:{address}", WORKER)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_exams_on_two_machines_give_the_bits_of_this_one(agent: Agent, context: Context, address: str) -> None:
    dues = [ExamTask(STAGE, "lamps-lit"), ExamTask(STAGE, "threads"), ExamTask(STAGE, "lamps-lit")]
    begun: list[ExamTask] = []
    with closing(connected(address)) as cluster:
        assert cluster.slots == 2
        found = list(hold_on(cluster, dues, agent, context, begun.append))
        with pytest.raises(ExamError, match="no recordings to ask about"):
            list(hold_on(cluster, [ExamTask(STAGE, "refuses")], agent, context, begun.append))
    assert begun[:3] == dues
    assert len(found) == 3
    for due, held in found:
        here = hold(due, agent, context).measures
        assert {name: one.values.tolist() for name, one in held.measures.items()} == {
            name: one.values.tolist() for name, one in here.items()
        }


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_work_of_a_killed_process_is_done_again(address: str, tmp_path: Path) -> None:
    with closing(connected(address)) as cluster:
        again = cluster.result(cluster.submit(pid_once_killed, tmp_path))
        with pytest.raises(ExamError, match=r"ended without a result \(WorkerCrashedError"):
            cluster.result(cluster.submit(dies))
    assert again != int((tmp_path / "first").read_text())


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_exams_whose_machine_is_killed_are_held_on_another(agent: Agent, context: Context, address: str) -> None:
    with closing(connected(address)) as cluster:
        marker = context.out / "waiting"
        submitted = cluster.submit(waits_once, marker)
        until = time.monotonic() + 120
        while not marker.exists() or not marker.read_text():
            assert time.monotonic() < until
            time.sleep(0.05)
        os.kill(int(marker.read_text()), signal.SIGKILL)
        assert cluster.result(submitted) == "done"
        held = list(hold_on(cluster, [ExamTask(STAGE, "threads")], agent, context, lambda due: None))
    assert held[0][1].measures["threads"].score == 1


@pytest.mark.parametrize("address", ["127.0.0.1:9", "ray://127.0.0.1:9", "nowhere"])
def test_no_cluster_at_an_address_is_a_sentence(address: str) -> None:
    with pytest.raises(ConfigError, match=f"There is no Ray cluster at '{address}'"):
        Cluster(f"ray:{address}", {})


def test_configuration_decides_where_exams_are_held(
    agent: Agent, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[Any] = []

    class Recorded:
        def __init__(self, on: str, environment: dict[str, str]) -> None:
            used.append(on)

        def close(self) -> None:
            used.append("closed")

    def held_there(cluster: Any, dues: Any, *rest: Callable[..., Any]) -> Iterator[Any]:
        yield from dues

    monkeypatch.setattr(side_by_side, "Cluster", Recorded)
    monkeypatch.setattr(side_by_side, "hold_on", held_there)
    there = Context(**{**vars(context), "config": context.config.model_copy(update={"on": "ray:127.0.0.1:1"})})
    assert list(hold_all([ExamTask(STAGE, "threads")], agent, there)) == [ExamTask(STAGE, "threads")]
    assert used == ["ray:127.0.0.1:1", "closed"]


def test_places_that_are_none_are_refused() -> None:
    from devmind.config import load

    assert load("tiny", {"on": "ray"}).on == "ray"
    assert isinstance(load("tiny", {"on": "ray:10.0.0.1:6379"}), RunConfig)
    with pytest.raises(ConfigError, match="'on'"):
        load("tiny", {"on": "slurm"})


def test_seed_needs_the_folder_of_its_study(tmp_path: Path) -> None:
    with pytest.raises(ExamError, match="does not have the study's folder"):
        _seed_there([], tmp_path, "0")
    (tmp_path / FROZEN).write_text("{}")
    with pytest.raises(ExamError, match="give --out a folder that all machines of the cluster share"):
        _seed_there([], tmp_path, "another study's")
