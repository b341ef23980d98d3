"""Show and tell: a thing in view or a sound gets a name, and is recognised a tick later.

This code joins the agent, which describes, and memory, which stores and fits. torch is imported only for describing, so
faults of a name or a file are reported before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from devmind.errors import StoreError
from devmind.memory import Entry, Key, Memory, Named, Names, Pointer, Strangers
from devmind.memory.entry import BEFORE, LOOKED, VIEWS
from devmind.memory.names import proper_name
from devmind.moment import TICK_HZ, Moment, Sense

if TYPE_CHECKING:
    from devmind.agent.encoders import EncoderHolder

EXAMPLE_TICKS = 5 * TICK_HZ
"""Longest example: the sound of its ticks, and its last picture."""
SHOWN = ("sight", "sound")
"""The senses of an example; a plugin's own senses are not part of it yet."""


def as_example(moments: Sequence[Moment]) -> Moment:
    """Consecutive Moments as one: the last picture, and all sound joined (with the number of ears of the last).

    Raises:
        StoreError: there is neither a picture nor a sound.
    """
    senses: dict[str, Sense] = {}
    pictures = [moment.senses["sight"] for moment in moments if "sight" in moment.senses]
    sounds = [s for moment in moments if isinstance(s := moment.senses.get("sound"), np.ndarray)]
    if pictures:
        senses["sight"] = pictures[-1]
    if sounds:
        senses["sound"] = np.concatenate([sound for sound in sounds if len(sound) == len(sounds[-1])], axis=1)
    if not senses:
        raise StoreError("There is no picture and no sound to give a name to; show or play something.")
    return Moment(moments[-1].time_s, senses)


def cut_examples(moments: Iterable[Moment]) -> list[Moment]:
    """The Moments of one file as examples of up to five seconds; a remainder counts if it has at least one second.

    Raises:
        StoreError: the file has neither a picture nor a sound.
    """
    every = list(moments)
    parts = [every[start : start + EXAMPLE_TICKS] for start in range(0, len(every), EXAMPLE_TICKS)]
    if len(parts) > 1 and len(parts[-1]) < TICK_HZ:
        parts.pop()
    shown = [part for part in parts if any(sense in moment.senses for moment in part for sense in SHOWN)]
    return [as_example(part) for part in shown or parts]


