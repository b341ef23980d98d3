"""Life: one agent in one room with its memory, its recording and whoever watches. What page and commands talk to.

Everything that changes agent, room, memory or recording happens in the loop's thread between two ticks (`do` sends it
there), so no lock is needed, and a recorded session says between which ticks it happened.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from devmind.agent.agent import Agent
from devmind.agent.output import Output
from devmind.agent.prediction import predicting, surprise
from devmind.errors import ConfigError, nearest
from devmind.live.ages import ages
from devmind.live.hub import Hub
from devmind.live.lately import Lately
from devmind.live.learning import LiveLearner
from devmind.live.loop import LiveLoop, LiveSummary, Tick
from devmind.live.recording import Recording
from devmind.live.remembered import as_shown, remembered
from devmind.live.show_and_tell import ShowAndTell
from devmind.live.view import View, sensor_health
from devmind.memory import Memory
from devmind.moment import Moment
from devmind.worlds.room import Room

HERE, BROWSER, NONE = "here", "browser", "none"


class Life:
    """One life; a context manager whose end closes the recording.

    Args:
        agent, room, memory: who lives, where, and what it remembers.
        folder: where the agent was loaded from.
        recording: None where nothing may be recorded.
        record: begin to record at once.
        hub: whoever watches; None without a page.
        speaker: plays what the agent utters.
        learner: learns from the recording in a process of its own; somebody else starts and ends it.
        sure: calibrated confidence from which the page shows what is seen.
    """

    def __init__(
        self,
        agent: Agent,
        room: Room,
        memory: Memory,
        folder: Path,
        recording: Recording | None = None,
        record: bool = False,
        hub: Hub | None = None,
        speaker: Any = None,
        learner: LiveLearner | None = None,
        sure: float = 0.7,
    ) -> None:
        self.room, self.memory, self.recording, self.hub = room, memory, recording, hub
        self.speaker, self.learner, self.sure = speaker, learner, sure
        self.ages = {age.id: age for age in ages(folder)}
        self.age = next(age.id for age in self.ages.values() if age.folder == folder.resolve())
        self.child, self.lately = ShowAndTell(agent, memory), Lately(1 / room.dt_s)
        self.view = View(agent, sure) if hub else None
        self._foretold: tuple[Moment, Mapping[str, Output]] | None = None
        watchers = {"recording": self._keep, "memory": self._remember, "page": self._show, "learner": self._learn}
        self.loop = LiveLoop(agent, room, watchers=watchers)
        sha256 = agent.sha256()
        self._weights = learner.note(sha256) if learner else {"agent_sha256": sha256, "kept": None}
        self._weights_since_s = time.monotonic()
        self._commands: dict[str, Callable[..., dict[str, Any]]] = {
            "teach": self._teach, "forget": self._forget, "memories": self._memories, "record": self._record,
            "pause": self._pause, "age": self._grow_to, "say": self._say,
        }  # fmt: skip
        if record:
            self._record(True)

    # -- for the command line and the page -----------------------------------------------------------------------

    def run(self, seconds: float | None = None, stop: Callable[[], bool] = lambda: False) -> LiveSummary:
        """Live; see `LiveLoop.run`."""
        return self.loop.run(seconds, stop)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.view:
            self.view.close()
        if self.recording:
            self.recording.end()

    @property
    def mailboxes(self) -> list[Any]:
        """Sensors whose data comes from the page."""
        return [sensor for sensor in self.room.sensors.values() if hasattr(sensor, "accept")]

    def welcome(self) -> dict[str, Any]:
        """What a page is told first."""
        return {
            "type": "welcome", "mode": "live", "camera": self._origin("sight"), "microphone": self._origin("sound"),
            "hz": round(1 / self.room.dt_s, 3), "private": self.recording is None, "version": version("devmind"),
            "ages": [{"id": age.id, "label": age.label} for age in self.ages.values()], "age": self.age,
            "examples": self.child.names.known(), "can_record": self.recording is not None,
            "paused": self.loop.paused,
        }  # fmt: skip

    def do(self, command: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out a command between two ticks, from any thread but the loop's.

        Raises:
            ConfigError: there is no such command, or its arguments do not fit.
            DevmindError: what the command itself has to say, as a sentence.
        """
        if command not in self._commands:
            raise ConfigError(f"There is no command '{command}'{nearest(command, self._commands)}")
        prepared = self._load(arguments) if command == "age" else arguments
        try:
            return self.loop.errands.ask(lambda: self._commands[command](**prepared))
        except TypeError as error:
            raise ConfigError(
                f"'{command}' cannot be done with {', '.join(arguments) or 'nothing'}: {error}."
            ) from error

    # -- every tick ----------------------------------------------------------------------------------------------

    def _keep(self, tick: Tick) -> None:
        if self.speaker is not None and "utter" in tick.action.effectors:
            self.speaker.act(tick.action.effectors["utter"])
        if self.recording:
            self.recording.tick(tick, self.room, lambda: sensor_health(self.room))

    def _remember(self, tick: Tick) -> None:
        self.lately.add(tick.moment)

    def _show(self, tick: Tick) -> None:
        if not (self.view and self.hub and self.hub.watched):
            self._foretold = None
            return
        named = self.child.ask(self.lately.this()) if self.child.names.known() else {}
        view = self.view.of(tick, self.room, named, self._surprise(tick), self._extra())
        frame = self.room.frame
        jpeg = self.view.jpeg(frame) if frame is not None and self._origin("sight") == HERE else None
        self.hub.publish(view, jpeg, frame)

    def _surprise(self, tick: Tick) -> dict[str, float]:
        """How wrong the tick before had foretold this one; nothing in the first tick that somebody watches."""
        agent, foretold = self.loop.agent, self._foretold
        heads = predicting(agent, tick.moment.senses)
        self._foretold = (tick.moment, agent.run_heads(heads, tick.percepts.seen))
        return surprise(foretold[1], foretold[0], tick.moment) if foretold else {}

    def _extra(self) -> dict[str, Any]:
        assert self.hub is not None
        recorder = self.recording.recorder if self.recording else None
        extra: dict[str, Any] = {
            "writing": recorder is not None, "recording": recorder is not None, "private": self.recording is None,
            "paused": False, "age": self.age, "viewers_dropped": self.hub.drops,
            "checkpoint_age_s": round(time.monotonic() - self._weights_since_s, 1),
        }  # fmt: skip
        if recorder is not None:
            extra["recorder"] = {"dropped_ticks": recorder.dropped_ticks, "dropped_frames": recorder.dropped_frames}
        if self.learner:
            extra["learning"] = self.learner.view()
        return extra

    def _learn(self, tick: Tick) -> None:
        newer = self.learner.poll() if self.learner else None
        if self.learner and newer:
            newer.swap_into(self.loop.agent)
            self._act_with(self.learner.note(newer.sha256))

    def _act_with(self, weights: Mapping[str, Any]) -> None:
        """These weights act from the next tick on."""
        self._weights, self._weights_since_s = dict(weights), time.monotonic()
        self._note("weights", self._weights)

    # -- commands, in the loop's thread --------------------------------------------------------------------------

    def _teach(self, name: str, of: str = "auto") -> dict[str, Any]:
        entry = self.child.teach(name, self.lately.this(of))
        self._note("name_taught", {"name": entry.name, "id": entry.id})
        return {**as_shown(entry), "examples": self.child.names.known()}

    def _forget(self, name: str) -> dict[str, Any]:
        count = self.child.forget(name.strip())
        self._note("name_forgotten", {"name": name.strip(), "count": count})
        return {"forgotten": count, "examples": self.child.names.known()}

    def _memories(self) -> dict[str, Any]:
        return {"memories": remembered(self.memory)}

    def _record(self, on: bool) -> dict[str, Any]:
        if self.recording is None:
            raise ConfigError("This life is private: nothing of it is recorded. Start it without --private to record.")
        if on and self.recording.recorder is None:
            self.recording.begin(self._weights, self.loop.effectors)
            self.loop.afresh = True
        elif not on:
            self.recording.end()
        files = self.recording.files
        return {"recording": self.recording.recorder is not None, "file": str(files[-1]) if files else ""}

    def _pause(self, on: bool) -> dict[str, Any]:
        if on != self.loop.paused:
            self.loop.paused = on
            self._note("paused" if on else "resumed", {})
        if on and self.hub:
            self.hub.publish({"type": "tick", "paused": True}, None)
        return {"paused": on}

    def _load(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The agent of an age, read in the asking thread: it takes too long to do it between ticks."""
        if self.learner:
            raise ConfigError("The agent is learning, and has one age only; start it without --learn to go back.")
        wanted = str(arguments.get("id"))
        if wanted not in self.ages:
            raise ConfigError(f"There is no age '{wanted}'{nearest(wanted, self.ages)}")
        agent = Agent.from_pretrained(self.ages[wanted].folder)
        return {"id": wanted, "agent": agent, "view": View(agent, self.sure) if self.view else None}

    def _grow_to(self, id: str, agent: Agent, view: View | None) -> dict[str, Any]:
        self.age, self.loop.afresh = id, True
        self.loop.agent = self.child.agent = agent
        self.child.refresh()
        if self.view:
            self.view.close()
        self.view = view
        self._note("age", {"id": id})
        self._act_with({"agent_sha256": agent.sha256(), "kept": None})
        return {"age": id}

    def _say(self, text: str) -> dict[str, Any]:
        self.room.say(text)
        return {}

    def _note(self, kind: str, data: Mapping[str, Any]) -> None:
        if self.recording:
            self.recording.note(kind, data)

    def _origin(self, sense: str) -> str:
        sensor = self.room.sensors.get(sense)
        return NONE if sensor is None else BROWSER if hasattr(sensor, "accept") else HERE
