"""Text: pages of any language, read token by token and written with the same embedding table.

There are four tokenizers: `bytes` (the default, without a vocabulary), `patches` (eight bytes a token, written byte by
byte by a small GRU, so that a page has far fewer tokens), `bpe` (a vocabulary file of the library tokenizers), and that
of a pretrained trunk, with its embedding table. A page is one Moment: it is begun, extended and ended (`Agent.begin`).
A page that is too long is an error; it is never truncated.

A reading is either UTF-8 bytes, uint8 [..., L] padded with zeros, as `collate` makes them from a Moment's `text`; or
token numbers, int64 [..., L] padded with -1. Bytes begin a page, and the token BEGIN is put before them. Numbers are
taken unchanged, so a page is extended by numbers.
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
from devmind.agent.heads import AgentParts, Head, Inlet
from devmind.agent.output import Categorical, Output, masked_mean
from devmind.agent.taps import Tap, Tapped
from devmind.agent.vocabulary import load_pieces, of_pretrained, read_vocabulary
from devmind.errors import ConfigError, MomentError, PluginError, nearest

if TYPE_CHECKING:
    from devmind.agent.agent import Agent

BEGIN, END, NOTHING = 256, 257, 258
"""Token numbers after the 256 bytes: a page begins, a page ends, and padding of a page's last patch."""
PATCH = 8
PAGE_TOKENS = 512
TOKENIZERS, OWN = ("bytes", "patches", "bpe"), "own"


class TextEncoder(Encoder):
    """A page of up to `limit` tokens, one embedding each; `patches` projects eight bytes into one token.

    Args:
        tokenizer: bytes, patches or bpe.
        limit: the most tokens of a page, including BEGIN.
        vocabulary: for bpe, the JSON of a tokenizer of the library tokenizers; it is saved with the agent.
        begin, end: the vocabulary's numbers for the beginning and the end of a page, if it has them.
        size: rows of the embedding table, by default the size of the vocabulary.
        plain: embeddings enter the trunk without normalisation, as a pretrained decoder expects its own.
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
            self.pieces = load_pieces(vocabulary)
            self.pieces.encode_special_tokens = True  # "</s>" in a text is a part of it, which ends no page
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
        """The tokens of readings [N, L]: int64 [N, K], for patches [N, K, 8]; -1 where there is none.

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
        """The token to be written after each token of readings [N, L]: the next one, and after the last one END.

        For patches these are the bytes of the next patch, with END after the last byte. The shape is that of
        `numbers`; -1 where there is no target (after the end, or for a vocabulary without an end).
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
            # A page ends after its last byte, which may be in the middle of a patch.
            behind = F.pad(found[..., :-1], (1, 0), value=NOTHING)
            found = torch.where((found == NOTHING) & (behind < BEGIN), END, found)
        return found

    def decode(self, numbers: Tensor) -> list[str]:
        """The texts of tokens [N, K] (for patches [N, K, 8]), without the marks of a page's beginning and end."""
        rows = numbers.flatten(1).tolist()
        if self.pieces is not None:
            kept = [[n for n in row if n >= 0 and n not in (self.begin, self.end)] for row in rows]
            return [self.pieces.decode(row) for row in kept]
        return [bytes(n for n in row if 0 <= n < BEGIN).decode(errors="replace") for row in rows]


def from_bytes(x: Tensor) -> list[str]:
    """Texts of uint8 [N, L], padded with zeros."""
    return [bytes(row).split(b"\0", 1)[0].decode(errors="replace") for row in x.cpu().tolist()]


@dataclass
class Spelling(Output):
    """Eight bytes for each token [...]: numbers [..., 8], written one after the other by the GRU of `head`.

    Attributes:
        features: [..., D], from which the bytes are written.
        logits: float [..., 8, 259] if the right bytes were given; None otherwise.
    """

    head: TextHead
    features: Tensor
    logits: Tensor | None

    def log_prob(self, value: Tensor) -> Tensor:
        """Log probability of each byte of `value`, int64 [..., 8], given the bytes before it."""
        logits = self.head.spelled(self.features, value) if self.logits is None else self.logits
        losses = F.cross_entropy(logits.flatten(0, -2), value.clamp_min(0).flatten(), reduction="none")
        return -losses.reshape(value.shape)

    def loss(self, target: Tensor, mask: Tensor | None = None, generator: torch.Generator | None = None) -> Tensor:
        """Nats a byte for numbers int64 [..., 8]; the padding of a patch does not count."""
        counts = (target >= 0) & (target != NOTHING)
        return masked_mean(-self.log_prob(target), counts if mask is None else counts & mask[..., None])

    def sample(self, generator: torch.Generator | None = None) -> Tensor:
        return self.head.spell(self.features, lambda logits: Categorical(logits).sample(generator))

    def mode(self) -> Tensor:
        return self.head.spell(self.features, lambda logits: Categorical(logits).mode())


