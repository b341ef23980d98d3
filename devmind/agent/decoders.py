"""The trunk's decoder from transformers: a fresh Llama, or a pretrained decoder that is first tested on three tokens
(`why_unsupported`).

Notable choices: the output projections of a fresh decoder start at zero, so every layer starts as the identity; the
decoder's embedding table is dropped, since tokens come from encoders; sdpa attention gets a 4-D mask of our own.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from itertools import product
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from transformers import utils
from transformers.cache_utils import DynamicCache
from transformers.utils import import_utils

from devmind.agent.config import AgentConfig
from devmind.agent.ring import rotate_keys
from devmind.errors import PluginError

ATTENTION = "sdpa"
"""The attention kernel of every trunk: no config chooses it, since transformers would fetch a kernel that one names."""
_POSITION_DEPENDENT_ROPE = ("dynamic", "longrope")
_COMPILER, _LOSSES = "torch._dynamo", "transformers.loss."


class _Compiler(ModuleType):
    """In place of torch's compiler while transformers is imported: it needs only its decorators of functions, which
    change nothing unless they are compiled. Anything else that is asked for is the compiler's own.
    """

    __path__ = [os.path.join(path, "_dynamo") for path in torch.__path__]  # noqa: RUF012

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        _put_back(self)
        return getattr(importlib.import_module(_COMPILER), name)

    @staticmethod
    def disable(function: Any = None, *_: Any, **__: Any) -> Any:
        return (lambda given: given) if function is None else function

    @staticmethod
    def allow_in_graph(function: Any) -> Any:
        return function

    @staticmethod
    def assume_constant_result(function: Any) -> Any:
        function._dynamo_marked_constant = True
        return function


def _put_back(compiler: ModuleType) -> None:
    if sys.modules.get(_COMPILER) is compiler:
        del sys.modules[_COMPILER]
    if vars(torch).get("_dynamo") is compiler:
        del torch._dynamo


def _absent() -> bool:
    return False


def _matched(*args: Any, **kwargs: Any) -> Any:
    from scipy.optimize import linear_sum_assignment

    return linear_sum_assignment(*args, **kwargs)


@contextmanager
def _without_what_no_decoder_needs() -> Iterator[None]:
    """Import transformers' models without torch's compiler, its sharding over processes, and scipy's optimisation.

    The three take four fifths of the import's time, 3 s on one core. Losses that match boxes load scipy when they are
    called. Where a launcher has started several processes (`RANK` is set), sharding is imported as usual.
    """
    kept: dict[str, Callable[[], bool]] = {"is_scipy_available": utils.is_scipy_available}
    if "RANK" not in os.environ:
        kept["is_torch_distributed_available"] = utils.is_torch_distributed_available
    compiler = None if _COMPILER in sys.modules else _Compiler(_COMPILER)
    for name, place in product(kept, (utils, import_utils)):
        setattr(place, name, _absent)
    if compiler is not None:
        sys.modules[_COMPILER] = torch._dynamo = compiler
    try:
        yield
    finally:
        for name, place in product(kept, (utils, import_utils)):
            setattr(place, name, kept[name])
        if compiler is not None:
            _put_back(compiler)
        for module in [one for name, one in sys.modules.items() if name.startswith(_LOSSES)]:
            if vars(module).get("is_scipy_available") is _absent:
                vars(module).update(is_scipy_available=kept["is_scipy_available"], linear_sum_assignment=_matched)


with _without_what_no_decoder_needs():
    from transformers import LlamaConfig, LlamaModel, PreTrainedModel


TRUNKS = (
    "llama", "mistral", "ministral", "ministral3", "qwen2", "qwen3", "gemma", "olmo", "olmo2", "phi3", "granite",
    "smollm3", "stablelm", "nemotron", "exaone4", "seed_oss", "arcee", "apertus", "hunyuan_v1_dense", "jais2",
)  # fmt: skip
"""The kinds of decoders that may be a trunk. Others of transformers load kernels from the hub as they are built."""
TRUNK_KEYS = frozenset(
    {
        "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads",
        "head_dim", "hidden_act", "max_position_embeddings", "original_max_position_embeddings", "initializer_range",
        "rms_norm_eps", "layer_norm_eps", "norm_eps", "rope_parameters", "attention_bias", "attention_out_bias",
        "mlp_bias", "use_qkv_bias", "attention_dropout", "residual_dropout", "resid_pdrop", "embd_pdrop",
        "hidden_dropout", "sliding_window", "use_sliding_window", "sliding_window_pattern", "max_window_layers",
        "layer_types", "no_rope_layers", "no_rope_layer_interval", "clip_qkv", "qk_layernorm",
        "use_parallel_residual", "use_bidirectional_attention", "attention_multiplier", "embedding_multiplier",
        "residual_multiplier", "logits_scaling", "pretraining_tp",
    }
)  # fmt: skip
"""What the config of a saved trunk may say, as far as its kind knows it; see `AgentConfig.from_dict` for the reason."""


def _from_saved(trunk: Mapping[str, Any]) -> PreTrainedModel:
    """The decoder that the `trunk` of a saved config describes.

    Raises:
        PluginError: it is of a kind that cannot be a trunk.
    """
    from transformers import CONFIG_MAPPING

    kind = trunk.get("model_type")
    if kind not in TRUNKS:
        raise PluginError(f"A decoder of the kind {kind!r:.40} cannot be the trunk; {', '.join(TRUNKS)} can.")
    known = {field.name for field in fields(CONFIG_MAPPING[kind])} & TRUNK_KEYS
    config = CONFIG_MAPPING[kind](**{name: value for name, value in trunk.items() if name in known})
    config.vocab_size, config.pad_token_id = 1, None
    from transformers import AutoModel

    return AutoModel.from_config(config, attn_implementation=ATTENTION, dtype=torch.float32)


def zero_outputs(layer: Any) -> None:
    """Set the output projections of a decoder layer to zero, which makes it the identity."""
    for projection in (layer.self_attn.o_proj, layer.mlp.down_proj):
        nn.init.zeros_(projection.weight)
        if projection.bias is not None:
            nn.init.zeros_(projection.bias)


def set_neurons(mlp: Any, neurons: int) -> None:
    """Cut an MLP to its first `neurons` neurons, or add ones whose weights are all zero.

    Raises:
        PluginError: it is not of Llama's kind.
    """
    if not all(hasattr(mlp, name) for name in ("gate_proj", "up_proj", "down_proj")):
        raise PluginError("The trunk's MLPs cannot grow: they lack gate_proj, up_proj or down_proj.")
    for linear, dim in ((mlp.gate_proj, 0), (mlp.up_proj, 0), (mlp.down_proj, 1)):
        old = linear.weight
        shape = (neurons, old.shape[1]) if dim == 0 else (old.shape[0], neurons)
        new = torch.zeros(shape, dtype=old.dtype, device=old.device)
        both = min(neurons, old.shape[dim])
        new.narrow(dim, 0, both).copy_(old.detach().narrow(dim, 0, both))
        linear.weight = nn.Parameter(new, requires_grad=old.requires_grad)
        linear.out_features, linear.in_features = shape


def pass_by(decoder: Any) -> None:
    """Skip layers of a trunk's decoder that are still the identity: the result is the same, in a fraction of the time.

    This is not saved with the agent, and is right only as long as those layers do not learn.
    """
    for layer in decoder.layers:
        if not (layer.self_attn.o_proj.weight.any() or layer.mlp.down_proj.weight.any()):
            layer.forward = _through


def _through(hidden_states: Tensor, *_: Any, **__: Any) -> Tensor:
    return hidden_states


def build_decoder(config: AgentConfig) -> PreTrainedModel:
    """The decoder that `config` describes; a pretrained one is loaded and noted in the config.

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
        return _from_saved(config.trunk)
    decoder = LlamaModel._from_config(llama_config(config), attn_implementation=ATTENTION, dtype=torch.float32)
    for layer in decoder.layers:
        zero_outputs(layer)
    return decoder


