"""A Batch is a plain dict of tensors and masks; these functions make one from Moments.

    batch["senses"][name]    [B, T, ...]  zeros where absent
    batch["present"][name]   bool [B, T]
    batch["first"]           bool [B, T]  this Moment opens an episode
    batch["valid"]           bool [B, T]  false where a shorter row was padded
    batch["recalled"]        optional: senses [B, T, R, ...], present, age_s float32 [B, T, R], valid bool [B, T, R]

Lessons add their targets under further names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from devmind.errors import MomentError
from devmind.moment import TICK_SAMPLES, Moment, Sense

WORDS_BYTES = 64
BODY_SIZE = 16
RECALLED_BUDGET = 4

Batch = dict[str, Any]
Recall = tuple[Mapping[str, Sense], float]
"""A remembered Moment's senses, and how long ago it was in seconds."""


def encode_words(text: str) -> np.ndarray:
    """UTF-8 bytes of `text`, cut at a whole character, zero-padded, uint8 [64]."""
    data = text.encode()[:WORDS_BYTES].decode(errors="ignore").encode()
    return np.frombuffer(data.ljust(WORDS_BYTES, b"\0"), dtype=np.uint8)


def pad_body(body: np.ndarray) -> np.ndarray:
    """The last dimension of `body` padded to 16 with NaN, the mark of a dimension this body does not have."""
    if body.shape[-1] > BODY_SIZE:
        raise MomentError(f"Sense 'body' may have up to {BODY_SIZE} dimensions; got {body.shape[-1]}.")
    pad = [(0, 0)] * (body.ndim - 1) + [(0, BODY_SIZE - body.shape[-1])]
    return np.pad(body, pad, constant_values=np.nan)


def _as_array(name: str, value: Sense) -> np.ndarray:
    if isinstance(value, str):
        return encode_words(value)
    if name == "body":
        return pad_body(value)
    return value if value.dtype in (np.uint8, np.int8) else value.astype(np.float32, copy=False)


def _stack(name: str, rows: Sequence[Sequence[Mapping[str, Sense]]], length: int) -> tuple[Tensor, Tensor]:
    """One sense of all rows as [B, T, ...] and its presence [B, T]."""
    found = [
        (b, t, _as_array(name, senses[name]))
        for b, row in enumerate(rows)
        for t, senses in enumerate(row)
        if name in senses and not (name == "words" and senses[name] == "")
    ]
    present = torch.zeros(len(rows), length, dtype=torch.bool)
    if not found:
        return torch.zeros(len(rows), length, WORDS_BYTES, dtype=torch.uint8), present
    if name == "sound":
        ears = max(value.shape[0] for _, _, value in found)
        found = [(b, t, np.repeat(value, ears // value.shape[0], axis=0)) for b, t, value in found]
    shapes = {value.shape for _, _, value in found}
    if len(shapes) > 1:
        raise MomentError(f"Sense '{name}' must have one shape in a batch; got {sorted(shapes)}. Batch them apart.")
    stacked = np.zeros((len(rows), length, *found[0][2].shape), dtype=found[0][2].dtype)
    for b, t, value in found:
        stacked[b, t] = value
        present[b, t] = True
    return torch.from_numpy(stacked), present


def collate_senses(rows: Sequence[Sequence[Mapping[str, Sense]]]) -> Batch:
    """Rows of sense mappings as `senses`, `present` and `valid`; shorter rows are padded at their end."""
    length = max((len(row) for row in rows), default=0)
    names = sorted({name for row in rows for senses in row for name in senses})
    stacked = {name: _stack(name, rows, length) for name in names}
    valid = torch.arange(length)[None] < torch.tensor([len(row) for row in rows])[:, None]
    return {
        "senses": {name: pair[0] for name, pair in stacked.items()},
        "present": {name: pair[1] for name, pair in stacked.items()},
        "valid": valid,
    }


def last_tick(senses: Mapping[str, Sense]) -> dict[str, Sense]:
    """A payload as a token is made of it: of a longer sound the last tick, as all in a batch must be of one length."""
    sound = senses.get("sound")
    if isinstance(sound, np.ndarray) and sound.shape[1] != TICK_SAMPLES:
        last = sound[:, -TICK_SAMPLES:]
        return {**senses, "sound": np.pad(last, ((0, 0), (TICK_SAMPLES - last.shape[1], 0)))}
    return dict(senses)


def collate_recalled(rows: Sequence[Sequence[Recall]]) -> Batch:
    """Recalled entries of each row, at most 4 a row, as senses [B, R, ...], present, age_s and valid."""
    rows = [list(row)[:RECALLED_BUDGET] for row in rows]
    batch = collate_senses([[senses for senses, _ in row] for row in rows])
    age_s = torch.zeros(batch["valid"].shape)
    for b, row in enumerate(rows):
        age_s[b, : len(row)] = torch.tensor([age for _, age in row])
    return {**batch, "age_s": age_s}


def collate(moments: Sequence[Sequence[Moment]], recalled: Sequence[Sequence[Sequence[Recall]]] | None = None) -> Batch:
    """B rows of consecutive Moments (and what was recalled for each) as one Batch [B, T, ...].

    Raises:
        MomentError: a sense has several shapes among the Moments, or a body more than 16 dimensions.
    """
    batch = collate_senses([[moment.senses for moment in row] for row in moments])
    first = torch.zeros_like(batch["valid"])
    for b, row in enumerate(moments):
        first[b, : len(row)] = torch.tensor([moment.first for moment in row])
    batch["first"] = first
    if recalled is not None:
        length = first.shape[1]
        flat = [list(tick) for row in recalled for tick in [*row, *[[]] * (length - len(row))]]
        batch["recalled"] = map_tensors(collate_recalled(flat), lambda x: x.unflatten(0, (len(moments), length)))
    return batch


def as_opening(moments: Sequence[Moment]) -> list[Moment]:
    """Consecutive Moments as a row of their own: the first one opens an episode, what went before it was not seen."""
    return [replace(moments[0], first=True), *moments[1:]]


def collate_tick(observation: Mapping[str, Any], first: np.ndarray | Tensor) -> Batch:
    """One tick of N worlds as a Batch with T = 1, without a copy where possible.

    The arrays must not be written to afterwards: the next tick's eye still looks at this one's picture.

    Args:
        observation: arrays [N, ...] by sense; `words` a list of N str, where "" is absent.
        first: bool [N].
    """
    n = len(first)
    senses: dict[str, Tensor] = {}
    present: dict[str, Tensor] = {}
    for name, value in observation.items():
        here = torch.ones(n, 1, dtype=torch.bool)
        if name == "words":
            here = torch.tensor([[text != ""] for text in value])
            value = np.stack([encode_words(text) for text in value])
        senses[name] = torch.as_tensor(_as_array(name, np.asarray(value)))[:, None]
        present[name] = here
    return {
        "senses": senses,
        "present": present,
        "first": torch.as_tensor(first, dtype=torch.bool)[:, None],
        "valid": torch.ones(n, 1, dtype=torch.bool),
    }


def map_tensors(tree: Any, function: Any) -> Any:
    """`function` applied to every tensor of nested dicts."""
    if isinstance(tree, dict):
        return {key: map_tensors(value, function) for key, value in tree.items()}
    return function(tree) if isinstance(tree, Tensor) else tree


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The batch with every tensor on `device`."""
    return map_tensors(batch, lambda x: x.to(device, non_blocking=True))
