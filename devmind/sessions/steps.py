"""One tick as messages on topics and back: the writer's and the reader's halves side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from devmind.errors import MomentError, SessionError
from devmind.moment import Action, Moment
from devmind.sessions.messages import decode, encode
from devmind.sessions.schemas import TICK, message_class

TICK_TOPIC = "/tick"
MOMENT_TOPIC, ACTION_TOPIC = "/moment/", "/action/"

Step = tuple[Moment, Action | None]


def encode_step(
    moment: Moment, action: Action | None, log_time_ns: int, names: Mapping[str, Sequence[str]]
) -> list[tuple[str, str, bytes]]:
    """(topic, schema, message) of every sense and effector; the tick's mark comes last, and without it they do not
    count.

    Args:
        names: names of the numbers of a sense or effector, if the source gives them.

    Raises:
        SessionError: a value is neither a numeric array nor a str.
    """
    effectors = action.effectors if action is not None else {}
    parts = [
        (topic + name, *encode(name, value, log_time_ns, names.get(name, ())))
        for topic, values in ((MOMENT_TOPIC, moment.senses), (ACTION_TOPIC, effectors))
        for name, value in values.items()
    ]
    mark = message_class(TICK)(
        time_s=moment.time_s,
        reward=moment.reward,
        first=moment.first,
        last=moment.last,
        terminal=moment.terminal,
        senses=list(moment.senses),
        acted=action is not None,
        effectors=list(effectors),
    )
    return [*parts, (TICK_TOPIC, TICK, mark.SerializeToString())]


def decode_step(mark: bytes, parts: Mapping[str, tuple[str, bytes]]) -> Step:
    """The pair given to `encode_step`, from its mark and topic -> (schema, message).

    Raises:
        SessionError: a message is missing or damaged.
    """
    from google.protobuf.message import DecodeError

    try:
        tick = message_class(TICK).FromString(mark)  # type: ignore[attr-defined]
        senses = {name: decode(*parts[MOMENT_TOPIC + name]) for name in tick.senses}
        effectors: dict[str, Any] = {name: decode(*parts[ACTION_TOPIC + name]) for name in tick.effectors}
        moment = Moment(tick.time_s, senses, tick.reward, tick.first, tick.last, tick.terminal)
    except KeyError as error:
        raise SessionError(f"A tick lacks its message on {error}.") from error
    except (DecodeError, MomentError) as error:
        raise SessionError(f"A tick cannot be read: {error}") from error
    return moment, Action(effectors) if tick.acted else None
