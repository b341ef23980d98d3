"""The parts that the stage adds to an agent: an ear for speech, trunk layers for it, heads of words and kinds of
sounds, a codec, and heads that speak.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from devmind.agent.agent import Agent
from devmind.agent.parts import Part, PartSpec, add_all
from devmind.agent.text import add_text
from devmind.learners.gradient import grown_layers, owned_parts
from stages.voice.bodies import CONVOLVED, DEFAULT
from stages.voice.ear import LOGMEL, TOKENS
from stages.voice.sounds.kinds import KINDS
from stages.voice.speak_answer.asked import ANSWERS, UNDERSTOOD
from stages.voice.transcript import KNOWN

NAME = "voice"
SOUND, LISTEN = "sound", "listen"
"""The sense, and its second encoder."""
SIGHT, TEXT, DETAIL = "sight", "text", "detail"
WORDS, WORDS_ARC = "heard_words", "heard_words_arc"
"""The head of words on the trunk's features of `listen`, and the arc of words on the ear's tokens alone."""
NOTE = "note"
"""The effector of that arc: int64 [2] a Moment, for each 50 ms the word just said, in `transcript.KNOWN`, or 0."""
WRITTEN, WRITTEN_ARC = "written_words", "written_words_arc"
"""Heads that write the words of an utterance, on the trunk's features of `listen` and, as an arc, on the ear's tokens;
only if `stages.voice.words` is 'seq2seq'.
"""
TELL = "tell"
"""Their effector: int64 [4], the words of the last 3.2 s, 0 behind the last word."""
KINDS_HEAD, KINDS_ARC = "heard_kind", "heard_kind_arc"
"""The head of kinds of sounds on the trunk's features of `listen`, and the arc of kinds on the ear's log-mel alone."""
SORT = "sort"
"""The effector of that arc: int64 a Moment, the kind of all that was heard in the episode, in `sounds.kinds.KINDS`."""
CODEC, UTTER = "codec", "utter"
"""The head and its effector: codes int64 [4, 2] a Moment."""
NAMED, PICK = "heard_name", "pick"
"""The head that finds which of four pictures is named aloud, and its effector: int64, the picture."""
SAY, SPEAK = "say", "speak"
"""The head that says the word on a page, and its effector: codes int64 [4, 2] a Moment, of ten Moments at once."""
REPLIES, REPLY = "replies", "reply"
"""The head that answers a spoken question about what is in view, and its effector: codes int64 [4, 2] a Moment, of ten
Moments at once."""
CLEANED, CLEAN = "cleaned", "clean"
"""The head that separates speech from noise, and its effector: float32 [8, 64] a Moment, gains of bands."""
GOES_ON, GO_ON = "goes_on", "go_on"
"""The head that predicts how a sound goes on, and its effector: codes int64 [2, 4, 2] of the next two Moments."""

CODES, NEXT_CODE = "codes", "next_code"
"""The sense of pages of the codec's codes, and the head that predicts the next code from the trunk's features."""


def _grow(agent: Agent) -> None:
    agent.ensure_grown(NAME, {LISTEN: LISTEN})


def _pages(agent: Agent) -> None:
    if TEXT not in agent.encoders:
        add_text(agent, stage=NAME)


def _ear(agent: Agent) -> PartSpec:
    """The ear; fills in what the agent's config left open of its hearing."""
    chosen = {"encoder": DEFAULT, "features": LOGMEL, "words": "ctc"}
    agent.config.hearing = {**chosen, **agent.config.hearing}
    return PartSpec(LISTEN, "encoder.voice-ear", options={"features": agent.config.hearing["features"]})


def _words(agent: Agent) -> dict[str, Any]:
    """The options of the arc of words: how many, and the body that reads them."""
    return {"words": len(KNOWN), "kind": str(agent.config.hearing["encoder"])}


def _written(agent: Agent, head: str, tap: str) -> PartSpec | None:
    if not writes(agent):
        return None
    return PartSpec(head, "head.voice-written", tap, TELL, options=_words(agent), standby=True)


def _say(agent: Agent) -> PartSpec:
    options = {"hidden": max(32, 2 * agent.config.width)}
    return PartSpec(SAY, "head.voice-say", (f"trunk:{TEXT}", "trunk"), SPEAK, options=options, standby=True)


_HEARD = (f"trunk:{LISTEN}", LISTEN)
_REPLIES = {"answers": len(ANSWERS), "asked": sum(UNDERSTOOD), "ear": CONVOLVED, "refuses": True}
PARTS: Sequence[Part] = (
    _grow,
    PartSpec(SOUND),
    PartSpec(SIGHT),
    _ear,
    lambda agent: PartSpec(WORDS_ARC, "head.voice-words", LISTEN, NOTE, options=_words(agent)),
    PartSpec(
        WORDS, "head.categorical", f"trunk:{LISTEN}", options={"classes": len(KNOWN), "slots": TOKENS}, labels=KNOWN
    ),
    lambda agent: _written(agent, WRITTEN_ARC, LISTEN),
    lambda agent: _written(agent, WRITTEN, f"trunk:{LISTEN}"),
    PartSpec(KINDS_ARC, "head.voice-kinds", LISTEN, SORT, options={"kinds": len(KINDS)}),
    PartSpec(KINDS_HEAD, "head.categorical", f"trunk:{LISTEN}", options={"classes": len(KINDS)}),
    # It stands by: an agent that repeats a microphone through a loudspeaker would hear itself.
    PartSpec(CODEC, "head.voice-codec", LISTEN, UTTER, standby=True),
    PartSpec(NAMED, "head.voice-named", (f"trunk:{LISTEN}", f"trunk:{SIGHT}", LISTEN, SIGHT), PICK, standby=True),
    PartSpec(CLEANED, "head.voice-cleaned", _HEARD, CLEAN, standby=True),
    PartSpec(GOES_ON, "head.voice-goes-on", _HEARD, GO_ON, standby=True),
    PartSpec(CODES, "encoder.voice-codes"),
    PartSpec(NEXT_CODE, "head.voice-next-code", f"trunk:{CODES}"),
    _pages,
    _say,
    PartSpec(DETAIL, "encoder.language-detail"),
    PartSpec(REPLIES, "head.voice-replies", (LISTEN, DETAIL), REPLY, options=_REPLIES, labels=ANSWERS, standby=True),
)


def admit(agent: Agent) -> None:
    """Add every part that is not there yet."""
    add_all(agent, NAME, PARTS)


def writes(agent: Agent) -> bool:
    """Whether the agent has heads that write the words of an utterance."""
    return agent.config.hearing.get("words") == "seq2seq"


def trained_weights(agent: Agent) -> tuple[str, ...]:
    """Prefixes of the parameters that the lesson `words` trains: the layers that the trunk grew for the ear, and the
    heads of words on the trunk; not the ear, and no arc. No earlier stage uses any of these.
    """
    told = {f"heads.{head}." for head in (WORDS, WRITTEN)}
    own = (prefix for prefix in owned_parts(agent, NAME) if prefix in told)
    return (*grown_layers(agent, {NAME}), *own)
