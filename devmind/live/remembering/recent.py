"""The last two seconds of the senses: the meaning of "this" when somebody gives a name.

A picture always shows something, but most of the time there is nothing to hear. Sound belongs to "this" only while it
is louder than usual in this room.
"""

from __future__ import annotations

from collections import deque
from dataclasses import replace

import numpy as np

from devmind.agent.features import level_db
from devmind.errors import StoreError
from devmind.live.remembering.show_and_tell import as_example
from devmind.moment import TICK_HZ, Moment

THIS_S = 2.0
SEEN_S = 0.5
"""An older picture is not of now."""
USUAL_S = 30.0
STANDS_OUT_DB = 10.0
QUIETEST_DB = -60.0
"""Anything softer is the microphone's own noise, however quiet the room."""
MEANT = {"auto": ("sight", "sound"), "seen": ("sight",), "heard": ("sound",), "both": ("sight", "sound")}


class RecentBuffer:
    """Remembers Moments for two seconds, and the usual loudness of the room."""

    def __init__(self, hz: float = TICK_HZ) -> None:
        self._moments: deque[Moment] = deque(maxlen=max(1, round(THIS_S * hz)))
        self._half_tick_s = 0.5 / hz
        self._heard: deque[float | None] = deque(maxlen=self._moments.maxlen)
        self._levels: deque[float] = deque(maxlen=max(1, round(USUAL_S * hz)))

    def add(self, moment: Moment) -> None:
        """Take a tick."""
        self._moments.append(moment)
        while (
            len(self._moments) > 1 and self._age_s(self._moments[0]) > THIS_S
        ):  # a slow machine lives few in that time
            self._moments.popleft()
            self._heard.popleft()
        sound = moment.senses.get("sound")
        level = level_db(sound) if isinstance(sound, np.ndarray) and sound.size else None
        self._heard.append(level)
        if level is not None:
            self._levels.append(level)

    def _age_s(self, moment: Moment) -> float:
        """Seconds from the start of a Moment's tick to the end of the last one's, less half a tick for rounding."""
        return self.now_s - moment.time_s + self._half_tick_s

    def _is_fresh(self, moment: Moment) -> bool:
        return moment is self._moments[-1] or self._age_s(moment) <= SEEN_S

    @property
    def now_s(self) -> float:
        """Time of the last Moment, on the room's clock; 0 before the first."""
        return self._moments[-1].time_s if self._moments else 0.0

    @property
    def since_s(self) -> float:
        """Time of the oldest remembered Moment; 0 without one."""
        return self._moments[0].time_s if self._moments else 0.0

    def stands_out(self) -> bool:
        """Whether something in the last two seconds was 10 dB louder than usual here."""
        loudest = max((level for level in self._heard if level is not None), default=None)
        if loudest is None:
            return False
        return loudest >= max(float(np.median(self._levels)) + STANDS_OUT_DB, QUIETEST_DB)

    def example(self, meant: str = "auto") -> Moment:
        """The last two seconds as one example.

        Args:
            meant: "seen", "heard", "both"; "auto" takes the sound only when it stands out.

        Raises:
            StoreError: the meant sense has nothing.
        """
        if meant not in MEANT:
            raise StoreError(f"A name is given to one of {', '.join(MEANT)}; got '{meant}'.")
        senses = [s for s in MEANT[meant] if not (meant == "auto" and s == "sound" and not self.stands_out())]
        shown = [
            replace(m, senses={s: m.senses[s] for s in senses if s in m.senses and (s != "sight" or self._is_fresh(m))})
            for m in self._moments
        ]
        if not any(moment.senses for moment in shown):
            what = {"sight": "no picture", "sound": "no sound"}
            raise StoreError(
                f"There was {' and '.join(what[s] for s in senses) or 'nothing'} in the last {THIS_S:g} seconds to "
                "give a name to; show or play something, then name it."
            )
        return as_example(shown)
