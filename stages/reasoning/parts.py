"""What the stage adds to an agent: senses of positions and of puzzles, layers of the trunk for positions, and heads.

They read the trunk's features of eight tokens, not of the readout alone: where something stands is what a move is
about. And they are not asked where no position or puzzle is seen.
"""

from __future__ import annotations

from collections.abc import Mapping

from devmind.agent.agent import Agent
from devmind.agent.config import AgentConfig
from devmind.agent.text import add_text
from devmind.algorithms.grid_cells import CLASSES
from devmind.learners.gradient import grown_layers, owned_parts
from devmind.worlds.minigrid import ACTIONS
from devmind.worlds.sliding import MOVES
from stages.reasoning.games import GAMES, TICTACTOE
from stages.reasoning.imagine.search import BOARD_HEAD, DOMAINS, PUSH_HEAD

NAME = "reasoning"
POSITION, PUZZLE, BOARD, LAYOUT, TEXT = "position", "puzzle", "board", "layout", "text"
"""All that a game shows; all that a puzzle does; what is seen of a room, which earlier stages know; and that once more,
for the arc that tells what stands in its cells."""
TAP, PUZZLE_TAP = f"trunk:{POSITION}", f"trunk:{PUZZLE}"
GROWN: Mapping[str, int] = {"tiny": 1, "nursery": 2, "child": 2, "adult": 4}
"""By size, the layers that the trunk grows for what is reasoned about."""
THROUGH: Mapping[str, str] = {POSITION: POSITION, TEXT: POSITION}
"""Whose tokens go through them (`Agent.grow`): positions with what is written of them. No head of an earlier stage
reads any of these there, so all that was learned before stays as it was; and rooms pass by, so what games teach these
layers undoes nothing there (values of rooms fell from 0.65 to 0 behind `explain`; docs/log.md, 2026-11-26)."""
PRESSES, PRESS_GLANCES = "lights_out_q", "lights_out_glance"
"""What each press of Lights Out costs, all that follows included (`glancing.Costs`); and the same from the puzzle's
tokens alone. Such heads only teach: what a trunk of many layers is to read has to be told by its encoder first, and
that learns ten times as fast by itself.
"""
SLIDES, SLIDE_GLANCES = "sliding_q", "sliding_glance"
"""What each move of a sliding puzzle costs, all that follows included, on boards of any side; and the same from the
puzzle's tokens."""
PUZZLE_HIDDEN = 256
"""Of the heads of puzzles: costs of hundreds of thousands of boards are to be told apart by one."""
GAME_HIDDEN: Mapping[str, int] = {"connect4": 256}
"""Of the heads of games that have millions of positions."""
SIDE = 5
"""Of the Lights Out that is taught."""
LOOKAHEAD = "lookahead"
"""What the agent's own search has looked at behind a move in tic-tac-toe, beside pages about it (`explain`)."""
SITUATION, WORTH = "situation", "worth"
"""What is noticed of a world in which procedures are at work, as a vector of numbers; and what each of the procedures
that may be chosen is worth in it: an arc of its own, which the trunk has no part in."""
NOTICED, COMMITMENTS = 3, 2
PUSHES, CHOICES, CHOICE_GLANCES = "push_values", "choose_values", "choose_values_glance"
"""What each push of a cart is worth, by the body's numbers; what each of MiniGrid's seven actions is, by the trunk's
features of the board, and by the board's tokens alone."""
CELLS = "view_cells"
"""What stands in each of the 49 cells of MiniGrid's view, by features of its own: an arc, as reflexes are."""
IMAGINES = "head.reasoning-imagine"
"""What comes of actions, in a latent: of moves in tic-tac-toe by the trunk's features of the position, of pushes of a
cart by the body's numbers."""
PUSH_NET: dict[str, object] = {"classes": 2, "hidden": 128, "depth": 2, "activation": "relu"}


