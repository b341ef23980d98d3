"""What the stage adds to an agent: an ear for speech, heads that say which words it hears, a codec that
says it again.
"""

from __future__ import annotations

from devmind.agent.agent import Agent
from devmind.learners.gradient import trainable
from stages.voice.ear import TOKENS
from stages.voice.sounds.kinds import KINDS
from stages.voice.transcript import KNOWN

NAME = "voice"
SOUND, LISTEN = "sound", "listen"
"""The sense, and what hears it once more."""
WORDS, WORDS_ARC = "heard_words", "heard_words_arc"
"""What tells words by the trunk's features of speech, and the arc that does by the ear's tokens alone."""
NOTE = "note"
"""The effector of that arc: int64 [2] a Moment, the word that was just said or 0, in `transcript.KNOWN`."""
KINDS_HEAD, KINDS_ARC = "heard_kind", "heard_kind_arc"
"""What tells kinds of sounds by the trunk's features of the ear, and the arc that does by the ear's log-mel alone."""
SORT = "sort"
"""The effector of that arc: int64 a Moment, the kind of all that was heard so far, in `sounds.kinds.KINDS`."""
CODEC, UTTER = "codec", "utter"
"""The head and its effector: codes int64 [4, 2] a Moment."""


def admit(agent: Agent) -> None:
    """Add every part that is not there yet."""
    if SOUND not in agent.encoders:
        agent.add_encoder(SOUND, stage=NAME)
    if LISTEN not in agent.encoders:
        agent.add_encoder(LISTEN, "encoder.voice-ear", stage=NAME)
    if WORDS_ARC not in agent.heads:
        options = {"words": len(KNOWN)}
        agent.add_head(WORDS_ARC, "head.voice-words", LISTEN, effector=NOTE, stage=NAME, options=options)
    if WORDS not in agent.heads:
        told = {"classes": len(KNOWN), "slots": TOKENS}
        agent.add_head(WORDS, "head.categorical", f"trunk:{LISTEN}", stage=NAME, options=told)
    if KINDS_ARC not in agent.heads:
        kinds = {"kinds": len(KINDS)}
        agent.add_head(KINDS_ARC, "head.voice-kinds", LISTEN, effector=SORT, stage=NAME, options=kinds)
    if KINDS_HEAD not in agent.heads:
        agent.add_head(KINDS_HEAD, "head.categorical", f"trunk:{LISTEN}", stage=NAME, options={"classes": len(KINDS)})
    if CODEC not in agent.heads:
        agent.add_head(CODEC, "head.voice-codec", LISTEN, effector=UTTER, stage=NAME)


def trained(agent: Agent) -> tuple[str, ...]:
    """What the lessons of the trunk change: the trunk, its heads of words and kinds, earlier heads on the trunk; not
    the ear, and no arc.
    """
    fixed = {f"encoders.{LISTEN}.", f"heads.{WORDS_ARC}.", f"heads.{KINDS_ARC}.", f"heads.{CODEC}."}
    return tuple(prefix for prefix in trainable(agent, NAME) if prefix not in fixed)


def trained_without_trunk(agent: Agent) -> tuple[str, ...]:
    """The same on a trunk that lets tokens through and does not learn."""
    return tuple(prefix for prefix in trained(agent) if not prefix.startswith("trunk."))
