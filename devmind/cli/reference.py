"""The pages of all commands, generated from them into docs/: `python -m devmind.cli.reference`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

from devmind import plugins
from devmind.checkpointing.files import write_atomically
from devmind.cli.house import DISTRIBUTION, PANELS, of_plugin

HEAD = """# Commands

These pages are generated from the commands by `python -m devmind.cli.reference`; a test fails if one is stale.

Every command ends with an exit code: 0 (done, or passed), 1 (a gate failed, or something needs repair), 2 (an error,
with one sentence on stderr), 130 or 143 (stopped by Ctrl-C or SIGTERM), 141 (the reader of its output closed the pipe).

`python -m devmind` is the same command. `devmind --install-completion` lets the Tab key of bash, zsh, fish or
PowerShell complete commands, options, and the names of stages, skills, agents, games and puzzles;
`devmind --show-completion` prints what it would install.
"""


def pages() -> dict[str, str]:
    """By file name the page of each group of commands, and `commands.md`, which lists them all.

    They contain only packaged plugins, so they are the same on every machine.
    """
    from devmind.cli.app import app

    root: Any = get_command(app)
    for name, plugin in plugins.available("commands").items():
        if plugin.distribution == DISTRIBUTION:
            root.commands[name] = of_plugin(plugin)
    written, contents = {}, [HEAD]
    for panel, listed in PANELS.items():
        names = listed.split()
        file = f"commands-{panel.lower()}.md"
        sections = [section for name in names for section in _sections(root.commands[name], f"devmind {name}")]
        written[file] = "\n".join([f"# Commands: {panel.lower()}\n", *sections])
        rows = [f"| [devmind {name}]({file}#devmind-{name}) | {_short(root.commands[name])} |" for name in names]
        contents.append("\n".join([f"## {panel}\n", "| | |", "|---|---|", *rows]) + "\n")
    return {"commands.md": "\n".join(contents), **written}


def _short(command: Any) -> str:
    return _prose(command.help).partition("\n")[0].replace("|", "\\|")


def _sections(command: Any, path: str) -> Iterator[str]:
    below = getattr(command, "commands", None)
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
    for name, text in pages().items():
        write_atomically(Path("docs", name), text)
