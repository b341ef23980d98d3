"""The options of a life, checked before anything heavy is imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devmind.config import LiveConfig
from devmind.errors import ConfigError
from devmind.live.serving.hosts import check_bind, check_host, is_loopback, listen

if TYPE_CHECKING:
    from devmind.acting.directing import Director
    from devmind.live.rerun import RerunViewer
    from devmind.worlds.room import Room


@dataclass(frozen=True)
class LiveOptions:
    """The options of a life.

    Attributes:
        agent: folder of the saved agent.
        taught: False for that agent as it was before its first lesson.
        sensors: by name, opened by the caller, so that a fault of one is known before the agent is loaded.
        speaker: not opened yet.
        memory: long-term memory: a folder, or the URL of a database.
        record: file to record to from the first tick on.
        private: memory stays in RAM, and nothing can be recorded or learned.
        learn: a process learns from the recording and gives newer weights.
        page: serve the page on `host` and `port` (0: any free one), with `tls` (certificate, key) off this machine.
        bind: the address to listen on, if not `host`, as in a container (`PageServer`).
        details: kept in a recording's metadata.
        viewer: shows the life beside the page, or without one.
        command: the command that starts such a life, for the page.
        room: a simulated one, in place of `sensors`.
        answers: by effector the heads that may act, whatever the agent's exams say.
        director: gives actions in place of the heads' answers (`devmind.acting.directing`).
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
    command: str = "devmind live"
    room: Room | None = None
    answers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    director: Director | None = None
    taught: bool = True
    bind: str | None = None

    def check(self) -> None:
        """Raise ConfigError for options that exclude each other, and for an unusable host or port."""
        if not self.sensors and self.room is None:
            raise ConfigError("With neither camera nor microphone there is nothing to sense; give --camera or --mic.")
        if self.private and (self.record or self.learn):
            raise ConfigError("--private keeps everything in RAM, so it excludes --record and --learn; leave one out.")
        if self.learn and not self.record:
            raise ConfigError("--learn learns from what is recorded; add --record FILE.")
        from_page = [name for name, sensor in self.sensors.items() if hasattr(sensor, "accept")]
        if from_page and not self.page:
            raise ConfigError(f"The browser as {' and '.join(from_page)} needs the page; leave --no-page out.")
        if self.page:
            check_host(self.host, self.tls is not None)
            if self.bind is not None:
                check_bind(self.bind, self.port)
            listen(self.host if self.bind is None else self.bind, self.port).close()

    @property
    def is_open(self) -> bool:
        """Whether the page's port can be reached, without TLS, from outside this machine or container."""
        return self.page and self.bind is not None and self.tls is None and not is_loopback(self.bind)
