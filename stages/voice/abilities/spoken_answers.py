"""Spoken questions answered aloud: a head that an exam asks answers as sound in its own voice, not as words.

A question is one episode of an Actor, the same in an exam and live. The Actor hears Moment by Moment. In the last
Moment a page asks for the answer, and the thing that the question is about is in view. A head of REPLY answers, in the
same codes of sound as UTTER, in the thread of who speaks. Speech that it does not take for a taught question is left to
the code that answers words.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from devmind.acting import Actor
from devmind.acting.abilities import Ability, Reply, Sentence
from devmind.acting.standing import answering, has_passed
from devmind.agent.agent import Agent, StepOutput
from devmind.agent.batch import Batch, at_tick, collate
from devmind.errors import DevmindError
from devmind.moment import Moment, Sense
from stages.voice.parts import REPLY
from stages.voice.sound_heads import sound_of_answer

EXAM = "speak_answer/"
"""Prefix of the measures that say what a head of REPLY is worth."""
PAGE = "?"
"""The page of the Moment in which an answer is wanted; the encoder `detail` sees only Moments with a page."""


def ask(agent: Agent, asked: Batch, heads: Sequence[str]) -> StepOutput:
    """Run episodes [N, T, ...] in which something is asked; gives the output of the last Moment.

    Args:
        heads: the heads that may answer, in order. If none answers for a row, `acted` is false there.
    """
    trunk = any(agent.tap_of(head).on_trunk for head in heads)
    n, ticks = asked["first"].shape
    actor = Actor(agent, n, effectors=(REPLY,), trunk=trunk, beliefs=False, standing={REPLY: tuple(heads)})
    for tick in range(ticks - 1):
        actor.act(at_tick(asked, tick))
    return actor.act(at_tick(asked, ticks - 1))


def question_batch(heard: Sequence[Moment], sight: Sense | None) -> Batch:
    """What was heard live, and the picture in view, as an episode of one row."""
    row = [Moment(one.time_s, {"sound": one.senses["sound"]}, first=not number) for number, one in enumerate(heard)]
    seen = {} if sight is None else {"sight": sight}
    return collate([[*row[:-1], Moment(row[-1].time_s, {**row[-1].senses, **seen, "text": PAGE}, first=len(row) == 1)]])


class Replying(Ability):
    """Answers spoken questions for one life."""

    kind = "a spoken question that lessons taught, answered by ear: “what is that?”"

    def wants(self, agent: Agent) -> bool:
        return bool(self.heads_to_ask(agent))

    def heads_to_ask(self, agent: Agent) -> tuple[str, ...]:
        """Those named for it, else those that can recognise other speech (`refuses`) and failed no exam."""
        life = self.life
        if REPLY not in agent.effectors or not hasattr(life.speaker, "play"):
            return ()
        named = answering(agent, life.answers).get(REPLY)
        if named or has_passed(life.results, EXAM) is False:
            return named or ()
        every = agent.heads_of(REPLY, standby=True)
        return tuple(name for name in every if getattr(agent.head(name), "refuses", False))

    def hear(self, sentence: Sentence) -> Reply | None:
        """Answer aloud, `sure` of it. None if it is no question for these heads, they are not sure of the answer, or
        nothing is seen or heard; and where the picture is unlike those of lessons.
        """
        life, agent, sight = self.life, self.life.agent, self.life.sees
        heads = self.heads_to_ask(agent)
        if not heads or not sentence.sounds or sight is None or life.is_elsewhere(sight):
            return None
        done = ask(agent, question_batch(sentence.sounds, sight), heads)
        if not bool(done.acted.get(REPLY, [False])[0]):
            return None
        head = next(name for effector, name in done.decided() if effector == REPLY)
        output: Any = done.outputs[head]
        shares = output.probabilities()[0]
        best, labels = int(shares.argmax()), agent.labels_of(head)
        if float(shares[best]) < life.sure:
            return None
        life.speaker.play(partial(sound_of_codes, agent, output.mode()[0]))
        word, sure = labels[best] if labels else f"answer {best}", round(float(shares[best]), 3)
        life.between(lambda: life.note("replied", {"word": word, "sure": sure, "head": head}))
        return Reply(word, "", {"sure": sure})


def sound_of_codes(agent: Agent, codes: Any) -> Any:
    """The sound of codes, float32 [1, S].

    Raises:
        DevmindError: no part can decode them.
    """
    sound = sound_of_answer(agent, codes)
    if sound is None:
        raise DevmindError("It answered by codes of sound, and no head of this agent can turn them into sound.")
    return sound