def llama_config(config: AgentConfig) -> LlamaConfig:
    """Of a fresh decoder of an agent's size."""
    return LlamaConfig(
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


def _load_pretrained(source: str) -> PreTrainedModel:
    from transformers import AutoModel

    try:
        decoder: Any = AutoModel.from_pretrained(
            source, attn_implementation=ATTENTION, dtype=torch.float32, use_safetensors=True, trust_remote_code=False
        )
    except Exception as error:
        raise PluginError(f"The decoder '{source}' cannot be loaded as a trunk: {error}") from error
    kind = decoder.config.model_type
    why_not = why_unsupported(decoder) or ("" if kind in TRUNKS else "its kind is not known to work")
    if why_not:
        raise PluginError(
            f"The decoder '{source}' ({kind}) cannot be the trunk: {why_not}. Supported are decoders with rotary "
            f"positions and a growing key-value cache: {', '.join(TRUNKS)}."
        )
    decoder.set_input_embeddings(nn.Embedding(1, decoder.config.hidden_size))
    decoder.config.vocab_size, decoder.config.pad_token_id = 1, None
    return decoder


@torch.no_grad()
def why_unsupported(decoder: Any) -> str | None:
    """None if `decoder` behaves as a trunk must when it is run on three tokens, otherwise the reason."""
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
    angles = angles_back(decoder, torch.tensor([7]))
    for key, moved_key in zip(keys, moved_keys, strict=True):
        if not torch.allclose(key, rotate_keys(moved_key, *angles), atol=1e-3):
            return "its cached keys are not rotated in halves, so a window could not be moved back"
    masked, _ = run(torch.arange(3)[None], torch.eye(3, dtype=torch.bool)[None, None])
    if torch.allclose(here[:, 1:], masked[:, 1:], atol=1e-6):
        return "it ignores a 4-D attention mask"
    return None


def angles_back(decoder: Any, shift: Tensor) -> tuple[Tensor, Tensor]:
    """cos and sin [B, 1, R] that rotate keys back by `shift` int64 [B] positions."""
    probe = torch.zeros(1, dtype=torch.float32, device=shift.device)
    cos, sin = decoder.rotary_emb(probe, position_ids=shift[:, None])
    # Some rotary variants scale cos and sin; the cached keys have that factor already.
    scale = decoder.rotary_emb.attention_scaling
    return cos / scale, -sin / scale
