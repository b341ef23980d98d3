"""Vocabularies of word pieces, made with the library tokenizers: trained on a text, read from a file, or taken from a
decoder.

Byte-level BPE (Sennrich et al., 2016, arXiv 1508.07909; on bytes as in GPT-2) can read any text, and decoding restores
it exactly. The library comes with transformers and is imported only if a vocabulary is needed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from devmind import bounds
from devmind.errors import ConfigError, PluginError

if TYPE_CHECKING:
    from devmind.agent.agent import Agent

BEGINS, ENDS = ("<s>", "<|begin_of_text|>", "[CLS]"), ("</s>", "<|endoftext|>", "<|end_of_text|>", "[SEP]")
"""Usual names of the tokens with which a page begins and ends."""
FEWEST = 258
"""Pieces of the smallest vocabulary: all bytes, and those two tokens."""
PART = 10_000
"""Characters that the library gets at once, since the time to merge a word grows faster than the word."""
MOST, FILE_BYTES = 1_000_000, 64 << 20
"""The most pieces of a vocabulary, and the largest file of one."""
_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
_WORDS, _REST = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+",
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
)
_SPLITS = (rf"{_WORDS}|\p{{N}}{{1,3}}|{_REST}", rf"{_WORDS}|\p{{N}}|{_REST}")
"""How Llama 3 and Qwen 2 cut a text before its bytes are merged; an expression of others could run for hours."""


def make_vocabulary(text: str, size: int) -> str:
    """A vocabulary of `size` pieces trained on `text`, as the JSON of a `tokenizer.json`.

    Raises:
        ConfigError: `size` is below FEWEST.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    if size < FEWEST:
        raise ConfigError(f"A vocabulary needs at least {FEWEST} pieces, which include all bytes; got {size}.")
    made = Tokenizer(models.BPE())
    made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        special_tokens=[BEGINS[0], ENDS[0]],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    made.train_from_iterator((text[at : at + PART] for at in range(0, len(text), PART)), trainer)
    return made.to_str()


def read_vocabulary(path: Path) -> dict[str, Any]:
    """Options of a `TextEncoder` for the vocabulary in a file.

    Raises:
        ConfigError: there is no such file, or it is not a vocabulary.
    """
    if not path.exists():
        raise ConfigError(f"There is no tokenizer '{path}': expected bytes, patches, or a file tokenizer.json.")
    text = bounds.read_text(path, ConfigError, FILE_BYTES)
    try:
        return options_of(text)
    except ConfigError as error:
        raise ConfigError(f"The file '{path}' cannot be read as a tokenizer. {error}") from error


def load_pieces(vocabulary: str) -> Any:
    """The `tokenizers.Tokenizer` for the JSON of a vocabulary.

    The library takes many kinds of steps, and some values of them stop the process, run for ever or ask for gigabytes,
    which nothing could catch. So it gets only what `make_vocabulary` makes, in a text that is written here: byte-level
    BPE with pieces 0 to n-1, and the ways of cutting that common decoders have. Steps before and after (padding,
    truncation, templates) are left out, as a page is read whole.

    Raises:
        ConfigError: the vocabulary has another structure, or more than MOST pieces.
    """
    from tokenizers import Tokenizer

    sentence = "A vocabulary is the JSON of a tokenizer of the library tokenizers, and this is none ({})."
    found = bounds.parse_json(vocabulary, ConfigError, sentence)
    checked = json.dumps(_checked(found))
    with bounds.damage(ConfigError, sentence):
        return Tokenizer.from_str(checked)


def _checked(found: Any) -> dict[str, Any]:
    """The parts of a `tokenizer.json` that the library gets; ConfigError where they are no others than ours."""

    def refuse(what: str) -> ConfigError:
        return ConfigError(
            f"A vocabulary is byte-level BPE, as text.tokenizer=bpe makes it; this one has {what}. Use bytes, "
            "patches or bpe, or train one with the library's ByteLevel steps."
        )

    if not isinstance(found, dict) or not isinstance(model := found.get("model"), dict):
        raise refuse("no model")
    if model.get("type", "BPE") != "BPE":
        raise refuse(f"a model of the type {model.get('type')!r:.40}")
    options = {"ignore_merges": model.get("ignore_merges") is True}
    odd = [
        name for name in ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix") if model.get(name)
    ]
    if odd or model.get("byte_fallback") or model.get("fuse_unk"):
        raise refuse(f"a model with {', '.join(odd) or 'pieces for unknown bytes'}")
    vocab, merges, added = model.get("vocab"), model.get("merges"), found.get("added_tokens") or []
    if not isinstance(vocab, dict) or not isinstance(merges, list) or not isinstance(added, list):
        raise refuse("no table of pieces and merges")
    if len(vocab) + len(added) > MOST:
        raise refuse(f"{len(vocab) + len(added):,} pieces, and {MOST:,} are the most")
    tokens = [_added(one, refuse) for one in added]
    pieces = {**vocab, **{one["content"]: one["id"] for one in tokens}}
    numbers = [one for one in pieces.values() if type(one) is int]
    if not pieces or sorted(numbers) != list(range(len(pieces))) or "" in pieces:
        raise refuse("pieces whose numbers are not 0 to n-1, each once")
    pairs = [one.split(" ") if isinstance(one, str) else one for one in merges]
    for pair in pairs:
        whole = isinstance(pair, list) and len(pair) == 2 and all(isinstance(part, str) for part in pair)
        if not whole or not {*pair, "".join(pair)} <= vocab.keys():
            raise refuse(f"a merge {pair!r:.40} that is no two pieces of it")
    if found.get("normalizer") not in (None, {"type": "NFC"}):
        raise refuse("a normalizer")
    if not _is_level(found.get("decoder")):
        raise refuse("a decoder that is not ByteLevel")
    return {
        "version": "1.0",
        "added_tokens": tokens,
        "normalizer": found.get("normalizer"),
        "pre_tokenizer": _cutting(found.get("pre_tokenizer"), refuse),
        "decoder": {**_LEVEL, "add_prefix_space": True},  # as the library writes it; it changes nothing
        "model": {"type": "BPE", "vocab": vocab, "merges": pairs, **options},
    }


