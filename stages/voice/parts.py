"""What the stage adds to an agent: an ear for speech, heads that spell what they hear, a codec that says it again."""

from __future__ import annotations

from devmind.agent.agent import Agent
from devmind.learners.gradient import trainable
from stages.voice.ear import TOKENS
from stages.voice.spelling import SIGNS

NAME = "voice"
SOUND, LISTEN = "sound", "listen"
"""The sense, and what hears it once more."""
WORDS, WORDS_ARC = "heard_words", "heard_words_arc"
"""What spells on the trunk's features of speech, and what does on the ear's tokens alone."""
CODEC, UTTER = "codec", "utter"
"""The head and its effector: codes int64 [4, 2] a Moment."""


def admit(agent: Agent) -> None:
    """Add every part that is not there yet."""
    if SOUND not in agent.encoders:
        agent.add_encoder(SOUND, stage=NAME)
    if LISTEN not in agent.encoders:
        agent.add_encoder(LISTEN, "encoder.voice-ear", stage=NAME)
    spells = {"classes": len(SIGNS), "slots": TOKENS}
    for head, tap in ((WORDS_ARC, LISTEN), (WORDS, f"trunk:{LISTEN}")):
        if head not in agent.heads:
            agent.add_head(head, "head.categorical", tap, stage=NAME, options=spells)
    if CODEC not in agent.heads:
        agent.add_head(CODEC, "head.voice-codec", LISTEN, effector=UTTER, stage=NAME)


def trained(agent: Agent) -> tuple[str, ...]:
    """What the lesson of words changes: the trunk, the ear, the heads that spell, earlier heads on the trunk."""
    return tuple(prefix for prefix in trainable(agent, NAME) if prefix != f"heads.{CODEC}.")


def trained_without_trunk(agent: Agent) -> tuple[str, ...]:
    """The same on a trunk that lets tokens through and does not learn."""
    return tuple(prefix for prefix in trained(agent) if not prefix.startswith("trunk."))
