"""Commands: what a page or a program asks of a life.

Slow work (memory's disk, loading an agent, finishing a recording) runs in the thread that asks. Changes of the life
itself run in the loop's thread, between two ticks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from devmind.acting.recall import PAGE
from devmind.acting.spoken_questions import is_speech
from devmind.acting.taught_words import teaching
from devmind.agent.threads import stepping_threads
from devmind.errors import ConfigError, StoreError, TracesError, bound, nearest
from devmind.live.echoing import requested
from devmind.live.remembering.answering import (
    CANNOT,
    ELSEWHERE,
    LAPSE_S,
    NO_WORDS,
    Dialogue,
    OwnWords,
    answer,
    can_write,
    example_questions,
    greeting,
    is_name,
    is_taught,
    learned,
    questions,
)
from devmind.live.remembering.asking import STEADY_S
from devmind.live.remembering.remembered import as_shown, remembered
from devmind.live.remembering.show_and_tell import proper_name
from devmind.live.remembering.strangers import density_of_lessons
from devmind.live.remembering.teaching_sentences import is_short_reply, name_in, name_in_reply
from devmind.live.remembering.word_questions import answer_by_look, is_about_one
from devmind.memory import Entry, Named
from devmind.memory.entry import LOOKED, VIEWS
from devmind.moment import Moment, Sense

if TYPE_CHECKING:
    from devmind.agent.agent import Agent
    from devmind.live.life import Life

T = TypeVar("T")
ASKED = "asked"
PATIENCE_S = 5.0
"""A press that gets no ticks is not waited for longer."""
LOOK_S = 1.0
"""So long an answer waits for a picture: on a busy machine some Moments have none."""
LEARNS_NO_MORE = "The recording it learns from has ended, so it learns nothing more; start devmind live again to go on."
PAUSED = "It is paused and senses nothing; resume it first."


class Commands:
    """The commands of one life, by name."""

    def __init__(self, life: Life) -> None:
        self.life = life
        self._growing = threading.Lock()
        self._taught: dict[int, Entry] = {}  # by id, in order; several threads teach and undo
        self._dialogue = Dialogue(life.sure)
        self._talked_s, self._talked_with, self._remarked = float("-inf"), life.loop.agent, False
        self._known: dict[str, Callable[..., dict[str, Any]]] = {
            "press": self._press, "teach": self._teach, "undo": self._undo, "forget": self._forget,
            "memories": self._memories, "record": self._record, "pause": self._pause, "age": self._age,
            "say": self._say, "asks": self._asks, "answer": self._answer,
        }  # fmt: skip

    def do(self, command: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """See `Life.do`."""
        call = bound(command, arguments, self._known)
        for name, value in arguments.items():
            if not is_fit(name, value):
                raise ConfigError(f"'{command}' cannot be done with {name} = {value!r:.40}.")
        with stepping_threads():
            return call()

    def _between(self, do: Callable[[], T]) -> T:
        """Run it in the loop's thread, between two ticks."""
        return self.life.loop.calls.ask(do)

    def _press(self, on: bool) -> dict[str, Any]:
        self._between(self.life.holding.begin if on else self.life.holding.end)
        return {"on": on}

    def _teach(self, name: str, of: str = "auto") -> dict[str, Any]:
        """Keep what the press has seen since it began; without a press, one begins now and lasts a second.

        `of` "asked" teaches what it asked about last. `unseen` in the answer says why only a sound was kept, where a
        picture could have been meant, or is ''.
        """
        name = name_in_reply(name, self.life.child.names.known()) if of == ASKED else proper_name(name)
        since_s, shown, unseen = self._asked() if of == ASKED else self._pressed(of)
        if LOOKED in shown.senses:  # a press of the button is handled like the sentence
            shown = replace(shown, senses={**shown.senses, PAGE: teaching(name)})
        entry = self.life.child.teach(name, shown, self.life.recorded(since_s, shown.time_s))
        self._taught[entry.id] = entry
        if "sight" in shown.senses:
            self._between(self.life.asking.settle)
        self._has_learned("name_taught", {"id": entry.id})
        frames = len(np.atleast_1d(shown.senses.get(VIEWS, ())))
        examples = self.life.child.names.known()
        answer = learned(name, frames, examples.get(name, 1), unseen)
        return {**as_shown(entry), "frames": frames, "unseen": unseen, "examples": examples, "answer": answer}

    def _asked(self) -> tuple[float, Moment, str]:
        """As `_pressed`, for what it asked about last."""
        question = self.life.asking.question
        if question is None:
            raise StoreError("It no longer asks about anything; hold the thing up, then teach.")
        since_s = min(question.time_s - STEADY_S, question.shown.seen[0].time_s)
        return since_s, Moment(question.time_s, dict(question.shown.payload())), ""

    def _pressed(self, of: str) -> tuple[float, Moment, str]:
        """The start of the showing, what a press has shown, and why there is only a sound."""
        holding = self.life.holding
        try:
            if self.life.loop.paused:  # what was sensed before the pause is not what is meant now
                raise StoreError(PAUSED)
            if of != "heard":
                self._between(holding.begin)
                give_up_s = time.monotonic() + PATIENCE_S
                while (left_s := self._between(lambda: holding.left_s)) > 0 and time.monotonic() < give_up_s:
                    time.sleep(left_s)
            return self._between(lambda: (self._since_s(), *self._shown(of)))
        finally:
            self._between(holding.end)

    def _since_s(self) -> float:
        """The earliest time, on the room's clock, of anything that an example may be made of."""
        return min(self.life.holding.begun_s, self.life.recent.since_s)

    def _shown(self, of: str) -> tuple[Moment, str]:
        """What a name is given to: the thing held up, and the sound that is meant; and why there is only a sound."""
        recent = self.life.recent
        if of == "heard":
            return recent.example(of), ""
        if of == "auto" and not recent.stands_out():
            heard: dict[str, Sense] = {}
        else:
            heard = {} if of == "seen" else dict(recent.example("heard").senses)
        seen, unseen = {}, ""
        try:
            if self.life.room.is_simulated:
                raise StoreError(
                    "Nobody can hold up a thing in a simulated world, so nothing is taught by sight there."
                )
            seen = self.life.holding.take()
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
            notes += self.life.memory.erase([entry.id])
        self._taught.pop(entry.id, None)  # only once it is deleted: another undo takes the one before
        self._has_learned("name_undone", {"id": entry.id})
        return {"name": entry.name, "examples": self.life.child.names.known(), "notes": notes}

    def _forget(self, name: str) -> dict[str, Any]:
        name, notes = name.strip(), list[str]()
        count = self.life.child.names.known().get(name, 0)
        with self._telling_traces(notes):
            self.life.child.forget(name, notes.append)
        for entry in [entry for entry in tuple(self._taught.values()) if entry.name == name]:
            self._taught.pop(entry.id, None)
        self._has_learned("name_forgotten", {"count": count})
        return {"forgotten": count, "examples": self.life.child.names.known(), "notes": notes}

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
        self.life.naming.changed()
        self._between(lambda: self.life.note(kind, what))

    def _memories(self) -> dict[str, Any]:
        found = self.life.recalling.latest()
        return {"memories": remembered(self.life.memory, also=[entry.id for entry in found.entries] if found else [])}

    def _record(self, on: bool) -> dict[str, Any]:
        if self.life.recording is None:
            raise ConfigError("This life is private: nothing of it is recorded. Start it without --private to record.")
        self._between(self.life.begin_recording if on else self.life.recording.stop)
        if self.life.learner and not on:
            self.life.learner.fault = LEARNS_NO_MORE
        self.life.recording.finish()
        files = self.life.recording.files
        return {"recording": self.life.recording.recorder is not None, "file": str(files[-1]) if files else ""}

    def _pause(self, on: bool) -> dict[str, Any]:
        self._between(lambda: self.life.set_paused(on))
        return {"paused": on}

    def _age(self, id: str) -> dict[str, Any]:
        if self.life.learner:
            raise ConfigError("A learning agent has only one age; start it without --learn to go back.")
        if id not in self.life.ages:
            raise ConfigError(f"There is no age '{id}'{nearest(id, self.life.ages)}")
        with self._growing:
            agent = self.life.ages[id].wake()
            sha256, before = agent.sha256(), self.life.loop.agent
            self.life.child.refresh(agent)
            try:
                self._between(lambda: self.life.grow_to(id, agent, sha256))
            except BaseException:
                self.life.child.refresh(before)
                raise
            finally:
                self.life.naming.changed()
        return {"age": id, "questions": example_questions(agent)}

    def _asks(self, on: bool) -> dict[str, Any]:
        self._between(lambda: self.life.asking.allow(on))
        return {"on": on}

    def _answer(self, text: str) -> dict[str, Any]:
        """Answer its question about the instruction: it gets the instruction again, with the answer in it."""
        page = self._between(lambda: self.life.questions.answer(text))
        return {"answer": f"Its instruction is now: “{page}”.", "page": page}

    def hear(self, text: str, heard: Sequence[Moment]) -> dict[str, Any]:
        """Handle what was spoken to it: the words as far as it hears them, and their sound.

        A request to do something with what it heard comes first (`_echoed`). A question that a head was taught to hear
        is answered aloud by that head (`sure` of the answer). Everything else is answered like typed words if any word
        is sure. A name is for what is held up: the sound meanwhile is the voice that gives it. Words that were heard in
        what is no speech (`is_speech`) are not answered.
        """
        if heard and not self.life.loop.paused:
            with stepping_threads():
                if not is_speech(self.life.loop.agent, heard):
                    return {}
                if echoed := self._echoed(text, heard[0].time_s):
                    return echoed
        life, gives_name = self.life, name_in(text, self.life.child.names.known()) is not None
        results = life.heard.results if life.heard else None
        with stepping_threads():
            asks = not gives_name and not life.loop.paused and bool(life.replying.heads(life.loop.agent, results))
            asks = asks and not self._is_elsewhere(life.loop.agent, life.sees)
            replied = life.replying.reply(life.loop.agent, results, heard, life.sees) if asks else None
        if replied is None:
            with stepping_threads():
                return self._answered(text, "seen") if text else {}
        reply = {"word": replied.word, "sure": round(replied.sure, 3), "head": replied.head}
        self._between(lambda: life.note("replied", reply))
        return {"answer": replied.word, "sure": reply["sure"]}

    def _say(self, text: str) -> dict[str, Any]:
        """Handle words for it, typed or turned into text by a voice: a sentence that gives a name teaches that name.

        `answer` is a sentence; `taught` is the answer of `teach`, where something was taught. `own` is what the agent
        writes itself, if it can write, and `learned` what it answers by taught words, both `OwnWords`. A taught word is
        found by what was shown with it, and then the agent writes nothing else. It writes nothing if it is not sure,
        if its lessons never ask that, and about a picture unlike those of its lessons; `questions` are then some that
        they ask. With a voice the agent says its own
        words aloud, or else the sentence; the message that nothing is sensed in a pause is only shown. A request to do
        something with what it heard plays its own sound, and `answer` says what that is.
        """
        return self._answered(text, "auto")

    def _answered(self, text: str, of: str) -> dict[str, Any]:
        """See `_say`; `of`: what a name in these words is given to, as in `_teach`."""
        life, known = self.life, self.life.child.names.known()
        if life.loop.paused:
            self._between(lambda: life.room.say(text))
            return {"answer": PAUSED}
        if echoed := self._echoed(text):
            return echoed
        name, is_asked = name_in(text, known), life.asking.question is not None
        if name is None and is_asked and is_short_reply(text):
            name = name_in_reply(text, known)
        if name is not None:
            self._between(lambda: life.room.say(text))
            # The thing asked about may have been put down to type the answer.
            taught = self._teach(name, ASKED if is_asked and life.holding.square is None else of)
            life.say_aloud(taught["answer"])
            return {"answer": taught["answer"], "taught": taught}
        agent, now_s = life.loop.agent, time.monotonic()
        if now_s - self._talked_s > LAPSE_S or self._talked_with is not agent:
            self._remarked = False  # another conversation
        self._talked_s, self._talked_with = now_s, agent

        def look() -> tuple[Sense | None, tuple[float, float] | None, Mapping[str, Named]]:
            """What is in view and where, in one tick: own words and sentence must speak of the same."""
            life.room.say(text)
            gaze, held = life.room.fovea, life.holding.looked
            gaze_deg = None if life.sees is None else (gaze.pan_deg, gaze.tilt_deg)
            sight = held if life.sees is not None and held is not None and is_about_one(text) else life.sees
            return sight, gaze_deg, life.naming.of(life.recent, life.holding.above)

        give_up_s = now_s + LOOK_S
        while (
            "sight" in life.room.sensors and self._between(lambda: life.sees is None) and time.monotonic() < give_up_s
        ):
            time.sleep(life.room.dt_s)
        sight, gaze_deg, named = self._between(look)
        own, why = self._in_own_words(agent, greeting(text, known)[1], sight)
        aloud = own.get("learned", own.get("own"))
        words_by_head = {what: {**words._asdict(), "sure": round(words.sure, 3)} for what, words in own.items()}
        sentence = answer(text, known, named, gaze_deg, bool(own) or can_write(agent), why, not self._remarked)
        self._remarked |= CANNOT in sentence
        life.say_aloud(aloud.text if aloud else sentence)
        return {"answer": sentence, **words_by_head, **({"questions": example_questions(agent)} if why else {})}

    def _echoed(self, text: str, before_s: float = float("inf")) -> dict[str, Any]:
        """`_say` of a request to do something with what it heard before a time of the room's clock; empty for any other
        sentence, or when the agent has no heads for such requests.
        """
        life, request = self.life, requested(text)
        agent = life.loop.agent
        if request is None or not life.echoing.can(agent):
            return {}

        def listen() -> tuple[Moment, ...]:
            life.room.say(text)
            return life.echoing.heard(life.recent.now_s, before_s)

        heard = self._between(listen)
        echoed = life.echoing.answer(agent, life.heard.results if life.heard else None, request, heard)
        if echoed.note is None:
            life.say_aloud(echoed.text)
        else:
            self._between(lambda: life.note("echoed", echoed.note or {}))
        return {"answer": echoed.text}

    def _in_own_words(self, agent: Agent, text: str, sight: Sense | None) -> tuple[dict[str, OwnWords], str]:
        """`own` and `learned` of `_say`, where there are any, and why there is neither; '' for an agent that cannot
        write, or that sees nothing.
        """
        life, found = self.life, dict[str, OwnWords]()
        if learned := answer_by_look(agent, life.memory, life.child.hashes, text, sight):
            found["learned"] = learned
        writes = can_write(agent)
        if (learned is not None and learned.points is not None) or (writes and sight is None):
            return found, ""  # it points once; and it says nothing about a picture that is not there
        if writes and is_taught(text, questions(agent)) and self._is_elsewhere(agent, sight):
            return found, "" if found else ELSEWHERE
        if written := self._dialogue.reply(agent, text, sight, time.monotonic()):
            found["own"] = written
        return found, NO_WORDS if writes and not found and not is_name(text) else ""

    def _is_elsewhere(self, agent: Agent, sight: Sense | None) -> bool:
        """Whether a picture is unlike those of the agent's lessons."""
        if not isinstance(sight, np.ndarray):
            return False
        hashes = self.life.child.hashes if self.life.child.agent is agent else None
        density = density_of_lessons(agent, hashes)
        return density is not None and density.is_unlike(agent, sight)


def is_fit(name: str, value: Any) -> bool:
    """Whether a command's argument has the right type: a bool for `on`, text with a UTF-8 form for every other.

    JSON can bring half of a surrogate pair, which would break later code.
    """
    if name == "on":
        return isinstance(value, bool)
    return isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value)
