"""The page of all commands, generated from them: `python -m devmind.cli.reference > docs/commands.md`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from typer.main import get_command

from devmind import plugins
from devmind.cli.house import DISTRIBUTION, of_plugin

HEAD = """# Commands

Generated from the commands by `python -m devmind.cli.reference > docs/commands.md`; a test fails if it is stale.

Every command ends with an exit code: 0 (done, or passed), 1 (a gate failed, or something needs repair), 2 (an error,
with one sentence on stderr), 130 or 143 (stopped by Ctrl-C or SIGTERM), 141 (the reader of its output closed the pipe).

`python -m devmind` is the same command. `devmind --install-completion` lets the Tab key of bash, zsh, fish or
PowerShell complete commands, options, and the names of stages, skills, agents, games and puzzles;
`devmind --show-completion` prints what it would install.
"""


def page() -> str:
    """The whole page; it contains only packaged plugins, so it is the same on every machine."""
    from devmind.cli.app import app

    root: Any = get_command(app)
    for name, plugin in plugins.available("commands").items():
        if plugin.distribution == DISTRIBUTION:
            root.commands[name] = of_plugin(plugin)
    return "\n".join([HEAD, *_sections(root, "devmind", root=True)])


def _sections(command: Any, path: str, root: bool = False) -> Iterator[str]:
    below = getattr(command, "commands", None)
    if not root:
        yield f"{'##' if path.count(' ') == 1 else '###'} {path}\n\n{_prose(command.help)}\n"
    if below is None:
        yield f"```text\n{_usage(command, path)}\n```\n"
        if rows := [
            _row(parameter) for parameter in command.params if not parameter.hidden and parameter.name != "help"
        ]:
            yield "\n".join(["| | |", "|---|---|", *rows]) + "\n"
        return
    for name in sorted(below):
        yield from _sections(below[name], f"{path} {name}")


def _prose(text: str | None) -> str:
    """A docstring with its line breaks taken out, paragraphs kept."""
    return "\n\n".join(" ".join(part.split()) for part in (text or "").split("\n\n"))


def _usage(command: Any, path: str) -> str:
    arguments = [_label(p) for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and p.name != "help"]
    return " ".join([path, *arguments, *(["[OPTIONS]"] if options else [])])


def _label(parameter: Any) -> str:
    """`NAME` of an argument, `--name, -n VALUE` of an option, `--yes/--no` of a switch; brackets mark optional ones,
    and dots those that may be repeated.
    """
    value = parameter.metavar or "VALUE"
    if parameter.param_type_name == "argument":
        several = "..." if parameter.nargs == -1 and not value.rstrip("]").endswith("...") else ""
        return (value if parameter.required or value.startswith("[") else f"[{value}]") + several
    names = "/".join(", ".join(some) for some in (parameter.opts, parameter.secondary_opts) if some)
    return names if getattr(parameter, "is_flag", False) else f"{names} {value}"


def _row(parameter: Any) -> str:
    bar, meaning = "\\|", parameter.help or ""
    if parameter.param_type_name == "option" and parameter.required:
        meaning += " Required."
    usual = parameter.default
    if not (usual is None or usual is False or usual == () or callable(usual) or parameter.required):
        meaning += f" Default: `{usual}`."
    return f"| `{_label(parameter).replace('|', bar)}` | {meaning.replace('|', bar)} |"


if __name__ == "__main__":
    typer.echo(page(), nl=False)
