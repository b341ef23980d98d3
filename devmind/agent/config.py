"""AgentConfig: all that is needed to rebuild an agent; every part is named by its entry point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from transformers import PreTrainedConfig

from devmind.agent.saving import FORMAT_VERSION, MODEL_TYPE
from devmind.errors import ConfigError, nearest


@dataclass(frozen=True)
class Size:
    """One size: the trunk's width, layers and attention heads, its window in Moments, its slots, and the layers that a
    stage adds (`Agent.ensure_grown`)."""

    width: int
    layers: int
    attention_heads: int
    window: int
    slots: int
    grown: int


WINDOW_TOKENS = 1024
"""The most tokens in a window: it covers fewer Moments if they hold many tokens."""
ANEW = ""
"""The `trunk_stage` of a trunk that was replaced by a fresh one: it belongs to whichever stage teaches it."""

SIZES = {
    "tiny": Size(width=16, layers=1, attention_heads=2, window=8, slots=2, grown=1),
    "nursery": Size(width=128, layers=4, attention_heads=4, window=32, slots=4, grown=2),
    "child": Size(width=512, layers=8, attention_heads=8, window=64, slots=8, grown=2),
    "adult": Size(width=1024, layers=24, attention_heads=16, window=64, slots=16, grown=4),
}


T = TypeVar("T")


def by_size(usual: T, **others: T) -> dict[str, T]:
    """A value for each size: `usual`, or what `others` give for a size by its name.

    Raises:
        ConfigError: there is no such size.
    """
    for name in others:
        size_named(name)
    return {name: others.get(name, usual) for name in SIZES}


def size_named(name: str) -> Size:
    """The size `name`.

    Raises:
        ConfigError: there is no such size; the message names the nearest.
    """
    if name not in SIZES:
        raise ConfigError(f"There is no agent size '{name}'{nearest(name, SIZES)}")
    return SIZES[name]


class AgentConfig(PreTrainedConfig):
    """What an agent is made of; saved as `config.json`.

    Attributes:
        size: the name of a size; width, layers, attention_heads and window follow it if they are 0.
        window: W, in Moments; window_tokens: the most tokens that it may hold, None for any number.
        slots: number of tokens that carry information beyond the window (`slots.py`); None: the size's own, 0: none.
            They are written every `slots_every` Moments: by default half of the first window, also if the window
            changes later.
        encoders, heads: one dict a part, `{"name", "part", "stage", "options", ...}`; `part` is an entry point of the
            group `devmind.parts`, or in the `part_classes` of a stage. A head also has `tap` and `effector`. Filled by
            `Agent.add_encoder` and `add_head`.
        effectors: one dict for each effector, `{"name", "shape", "dtype", "horizon"}` (`parts.Effector`).
        tracker: which heads feed the beliefs (`tracker.Tracker`), set by `Agent.add_tracker`; None: there is none.
        pretrained: folder or name of a decoder to start the trunk from; becomes `trunk_source` once it has been read.
        trunk: the decoder's own config if it is not the default Llama.
        trunk_stage: the stage that the trunk's parameters belong to: "newborn", which the first stage teaches, or ANEW.
        neurons: of each layer's MLP, if some have grown (`Agent.add_neurons`); empty: the decoder's own number.
        grown: the stage of each of the trunk's grown layers (`Agent.grow`), which are its last ones.
        deep: by stage, the senses whose tokens go through that stage's layers, each with the sense that has to be
            present besides (`trunk.py`). All tokens go through the layers of a stage not named here.
        rebase_at: position at which the window's positions are moved back to small numbers (float32 keeps the
            rotary phases exact to about 1e-3 up to here); at most 32,768.
        hearing: settings of the stage that brings an ear for speech, by which it builds the ear and its heads; the
            stage chooses what is not named, and checks it (`configure`).
        one_mind: the trunk does the work, and heads are light (`one_mind.py`): where a head is asked that reads the
            trunk, the trunk is run, also where an arc would have answered without it.
        stages: names of the stages that admitted the agent, in order.
        trained_on: groups of files (speakers, sources) and of the nursery's looks that this agent has learned from, in
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
    neurons: list = field(default_factory=list)
    grown: list = field(default_factory=list)
    deep: dict = field(default_factory=dict)
    rebase_at: int = 8192
    hearing: dict = field(default_factory=dict)
    one_mind: bool = False
    stages: list = field(default_factory=list)
    trained_on: list = field(default_factory=list)
    devmind_version: int = FORMAT_VERSION

    @classmethod
    def from_dict(cls, config_dict: Mapping[str, Any], **kwargs: Any) -> Self:
        """The config with the attributes above from `config_dict`; all other keys are dropped.

        Files come from strangers, and transformers obeys keys of its own: `attn_implementation` can name a kernel on
        the hub, whose native code would be loaded. What it writes into each config by itself says nothing about agents.
        """
        own = {name: value for name, value in config_dict.items() if name in cls.__annotations__}
        return super().from_dict(own, **kwargs)

    def __post_init__(self, **kwargs: Any) -> None:
        size = size_named(self.size)
        for name in ("width", "layers", "attention_heads", "window"):
            if not getattr(self, name):
                setattr(self, name, getattr(size, name))
        if self.slots is None:
            self.slots = size.slots if self.window > 1 else 0
        self.slots_every = self.slots_every or self.window // 2
        if self.slots < 0 or (self.slots and self.slots_every < 1):
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
