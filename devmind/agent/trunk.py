"""The trunk: a RoPE decoder of transformers fed with tokens of Moments, all at once or tick by tick.

Notable choices: output projections start at zero (every layer starts as the identity), the decoder's word table is
dropped (tokens come from encoders), sdpa attention with our own 4-D window mask on both paths.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, LlamaConfig, LlamaModel, PreTrainedModel
from transformers.cache_utils import Cache, DynamicCache

from devmind.agent import segments
from devmind.agent.config import AgentConfig
from devmind.agent.parts import named_seed
from devmind.agent.ring import Ring
from devmind.agent.slots import Slots, SlotState
from devmind.agent.window import opening_moments, present_positions, rotate_keys, window_mask
from devmind.errors import PluginError
from devmind.seeding import derive_seed

_POSITION_DEPENDENT_ROPE = ("dynamic", "longrope")


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
        ring.rebase(*_angles_back(self.decoder, shift), shift)

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


def _from_config(config: Any) -> PreTrainedModel:
    config.vocab_size, config.pad_token_id = 1, None
    config._attn_implementation = "sdpa"
    return AutoModel.from_config(config, attn_implementation="sdpa", dtype=torch.float32)


def zero_outputs(layer: Any) -> None:
    """Set the output projections of a decoder layer to zero, which makes it the identity."""
    for projection in (layer.self_attn.o_proj, layer.mlp.down_proj):
        nn.init.zeros_(projection.weight)
        if projection.bias is not None:
            nn.init.zeros_(projection.bias)


def build_decoder(config: AgentConfig) -> PreTrainedModel:
    """The decoder that `config` describes; a pretrained one is read from its folder and noted in the config.

    Raises:
        PluginError: the named decoder cannot serve as a trunk.
    """
    decoder: Any
    if config.pretrained is not None:
        decoder = _load_pretrained(config.pretrained)
        config.trunk_source, config.pretrained = config.pretrained, None
        config.trunk = decoder.config.to_dict()
        config.layers = len(decoder.layers)
        return decoder
    if config.trunk is not None:
        kind = dict(config.trunk)
        return _from_config(AutoConfig.for_model(kind.pop("model_type"), **kind))
    decoder = LlamaModel(_llama_config(config))
    for layer in decoder.layers:
        zero_outputs(layer)
    return decoder


def _llama_config(config: AgentConfig) -> LlamaConfig:
    llama = LlamaConfig(
        vocab_size=1,
        hidden_size=config.width,
        # SwiGLU's third matrix at 8/3 of the width costs as much as a plain MLP of four times the width.
        intermediate_size=-(-config.width * 8 // 3 // 8) * 8,
        num_hidden_layers=config.layers,
        num_attention_heads=config.attention_heads,
        max_position_embeddings=config.rebase_at,
        bos_token_id=None,
        eos_token_id=None,
        use_cache=False,
    )
    llama._attn_implementation = "sdpa"
    return llama


def _load_pretrained(source: str) -> PreTrainedModel:
    try:
        decoder: Any = AutoModel.from_pretrained(
            source, attn_implementation="sdpa", dtype=torch.float32, use_safetensors=True, trust_remote_code=False
        )
    except Exception as error:
        raise PluginError(f"The decoder '{source}' cannot be loaded as a trunk: {error}") from error
    why_not = why_unsupported(decoder)
    if why_not:
        raise PluginError(
            f"The decoder '{source}' ({decoder.config.model_type}) cannot be the trunk: {why_not}. Supported are "
            "decoders with rotary positions and a growing key-value cache, such as Llama, Mistral, Qwen2 and Qwen3."
        )
    decoder.set_input_embeddings(nn.Embedding(1, decoder.config.hidden_size))
    decoder.config.vocab_size, decoder.config.pad_token_id = 1, None
    return decoder


@torch.no_grad()
def why_unsupported(decoder: Any) -> str | None:
    """None when `decoder` behaves as a trunk must, else the reason: it is tried on three tokens, not looked up."""
    parts = ("layers", "rotary_emb", "norm")
    if not all(hasattr(decoder, part) for part in parts):
        return f"it lacks {', '.join(part for part in parts if not hasattr(decoder, part))}"
    layer = decoder.layers[0]
    if not hasattr(getattr(layer, "self_attn", None), "o_proj") or not hasattr(
        getattr(layer, "mlp", None), "down_proj"
    ):
        return "its layers lack self_attn.o_proj or mlp.down_proj"
    rope = getattr(decoder.config, "rope_parameters", None) or {}
    if rope.get("rope_type") in _POSITION_DEPENDENT_ROPE:
        return f"its rotary angles change with the length ('{rope['rope_type']}')"
    decoder.eval()
    generator = torch.Generator().manual_seed(0)
    tokens = torch.randn(1, 3, decoder.config.hidden_size, generator=generator)
    causal = torch.ones(3, 3, dtype=torch.bool).tril()[None, None]

    def run(positions: Tensor, mask: Tensor) -> tuple[Tensor, list[Tensor]]:
        cache = DynamicCache()
        out = decoder(
            inputs_embeds=tokens, attention_mask=mask, position_ids=positions, past_key_values=cache, use_cache=True
        )
        return out.last_hidden_state, [layer.keys for layer in cache.layers]  # type: ignore[union-attr,misc]

    here, keys = run(torch.arange(3)[None], causal)
    moved, moved_keys = run(torch.arange(3)[None] + 7, causal)
    if not torch.allclose(here, moved, atol=1e-3):
        return "its features change when all positions are moved (no rotary positions)"
    angles = _angles_back(decoder, torch.tensor([7]))
    for key, moved_key in zip(keys, moved_keys, strict=True):
        if not torch.allclose(key, rotate_keys(moved_key, *angles), atol=1e-3):
            return "its cached keys are not rotated in halves, so a window could not be moved back"
    masked, _ = run(torch.arange(3)[None], torch.eye(3, dtype=torch.bool)[None, None])
    if torch.allclose(here[:, 1:], masked[:, 1:], atol=1e-6):
        return "it ignores a 4-D attention mask"
    return None


def _angles_back(decoder: Any, shift: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin [B, 1, R] that rotate keys back by `shift` int64 [B] positions."""
    probe = torch.zeros(1, dtype=torch.float32, device=shift.device)
    cos, sin = decoder.rotary_emb(probe, position_ids=shift[:, None])
    # Some rotary variants scale cos and sin; the cached keys carry that factor once already.
    scale = decoder.rotary_emb.attention_scaling
    return cos / scale, -sin / scale
