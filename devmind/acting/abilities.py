"""Abilities: what an agent was taught to do in a life with what is said to it, beside acting by its heads.

A stage brings an ability as a plugin of the group `devmind.abilities`: a class that is made with the life. It hears
sentences, answers, doubts, asks its own heads in every tick, and shows what came of it on the page. A life knows none
of them by name, so an agent without the stage's parts, or without the stage, lives on without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np

from devmind import plugins
from devmind.acting.standing import Standing
from devmind.agent.agent import Agent, StepOutput
from devmind.agent.state import State
from devmind.agent.taps import Percepts
from devmind.memory import Memory
from devmind.moment import Action, Moment, Sense
from devmind.worlds.room import Room

GROUP = "abilities"
LAPSE_S = 60.0
"""After so long a silence what was said before is over."""
T = TypeVar("T")


@dataclass(frozen=True)
class Tick:
    """The record of one tick.

    Attributes:
        moment, action: what was sensed and done.
        percepts, output: the agent's encoding of it, and its output.
        state: the agent's, after the step; the next step changes it.
        skipped: ticks missed just before this one because the loop was late.
        work_s: seconds for encoding and stepping.
    """

    moment: Moment
    action: Action
    percepts: Percepts
    output: StepOutput
    state: State
    skipped: int
    work_s: float


@dataclass(frozen=True)
class Sentence:
    """What was said to an agent.

    Attributes:
        text: its words, as they were typed or heard; '' if no word is sure.
        is_spoken: it was heard, and not typed.
        sounds: Moments in a row with the sound of it; empty for typed words, or where the sound is not known.
    """

    text: str
    is_spoken: bool = False
    sounds: tuple[Moment, ...] = ()


@dataclass(frozen=True)
class Reply:
    """What becomes of a sentence.

    Attributes:
        text: the answer; '' leaves the sentence unanswered. In a `remark` it is the reason why the agent has no words
            of its own, which stands in the life's answer.
        aloud: what a voice says in place of `text`; '' says nothing, as where a sound is played.
        fields: further fields of the answer, for the page.
    """

    text: str
    aloud: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def said(self) -> str:
        """The answer in short: as it is said aloud, or else as it is written."""
        return self.aloud or self.text


class Intent(NamedTuple):
    """A kind of sentence that somebody handles alone.

    Attributes:
        order: kinds are tried by rising order; a sentence that gives a name is tried at 0.
        kind: in words, with an example; '' for none.
        hear: handles a sentence; None leaves it to the kinds behind.
    """

    order: float
    kind: str
    hear: Callable[[Sentence], Reply | None]


class Look(NamedTuple):
    """What is in view: the agent's sight, and its sight of the thing held up; None where there is none."""

    sight: Sense | None
    held: Sense | None


class Doubt(NamedTuple):
    """What the agent makes of one look at a thing.

    Attributes:
        asks: whether it asks what that is.
        share: the probability that it has no right word for it.
        nearest: the likeliest word, '' where none came to mind.
    """

    asks: bool
    share: float
    nearest: str


class Surroundings(Protocol):
    """The life, as an ability sees it.

    Attributes:
        agent: the one that lives now; another age may take over between two calls.
        results: of its exams; None if it was never examined.
        answers: by effector the heads that may act, whatever the exams say.
        sure: the probability from which an answer is given.
        hashes: of the encoders that made the memory's keys, by sense.
        speaker: plays sound by `act`, and by `play` sound that takes a while to make; None, or one without `play`.
        sees: the sight of the last tick; None without any.
        is_attended: whether somebody may see the page, or speech is answered.
    """

    room: Room
    memory: Memory
    speaker: Any
    answers: Standing
    sure: float
    sees: Sense | None

    @property
    def results(self) -> Mapping[str, Any] | None: ...

    @property
    def agent(self) -> Agent: ...

    @property
    def hashes(self) -> Mapping[str, str]: ...

    @property
    def is_attended(self) -> bool: ...

    def between(self, do: Callable[[], T]) -> T:
        """Run it in the loop's thread, between two ticks; from any other thread."""
        ...

    def note(self, kind: str, data: Mapping[str, Any]) -> None:
        """Write a note to the recording, if there is one; in the loop's thread."""
        ...

    def is_elsewhere(self, sight: Sense | None) -> bool:
        """Whether a picture is unlike those of the agent's lessons."""
        ...


class Ability:
    """Base of abilities; a stage's overrides what it needs.

    `begin`, `see`, `heard`, `shown` and `look_away` are called in the loop's thread and must be quick, `doubt` too;
    `hear`, `remark` and `questions` in the thread of somebody who speaks.

    Attributes:
        order: abilities are asked by rising order; also that of the sentences that it handles (`Intent`).
        kind: which sentences it handles alone, in words.
        heads: heads of the agent that are asked in every tick in which they have something to read.
        fault: why it does not work, a sentence; '' when all is well.
    """

    order: ClassVar[int] = 1
    kind: ClassVar[str] = ""
    heads: tuple[str, ...] = ()
    fault: str = ""

    def __init__(self, life: Surroundings) -> None:
        self.life = life

    def wants(self, agent: Agent) -> bool:
        """Whether an agent has what the ability needs. Without it nothing else is called, except `begin` and `close`.

        Must be quick.
        """
        raise NotImplementedError

    def begin(self) -> None:
        """An agent begins to live: the first one, or another age."""

    def see(self, tick: Tick) -> None:
        """Take a tick."""

    def heard(self) -> Sentence | None:
        """A spoken sentence that has ended in the last tick; None without one."""
        return None

    def hear(self, sentence: Sentence) -> Reply | None:
        """Handle a sentence alone; None leaves it to others."""
        return None

    def remark(self, text: str, look: Look) -> Reply | None:
        """The agent's own words about what is in view, beside what the life answers by what memory knows.

        None if the agent has no words at all. An empty reply is an agent that talks, but not about this.
        """
        return None

    def questions(self) -> list[str]:
        """A few questions that lessons taught the agent to answer, for people to choose from."""
        return []

    @property
    def doubts(self) -> bool:
        """Whether `doubt` says which things are unknown, in place of memory's names."""
        return False

    def doubt(self, look: np.ndarray) -> Doubt | None:
        """What the agent makes of a thing held up, uint8 [64, 64, 3]; None until that is known."""
        return None

    def look_away(self) -> None:
        """What was held up is gone."""

    def shown(self, tick: Tick) -> dict[str, Any]:
        """Fields of a watched tick's view; one that the view has already is completed."""
        return {}

    def close(self) -> None:
        """The life ends."""


def load_abilities(life: Surroundings) -> dict[str, Ability]:
    """The installed abilities by name, in their order.

    Raises:
        PluginError: one cannot be loaded.
    """
    made: dict[str, Ability] = {name: found.load()(life) for name, found in plugins.available(GROUP).items()}
    return dict(sorted(made.items(), key=lambda item: item[1].order))
