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
        details: kept in a recording's metadata.
        config: all else, `page` and `learn` among it.
        viewer: shows the life beside the page, or without one.
        command: the command that starts such a life, for the page.
        room: a simulated one, in place of `sensors`.
        director: gives actions in place of the heads' answers (`devmind.acting.directing`).
    """

    agent: Path
    sensors: Mapping[str, Any]
    speaker: Any = None
    memory: Path | str = Path("memory")
    record: Path | None = None
    private: bool = False
    details: Mapping[str, object] = field(default_factory=dict)
    config: LiveConfig = field(default_factory=LiveConfig)
    viewer: RerunViewer | None = None
    command: str = "devmind live"
    room: Room | None = None
    director: Director | None = None
    taught: bool = True

    @property
    def answers(self) -> dict[str, tuple[str, ...]]:
        """By effector the heads that may act, whatever the agent's exams say."""
        heads = self.config.answers.items()
        return {effector: (named,) if isinstance(named, str) else named for effector, named in heads}

    @property
    def tls(self) -> tuple[Path, Path] | None:
        """Certificate and key of the page."""
        page = self.config.page
        return (Path(page.cert), Path(page.key)) if page.cert and page.key else None

    def check(self) -> None:
        """Raise ConfigError for options that exclude each other, and for an unusable host or port."""
        page, learn = self.config.page, self.config.learn
        if not self.sensors and self.room is None:
            raise ConfigError("With neither camera nor microphone there is nothing to sense; give --camera or --mic.")
        if self.private and (self.record or learn):
            raise ConfigError(
                "--private keeps everything in RAM, so it excludes --record and --set learn=true; leave one out."
            )
        if learn and not self.record:
            raise ConfigError("It learns from what is recorded: with --set learn=true, add --record FILE.")
        from_page = [name for name, sensor in self.sensors.items() if hasattr(sensor, "accept")]
        if from_page and not page.shown:
            raise ConfigError(
                f"The browser as {' and '.join(from_page)} needs the page; leave --set page.shown=false out."
            )
        if (page.cert is None) != (page.key is None):
            raise ConfigError("A certificate needs its private key: set both page.cert and page.key, or neither.")
        if page.shown:
            check_host(page.host, self.tls is not None)
            if page.bind is not None:
                check_bind(page.bind, page.port)
            listen(page.host if page.bind is None else page.bind, page.port).close()

    @property
    def is_open(self) -> bool:
        """Whether the page's port can be reached, without TLS, from outside this machine or container."""
        page = self.config.page
        return page.shown and page.bind is not None and self.tls is None and not is_loopback(page.bind)
