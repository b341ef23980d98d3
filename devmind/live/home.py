"""Home: everything one life needs, opened in order and closed in reverse: devices, agent, memory, learner, page."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devmind.agent.agent import Agent
from devmind.config import LiveConfig
from devmind.errors import ConfigError
from devmind.live.learning.learner import LiveLearner
from devmind.live.life import Life
from devmind.live.recording import Recording
from devmind.live.rerun.viewer import RerunViewer
from devmind.live.serving.hub import Hub
from devmind.live.serving.server import PageServer, check_host
from devmind.memory import Budget, Memory, Store, folder_of, open_store
from devmind.sessions.pointed import Pointed
from devmind.worlds.room import Room


@dataclass(frozen=True)
class Wishes:
    """What somebody wants of a life.

    Attributes:
        agent: folder of the saved agent.
        sensors: by name, not opened yet; speaker: likewise.
        memory: long-term memory: a folder, or the URL of a database.
        record: file to record to from the first tick on.
        private: memory stays in RAM, and nothing can be recorded or learned.
        learn: newer weights come from a process that learns from the recording.
        page: serve the page on `host` and `port` (0: any free one), with `tls` (certificate, key) off this machine.
        details: kept in a recording's metadata.
        viewer: shows the life beside the page, or without one.
    """

    agent: Path
    sensors: Mapping[str, Any]
    speaker: Any = None
    memory: Path | str = Path("memory")
    record: Path | None = None
    private: bool = False
    learn: bool = False
    page: bool = True
    host: str = "127.0.0.1"
    port: int = 0
    tls: tuple[Path, Path] | None = None
    details: Mapping[str, object] = field(default_factory=dict)
    config: LiveConfig = field(default_factory=LiveConfig)
    viewer: RerunViewer | None = None

    def check(self) -> None:
        """Raise ConfigError for wishes that exclude each other."""
        if not self.sensors:
            raise ConfigError("With neither camera nor microphone there is nothing to sense; give --camera or --mic.")
        if self.private and (self.record or self.learn):
            raise ConfigError("--private keeps everything in RAM, so it excludes --record and --learn; leave one out.")
        if self.learn and not self.record:
            raise ConfigError("--learn learns from what is recorded; add --record FILE.")
        from_page = [name for name, sensor in self.sensors.items() if hasattr(sensor, "accept")]
        if from_page and not self.page:
            raise ConfigError(f"The browser's {' and '.join(from_page)} need the page; leave --no-page out.")
        if self.page:
            check_host(self.host, self.tls is not None)


@contextmanager
def at_home(wishes: Wishes) -> Iterator[tuple[Life, PageServer | None]]:
    """A life that can be run, and its page.

    Raises:
        ConfigError: wishes that exclude each other.
    """
    wishes.check()
    config, private = wishes.config, wishes.private
    agent = Agent.from_pretrained(wishes.agent)
    with ExitStack() as stack:
        sensors = {name: stack.enter_context(sensor) for name, sensor in wishes.sensors.items()}
        speaker = stack.enter_context(wishes.speaker) if wishes.speaker else None
        store = stack.enter_context(open_store(None if private else wishes.memory))
        hub = Hub() if wishes.page or wishes.viewer else None
        recording = None if private else Recording(wishes.record, wishes.details, config)
        learner = (
            LiveLearner(agent, wishes.record, every_s=config.learn_every_s) if wishes.learn and wishes.record else None
        )
        room = Room(sensors, config.hz, config.lag_s)
        life = stack.enter_context(
            Life(
                agent, room, _memory(store, wishes), wishes.agent, recording, wishes.record is not None, hub, speaker,
                learner, config.sure, config.memory,
            )
        )  # fmt: skip
        if learner:
            stack.enter_context(learner)
        page = PageServer(life, hub, wishes.host, wishes.port, wishes.tls) if hub and wishes.page else None
        if hub and wishes.viewer:
            stack.enter_context(wishes.viewer.watch(hub))
        yield life, stack.enter_context(page) if page else None


def _memory(store: Store, wishes: Wishes) -> Memory:
    config, folder = wishes.config.memory, None if wishes.private else folder_of(wishes.memory)
    size = None if config.megabytes is None else int(1e6 * config.megabytes)
    budget = Budget(config.entries, size, config.half_life_h)
    return Memory(store, precision=config.precision, pointed=Pointed(folder), budget=budget)
