"""The trunk: a transformers decoder with RoPE (`decoders.py`) over tokens of Moments, in Batches or tick by tick.

Both ways use the same window mask. Slots, if there are any, enter here: see `slots.py` and `segments.py`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache

from devmind.agent import segments
from devmind.agent.conditional_layers import Deep, deepen, each
from devmind.agent.config import AgentConfig
from devmind.agent.decoders import angles_back, build_decoder, zero_outputs
from devmind.agent.encoder_holder import named_seed
from devmind.agent.ring import Ring
from devmind.agent.slots import Slots, SlotState
from devmind.agent.window import for_attention
from devmind.seeding import derive_seed


class Trunk(nn.Module):
    """Tokens of Moments in, features of the same shape out; a pretrained decoder's width is adapted by projections."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__()
        self.window, self.limit, self.rebase_at = config.window, config.window_tokens, config.rebase_at
        self.decoder: Any = build_decoder(config)
        self.grown = len(config.grown)
        layers: Any = self.decoder.layers
        groups = list(dict.fromkeys(config.grown))
        for layer, stage in zip(layers[self.n_layers - self.grown :], config.grown, strict=True):
            deepen(layer, groups.index(stage))
        width = self.decoder.config.hidden_size
        if width == config.width:
            self.inlet: nn.Module = nn.Identity()
            self.outlet: nn.Module = nn.Identity()
        else:
            self.inlet, self.outlet = nn.Linear(config.width, width), nn.Linear(width, config.width)
        self.slots: Slots | None = None
        if config.slots:
            with named_seed(config.seed, "slots"):
                self.slots = Slots(config.slots, config.width, config.attention_heads, config.slots_every or 1)

    @property
    def n_layers(self) -> int:
        """The present number of decoder layers."""
        return len(self.decoder.layers)

    def forward(
        self,
        tokens: Tensor,
        present: Tensor,
        first: Tensor,
        short_term: bool = True,
        deep: Deep = (),
        slots: bool = True,
    ) -> Tensor:
        """Features of T consecutive Moments under the window mask; with slots, segment by segment.

        Args:
            tokens: [B, T, n, D]; present: bool [B, T, n]; first: bool [B, T].
            short_term: False runs every Moment by itself, without slots.
            deep: tokens that go through grown layers, with bool [B, T, n]; by default all do.
            slots: False: no slots enter, for tokens whose last one is not a readout.

        Returns:
            [B, T, n, D]; features of absent tokens have no meaning.
        """
        if short_term:
            return self._run(self.slots if slots else None, tokens, present, first, deep)
        alone = tokens.flatten(0, 1)[:, None], present.flatten(0, 1)[:, None], first.reshape(-1, 1)
        return self._run(None, *alone, each(deep, lambda one: one.flatten(0, 1)[:, None])).reshape(tokens.shape)

    def _run(self, slots: Slots | None, tokens: Tensor, present: Tensor, first: Tensor, deep: Deep) -> Tensor:
        # If no token of the Batch goes through a stage's layers, nothing has to be kept for later tokens.
        through = each(deep, lambda one: bool(one.any()) and one)
        return segments.run(
            slots, self.window, self.limit, self.n_layers, tokens, present, first, self._decode, through
        )

    def step(
        self,
        tokens: Tensor,
        present: Tensor,
        first: Tensor,
        ring: Ring,
        carried: SlotState | None = None,
        deep: Deep = (),
        closes: bool = True,
    ) -> Tensor:
        """Features [B, n, D] of a Moment's tokens, which are written into `ring` (it is consumed).

        Args:
            tokens: [B, n, D], the last one the readout if the Moment closes; present: bool [B, n]; first: bool [B].
            carried: slots, which enter at their ticks and store the readout (they are consumed); None: no slots.
            deep: tokens that go through grown layers, with bool [B, n]; by default all do.
            closes: False leaves the Moment open, for `extend` and then `end`.
        """
        n = tokens.shape[1]
        ring.begin(first)
        entering = None if carried is None or self.slots is None else carried.enter(self.slots, first)
        if entering is not None:
            slots, rows = entering
            tokens = torch.cat((slots, tokens), 1)
            present = torch.cat((rows[:, None].expand(-1, slots.shape[1]), present), 1)
            before = slots.shape[1]
            deep = each(deep, lambda one: nn.functional.pad(one, (before, 0)))
        features = self.extend(tokens, present, ring, deep)[:, tokens.shape[1] - n :]
        if closes:
            self.end(features[:, -1], ring, carried)
        return features

    def extend(self, tokens: Tensor, present: Tensor, ring: Ring, deep: Deep = ()) -> Tensor:
        """Features [B, n, D] of further tokens of the open Moment, tokens [B, n, D], present bool [B, n]."""
        if not tokens.shape[1]:
            return tokens
        if ring.highest + tokens.shape[1] > self.rebase_at:
            shift = ring.oldest_position()
            ring.rebase(*angles_back(self.decoder, shift), shift)
        position, mask = ring.write(present)
        deep = each(deep, lambda one: one if bool(one.any()) else None)
        return self._decode(tokens, mask, position, ring.cache, deep)

    def end(self, readout: Tensor, ring: Ring, carried: SlotState | None = None) -> None:
        """Close the Moment; readout [B, D] is the feature of its last token, which is later written into slots."""
        ring.end()
        if carried is not None and self.slots is not None:
            carried.keep(readout)

    def _decode(self, tokens: Tensor, mask: Tensor, position: Tensor, cache: Cache | None, deep: Deep) -> Tensor:
        inputs = self.inlet(tokens)
        output = self.decoder(
            inputs_embeds=inputs,
            attention_mask=for_attention(mask, self.decoder.config._attn_implementation, inputs.dtype),
            position_ids=position,
            past_key_values=cache,
            use_cache=cache is not None,
            **({"deep": deep} if self.grown else {}),
        )
        return self.outlet(output.last_hidden_state)

    def both_ways(self, tokens: Tensor) -> Tensor:
        """Features of tokens [B, T, D] that all see one another, without causality, window or state.

        Grown layers are skipped, since each stage grows them for certain tokens.
        """
        b, t = tokens.shape[:2]
        mask = torch.ones(b, 1, t, t, dtype=torch.bool, device=tokens.device)
        position = torch.arange(t, device=tokens.device).expand(b, t)
        grown: Any = self.decoder.layers[self.n_layers - self.grown :]
        return self._decode(tokens, mask, position, None, (False,) * len({layer.group for layer in grown}))

    def grow(self, layers: int, seed: int, group: int = 0) -> None:
        """Append decoder layers whose output projections are zero, so that features do not change at first.

        Args:
            group: as for `deepen`.
        """
        config = self.decoder.config
        for index in range(self.n_layers, self.n_layers + layers):
            config.num_hidden_layers = index + 1
            if getattr(config, "layer_types", None):
                config.layer_types = [*config.layer_types, config.layer_types[-1]]
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(derive_seed(seed, "trunk", "layer", index))
                layer = type(self.decoder.layers[0])(config, index)
                layer.apply(self.decoder._init_weights)
            zero_outputs(layer)
            deepen(layer, group)
            self.decoder.layers.append(layer.to(self.decoder.device, self.decoder.dtype))
        self.grown += layers
