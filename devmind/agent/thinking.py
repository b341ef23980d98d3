"""From tokens to features to outputs: the base class of Agent that has, grows and runs the trunk, and runs heads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from devmind.agent.batch import RECALLED_BUDGET, Batch, to_device
from devmind.agent.conditional_layers import Deep, each
from devmind.agent.config import AgentConfig, size_named
from devmind.agent.encoder_holder import named_seed
from devmind.agent.encoders import Encoded
from devmind.agent.output import Output
from devmind.agent.perceiver import Perceiver
from devmind.agent.ring import Ring
from devmind.agent.state import State
from devmind.agent.taps import (
    READOUT,
    RECALLED,
    Perceived,
    Tap,
    Tapped,
    read_tap,
    sense_of,
    tap_parts,
    taps_trunk,
)
from devmind.agent.trunk import Trunk
from devmind.errors import ConfigError, DevmindError


class Thinker(Perceiver):
    """Runs encoders, trunk and heads as far as needed, without acting."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__(config)
        with named_seed(config.seed, "trunk"):
            self.trunk = Trunk(config)
        with named_seed(config.seed, "readout"):
            self.readout = nn.Parameter(torch.randn(config.width) * 0.3)

    def parts(self) -> dict[tuple[str, str], list[nn.Parameter]]:
        """Every parameter by (part, stage), for optimizer groups: ("trunk", stage), ("encoder.sight", stage), ..."""
        grown: dict[tuple[str, str], list[nn.Parameter]] = {}
        layers = self.trunk.decoder.layers[self.trunk.n_layers - len(self.config.grown) :]
        for stage, layer in zip(self.config.grown, layers, strict=True):
            grown.setdefault(("trunk", stage), []).extend(layer.parameters())
        later = {id(parameter) for parameters in grown.values() for parameter in parameters}
        own = [*self.trunk.parameters(), self.readout, self.recalled_type, self.recalled_rank, *self.age.parameters()]
        born = ("trunk", self.config.trunk_stage)
        grown[born] = [*(p for p in own if id(p) not in later), *grown.get(born, [])]
        return grown | self.part_parameters()

    def grow(self, layers: int, stage: str = "newborn", through: Mapping[str, str] | None = None) -> None:
        """Append `layers` trunk layers of `stage` with zero output projections, so that no answer changes at first.

        Older states have too few layers: make new ones.

        Args:
            through: which tokens go through the layers: senses or READOUT, each with the sense that has to be present
                in the same Moment. All other tokens skip them. By default all tokens go through. A sense that streams
                lets only its own tokens and the readout through, as the others are computed before it comes.

        Raises:
            ConfigError: this stage has already grown layers for other tokens.
        """
        groups, before = list(dict.fromkeys(self.config.grown)), self.config.deep.get(stage)
        if stage in groups and before != (None if through is None else dict(through)):
            raise ConfigError(
                f"All layers that a stage grows are for the same tokens: '{stage}' has grown some for "
                f"{', '.join(before or ['all'])}; got {', '.join(through or ['all'])}."
            )
        if through is not None:
            self.config.deep = {**self.config.deep, stage: dict(through)}
        self.trunk.grow(layers, self.config.seed, groups.index(stage) if stage in groups else len(groups))
        self.config.layers = self.trunk.n_layers
        self.config.grown = [*self.config.grown, *[stage] * layers]
        if self.config.trunk is not None:
            self.config.trunk = self.trunk.decoder.config.to_dict()

    def ensure_grown(self, stage: str, through: Mapping[str, str]) -> None:
        """`grow` as many layers as a stage adds at the agent's size, unless this stage has grown some."""
        if stage not in self.config.grown:
            self.grow(size_named(self.config.size).grown, stage, through)

    def set_window(self, moments: int, tokens: int | None = None) -> None:
        """Let the trunk see the last `moments` Moments, and at most `tokens` tokens (by default as many as before).

        No weights change, and slots are written as often as before. Older states do not fit: make new ones.

        Raises:
            ConfigError: `moments` or `tokens` is below 1.
        """
        config = AgentConfig(size=self.config.size, window=moments, window_tokens=tokens or self.config.window_tokens)
        self.config.window, self.config.window_tokens = config.window, config.window_tokens
        self.trunk.window, self.trunk.limit = config.window, config.window_tokens

    @contextmanager
    def narrowed(self, share: float) -> Iterator[None]:
        """Shorten the trunk's window, in the block, to this share (0 to 1) of its Moments; slots carry the rest."""
        moments, tokens = self.config.window, self.config.window_tokens
        self.set_window(max(1, round(share * moments)), tokens)
        try:
            yield
        finally:
            self.set_window(moments, tokens)

    def perceive(self, batch: Batch, taps: Iterable[str | Sequence[str]], short_term: bool = True) -> Perceived:
        """Run a Batch [B, T, ...] as far as the taps need it: the trunk runs only if it is tapped.

        Args:
            short_term: as for `forward`.
        """
        batch, taps = to_device(batch, self.device), list(taps)
        shared, apart = self._passes(taps)
        seen = self.encode_batch(batch, self._wanted(taps, shared))
        if shared:
            recalled = self.encode_recalled(batch["recalled"]) if "recalled" in batch else None
            self._run_trunk(seen, recalled, batch["first"], short_term)
        self._run_apart(apart, seen, batch["first"], short_term)
        return seen

    def _passes(self, taps: Iterable[Tap]) -> tuple[bool, list[str]]:
        """The trunk passes that taps need: whether the shared one, and the senses with a pass of their own."""
        parts = {part for tap in taps for part in tap_parts(tap) if taps_trunk(part)}
        apart = [sense for sense in self.apart if f"trunk:{sense}" in parts]
        return len(parts) > len(apart), apart

    def _wanted(self, taps: Iterable[Tap], shared: bool) -> set[str]:
        """The senses to encode: those that taps name, and for the `shared` pass all that enter it."""
        named = {sense for tap in taps for part in tap_parts(tap) if (sense := sense_of(part)) is not None}
        return named | set(self.entering if shared else ())

    def think(
        self, seen: Perceived, first: Tensor, short_term: bool = True, recalled: Encoded | None = None
    ) -> Perceived:
        """Run the trunk on the result of `encode_batch`, which is not changed; first bool [B, T].

        It serves lessons that do not train encoders: a Batch is encoded once, and goes through the trunk as often as it
        is learned from.

        Args:
            recalled: from `encode_recalled`, tokens [B, T, R, D], if anything was recalled.
        """
        thought = Perceived(dict(seen.encoded), seen.raw)
        first = first.to(self.device)
        self._run_trunk(thought, recalled, first, short_term)
        self._run_apart([sense for sense in self.apart if sense in seen.encoded], thought, first, short_term)
        return thought

    def run_heads(
        self,
        names: Iterable[str],
        seen: Perceived | Mapping[str, Encoded],
        targets: Mapping[str, Any] | None = None,
    ) -> dict[str, Output]:
        """Outputs of heads on what was perceived; for heads that tap senses, a mapping of encoded senses is enough.

        Raises:
            DevmindError: a head taps something that was not sensed, or the trunk although it was not run.
        """
        seen = seen if isinstance(seen, Perceived) else Perceived(dict(seen))
        outputs = {}
        for name in names:
            tapped = self._read(name, seen)
            if tapped is None:
                raise DevmindError(
                    f"The head '{name}' taps '{self.tap_of(name)}', which is not among what was perceived "
                    f"({', '.join(seen.encoded) or 'nothing'}{'' if seen.readout is None else ', trunk'})."
                )
            outputs[name] = self.head(name).respond(tapped, (targets or {}).get(name))
        return outputs

    def _read(self, name: str, seen: Perceived) -> Tapped | None:
        tap = self.tap_of(name)
        senses = [sense for part in tap_parts(tap) if (sense := sense_of(part)) is not None]
        if RECALLED in senses and RECALLED not in seen.of_senses and seen.readout is not None:
            nothing = seen.readout.new_zeros(*seen.readout.shape[:-1], RECALLED_BUDGET, self.config.width)
            seen.of_senses[RECALLED] = Encoded(nothing, torch.zeros_like(nothing[..., 0], dtype=torch.bool))
        return read_tap(tap, seen, {sense: self.tokens_of(sense) for sense in senses})

    def _assemble(
        self,
        encoded: Mapping[str, Encoded],
        recalled: Encoded | None,
        lead: Sequence[int],
        closes: bool = True,
        memories: int = RECALLED_BUDGET,
    ) -> tuple[Tensor, Tensor, dict[str, slice]]:
        """All tokens of a Moment in their fixed order: tokens [..., n, D], presence [..., n], slices by sense.

        Args:
            closes: the readout closes the Moment; otherwise more tokens will follow.
            memories: number of memories among the recalled tokens; they come first, and beliefs follow.
        """
        tokens, present, places = [self.readout.new_zeros(*lead, 0, self.config.width)], [], {}
        present.append(torch.ones(*lead, 0, dtype=torch.bool, device=self.device))
        at = 0
        if recalled is not None:
            tokens.append(recalled.tokens)
            present.append(recalled.present)
            at = recalled.tokens.shape[-2]
            if memories:
                places[RECALLED] = slice(0, min(memories, at))
        for name in self.entering:
            if name in encoded:
                tokens.append(encoded[name].tokens + self.encoder(name).type_embedding)
                present.append(encoded[name].present)
                places[name] = slice(at, at + tokens[-1].shape[-2])
                at = places[name].stop
        if closes:
            tokens.append(self.readout.expand(*lead, 1, -1))
            present.append(torch.ones(*lead, 1, dtype=torch.bool, device=self.device))
        return torch.cat(tokens, -2), torch.cat(present, -1), places

    def _sensed(self, present: Tensor, places: Mapping[str, slice]) -> Tensor:
        """A bit for each of `_doors`: whether the Moment has that sense, int64 [...]."""
        bits = present.new_zeros(present.shape[:-1], dtype=torch.int64)
        for bit, sense in enumerate(self._doors()):
            if sense in places:
                bits = bits | present[..., places[sense]].any(-1).long() << bit
        return bits

    def _deep(self, sensed: Tensor, n: int, places: Mapping[str, slice], closes: bool = True) -> Deep:
        """Which of a Moment's `n` tokens go through each stage's grown layers, bool [..., n].

        Args:
            sensed: from `_sensed`, of the whole Moment.
            closes: the last token is the readout.
        """
        doors, found = self._doors(), list[Tensor | bool]()
        for stage in dict.fromkeys(self.config.grown):
            if stage not in self.config.deep:
                found.append(True)
                continue
            deep = torch.zeros(*sensed.shape, n, dtype=torch.bool, device=sensed.device)
            for sense, beside in self.config.deep[stage].items():
                at = slice(n - 1, n) if sense == READOUT and closes else places.get(sense)
                if at is not None:
                    deep[..., at] = (sensed >> doors.index(beside) & 1).bool()[..., None]
            found.append(deep)
        return tuple(found)

    def _doors(self) -> list[str]:
        """The senses on whose presence it depends which tokens go through grown layers."""
        return list(dict.fromkeys(beside for through in self.config.deep.values() for beside in through.values()))

    def _run_trunk(self, seen: Perceived, recalled: Encoded | None, first: Tensor, short_term: bool = True) -> None:
        """Fill in the trunk's features of a Batch, first bool [B, T]."""
        tokens, present, places = self._assemble(seen.encoded, recalled, first.shape)
        deep = self._deep(self._sensed(present, places), present.shape[-1], places)
        packed, used = _pack(tokens, present, deep)
        features = _unpack(self.trunk(*packed[:2], first, short_term, packed[2]), tokens.shape, used)
        seen.readout = features[..., -1, :]
        seen.of_senses = {name: Encoded(features[..., at, :], present[..., at]) for name, at in places.items()}

    def _run_apart(self, senses: Iterable[str], seen: Perceived, first: Tensor, short_term: bool = True) -> None:
        """Fill in the trunk's features of senses that go through it by themselves, if the Batch has them.

        Each has its own window, without slots and readout, so other senses have no effect on it.
        """
        for sense in senses:
            if sense not in seen.encoded:
                continue
            encoded, places = seen.encoded[sense], {sense: slice(None)}
            tokens, present = encoded.tokens + self.encoder(sense).type_embedding, encoded.present
            features = torch.zeros_like(tokens)
            if bool(present.any()):
                deep = self._deep(self._sensed(present, places), present.shape[-1], places, closes=False)
                packed, used = _pack(tokens, present, deep)
                features = self.trunk(*packed[:2], first, short_term, packed[2], slots=False)
                features = _unpack(features, tokens.shape, used)
            seen.of_senses[sense] = Encoded(features, present)

    def _step_trunk(
        self,
        seen: Perceived,
        recalled: Encoded | None,
        first: Tensor,
        state: State,
        closes: bool = True,
        memories: int = RECALLED_BUDGET,
    ) -> None:
        """Run the trunk for one tick, first bool [B]; the Moment stays open unless it `closes`.

        Senses with a pass of their own go first, so that a hook on the trunk's attention sees the readout's pass last.
        """
        apart = dict[str, Encoded]()
        for sense, ring in state.apart.items():
            ring.begin(first)
            if sense in seen.encoded:
                apart[sense] = self._extend(sense, seen.encoded[sense], ring)
            ring.end()
        tokens, present, places = self._assemble(seen.encoded, recalled, first.shape, closes, memories)
        sensed = self._sensed(present, places)
        packed, used = _pack(tokens, present, self._deep(sensed, present.shape[-1], places, closes))
        features = self.trunk.step(*packed[:2], first, state.ring, state.slots, packed[2], closes)
        features = _unpack(features, tokens.shape, used)
        state.ring.sensed |= sensed
        seen.readout = features[..., -1, :] if closes else None
        shared = {name: Encoded(features[..., at, :], present[..., at]) for name, at in places.items()}
        seen.of_senses = apart | shared

    def _extend(self, sense: str, encoded: Encoded, ring: Ring) -> Encoded:
        """Features of further tokens [B, n, D] of a sense in the open Moment of a ring."""
        places = {sense: slice(None)}
        ring.sensed |= self._sensed(encoded.present, places)
        deep = self._deep(ring.sensed, encoded.present.shape[-1], places, closes=False)
        packed, used = _pack(encoded.tokens + self.encoder(sense).type_embedding, encoded.present, deep)
        features = _unpack(self.trunk.extend(*packed[:2], ring, packed[2]), encoded.tokens.shape, used)
        return Encoded(features, encoded.present)

    def _end_trunk(self, state: State) -> Tensor:
        """Close the open Moment with its readout; gives the readout's feature [B, D]."""
        n = len(state)
        ones = torch.ones(n, 1, dtype=torch.bool, device=self.device)
        deep = self._deep(state.ring.sensed, 1, {})
        feature = self.trunk.extend(self.readout.expand(n, 1, -1), ones, state.ring, deep)[:, 0]
        self.trunk.end(feature, state.ring, state.slots)
        return feature


def _pack(tokens: Tensor, present: Tensor, deep: Deep) -> tuple[tuple[Tensor, Tensor, Deep], Tensor | None]:
    """Tokens [..., n, D], presence and `deep` without columns that no Moment uses, and the columns that are left, bool
    [n] (None: all).
    """
    used = present.flatten(0, -2).any(0)
    if bool(used.all()):
        return (tokens, present, deep), None
    return (tokens[..., used, :], present[..., used], each(deep, lambda one: one[..., used])), used


def _unpack(features: Tensor, shape: torch.Size, used: Tensor | None) -> Tensor:
    if used is None:
        return features
    return features.new_zeros(shape).index_copy(-2, used.nonzero().squeeze(-1), features)