def _added(token: Any, refuse: Callable[[str], ConfigError]) -> dict[str, Any]:
    flags = ("single_word", "lstrip", "rstrip", "normalized", "special")
    if not isinstance(token, dict) or not isinstance(token.get("content"), str) or type(token.get("id")) is not int:
        raise refuse("an added token without content and number")
    if len(token["content"]) > bounds.LONGEST_NAME:
        raise refuse("an added token of over 200 letters")
    return {"id": token["id"], "content": token["content"], **{name: token.get(name) is True for name in flags}}


def _is_level(step: Any) -> bool:
    return isinstance(step, dict) and step.get("type") == "ByteLevel"


def _cutting(step: Any, refuse: Callable[[str], ConfigError]) -> dict[str, Any]:
    """How a text is cut: as ours is, or at known expressions before."""
    first: list[dict[str, Any]] = []
    if isinstance(step, dict) and step.get("type") == "Sequence" and isinstance(step.get("pretokenizers"), list):
        known = [{"Regex": split} for split in _SPLITS]
        *before, step = step["pretokenizers"] or [None]
        for one in before:
            if not isinstance(one, dict) or one.get("type") != "Split" or one.get("pattern") not in known:
                raise refuse("a step before ByteLevel that is not known")
            first.append({"type": "Split", "pattern": one["pattern"], "behavior": "Isolated", "invert": False})
    if not _is_level(step):
        raise refuse("a pre-tokenizer that is not ByteLevel")
    level = {**_LEVEL, "add_prefix_space": step.get("add_prefix_space") is True, "use_regex": not first}
    return {"type": "Sequence", "pretokenizers": [*first, level]} if first else level


def options_of(vocabulary: str) -> dict[str, Any]:
    """Options of a `TextEncoder` for the JSON of a vocabulary: the JSON, and its numbers for a page's begin and end.

    Raises:
        ConfigError: as for `load_pieces`.
    """
    pieces = load_pieces(vocabulary)

    def first(names: Sequence[str]) -> int | None:
        found = [pieces.token_to_id(name) for name in names]
        return next((number for number in found if number is not None), None)

    return {"vocabulary": vocabulary, "begin": first(BEGINS), "end": first(ENDS)}


def of_pretrained(agent: Agent, limit: int) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Options and embedding tables (`in`, and `out` if it differs) of the pretrained decoder of the trunk.

    Raises:
        PluginError: the trunk is not a pretrained decoder, the agent has another width, or the words cannot be read.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    source, width = agent.config.trunk_source, agent.trunk.decoder.config.hidden_size
    if source is None:
        raise PluginError("This agent's trunk is no pretrained decoder, so it has no words of its own.")
    if width != agent.config.width:
        raise PluginError(
            f"A pretrained trunk reads and writes its own words at its own width only: make the agent with "
            f"AgentConfig(width={width}, ...); its width is {agent.config.width}."
        )
    try:
        model: Any = AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, use_safetensors=True)
        tokens: Any = AutoTokenizer.from_pretrained(source)
        vocabulary = tokens.backend_tokenizer.to_str()
        load_pieces(vocabulary)  # the agent that is saved with it must be loadable
    except Exception as error:
        raise PluginError(f"Words of the decoder '{source}' cannot be read: {error}") from error
    words, out = model.get_input_embeddings().weight.detach(), model.get_output_embeddings().weight.detach()
    options = {"tokenizer": "bpe", "limit": limit, "vocabulary": vocabulary, "plain": True, "size": len(words)}
    options |= {"begin": tokens.bos_token_id, "end": tokens.eos_token_id}
    return options, {"in": words} if torch.equal(words, out) else {"in": words, "out": out}
