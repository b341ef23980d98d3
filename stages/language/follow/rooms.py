"""BabyAI's rooms with their instructions, and their bot as a teacher.

The instruction is a page of text in every tick. The bot sees the whole room (Chevalier-Boisvert et al., 2019, section
3.4).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from devmind.acting import Actor, Policy, Senses, rollout
from devmind.acting.rollout import Actions
from devmind.agent.agent import Agent
from devmind.errors import WorldError
from devmind.seeding import numpy_rng
from devmind.worlds.gym_world import GymWorld
from devmind.worlds.minigrid import FORWARD, Rooms, env_of, one_a_thread, room
from stages.language.caregiver.grammar import check_words
from stages.language.parts import BOARD, CHOOSE, FOLLOW, TEXT

BROKEN = (
    "BabyAI-PutNextS5N2Carrying-v0",
    "BabyAI-PutNextS6N3Carrying-v0",
    "BabyAI-PutNextS7N4Carrying-v0",
    "BabyAI-KeyInBox-v0",
)
"""Rooms in which the bot does not work (MiniGrid's own tests leave them out)."""
BOT_LOST = (AssertionError, ValueError, AttributeError, TypeError, IndexError, KeyError)
"""What the bot raises when it loses its way, as it was written for its own steps."""
HIDDEN = " "
"""An empty page."""
LONGEST = 240
"""Ticks after which the bot has failed, as in MiniGrid's tests of it."""


def rooms_with_instructions(
    worlds: Sequence[GymWorld], seeds: Sequence[int] | np.ndarray, instructions: Sequence[str] | None = None
) -> Rooms:
    """Rooms that are stepped together, with their instructions as the sense `text` in every tick.

    Args:
        worlds: of `devmind.worlds.minigrid.room`; seeds: of their episodes.
        instructions: by row, a text in place of the room's own instruction, as when an exam hides it.

    Raises:
        DevmindError: an instruction has a word that was never taught.
    """
    rooms = Rooms(worlds, seeds, sense=TEXT, said=instructions)
    for instruction in {one for one in rooms.said if one != HIDDEN}:
        check_words(instruction)
    return rooms


@dataclass(frozen=True)
class Demonstration:
    """One episode of the bot.

    Attributes:
        board: int8 [T + 1, 13, 7, 7], the last one after the end; choice: what the bot would do, int64 [T]; done: what
            was done, int64 [T].
        instruction: the room's; reward: of the end.
    """

    board: np.ndarray
    choice: np.ndarray
    done: np.ndarray
    instruction: str
    reward: float


@one_a_thread
def room_of_bot(name: str) -> GymWorld:
    """A room in which this thread's bot gives its demonstrations, one after another.

    Raises:
        WorldError: there is no such room, it is not one of BabyAI's, or the bot does not work in it.
    """
    if name in BROKEN:
        raise WorldError(f"BabyAI's bot does not work in '{name}' (MiniGrid's own tests say so); choose another room.")
    world = room(name)
    from minigrid.envs.babyai.core.roomgrid_level import RoomGridLevel

    if not isinstance(env_of(world), RoomGridLevel):
        raise WorldError(
            f"'{name}' is a room of MiniGrid's own, whose instructions BabyAI's bot does not know; choose one of "
            "BabyAI's, such as BabyAI-GoToRedBallGrey-v0."
        )
    return world


def demonstrate(name: str, seed: int, stray: float = 0.0) -> Demonstration | None:
    """The bot's episode in the room `name`; None if it does not succeed.

    Args:
        stray: how often its action is replaced by a random turn or step, so that imitators see where mistakes lead
            (DART: Laskey et al., 2017); `choice` has the bot's intended actions all the same.

    Raises:
        WorldError: as `room_of_bot`.
    """
    world = room_of_bot(name)
    rooms, rng = rooms_with_instructions([world], np.array([seed])), numpy_rng("stray", name, seed)
    boards, choices, done = [rooms.observe()[BOARD][0]], list[int](), list[int]()

    def teaching(senses: Senses, first: np.ndarray) -> Actions:
        choice = teacher.choose()
        teacher.done = int(rng.integers(FORWARD + 1)) if rng.random() < stray else choice
        choices.append(choice)
        done.append(teacher.done)
        return {CHOOSE: np.array([teacher.done])}

    reward = 0.0
    try:
        teacher = Bot(world)
        for tick in rollout(teaching, rooms, LONGEST):
            reward = float(tick.reward[0])
            boards.append(tick.following[BOARD][0])
            if tick.ended.all():
                break
    except BOT_LOST:
        return None
    if reward <= 0:
        return None
    return Demonstration(np.stack(boards), np.array(choices), np.array(done), rooms.said[0], reward)


class Bot:
    """BabyAI's bot in one room, from the episode's beginning on.

    Attributes:
        done: the last action, which may differ from what the bot said; None before the first step.
    """

    def __init__(self, world: GymWorld) -> None:
        from minigrid.utils.baby_ai_bot import BabyAIBot

        self.bot: Any = BabyAIBot(world.env)
        self.done: int | None = None

    def choose(self) -> int:
        """The bot's next action."""
        action = self.bot.replan(None if self.done is None else self.bot.mission.unwrapped.actions(self.done))
        return int(action)


def following(agent: Agent, **more: Any) -> Actor:
    """The agent as a `Policy` that follows instructions. `more` are further arguments of Actor."""
    return Actor(agent, effectors=[CHOOSE], standing={CHOOSE: (FOLLOW,)}, **more)


class Likeliest:
    """The `Policy` that takes the agent's likeliest action each time, in place of drawn ones: a row of the exam."""

    def __init__(self, agent: Agent) -> None:
        self.actor = following(agent)

    def keep(self, index: np.ndarray) -> None:
        """Continue with only the rows `index`."""
        self.actor.keep(index)

    def __call__(self, senses: Senses, first: np.ndarray) -> Actions:
        self.actor(senses, first)
        assert self.actor.output is not None
        output: Any = self.actor.output.outputs[FOLLOW]
        return {CHOOSE: output.mode().cpu().numpy()}


def returns(name: str, seeds: np.ndarray, policy: Policy, instructions: Sequence[str] | None = None) -> np.ndarray:
    """The return of each episode, float64 [N]: 0 if the instruction was not carried out, else the more the sooner.

    Args:
        instructions: as for `rooms_with_instructions`; the room still rewards its own instruction.
    """
    rooms, earned = rooms_with_instructions([room(name) for _ in seeds], seeds, instructions), np.zeros(len(seeds))
    for tick in rollout(policy, rooms, sparing=True):
        earned += tick.reward
    rooms.close()
    return earned


def success_of_episodes(name: str, seeds: np.ndarray, policy: Policy) -> np.ndarray:
    """Whether each instruction was carried out, float64 [N] of 0 and 1; the room says when an episode ends."""
    return (returns(name, seeds, policy) > 0).astype(np.float64)


def missions(name: str, seeds: np.ndarray) -> list[str]:
    """The instruction of the room of each seed."""
    world, instructions = room(name), []
    for seed in seeds.tolist():
        world.reset(seed=seed)
        instructions.append(str(env_of(world).mission))
    world.close()
    return instructions
