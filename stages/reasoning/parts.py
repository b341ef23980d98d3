"""The parts that the stage adds to an agent: senses of positions and puzzles, layers of the trunk, and heads.

The heads of games and puzzles read the trunk's features of all eight tokens, not of the readout alone, because a move
depends on what stands where. They are not asked where no position or puzzle is seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.parts import Part, PartSpec, add_all
from devmind.agent.text import add_text
from devmind.algorithms.grid import CLASSES
from devmind.learners.gradient import grown_layers, owned_parts
from devmind.worlds.minigrid import ACTIONS
from devmind.worlds.sliding import MOVES
from stages.reasoning.games import GAMES, TICTACTOE, Game
from stages.reasoning.imagine.search import BOARD_HEAD, DOMAINS, PUSH_HEAD
from stages.reasoning.puzzles.reading import SIDE

NAME = "reasoning"
POSITION, PUZZLE, BOARD, LAYOUT, TEXT = "position", "puzzle", "board", "layout", "text"
"""Senses: everything that a game shows; everything that a puzzle shows; the view of a room, from earlier stages; the
same view for the arc that classifies its cells; pages.
"""
TAP, PUZZLE_TAP = f"trunk:{POSITION}", f"trunk:{PUZZLE}"
THROUGH: Mapping[str, str] = {POSITION: POSITION, TEXT: POSITION}
"""Tokens that go through the layers that the trunk grows for this stage (`Agent.grow`): positions, and pages beside a
position. No head of an earlier stage reads these tokens there, so everything learned before stays as it was. Rooms pass
by, so games undo nothing of rooms (values of rooms fell from 0.65 to 0 after `explain`; docs/log.md, 2026-11-26).
"""
PRESSES, PRESS_GLANCES = "lights_out_q", "lights_out_glance"
"""Heads for the cost of each press of Lights Out and all that follows (`glancing.Costs`): on the trunk, and on the
puzzle's tokens alone. The second one only teaches: the encoder first has to learn what the trunk is to read, and
alone it learns that ten times as fast.
"""
SLIDES, SLIDE_GLANCES = "sliding_q", "sliding_glance"
"""Heads for the cost of each move of a sliding puzzle of any side and all that follows: on the trunk, and on the
puzzle's tokens alone.
"""
PUZZLE_HIDDEN = 256
"""Width of the heads of puzzles: one head has to tell apart the costs of hundreds of thousands of boards."""
GAME_HIDDEN: Mapping[str, int] = {"connect4": 256}
"""Width of the heads of games that have millions of positions."""
LOOKAHEAD = "lookahead"
"""Sense: the agent's own search tree behind a move in tic-tac-toe, beside pages about it (`explain`)."""
SITUATION, WORTH = "situation", "worth"
"""Sense: what is noticed of a world in which procedures are at work, a vector of NOTICED numbers. Head: the worth of
each procedure that may be chosen in it, an arc without the trunk.
"""
NOTICED, COMMITMENTS = 3, 2
PUSHES, CHOICES, CHOICE_GLANCES = "push_values", "choose_values", "choose_values_glance"
"""Heads: the value of each push of a cart, from the body's numbers; the value of each of MiniGrid's seven actions, from
the trunk's features of the board, and from the board's tokens alone.
"""
CELLS = "view_cells"
"""Head, an arc: the class of each of the 49 cells of MiniGrid's view, from feature maps of its own."""
IMAGINES = "head.reasoning-imagine"
"""Part: a learned model in a latent, of moves in tic-tac-toe from the trunk's features of the position, and of pushes
of a cart from the body's numbers.
"""
PUSH_NET: dict[str, object] = {"classes": 2, "hidden": 128, "depth": 2, "activation": "relu"}


def _grow(agent: Agent) -> None:
    agent.ensure_grown(NAME, THROUGH)


def _pages(agent: Agent) -> None:
    if TEXT not in agent.encoders:
        add_text(agent, stage=NAME)


def _of_game(game: Game) -> Sequence[PartSpec]:
    """Its policy and value on the trunk, and both from the position's tokens alone."""
    hidden = {"hidden": GAME_HIDDEN[game.name]} if game.name in GAME_HIDDEN else {}
    choices = {**hidden, "classes": game.rules.choices}
    return (
        PartSpec(game.policy, "head.categorical", TAP, options=choices),
        PartSpec(game.value, "head.value", TAP, options={**hidden, "critic": False}),
        PartSpec(game.glance[0], "head.categorical", POSITION, options=choices),
        PartSpec(game.glance[1], "head.value", POSITION, options=hidden),
    )


_PRESS = {"shape": SIDE**2, "hidden": PUZZLE_HIDDEN}
_SLIDE = {"shape": len(MOVES), "hidden": PUZZLE_HIDDEN}
PARTS: Sequence[Part] = (
    _grow,
    PartSpec(BOARD),
    PartSpec(POSITION),
    PartSpec(PUZZLE),
    PartSpec(LAYOUT, "encoder.reasoning-layout"),
    _pages,
    PartSpec(LOOKAHEAD, "encoder.reasoning-lookahead", options={"choices": TICTACTOE.rules.choices}),
    PartSpec(SITUATION, "encoder.vector", options={"size": NOTICED}),
    *(spec for game in GAMES.values() for spec in _of_game(game)),
    PartSpec(PRESSES, "head.regression", PUZZLE_TAP, options=_PRESS),
    PartSpec(PRESS_GLANCES, "head.regression", PUZZLE, options=_PRESS),
    PartSpec(SLIDES, "head.regression", PUZZLE_TAP, options=_SLIDE),
    PartSpec(SLIDE_GLANCES, "head.regression", PUZZLE, options=_SLIDE),
    PartSpec(PUSHES, "head.action-values", "raw:body", options=PUSH_NET),
    PartSpec(CHOICES, "head.action-values", f"trunk:{BOARD}", options={"classes": ACTIONS}),
    PartSpec(CHOICE_GLANCES, "head.action-values", BOARD, options={"classes": ACTIONS}),
    PartSpec(CELLS, "head.reasoning-cells", LAYOUT, options={"classes": CLASSES}),
    PartSpec(BOARD_HEAD, IMAGINES, TAP, options={"classes": DOMAINS["tictactoe"].choices}),
    PartSpec(PUSH_HEAD, IMAGINES, "raw:body", options={"classes": DOMAINS["cartpole"].choices}),
    PartSpec(WORTH, "head.regression", SITUATION, options={"shape": COMMITMENTS}),
)


def admit(agent: Agent) -> None:
    """Add every part that the agent lacks; earlier stages bring `board` and `text`."""
    add_all(agent, NAME, PARTS)


def trained_weights(agent: Agent) -> tuple[str, ...]:
    """Prefixes of the weights that lessons change: the stage's own parts, and the layers that the trunk grew for it.

    No earlier stage uses any of these, so lessons undo nothing of earlier stages and rehearse nothing of them.
    """
    return (*grown_layers(agent, {NAME}), *owned_parts(agent, NAME))


def untrained_agent(agent: Agent) -> Agent:
    """An untrained agent of the same size with the stage's parts: what search alone can do."""
    config = agent.config
    newborn = Agent(AgentConfig(size=config.size, seed=config.seed)).to(agent.device)
    admit(newborn)
    return newborn.eval()
