"""A Batch is a plain dict of tensors and masks; these functions make one from Moments.

    batch["senses"][name]    [B, T, ...]  zeros where absent; sound of one ear beside sound of two has NaN in the second
    batch["present"][name]   bool [B, T]
    batch["first"]           bool [B, T]  this Moment opens an episode
    batch["valid"]           bool [B, T]  false where a shorter row was padded
    batch["reward"]          float32 [B, T]  received with this Moment
    batch["actions"][name]   optional: what was done in this Moment, by effector, [B, T, ...], zeros if nothing
    batch["acted"][name]     comes with `actions`: bool [B, T]
    batch["recalled"]        optional: senses [B, T, R, ...], present, age_s float32 [B, T, R], valid bool [B, T, R]

Lessons add their targets under further names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from devmind.errors import MomentError
from devmind.moment import SIGHT_SIZE, TICK_SAMPLES, Action, Moment, Sense

WORDS_BYTES = 64
BODY_SIZE = 16
RECALLED_BUDGET = 4
READOUT = "readout"
"""The name of a Moment's last token, beside those of the senses."""
RECALLED = "recalled"
"""The name of recalled memories in the tap "trunk:recalled"; they have RECALLED_BUDGET tokens at most, no encoder."""

Batch = dict[str, Any]
Recall = tuple[Mapping[str, Sense], float]
"""A remembered Moment's senses, and how long ago it was in seconds."""


def encode_words(text: str) -> np.ndarray:
    """UTF-8 bytes of `text`, zero-padded, uint8 [64]; "?" for half a character (a lone surrogate).

    Raises:
        MomentError: they are more than 64.
    """
    data = text.encode(errors="replace")
    if len(data) > WORDS_BYTES:
        raise MomentError(
            f"Sense 'words' may have up to {WORDS_BYTES} bytes in a tick; got {len(data)} ('{text[:20]}...'). Give it "
            "in several ticks, or as the sense 'text'."
        )
    return np.frombuffer(data.ljust(WORDS_BYTES, b"\0"), dtype=np.uint8)


def encode_text(text: str) -> np.ndarray:
    """UTF-8 bytes of `text`, uint8 [L], "?" for half a character (a lone surrogate).

    Raises:
        MomentError: one of them is zero, which marks a page's end in a batch.
    """
    if "\0" in text:
        raise MomentError(
            "Sense 'text' may not hold the character with number zero, which marks a page's end; take it out."
        )
    return np.frombuffer(text.encode(errors="replace"), dtype=np.uint8)


def pad_body(body: np.ndarray) -> np.ndarray:
    """`body` with its last dimension padded to 16 by NaN, which marks dimensions that this body does not have."""
    if body.shape[-1] > BODY_SIZE:
        raise MomentError(f"Sense 'body' may have up to {BODY_SIZE} dimensions; got {body.shape[-1]}.")
    pad = [(0, 0)] * (body.ndim - 1) + [(0, BODY_SIZE - body.shape[-1])]
    return np.pad(body, pad, constant_values=np.nan)


def _as_array(name: str, value: Sense) -> np.ndarray:
    if isinstance(value, str):
        return encode_text(value) if name == "text" else encode_words(value)
    if name == "body":
        return pad_body(value)
    return value if value.dtype in (np.uint8, np.int8) else value.astype(np.float32, copy=False)


def _with_ears(sound: np.ndarray, ears: int) -> np.ndarray:
    """Sound [C, S] beside sound of more ears: the ears that one ear lacks are NaN, so that it is still heard as one."""
    return np.pad(sound, ((0, ears - 1), (0, 0)), constant_values=np.nan) if len(sound) == 1 else sound


def is_one_ear(sound: Tensor) -> Tensor:
    """Which readings [..., C, S] are of one ear, bool [...]: C is 1, or the second ear is NaN (see `collate`)."""
    if sound.shape[-2] == 1:
        return torch.ones(sound.shape[:-2], dtype=torch.bool, device=sound.device)
    return sound[..., 1, :].isnan().all(-1)


def both_ears(sound: Tensor) -> Tensor:
    """Sound [..., C, S] with the ear of such readings in place of those that it lacks; other sound is unchanged."""
    if sound.shape[-2] == 1:
        return sound
    return torch.where(is_one_ear(sound)[..., None, None], sound[..., :1, :], sound)


