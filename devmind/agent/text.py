"""Text: pages of any language, read token by token and written with the same table.

Four tokenizers: `bytes` (the default: no vocabulary, any language), `patches` (eight bytes a token, which a small
speller writes byte by byte: far fewer tokens a page), `bpe` (a vocabulary file of the library tokenizers) and a
pretrained trunk's own, with its word table. A page is one Moment: it is begun, extended and ended (`Agent.begin`). A
page that is too long is an error; it is never cut.

A reading is UTF-8 bytes, uint8 [..., L] with zeros behind the end, as `collate` makes them of a Moment's `text`; or the
tokenizer's own numbers, int64 [..., L] with -1 behind the end. Bytes open a page: the token "a page begins" is put
before them. Numbers are taken as they are, so a page is extended by numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from devmind.agent.encoders import Encoded, Encoder, mlp
from devmind.agent.heads import Head, Inlet
from devmind.agent.output import Categorical, Output, masked_mean
from devmind.agent.taps import Tapped
from devmind.agent.vocabulary import of_pretrained, read_vocabulary
from devmind.errors import ConfigError, MomentError, PluginError, nearest

if TYPE_CHECKING:
    from devmind.agent.agent import Agent

BEGIN, END, NOTHING = 256, 257, 258
"""Numbers beside the 256 bytes: a page begins, it ends, and what fills up its last patch."""
PATCH = 8
PAGE_TOKENS = 512
TOKENIZERS, OWN = ("bytes", "patches", "bpe"), "own"


class TextEncoder(Encoder):
    """A page of up to `limit` tokens, one embedding each; `patches` squeezes eight bytes into one.

    Args:
        tokenizer: bytes, patches or bpe.
        limit: the most tokens of a page, "a page begins" among them.
        vocabulary: the JSON of a tokenizer of the library tokenizers, for bpe; it is saved with the agent.
        begin, end: its numbers for "a page begins" and "a page ends", where it has them.
        size: rows of the word table, by default as many as the vocabulary has.
        plain: embeddings go into the trunk as they are, as a pretrained decoder expects its own: no normalisation.
    """

    streams = True

    def __init__(
        self,
        width: int,
        tokenizer: str = "bytes",
        limit: int = PAGE_TOKENS,
        vocabulary: str | None = None,
        begin: int | None = None,
        end: int | None = None,
        size: int | None = None,
        plain: bool = False,
    ) -> None:
        super().__init__(width, n_tokens=limit)
        if tokenizer not in TOKENIZERS:
            raise ConfigError(f"There is no tokenizer '{tokenizer}'{nearest(tokenizer, TOKENIZERS)}")
        if (tokenizer == "bpe") != (vocabulary is not None):
            raise ConfigError("The tokenizer 'bpe' takes a vocabulary, and no other one does: see `add_text`.")
        self.tokenizer, self.limit, self.patched, self.plain = tokenizer, limit, tokenizer == "patches", plain
        self.pieces: Any = None
        self.begin, self.end = (BEGIN, END) if vocabulary is None else (begin, end)
        if vocabulary is not None:
            from tokenizers import Tokenizer

            self.pieces = Tokenizer.from_str(vocabulary)
        own = NOTHING + 1 if self.pieces is None else self.pieces.get_vocab_size(with_added_tokens=True)
        table = max(8, width // 4) if self.patched else width
        self.table = nn.Embedding(max(own, size or 0), table)
        nn.init.normal_(self.table.weight, std=table**-0.5)
        if self.patched:
            self.opening = nn.Parameter(torch.randn(width))
            self.net = mlp(PATCH * table, width, width)
        if plain:
            self.norm = nn.Identity()  # type: ignore[assignment]
            nn.init.zeros_(self.type_embedding)

    def numbers(self, x: Tensor) -> Tensor:
        """The tokens of readings [N, L]: int64 [N, K], of patches [N, K, 8]; -1 where there is none.

        Raises:
            MomentError: a page has more tokens than the limit.
        """
        if x.dtype != torch.uint8:
            found = x.long()
        elif self.pieces is not None:
            found = self._pieces(x)
        else:
            gone = (x == 0).cummax(-1).values
            found = torch.where(gone, -1, x.long())
            if not self.patched:
                found = F.pad(found, (1, 0), value=BEGIN)
        if self.patched:
            found = F.pad(found, (0, -found.shape[-1] % PATCH), value=-1).unflatten(-1, (-1, PATCH))
            here = (found >= 0).any(-1, keepdim=True)
            found = torch.where((found < 0) & here, NOTHING, found)
            if x.dtype == torch.uint8:
                found = torch.cat((found.new_full((len(found), 1, PATCH), BEGIN), found), 1)
        most = int(self.present(found).sum(-1).amax()) if found.numel() else 0
        if most > self.limit:
            raise MomentError(
                f"A page of text may have up to {self.limit} tokens ({self.tokenizer}); got {most}. Give it in several "
                "Moments, or give the encoder a higher limit."
            )
        return found[:, : max(most, 1)] if x.dtype == torch.uint8 else found

    def _pieces(self, x: Tensor) -> Tensor:
        rows = [self.pieces.encode(text, add_special_tokens=False).ids for text in from_bytes(x)]
        rows = [([] if self.begin is None else [self.begin]) + row for row in rows]
        found = torch.full((len(rows), max(map(len, rows), default=0)), -1)
        for i, row in enumerate(rows):
            found[i, : len(row)] = torch.tensor(row)
        return found.to(x.device)

    def present(self, numbers: Tensor) -> Tensor:
        """Which of `numbers` are tokens, bool [N, K]."""
        return numbers[..., 0] >= 0 if self.patched else numbers >= 0

    def encode(self, x: Tensor, previous: Tensor | None, previous_present: Tensor | None) -> Encoded:
        numbers = self.numbers(x)
        present = self.present(numbers)
        if not self.patched:
            return Encoded(self.table(numbers.clamp_min(0)), present)
        tokens = self.net(self.table(numbers.clamp_min(0)).flatten(-2))
        opens = (numbers[..., :1] == BEGIN).to(tokens.dtype)
        return Encoded(tokens * (1 - opens) + self.opening * opens, present)

    def targets(self, x: Tensor) -> Tensor:
        """What is to be written after each token of readings [N, L]: the next one, after the last one "a page ends".

        Of patches the bytes of the next one, and the end behind the last of them. Shaped as `numbers`; -1 where there
        is nothing to learn (a vocabulary without an end).
        """
        numbers = self.numbers(x)
        later = F.pad(numbers[:, 1:], (0, 0, 0, 1) if self.patched else (0, 1), value=-1)
        last = self.present(numbers) & ~self.present(later)
        ending = torch.full_like(later, -1 if self.end is None else self.end)
        if self.patched:
            ending[..., 1:] = NOTHING
            last = last[..., None]
        found = torch.where(last, ending, later)
        if self.patched:
            # A page ends behind its last byte, which may be in the middle of a patch.
            behind = F.pad(found[..., :-1], (1, 0), value=NOTHING)
            found = torch.where((found == NOTHING) & (behind < BEGIN), END, found)
        return found

    def decode(self, numbers: Tensor) -> list[str]:
        """The texts of tokens [N, K] (of patches [N, K, 8]), without what begins and ends a page."""
        rows = numbers.flatten(1).tolist()
        if self.pieces is not None:
            kept = [[n for n in row if n >= 0 and n not in (self.begin, self.end)] for row in rows]
            return [self.pieces.decode(row) for row in kept]
        return [bytes(n for n in row if 0 <= n < BEGIN).decode(errors="replace") for row in rows]


def from_bytes(x: Tensor) -> list[str]:
    """Texts of uint8 [N, L], zeros behind the end."""
    return [bytes(row).split(b"\0", 1)[0].decode(errors="replace") for row in x.cpu().tolist()]


@dataclass
class Spelling(Output):
    """Eight bytes for each token [...]: numbers [..., 8], one after the other by the speller `head`.

    Attributes:
        features: [..., D], what each is spelled from.
        logits: float [..., 8, 259], where the right bytes were given; None otherwise.
    """

    head: TextHead
    features: Tensor
    logits: Tensor | None

    def log_prob(self, value: Tensor) -> Tensor:
        """Log probability of each of the bytes int64 [..., 8], given those before it."""
        logits = self.head.spelled(self.features, value) if self.logits is None else self.logits
        losses = F.cross_entropy(logits.flatten(0, -2), value.clamp_min(0).flatten(), reduction="none")
        return -losses.reshape(value.shape)

    def loss(self, target: Tensor, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Nats a byte against numbers int64 [..., 8]; what only fills up a patch does not count."""
        counts = (target >= 0) & (target != NOTHING)
        return masked_mean(-self.log_prob(target), counts if mask is None else counts & mask[..., None])

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return self.head.spell(self.features, lambda logits: Categorical(logits).sample(generator))

    def mode(self) -> Tensor:
        return self.head.spell(self.features, lambda logits: Categorical(logits).mode())


