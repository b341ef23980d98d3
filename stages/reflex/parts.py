"""What the stage adds to an agent: its standard senses, heads that perceive, arcs that move, critics, and imitators."""

from __future__ import annotations

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
LOOK_THRESHOLD = 0.14
"""Of 25 degrees a tick: a shorter turn is none. Chosen on lesson seeds by `benchmarks/look_threshold.py`."""
PUSH_NET: dict[str, object] = {"hidden": 64, "depth": 2, "activation": "tanh"}


def admit(agent: Agent) -> None:
    """Add every part that is not there yet."""
    for sense in SENSES:
        if sense not in agent.encoders:
            agent.add_encoder(sense, stage=NAME)
    for name, part, tap, effector, options in heads():
        if name not in agent.heads:
            agent.add_head(name, part, tap=tap, effector=effector, stage=NAME, options=options)


def heads() -> list[tuple[str, str, str | tuple[str, ...], str | None, dict[str, object]]]:
    """(name, part, tap, effector, options) of every head, arcs before what imitates them."""
    return [
        # perception
        ("see", "head.categorical", "sight", None, {"classes": 10}),
        ("hear", "head.categorical", "sound", None, {"classes": SOUND_CLASSES}),
        ("spoken", "head.categorical", "trunk", None, {"classes": 10}),
        ("scene", "head.reflex-scene", "sight", None, {}),
        ("bind", "head.reflex-bind", ("sight", "sound"), None, {}),
        ("sound_direction", "head.regression", "sound", None, {"shape": 2}),
        ("whereabouts", "head.reflex-places", ("sight", "words"), None, {"slots": COLOURS}),
        ("moving", "head.regression", "periphery", None, {"shape": 2}),
        ("event", "head.categorical", STARTLE_SENSES, None, {"classes": EVENTS}),
        # prediction, without labels
        ("next_sight", "head.regression", "trunk", None, {"shape": [8, 8, 3]}),
        ("next_sound", "head.regression", "trunk", None, {"shape": [16]}),
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
        # the trunk learns by imitating the arcs
        ("look_trunk", "head.normal", "trunk", "look", {"size": 2}),
        ("reach_trunk", "head.normal", "trunk", "reach", {"size": 4}),
        ("move_trunk", "head.regression", "trunk", "move", {"shape": 1}),
    ]  # fmt: skip