def _stack(name: str, rows: Sequence[Sequence[Mapping[str, Sense]]], length: int) -> tuple[Tensor, Tensor]:
    """One sense of all rows as [B, T, ...] and its presence [B, T]."""
    found = [
        (b, t, _as_array(name, senses[name]))
        for b, row in enumerate(rows)
        for t, senses in enumerate(row)
        if name in senses and not (isinstance(senses[name], str) and senses[name] == "")
    ]
    present = torch.zeros(len(rows), length, dtype=torch.bool)
    if not found:
        return torch.zeros(len(rows), length, WORDS_BYTES, dtype=torch.uint8), present
    if name == "sound":
        ears = max(value.shape[0] for _, _, value in found)
        found = [(b, t, _with_ears(value, ears)) for b, t, value in found]
    if name == "text":
        widest = max(len(value) for _, _, value in found)
        found = [(b, t, np.pad(value, (0, widest - len(value)))) for b, t, value in found]
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
    """A payload as it is encoded, so that all in a batch have one size: sound is cut or padded to its last tick, and a
    picture is area-resized to 64 x 64.
    """
    brought, sound, sight = dict(senses), senses.get("sound"), senses.get("sight")
    if isinstance(sound, np.ndarray) and sound.shape[1] != TICK_SAMPLES:
        last = sound[:, -TICK_SAMPLES:]
        brought["sound"] = np.pad(last, ((0, 0), (TICK_SAMPLES - last.shape[1], 0)))
    if isinstance(sight, np.ndarray) and sight.shape[:2] != (SIGHT_SIZE, SIGHT_SIZE):
        planes = F.adaptive_avg_pool2d(torch.from_numpy(np.asarray(sight, np.float32)).movedim(-1, 0), SIGHT_SIZE)
        brought["sight"] = planes.round().byte().movedim(0, -1).contiguous().numpy()
    return brought


def collate_recalled(rows: Sequence[Sequence[Recall]]) -> Batch:
    """Recalled entries of each row, at most 4 a row, as senses [B, R, ...], present, age_s and valid."""
    rows = [list(row)[:RECALLED_BUDGET] for row in rows]
    batch = collate_senses([[senses for senses, _ in row] for row in rows])
    age_s = torch.zeros(batch["valid"].shape)
    for b, row in enumerate(rows):
        age_s[b, : len(row)] = torch.tensor([age for _, age in row])
    return {**batch, "age_s": age_s}


def collate(
    moments: Sequence[Sequence[Moment]],
    recalled: Sequence[Sequence[Sequence[Recall]]] | None = None,
    actions: Sequence[Sequence[Action]] | None = None,
) -> Batch:
    """B rows of consecutive Moments, with recalled entries and actions if given, as one Batch [B, T, ...].

    Raises:
        MomentError: a sense or an effector has different shapes among the Moments, or a body more than 16 dimensions.
    """
    batch = collate_senses([[moment.senses for moment in row] for row in moments])
    first = torch.zeros_like(batch["valid"])
    for b, row in enumerate(moments):
        first[b, : len(row)] = torch.tensor([moment.first for moment in row])
    batch["first"] = first
    batch["reward"] = torch.zeros(first.shape)
    for b, row in enumerate(moments):
        batch["reward"][b, : len(row)] = torch.tensor([moment.reward for moment in row], dtype=torch.float32)
    if actions is not None:
        batch |= collate_actions(actions, first.shape[1])
    if recalled is not None:
        length = first.shape[1]
        flat = [list(tick) for row in recalled for tick in [*row, *[[]] * (length - len(row))]]
        batch["recalled"] = map_tensors(collate_recalled(flat), lambda x: x.unflatten(0, (len(moments), length)))
    return batch


def collate_actions(rows: Sequence[Sequence[Action]], length: int) -> Batch:
    """What was done, as `actions` [B, T, ...] (float32, or int64 for choices) and `acted` bool [B, T] by effector.

    Raises:
        MomentError: an effector has different shapes.
    """
    batch: Batch = {"actions": {}, "acted": {}}
    for name in sorted({name for row in rows for action in row for name in action.effectors}):
        found = [
            (b, t, np.asarray(action.effectors[name]))
            for b, row in enumerate(rows)
            for t, action in enumerate(row)
            if name in action.effectors
        ]
        shapes = {value.shape for _, _, value in found}
        if len(shapes) > 1:
            raise MomentError(f"Effector '{name}' must have one shape in a batch; got {sorted(shapes)}.")
        dtype = torch.float32 if found[0][2].dtype.kind == "f" else torch.int64
        batch["actions"][name] = torch.zeros(len(rows), length, *found[0][2].shape, dtype=dtype)
        batch["acted"][name] = torch.zeros(len(rows), length, dtype=torch.bool)
        for b, t, value in found:
            batch["actions"][name][b, t] = torch.as_tensor(value)
            batch["acted"][name][b, t] = True
    return batch


