"""`devmind teach`, `devmind name`: names for pictures and sounds, from files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devmind.cli import show
from devmind.cli.agents import agent_folder, describer
from devmind.cli.house import complain
from devmind.cli.memory_files import describing, is_missing, opened_or_made
from devmind.cli.options import AgentOption, MemoryOption
from devmind.cli.paths import existing_files
from devmind.errors import StoreError

if TYPE_CHECKING:
    from devmind.live.remembering.show_and_tell import ShowAndTell
    from devmind.memory import Named
    from devmind.moment import Moment

LOADING = show.LOADING

Name = Annotated[str, typer.Argument(metavar="NAME", help="What it is called; it may have any number of examples.")]
Files = Annotated[list[Path], typer.Argument(metavar="FILE...", help="Pictures, sounds or videos.")]


def teach(name: Name, files: Files, agent: AgentOption = None, memory: MemoryOption = "memory") -> None:
    """Teach the agent a name for pictures and sounds by a few examples, without training.

    Each file is an example; a longer sound or video gives one for every five seconds. Earlier names stay.
    """
    from devmind.memory.names import proper_name

    name = proper_name(name)
    examples = [example for file in existing_files(files, "FILE") for _, example in _read(file)]
    show.line(LOADING, "dim")
    with _child(agent, memory) as child:
        for example in examples:
            child.teach(name, example)
        known = child.names.known()
    there = show.count_of(known[name], "example")
    show.line(f"{name}: {show.count_of(len(examples), 'example')} taught, {there} in all")
    show.line(f"known: {', '.join(known)}")
    show.line(f"memory: {show.place(memory)}")


def name(files: Files, agent: AgentOption = None, memory: MemoryOption = "memory") -> None:
    """Print which taught name a picture or a sound has, or that it is unknown."""
    _print_names(memory)
    examples = [(place, example) for file in existing_files(files, "FILE") for place, example in _read(file)]
    with _child(agent, memory) as child:
        if not child.names.known():
            raise StoreError(
                f"No name was taught in '{show.place(memory)}'; teach one with 'devmind teach NAME FILE...'."
            )
        for place, example in examples:
            answers = child.ask(example)
            for sense in example.senses:
                show.line(f"{place}, {sense}: {_answer(answers.get(sense))}")


@contextmanager
def _child(agent: Path | None, memory: str) -> Iterator[ShowAndTell]:
    """The agent with its memory open."""
    folder = agent_folder(agent)
    with opened_or_made(memory) as mind:
        yield describing(describer(folder), mind, rebuild=False)


def _read(file: Path) -> list[tuple[str, Moment]]:
    """Every example of a file with its place: the file, and the seconds if there are several."""
    from devmind.live.remembering.example_files import examples_in
    from devmind.live.remembering.show_and_tell import EXAMPLE_TICKS
    from devmind.moment import TICK_HZ

    warnings: list[str] = []
    examples = examples_in(file, warnings)
    for sentence in warnings:
        complain(f"Note: {sentence}")
    seconds = EXAMPLE_TICKS // TICK_HZ
    several = [f"{file} {seconds * part}-{seconds * (part + 1)} s" for part in range(len(examples))]
    return list(zip(several if len(examples) > 1 else [str(file)], examples, strict=True))


def _answer(named: Named | None) -> str:
    return "unknown (no example of this sense was taught)" if named is None else str(named)


def _print_names(memory: str) -> None:
    if is_missing(memory):
        raise StoreError(f"There is no memory in '{memory}'; teach a name first: 'devmind teach NAME FILE...'.")
