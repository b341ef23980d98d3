"""A sequence-to-sequence head that writes the words of an utterance one after another (Chan et al. 2016, "Listen,
attend and spell", arXiv 1508.01211), beside the head that tells words frame by frame.

Its body runs over the ear's tokens or over the trunk's features of them. Each word is predicted from the words before
it and from the last 3.2 s of the body's features, until the end is predicted. So it writes a whole utterance, and
forgets words that are further back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Output, masked_mean
from devmind.agent.rows import Carry, Leaf
from devmind.agent.taps import Tapped
from stages.voice.arc import in_order
from stages.voice.bodies import DEFAULT, body
from stages.voice.transcript import BLANK, KNOWN, ctc, word_numbers

HEARD = 64
"""Tokens that it looks back at: 3.2 s."""
ATTENTION_HEADS = 4
LONGEST = 4
"""Words, at most. `transcript.BLANK` stands in front of the first word and behind the last."""
BY_FRAMES = 0.3
"""Weight of the CTC loss frame by frame, which finds out where words are (Watanabe et al. 2017, "Hybrid CTC/attention
architecture", doi 10.1109/JSTSP.2017.2763455)."""


@dataclass
class Written(Output):
    """What can be written from features `heard` [B, HEARD - 1 + T K, H], of which those `here` [B, ...] are present.

    Attributes:
        moments: T, of a batch; None in a tick.
        frames: logits [B, T K, W] of a word or nothing for each token, by which the body is taught too.
        counts: int64 [B, T], of a batch with Moments in which nothing was heard: how many were heard up to each. Its
            tokens are in the order of `in_order`.
    """

    by: WrittenHead
    heard: Tensor
    here: Tensor
    moments: int | None
    frames: Tensor
    counts: Tensor | None = None

    def window(self, ends: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The last features [B, HEARD, H] before token `ends` int64 [B] of each row, by default before its end, and
        which of them are present, bool [B, HEARD].
        """
        if ends is None:
            return self.heard[:, -HEARD:], self.here[:, -HEARD:]
        at = (ends[:, None] - 1 + torch.arange(HEARD)).to(self.heard.device)
        rows = torch.arange(len(at), device=at.device)[:, None]
        return self.heard[rows, at], self.here[rows, at]

    def words(self, ends: Tensor | None = None) -> Tensor:
        """Greedy decoding: int64 [B, LONGEST], BLANK behind the last word."""
        return self.by.write(*self.window(ends))

    def nats(self, texts: Sequence[str], ends: Tensor | None = None) -> Tensor:
        """Minus the log probability of each row's text and its end, [B]."""
        return self.missed(targets(texts).to(self.heard.device), ends)

    def missed(self, letters: Tensor, ends: Tensor | None = None) -> Tensor:
        """The same of `targets` int64 [B, N]."""
        logits = self.by.foretold(*self.window(ends), letters[:, :-1])
        each = F.cross_entropy(logits.transpose(1, 2), letters[:, 1:], reduction="none")
        return (each * counting_words(letters)).sum(1)

    def mode(self) -> Tensor:
        """What is written at the end of each Moment, int64 [..., LONGEST]."""
        if self.moments is None:
            return self.words()
        return torch.stack([self.words(ends) for ends in self._ends()], 1)

    def loss(self, target: Tensor, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Mean nats of words `target` [..., LONGEST] at each Moment's end, and the CTC loss of the last ones."""
        letters, last = F.pad(target, (1, 1), value=BLANK), target if self.moments is None else target[:, -1]
        if self.moments is None:
            by_writing = masked_mean(self.missed(letters), mask)
        else:
            each = [self.missed(letters[:, t], ends) for t, ends in enumerate(self._ends())]
            by_writing = masked_mean(torch.stack(each, 1), mask)
        by_frames = ctc(self.frames, self._ends()[-1], texts_of(last)).clamp_max(50.0).mean().to(by_writing.device)
        return (1.0 - BY_FRAMES) * by_writing + BY_FRAMES * by_frames

    def _ends(self) -> list[Tensor]:
        """The number of tokens heard up to the end of each Moment of a batch, int64 [B] each; before the first one that
        is heard those of one Moment, as something has to be looked at.
        """
        moments = self.moments or 1
        each = self.frames.shape[1] // moments
        if self.counts is None:
            return [torch.full((len(self.heard),), each * (t + 1)) for t in range(moments)]
        return list((each * self.counts.clamp_min(1)).cpu().unbind(1))

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return self.mode()


class WrittenHead(Head):
    """A body, and one decoder layer (Vaswani et al. 2017): attention to the words before, then to what was heard.

    The frame-by-frame prediction of each token is added to its feature (Nozaki and Komatsu 2021, arXiv 2104.02724), so
    the decoder only has to copy a word that was recognised there.

    Args:
        words: the number of classes, BLANK among them; kind: of the body.
    """

    def __init__(self, inlet: Inlet, words: int, hidden: int | None = None, kind: str = DEFAULT) -> None:
        super().__init__(inlet)
        hidden = hidden or max(16, inlet.width)
        self.memory, self.frames = body(kind, inlet.width, hidden), nn.Linear(hidden, words)
        self.ages = nn.Parameter(0.1 * torch.randn(HEARD, hidden))
        """Embeddings of how long ago a token was heard: the decoder has to find the next word behind the last."""
        self.shows = nn.Linear(hidden, 2 * hidden)
        self.known, self.places = nn.Embedding(words, hidden), nn.Parameter(0.5 * torch.randn(LONGEST + 1, hidden))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(3))
        self.asks = nn.ModuleList(nn.Linear(hidden, hidden) for _ in range(2))
        self.before, self.out = nn.Linear(hidden, 2 * hidden), nn.Linear(hidden, hidden)
        self.net = nn.Sequential(nn.Linear(hidden, 2 * hidden), nn.GELU(), nn.Linear(2 * hidden, hidden))
        self.answer = nn.Linear(hidden, words)
        of_body = {f"body {name}": leaf for name, leaf in self.memory.carry_spec.items()}
        self.carry_spec = {**of_body, "heard": Leaf((HEARD - 1, hidden)), "here": Leaf((HEARD - 1,))}

    def forward(self, tapped: Tapped, carry: Carry) -> tuple[Written, Carry]:
        row, lead, places = in_order(tapped)
        features, of_body = self.memory.over(row, {name: carry[f"body {name}"] for name in self.memory.carry_spec})
        frames = self.frames(features)
        features = features + frames.softmax(-1) @ self.known.weight
        heard = torch.cat((carry["heard"].to(features.dtype), features), 1)
        here = torch.cat((carry["here"] > 0, torch.ones_like(features[..., 0], dtype=torch.bool)), 1)
        moments = lead[1] if len(lead) > 2 else None
        counts = None if places is None else tapped.present.any(-1).cumsum(1)
        carry = {f"body {name}": value for name, value in of_body.items()}
        carry |= {"heard": heard[:, 1 - HEARD :], "here": here[:, 1 - HEARD :].float()}
        return Written(self, heard, here, moments, frames, counts), carry

    def foretold(self, heard: Tensor, here: Tensor, words: Tensor) -> Tensor:
        """Logits [B, N, W] of the word behind each of `words` int64 [B, N], the first of which is BLANK."""
        n = words.shape[1]
        before = torch.ones(n, n, dtype=torch.bool, device=words.device).tril()
        asked = self.known(words) + self.places[:n]
        return self._layer(asked, self.before(self.norms[0](asked)), before, self.shown(heard), here)

    def shown(self, heard: Tensor) -> Tensor:
        """Keys and values [B, HEARD, 2 H] of what was heard."""
        return self.shows(heard + self.ages)

    def write(self, heard: Tensor, here: Tensor) -> Tensor:
        """Greedy decoding for `Written.words`; keys and values of what was heard and of words are computed once."""
        shown, cache = self.shown(heard), heard.new_zeros(len(heard), 0, 2 * heard.shape[-1])
        word, letters = torch.full((len(heard),), BLANK, device=heard.device), list[Tensor]()
        for place in range(LONGEST):
            asked = (self.known(word) + self.places[place])[:, None]
            cache = torch.cat((cache, self.before(self.norms[0](asked))), 1)
            word = self._layer(asked, cache, None, shown, here)[:, 0].argmax(-1)
            if letters:
                word = torch.where(letters[-1] == BLANK, BLANK, word)
            letters.append(word)
        return torch.stack(letters, 1)

    def _layer(self, asked: Tensor, words: Tensor, before: Tensor | None, shown: Tensor, here: Tensor) -> Tensor:
        asked = asked + attend(self.asks[0](self.norms[0](asked)), words, before)
        looked = attend(self.asks[1](self.norms[1](asked)), shown, here[:, None, None])
        asked = asked + self.out(looked)
        return self.answer(asked + self.net(self.norms[2](asked)))


def targets(texts: Sequence[str]) -> Tensor:
    """Texts as words int64 [N, 2 + the longest], BLANK in front and behind; an unknown word is a KeyError.

    A text of more than LONGEST words is cut there.
    """
    rows = [word_numbers(text)[:LONGEST] for text in texts]
    most = max(map(len, rows), default=0)
    return torch.tensor([[BLANK, *row, *[BLANK] * (most + 1 - len(row))] for row in rows], dtype=torch.int64)


def counting_words(letters: Tensor) -> Tensor:
    """Which words after the first of `targets` count, bool [N, L - 1]: the text's own, and one end if there is room."""
    letters = letters[:, 1:]
    ended = (letters == BLANK).cumsum(1) > 1
    return ~ended & (torch.arange(letters.shape[1], device=letters.device) < LONGEST)


def attend(asks: Tensor, keys_values: Tensor, mask: Tensor | None = None) -> Tensor:
    """Attention of queries [B, L, H] to keys and values side by side, [B, S, 2 H], with four heads: [B, L, H].

    Args:
        mask: numbers that are added to the scores, or bool, what may be seen; broadcast to [B, 4, L, S].
    """
    split = lambda x: x.unflatten(-1, (ATTENTION_HEADS, -1)).transpose(1, 2)  # noqa: E731
    keys, values = keys_values.chunk(2, -1)
    mixed = F.scaled_dot_product_attention(split(asks), split(keys), split(values), mask)
    return mixed.transpose(1, 2).flatten(-2)


def nats_per_word(written: Written, texts: Sequence[str], counts: Tensor) -> Tensor:
    """Nats a word of `texts` in the first `counts` [N] tokens of each row, written and by CTC."""
    words = torch.tensor([1 + len(text.split()) for text in texts])
    by_writing = (written.nats(texts, counts) / words.to(written.heard.device)).mean()
    by_frames = (ctc(written.frames, counts, texts) / words).clamp_max(50.0).mean().to(written.heard.device)
    return (1.0 - BY_FRAMES) * by_writing + BY_FRAMES * by_frames


def texts_of(words: Tensor) -> list[str]:
    """Words int64 [N, L] as texts."""
    return [" ".join(KNOWN[word] for word in row if word != BLANK) for row in words.tolist()]
