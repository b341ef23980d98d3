"""The laws of directors of a life, of abilities, and of voices."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from devmind.testing.laws import difference, require

TICKS = 4


def check_director(make: Callable[[], Any], words: str = "red") -> None:
    """Check the laws of a director (`devmind.acting.directing`): it answers each tick with arrays, and can restart.

    Args:
        make: makes a new one, as a plugin of the group `devmind.procedures` makes from a file.
        words: the words that it hears in one of the ticks.

    Raises:
        BrokenLawError: the first law that does not hold, with what was found.
    """
    director = make()
    first = [_directed(director, tick, words) for tick in range(TICKS)]
    for tick in range(TICKS):  # the same episode once more
        off = difference(first[tick], _directed(director, tick, words))
        require(not off, "a first Moment begins a director anew, so it does the same again", off)
    doing = director.doing()
    law = "what a director is about is a list of lines"
    require(isinstance(doing, list) and all(isinstance(line, str) for line in doing), law, repr(doing))


def _directed(director: Any, tick: int, words: str) -> Mapping[str, np.ndarray]:
    """One tick of an episode with words in one tick, and without senses in the last."""
    from devmind.acting.directing import Observation
    from devmind.moment import Moment

    body = np.zeros(12, np.float32)
    body[1] = 1.0
    senses: dict[str, Any] = {} if tick == TICKS - 1 else {"body": body} | ({"words": words} if tick == 1 else {})
    orders = director.direct(Observation(Moment(tick / 10, senses, first=tick == 0), [words]))
    law = "a director gives finite numbers by effector, and says a fault in a sentence"
    for effector, value in orders.items():
        fits = isinstance(value, np.ndarray) and bool(np.isfinite(value).all())
        require(fits, law, f"'{effector}' is {value!r:.60}")
    require(isinstance(director.fault, str), law, repr(director.fault))
    return dict(orders)


def check_ability(make: Callable[[Any], Any], agent: Any = None) -> None:
    """Check the laws of an ability (`devmind.acting.abilities`), a plugin of the group `devmind.abilities`.

    Args:
        make: its class, called with the life that it is asked in.
        agent: one that the ability wants; by default a tiny one without stages, which it must bear.

    Raises:
        BrokenLawError: the first law that does not hold, with what was found.
    """
    from devmind.acting.abilities import Look, Reply, Sentence
    from devmind.testing.fakes import tiny_agent

    who = tiny_agent() if agent is None else agent
    ability = make(_quiet_life(who))
    try:
        wants = ability.wants(who)
        require(isinstance(wants, bool), "an ability wants an agent or not", repr(wants))
        require(agent is None or wants, "it wants the agent that it is checked with", repr(wants))
        ability.begin()
        if not wants:
            return
        law = "the heads that it asks are the agent's"
        require(set(ability.heads) <= set(who.heads), law, ", ".join(ability.heads))
        for tick in _quiet_ticks(who):
            ability.see(tick)
            said = ability.heard()
            require(said is None or isinstance(said, Sentence), "it hears sentences, or None", repr(said))
            shown = ability.shown(tick)
            require(_is_json(shown), "what it shows is plain JSON by key", f"{shown!r:.80}")
        for text in ("", "what is that?", "xyzzy"):
            for reply in (ability.hear(Sentence(text)), ability.remark(text, Look(None, None))):
                require(reply is None or isinstance(reply, Reply), "it replies, or leaves it to others", repr(reply))
                require(reply is None or _is_json(reply.fields), "fields of an answer are plain JSON", repr(reply))
        asked = ability.questions()
        require(
            isinstance(asked, list) and all(isinstance(one, str) for one in asked), "questions are texts", repr(asked)
        )
        require(isinstance(ability.fault, str), "it says a fault in a sentence", repr(ability.fault))
    finally:
        ability.close()


def _quiet_life(agent: Any) -> Any:
    """A life with an agent, an empty memory and nothing to see or to speak with."""
    from types import SimpleNamespace

    from devmind.agent.describing import encoder_hashes
    from devmind.memory import Memory, open_store

    return SimpleNamespace(
        agent=agent,
        results=None,
        answers={},
        sure=0.7,
        hashes=encoder_hashes(agent),
        speaker=None,
        sees=None,
        memory=Memory(open_store(None)),
        room=SimpleNamespace(say=lambda text: None),
        is_attended=True,
        between=lambda do: do(),
        note=lambda kind, data: None,
        is_elsewhere=lambda sight: False,
    )


def _quiet_ticks(agent: Any) -> list[Any]:
    """Ticks in which nothing is sensed."""
    from devmind.acting import Actor
    from devmind.acting.abilities import Tick
    from devmind.moment import Moment

    actor, ticks = Actor(agent), list[Any]()
    for number in range(TICKS):
        moment = Moment(number / 10, {}, first=number == 0)
        percepts = actor.encode(moment)
        output = actor.step(percepts)
        ticks.append(Tick(moment, output.to_action(), percepts, output, actor.state, 0, 0.0))
    return ticks


def _is_json(value: Any) -> bool:
    try:
        return isinstance(value, Mapping) and bool(json.dumps(dict(value), allow_nan=False))
    except (TypeError, ValueError):
        return False


def check_voice(voice: Callable[[str], np.ndarray], text: str = "two red balls") -> None:
    """Check the laws of a voice, a plugin of the group `devmind.voices`: words to sound.

    Raises:
        BrokenLawError: the first law that does not hold, with what was found.
    """
    sound, law = voice(text), "a voice gives sound, float32 [C, S] within -1..1 at 16 kHz, and is heard"
    found = f"{getattr(sound, 'dtype', type(sound).__name__)} {list(getattr(sound, 'shape', ()))}"
    require(isinstance(sound, np.ndarray) and sound.dtype == np.float32 and sound.ndim == 2, law, found)
    require(bool(sound.size) and 0.01 < float(np.abs(sound).max()) <= 1.0, law, f"{found} of another loudness")
