"""Life: one agent in one room with its memory, its recording and its viewers. The page and commands talk to it.

Every change of agent, room or recording happens in the loop's thread between two ticks. So no lock is needed, and a
recorded session says between which ticks it happened. `commands.py` holds the commands.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Self

import numpy as np

from devmind.acting.directing import Director
from devmind.acting.standing import Standing, answering, read_results, standing
from devmind.agent.agent import Agent, StepOutput
from devmind.agent.encoders import Encoded
from devmind.agent.output import Output
from devmind.agent.pointing import Pointed, pointed, pointer_of
from devmind.agent.prediction import predicting, surprise
from devmind.agent.taps import Percepts
from devmind.config import MemoryConfig
from devmind.errors import StoreError, without_secrets
from devmind.live.ages import ages
from devmind.live.commands import Commands
from devmind.live.directing import Directing, placed
from devmind.live.echoing import Echoing
from devmind.live.learning.learner import LiveLearner
from devmind.live.loop import LiveLoop, LiveSummary, Tick
from devmind.live.questions import Questions
from devmind.live.recording import Recording
from devmind.live.remembering.answering import example_questions
from devmind.live.remembering.asking import Asking
from devmind.live.remembering.naming import Naming
from devmind.live.remembering.press import Holding
from devmind.live.remembering.recalling import Recalled, Recalling
from devmind.live.remembering.recent import RecentBuffer
from devmind.live.remembering.remembered import as_held
from devmind.live.remembering.show_and_tell import ShowAndTell
from devmind.live.remembering.wondering import Wondering
from devmind.live.replying import Replying
from devmind.live.serving.hub import Hub
from devmind.live.speech_handler import SpeechHandler
from devmind.live.uttering import UTTER, Uttering
from devmind.live.viewing.heard_words import HeardWords
from devmind.live.viewing.view import View, said
from devmind.memory import Memory, Named, Pointer
from devmind.moment import Moment, Sense
from devmind.worlds.room import Room

HERE, BROWSER, NONE = "here", "browser", "none"


class Life:
    """One life; a context manager whose end closes the recording.

    Args:
        agent, room, memory: the agent, its room and its memory.
        folder: where the agent was loaded from.
        recording: None where nothing may be recorded.
        record: start recording at once.
        hub: receives the views; None without a page.
        speaker: plays what the agent utters. One with a voice (`say(text)`, as `Speaking`) speaks the agent's words and
            answers, also to speech (`Commands.hear`); while it sounds (`is_heard`) the agent is deaf.
        results: of the agent's exams: they decide which heads may act (`devmind.acting.standing`).
        learner: learns from the recording in a separate process; the caller starts and ends it.
        sure: calibrated confidence from which the page shows what is seen, and from which the agent's own words count.
        remembering: what is recalled and what is kept, and when.
        command: the command that starts such a life; the page shows it after this life has ended.
        asks: whether the agent may ask on its own what something is; the page can change it.
        answers: by effector the heads that may act, whatever the exams say.
        director: gives actions in place of the heads' answers; None: no director.
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
        remembering: MemoryConfig = MemoryConfig(),  # noqa: B008 - it is frozen
        command: str = "devmind live",
        results: Mapping[str, Any] | None = None,
        asks: bool = True,
        answers: Standing = MappingProxyType({}),
        director: Director | None = None,
        taught: bool = True,
    ) -> None:
        self.room, self.memory, self.recording, self.hub = room, memory, recording, hub
        self.speaker, self.learner, self.sure, self.command = speaker, learner, sure, command
        self.answers, self._speaks = answers, False
        self.uttering, self.replying = Uttering(speaker), Replying(speaker, answers, sure)
        self.echoing = Echoing(speaker, answers)
        self.ages = {age.id: age for age in ages(folder)}
        met = (folder.resolve(), taught)
        self.age = next(age.id for age in self.ages.values() if (age.folder, age.taught) == met)
        self.child, self.recent, self.holding = ShowAndTell(agent, memory), RecentBuffer(1 / room.dt_s), Holding()
        self.naming, self.asking, self.wondering = Naming(self.child), Asking(asks), Wondering(memory)
        self.recalling = Recalling(self.child, remembering, self.keeps, recorded=self.recorded)
        self.questions = Questions(self)
        self._recalled: Recalled | None = None
        self._pointed: Pointed | None = None
        self._named: Mapping[str, Named] | None = None
        self.sees: Sense | None = None
        self._predicted: tuple[Moment, Mapping[str, Output]] | None = None
        watchers = {"recording": self._keep, "memory": self._remember, "page": self._show, "learner": self._learn}
        self.directing = Directing(director, self.note) if director else None
        self.loop = LiveLoop(
            agent, room, watchers=watchers, recalled=self._recall, results=results, answers=answers,
            directed=self._direct if director else None, hears_itself=self._hears_itself,
        )  # fmt: skip
        sha256 = agent.sha256()
        weights = learner.note(sha256) if learner else {"agent_sha256": sha256, "kept": None}
        self._weights: dict[str, Any] = {**weights, "heads": self._standing()}
        self._weights_since_s = time.monotonic()
        self._commands = Commands(self)
        if record:
            self.begin_recording()
        self.view = View(agent, sure) if hub else None
        self.spoken_to = SpeechHandler(self._commands.hear, self.say_aloud)
        self._listen(agent, results)

    # -- for the command line and the page -----------------------------------------------------------------------

    def run(self, seconds: float | None = None, stop: Callable[[], bool] = lambda: False) -> LiveSummary:
        """Live; see `LiveLoop.run`."""
        return self.loop.run(seconds, stop)

    def __enter__(self) -> Self:
        self.naming.__enter__()
        self.recalling.__enter__()
        if self._has_voice:
            self.spoken_to.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        with ExitStack() as closing:
            if self.recording:
                closing.callback(self.recording.end)
            if self.view:
                closing.callback(self.view.close)
            closing.push(self.naming)
            closing.push(self.recalling)
            closing.push(self.spoken_to)
            closing.push(self.wondering)

    @property
    def mailboxes(self) -> list[Any]:
        """Sensors that get their data from the page."""
        return [sensor for sensor in self.room.sensors.values() if hasattr(sensor, "accept")]

    def welcome(self) -> dict[str, Any]:
        """The first message to a page."""
        try:
            examples = self.child.names.known()
        except StoreError:  # an unreadable memory: naming reports it in every view
            examples = {}
        return {
            "type": "welcome", "mode": "live", "camera": self._origin("sight"), "microphone": self._origin("sound"),
            "hz": round(1 / self.room.dt_s, 3), "private": self.recording is None, "version": version("devmind"),
            "ages": [{"id": age.id, "label": age.label, "new": age.new} for age in self.ages.values()],
            "age": self.age, "questions": example_questions(self.loop.agent),
            "examples": examples, "can_record": self.recording is not None,
            "paused": self.loop.paused, "command": self.command, "simulated": self.room.is_simulated,
            "instructions": list(self.room.instructions),
        }  # fmt: skip

    def do(self, command: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out a command, from any thread but the loop's.

        Raises:
            ConfigError: there is no such command, or its arguments do not fit.
            DevmindError: the command failed; the message says why.
        """
        return self._commands.do(command, arguments)

    # -- every tick ----------------------------------------------------------------------------------------------

    def keeps(self) -> bool:
        """Whether Moments may be kept now: on the disk only on request, in RAM always."""
        keep = self.recalling.config.keep
        recorder = self.recording.recorder if self.recording else None
        recorded = self.recording is None or (recorder is not None and not recorder.failed)
        return keep == "always" or (keep == "recorded" and recorded)

    def recorded(self, since_s: float, until_s: float) -> Pointer | None:
        """Where the Moments between two times of the room's clock were recorded; it may wait for the disk."""
        return self.recording.pointer(since_s, until_s) if self.recording else None

    def _keep(self, tick: Tick) -> None:
        effectors = tick.action.effectors
        by = [head for effector, head in tick.output.decided() if effector == UTTER]
        self.uttering.take(self.loop.agent, effectors.get(UTTER), by)
        if "say" in effectors:
            self.say_aloud(said(effectors["say"]))
        self._point(tick)
        if self.recording:
            self.recording.tick(tick, self.room)

    def say_aloud(self, text: str) -> None:
        """Let the speaker say words, where it has a voice; returns at once, from any thread."""
        if self._has_voice:
            self.speaker.say(text)

    @property
    def _has_voice(self) -> bool:
        return hasattr(self.speaker, "say")

    def _hears_itself(self) -> bool:
        """Whether the ear would hear the agent's own voice; the recording gets a note at its start and end."""
        speaks = bool(getattr(self.speaker, "is_heard", False))
        if speaks != self._speaks:
            self.note("own_voice", {"on": speaks})
        self._speaks = speaks
        return speaks

    def _point(self, tick: Tick) -> None:
        """The memory that the agent points at, of those it was stepped with; the recording gets a note for checks."""
        self._pointed, found = None, self._recalled
        head = pointer_of(self.loop.agent) if found and found.tokens is not None else None
        if found is not None and head is not None:
            self._pointed = pointed(self.loop.agent, head, tick.percepts.seen)
            self.note("pointed", found.pointed_note(self._pointed))

    def _remember(self, tick: Tick) -> None:
        self.sees = tick.moment.senses.get("sight")
        seen = "sight" in tick.moment.senses and not self.room.is_simulated  # nobody holds up a thing in there
        self.holding.see(self.room.frame if seen else None, tick.moment.time_s)
        # A name is for the thing held up, wherever the agent looks.
        held = {sense: value for sense, value in tick.moment.senses.items() if sense != "sight"}
        held |= {} if self.holding.crop is None else {"sight": self.holding.crop}
        self.recent.add(replace(tick.moment, senses=held))
        self.echoing.take(self.loop.agent, tick.moment)
        self._named = None
        self.recalling.offer(tick.moment)

    def _recall(self, moment: Moment) -> Encoded | None:
        """The recalled entries that the agent is stepped with, first noted in the recording, so that a check can repeat
        it.
        """
        self._recalled = found = self.recalling.take(moment.time_s)
        if found is None or found.tokens is None:
            return None
        if found.by is not self.loop.agent:  # while another age takes over: its own tokens differ
            return None
        self.note("recalled", found.note())
        return found.tokens

    def _names(self) -> Mapping[str, Named]:
        """The answers to what "this" is, from what was sensed up to the last tick; asked once a tick."""
        if self._named is None:
            self._named = self.naming.of(self.recent, self.holding.above)
        return self._named

    def _direct(self, moment: Moment, output: StepOutput, percepts: Percepts) -> Mapping[str, np.ndarray]:
        """The director's actions; it knows the thing held up by the name that memory gave it a tick before."""
        assert self.directing is not None
        named = placed(self._names().get("sight"), self.holding.square, self.room.frame)
        return self.directing.act(self.loop.agent, moment, output, percepts, named)

    def _show(self, tick: Tick) -> None:
        if self.heard:
            self.heard.see(tick)
            self.spoken_to.take(self.heard.sentence(tick.moment.time_s), self.heard.said)
        self.questions.about_instruction(tick)
        if not (self.view and self.hub and self.hub.watched):
            self._predicted = None
            return
        named = self._names()
        self.questions.about_held(tick.moment.time_s, named)
        view = self.view.of(tick, self.room, named, self._surprise(tick), self._extra())
        frame = self.room.frame
        jpeg = self.view.jpeg(frame) if frame is not None and self._origin("sight") == HERE else None
        self.hub.publish(view, jpeg, frame)

    def faults(self) -> list[str]:
        """What does not work now, a sentence each."""
        recorder = self.recording.recorder if self.recording else None
        reminds, speaks = (self.naming, self.recalling, self.wondering), (self.speaker, self.uttering, self.spoken_to)
        device = getattr(getattr(self.speaker, "speaker", None), "health", None)  # of what a voice speaks through
        parts = (recorder, *reminds, self.learner, self.directing, *speaks, device, self.room)
        found = dict.fromkeys(getattr(part, "fault", "") for part in parts)  # memory's fault reaches several parts
        return [without_secrets(fault) for fault in found if fault]

    def _surprise(self, tick: Tick) -> dict[str, float]:
        """The error of the last tick's prediction of this one; empty in the first tick that somebody watches."""
        agent, predicted = self.loop.agent, self._predicted
        heads = predicting(agent, tick.moment.senses)
        self._predicted = (tick.moment, agent.run_heads(heads, tick.percepts.seen))
        return surprise(predicted[1], predicted[0], tick.moment) if predicted else {}

    def _extra(self) -> dict[str, Any]:
        assert self.hub is not None
        recorder = self.recording.recorder if self.recording else None
        extra: dict[str, Any] = {
            "writing": (recorder is not None and not recorder.failed) or (self.recording is not None and self.keeps()),
            "recording": recorder is not None,
            "private": self.recording is None, "paused": False, "age": self.age, "viewers_dropped": self.hub.drops,
            "faults": self.faults(),
        }  # fmt: skip
        if self.loop.pace.says:
            extra["busy"] = self.loop.pace.says
        if self._has_voice:
            extra["aloud"] = not getattr(self.speaker, "fault", "")
        if self._speaks:
            extra["own_voice"] = True
        if self.heard and (words := self.heard.shown()):
            extra["heard"] = words
        if spoken := self.spoken_to.shown():
            extra["spoken"] = spoken
        if progress := self.room.progress():
            extra["world"] = progress
        if "sight" in self.room.sensors and not self.room.is_simulated:
            extra["held"] = as_held(self.holding, self.room.frame)
            extra["may_ask"] = self.asking.on
        if self.directing:
            extra["doing"] = self.directing.director.doing()
        extra |= self.questions.shown()
        if self._recalled is not None:
            extra["recalled"] = self._recalled.shown()
            if self._pointed is not None:
                extra["points"] = self._recalled.pointed_shown(self._pointed)
        if recorder is not None:
            extra["recorder"] = {"dropped_ticks": recorder.dropped_ticks, "dropped_frames": recorder.dropped_frames}
        if self.learner:
            extra["learning"] = self.learner.view()
            extra["checkpoint_age_s"] = round(time.monotonic() - self._weights_since_s, 1)
        return extra

    def _learn(self, tick: Tick) -> None:
        newer = self.learner.poll() if self.learner else None
        if self.learner and newer:
            newer.swap_into(self.loop.agent)
            self._act_with(self.learner.note(newer.sha256))

    def _act_with(self, weights: Mapping[str, Any]) -> None:
        """Let these weights act from the next tick on."""
        self._weights, self._weights_since_s = dict(weights) | {"heads": self._standing()}, time.monotonic()
        self.recalling.changed()
        self.note("weights", self._weights)

    # -- between two ticks, in the loop's thread -----------------------------------------------------------------

    def begin_recording(self) -> None:
        """Open the next file, if none is open; it begins with a first Moment, so that it can be replayed alone."""
        if self.recording and self.recording.recorder is None:
            self.recording.begin(self._weights, self.loop.wanted, self.room.names)
            if self.directing:
                self.directing.begin_recording()
            self.loop.afresh = True

    def set_paused(self, on: bool) -> None:
        """Stop or resume sensing and acting."""
        if on != self.loop.paused:
            self.loop.paused = on
            self.asking.question = None
            self.note("paused" if on else "resumed", {})
        if on and self.hub:
            self._predicted = None
            self.hub.publish({"type": "tick", "paused": True}, None)

    def grow_to(self, age: str, agent: Agent, sha256: str) -> None:
        """Let another agent live on from here, with a first Moment."""
        if self.view:
            self.view = View(agent, self.sure, self.view)
        self.age, self.loop.afresh, self.loop.agent = age, True, agent
        results = read_results(self.ages[age].folder)
        self.loop.standing = standing(agent, results) | answering(agent, self.answers)
        self._listen(agent, results)
        self.note("age", {"id": age})
        self._act_with({"agent_sha256": sha256, "kept": None})

    def _listen(self, agent: Agent, results: Mapping[str, Any] | None) -> None:
        """Ask the head of words from here on, if somebody can see what it hears, or speech is answered."""
        self.heard: HeardWords | None = HeardWords(agent, results) if self.hub or self._has_voice else None
        self.loop.heads = self.heard.heads if self.heard else ()

    def _standing(self) -> dict[str, list[str]]:
        """The heads that may act, noted in the recording: a check must ask the same ones."""
        return {effector: list(heads) for effector, heads in self.loop.standing.items()}

    def note(self, kind: str, data: Mapping[str, Any]) -> None:
        """Write a note to the recording, if there is one."""
        if self.recording:
            self.recording.note(kind, data)

    def _origin(self, sense: str) -> str:
        sensor = self.room.sensors.get(sense)
        return NONE if sensor is None else BROWSER if hasattr(sensor, "accept") else HERE
