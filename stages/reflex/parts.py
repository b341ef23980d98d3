"""The parts that the stage adds to an agent: standard senses, perceiving heads, arcs, critics, and heads on the
trunk."""

from __future__ import annotations

from collections.abc import Sequence

from devmind.agent.agent import Agent

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
"""Shortest turn made, as a share of 25 degrees a tick. Chosen on lesson seeds."""
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
Described = tuple[str, str, str | tuple[str, ...], str | None, dict[str, object]]
PUSH_NET: dict[str, object] = {"hidden": 64, "depth": 2, "activation": "tanh"}


def admit(agent: Agent) -> None:
    """Add every part that is not there yet."""
    for sense in SENSES:
        agent.ensure_encoder(sense, stage=NAME)
    for name, part, tap, effector, options in heads():
        agent.ensure_head(name, part, tap=tap, effector=effector, stage=NAME, options=options)


def heads() -> list[Described]:
    """(name, part, tap, effector, options) of every head, arcs before the trunk's."""
    described = {entry[0]: entry for entry in off_trunk()}
    on_trunk = [_on_trunk(name, described[source]) for name, source in COPIES.items()]
    tokens: list[Described] = [
        (name, "head.next-tokens", (f"trunk:{sense}", sense, "trunk"), None, {}) for name, sense in FORESEEN.items()
    ]
    return [*described.values(), *ON_READOUT, *on_trunk, *tokens]


def _on_trunk(name: str, source: Described) -> Described:
    """The head `source` on the trunk's features of the same senses and the readout."""
    _, part, tap, effector, options = source
    taps = (*(f"trunk:{sense}" for sense in ((tap,) if isinstance(tap, str) else tap)), "trunk")
    return name, "head.with-readout", taps, effector, {"part": part, "options": options | OWN_OPTIONS.get(name, {})}


def off_trunk() -> list[Described]:
    """Heads that read senses."""
    return [
        # perception
        ("see", "head.categorical", "sight", None, {"classes": 10}),
        ("hear", "head.categorical", "sound", None, {"classes": SOUND_CLASSES}),
        ("scene", "head.reflex-scene", "sight", None, {}),
        ("bind", "head.reflex-bind", ("sight", "sound"), None, {}),
        ("sound_direction", "head.regression", "sound", None, {"shape": 2}),
        ("whereabouts", "head.reflex-places", ("sight", "words"), None, {"slots": COLOURS}),
        ("moving", "head.regression", "periphery", None, {"shape": 2}),
        ("event", "head.categorical", STARTLE_SENSES, None, {"classes": EVENTS}),
        # reflex arcs and their critics
        ("look_arc", "head.reflex-aim", LOOK_SENSES, "look", {"size": 2, "threshold": LOOK_THRESHOLD}),
        ("look_value", "head.value", LOOK_SENSES, None, {"hidden": 32}),
        ("reach_arc", "head.reflex-pick", REACH_SENSES, "reach", {"size": 4}),
        ("reach_value", "head.reflex-pick-value", REACH_SENSES, None, {}),
        ("move_arc", "head.categorical", STARTLE_SENSES, "move",
         {"classes": 2, "threshold": STARTLE_THRESHOLD, "table": WITHDRAW_TABLE}),
        ("move_value", "head.value", STARTLE_SENSES, None, {}),
        ("push_arc", "head.categorical", "raw:body", "push", {"classes": 2, **PUSH_NET}),
        ("push_value", "head.value", "raw:body", None, PUSH_NET),
    ]  # fmt: skip


ON_READOUT: Sequence[Described] = (
    ("spoken", "head.categorical", "trunk", None, {"classes": 10}),
    ("next_sight", "head.regression", "trunk", None, {"shape": [8, 8, 3]}),
    ("next_sound", "head.regression", "trunk", None, {"shape": [16]}),
)
"""Heads that read the trunk's readout alone."""
