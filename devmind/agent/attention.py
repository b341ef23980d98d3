"""The readout's attention weights in the trunk's last layer, recomputed because sdpa does not return them."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from devmind.agent.agent import Agent
from devmind.agent.ring import RingLayer, is_known, rotate_keys
from devmind.agent.taps import Percepts


@dataclass(frozen=True)
class _Heard:
    """The input of the last layer for the readout at one tick."""

    hidden: Tensor
    cos: Tensor
    sin: Tensor
    mask: Tensor
    ring: RingLayer
    columns: Tensor


class ReadoutAttention:
    """Notes the input of the last layer that all tokens go through, and recomputes the readout's weights on request.

    Each thread has the weights of its own last step: while a life goes on, other threads ask its agent too. The step
    itself is not changed. The weights are None before the first step, and for decoders whose attention is not
    of Llama's or Qwen's kind. After the trunk has grown, make a new object.
    """

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self._noted = threading.local()
        self._layer = agent.trunk.n_layers - 1 - (agent.trunk.grown if agent.config.deep else 0)
        self._attention: Any = agent.trunk.decoder.layers[self._layer].self_attn
        self._handle = None
        if is_known(self._attention):
            self._handle = self._attention.register_forward_pre_hook(self._hear, with_kwargs=True)

    def close(self) -> None:
        """Stop noting."""
        if self._handle is not None:
            self._handle.remove()
        self._noted = threading.local()

    @property
    def _heard(self) -> _Heard | None:
        return getattr(self._noted, "heard", None)

    def _hear(self, module: Any, args: tuple[Any, ...], given: dict[str, Any]) -> None:
        cache, mask = given.get("past_key_values"), given.get("attention_mask")
        layer = cache.layers[self._layer] if cache is not None else None
        hidden = args[0] if args else given.get("hidden_states")
        if not isinstance(layer, RingLayer) or mask is None or hidden is None:
            return
        cos, sin = (angle[:, -1:] for angle in given["position_embeddings"])
        columns = layer.ring.last_columns()
        self._noted.heard = _Heard(hidden[:, -1:], cos, sin, mask[:, :, -1:], layer, columns)

    @torch.no_grad()
    def weights(self) -> Tensor | None:
        """The readout's weights over the ring, mean over the attention heads, float32 [B, filled], summing to 1.

        Call it before the next step.
        """
        heard, attention = self._heard, self._attention
        if heard is None:
            return None
        query = attention.q_proj(heard.hidden).unflatten(-1, (-1, attention.head_dim))
        if hasattr(attention, "q_norm"):
            query = attention.q_norm(query)
        query = rotate_keys(query.transpose(1, 2), heard.cos, heard.sin)
        keys = heard.ring.keys[:, :, : heard.mask.shape[-1]]
        keys = keys.repeat_interleave(query.shape[1] // keys.shape[1], dim=1)
        scores = (query @ keys.transpose(2, 3)).float() * attention.scaling
        scores = scores.masked_fill(~heard.mask, -torch.inf) if heard.mask.dtype == torch.bool else scores + heard.mask
        return scores.softmax(-1).mean(1).squeeze(1)

    def over(self, sense: str, percepts: Percepts) -> Tensor | None:
        """Shares float32 [B, K] of the weight on one sense's K tokens of this tick, summing to 1; None if it is absent.

        Args:
            percepts: those that the last step was given.
        """
        weights, heard = self.weights(), self._heard
        order = [name for name in self.agent.entering if name in percepts.encoded]
        if weights is None or heard is None or sense not in order or not _columns(percepts, sense):
            return None
        # Counted from the end: the readout is last, and the trunk holds only tokens that some row has.
        end = heard.columns.shape[1] - 1
        for name in order[order.index(sense) + 1 :]:
            end -= _columns(percepts, name)
        if end < _columns(percepts, sense):
            return None  # the Moment was written in several calls, and the last one held only the readout
        shares = weights.gather(1, heard.columns[:, end - _columns(percepts, sense) : end])
        return shares / shares.sum(-1, keepdim=True).clamp_min(1e-12)


def _columns(percepts: Percepts, sense: str) -> int:
    return int(percepts.encoded[sense].present.any(0).sum())
