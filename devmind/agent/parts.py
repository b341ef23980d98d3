"""The parts that a stage gives an agent, as data: one list of `PartSpec` a stage."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from devmind.agent.agent import Agent
from devmind.agent.taps import TapSpec
from devmind.errors import PluginError


@dataclass(frozen=True)
class PartSpec:
    """A part that a stage gives an agent, as data: an encoder, or a head where it has a `tap`.

    Args:
        name: of the sense, or of the head.
        part: entry point; None: the default encoder of the sense (`add_encoder`).
        tap, effector, recalls, labels, standby: as in `add_head`.
        shape: the form of the effector's answer in one tick; None: that of its first head's answer.
        options: keyword arguments of the part's class, at every size.
        sizes: further ones by the agent's size.
        space: of a sense without a part, a Gymnasium Box.
        starts_from: a head whose reading it starts with, if the agent has that head.
    """

    name: str
    part: str | None = None
    tap: TapSpec | None = None
    effector: str | None = None
    shape: tuple[int, ...] | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    sizes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    space: Any = None
    recalls: bool = False
    labels: Sequence[str] = ()
    standby: bool = False
    starts_from: str = ""

    def add(self, agent: Agent, stage: str) -> None:
        """Add the part, unless the agent has it.

        Raises:
            PluginError: as `add_encoder` and `add_head` do.
        """
        options = {**self.options, **self.sizes.get(agent.config.size, {})}
        if self.tap is None:
            agent.ensure_encoder(self.name, self.part, stage, options, self.space)
        elif self.name not in agent.heads:
            if self.part is None:
                raise PluginError(f"The head '{self.name}' of stage '{stage}' names no part; give its entry point.")
            if self.effector is not None and self.shape is not None:
                agent.add_effector(self.effector, self.shape)
            agent.add_head(
                self.name, self.part, self.tap, self.effector, stage, options, self.recalls, self.labels, self.standby
            )
            if self.starts_from in agent.heads:
                agent.head(self.name).start_from(agent.head(self.starts_from))


Part = PartSpec | Callable[[Any], PartSpec | None]
"""A part, or a function of the agent: one that gives a part, where this depends on the agent; or one that adds what is
neither encoder nor head (layers, pages, a tracker), and gives None."""


def add_all(agent: Agent, stage: str, parts: Iterable[Part]) -> None:
    """Give the agent the `parts` of a stage, in this order; those that it has already stay as they are."""
    for part in parts:
        spec = part if isinstance(part, PartSpec) else part(agent)
        if spec is not None:
            spec.add(agent, stage)
