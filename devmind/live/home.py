"""Home: everything one life needs, opened in order and closed in reverse: agent, memory, learner, page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from devmind.acting.standing import read_results
from devmind.agent.agent import Agent
from devmind.live.learning.learner import LiveLearner
from devmind.live.life import Life
from devmind.live.recording import Recording
from devmind.live.serving.hub import Hub
from devmind.live.serving.server import PageServer
from devmind.live.wishes import Wishes
from devmind.memory import Budget, Memory, Store, folder_of, open_store
from devmind.sessions.pointed import Pointed
from devmind.worlds.room import Room


@contextmanager
def at_home(wishes: Wishes) -> Iterator[tuple[Life, PageServer | None]]:
    """A life that can be run with the sensors that were opened for it, and its page.

    Raises:
        ConfigError: wishes that exclude each other.
    """
    wishes.check()
    config, private = wishes.config, wishes.private
    agent = Agent.from_pretrained(wishes.agent)
    with ExitStack() as stack:
        speaker = stack.enter_context(wishes.speaker) if wishes.speaker else None
        store = stack.enter_context(open_store(None if private else wishes.memory))
        hub = Hub() if wishes.page or wishes.viewer else None
        recording = None if private else Recording(wishes.record, wishes.details, config)
        learner = (
            LiveLearner(agent, wishes.record, every_s=config.learn_every_s) if wishes.learn and wishes.record else None
        )
        room = Room(wishes.sensors, config.hz, config.lag_s)
        life = stack.enter_context(
            Life(
                agent, room, _memory(store, wishes), wishes.agent, recording, wishes.record is not None, hub, speaker,
                learner, config.sure, config.memory, wishes.command, read_results(wishes.agent),
            )
        )  # fmt: skip
        if learner:
            stack.enter_context(learner)
        page = PageServer(life, hub, wishes.host, wishes.port, wishes.tls) if hub and wishes.page else None
        if hub and wishes.viewer:
            stack.enter_context(wishes.viewer.watch(hub))
        yield life, stack.enter_context(page) if page else None


def _memory(store: Store, wishes: Wishes) -> Memory:
    config, folder = wishes.config.memory, None if wishes.private else folder_of(wishes.memory)
    size = None if config.megabytes is None else int(1e6 * config.megabytes)
    budget = Budget(config.entries, size, config.half_life_h)
    return Memory(store, precision=config.precision, pointed=Pointed(folder), budget=budget)
