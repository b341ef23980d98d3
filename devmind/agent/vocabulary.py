"""Vocabularies of word pieces, made with the library tokenizers: trained on a text, read from a file, or taken from a
decoder.

Byte-level BPE (Sennrich et al., 2016, arXiv 1508.07909; on bytes as in GPT-2) can read any text, and decoding restores
it exactly. The library comes with transformers and is imported only if a vocabulary is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from devmind.errors import ConfigError, PluginError

if TYPE_CHECKING:
    from devmind.agent.agent import Agent

BEGINS, ENDS = ("<s>", "<|begin_of_text|>", "[CLS]"), ("</s>", "<|endoftext|>", "<|end_of_text|>", "[SEP]")
"""Usual names of the tokens with which a page begins and ends."""
FEWEST = 258
"""Pieces of the smallest vocabulary: all bytes, and those two tokens."""
PART = 10_000
"""Characters that the library gets at once, since the time to merge a word grows faster than the word."""


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
    if not path.is_file():
        raise ConfigError(f"There is no tokenizer '{path}': expected bytes, patches, or a file tokenizer.json.")
    try:
        return options_of(path.read_text(encoding="utf-8"))
    except Exception as error:  # the library raises plain Exceptions
        raise ConfigError(f"The file '{path}' is no tokenizer of the library tokenizers: {error}") from error


def options_of(vocabulary: str) -> dict[str, Any]:
    """Options of a `TextEncoder` for the JSON of a vocabulary: the JSON, and its numbers for a page's begin and end."""
    from tokenizers import Tokenizer

    pieces = Tokenizer.from_str(vocabulary)

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
    except Exception as error:
        raise PluginError(f"Words of the decoder '{source}' cannot be read: {error}") from error
    words, out = model.get_input_embeddings().weight.detach(), model.get_output_embeddings().weight.detach()
    options = {"tokenizer": "bpe", "limit": limit, "vocabulary": vocabulary, "plain": True, "size": len(words)}
    options |= {"begin": tokens.bos_token_id, "end": tokens.eos_token_id}
    return options, {"in": words} if torch.equal(words, out) else {"in": words, "out": out}
