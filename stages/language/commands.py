"""The command of the stage: `devmind say` goes on with a text."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from devmind.cli import show
from devmind.cli.agents import agent_with_head, folder_with_head
from devmind.cli.house import complain, group
from devmind.cli.options import raised_through
from devmind.errors import ConfigError
from stages.language.read import NOTHING

say = group("Continue a text.")


@say.command("say")
def go_on_saying(
    text: Annotated[str, typer.Argument(metavar="TEXT", help="The beginning of the text.")],
    agent: Annotated[Path | None, raised_through("language")] = None,
    length: Annotated[int, typer.Option("--length", min=1, metavar="N", help="Bytes to write.")] = 200,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed of the text.")] = 0,
) -> None:
    """Let an agent that can read continue a text, and print it as it comes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError("TEXT is not UTF-8; set your terminal to UTF-8, or type it in other characters.") from None
    if not text.strip():
        raise ConfigError(NOTHING)
    agent = folder_with_head(agent, "language", "text", "to read and write")
    with show.loading():
        from devmind.agent.threads import intra_op_threads
        from devmind.seeding import torch_generator
        from stages.language.parts import NAME, TEXT
        from stages.language.read.saying import go_on

    reader = agent_with_head(agent, NAME, TEXT, "to read and write", stages=(NAME,))

    from stages.language.read.saying import has_read

    complain(
        f"Note: it goes on in the manner of what it has read, and answers nothing. It has read {has_read(reader)}."
    )
    with intra_op_threads(1):
        pieces = go_on(reader, text, length, torch_generator("say", seed))
        first = next(pieces, "")  # errors come before the text; there is none if the agent ends its page at once
        typer.echo(text + first, nl=False)
        for piece in pieces:
            typer.echo(piece, nl=False)
    typer.echo()
