"""Files for teaching, naming or recall: read, checked, and cut into examples."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from devmind.errors import SessionError, StoreError
from devmind.live.remembering.show_and_tell import cut_examples
from devmind.moment import Moment
from devmind.sessions.media import media_moments

SILENCE = 1e-3
"""A sound in which no sample is above this part of full scale (-60 dB) is silence: there is nothing to know again."""


def examples_in(file: Path, warnings: list[str]) -> list[Moment]:
    """The examples of one file (see `cut_examples`), without silent sounds; sentences go to `warnings`.

    Raises:
        SessionError: the file cannot be read, or has neither pictures nor sound.
    """
    try:
        every = cut_examples(media_moments(file, warnings=warnings))
    except StoreError as error:
        raise SessionError(f"'{file}': {error}") from error
    silent = [example for example in every if _is_silent(example)]
    audible = [_without_sound(example) if _is_silent(example) else example for example in every]
    examples = [example for example in audible if example.senses]
    level = f"no sample is above {SILENCE:g} of full scale (-60 dB)"
    if not examples:
        raise SessionError(f"'{file}' is silent: {level}; give a sound that can be heard.")
    if silent:
        warnings.append(f"{len(silent)} of {len(every)} examples of '{file}' are silent ({level}); they are left out.")
    return examples


def _is_silent(example: Moment) -> bool:
    sound = example.senses.get("sound")
    return isinstance(sound, np.ndarray) and not (np.abs(sound) > SILENCE).any()


def _without_sound(example: Moment) -> Moment:
    return replace(example, senses={sense: value for sense, value in example.senses.items() if sense != "sound"})
