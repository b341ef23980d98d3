"""The head that answers aloud: it hears by the ear's tokens, sees by the cells of `detail`, and answers in codes of the
codec.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from devmind.agent.encoders import mlp
from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Categorical
from devmind.agent.rows import Carry, Leaf, initial_carry, where_rows
from devmind.agent.taps import Tapped
from stages.voice.arc import in_order, in_time
from stages.voice.bodies import body, sums_so_far
from stages.voice.codec import SIZE, TOKENS, codes_of, quantise
from stages.voice.ear import TOKENS as HEARD
from stages.voice.say.head import MANNER, MOMENTS

FORM, COLOUR, THINGS = "form", "colour", "things"
"""Maps of language's eye `detail`: what is in each of 8 x 8 cells, and whether the cell holds a thing."""
CELLS, PLACE = 64, 16
GROUPS = 4
"""Groups of features, each with its own weights over time."""
_MOST_WEIGHT = 6.0


@dataclass
class Replied(Categorical):
    """Which answer is meant, logits [..., A], by all that was heard so far and what is seen now. An answer is codes
    int64 [..., 10, 4, 2] of the likeliest (or a sampled) word.

    Attributes:
        by: the head.
        heard, seen: bool [...], whether anything was heard so far, and whether anything is seen.
        looked: logits [..., 64] of looking at each cell; zeros if nothing is seen.
        understood: logits [..., U] of what was asked.
        asked: logits [...] of a taught question having been asked; None for a head that takes everything for questions.
    """

    by: ReplyHead = field(kw_only=True)
    heard: Tensor = field(kw_only=True)
    seen: Tensor = field(kw_only=True)
    looked: Tensor = field(kw_only=True)
    understood: Tensor = field(kw_only=True)
    asked: Tensor | None = field(default=None, kw_only=True)
    horizon: int = MOMENTS

    def mode(self) -> Tensor:
        return codes_of(self.by.levels(self.logits.argmax(-1)))

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        shares = self.logits.softmax(-1)
        drawn = torch.multinomial(shares.flatten(0, -2), 1, generator=generator).reshape(shares.shape[:-1])
        return codes_of(self.by.levels(drawn))

    def fires(self) -> Tensor:
        """Whether a question was heard and a page asks for an answer; without a page `detail` sees nothing."""
        heard = self.seen & self.heard
        return heard if self.asked is None else heard & (self.asked > 0)


