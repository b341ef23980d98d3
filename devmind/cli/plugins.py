"""`devmind plugins`: everything found by entry point, including devmind's own."""

from __future__ import annotations

from typing import Annotated

import typer

from devmind import plugins
from devmind.cli import show
from devmind.cli.house import complain, group
from devmind.errors import PluginError

app = group("Stages, sensors, worlds, parts and commands that are installed: list.")


@app.command("list")
def list_(
    check: Annotated[bool, typer.Option("--check", help="Import each one; exit 1 if one is broken.")] = False,
) -> None:
    """Show every plugin with its group, version and source."""
    rows, broken = [], []
    for group_name in plugins.GROUPS:
        for plugin in plugins.available(group_name).values():
            problem = _problem(plugin) if check else None
            state = ("broken" if problem else "ok",) if check else ()
            rows.append((group_name, plugin.name, *state, f"{plugin.distribution} {plugin.version}", plugin.value))
            broken += [problem] if problem else []
    show.table(("group", "name", *(("state",) if check else ()), "from", "entry point"), rows)
    for sentence in broken:
        complain(sentence)
    raise typer.Exit(1 if broken else 0)


def _problem(plugin: plugins.Plugin) -> str | None:
    try:
        plugin.load()
        if plugin.group == "stages":
            from devmind.curriculum.start import load_stage

            load_stage(plugin.name)  # a run refuses more than a failed import
    except PluginError as error:
        return str(error)
    return None