class ShowAndTell:
    """Teach, ask and forget names with one agent and one memory, from any thread.

    Creating it compares the memory's keys with the agent's encoders, and rebuilds the keys when the weights have
    changed.

    Args:
        rebuild: False never rebuilds: a caller that only asks must not take the memory from another agent that may be
            living with it now.

    Attributes:
        rebuilt: number of entries that got new keys in the last comparison.

    Raises:
        StoreError: with rebuild=False, keys of another agent's encoders.
    """

    def __init__(self, agent: EncoderHolder, memory: Memory, rebuild: bool = True) -> None:
        self.memory, self.names = memory, Names(memory, strangers=self._strangers)
        if not rebuild:
            _refuse_strange_keys(memory, _encoders(agent))
        self.rebuilt = self.refresh(agent)

    @property
    def hashes(self) -> dict[str, str]:
        """Hashes of the encoders that make keys, by sense."""
        return dict(self._describer[1])

    def refresh(self, agent: EncoderHolder) -> int:
        """Let another agent describe from here on; returns the number of entries with new keys.

        It takes as long as describing every entry.
        """
        # One assignment: no thread may describe with one agent's weights under the other's hashes.
        self._describer = agent, _encoders(agent)
        self.rebuilt = self.memory.rebuild(self.describe, self._describer[1])
        return self.rebuilt

    @property
    def agent(self) -> EncoderHolder:
        """The describing part: an agent, or its encoders alone."""
        return self._describer[0]

    def describe(self, senses: Mapping[str, Sense]) -> dict[str, Key]:
        """Keys with features of a payload's pictures and sounds."""
        from devmind.agent.describing import describe, describe_many
        from devmind.live.remembering.press import turns

        agent, encoders = self._describer
        shown = {sense: value for sense, value in senses.items() if sense in SHOWN}
        found = describe(agent, shown)
        keys = {sense: Key(what.vector, encoders[sense], what.features) for sense, what in found.items()}
        views, before, looked = senses.get(VIEWS), senses.get(BEFORE), senses.get(LOOKED)
        if "sight" in keys and isinstance(views, np.ndarray):
            every = [what.features for what in describe_many(agent, "sight", turns(views))]
            keys["sight"] = replace(keys["sight"], features=np.stack(every).mean(0))
        if "sight" in keys and isinstance(looked, np.ndarray):  # names use features, recall uses the vector
            keys["sight"] = replace(keys["sight"], vector=describe(agent, {"sight": looked})["sight"].vector)
        if "sight" in keys and isinstance(before, np.ndarray):
            rows = np.concatenate([what.features for what in describe_many(agent, "sight", list(before))])
            keys[BEFORE] = Key(keys["sight"].vector, encoders[BEFORE], rows)
        return keys

    def _strangers(self, sense: str, encoder: str) -> Strangers | None:
        from devmind.live.remembering.strangers import strangers

        agent, encoders = self._describer
        return strangers(agent, sense) if encoders.get(sense) == encoder else None

    def teach(self, name: str, example: Moment, pointer: Pointer | None = None) -> Entry:
        """Keep an example (of `as_example`) under a name. A name may be taught any number of times.

        Args:
            pointer: to its place in a recording.

        Raises:
            StoreError: the name is empty, longer than 64 bytes or has a line break, or the agent has no such sense.
        """
        name = proper_name(name)
        keys = self.describe(example.senses)
        if not keys:
            raise StoreError(
                f"This agent has no sense for {' or '.join(example.senses)}; take one that was raised with it."
            )
        return self.memory.write(example, keys, importance=1.0, name=name, pointer=pointer)

    def ask(self, example: Moment, refit: bool = True, above: np.ndarray | None = None) -> dict[str, Named]:
        """The answer for an example, by sense; empty for a sense in which no name was taught.

        Args:
            refit: see `Names.ask`.
            above: the crop above the one of `example` (`Holding.above`); the surer answer of the two is given.
        """
        if refit:
            self.names.fit()
        known = {sense: value for sense, value in example.senses.items() if sense in self.names.encoders}
        named = self.names.ask(self.describe(known), refit=False)
        if above is not None and "sight" in named:
            # Another thread may have refitted meanwhile, without a forgotten name.
            other = self.names.ask(self.describe({"sight": above}), refit=False).get("sight", named["sight"])
            named["sight"] = max(named["sight"], other, key=lambda answer: answer.confidence)
        return named

    def strange_names(self) -> set[str]:
        """Senses whose names were last fitted on keys of another agent's encoders."""
        encoders = self._describer[1]
        return {sense for sense, encoder in self.names.encoders.items() if encoders.get(sense) != encoder}

    def forget(self, name: str, tell: Callable[[str], object] = str) -> int:
        """See `Names.forget`."""
        return self.names.forget(name, tell)


def _encoders(agent: EncoderHolder) -> dict[str, str]:
    """The encoders that make keys, by sense; the scene before is described as sight is."""
    from devmind.agent.describing import encoder_hashes

    hashes = encoder_hashes(agent)
    return hashes | ({BEFORE: hashes["sight"]} if "sight" in hashes else {})


def _refuse_strange_keys(memory: Memory, encoders: Mapping[str, str]) -> None:
    for sense, held in memory.index.update().senses.items():
        if encoders.get(sense, held.encoder) != held.encoder:
            raise StoreError(
                f"This memory is another agent's: its keys of '{sense}' are by {held.encoder[:8]}, this agent's by "
                f"{encoders[sense][:8]}. Ask with that agent, or rebuild all keys (devmind memory check --keys-of "
                "DIR); then that agent stores nothing more in it until it is restarted."
            )