class TextHead(Head):
    """What is written next, after each token of a page, with the table of the encoder of the sense it taps.

    Args:
        patched: the encoder reads patches, so eight bytes are spelled.
        plain: the features meet the table as they are, as in a pretrained decoder.
        untied: rows of a table of its own, for pretrained decoders whose output table is not their input table.
    """

    def __init__(self, inlet: Inlet, patched: bool = False, plain: bool = False, untied: int | None = None) -> None:
        super().__init__(inlet)
        self.patched = self.takes_targets = patched
        size = max(8, inlet.width // 4) if patched else inlet.width
        self.own = nn.Linear(inlet.width, untied, bias=False) if untied else None
        self.out: nn.Module = nn.Identity() if plain else nn.Linear(size if patched else inlet.width, size)
        if patched:
            self.start, self.cell = nn.Linear(inlet.width, inlet.width), nn.GRUCell(size, inlet.width)
            self.out = nn.Linear(inlet.width, size)
        # Not a submodule: the table is the encoder's, and is saved and counted there.
        self._encoder: tuple[TextEncoder, ...] = ()

    def tie(self, encoder: Encoder) -> None:
        """Write with the table of this encoder.

        Raises:
            PluginError: it is no encoder of text, or reads in another way.
        """
        if not isinstance(encoder, TextEncoder) or encoder.patched != self.patched:
            raise PluginError("A head that writes text must tap the trunk's features of a sense of text read alike.")
        self._encoder = (encoder,)

    @property
    def table(self) -> Tensor:
        """The encoder's table, float [V, size]."""
        if not self._encoder:
            raise PluginError("A head that writes text belongs to an agent: add it with `add_text`.")
        return self._encoder[0].table.weight

    def forward(self, tapped: Tapped, *targets: Any) -> Output:
        if not self.patched:
            features = self.out(tapped.tokens)
            return Categorical(self.own(features) if self.own is not None else F.linear(features, self.table))
        given = targets[0] if targets else None
        logits = None if given is None else self.spelled(tapped.tokens, given)
        return Spelling(self, tapped.tokens, logits)

    def spelled(self, features: Tensor, numbers: Tensor) -> Tensor:
        """Logits [..., 8, V] of each of the bytes `numbers` int64 [..., 8], given those before it."""
        hidden = torch.tanh(self.start(features)).flatten(0, -2)
        before = F.embedding(numbers.clamp_min(0), self.table).flatten(0, -3)
        found = []
        for i in range(PATCH):
            hidden = self.cell(before[:, i - 1] if i else torch.zeros_like(before[:, 0]), hidden)
            found.append(F.linear(self.out(hidden), self.table))
        return torch.stack(found, 1).unflatten(0, features.shape[:-1])

    @torch.no_grad()
    def spell(self, features: Tensor, choose: Any) -> Tensor:
        """Eight bytes int64 [..., 8], each chosen of logits [N, V] given those before it; nothing follows the end."""
        hidden = torch.tanh(self.start(features)).flatten(0, -2)
        before = hidden.new_zeros(len(hidden), self.table.shape[1])
        found: list[Tensor] = []
        over = torch.zeros(len(hidden), dtype=torch.bool, device=hidden.device)
        for _ in range(PATCH):
            hidden = self.cell(before, hidden)
            logits = F.linear(self.out(hidden), self.table)
            logits[:, [BEGIN, NOTHING]] = torch.finfo(logits.dtype).min
            found.append(torch.where(over, NOTHING, choose(logits)))
            over = over | (found[-1] == END)
            before = F.embedding(found[-1], self.table)
        return torch.stack(found, 1).unflatten(0, features.shape[:-1])


def add_text(
    agent: Agent,
    tokenizer: str = "bytes",
    limit: int = PAGE_TOKENS,
    stage: str = "newborn",
    sense: str = "text",
    own: bool = False,
    part: str = "head.text",
    beside: Sequence[str] = (),
) -> None:
    """Let the agent read and write pages: the encoder `text` and, on the trunk's features of it, the head `text`.

    Args:
        part: the entry point of the head, a `TextHead`; beside: what else it taps, behind the trunk's features.
        tokenizer: bytes, patches, or the path of a `tokenizer.json` of the library tokenizers. An agent that has the
            encoder already keeps it, and the head writes as that reads.
        own: take tokenizer and word tables of the pretrained decoder that the trunk came from.

    Raises:
        PluginError: `own` without such a trunk, or at another width than its own.
        ConfigError: there is no such tokenizer.
    """
    if sense not in agent.encoders:
        add_reading(agent, OWN if own else tokenizer, limit, stage, sense)
    encoder = agent.encoder(sense)
    assert isinstance(encoder, TextEncoder)
    head: dict[str, Any] = {"patched": encoder.patched}
    tables: Mapping[str, Tensor] = {}
    if encoder.plain:
        tables, head = of_pretrained(agent, limit)[1], {"patched": False, "plain": True}
        if "out" in tables:
            head["untied"] = len(tables["out"])
    tap = (f"trunk:{sense}", *beside) if beside else f"trunk:{sense}"
    agent.add_head(sense, part, tap=tap, stage=stage, options=head)
    if "out" in tables:
        with torch.no_grad():
            agent.head(sense).own.weight.copy_(tables["out"])  # type: ignore[union-attr,operator]


def add_reading(
    agent: Agent, tokenizer: str, limit: int = PAGE_TOKENS, stage: str = "newborn", sense: str = "text"
) -> None:
    """Add the encoder of pages alone; a head is added by `add_text`. Arguments and what is raised: as there.

    Args:
        tokenizer: also `own`, the pretrained trunk's.
    """
    options: dict[str, Any] = {"tokenizer": tokenizer, "limit": limit}
    tables: Mapping[str, Tensor] = {}
    if tokenizer == OWN:
        options, tables = of_pretrained(agent, limit)
    elif tokenizer not in TOKENIZERS:
        options = {"tokenizer": "bpe", "limit": limit, **read_vocabulary(Path(tokenizer))}
    agent.add_encoder(sense, "encoder.text", stage=stage, options=options)
    if tables:
        with torch.no_grad():
            agent.encoder(sense).table.weight.copy_(tables["in"])  # type: ignore[union-attr,operator]


def text_loss(agent: Agent, batch: Mapping[str, Any], sense: str = "text") -> tuple[Tensor, dict[str, Tensor]]:
    """Nats a token (of patches: a byte) of writing the pages of a batch [B, T], each token from those before it."""
    encoder = agent.encoder(sense)
    assert isinstance(encoder, TextEncoder)
    x = batch["senses"][sense]
    targets = encoder.targets(x.flatten(0, 1).to(agent.device)).unflatten(0, x.shape[:2])
    mask = (targets[..., 0] if encoder.patched else targets) >= 0
    mask = mask & batch["present"][sense].to(mask.device)[..., None]
    output = agent.forward(dict(batch), [sense], targets={sense: targets})[sense]
    loss = output.loss(targets.clamp_min(-1 if encoder.patched else 0), mask)
    return loss, {"nats": loss.detach()}


@torch.no_grad()
def page_nats(agent: Agent, batch: Mapping[str, Any], sense: str = "text") -> Tensor:
    """How hard each page of a batch [B, T] is to foretell: nats a byte, float [B, T], whatever the tokenizer is.

    Every page must be there, as UTF-8 (`collate` makes them so). What it takes to end a page is not counted, nor is the
    first token of a vocabulary that has none for "a page begins"; divide by log(2) for bits a byte.
    """
    encoder = agent.encoder(sense)
    assert isinstance(encoder, TextEncoder)
    x = batch["senses"][sense].to(agent.device)
    targets = encoder.targets(x.flatten(0, 1)).unflatten(0, x.shape[:2])
    counts = (targets >= 0) & (targets != (-1 if encoder.end is None else encoder.end))
    if encoder.patched:
        counts = counts & (targets < BEGIN)
    output = agent.forward(dict(batch), [sense], targets={sense: targets})[sense]
    assert isinstance(output, Categorical | Spelling)
    nats = -output.log_prob(targets.clamp_min(0)) * counts
    return nats.flatten(2).sum(-1) / (x != 0).sum(-1)
