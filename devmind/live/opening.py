"""Home: everything that one life needs, opened in order and closed in reverse: agent, memory, learner, page."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from devmind.acting.standing import check_answering
from devmind.live.ages import load_at_age
from devmind.live.core_dumps import forbid_core_dumps
from devmind.live.learning.learner import LiveLearner
from devmind.live.life import Life
from devmind.live.options import LiveOptions
from devmind.live.recording import Recording
from devmind.live.serving.hub import Hub
from devmind.live.serving.server import PageServer
from devmind.live.speaking import Speaking
from devmind.memory import Budget, Memory, Store, folder_of, open_store
from devmind.sessions.pointed import Pointed
from devmind.worlds.room import Room


@contextmanager
def open_life(options: LiveOptions) -> Iterator[tuple[Life, PageServer | None]]:
    """A life that can be run with the sensors that were opened for it, and its page.

    Raises:
        ConfigError: options exclude each other.
    """
    options.check()
    config, private = options.config, options.private
    if private:
        forbid_core_dumps()
    agent = load_at_age(options.agent, options.taught)
    check_answering(agent, options.answers)
    with ExitStack() as stack:
        speaker = stack.enter_context(options.speaker) if options.speaker else None
        if speaker is not None and not hasattr(speaker, "say"):
            speaker = stack.enter_context(Speaking(speaker))
        store = stack.enter_context(open_store(None if private else options.memory))
        hub = Hub() if config.page.shown or options.viewer else None
        recording = None if private else Recording(options.record, options.details, config)
        learner = (
            LiveLearner(agent, options.record, every_s=config.learn_every_s)
            if config.learn and options.record
            else None
        )
        room = options.room or Room(options.sensors, config.hz, config.lag_s)
        life = stack.enter_context(
            Life(
                agent,
                room,
                _memory(store, options),
                options,
                recording=recording,
                hub=hub,
                speaker=speaker,
                learner=learner,
            )
        )
        if learner:
            stack.enter_context(learner)
        page = (
            PageServer(life, hub, config.page.host, config.page.port, options.tls, bind=config.page.bind)
            if hub and config.page.shown
            else None
        )
        if hub and options.viewer:
            stack.enter_context(options.viewer.watch(hub))
        yield life, stack.enter_context(page) if page else None


def _memory(store: Store, options: LiveOptions) -> Memory:
    config, folder = options.config.memory, None if options.private else folder_of(options.memory)
    size = None if config.megabytes is None else int(1e6 * config.megabytes)
    budget = Budget(config.entries, size, config.half_life_h)
    return Memory(store, precision=config.precision, pointed=Pointed(folder), budget=budget)
