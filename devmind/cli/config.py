"""`devmind config`: the configuration of a run, and the origin of each value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from devmind.cli import show
from devmind.cli.house import group
from devmind.cli.options import SetOption

if TYPE_CHECKING:
    from devmind.config import Section

app = group("The configuration of a run or a life: show.")


@app.command("show")
def show_(
    name: Annotated[
        str, typer.Argument(metavar="[NAME]", help="A configuration by name or file; live: that of a life.")
    ] = "nursery",
    sets: SetOption = None,
    explain: Annotated[bool, typer.Option("--explain", help="Every key with its value, origin and meaning.")] = False,
) -> None:
    """Print a configuration with everything it extends, as YAML."""
    import yaml

    from devmind.config import LIVE, LiveConfig, RunConfig, config_names, load_as

    config = load_as(LiveConfig if name == LIVE else RunConfig, name, sets=sets or ())
    if explain:
        show.table(("key", "value", "from", "meaning"), explain_keys(config, name, sets or ()))
        show.line(
            f"\nConfigurations: {', '.join(config_names())}; of a life: {LIVE}.\nChange a key with --set KEY=VALUE."
        )
    else:
        print(yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False), end="")


def explain_keys(config: Section, name: str, sets: Sequence[str]) -> list[tuple[str, str, str, str]]:
    """One row for each key: name, value, origin ('default', a file's name, '--set'), and meaning with the default."""
    from devmind.config import known_keys, put_sets, validate_as

    values, defaults = config.model_dump(mode="json"), validate_as(type(config), {}).model_dump(mode="json")
    typed: dict[str, Any] = {}
    put_sets(typed, sets)
    layers = [("--set", typed), *_files(name)]
    rows = []
    for known, meaning in known_keys(type(config)).items():
        named = list(values[known.partition(".")[0]]) if "NAME" in known else []
        for key in [known.replace("NAME", one) for one in named] or [known]:
            origin = next((label for label, layer in layers if _at(layer, key) is not _ABSENT), "default")
            default = "" if origin == "default" else f" (default {_text(_at(defaults, key))})"
            rows.append((key, _text(_at(values, key)), origin, meaning + default))
    return rows


_ABSENT = object()


def _at(values: Any, key: str) -> Any:
    """The value at a dotted key, or `_ABSENT`."""
    for part in key.split("."):
        if not isinstance(values, Mapping) or part not in values:
            return _ABSENT
        values = values[part]
    return values


def _text(value: Any) -> str:
    if value is _ABSENT or value is None:
        return "none"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _files(name: str) -> list[tuple[str, Any]]:
    """The content of each file, from `name` back through all that it extends."""
    from devmind.config import find, read_layer

    layers: list[tuple[str, Any]] = []
    following: str | None = name
    while following:
        path = find(following)
        said = read_layer(path)
        layers.append((path.name, said))
        following = said.get("extends")
    return layers
