"""Words from frames: connectionist temporal classification (Graves et al. 2006, ICML) over whole words.

A head gives 20 frames a second, each a known word or nothing. A word that continues counts once; nothing between two
equal words makes them two. The classes are words and not letters, because English is not written as it is spoken, and
letters needed ten times the steps to begin to be learned (docs/log.md, 2026-11-25).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from stages.voice.caregiver.speech import NAMING_WORDS, WORDS

BLANK = 0
KNOWN = ("", *WORDS, *NAMING_WORDS)
"""The classes of a frame; the first is nothing."""
_NUMBER = {word: number for number, word in enumerate(KNOWN)}


def word_numbers(text: str) -> list[int]:
    """The numbers of a text's words. An unknown word is a KeyError."""
    return [_NUMBER[word] for word in text.split()]


def read_off(logits: Tensor, counts: Sequence[int] | Tensor) -> list[str]:
    """Texts decoded from the likeliest class of each frame: logits [N, L, W], of which `counts` frames are read."""
    best = logits.argmax(-1).cpu().numpy()
    return [" ".join(KNOWN[word] for word in join_frames(row[: int(n)])) for row, n in zip(best, counts, strict=True)]


def join_frames(frames: np.ndarray, before: int = BLANK) -> list[int]:
    """The words of frames int64 [L], without continuations and without BLANK; `before` is the frame before."""
    kept = (frames != np.concatenate(([before], frames[:-1]))) & (frames != BLANK)
    return [int(word) for word in frames[kept]]


def ctc(logits: Tensor, counts: Tensor, texts: Sequence[str]) -> Tensor:
    """The CTC loss of each row [N] of logits [N, L, W] for `texts`, in nats; inf, with gradients of 0, if a text needs
    more frames.
    """
    words = [word_numbers(text) for text in texts]
    lengths = torch.tensor([len(one) for one in words])
    needed = torch.tensor([len(one) + sum(a == b for a, b in pairwise(one)) for one in words])
    target, shares = torch.tensor([word for one in words for word in one]), logits.float().log_softmax(-1)
    losses = F.ctc_loss(
        shares.transpose(0, 1).cpu(), target, counts.cpu(), lengths, BLANK, reduction="none", zero_infinity=True
    )
    return torch.where(needed <= counts.cpu(), losses, torch.inf)


def likeliest(logits: Tensor, counts: Tensor, words: Sequence[str]) -> np.ndarray:
    """Which of `words` is the likeliest by logits [N, L, W], int64 [N]."""
    losses = torch.stack([ctc(logits, counts, [word] * len(logits)) for word in words])
    return losses.argmin(0).numpy()


def errors(got_words: Sequence[object], target: Sequence[object]) -> int:
    """The edit distance from `target` to `got_words` (Levenshtein 1966)."""
    row = list(range(len(got_words) + 1))
    for i, wanted in enumerate(target, 1):
        above, row[0] = row[0], i
        for j, got in enumerate(got_words, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (wanted != got))
    return row[-1]


def word_error_rate(text: str, target: str) -> float:
    """The edit distance in words, divided by the number of words that were meant."""
    return errors(text.split(), target.split()) / max(1, len(target.split()))
