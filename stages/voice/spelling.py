"""Words as signs, and signs as words: connectionist temporal classification (Graves et al. 2006, ICML).

A head gives 40 frames a second, each a sign or nothing; a sign that goes on is one, and nothing between two makes them
two.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

BLANK = 0
SIGNS = ("", " ", *"abcdefghijklmnopqrstuvwxyz")
"""What a frame may be; the first is nothing."""
_NUMBER = {sign: number for number, sign in enumerate(SIGNS)}


def spelt(text: str) -> list[int]:
    """The numbers of a text's signs; KeyError of one that is none."""
    return [_NUMBER[sign] for sign in text]


def read_off(logits: Tensor, counts: Sequence[int] | Tensor) -> list[str]:
    """The likeliest sign of each frame, one after another, as a text: logits [N, L, 28], of which `counts` frames."""
    best = logits.argmax(-1).cpu().numpy()
    return ["".join(SIGNS[s] for s in joined(row[: int(n)])).strip() for row, n in zip(best, counts, strict=True)]


def joined(frames: np.ndarray, before: int = BLANK) -> list[int]:
    """Signs int64 [L] of frames without those that only go on, and without nothing; `before` is the frame before."""
    kept = (frames != np.concatenate(([before], frames[:-1]))) & (frames != BLANK)
    return [int(sign) for sign in frames[kept]]


def ctc(logits: Tensor, counts: Tensor, texts: Sequence[str]) -> Tensor:
    """Nats a row [N] by which logits [N, L, 28] miss `texts`; 'inf' where there are too few frames for it."""
    signs = [spelt(text) for text in texts]
    lengths = torch.tensor([len(one) for one in signs])
    target = torch.tensor([sign for one in signs for sign in one])
    return F.ctc_loss(
        logits.float().log_softmax(-1).transpose(0, 1).cpu(), target, counts.cpu(), lengths, BLANK, reduction="none"
    )


def likeliest(logits: Tensor, counts: Tensor, words: Sequence[str]) -> np.ndarray:
    """Which of `words` logits [N, L, 28] fit best, int64 [N]."""
    losses = torch.stack([ctc(logits, counts, [word] * len(logits)) for word in words])
    return losses.argmin(0).numpy()


def errors(said: Sequence[object], meant: Sequence[object]) -> int:
    """How many of `meant` have to be put in, left out or changed to get `said` (Levenshtein 1966)."""
    row = list(range(len(said) + 1))
    for i, wanted in enumerate(meant, 1):
        above, row[0] = row[0], i
        for j, got in enumerate(said, 1):
            above, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, above + (wanted != got))
    return row[-1]


def word_error_rate(said: str, meant: str) -> float:
    """Errors in words, by the number of words that were meant."""
    return errors(said.split(), meant.split()) / max(1, len(meant.split()))
