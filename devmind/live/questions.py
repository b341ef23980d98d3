"""Questions of a life's own: what is held up, and what a head lacks to follow its instruction.

The first is asked once for each thing (`remembering/asking.py`), while somebody watches. The second belongs to a head,
which knows what it lacks and how its page reads once that is answered (`devmind.agent.plans.Lack`). Such a question
stays open as long as the head lacks just that: it closes when the agent is shown the thing, is answered, or gets
another instruction.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from devmind.acting.clarification import Inquiry, lacking
from devmind.acting.recall import PAGE
from devmind.acting.taught_words import answers_by_looks
from devmind.agent.plans import Lack
from devmind.errors import ConfigError
from devmind.live.loop import Tick
from devmind.live.remembering.remembered import as_asked
from devmind.memory import Named

if TYPE_CHECKING:
    from devmind.live.life import Life


@dataclass(frozen=True)
class Wanted:
    """A question of an acting head, and what it lacks; number counts such questions of one life from 1."""

    number: int
    lack: Lack

    def note(self) -> dict[str, Any]:
        """For the recording and for the page."""
        return {"number": self.number, "text": self.lack.question}


class Questions:
    """Asks for one life, in its loop's thread.

    Attributes:
        wanted: the question of a head, as long as it lacks the answer; None: no question.
    """

    def __init__(self, life: Life) -> None:
        self.life = life
        self.wanted: Wanted | None = None
        self._held: dict[str, Any] = {}
        self._inquiry, self._count = Inquiry(), 0

    def about_held(self, time_s: float, named: Mapping[str, Named]) -> None:
        """Ask about an unknown thing that is held up; somebody watches this tick."""
        life = self.life
        holding, asking, agent = life.holding, life.asking, life.loop.agent
        by_look, doubt = answers_by_looks(agent), None
        unsure = life.naming.is_telling if by_look else "sight" in agent.encoders and life.naming.is_unsure(named)
        is_due = asking.see(time_s, holding.square, unsure, busy=holding.frames is not None)
        if not is_due or holding.looked is None:
            life.wondering.drop()
            return
        if by_look:
            doubt = life.wondering.about(agent, life.child.hashes, holding.looked)
            if doubt is None or not doubt.asks:
                if doubt is not None:
                    asking.know()
                return
        if shown := holding.recent(life.room.frame):
            question = asking.ask(shown, named.get("sight"), doubt)
            self._held = as_asked(question)
            life.note("asked", question.note())

    def about_instruction(self, tick: Tick) -> None:
        """Ask what the head that decided in this tick lacks after searching in vain; once, aloud with a voice."""
        page = tick.moment.senses.get(PAGE)
        instruction = page if isinstance(page, str) else ""
        lack = lacking(tick.output, instruction) if self.life.asking.on else None
        is_due = self._inquiry.is_due(lack, tick.moment.time_s)
        if self._inquiry.asked is None:
            self.wanted = None
        if is_due and lack is not None:
            self._count += 1
            self.wanted = Wanted(self._count, lack)
            self.life.note("asked", self.wanted.note())
            self.life.say_aloud(lack.question)

    def answer(self, text: str) -> str:
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
        self.life.room.say(page)
        return page

    def shown(self) -> dict[str, Any]:
        """The open questions, for the page: `asks` about the thing held up, `wants` about the instruction."""
        asks_field = {"asks": self._held} if self.life.asking.question is not None else {}
        return asks_field | ({"wants": self.wanted.note()} if self.wanted else {})
