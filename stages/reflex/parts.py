"""The parts that the stage adds to an agent: standard senses, perceiving heads, arcs, critics, and heads on the
trunk."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from devmind.agent.agent import Agent
from devmind.agent.parts import Part, PartSpec, add_all

NAME = "reflex"
SENSES = ("sight", "periphery", "sound", "words", "body")
SOUND_CLASSES = 7
COLOURS = 8
EVENTS = 3
LOOK_SENSES = ("sight", "periphery", "sound", "body")
REACH_SENSES = ("sight", "words", "body")
STARTLE_SENSES = ("sight", "periphery", "sound")
WITHDRAW_TABLE = [[0.0], [-1.0]]
STARTLE_THRESHOLD = 0.25
LOOK_THRESHOLD = 0.06
"""Shortest turn made, as a share of 25 degrees a tick. Chosen on lesson seeds by `benchmarks/look_threshold.py`."""
OWN_OPTIONS: dict[str, dict[str, object]] = {"move_trunk": {"threshold": 0.5}}
"""Options in which a head on the trunk differs from the head it copies: its probabilities of an event are taught by the
truth, not by rewards."""
COPIES = {
    "see_trunk": "see",
    "hear_trunk": "hear",
    "bind_trunk": "bind",
    "look_trunk": "look_arc",
    "reach_trunk": "reach_arc",
    "move_trunk": "move_arc",
}
"""Heads on the trunk, and the heads that they start as copies of."""
FORESEEN = {"foresee_sight": "sight", "foresee_sound": "sound"}
"""Heads that predict how the tokens of a sense will change, and the sense."""
PUSH_NET: dict[str, Any] = {"hidden": 64, "depth": 2, "activation": "tanh"}


def _head(name: str, part: str, tap: str | tuple[str, ...], effector: str | None = None, **options: object) -> PartSpec:
    return PartSpec(name, part, tap, effector, options=options)


PERCEIVING = (
    _head("see", "head.categorical", "sight", classes=10),
    _head("hear", "head.categorical", "sound", classes=SOUND_CLASSES),
    _head("scene", "head.reflex-scene", "sight"),
    _head("bind", "head.reflex-bind", ("sight", "sound")),
    _head("sound_direction", "head.regression", "sound", shape=2),
    _head("whereabouts", "head.reflex-places", ("sight", "words"), slots=COLOURS),
    _head("moving", "head.regression", "periphery", shape=2),
    _head("event", "head.categorical", STARTLE_SENSES, classes=EVENTS),
)
ARCS = (
    _head("look_arc", "head.reflex-aim", LOOK_SENSES, "look", size=2, threshold=LOOK_THRESHOLD),
    _head("look_value", "head.value", LOOK_SENSES, hidden=32),
    _head("reach_arc", "head.reflex-pick", REACH_SENSES, "reach", size=4),
    _head("reach_value", "head.reflex-pick-value", REACH_SENSES),
    _head(
        "move_arc", "head.categorical", STARTLE_SENSES, "move", classes=2, threshold=STARTLE_THRESHOLD,
        table=WITHDRAW_TABLE,
    ),
    _head("move_value", "head.value", STARTLE_SENSES),
    _head("push_arc", "head.categorical", "raw:body", "push", classes=2, **PUSH_NET),
    _head("push_value", "head.value", "raw:body", **PUSH_NET),
)  # fmt: skip
"""Reflex arcs, each with its critic."""
ON_READOUT = (
    _head("spoken", "head.categorical", "trunk", classes=10),
    _head("next_sight", "head.regression", "trunk", shape=[8, 8, 3]),
    _head("next_sound", "head.regression", "trunk", shape=[16]),
)
"""Heads that read the trunk's readout alone."""


def _on_trunk(name: str, of: PartSpec) -> PartSpec:
    """The head `of` on the trunk's features of the same senses and the readout."""
    senses = of.tap if isinstance(of.tap, tuple) else (of.tap,)
    options = {"part": of.part, "options": {**of.options, **OWN_OPTIONS.get(name, {})}}
    taps = (*(f"trunk:{sense}" for sense in senses), "trunk")
    return PartSpec(name, "head.with-readout", taps, of.effector, options=options)


_OFF_TRUNK = {spec.name: spec for spec in (*PERCEIVING, *ARCS)}
PARTS: Sequence[Part] = (
    *(PartSpec(sense) for sense in SENSES),
    *_OFF_TRUNK.values(),
    *ON_READOUT,
    *(_on_trunk(name, _OFF_TRUNK[source]) for name, source in COPIES.items()),
    *(PartSpec(name, "head.next-tokens", (f"trunk:{sense}", sense, "trunk")) for name, sense in FORESEEN.items()),
)


def admit(agent: Agent) -> None:
    """Add every part that is not there yet."""
    add_all(agent, NAME, PARTS)
