"""A world that is stepped elsewhere: its episodes come from a feed, with what was done in them.

Lessons that learn from others' actions (Q-learning) practise in it as in any world, as long as they do what was done
(`FedRules.done`). The state is the number of an episode and a tick, so a saved lesson goes on exactly where it was.
Lessons that need no actions of their own ask for episodes by number (`FedWorld.episodes`); their cursor is the number
of their batch.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from devmind.errors import WorldError
from devmind.moment import Moment
from devmind.seeding import EXAM_SEEDS_FROM
from devmind.worlds.adapter import VectorWorld
from devmind.worlds.rules import Outcome, Rules, Struct, rules_of


class Episode(Protocol):
    """T Moments: senses and effectors as arrays [T, ...], reward [T], and whether it ended by its own rules."""

    @property
    def senses(self) -> Mapping[str, np.ndarray]: ...

    @property
    def effectors(self) -> Mapping[str, np.ndarray]: ...

    @property
    def reward(self) -> np.ndarray: ...

    @property
    def terminal(self) -> bool: ...

    def __len__(self) -> int: ...

    def window(self, start: int, count: int) -> list[tuple[Moment, None]]:
        """Moments `start` to `start + count`, as a session gives them."""
        ...


class Episodes(Protocol):
    """Episodes by number; `get` waits for one that has not come yet (`devmind.feed.reader.Episodes`)."""

    def get(self, number: int) -> Episode:
        """The episode of this number."""
        ...

    def let_go(self, before: int) -> None:
        """Episodes before this number are not asked for again."""
        ...


@dataclass
class FedState(Struct):
    """episode, tick int64 [N]; over bool [N]: the episode had ended before the last step."""

    episode: np.ndarray
    tick: np.ndarray
    over: np.ndarray


class FedRules:
    """The rules of a world whose episodes are given. New rows take the episodes that no row has had, in their order.

    Args:
        episodes: gives them.
        like: the rules of the same world here; its senses and effectors are expected.
    """

    horizon: int | None = None

    def __init__(self, episodes: Episodes, like: Rules[Any]) -> None:
        self.episodes, self.name, self.level = episodes, like.name, like.level
        self.observation_space, self.action_space = like.observation_space, like.action_space
        self._next = 0
        self._like, self._checked = like, set[int]()

    def initial(self, seeds: np.ndarray) -> FedState:
        """The next len(seeds) episodes; seeds choose nothing, since what comes was decided elsewhere."""
        numbers = self._next + np.arange(len(seeds))
        self._next += len(seeds)
        return FedState(numbers, np.zeros(len(seeds), np.int64), np.zeros(len(seeds), bool))

    def legal(self, state: FedState) -> Mapping[str, np.ndarray]:
        """What was done was legal."""
        return {}

    def done(self, state: FedState) -> dict[str, np.ndarray]:
        """What was done at this tick, [N, ...] by effector; whatever in rows that have ended."""
        return {name: np.stack([e.effectors[name][at] for e, at in self._rows(state)]) for name in self._effectors()}

    def step(self, state: FedState, actions: Mapping[str, np.ndarray]) -> FedState:
        """The next tick.

        Raises:
            WorldError: `actions` are not what was done, so the lesson acts by itself and cannot learn from a feed.
        """
        rows = self._rows(state)
        ended = np.array([at == len(episode) - 1 for episode, at in rows])
        if actions:
            done = self.done(state)
            for name, given in actions.items():
                if not np.array_equal(np.asarray(given)[~ended], np.asarray(done.get(name, np.empty(0)))[~ended]):
                    raise WorldError(
                        f"This lesson acts in '{self.name}' by itself (`{name}`), and the feed brings what others did. "
                        "Lessons that learn from others' actions can be fed, as Q-learning; leave --experience feed: "
                        "out for this one."
                    )
        self._next = max(int(state.episode.max(initial=-1)) + 1, 0)
        self.episodes.let_go(int(state.episode.min(initial=0)))
        return replace(state.copy(), tick=state.tick + ~ended, over=ended)

    def outcome(self, state: FedState) -> Outcome:
        """Reward and endings as they came; an episode without an end of its own is cut after its last Moment."""
        rows = self._rows(state)
        ended = np.array([at == len(episode) - 1 for episode, at in rows], bool)
        terminal = ended & np.array([episode.terminal for episode, _ in rows], bool)
        reward = np.array([episode.reward[at] for episode, at in rows], np.float32)
        return Outcome(np.where(state.over | (state.tick == 0), 0.0, reward), terminal, ended & ~terminal)

    def observe(self, state: FedState) -> dict[str, Any]:
        """Senses as they came."""
        rows = self._rows(state)
        return {name: np.stack([e.senses[name][at] for e, at in rows]) for name in self.observation_space.spaces}

    def truth(self, state: FedState) -> dict[str, np.ndarray]:
        """Nothing: only the senses are known."""
        return {}

    def _effectors(self) -> list[str]:
        return list(self.action_space.spaces)

    def _rows(self, state: FedState) -> list[tuple[Episode, int]]:
        found = []
        for number, at in zip(state.episode.tolist(), state.tick.tolist(), strict=True):
            episode = self.episodes.get(number)
            if number not in self._checked:
                check_episode(episode, self._like)
                self._checked.add(number)
            found.append((episode, at))
        return found


def check_episode(episode: Episode, like: Rules[Any]) -> None:
    """Raise WorldError unless an episode has the senses and effectors of the world whose rules these are."""
    for kind, space, given in (
        ("sense", like.observation_space, episode.senses),
        ("effector", like.action_space, episode.effectors),
    ):
        for name, box in space.spaces.items():
            array = given.get(name)
            if array is None or array.shape[1:] != box.shape or (kind == "sense" and array.dtype != box.dtype):
                came = "none in some Moments" if array is None else f"{array.dtype} {list(array.shape[1:])}"
                raise WorldError(
                    f"The world '{like.name}' has the {kind} '{name}' ({box.dtype} {list(box.shape or ())}); "
                    f"the feed brings {came}."
                )


ROOM = "room"
"""What a producer calls the world of a real camera or microphone."""


class FedWorld:
    """What a feed brings to the lessons of a run.

    Args:
        world: the name of the world that its Moments come from.
        open_episodes: gives its episodes anew, from the first.

    Attributes:
        like: the rules of that world here; None of a room, whose Moments are watched as recorded sessions are.

    Raises:
        WorldError: there is no such world here.
    """

    def __init__(self, world: str, open_episodes: Callable[[], Episodes]) -> None:
        self.world, self.open_episodes = world, open_episodes
        self.like: Rules[Any] | None = None if world == ROOM else rules_of(world)
        self._reader, self._first = open_episodes(), 0

    def episodes(self, first: int, n: int) -> list[Episode]:
        """The `n` episodes from number `first` on; waits until they have come. Asked for in rising order, each is read
        once; whoever goes back reads the spool from its beginning.

        Raises:
            WorldError: they have not the senses and effectors of the world here.
        """
        if first < self._first:
            self._reader = self.open_episodes()
        self._reader.let_go(first)
        self._first = first
        found = [self._reader.get(number) for number in range(first, first + n)]
        if self.like is not None:
            for episode in found:
                check_episode(episode, self.like)
        return found


def with_feed(make_world: Callable[..., Any], fed: FedWorld) -> Callable[..., Any]:
    """`make_world` whose lessons' worlds of the fed name are what the feed brings; exams stay in the world itself."""

    def make(name: str, level: str, seeds: Any, n: int | None = None) -> Any:
        if name != fed.world or np.asarray(seeds).max(initial=0) >= EXAM_SEEDS_FROM:
            return make_world(name, level, seeds, n)
        made: VectorWorld[Any] = VectorWorld(FedRules(fed.open_episodes(), rules_of(name, level)), len(seeds))
        made.begin(seeds)
        return made

    return make
