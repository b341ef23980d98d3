"""Echoing: on request a life says again what it heard last, cleans it, or goes on with it, by the heads of an exam.

What is asked goes by the form of the sentence, by hand. What it heard is kept in RAM for some seconds and put to the
heads by `devmind.acting.heard_again`; what comes of it is played by who plays all that it says, so it does not hear it.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from devmind.acting.asked_aloud import UTTER
from devmind.acting.heard_again import CLEAN, GO_ON, cleaned, codes, sounding
from devmind.acting.standing import Standing, answering
from devmind.agent.agent import Agent
from devmind.live.replying import sound_of_codes
from devmind.live.viewing.heard_words import has_passed
from devmind.live.viewing.hearing import QUIET_DB, level_db
from devmind.moment import TICK_HZ, TICK_SAMPLES, Moment

KEPT_S, LONGEST_S = 20.0, 8.0
"""So long what was heard is kept, and so much of it is put to heads at most."""
BELOW_DB = 20.0
"""What is softer than the loudest of what is kept by more than this is a pause."""
PAUSE_S, GAP_S, LEAD_S = 0.8, 0.3, 0.2
"""So long a pause, and a sound is over; so long without any sound, and it is another one; so long before its first loud
Moment it is heard, as in the lesson of cleaning."""


@dataclass(frozen=True)
class Request:
    """What may be asked.

    Attributes:
        effector: whose heads do it.
        verb: what is done with what it heard; done: the same of how many seconds, behind "It".
        exams: how the names of measures begin that say what these heads are worth.
        form: of a sentence that asks for it.
    """

    effector: str
    verb: str
    done: str
    exams: tuple[str, ...]
    form: re.Pattern[str]


def _form(words: str) -> re.Pattern[str]:
    opening = r"\W*(?:(?:and|so|now|well|then|hey|look|ok|okay)\b\W*)*(?:(?:can|could|would) you |please )*"
    return re.compile(rf"{opening}(?:{words})(?:\W*\bplease)?\W*".replace(" IT", " (?:it|this|that)"), re.IGNORECASE)


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
FAILED = "Its exam ({}) says that it cannot {} what it hears; --answers {}={} lets it all the same."
NO_SPEAKER = "It can {} what it hears, but nothing plays that here; start it with --speaker default."
NOTHING_HEARD = f"It has heard nothing for {KEPT_S:.0f} s that it could {{}}."
UNEXAMINED, BADLY = " No exam tells how well it does that.", " Its exam says that it does that badly."


def requested(text: str) -> Request | None:
    """What a sentence asks to be done with what was heard; None where it asks nothing of the kind."""
    return next((one for one in REQUESTS if one.form.fullmatch(text)), None)


class Echoed(NamedTuple):
    """A sentence that answers a request; and for the recording what is played, None where nothing is."""

    text: str
    note: dict[str, Any] | None = None


class Echoing:
    """Does for one life what is asked about the last sound that it heard.

    Args:
        speaker: plays what `play` is given; None, or one without `play`: nothing is played.
        answers: by effector the heads that may act, whatever exams say.
    """

    def __init__(self, speaker: Any, answers: Standing) -> None:
        self._speaker, self._answers = speaker, answers
        self._kept: deque[Moment] = deque(maxlen=round(KEPT_S * TICK_HZ))

    @staticmethod
    def can(agent: Agent) -> bool:
        """Whether an agent has heads for any of this: of another one nothing is kept, and a request is talk."""
        return any(sounding(agent, one.effector) for one in REQUESTS)

    def take(self, agent: Agent, moment: Moment) -> None:
        """A tick has passed; while it speaks itself, its Moment has no sound."""
        sound = moment.senses.get("sound")
        if isinstance(sound, np.ndarray) and sound.shape[-1] == TICK_SAMPLES and self.can(agent):
            self._kept.append(Moment(moment.time_s, {"sound": sound}))

    def heard(self, now_s: float, before_s: float = float("inf")) -> tuple[Moment, ...]:
        """The last sound that was heard, up to where it broke off: Moments in a row, none where all was quiet.

        Args:
            now_s, before_s: on the room's clock; what was heard from `before_s` on is left out.
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

    def answer(
        self, agent: Agent, results: Mapping[str, Any] | None, request: Request, heard: Sequence[Moment]
    ) -> Echoed:
        """Do what is asked with what was heard, aloud, and say so; or say why not.

        Args:
            results: of the agent's exams.
        """
        effector, verb = request.effector, request.verb
        heads, passed = self._heads(agent, effector), _passed(results, request.exams)
        if not heads:
            return Echoed(NOT_TAUGHT.format(verb))
        if passed is False and effector not in answering(agent, self._answers):
            return Echoed(FAILED.format(", ".join(request.exams), verb, effector, heads[0]))
        if not hasattr(self._speaker, "play"):
            return Echoed(NO_SPEAKER.format(verb))
        if not heard:
            return Echoed(NOTHING_HEARD.format(verb))
        seconds, by = [len(heard) / TICK_HZ], [heads[0]]
        if effector == CLEAN:
            self._speaker.play(partial(cleaned, agent, heard, heads[0]))
        else:
            by = [self._heads(agent, UTTER)[0], *([heads[0]] if effector == GO_ON else [])]
            row = codes(agent, heard, *by)
            seconds.append(len(row) / TICK_HZ - seconds[0])
            self._speaker.play(partial(sound_of_codes, agent, row))
        worth = {None: UNEXAMINED, False: BADLY, True: ""}[passed]
        note = {"what": effector, "heads": by, "heard_s": [heard[0].time_s, heard[-1].time_s]}
        return Echoed(f"It {request.done.format(*seconds)}{worth}", note)

    def _heads(self, agent: Agent, effector: str) -> list[str]:
        """Who may be asked, the one that is named first."""
        every, named = sounding(agent, effector), answering(agent, self._answers).get(effector, ())
        return [name for name in named if name in every] or every


def _passed(results: Mapping[str, Any] | None, exams: Sequence[str]) -> bool | None:
    told = [passed for passed in (has_passed(results, exam) for exam in exams) if passed is not None]
    return all(told) if told else None