def admit(agent: Agent) -> None:
    """Add every part that is not there yet; earlier stages bring `board` and `text`."""
    if NAME not in agent.config.grown:
        agent.grow(GROWN[agent.config.size], NAME, THROUGH)
    for sense in (BOARD, POSITION, PUZZLE):
        if sense not in agent.encoders:
            agent.add_encoder(sense, stage=NAME)
    if LAYOUT not in agent.encoders:
        agent.add_encoder(LAYOUT, "encoder.reasoning-layout", stage=NAME)
    if TEXT not in agent.encoders:
        add_text(agent, stage=NAME)
    if LOOKAHEAD not in agent.encoders:
        choices = TICTACTOE.rules.choices
        agent.add_encoder(LOOKAHEAD, "encoder.reasoning-lookahead", stage=NAME, options={"choices": choices})
    if SITUATION not in agent.encoders:
        agent.add_encoder(SITUATION, "encoder.vector", stage=NAME, options={"size": NOTICED})
    for name, part, tap, options in heads():
        if name not in agent.heads:
            agent.add_head(name, part, tap=tap, stage=NAME, options=options)


def heads() -> list[tuple[str, str, str, dict[str, object]]]:
    """(name, part, tap, options) of every head."""
    found: list[tuple[str, str, str, dict[str, object]]] = []
    for game in GAMES.values():
        hidden: dict[str, object] = {"hidden": GAME_HIDDEN[game.name]} if game.name in GAME_HIDDEN else {}
        choices = hidden | {"classes": game.rules.choices}
        found += [
            (game.policy, "head.categorical", TAP, choices),
            (game.value, "head.value", TAP, hidden | {"critic": False}),
            (game.glance[0], "head.categorical", POSITION, choices),
            (game.glance[1], "head.value", POSITION, hidden),
        ]
    presses: dict[str, object] = {"shape": SIDE**2, "hidden": PUZZLE_HIDDEN}
    slides: dict[str, object] = {"shape": len(MOVES), "hidden": PUZZLE_HIDDEN}
    for told, glance, shape in ((PRESSES, PRESS_GLANCES, presses), (SLIDES, SLIDE_GLANCES, slides)):
        found += [(told, "head.regression", PUZZLE_TAP, shape), (glance, "head.regression", PUZZLE, shape)]
    actions: dict[str, object] = {"classes": ACTIONS}
    found += [
        (PUSHES, "head.action-values", "raw:body", PUSH_NET),
        (CHOICES, "head.action-values", f"trunk:{BOARD}", actions),
        (CHOICE_GLANCES, "head.action-values", BOARD, actions),
        (CELLS, "head.reasoning-cells", LAYOUT, {"classes": CLASSES}),
        (BOARD_HEAD, IMAGINES, TAP, {"classes": DOMAINS["tictactoe"].choices}),
        (PUSH_HEAD, IMAGINES, "raw:body", {"classes": DOMAINS["cartpole"].choices}),
    ]
    return [*found, (WORTH, "head.regression", SITUATION, {"shape": COMMITMENTS})]


def trained(agent: Agent) -> tuple[str, ...]:
    """Prefixes of what lessons change: the stage's own parts, and the layers that the trunk grew for positions.

    No earlier stage uses any of it, so nothing that was learned before is undone, and nothing of it is rehearsed.
    """
    return (*grown_layers(agent, {NAME}), *owned_parts(agent, NAME))


def trained_without_trunk(agent: Agent) -> tuple[str, ...]:
    """Prefixes of what a lesson's control changes (`Lesson.control`): `trained` without the layers, which let all
    through there."""
    return owned_parts(agent, NAME)


def untrained(agent: Agent) -> Agent:
    """A newborn of the same size that was admitted to the stage and taught nothing: what search alone can do."""
    config = agent.config
    newborn = Agent(AgentConfig(size=config.size, seed=config.seed)).to(agent.device)
    admit(newborn)
    return newborn.eval()
