"""Requests about sound: a life says again what it heard last, cleans it, or continues it, by the heads of an exam.

The form of the sentence decides by hand-written rules what is asked. The last seconds of sound are kept in RAM and
given to the heads by `stages.voice.sound_heads`. The same speaker plays the result as everything that the agent says,
so the agent does not hear it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from devmind.acting.abilities import Ability, Reply, Sentence, Surroundings, Tick
from devmind.acting.sentences import request
from devmind.acting.standing import answering, has_passed
from devmind.agent.agent import Agent
from devmind.agent.features import QUIET_DB, level_db
from devmind.moment import TICK_HZ, TICK_SAMPLES, Moment
from stages.voice.abilities.spoken_answers import sound_of_codes
from stages.voice.parts import CLEAN, GO_ON, UTTER
from stages.voice.sound_heads import clean_moments, codes, sounding

KEPT_S, LONGEST_S = 20.0, 8.0
"""How long sound is kept, and how much of it the heads get at most."""
BELOW_DB = 20.0
"""Sound softer than the loudest kept sound by more than this is a pause."""
PAUSE_S, GAP_S, LEAD_S = 0.8, 0.3, 0.2
"""A sound is over after a pause of PAUSE_S, and a gap of GAP_S without any sound begins another one. It starts LEAD_S
before its first loud Moment, as in the lesson of cleaning."""


@dataclass(frozen=True)
class Request:
    """A kind of request.

    Attributes:
        effector: the effector whose heads answer.
        verb: what is done with what it heard; done: the same with its seconds, after "It".
        exams: prefixes of the measures that say what these heads are worth.
        form: of a sentence that makes the request.
    """

    effector: str
    verb: str
    done: str
    exams: tuple[str, ...]
    form: re.Pattern[str]


def _form(words: str) -> re.Pattern[str]:
    return request(rf"(?:{words})(?:\W*\bplease)?\W*".replace(" IT", " (?:it|this|that)"))


AGAIN = "says again in its own voice the {:.1f} s that it heard last"
REQUESTS = (
    Request(
        UTTER, "say again", f"{AGAIN}.", ("echo/digits", "echo/words"),
        _form(r"(?:say|play) IT again|repeat(?: IT)?(?: again)?"),
    ),
    Request(
        CLEAN, "clean", "plays the {:.1f} s that it heard last with less noise.", ("echo/cleaned",),
        _form(r"clean(?: IT)?(?: up)?|(?:say|play|repeat) IT(?: again)? without (?:the |any )?noise"),
    ),
    Request(
        GO_ON, "go on with", f"{AGAIN}, and goes on with them for {{:.1f}} s.", ("echo/continued",),
        _form(r"(?:go on|carry on|continue)(?: with IT)?"),
    ),
)  # fmt: skip
NOT_TAUGHT = "It was not taught to {} what it hears; begin the stage voice on it: devmind stage run voice."
FAILED = "Its exam ({}) says that it cannot {} what it hears; --set answers.{}={} lets it all the same."
NO_SPEAKER = "It can {} what it hears, but nothing plays that here; start it with --set speaker=default."
NOTHING_HEARD = f"It has heard nothing for {KEPT_S:.0f} s that it could {{}}."
UNEXAMINED, BADLY = " No exam tells how well it does that.", " Its exam says that it does that badly."


def parse_request(text: str) -> Request | None:
    """The request in a sentence; None when there is none."""
    return next((one for one in REQUESTS if one.form.fullmatch(text)), None)


class Echoing(Ability):
    """Handles the requests of one life about the last sound that it heard."""

    order = -1
    kind = "a request about what was heard last: “say it again”"

    def __init__(self, life: Surroundings) -> None:
        super().__init__(life)
        self._kept: deque[Moment] = deque(maxlen=round(KEPT_S * TICK_HZ))
        self._now_s = 0.0

    def wants(self, agent: Agent) -> bool:
        """Whether an agent has heads for any request: otherwise nothing is kept, and a request is talk."""
        return any(sounding(agent, one.effector) for one in REQUESTS)

    def see(self, tick: Tick) -> None:
        self.keep(tick.moment)

    def keep(self, moment: Moment) -> None:
        """Keep the sound of a passed Moment; while the agent speaks, it has none."""
        self._now_s, sound = moment.time_s, moment.senses.get("sound")
        if isinstance(sound, np.ndarray) and sound.shape[-1] == TICK_SAMPLES:
            self._kept.append(Moment(moment.time_s, {"sound": sound}))

    def hear(self, sentence: Sentence) -> Reply | None:
        """Do what a request asks with what was heard before it; None for any other sentence."""
        request = parse_request(sentence.text)
        if request is None:
            return None
        before_s = sentence.sounds[0].time_s if sentence.sounds else float("inf")

        def listen() -> tuple[Moment, ...]:
            self.life.room.say(sentence.text)
            return self.last_sound(self._now_s, before_s)

        return self.answer(self.life.agent, request, self.life.between(listen))

    def last_sound(self, now_s: float, before_s: float = float("inf")) -> tuple[Moment, ...]:
        """The last sound up to its end: Moments in a row, empty where all was quiet.

        Args:
            now_s, before_s: on the room's clock; sound from `before_s` on is left out.
        """
        kept = [one for one in self._kept if now_s - one.time_s < KEPT_S and one.time_s < before_s]
        levels = [level_db(np.asarray(one.senses["sound"])) for one in kept]
        least = max([QUIET_DB, *(level - BELOW_DB for level in levels)])
        end = max((at for at, level in enumerate(levels) if level >= least), default=-1)
        if end < 0:
            return ()
        begin, start = end, end
        while (
            begin > 0 and kept[begin].time_s - kept[begin - 1].time_s < GAP_S and end - begin < LONGEST_S * TICK_HZ - 1
        ):
            begin -= 1
        for at in range(end - 1, begin - 1, -1):
            if start - at > PAUSE_S * TICK_HZ:
                break
            start = at if levels[at] >= least else start
        return tuple(kept[max(begin, start - round(LEAD_S * TICK_HZ)) : end + 1])

    def answer(self, agent: Agent, request: Request, heard: Sequence[Moment]) -> Reply:
        """Carry out a request, aloud, and say so; or say why not."""
        results = self.life.results
        effector, verb = request.effector, request.verb
        heads, passed = self._heads(agent, effector), _passed(results, request.exams)
        if not heads:
            return Reply(NOT_TAUGHT.format(verb))
        if passed is False and effector not in answering(agent, self.life.answers):
            return Reply(FAILED.format(", ".join(request.exams), verb, effector, heads[0]))
        if not hasattr(self.life.speaker, "play"):
            return Reply(NO_SPEAKER.format(verb))
        if not heard:
            return Reply(NOTHING_HEARD.format(verb))
        seconds, by = [len(heard) / TICK_HZ], [heads[0]]
        if effector == CLEAN:
            self.life.speaker.play(partial(clean_moments, agent, heard, heads[0]))
        else:
            by = [self._heads(agent, UTTER)[0], *([heads[0]] if effector == GO_ON else [])]
            row = codes(agent, heard, *by)
            seconds.append(len(row) / TICK_HZ - seconds[0])
            self.life.speaker.play(partial(sound_of_codes, agent, row))
        worth = {None: UNEXAMINED, False: BADLY, True: ""}[passed]
        note = {"what": effector, "heads": by, "heard_s": [heard[0].time_s, heard[-1].time_s]}
        self.life.between(lambda: self.life.note("echoed", note))
        return Reply(f"It {request.done.format(*seconds)}{worth}", "")

    def _heads(self, agent: Agent, effector: str) -> list[str]:
        """The heads that may be asked, the named one first."""
        every, named = sounding(agent, effector), answering(agent, self.life.answers).get(effector, ())
        return [name for name in named if name in every] or every


def _passed(results: Mapping[str, Any] | None, exams: Sequence[str]) -> bool | None:
    verdicts = [passed for passed in (has_passed(results, exam) for exam in exams) if passed is not None]
    return all(verdicts) if verdicts else None