class ReplyHead(Head):
    """An arc; taps ("listen", "detail"). A body over the ear's tokens gives features of all that was heard in the
    episode, pooled by learned weights and by the maximum. These say what to look for. The sum over matching cells, and
    what was heard, give the answer, one of A words. Convolutions over time turn the word into codes of ten Moments.

    Lessons teach where to look, as for the head of pages (Tomasello and Farrar 1986). Between answer and sound stands a
    single word, so the sound is one answer and no blend of two. A row of a batch is one episode.

    Args:
        answers: the number of words A. asked: the number of logits U by which the lesson teaches what was asked.
        ear: the kind of the body over the ear's tokens.
        refuses: whether it can tell that no taught question was asked, and then gives no answer.
    """

    generates, reads_senses = True, True
    lighter = (("hidden", 0.25), ("inner", 0.25))

    @property
    def refuses(self) -> bool:
        """Whether it gives no answer if it heard no question."""
        return self.is_asked is not None

    def __init__(
        self,
        inlet: Inlet,
        answers: int,
        asked: int,
        ear: str,
        hidden: int | None = None,
        refuses: bool = False,
        inner: int | None = None,
    ) -> None:
        super().__init__(inlet)
        self.width = width = inner or inlet.width
        codes = inlet.map_channels[FORM] + inlet.map_channels[COLOUR]
        hidden = hidden or max(32, inlet.width)
        self.memory = body(ear, inlet.width, width)
        self.hear, self.weigh = nn.Linear(width, width), nn.Linear(width, GROUPS)
        self.means = mlp(2 * width, width, width)
        self.understands = nn.Linear(width, asked)
        self.is_asked = nn.Linear(width, 1) if refuses else None
        self.places = nn.Parameter(torch.randn(CELLS, PLACE))
        self.asks, self.shows = nn.Linear(width, codes + PLACE + 1), nn.Linear(codes + PLACE + 1, width)
        self.answers = mlp(2 * width, 2 * width, answers)
        self.words = nn.Parameter(0.5 * torch.randn(answers, hidden))
        self.times = nn.Parameter(0.5 * torch.randn(MOMENTS * TOKENS, hidden))
        self.manner = nn.Linear(MANNER, hidden)
        self.net = nn.Sequential(
            nn.Conv1d(2 * hidden, hidden, 3, padding=1), nn.GELU(),
            nn.Conv1d(hidden, hidden, 3, padding=1), nn.GELU(),
            nn.Conv1d(hidden, SIZE, 1),
        )  # fmt: skip
        of_what_was_heard = {"weight": Leaf((GROUPS,)), **dict.fromkeys(("mean", "most"), Leaf((width,)))}
        self.carry_spec = {**of_what_was_heard, **self.memory.carry_spec}

    def forward(self, tapped: Tapped, carry: Carry) -> tuple[Replied, Carry]:
        pooled, carry = self._heard(tapped, carry)
        return self._reply(pooled, tapped), carry

    def at_the_end(self, tapped: Tapped) -> Replied:
        """As `forward` for the last of T Moments [B, T, ...] alone, [B, ...]."""
        _, pooled = self._heard(tapped, initial_carry(self.carry_spec, len(tapped.tokens), tapped.tokens.device))
        return self._reply(pooled, tapped.map(lambda value: value[:, -1]))

    def _reply(self, pooled: Carry, tapped: Tapped) -> Replied:
        mean = pooled["mean"] / pooled["weight"].clamp_min(1e-6).repeat_interleave(self.width // GROUPS, -1)
        meant = self.means(torch.cat((mean, pooled["most"]), -1))
        looked, shown = self._look(meant, tapped)
        logits = self.answers(torch.cat((meant, shown), -1))
        seen = tapped.present[..., HEARD:].any(-1)
        understood = self.understands(meant)
        asked = None if self.is_asked is None else self.is_asked(meant)[..., 0]
        heard = pooled["weight"].sum(-1) > 0
        return Replied(logits, by=self, heard=heard, seen=seen, looked=looked, understood=understood, asked=asked)

    def _heard(self, tapped: Tapped, carry: Carry) -> tuple[Carry, Carry]:
        """What was heard up to each Moment, pooled, and the carry: what was at the last one, and that of the body."""
        heard, here = tapped.tokens[..., :HEARD, :], tapped.present[..., :HEARD, None]
        row, lead, places = in_order(Tapped(heard, here[..., 0]))
        before = {name: carry[name] for name in self.memory.carry_spec}
        features, of_body = self.memory.over(row, before)
        if len(lead) < 3:  # in a tick in which a row sees something and hears nothing, its body waits
            of_body = where_rows(here[..., 0].any(-1), of_body, before)
        heard = in_time(features, places).unflatten(1, lead[1:])
        features = torch.relu(self.hear(heard)) * here
        weight = (_MOST_WEIGHT * torch.tanh(self.weigh(heard) / _MOST_WEIGHT)).exp() * here
        each = weight.repeat_interleave(self.width // GROUPS, -1)
        sums = {"weight": weight.sum(-2), "mean": (each * features).sum(-2)}
        pooled, last = sums_so_far(sums, features.amax(-2), carry, at_once=features.ndim > 3)
        return pooled, {**last, **of_body}

    def _look(self, meant: Tensor, tapped: Tapped) -> tuple[Tensor, Tensor]:
        """Logits [..., 64] of looking at each cell, and the sum of what is seen there, [..., D]; zeros if nothing."""
        lead = meant.shape[:-1]
        if FORM not in tapped.maps:
            return meant.new_zeros(*lead, CELLS), self.shows(meant.new_zeros(*lead, self.shows.in_features))
        codes = torch.cat((tapped.maps[FORM], tapped.maps[COLOUR]), -3).flatten(-2).mT
        one = torch.ones_like(codes[..., :1])
        cells = torch.cat((codes, self.places.expand(*codes.shape[:-1], PLACE), one), -1)
        looked = (cells @ self.asks(meant)[..., None])[..., 0]
        here = tapped.present[..., HEARD:].any(-1, keepdim=True)
        weights = looked.sigmoid() * tapped.maps[THINGS].flatten(-3).sigmoid() * here
        return looked, self.shows((weights[..., None, :] @ cells)[..., 0, :])

    def levels(self, words: Tensor, manner: Tensor | None = None) -> Tensor:
        """Whole levels [N.., 10, 4, 10] of answers int64 [N..], in a manner [N.., 2], by default the middle one."""
        how = self.words.new_zeros(*words.shape, MANNER) if manner is None else manner
        said = (self.words[words] + self.manner(how)).flatten(0, -2)[:, None].expand(-1, len(self.times), -1)
        free = self.net(torch.cat((self.times + said, said), -1).mT).mT
        return quantise(free).unflatten(1, (MOMENTS, TOKENS)).unflatten(0, words.shape)
