"""The head that is instructed: it reads an instruction as a plan in symbols, and carries it out by what it sees.

The agent's state keeps the plan, its progress, and a map of what was seen, so life, exams and replay are alike. Reading
words and views is learned; the controller carries the plan out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.heads import FollowingHead, Head, Inlet
from devmind.agent.output import Output, masked_mean
from devmind.agent.plans import Lack
from devmind.agent.rows import Carry, Leaf, initial_carry
from devmind.agent.taps import Tapped
from devmind.algorithms.grid import CLASSES, DONE, EXTENT, SIDE, Map
from devmind.errors import ConfigError
from stages.planning.instruct import lacks, symbols
from stages.planning.instruct.controller import Controller, Errand
from stages.planning.instruct.symbols import END, LENGTH, SYMBOLS

MAP = "cells"
NUMBERS = ("instructed", "declined", "at", "stuck", "action", "carried", "slips", "place")
"""Numbers kept of an errand beside plan, map, pose and page. `action` is the action plus 1, 0 before the first; `place`
is the number of the token that most likely belongs to an unknown word."""
INSTRUCTED, DECLINED, AT, STUCK, ACTION, CARRIED, SLIPS, PLACE = range(len(NUMBERS))
SAME = 1e-3
"""Pages whose sums differ by less are the same page."""
DOUBT = 0.5
"""A mission is declined if a token belongs to an unknown word with more than this probability."""


@dataclass
class Instruction(Output):
    """What is read in Moments [...], and what is done about it.

    Attributes:
        plan: logits [..., LENGTH, 16] of each subgoal's verb, noun and colour.
        unknown: log odds [..., K] that a token of the page belongs to an unknown word; text: which tokens are present,
            bool [..., K].
        cells: logits [..., 49, classes] of what stands in the cells of the view; seen: whether there is a view, bool
            [...].
        carry: the head's carry after `advance`; empty before.
        page: float64 [..., D], tells pages apart; None: each page is read anew.
    """

    head: InstructHead
    plan: Tensor
    unknown: Tensor
    text: Tensor
    cells: Tensor
    seen: Tensor
    carry: Carry = field(default_factory=dict)
    page: Tensor | None = None

    @property
    def heard(self) -> Tensor:
        """Whether there is a page, bool [...]."""
        return self.text.any(-1)

    @cached_property
    def declined(self) -> Tensor:
        """Whether the page holds an unknown word, bool [...]."""
        return ((self.unknown.sigmoid() > DOUBT) & self.text).any(-1)

    def symbols(self) -> Tensor:
        """The likeliest plan, int64 [..., LENGTH, 3]; filled up with END."""
        predicted = torch.stack([logits.argmax(-1) for logits in self.plan.split(SYMBOLS, -1)], -1)
        open_ = (predicted[..., 0] != END).long().cumprod(-1)
        return predicted * open_[..., None]

    def reading(self) -> Tensor:
        """What stands in the cells of the view, int64 [..., 7, 7]."""
        return self.cells.argmax(-1).unflatten(-1, (SIDE, SIDE))

    def loss(self, target: Any, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Sum of the losses of `losses`."""
        return torch.stack(list(self.losses(target, mask).values())).sum()

    def losses(self, target: Mapping[str, Tensor], mask: Tensor | None = None) -> dict[str, Tensor]:
        """Nats by name.

        Args:
            target: `plan` int64 [..., LENGTH, 3]; `made_up` bool [..., K], tokens of invented words, whose pages teach
                no plan; `cells` int64 [..., 49].
        """
        everywhere = torch.ones_like(self.seen) if mask is None else mask
        plan, made_up = target["plan"], target["made_up"]
        sound = everywhere & self.heard & ~made_up.any(-1)
        verbs, *others = [
            F.cross_entropy(logits.movedim(-1, 1), plan[..., at].flatten(0, -2), reduction="none").unflatten(
                0, plan.shape[:-2]
            )
            for at, logits in enumerate(self.plan.flatten(0, -3).split(SYMBOLS, -1))
        ]
        heard = sound[..., None].expand_as(verbs)
        losses = {"plan": masked_mean(verbs, heard)}
        losses["plan"] = losses["plan"] + masked_mean(sum(others), heard & (plan[..., 0] != END))
        odds = F.binary_cross_entropy_with_logits(self.unknown, made_up.to(self.unknown.dtype), reduction="none")
        losses["unknown"] = masked_mean(odds, everywhere[..., None] & self.text)
        nats = F.cross_entropy(self.cells.flatten(0, -2), target["cells"].flatten(), reduction="none")
        losses["cells"] = masked_mean(nats.reshape(target["cells"].shape), everywhere & self.seen)
        return losses

    def advance(self, before: Carry, generator: torch.Generator | None = None) -> Carry:
        """Read new pages, add views to the maps, and choose actions, row by row; gives the carry."""
        head = self.head
        kept = {name: np.array(value.cpu()) for name, value in before.items()}
        news = self._news(before)
        heard, declined, places, seen, plan, reading = (
            value.cpu().numpy()
            for value in (news, self.declined, self._places(), self.seen, self.symbols(), self.reading())
        )
        if self.page is not None:
            kept["page"] = torch.where(news[:, None], self.page, before["page"].to(self.page)).cpu().numpy()
        for row in range(len(heard)):
            numbers = kept["numbers"][row]
            if heard[row]:
                numbers[[INSTRUCTED, DECLINED, PLACE]] = 1, declined[row], places[row]
            errand = head.errand(kept, row)
            if heard[row]:
                errand.begin(() if declined[row] else symbols.from_numbers(plan[row]))
            if seen[row] and numbers[INSTRUCTED]:
                head.controller.act(errand, reading[row])
            head.keep(errand, kept, row)
        self.carry = {name: torch.from_numpy(value).to(self.seen.device) for name, value in kept.items()}
        return self.carry

    def _news(self, before: Carry) -> Tensor:
        """Which rows have another page than the kept one, bool [B]. A page that stands there is read once: what the
        trunk makes of it later depends on all that was seen meanwhile, which no lesson shows."""
        if self.page is None:
            return self.heard
        instructed = before["numbers"][:, INSTRUCTED].to(self.page.device) > 0
        apart = (self.page - before["page"].to(self.page)).abs().amax(-1)
        return self.heard & ~(instructed & (apart < SAME))

    def _places(self) -> Tensor:
        """The number of the token that most likely belongs to an unknown word, int64 [...]."""
        if not self.unknown.shape[-1]:
            return torch.zeros(self.unknown.shape[:-1], dtype=torch.int64, device=self.unknown.device)
        return self.unknown.masked_fill(~self.text, -torch.inf).argmax(-1)

    def fires(self) -> Tensor:
        """Whether the head answers, bool [...]: once it was instructed."""
        return self._done()[0]

    def mode(self) -> Tensor:
        """MiniGrid's number of an action, int64 [...]; DONE without an instruction, after a declined or finished one,
        and without a view."""
        instructed, action = self._done()
        return torch.where(instructed & self.seen, action, DONE)

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        """The mode."""
        return self.mode()

    @property
    def over(self) -> Tensor:
        """Which errands are over (carried out, stuck or declined), bool [B]."""
        numbers, plan = self.carry["numbers"], self.carry["plan"]
        subgoals = (plan[..., 0] != END).sum(-1)
        return self.stuck | (numbers[:, AT] >= subgoals)

    @property
    def stuck(self) -> Tensor:
        """Which errands are stuck, as no way leads on, bool [B]."""
        return self.carry["numbers"][:, STUCK] > 0

    def belief(self, row: int = 0) -> str:
        """The state of a row's errand, in a sentence: which thing the agent would have to know of and looks for, that
        there is none, or that it is done; '' where no errand was begun."""
        kept = {name: value.cpu().numpy() for name, value in self.carry.items()}
        begun = kept["numbers"][row, INSTRUCTED] and not kept["numbers"][row, DECLINED]
        return self.head.errand(kept, row).belief if begun else ""

    def answer_to(self, text: str, row: int = 0) -> str:
        """The answer to an instruction, in a sentence: the plan, or the unknown word."""
        if not bool(self.declined.flatten()[row]):
            plan = symbols.from_numbers(self.symbols().flatten(0, -3)[row].cpu().numpy())
            return f"I shall {symbols.in_words(plan)}."
        word = self.unknown_word(text, row)
        return f"unknown word '{word}' in '{text}': say it with words that were taught, such as 'go to the red ball'."

    def unknown_word(self, text: str, row: int = 0) -> str:
        """The word of an instruction that is most likely unknown."""
        place = int(self.carry["numbers"][row, PLACE]) if self.carry else int(self._places().flatten()[row])
        # Tokens are bytes after "a page begins"; with other tokens the number still says roughly where.
        before = text.encode(errors="replace")[: max(0, place - 1)].decode(errors="ignore")
        at = min(len(before), max(0, len(text) - 1))
        begin = text.rfind(" ", 0, at + 1) + 1
        return text[begin:].split(" ", maxsplit=1)[0].strip(",.") or text

    def lacks(self, page: str, row: int = 0) -> Lack | None:
        """The meaning of an unknown word, which the answer replaces; or where the thing of the next subgoal is, for
        which the agent looks meanwhile: the answer is done first, and then the rest of the plan."""
        kept = {name: value.cpu().numpy() for name, value in self.carry.items()}
        if not page or not kept["numbers"][row, INSTRUCTED]:
            return None
        if kept["numbers"][row, DECLINED]:
            return lacks.of_word(page, self.unknown_word(page, row))
        return lacks.of_place(self.head.errand(kept, row))

    def _done(self) -> tuple[Tensor, Tensor]:
        lead = self.seen.shape
        flat = self if len(lead) == 1 else self._flattened()
        if not flat.carry:
            flat.advance(initial_carry(self.head.carry_spec, len(flat.seen), flat.seen.device))
        numbers = flat.carry["numbers"].long()
        return (numbers[:, INSTRUCTED] > 0).reshape(lead), (numbers[:, ACTION] - 1).clamp_min(0).reshape(lead)

    def _flattened(self) -> Instruction:
        lead = self.seen.ndim - 1
        plan, unknown, text, cells, seen = (
            value.flatten(0, lead) for value in (self.plan, self.unknown, self.text, self.cells, self.seen)
        )
        page = None if self.page is None else self.page.flatten(0, lead)
        return Instruction(self.head, plan, unknown, text, cells, seen, page=page)


