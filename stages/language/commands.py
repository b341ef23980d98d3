"""The command of the stage: `devmind say` goes on with a text."""

from __future__ import annotations

import time
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devmind.cli import show
from devmind.cli.agents import agent_with_head, folder_with_head
from devmind.cli.house import complain, group
from devmind.cli.options import raised_through
from devmind.errors import ConfigError
from stages.language.read import NOTHING

if TYPE_CHECKING:
    from devmind.agent.agent import Agent


class Way(StrEnum):
    """Features of a read-out (`stages.language.read.one_pass`)."""

    seed, mended, trunk = "seed", "mended", "trunk"


say = group("Continue a text.")


@say.command("say")
def go_on_saying(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The beginning of the text.")],
    agent: Annotated[Path | None, raised_through("language")] = None,
    length: Annotated[int, typer.Option("--length", min=1, metavar="N", help="Bytes to write.")] = 200,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed of the text.")] = 0,
    readout: Annotated[
        Way | None,
        typer.Option(
            "--readout", metavar="seed|mended|trunk", help="Learn first, in one pass, from these features: no training."
        ),
    ] = None,
    learned: Annotated[
        Path | None,
        typer.Option("--text", metavar="FILE", help="What --readout learns from, UTF-8 or .jsonl of turns."),
    ] = None,
) -> None:
    """Let an agent that can read continue a text, and print it as it comes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError("TEXT is not UTF-8; set your terminal to UTF-8, or type it in other characters.") from None
    if not text.strip():
        raise ConfigError(NOTHING)
    if learned is not None and readout is None:
        raise ConfigError("--text is what --readout learns from; give --readout trunk too (or seed, or mended).")
    agent = folder_with_head(agent, "language", "text", "to read and write")
    with show.loading():
        from devmind.agent.threads import intra_op_threads
        from devmind.seeding import torch_generator
        from stages.language.parts import NAME, TEXT
        from stages.language.read.saying import go_on

    reader = agent_with_head(agent, NAME, TEXT, "to read and write", stages=(NAME,))

    if readout is not None:
        write_by_readout(reader, text, length, seed, readout.value, learned)
        return

    from stages.language.read.saying import has_read

    complain(
        f"Note: it goes on in the manner of what it has read, and answers nothing. It has read {has_read(reader)}."
    )
    with intra_op_threads(1):
        write(text, go_on(reader, text, length, torch_generator("say", seed)))


def write_by_readout(agent: Agent, text: str, length: int, seed: int, way: str, file: Path | None) -> None:
    """Learn from a text in one pass, say how well, and continue `text` by what was learned."""
    import torch

    from devmind.agent.threads import intra_op_threads
    from devmind.seeding import torch_generator
    from stages.language.read.corpus import CAREGIVER, blocks_of
    from stages.language.read.exam import nats_of
    from stages.language.read.one_pass import caregivers_blocks, learn
    from stages.language.read.pages import LENGTHS
    from stages.language.read.saying import has_read

    if file is not None:
        read = sum(map(len, blocks_of(file)))  # every error of the text comes before the first product
        complain(f"Reading '{file}', {read:,} characters, in one pass.")
    with intra_op_threads(1), torch.inference_mode():
        begun = time.process_time()
        model = learn(caregivers_blocks() if file is None else blocks_of(file), way, agent)
        seconds = time.process_time() - begun
        told = "".join(model.told)
        own = float(nats_of(agent, told, LENGTHS[agent.config.size]).mean()) if told else None
        met = ", whose lessons had this text" if file is None or file.name in has_read(agent) else ""
        complain(
            f"Note: the read-out '{way}' learned from {model.bytes_read:,} bytes of {file or CAREGIVER} in "
            f"{seconds:.1f} CPU s: {model.nats:.3f} nats a held-out character"
            + (f", the agent's own head {own:.3f}{met}" if own is not None else "")
            + f" (condition number {model.solution.condition:.1e}, penalty {model.solution.penalty:.1e} a byte)."
        )
        write(text, model.go_on(text, length, torch_generator("say", seed)))


def write(text: str, pieces: Iterator[str]) -> None:
    """Print a text and what goes on with it, as it comes."""
    first = next(pieces, "")  # errors come before the text; there is none if the agent ends its page at once
    typer.echo(text + first, nl=False)
    for piece in pieces:
        typer.echo(piece, nl=False)
    typer.echo()
