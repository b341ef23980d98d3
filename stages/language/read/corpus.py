"""The texts that are read, the caregiver's sentences or given ones, and the held-out part of them.

The key `text.files`, else `--data DIR` with files `DIR/text/*.txt`, gives texts (UTF-8). The last tenth
of each is held out, and some pages are still the caregiver's. Without texts the agent reads the caregiver's sentences
and is examined on new scenes.
"""

from __future__ import annotations

import codecs
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from devmind import bounds
from devmind.agent.config import by_size
from devmind.bounds import data_files
from devmind.curriculum.stage import Context
from devmind.errors import ConfigError
from devmind.seeding import EXAM_SEEDS_FROM
from stages.language.caregiver.grammar import talk

CAREGIVER = "the caregiver's sentences"
SAID = by_size((1_000_000, 50_000), tiny=(20_000, 2_000))
"""By size, characters of the caregiver's sentences that are taught and held out."""
TEXT_BYTES = 1 << 30
"""The largest text to learn from."""
BLOCK, LINE_BYTES = 2048, 1 << 20
"""Bytes of a block of a text, and the longest line of one with turns."""
TURNS, ROLES = ".jsonl", ("user", "assistant")
"""The suffix of a text of turns, a conversation a line, and who speaks."""
LEAST = 2_000
"""Characters below which a text teaches nothing and its held-out tenth says nothing."""


@dataclass(frozen=True)
class Corpus:
    """A text in two parts, neither of which is empty.

    Attributes:
        source: a name; sha256: of both parts and their split.
        taught, held_out: texts.
        ceiling: the best possible nats a character; ceiling_is: whose that is.
    """

    source: str
    taught: str
    held_out: str
    ceiling: float
    ceiling_is: str

    @property
    def sha256(self) -> str:
        """A hash of both parts and of the place of the split."""
        return hashlib.sha256(f"{len(self.taught)}\0{self.taught}{self.held_out}".encode()).hexdigest()


def corpus(context: Context) -> Corpus:
    """The corpus of this run.

    Raises:
        ConfigError: a text is not UTF-8, holds the character number zero, or is too short.
    """
    files = [Path(file) for file in context.config.text.files or ()]
    files = files or data_files(context.data, "text/*.txt")
    return of_files(tuple(files)) if files else caregiver(context)


def caregiver(context: Context) -> Corpus:
    """The caregiver's sentences of this run, which are read beside given texts too."""
    return of_caregiver(context.seed, *SAID[context.config.size])


@lru_cache(maxsize=2)
def of_caregiver(seed: int, characters: int, held_out: int) -> Corpus:
    """The caregiver's sentences, with different scenes for lessons and for the exam."""
    lessons_text, _ = talk(characters, "lesson", seed % EXAM_SEEDS_FROM)
    exam_text, nats = talk(held_out, "exam", EXAM_SEEDS_FROM + seed)
    return Corpus(
        CAREGIVER, lessons_text, exam_text, nats / len(exam_text), "who knows the grammar and hears each scene anew"
    )


@lru_cache(maxsize=2)
def of_files(files: tuple[Path, ...]) -> Corpus:
    """Texts joined, with the last tenth of each held out."""
    texts = [read_text(file) for file in files]
    cuts = [int(len(text) * 0.9) for text in texts]
    return Corpus(
        ", ".join(file.name for file in files),
        "".join(text[:cut] for text, cut in zip(texts, cuts, strict=True)),
        "".join(text[cut:] for text, cut in zip(texts, cuts, strict=True)),
        0.9,
        "a person who guesses English letters (Shannon, 1951: at most 1.3 bits a letter)",
    )


def read_text(file: Path) -> str:
    """A text file.

    Raises:
        ConfigError: it is not there, is not UTF-8, holds the character number zero, or is too short.
    """
    if not file.is_file():
        raise ConfigError(f"There is no text '{file}'; give files that exist by --set text.files=[FILE].")
    if file.suffix == TURNS:
        text = "".join(blocks_of(file))
    else:
        data = bounds.read_file(file, ConfigError, TEXT_BYTES)
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise _not_utf8(file, error.start) from None
        _check_text(file, text)
    if len(text) < LEAST:
        raise ConfigError(
            f"The text '{file}' has {len(text):,} characters; to learn from it and hold out a tenth, at "
            f"least {LEAST:,} are needed."
        )
    return text


def blocks_of(file: Path) -> Iterator[str]:
    """A text in blocks, with no more than one of them in memory: of a file .jsonl each line's turns, else BLOCK
    characters each.

    Raises:
        ConfigError: as `read_text`, or a line has no turns (`turns_of`) or is longer than LINE_BYTES.
    """
    if not file.is_file():
        raise ConfigError(f"There is no text '{file}'; give a file that exists.")
    with bounds.open_file(file, ConfigError, TEXT_BYTES) as opened:
        if file.suffix == TURNS:
            number = 0
            while line := opened.readline(LINE_BYTES + 1):
                number += 1
                if line.strip():
                    yield turns_of(line, f"Line {number} of '{file}'")
            return
        decoder, begins = codecs.getincrementaldecoder("utf-8")(), 0
        while data := opened.read(BLOCK):
            try:
                text = decoder.decode(data)
            except UnicodeDecodeError as error:
                raise _not_utf8(file, begins + error.start) from None
            begins += len(data)
            _check_text(file, text)
            yield text
        if decoder.getstate()[0]:
            raise _not_utf8(file, begins)


def turns_of(line: bytes, where: str) -> str:
    """The text of a line of JSON with `user` and `assistant`, or with `messages` of `role` and `content`.

    Raises:
        ConfigError: it is something else; `where` begins the sentence.
    """
    wanted = "has no turns: expected a JSON object with 'user' and 'assistant', or 'messages' of 'role' and 'content'"
    if len(line) > LINE_BYTES:
        raise ConfigError(f"{where} is longer than {LINE_BYTES:,} bytes; give a conversation a line.")
    turns = bounds.parse_json(line, ConfigError, f"{where} {wanted}. Convert the file.")
    messages = turns.get("messages") if isinstance(turns, dict) else None
    if isinstance(turns, dict) and messages is None:
        messages = [{"role": role, "content": turns.get(role)} for role in ROLES]
    said = []
    for turn in messages if isinstance(messages, list) else [None]:
        role, content = (turn.get("role"), turn.get("content")) if isinstance(turn, dict) else (None, None)
        if role == "system":
            continue
        if role not in ROLES or not isinstance(content, str):
            raise ConfigError(f"{where} {wanted}. Convert the file.")
        said.append(f"<user> {content}" if role == "user" else f"<bot> {content} </bot>")
    text = f"<s> {' '.join(said)} <eos>\n".encode(errors="replace").decode()
    _check_text(Path(where), text)
    return text


def _check_text(file: Path, text: str) -> None:
    if "\0" in text:
        raise ConfigError(f"'{file}' holds the character number zero, which no text does; is it another kind of file?")


def _not_utf8(file: Path, byte: int) -> ConfigError:
    return ConfigError(f"The text '{file}' is not UTF-8: byte {byte} cannot be read. Save it as UTF-8.")


def as_bytes(text: str) -> np.ndarray:
    """UTF-8, uint8 [N]."""
    return np.frombuffer(text.encode(), np.uint8)
