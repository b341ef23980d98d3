"""Two lives in two processes on one memory."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from devmind.memory import Filters, open_store
from tests.live.test_life import raise_agent

LIFE = """
import sys
from pathlib import Path
from devmind.config import MemoryConfig
from devmind.errors import StoreError
from tests.live.test_life import Home

me, agent, out, memory = sys.argv[1:]
moments = MemoryConfig(keep="always", novelty=1e-9, longest_s=1, shortest_s=0.2)
with Home(Path(agent), Path(out), memory=memory, remembering=moments) as home, home.life.memory.store:
    def taught(name):
        try:
            home.life.do("teach", {"name": name})
        except StoreError:  # it moves at times
            return False
        return True

    home.wait(lambda: home.life.holding.square)
    home.wait(lambda: taught(me))
    print("taught", flush=True)
    for name in map(str.strip, sys.stdin):
        home.wait(lambda: taught(name))
        home.wait(lambda: name in home.life.child.names.known())
        written = home.life.recalling.written
        home.wait(lambda: home.life.recalling.written > written)
        print(*sorted(home.life.child.names.known()), *home.life.faults(), flush=True)
    home.stopped.set()
    home.thread.join()
"""


@pytest.mark.slow
def test_life_goes_on_when_another_on_its_memory_is_killed(tmp_path: Path) -> None:
    agent, memory = raise_agent(tmp_path / "start", 1), tmp_path / "memory"
    lives = {
        name: subprocess.Popen(
            [sys.executable, "-c", LIFE, name, agent, tmp_path / name, memory],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )
        for name in ("cup", "box")
    }

    def says(life: subprocess.Popen[str], asked: str = "") -> list[str]:
        assert life.stdin is not None
        assert life.stdout is not None
        if asked:
            print(asked, file=life.stdin, flush=True)
        return life.stdout.readline().split()

    killed, living = lives.values()
    try:
        assert says(killed) == says(living) == ["taught"]
        assert says(killed, "ball") == ["ball", "box", "cup"]
        killed.kill()
        killed.wait()
        assert says(living, "book") == ["ball", "book", "box", "cup"]
        living.communicate()
        assert living.returncode == 0
    finally:
        for life in lives.values():
            life.kill()
            life.communicate()
    with open_store(memory) as store:
        assert store.check() == []
        assert sorted(entry.name or "" for entry in store.find(Filters(named=True))) == ["ball", "book", "box", "cup"]
        assert store.find(Filters(named=False))