def as_opening(moments: Sequence[Moment]) -> list[Moment]:
    """Consecutive Moments as a row of its own, whose first Moment begins an episode."""
    return [replace(moments[0], first=True), *moments[1:]]


def collate_tick(
    observation: Mapping[str, Any], first: np.ndarray | Tensor, reward: np.ndarray | Tensor | None = None
) -> Batch:
    """One tick of N worlds as a Batch with T = 1, without a copy where possible.

    Do not write to the arrays afterwards: the next tick is still compared with this tick's picture.

    Args:
        observation: arrays [N, ...] by sense; `words` and `text` are lists of N str, where "" is absent.
        first: bool [N]; reward: float [N], zeros by default.
    """
    n = len(first)
    earned = torch.zeros(n) if reward is None else torch.as_tensor(reward, dtype=torch.float32)
    senses: dict[str, Tensor] = {}
    present: dict[str, Tensor] = {}
    for name, value in observation.items():
        here = torch.ones(n, 1, dtype=torch.bool)
        if name in ("words", "text"):
            here = torch.tensor([[text != ""] for text in value])
            each = [encode_words(text) if name == "words" else encode_text(text) for text in value]
            value = np.stack([np.pad(one, (0, max(map(len, each)) - len(one))) for one in each])
        senses[name] = torch.as_tensor(_as_array(name, np.asarray(value)))[:, None]
        present[name] = here
    return {
        "senses": senses,
        "present": present,
        "first": torch.as_tensor(first, dtype=torch.bool)[:, None],
        "reward": earned[:, None],
        "valid": torch.ones(n, 1, dtype=torch.bool),
    }


def at_tick(batch: Batch, tick: int) -> Batch:
    """One Moment of a Batch [B, T, ...] as a Batch with T = 1; senses that no row has in it are left out."""
    now: Batch = map_tensors(batch, lambda value: value[:, tick : tick + 1])
    there = [name for name, here in now["present"].items() if bool(here.any())]
    return now | {part: {name: now[part][name] for name in there} for part in ("senses", "present")}


def one_tick(senses: Mapping[str, Tensor]) -> dict[str, Any]:
    """N unrelated Moments, senses [N, ...], as a Batch with T = 1."""
    return clip({name: value[:, None] for name, value in senses.items()})


def clip(senses: Mapping[str, Tensor]) -> dict[str, Any]:
    """N rows of T consecutive Moments, senses [N, T, ...], all present; the first one begins an episode."""
    n, ticks = next(iter(senses.values())).shape[:2]
    first = torch.zeros(n, ticks, dtype=torch.bool)
    first[:, 0] = True
    here = torch.ones(n, ticks, dtype=torch.bool)
    return {
        "senses": dict(senses),
        "present": {name: (value != 0).any(-1) if name == "words" else here for name, value in senses.items()},
        "first": first,
        "valid": here,
    }


def stack_ticks(ticks: Iterable[Mapping[str, Any]], names: Iterable[str] = ()) -> dict[str, Tensor]:
    """Arrays [N, ...] of T ticks, stacked by name as tensors [N, T, ...]; of the given names, or of all."""
    every = list(ticks)
    return {name: torch.from_numpy(np.stack([one[name] for one in every], 1)) for name in tuple(names) or every[0]}


def as_tensors(observation: Mapping[str, Any]) -> dict[str, Tensor]:
    """The observation of N worlds, senses [N, ...], as tensors; words become bytes [N, 64]."""
    tensors = {}
    for name, value in observation.items():
        if name == "words":
            tensors[name] = torch.stack([torch.from_numpy(encode_words(text).copy()) for text in value])
        else:
            tensors[name] = torch.from_numpy(pad_body(value) if name == "body" else value)
    return tensors


def map_tensors(tree: Any, function: Callable[..., Tensor]) -> Any:
    """`function` applied to every tensor of nested dicts."""
    if isinstance(tree, dict):
        return {key: map_tensors(value, function) for key, value in tree.items()}
    return function(tree) if isinstance(tree, Tensor) else tree


def to_device(batch: Batch, device: torch.device) -> Batch:
    """The batch with every tensor on `device`."""
    return map_tensors(batch, lambda x: x.to(device, non_blocking=True))
