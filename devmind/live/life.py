"""Life: one agent in one room with its memory, its recording and its viewers, and the commands that a page gives it.

Slow work of a command (memory's disk, loading an agent, finishing a recording) runs in the thread that asks. Every
change of agent, room or recording happens in the loop's thread between two ticks. So no lock is needed, and a recorded
session says between which ticks it happened.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import version
from types import TracebackType
from typing import Any, Self, TypeVar

import numpy as np

from devmind.acting.abilities import LAPSE_S, Ability, Intent, Look, Reply, Sentence, load_abilities
from devmind.acting.clarification import Inquiry, lacking
from devmind.acting.confidence import Confidence, read_confidence
from devmind.acting.recall import PAGE
from devmind.acting.sentences import greeting, is_short_reply, name_in, name_in_reply, teaching
from devmind.acting.standing import Standing, answering, read_results, standing
from devmind.agent.agent import Agent, StepOutput
from devmind.agent.encoders import Encoded
from devmind.agent.output import Output
from devmind.agent.plans import Lack
from devmind.agent.pointing import Pointed, point_at, pointer_of
from devmind.agent.prediction import predicting, surprise
from devmind.agent.taps import Percepts
from devmind.agent.threads import stepping_threads
from devmind.bounds import printable
from devmind.errors import ConfigError, StoreError, TracesError, bind_command, nearest, without_secrets
from devmind.live.ages import ages
from devmind.live.directing import Directing, place_named
from devmind.live.learning.learner import LiveLearner
from devmind.live.loop import LiveLoop, LiveSummary, Tick
from devmind.live.options import LiveOptions
from devmind.live.recording import Recording
from devmind.live.remembering.answering import CANNOT, answer, say_learned
from devmind.live.remembering.asking import STEADY_S, Asking
from devmind.live.remembering.naming import Naming
from devmind.live.remembering.press import Holding
from devmind.live.remembering.recalling import Recalled, Recalling
from devmind.live.remembering.recent import RecentBuffer
from devmind.live.remembering.remembered import as_held, as_shown, list_remembered, question_data
from devmind.live.remembering.show_and_tell import ShowAndTell
from devmind.live.serving.hub import Hub
from devmind.live.speech_handler import SpeechHandler
from devmind.live.viewing.view import View, spoken_words
from devmind.memory import Entry, Memory, Named, Pointer
from devmind.memory.entry import LOOKED, VIEWS
from devmind.memory.names import proper_name
from devmind.moment import Moment, Sense
from devmind.worlds.room import Room

T = TypeVar("T")
HERE, BROWSER, NONE = "here", "browser", "none"
ASKED = "asked"
PATIENCE_S = 5.0
"""A press that gets no ticks is not waited for longer."""
LOOK_S = 1.0
"""So long an answer waits for a picture: on a busy machine some Moments have none."""
LEARNS_NO_MORE = "The recording it learns from has ended, so it learns nothing more; start devmind live again to go on."
PAUSED = "It is paused and senses nothing; resume it first."


@dataclass(frozen=True)
class Wanted:
    """A question of an acting head, and what it lacks; number counts such questions of one life from 1."""

    number: int
    lack: Lack

    def note(self) -> dict[str, Any]:
        """For the recording and for the page."""
        return {"number": self.number, "text": self.lack.question}


class Life:
    """One life; a context manager whose end closes the recording.

    Args:
        agent, room, memory: the agent, its room and its memory, all of them loaded and open.
        options: how it lives. `sensors`, `speaker`, `memory`, `private`, `learn` and the page's are the caller's to
            open (`open_life`).
        recording: None where nothing may be recorded; it starts at once if `options.record` names a file.
        hub: receives the views; None without a page.
        speaker: plays what the agent utters. One with a voice (`say(text)`, as `Speaking`) speaks the agent's words and
            answers, also to speech (`reply`); while it sounds (`is_heard`) the agent is deaf.
        learner: learns from the recording in a separate process; the caller starts and ends it.

    Attributes:
        results: of the agent's exams; None if it was never examined.
        confidence: how far what the agent sees can be trusted; None if that was never measured.
        abilities: all that are installed, by name; those that the present agent has are asked.
        sees: what the agent saw in the last tick; None without sight.
        wanted: the question of a head, as long as it lacks the answer; None: no question.
    """

    def __init__(
        self,
        agent: Agent,
        room: Room,
        memory: Memory,
        options: LiveOptions,
        *,
        recording: Recording | None = None,
        hub: Hub | None = None,
        speaker: Any = None,
        learner: LiveLearner | None = None,
    ) -> None:
        self.room, self.memory, self.options, self.recording, self.hub = room, memory, options, recording, hub
        self.speaker, self.learner, self.sure = speaker, learner, options.config.sure
        self.answers: Standing = options.answers
        self._speaks = False
        self.ages = {age.id: age for age in ages(options.agent)}
        met = (options.agent.resolve(), options.taught)
        self.age = next(age.id for age in self.ages.values() if (age.folder, age.taught) == met)
        self.child, self.recent, self.holding = ShowAndTell(agent, memory), RecentBuffer(1 / room.dt_s), Holding()
        self.naming, self.asking = Naming(self.child), Asking(options.config.asks)
        self.recalling = Recalling(self.child, options.config.memory, self.keeps, recorded=self.recorded)
        self._able: tuple[Ability, ...] = ()
        self._failed: list[str] = []
        self.sees: Sense | None = None
        self.wanted: Wanted | None = None
        self._about_held: dict[str, Any] = {}
        self._inquiry, self._count = Inquiry(), 0
        self._recalled: Recalled | None = None
        self._pointed: Pointed | None = None
        self._named: Mapping[str, Named] | None = None
        self._predicted: tuple[Moment, Mapping[str, Output]] | None = None
        watchers = {
            "abilities": self._see,
            "recording": self._keep,
            "memory": self._remember,
            "page": self._show,
            "learner": self._learn,
        }
        self.directing = Directing(options.director, self.note) if options.director else None
        self.results: Mapping[str, Any] | None = read_results(options.agent)
        self.confidence: Confidence | None = read_confidence(options.agent, agent)
        self.loop = LiveLoop(
            agent, room, watchers=watchers, recalled=self._recall, results=self.results, answers=self.answers,
            directed=self._direct if self.directing else None, hears_itself=self._hears_itself,
        )  # fmt: skip
        sha256 = agent.sha256()
        weights = learner.note(sha256) if learner else {"agent_sha256": sha256, "kept": None}
        self._weights: dict[str, Any] = {**weights, "heads": self._standing()}
        self._weights_since_s = time.monotonic()
        self._growing = threading.Lock()
        self._taught: dict[int, Entry] = {}  # by id, in order; several threads teach and undo
        self._talked_s, self._talked_with, self._remarked = float("-inf"), agent, False
        self._commands: dict[str, Callable[..., dict[str, Any]]] = {
            "press": self._press, "teach": self._teach, "undo": self._undo, "forget": self._forget,
            "memories": self._memories, "record": self._record, "pause": self._pause, "age": self._age,
            "say": self._say, "asks": self._allow_asking, "answer": self._answer,
        }  # fmt: skip
        self.abilities = load_abilities(self)
        self._begin_abilities()
        if options.record is not None:
            self.begin_recording()
        self.view = View(agent, self.sure, self.confidence) if hub else None
        self.spoken_to = SpeechHandler(self.reply, self.say_aloud)

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
            for ability in self.abilities.values():
                closing.callback(ability.close)

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
            "age": self.age, "questions": self._questions(),
            "examples": examples, "can_record": self.recording is not None,
            "paused": self.loop.paused, "command": self.options.command, "simulated": self.room.is_simulated,
            "instructions": list(self.room.instructions),
        }  # fmt: skip

    def do(self, command: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out a command, from any thread but the loop's.

        Raises:
            ConfigError: there is no such command, or its arguments do not fit.
            DevmindError: the command failed; the message says why.
        """
        call = bind_command(command, arguments, self._commands)
        for name, value in arguments.items():
            if not is_fit(name, value):
                raise ConfigError(f"'{command}' cannot be done with {name} = {value!r:.40}.")
        with stepping_threads():
            return call()

    # -- for abilities --------------------------------------------------------------------------------------------

    @property
    def agent(self) -> Agent:
        """The agent that lives now."""
        return self.loop.agent

    @property
    def hashes(self) -> Mapping[str, str]:
        """Hashes of the encoders that make memory's keys, by sense."""
        return self.child.hashes

    @property
    def is_attended(self) -> bool:
        """Whether somebody may see the page, or speech is answered."""
        return self.hub is not None or self._has_voice

    def between(self, do: Callable[[], T]) -> T:
        """Run it in the loop's thread, between two ticks; from any other thread."""
        return self.loop.calls.ask(do)

    def note(self, kind: str, data: Mapping[str, Any]) -> None:
        """Write a note to the recording, if there is one."""
        if self.recording:
            self.recording.note(kind, data)

    def is_elsewhere(self, sight: Sense | None) -> bool:
        """Whether a picture is unlike those of the agent's lessons."""
        if not isinstance(sight, np.ndarray):
            return False
        if self.confidence is None:  # nothing is known of a taught agent that was never measured
            return bool(self.agent.config.stages)
        return self.confidence.density.is_unlike(self.agent, sight)

    # -- commands, each in the thread that asks ---------------------------------------------------------------------

    def _press(self, on: bool) -> dict[str, Any]:
        self.between(self.holding.begin if on else self.holding.end)
        return {"on": on}

    def _teach(self, name: str, of: str = "auto") -> dict[str, Any]:
        """Keep what the press has seen since it began; without a press, one begins now and lasts a second.

        `of` "asked" teaches what it asked about last. `unseen` in the answer says why only a sound was kept, where a
        picture could have been meant, or is ''.
        """
        name = name_in_reply(name, self.child.names.known()) if of == ASKED else proper_name(name)
        since_s, shown, unseen = self._in_question() if of == ASKED else self._pressed(of)
        if LOOKED in shown.senses:  # a press of the button is handled like the sentence
            shown = replace(shown, senses={**shown.senses, PAGE: teaching(name)})
        entry = self.child.teach(name, shown, self.recorded(since_s, shown.time_s))
        self._taught[entry.id] = entry
        if "sight" in shown.senses:
            self.between(self.asking.settle)
        self._has_learned("name_taught", {"id": entry.id})
        frames = len(np.atleast_1d(shown.senses.get(VIEWS, ())))
        examples = self.child.names.known()
        answer = say_learned(name, frames, examples.get(name, 1), unseen)
        return {**as_shown(entry), "frames": frames, "unseen": unseen, "examples": examples, "answer": answer}

    def _in_question(self) -> tuple[float, Moment, str]:
        """As `_pressed`, for what it asked about last."""
        question = self.asking.question
        if question is None:
            raise StoreError("It no longer asks about anything; hold the thing up, then teach.")
        since_s = min(question.time_s - STEADY_S, question.shown.seen[0].time_s)
        return since_s, Moment(question.time_s, dict(question.shown.payload())), ""

    def _pressed(self, of: str) -> tuple[float, Moment, str]:
        """The start of the showing, what a press has shown, and why there is only a sound."""
        holding = self.holding
        try:
            if self.loop.paused:  # what was sensed before the pause is not what is meant now
                raise StoreError(PAUSED)
            if of != "heard":
                self.between(holding.begin)
                give_up_s = time.monotonic() + PATIENCE_S
                while (left_s := self.between(lambda: holding.left_s)) > 0 and time.monotonic() < give_up_s:
                    time.sleep(left_s)
            return self.between(lambda: (self._since_s(), *self._shown(of)))
        finally:
            self.between(holding.end)

    def _since_s(self) -> float:
        """The earliest time, on the room's clock, of anything that an example may be made of."""
        return min(self.holding.begun_s, self.recent.since_s)

    def _shown(self, of: str) -> tuple[Moment, str]:
        """What a name is given to: the thing held up, and the sound that is meant; and why there is only a sound."""
        recent = self.recent
        if of == "heard":
            return recent.example(of), ""
        if of == "auto" and not recent.stands_out():
            heard: dict[str, Sense] = {}
        else:
            heard = {} if of == "seen" else dict(recent.example("heard").senses)
        seen, unseen = {}, ""
        try:
            if self.room.is_simulated:
                raise StoreError(
                    "Nobody can hold up a thing in a simulated world, so nothing is taught by sight there."
                )
            seen = self.holding.take()
        except StoreError as error:
            if of != "auto" or not heard:
                raise
            unseen = str(error)
        return Moment(recent.now_s, {**heard, **seen}), unseen

    def _undo(self, id: str = "") -> dict[str, Any]:
        """Delete the example with this number, or the last one: another page, or somebody who speaks, may have taught
        since.
        """
        left = [entry for entry in tuple(self._taught.values()) if id in ("", str(entry.id))]
        if not left:
            raise StoreError("That example is gone already." if id else "Nothing taught in this life is left to undo.")
        entry, notes = left[-1], list[str]()
        with self._telling_traces(notes):
            notes += self.memory.erase([entry.id])
        self._taught.pop(entry.id, None)  # only once it is deleted: another undo takes the one before
        self._has_learned("name_undone", {"id": entry.id})
        return {"name": entry.name, "examples": self.child.names.known(), "notes": notes}

    def _forget(self, name: str) -> dict[str, Any]:
        name, notes = name.strip(), list[str]()
        count = self.child.names.known().get(name, 0)
        with self._telling_traces(notes):
            self.child.forget(name, notes.append)
        for entry in [entry for entry in tuple(self._taught.values()) if entry.name == name]:
            self._taught.pop(entry.id, None)
        self._has_learned("name_forgotten", {"count": count})
        return {"forgotten": count, "examples": self.child.names.known(), "notes": notes}

    @staticmethod
    @contextmanager
    def _telling_traces(notes: list[str]) -> Iterator[None]:
        """Report remaining traces: the entries are deleted all the same."""
        try:
            yield
        except TracesError as error:
            notes.append(str(error))

    def _has_learned(self, kind: str, what: Mapping[str, Any]) -> None:
        """Tell the naming thread and the recording: by number, because a recorded name would survive forgetting."""
        self.naming.changed()
        self.between(lambda: self.note(kind, what))

    def _memories(self) -> dict[str, Any]:
        found = self.recalling.latest()
        return {"memories": list_remembered(self.memory, also=[entry.id for entry in found.entries] if found else [])}

    def _record(self, on: bool) -> dict[str, Any]:
        if self.recording is None:
            raise ConfigError("This life is private: nothing of it is recorded. Start it without --private to record.")
        self.between(self.begin_recording if on else self.recording.stop)
        if self.learner and not on:
            self.learner.fault = LEARNS_NO_MORE
        self.recording.finish()
        files = self.recording.files
        return {"recording": self.recording.recorder is not None, "file": str(files[-1]) if files else ""}

    def _pause(self, on: bool) -> dict[str, Any]:
        self.between(lambda: self.set_paused(on))
        return {"paused": on}

    def _age(self, id: str) -> dict[str, Any]:
        if self.learner:
            raise ConfigError("A learning agent has only one age; start it without learn=true to go back.")
        if id not in self.ages:
            raise ConfigError(f"There is no age '{id}'{nearest(id, self.ages)}")
        with self._growing:
            agent = self.ages[id].wake()
            sha256, before = agent.sha256(), self.loop.agent
            self.child.refresh(agent)
            try:
                self.between(lambda: self.grow_to(id, agent, sha256))
            except BaseException:
                self.child.refresh(before)
                raise
            finally:
                self.naming.changed()
        return {"age": id, "questions": self._questions()}

    def _allow_asking(self, on: bool) -> dict[str, Any]:
        self.between(lambda: self.asking.allow(on))
        return {"on": on}

    def _answer(self, text: str) -> dict[str, Any]:
        """Answer its question about the instruction: it gets the instruction again, with the answer in it."""
        page = self.between(lambda: self.answer_question(text))
        return {"answer": f"Its instruction is now: “{page}”.", "page": page}

    def _say(self, text: str) -> dict[str, Any]:
        """Handle words for it, typed or turned into text by a voice.

        `answer` is a sentence; a voice says it, or what an ability has said in its place. `taught` is the answer of
        `teach`, where a name was given. Abilities add fields: `own`, what the agent writes itself, `learned`, what it
        answers by taught words, and `questions`, some that its lessons ask.
        """
        reply = self.reply(Sentence(text))
        return {"answer": reply.text, **reply.fields}

    def reply(self, sentence: Sentence) -> Reply:
        """Answer a sentence, aloud where there is a voice; in the thread of who says it.

        In a pause nothing is sensed, and that is only shown.
        """
        if self.loop.paused:
            if not sentence.text:
                return Reply("")
            self.between(lambda: self.room.say(sentence.text))
            return Reply(PAUSED, "")
        with stepping_threads():
            replies = (intent.hear(sentence) for intent in self.intents())
            reply = next(reply for reply in replies if reply is not None)
        if aloud := reply.text if reply.aloud is None else reply.aloud:
            self.say_aloud(aloud)
        return reply

    def intents(self) -> list[Intent]:
        """The kinds of sentences that this life handles, in the order in which they are tried; the last takes all."""
        own = Intent(0, "a name for what is shown: “this is a cup”", self._named_by)
        rest = Intent(float("inf"), "anything else", self._answered)
        hears = [Intent(ability.order, ability.kind, ability.hear) for ability in self._able]
        return sorted([*hears, own, rest], key=lambda intent: intent.order)

    def _named_by(self, sentence: Sentence) -> Reply | None:
        """Teach the name that a sentence gives to what is shown; None if it gives none.

        What is spoken names what is held up: the sound meanwhile is the voice that gives the name.
        """
        text, known, is_asked = sentence.text, self.child.names.known(), self.asking.question is not None
        name = name_in(text, known)
        if name is None and is_asked and is_short_reply(text):
            name = name_in_reply(text, known)
        if name is None:
            return None
        self.between(lambda: self.room.say(text))
        # The thing asked about may have been put down to type the answer.
        of = ASKED if is_asked and self.holding.square is None else "seen" if sentence.is_spoken else "auto"
        taught = self._teach(name, of)
        return Reply(taught["answer"], fields={"taught": taught})

    def _answered(self, sentence: Sentence) -> Reply:
        """The answer by what memory and recognition know, beside the agent's own words."""
        if not (text := sentence.text):
            return Reply("")
        known, agent, now_s = self.child.names.known(), self.agent, time.monotonic()
        if now_s - self._talked_s > LAPSE_S or self._talked_with is not agent:
            self._remarked = False  # another conversation
        self._talked_s, self._talked_with = now_s, agent

        def look() -> tuple[Look, tuple[float, float] | None, Mapping[str, Named]]:
            """What is in view and where, in one tick: own words and sentence must speak of the same."""
            self.room.say(text)
            gaze = self.room.fovea
            gaze_deg = None if self.sees is None else (gaze.pan_deg, gaze.tilt_deg)
            named = self.naming.of(self.recent, self.holding.above)
            return Look(self.sees, self.holding.looked), gaze_deg, named

        give_up_s = now_s + LOOK_S
        while "sight" in self.room.sensors and self.between(lambda: self.sees is None) and time.monotonic() < give_up_s:
            time.sleep(self.room.dt_s)
        in_view, gaze_deg, named = self.between(look)
        rest = greeting(text, known)[1]
        remarks = (ability.remark(rest, in_view) for ability in self._able)
        remark = next((remark for remark in remarks if remark is not None), None)
        own = remark or Reply("")
        said = answer(text, known, named, gaze_deg, remark is not None, own.text, not self._remarked)
        self._remarked |= CANNOT in said
        return Reply(said, own.aloud, own.fields)

    def _questions(self) -> list[str]:
        """A few questions that the present agent was taught to answer."""
        return [question for ability in self._able for question in ability.questions()]

    def _ask_about_held(self, time_s: float, named: Mapping[str, Named]) -> None:
        """Ask about an unknown thing that is held up; somebody watches this tick."""
        holding, asking, doubt = self.holding, self.asking, None
        by_look = next((ability for ability in self._able if ability.doubts), None)
        unsure = self.naming.is_telling if by_look else self._sees_unsurely(named)
        is_due = asking.see(time_s, holding.square, unsure, busy=holding.frames is not None)
        if not is_due or holding.looked is None:
            if by_look:
                by_look.look_away()
            return
        if by_look:
            doubt = by_look.doubt(holding.looked)
            if doubt is None or not doubt.asks:
                if doubt is not None:
                    asking.know()
                return
        if shown := holding.recent(self.room.frame):
            question = asking.ask(shown, named.get("sight"), doubt)
            self._about_held = question_data(question)
            self.note("asked", question.note())

    def _sees_unsurely(self, named: Mapping[str, Named]) -> bool:
        return "sight" in self.agent.encoders and self.naming.is_unsure(named)

    def _ask_about_instruction(self, tick: Tick) -> None:
        """Ask what the head that decided in this tick lacks after searching in vain; once, aloud with a voice."""
        page = tick.moment.senses.get(PAGE)
        instruction = page if isinstance(page, str) else ""
        lack = lacking(tick.output, instruction) if self.asking.on else None
        is_due = self._inquiry.is_due(lack, tick.moment.time_s)
        if self._inquiry.asked is None:
            self.wanted = None
        if is_due and lack is not None:
            self._count += 1
            self.wanted = Wanted(self._count, lack)
            self.note("asked", self.wanted.note())
            self.say_aloud(lack.question)

    def answer_question(self, text: str) -> str:
        """The page from the next Moment on, with this answer to the head's question in it.

        Raises:
            ConfigError: nothing is asked about it, or nothing is answered.
            WorldError: the world does not know these words; the page before still stands.
        """
        if self.wanted is None:
            raise ConfigError("It no longer asks about its instruction; give it a new one.")
        if not text.strip():
            raise ConfigError(f"It asked '{self.wanted.lack.question}'; answer it with words.")
        page = self.wanted.lack.restated(text)
        self.room.say(page)
        return page

    def _open_questions(self) -> dict[str, Any]:
        """The open questions, for the page: `asks` about the thing held up, `wants` about the instruction."""
        asks_field = {"asks": self._about_held} if self.asking.question is not None else {}
        return asks_field | ({"wants": self.wanted.note()} if self.wanted else {})

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

    def _see(self, tick: Tick) -> None:
        for ability in self._able:
            try:
                ability.see(tick)
                sentence = ability.heard()
            except Exception as error:  # it may be somebody else's
                self._rest(ability, error)
                continue
            if sentence is not None:
                self.spoken_to.take(sentence)

    def _rest(self, ability: Ability, error: Exception) -> None:
        """An ability that failed is asked no more until another agent lives; the life goes on."""
        self._able = tuple(one for one in self._able if one is not ability)
        name = next(name for name, one in self.abilities.items() if one is ability)
        reason = printable(f"{type(error).__name__}: {error}".splitlines()[0].rstrip("."))
        self._failed.append(f"The ability '{name}' failed and rests until another age lives: {reason}.")

    def _keep(self, tick: Tick) -> None:
        effectors = tick.action.effectors
        if "say" in effectors:
            self.say_aloud(spoken_words(effectors["say"]))
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
            self._pointed = point_at(self.loop.agent, head, tick.percepts.seen)
            self.note("pointed", found.pointed_note(self._pointed))

    def _remember(self, tick: Tick) -> None:
        self.sees = tick.moment.senses.get("sight")
        seen = "sight" in tick.moment.senses and not self.room.is_simulated  # nobody holds up a thing in there
        self.holding.see(self.room.frame if seen else None, tick.moment.time_s)
        # A name is for the thing held up, wherever the agent looks.
        held = {sense: value for sense, value in tick.moment.senses.items() if sense != "sight"}
        held |= {} if self.holding.crop is None else {"sight": self.holding.crop}
        self.recent.add(replace(tick.moment, senses=held))
        self._named = None
        self.recalling.put(tick.moment)

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
        named = place_named(self._names().get("sight"), self.holding.square, self.room.frame)
        return self.directing.act(self.loop.agent, moment, output, percepts, named)

    def _show(self, tick: Tick) -> None:
        self._ask_about_instruction(tick)
        if not (self.view and self.hub and self.hub.watched):
            self._predicted = None
            return
        named = self._names()
        self._ask_about_held(tick.moment.time_s, named)
        view = self.view.of(tick, self.room, named, self._surprise(tick), self._extra())
        for ability in self._able:
            try:
                fields = ability.shown(tick)
            except Exception as error:  # it may be somebody else's
                self._rest(ability, error)
                continue
            for key, shown in fields.items():
                view[key] = view[key] | shown if isinstance(view.get(key), dict) else shown
        frame = self.room.frame
        jpeg = self.view.jpeg(frame) if frame is not None and self._origin("sight") == HERE else None
        self.hub.publish(view, jpeg, frame)

    def faults(self) -> list[str]:
        """What does not work now, a sentence each."""
        recorder = self.recording.recorder if self.recording else None
        device = getattr(getattr(self.speaker, "speaker", None), "health", None)  # of what a voice speaks through
        own = (recorder, self.naming, self.recalling, self.learner, self.directing, self.speaker, self.spoken_to)
        parts = (*own, device, self.view, *self._able, self.room)
        faults = (*(getattr(part, "fault", "") for part in parts), *self._failed)
        found = dict.fromkeys(faults)  # memory's fault reaches several parts
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
        if spoken := self.spoken_to.shown():
            extra["spoken"] = spoken
        if progress := self.room.progress():
            extra["world"] = progress
        if "sight" in self.room.sensors and not self.room.is_simulated:
            extra["held"] = as_held(self.holding, self.room.frame)
            extra["may_ask"] = self.asking.on
        if self.directing:
            extra["doing"] = self.directing.director.doing()
        extra |= self._open_questions()
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
        self.age, self.loop.afresh, self.loop.agent = age, True, agent
        self.results = read_results(self.ages[age].folder)
        self.confidence = read_confidence(self.ages[age].folder, agent)
        if self.view:
            self.view.close()
            self.view = View(agent, self.sure, self.confidence)
        self.loop.standing = standing(agent, self.results) | answering(agent, self.answers)
        self._begin_abilities()
        self.note("age", {"id": age})
        self._act_with({"agent_sha256": sha256, "kept": None})

    def _begin_abilities(self) -> None:
        """Let the abilities that the present agent has be asked from here on."""
        self._failed = []
        for ability in self.abilities.values():
            ability.begin()
        self._able = tuple(one for one in self.abilities.values() if one.wants(self.agent))
        self.loop.heads = tuple(dict.fromkeys(head for ability in self._able for head in ability.heads))

    def _standing(self) -> dict[str, list[str]]:
        """The heads that may act, noted in the recording: a check must ask the same ones."""
        return {effector: list(heads) for effector, heads in self.loop.standing.items()}

    def _origin(self, sense: str) -> str:
        sensor = self.room.sensors.get(sense)
        return NONE if sensor is None else BROWSER if hasattr(sensor, "accept") else HERE


def is_fit(name: str, value: Any) -> bool:
    """Whether a command's argument has the right type: a bool for `on`, text with a UTF-8 form for every other.

    JSON can bring half of a surrogate pair, which would break later code.
    """
    if name == "on":
        return isinstance(value, bool)
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)
