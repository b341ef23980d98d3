"""AgentConfig: everything needed to rebuild an agent, with every part named by its entry point."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from transformers import PreTrainedConfig

from devmind.agent.saving import FORMAT_VERSION, MODEL_TYPE
from devmind.errors import ConfigError, nearest


@dataclass(frozen=True)
class Size:
    """One setting of the dial: the trunk's width, depth and heads, its window in Moments, and its slots."""

    width: int
    layers: int
    attention_heads: int
    window: int
    slots: int


WINDOW_TOKENS = 1024
"""The most tokens that one token may see: a window is shorter where its Moments hold many."""
ANEW = ""
"""The `trunk_stage` of a trunk that was made anew later: it belongs to whichever stage teaches it."""

SIZES = {
    "tiny": Size(width=16, layers=1, attention_heads=2, window=8, slots=2),
    "nursery": Size(width=128, layers=4, attention_heads=4, window=32, slots=4),
    "child": Size(width=512, layers=8, attention_heads=8, window=64, slots=8),
    "adult": Size(width=1024, layers=24, attention_heads=16, window=64, slots=16),
}


def size_named(name: str) -> Size:
    """The size `name`; ConfigError names the nearest when there is none."""
    if name not in SIZES:
        raise ConfigError(f"There is no agent size '{name}'{nearest(name, SIZES)}")
    return SIZES[name]


class AgentConfig(PreTrainedConfig):
    """What an agent is made of; saved as `config.json`.

    Attributes:
        size: the dial; width, layers, attention_heads and window follow it where they are 0.
        window: W, in Moments; window_tokens: how many tokens it may hold, None for any number.
        slots: tokens that carry what leaves the window (`slots.py`); None: the size's own, 0: none. They are written
            every `slots_every` Moments, which is half the window at birth and stays when the window changes.
        encoders, heads: one dict a part, `{"name", "part", "stage", "options", ...}`; `part` is an entry point of the
            group `devmind.parts`. A head also has `tap` and `effector`. Filled by `Agent.add_encoder` and `add_head`.
        effectors: what the heads act with, one dict each: `{"name", "shape", "dtype", "horizon"}` (`parts.Effector`).
        tracker: which heads feed the beliefs (`tracker.Tracker`), by `Agent.add_tracker`; None: it keeps none up.
        pretrained: folder or name of a decoder to start the trunk from; becomes `trunk_source` once it was read.
        trunk: the decoder's own config when it is not the default Llama.
        trunk_stage: the stage whose the trunk's parameters are: the newborn's, which its first stage teaches, or ANEW.
        grown: the stage of each of the trunk's last layers that was grown (`Agent.grow`); deep: by stage, the senses
            whose tokens go through its layers, which others pass by, each with the one that has to be sensed besides
            (`deeper.py`); of a stage that is not named all tokens do.
        rebase_at: position at which the window's positions are moved back to small numbers (float32 keeps the
            rotary phases exact to about 1e-3 up to here); must be below 32,768.
        hearing: how a stage that brings an ear for speech is to build it and its heads, by name of a setting of
            `devmind.config.HearingConfig`; what is not named the stage chooses.
        stages: names of the stages the agent was admitted to, in order.
        trained_on: groups of files (speakers, sources), and of the nursery's looks, that this agent learned from, in
            the order of the lessons; exams refuse overlap.
        devmind_version: the format of the saved folder.
    """

    model_type = MODEL_TYPE

    size: str = "nursery"
    width: int = 0
    layers: int = 0
    attention_heads: int = 0
    window: int = 0
    window_tokens: int | None = WINDOW_TOKENS
    slots: int | None = None
    slots_every: int = 0
    seed: int = 0
    encoders: list = field(default_factory=list)
    heads: list = field(default_factory=list)
    effectors: list = field(default_factory=list)
    tracker: dict | None = None
    pretrained: str | None = None
    trunk: dict | None = None
    trunk_source: str | None = None
    trunk_stage: str = "newborn"
    grown: list = field(default_factory=list)
    deep: dict = field(default_factory=dict)
    rebase_at: int = 8192
    hearing: dict = field(default_factory=dict)
    stages: list = field(default_factory=list)
    trained_on: list = field(default_factory=list)
    devmind_version: int = FORMAT_VERSION

    def __post_init__(self, **kwargs: Any) -> None:
        size = size_named(self.size)
        for name in ("width", "layers", "attention_heads", "window"):
            if not getattr(self, name):
                setattr(self, name, getattr(size, name))
        if self.slots is None:
            self.slots = size.slots if self.window > 1 else 0
        self.slots_every = self.slots_every or self.window // 2
        if self.slots < 0 or (self.slots and self.window < 2):
            raise ConfigError(
                f"Slots are written every half window: 0 or more of them, and a window of 2 Moments at least; "
                f"got {self.slots} slots and a window of {self.window}."
            )
        if self.width % self.attention_heads or self.width % 8:
            raise ConfigError(
                f"The width must be a multiple of 8 and of the attention heads ({self.attention_heads}); "
                f"got {self.width}."
            )
        if self.window < 1 or (self.window_tokens is not None and self.window_tokens < 1):
            raise ConfigError(
                f"A window holds one Moment and one token at least; got {self.window} Moments and "
                f"{self.window_tokens} tokens."
            )
        if not 0 < self.rebase_at <= 32_768:
            raise ConfigError(f"rebase_at must lie in 1..32768; got {self.rebase_at}.")
        super().__post_init__(**kwargs)
