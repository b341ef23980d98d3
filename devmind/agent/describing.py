"""What long-term memory stores of an example: one key for each sense, and finer features on which names are fitted.

A key is short (64 numbers), so that millions can be searched. It averages a picture's sixteen tokens and so loses the
places of its parts, by which digits differ. Names are fitted on few examples, so their features can be longer: all
tokens and the colours of a picture, the ear's hidden layer and the log-mel over time of a sound. Figures: docs/log.md,
"Show and tell".
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from operator import itemgetter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, Self

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent import saving
from devmind.agent.batch import collate_senses, last_tick
from devmind.agent.encoders import Encoded, EncoderHolder, attempt
from devmind.agent.timbre import timbre
from devmind.moment import TICK_SAMPLES, Sense

VERSION = 5
"""Version of what `describe` computes; it is part of the hash, so that old keys are rebuilt after a change."""
COLOURS = 5 * 16 * 16
"""Number of a picture's last features: square roots of the share of each colour, a vector of length 1."""
QUIET_DB = 35.0
"""Ticks at the ends of a sound that are more than this far below its loudest tick are left out as silence."""


class Description(NamedTuple):
    """Of one sense: the key `vector`, float32 [64] of length 1, and `features` float32 [F], where F varies by sense."""

    vector: np.ndarray
    features: np.ndarray


class Describer(EncoderHolder):
    """The encoders of a saved agent without its other parts; it describes exactly as that agent does.

    Attributes:
        device: always the CPU.
    """

    device = torch.device("cpu")

    def __init__(self, config: Mapping[str, Any]) -> None:
        """Build the encoders named in an agent's `config.json`; one whose plugin is missing is left out."""
        super().__init__()
        self.config = SimpleNamespace(width=config["width"], seed=config["seed"])
        self.encoders = nn.ModuleDict()
        for entry in config["encoders"]:
            attempt(self.build_encoder, entry)
        self.add_key_projection()

    @classmethod
    def from_pretrained(cls, folder: Path) -> Self:
        """The Describer of the agent saved in `folder`, in eval mode.

        Raises:
            CheckpointError: a file is missing or damaged, or of a newer version.
        """
        config, folders = saving.read_config(folder), saving.folders_of(folder)
        with saving.as_large_as_saved(folder, config, folders):
            describer = cls(config)
        saving.fill(describer, saving.read_tensors(folder, tuple(describer.state_dict()), folders), folder)
        return describer.eval()


def describe(agent: EncoderHolder, senses: Mapping[str, Sense]) -> dict[str, Description]:
    """Key and features of each of the `senses` that the agent has an encoder for.

    No state or earlier Moment is used, so the same payload is always described in the same way. Sound [C, S] of any
    length is encoded tick by tick, without an incomplete last tick and without silence at its beginning and end.
    """
    described = {}
    for name in agent.sense_order:
        value = senses.get(name)
        if value is not None and not (isinstance(value, str) and value == ""):
            [described[name]] = describe_many(agent, name, [value])
    return described


@torch.no_grad()
def describe_many(agent: EncoderHolder, name: str, values: Sequence[Sense]) -> list[Description]:
    """Descriptions of one sense for many payloads at once; pictures must have one shape, sounds any length."""
    rows = [_ticks(name, value) for value in values]
    stacked = collate_senses([[last_tick({name: part}) for part in row] for row in rows])
    encoded = agent.encode_senses(stacked["senses"], stacked["present"])[name]
    descriptions = []
    for number, row in enumerate(rows):
        own = encoded.map(itemgetter((number, slice(len(row)))))
        vector = F.normalize(agent.key(own).mean(0), dim=-1).cpu().numpy()
        features = (_mean(own) if agent.encoder(name).streams else _features(own)).float()
        if name == "sound":
            sound = np.concatenate([np.asarray(tick, np.float32) for tick in row], axis=1).mean(0)
            features = torch.cat((features, torch.from_numpy(timbre(sound)).to(features.device)))
        if name == "sight":
            features = torch.cat((features, _colours(np.asarray(values[number])).to(features.device)))
        descriptions.append(Description(vector, features.cpu().numpy()))
    return descriptions


def encoder_hashes(agent: EncoderHolder) -> dict[str, str]:
    """By sense, a hash of what its keys are computed with (encoder weights and projection), 32 hexadecimal digits."""
    tensors = agent.state_dict()

    def made_of(prefix: str) -> str:
        return saving.hash_tensors({name: value for name, value in tensors.items() if name.startswith(prefix)})

    projection = made_of("key_projection")
    texts = {sense: f"{VERSION} {projection} {made_of(f'encoders.{sense}.')}" for sense in agent.sense_order}
    return {sense: hashlib.sha256(text.encode()).hexdigest()[:32] for sense, text in texts.items()}


def _ticks(name: str, value: Sense) -> Sequence[Sense]:
    """A sound as its ticks [C, 1600], from the first loud one to the last; other values unchanged."""
    if name != "sound" or isinstance(value, str) or value.shape[1] < 2 * TICK_SAMPLES:
        return [value]
    whole = value.shape[1] // TICK_SAMPLES
    ticks = np.split(value[:, : whole * TICK_SAMPLES], whole, axis=1)
    power = np.array([np.mean(np.square(tick, dtype=np.float64)) for tick in ticks])
    loud = np.flatnonzero(power >= power.max() * 10 ** (-QUIET_DB / 10))
    return ticks[loud[0] : loud[-1] + 1]


def _features(encoded: Encoded) -> Tensor:
    """Features [F] of a sense over T ticks: its mean tokens; for sound mean, deviation and change of hidden frames."""
    if "hidden" not in encoded.maps:
        return encoded.tokens.mean(0).flatten()
    frames = encoded.maps["hidden"].squeeze(2).transpose(1, 2).flatten(0, 1)
    change = frames.diff(dim=0).abs().mean(0)
    return torch.cat((frames.mean(0), frames.std(0, correction=0), change))


def _mean(encoded: Encoded) -> Tensor:
    """The mean token [D] of a sense with any number of tokens."""
    return encoded.tokens[encoded.present].mean(0)


def _colours(picture: np.ndarray) -> Tensor:
    """Square roots of the share of each colour in a picture [H, W, 3], float32 [1280] (CIE Lab, 5 x 16 x 16 bins).

    A colour stays the same when a thing is turned or comes nearer (Swain and Ballard 1991, "Color indexing"). The
    middle is weighted and the corners, which show the ground, are not. The inner product of two such vectors is the
    Bhattacharyya coefficient.
    """
    import cv2

    whole = picture if picture.dtype == np.uint8 else np.clip(255 * picture, 0, 255).astype(np.uint8)
    height, width = whole.shape[:2]
    lab = cv2.cvtColor(whole, cv2.COLOR_RGB2LAB).reshape(-1, 3)
    y, x = np.mgrid[-1 : 1 : height * 1j, -1 : 1 : width * 1j]
    weight = np.clip((1.1 - np.hypot(x, y)) / 0.35, 0, 1).ravel()
    place = (np.minimum(lab[:, 0] // 52, 4).astype(int) * 16 + lab[:, 1] // 16) * 16 + lab[:, 2] // 16
    shares = np.bincount(place, weight, COLOURS) / weight.sum()
    return torch.from_numpy(np.sqrt(shares)).float()