POOL = 3
"""Tokens that are merged before the recurrent networks read them."""


class Layer(nn.Module):
    """A convolution over the tokens of a page that keeps absent tokens at zero."""

    def __init__(self, width: int, dilation: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.net = nn.Conv1d(width, width, 5, padding=2 * dilation, dilation=dilation)

    def forward(self, x: Tensor, here: Tensor) -> Tensor:
        return x + F.gelu(self.net((self.norm(x) * here).mT).mT) * here


class Reader(nn.Module):
    """From pages [N, K, D] to `slots` answers [N, slots, numbers], and for each token whether its word is unknown.

    Padding behind a page's last token changes nothing, so a page is read alike alone and among longer ones.

    Args:
        width: D; slots: answers; numbers: numbers of an answer; hidden: width of the network.
    """

    def __init__(self, width: int, slots: int, numbers: int, hidden: int) -> None:
        super().__init__()
        self.slots = slots
        self.enter = nn.Linear(width, hidden)
        self.layers = nn.ModuleList(Layer(hidden, dilation) for dilation in (1, 2, 4))
        self.unknown = nn.Linear(hidden, 1)
        self.squeeze = nn.Linear(POOL * hidden, hidden)
        self.forth, self.back = (nn.GRU(hidden, hidden, batch_first=True) for _ in range(2))
        self.begin = nn.Parameter(torch.zeros(hidden))
        self.cell, self.ask = nn.GRUCell(2 * hidden, hidden), nn.Linear(hidden, 2 * hidden)
        self.tell = nn.Sequential(nn.Linear(3 * hidden, hidden), nn.GELU(), nn.Linear(hidden, numbers))

    def forward(self, tokens: Tensor, present: Tensor) -> tuple[Tensor, Tensor]:
        """Answers [N, slots, numbers] and log odds [N, K] that a token belongs to an unknown word."""
        here = present[..., None].to(tokens.dtype)
        x = self.enter(tokens) * here
        for layer in self.layers:
            x = layer(x, here)
        unknown = self.unknown(x).squeeze(-1)
        more = -x.shape[1] % POOL
        pooled = self.squeeze(F.pad(x, (0, 0, 0, more)).unflatten(1, (-1, POOL)).flatten(2))
        read = F.pad(present, (0, more)).unflatten(1, (-1, POOL)).any(-1)
        ends = read.long() * torch.arange(1, read.shape[1] + 1, device=read.device)
        pooled = pooled * read[..., None]
        order = _turned(ends.amax(1), read.shape[1])
        back = _at(self.back(_at(pooled, order))[0], order)
        memory = torch.cat((self.forth(pooled)[0], back), -1)
        return self._answers(memory, read), unknown

    def _answers(self, memory: Tensor, read: Tensor) -> Tensor:
        state, answers = self.begin.expand(len(memory), -1), []
        hidden = ~read & read.any(1, keepdim=True)
        for _ in range(self.slots):
            likeness = (memory @ self.ask(state)[..., None]).squeeze(-1) / memory.shape[-1] ** 0.5
            shares = likeness.masked_fill(hidden, torch.finfo(likeness.dtype).min).softmax(-1)
            seen = (shares[..., None] * memory).sum(1)
            state = self.cell(seen, state)
            answers.append(self.tell(torch.cat((seen, state), -1)))
        return torch.stack(answers, 1)


def _turned(lengths: Tensor, n: int) -> Tensor:
    """Indices int64 [N, n] that reverse the first `lengths` int64 [N] of n places."""
    at = torch.arange(n, device=lengths.device).expand(len(lengths), n)
    return torch.where(at < lengths[:, None], lengths[:, None] - 1 - at, at)


def _at(x: Tensor, order: Tensor) -> Tensor:
    return x.gather(1, order[..., None].expand(-1, -1, x.shape[-1]))


class InstructHead(FollowingHead):
    """Taps the trunk's features of a page, the page's own tokens, and a board, in this order.

    It carries an errand: plan int64 [B, LENGTH, 3]; the map's cells int8 [B, side, side] and looked bool [B, side,
    side, 4]; pose int64 [B, 3]; numbers int64 [B, 8] (NUMBERS); page float64 [B, D], the sum of the page's own tokens,
    each multiplied by its number.

    Args:
        views: tokens of the board; hidden: width of the network that reads pages; classes: number of classes of a cell.
        cells: width of the layer that reads cells; that of the head whose weights `start_from` takes.
    """

    generates, reads_senses = True, True
    lighter = (("hidden", 0.25),)

    def __init__(
        self, inlet: Inlet, views: int = 8, hidden: int = 96, classes: int = CLASSES, cells: int = 256
    ) -> None:
        super().__init__(inlet)
        if (inlet.n_tokens - views) % 2 or MAP not in inlet.map_channels:
            raise ConfigError("A head that is instructed taps 'trunk:text', 'text' and 'board', in this order.")
        self.views, self.controller = views, Controller()
        self.reader = Reader(2 * inlet.width, LENGTH, sum(SYMBOLS), hidden)
        self.read = nn.Sequential(nn.Linear(inlet.map_channels[MAP], cells), nn.ReLU(), nn.Linear(cells, classes))
        self.carry_spec = {
            "plan": Leaf((LENGTH, len(SYMBOLS)), torch.int64),
            "cells": Leaf((EXTENT, EXTENT), torch.int8),
            "looked": Leaf((EXTENT, EXTENT, 4), torch.bool),
            "pose": Leaf((3,), torch.int64),
            "numbers": Leaf((len(NUMBERS),), torch.int64),
            "page": Leaf((inlet.width,), torch.float64),
        }

    def start_from(self, other: Head) -> None:
        """Take over the weights of a head that reads the cells of the same map.

        Raises:
            ConfigError: that head has another map or width.
        """
        try:
            self.read.load_state_dict(other.read.state_dict())  # type: ignore[union-attr]
        except (AttributeError, RuntimeError) as error:
            raise ConfigError(f"Views can be read only as by a head of the same map and width: {error}") from error

    def observe(self, tapped: Tapped) -> Instruction:
        lead = tapped.present.shape[:-1]
        k = (tapped.present.shape[-1] - self.views) // 2
        present = tapped.present[..., k : 2 * k].reshape(lead.numel(), k)
        tokens = (tapped.tokens * tapped.present[..., None]).flatten(0, -3)
        plan = tokens.new_zeros(len(tokens), LENGTH, sum(SYMBOLS))
        unknown = tokens.new_zeros(len(tokens), k)
        said = present.any(-1)
        if bool(said.any()):
            pages = torch.cat((tokens[said, :k], tokens[said, k : 2 * k]), -1)
            plan[said], unknown[said] = (value.to(plan.dtype) for value in self.reader(pages, present[said]))
        view = (
            tapped.maps[MAP]
            if MAP in tapped.maps
            else tokens.new_zeros(*lead, self.inlet.map_channels[MAP], SIDE, SIDE)
        )
        cells = self.read(view[..., :SIDE, :SIDE].flatten(-2).mT)
        seen = tapped.present[..., 2 * k :].any(-1)
        parts = (plan.unflatten(0, lead), unknown.unflatten(0, lead), present.unflatten(0, lead), cells, seen)
        order = 1 + torch.arange(k, device=tokens.device, dtype=torch.float64)
        page = (order[:, None] * tokens[:, k : 2 * k]).sum(1).unflatten(0, lead)
        return Instruction(self, *parts, page=page)

    @staticmethod
    def errand(kept: Mapping[str, np.ndarray], row: int) -> Errand:
        """The errand in a row of a carry."""
        numbers = kept["numbers"][row]
        here = Map()
        if numbers[ACTION]:
            row_, column, heading = kept["pose"][row].tolist()
            cells, looked = kept["cells"][row].astype(np.int64), kept["looked"][row].copy()
            here = Map(cells, (row_, column, heading), int(numbers[CARRIED]), looked, int(numbers[SLIPS]))
        action = int(numbers[ACTION]) - 1 if numbers[ACTION] else None
        return Errand(here, symbols.from_numbers(kept["plan"][row]), int(numbers[AT]), action, bool(numbers[STUCK]))

    @staticmethod
    def keep(errand: Errand, kept: Mapping[str, np.ndarray], row: int) -> None:
        """Write an errand into a row of a carry: the inverse of `errand`."""
        here, numbers = errand.map, kept["numbers"][row]
        kept["plan"][row], kept["cells"][row] = symbols.as_numbers(errand.plan), here.cells
        kept["looked"][row], kept["pose"][row] = here.looked, here.pose
        done = 0 if errand.action is None else errand.action + 1
        numbers[[AT, STUCK, ACTION, CARRIED, SLIPS]] = errand.at, errand.stuck, done, here.carried, here.slips
