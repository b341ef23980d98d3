"""Sound as a row of words: connectionist temporal classification (Graves et al. 2006, ICML) over whole words.

A head gives 20 frames a second, each a word that is known or nothing; a word that goes on is one, and nothing between
two makes them two. Words, not letters: English is not written as it is spoken, and a letter a frame took ten times the
steps to begin to be learned (docs/log.md, 2026-11-25).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from stages.voice.caregiver.speech import NAMING_WORDS, WORDS

BLANK = 0
KNOWN = ("", *WORDS, *NAMING_WORDS)
"""What a frame may be; the first is nothing."""
_NUMBER = {word: number for number, word in enumerate(KNOWN)}


def numbered(text: str) -> list[int]:
    """The numbers of a text's words; KeyError of one that is not known."""
    return [_NUMBER[word] for word in text.split()]


def read_off(logits: Tensor, counts: Sequence[int] | Tensor) -> list[str]:
    """The likeliest word of each frame, one after another, as a text: logits [N, L, W], of which `counts` frames."""
    best = logits.argmax(-1).cpu().numpy()
    return [" ".join(KNOWN[word] for word in joined(row[: int(n)])) for row, n in zip(best, counts, strict=True)]


def joined(frames: np.ndarray, before: int = BLANK) -> list[int]:
    """Words int64 [L] of frames without those that only go on, and without nothing; `before` is the frame before."""
    kept = (frames != np.concatenate(([before], frames[:-1]))) & (frames != BLANK)
    return [int(word) for word in frames[kept]]


def ctc(logits: Tensor, counts: Tensor, texts: Sequence[str]) -> Tensor:
    """Nats a row [N] by which logits [N, L, W] miss `texts`; 'inf' where there are too few frames for it."""
    words = [numbered(text) for text in texts]
    lengths = torch.tensor([len(one) for one in words])
    target = torch.tensor([word for one in words for word in one])
    return F.ctc_loss(
        logits.float().log_softmax(-1).transpose(0, 1).cpu(), target, counts.cpu(), lengths, BLANK, reduction="none"
    )


def likeliest(logits: Tensor, counts: Tensor, words: Sequence[str]) -> np.ndarray:
    """Which of `words` logits [N, L, W] fit best, int64 [N]."""
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
