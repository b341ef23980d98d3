"""The trunk: a RoPE decoder of transformers (`decoders.py`) fed with tokens of Moments, in Batches or tick by tick.

One window mask serves both ways. Slots, where there are any, enter here: see `slots.py` and `segments.py`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers.cache_utils import Cache

from devmind.agent import segments
from devmind.agent.config import AgentConfig
from devmind.agent.decoders import angles_back, build_decoder, zero_outputs
from devmind.agent.parts import named_seed
from devmind.agent.ring import Ring
from devmind.agent.slots import Slots, SlotState
from devmind.agent.window import opening_moments, present_positions, window_mask
from devmind.seeding import derive_seed


class Trunk(nn.Module):
    """Tokens of Moments in, features of the same shape out; a pretrained decoder's width is adapted by projections."""

    def __init__(self, config: AgentConfig) -> None:
        super().__init__()
        self.window, self.rebase_at = config.window, config.rebase_at
        self.decoder: Any = build_decoder(config)
        width = self.decoder.config.hidden_size
        if width == config.width:
            self.inlet: nn.Module = nn.Identity()
            self.outlet: nn.Module = nn.Identity()
        else:
            self.inlet, self.outlet = nn.Linear(config.width, width), nn.Linear(width, config.width)
        self.slots: Slots | None = None
        if config.slots:
            with named_seed(config.seed, "slots"):
                self.slots = Slots(config.slots, config.width, config.attention_heads, config.window)

    @property
    def n_layers(self) -> int:
        """Number of decoder layers now."""
        return len(self.decoder.layers)

    def forward(self, tokens: Tensor, present: Tensor, first: Tensor, short_term: bool = True) -> Tensor:
        """Features of T consecutive Moments under the window mask; with slots, segment by segment.

        Args:
            tokens: [B, T, n, D]; present: bool [B, T, n]; first: bool [B, T].
            short_term: False runs every Moment by itself, without slots.

        Returns:
            [B, T, n, D]; rows of absent tokens mean nothing.
        """
        batch, length, n, _ = tokens.shape
        if not short_term:
            alone = self._pass(tokens.flatten(0, 1)[:, None], present.flatten(0, 1)[:, None], first.reshape(-1, 1))
            return alone.reshape(batch, length, n, -1)
        if self.slots is not None:
            return segments.run(self.slots, self.window, self.n_layers, tokens, present, first, self._decode)
        return self._pass(tokens, present, first)

    def _pass(self, tokens: Tensor, present: Tensor, first: Tensor) -> Tensor:
        """All at once, without slots; see `forward`."""
        batch, length, n, _ = tokens.shape
        opened = opening_moments(first)
        position = present_positions(present, opened).flatten(1)
        order = torch.arange(n, device=tokens.device).repeat(length)[None]
        moment = torch.arange(length, device=tokens.device).repeat_interleave(n)[None]
        start = opened.repeat_interleave(n, 1)
        mask = window_mask(moment, order, start, moment, order, present.flatten(1), self.window)
        return self._decode(tokens.flatten(1, 2), mask, position, None).reshape(batch, length, n, -1)

    def step(
        self, tokens: Tensor, present: Tensor, first: Tensor, ring: Ring, carried: SlotState | None = None
    ) -> Tensor:
        """Features [B, n, D] of one tick's tokens, which are written into `ring` (it is consumed).

        Args:
            tokens: [B, n, D], the last one the readout; present: bool [B, n]; first: bool [B].
            carried: slots, which enter at their ticks and keep the readout (they are consumed); None: without slots.
        """
        if carried is None or self.slots is None:
            return self._tick(tokens, present, first, ring)
        n, entering = tokens.shape[1], carried.enter(self.slots, first)
        if entering is not None:
            slots, rows = entering
            tokens = torch.cat((slots, tokens), 1)
            present = torch.cat((rows[:, None].expand(-1, len(self.slots)), present), 1)
        features = self._tick(tokens, present, first, ring)[:, -n:]
        carried.keep(features[:, -1])
        return features

    def _tick(self, tokens: Tensor, present: Tensor, first: Tensor, ring: Ring) -> Tensor:
        """One tick's tokens as they are; see `step`."""
        if ring.highest + tokens.shape[1] > self.rebase_at:
            self._rebase(ring)
        position, mask = ring.open(present, first)
        features = self._decode(tokens, mask, position, ring.cache)
        ring.close()
        return features

    def _decode(self, tokens: Tensor, mask: Tensor, position: Tensor, cache: Cache | None) -> Tensor:
        output = self.decoder(
            inputs_embeds=self.inlet(tokens),
            attention_mask=mask,
            position_ids=position,
            past_key_values=cache,
            use_cache=cache is not None,
        )
        return self.outlet(output.last_hidden_state)

    def _rebase(self, ring: Ring) -> None:
        shift = ring.oldest_position()
        ring.rebase(*angles_back(self.decoder, shift), shift)

    def grow(self, layers: int, seed: int) -> None:
        """Append decoder layers whose output projections are zero: features stay exactly as they are."""
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
            self.decoder.layers.append(layer.to(self.decoder.device, self.decoder.dtype))
