"""The settings of the stage, `stages.voice` in a configuration: how words are heard, chosen before the ear is built."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from devmind.agent.agent import Agent
from devmind.config import Section, validate_as
from devmind.errors import ConfigError
from stages.voice.bodies import CONVOLVED, DEFAULT
from stages.voice.ear import LOGMEL
from stages.voice.parts import LISTEN, NAME

KEY = f"stages.{NAME}."
BEGINS_BY = {"encoder": CONVOLVED, "features": "logmel2d"}
"""Default settings of a new ear. Convolutions learn words in fewer steps, and over bands too they err less on new
voices.
"""
HEARS_BY = {"encoder": DEFAULT, "features": LOGMEL}
"""Settings of an agent that has an ear but does not name them."""


class Settings(Section):
    """How words are recognised."""

    encoder: Literal["gru", "conv"] | None = Field(
        None, description="network over the ear's tokens in reflex arcs for words; None: the agent's, else conv"
    )
    features: Literal["logmel", "mfcc", "logmel2d"] | None = Field(
        None,
        description="input of the ear's convolutions: log-mel or its cepstra over time, or log-mel over bands and "
        "time; None: the agent's, else logmel2d",
    )
    words: Literal["ctc", "seq2seq"] | None = Field(
        None,
        description="how exams read words: frame by frame (ctc), or written after the utterance by separate heads "
        "(seq2seq); None: the agent's, else ctc",
    )


def configure(agent: Agent, given: Mapping[str, Any]) -> None:
    """Store the settings in the agent; one that has an ear can still get heads that write words.

    Raises:
        ConfigError: there is no such setting, or the agent has already learned with an ear of another kind.
    """
    wanted = validate_as(Settings, given, KEY).model_dump(exclude_none=True)
    has = validate_as(Settings, agent.config.hearing, KEY).model_dump(exclude_none=True)
    if LISTEN not in agent.encoders:
        agent.config.hearing = {**BEGINS_BY, **has, **wanted}
        return
    for setting, value in wanted.items():
        if setting in HEARS_BY and value != (learned := {**HEARS_BY, **has}[setting]):
            raise ConfigError(
                f"{KEY}{setting}={value} cannot be used: the agent has learned to hear by '{learned}'. "
                "Leave the setting out, or begin with an agent that has no ear for speech yet."
            )
    agent.config.hearing = {**has, **wanted}