class TextHead(Head):
    """Predicts the next token after each token of a page, with the embedding table of the encoder that it taps.

    Args:
        patched: the encoder reads patches, so eight bytes are written for each token.
        plain: features are compared with the table without a projection, as in a pretrained decoder.
        untied: rows of a table of its own, for pretrained decoders whose output table is not their input table.
    """

    generates, reads_senses = True, True
    lighter = ()

    def __init__(self, inlet: Inlet, patched: bool = False, plain: bool = False, untied: int | None = None) -> None:
        super().__init__(inlet)
        self.patched = self.takes_targets = patched
        size = max(8, inlet.width // 4) if patched else inlet.width
        self.own = nn.Linear(inlet.width, untied, bias=False) if untied else None
        self.out: nn.Module = nn.Identity() if plain else nn.Linear(size if patched else inlet.width, size)
        if patched:
            self.start, self.cell = nn.Linear(inlet.width, inlet.width), nn.GRUCell(size, inlet.width)
            self.out = nn.Linear(inlet.width, size)
        # A tuple, so that it is no submodule: the table is saved and counted with the encoder.
        self._encoder: tuple[TextEncoder, ...] = ()

    def bind(self, agent: AgentParts, tap: Tap) -> None:
        """Write with the table of the encoder whose tokens on the trunk it taps first.

        Raises:
            PluginError: it is not an encoder of text, or only one of the two uses patches.
        """
        encoder = agent.encoder(tap.senses[0] if tap.senses else str(tap))
        if not isinstance(encoder, TextEncoder) or encoder.patched != self.patched:
            raise PluginError(
                "A head that writes text must tap the trunk's features of a sense of text, and use patches only if the "
                "sense does; add it with `add_text`."
            )
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
        """Logits [..., 8, V] of each byte of `numbers`, int64 [..., 8], given the bytes before it."""
        hidden = torch.tanh(self.start(features)).flatten(0, -2)
        before = F.embedding(numbers.clamp_min(0), self.table).flatten(0, -3)
        found = []
        for i in range(PATCH):
            hidden = self.cell(before[:, i - 1] if i else torch.zeros_like(before[:, 0]), hidden)
            found.append(F.linear(self.out(hidden), self.table))
        return torch.stack(found, 1).unflatten(0, features.shape[:-1])

    @torch.no_grad()
    def spell(self, features: Tensor, choose: Any) -> Tensor:
        """Eight bytes int64 [..., 8], each chosen by `choose` from logits [N, V]; after END comes only padding."""
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
    """Let the agent read and write pages: add the encoder `text` and, on the trunk's features of it, the head `text`.

    Args:
        tokenizer: bytes, patches, or the path of a `tokenizer.json` of the library tokenizers. An agent that already
            has the encoder keeps it, and the head uses its tokenizer.
        own: use the tokenizer and the embedding tables of the pretrained decoder that the trunk was made from.
        part: entry point of the head, a `TextHead`.
        beside: further parts of the head's tap, after the trunk's features.

    Raises:
        PluginError: `own` without such a trunk, or at another width than the decoder's.
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
    """Add only the encoder of pages; `add_text` adds the head as well, and has the same arguments and errors.

    Args:
        tokenizer: as for `add_text`, or `own`, that of the pretrained trunk.
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
    """Mean loss of the pages of a batch [B, T], each token given those before it: nats a token (patches: a byte)."""
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
    """The loss of each page of a batch [B, T] in nats a byte, float [B, T], which is comparable between tokenizers.

    Every page must be present, as UTF-8 bytes (`collate` makes them). The end of a page is not counted, nor is the
    first token if a vocabulary has no token for the beginning of a page. Divide by log(2) for bits a byte.
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
