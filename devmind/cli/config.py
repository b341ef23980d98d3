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
    cost: Annotated[
        bool, typer.Option("--cost", help="What a step costs at each size; NAME is then a lesson, as STAGE/LESSON.")
    ] = False,
) -> None:
    """Print a configuration with everything it extends, as YAML."""
    if cost:
        return _show_costs("" if name == "nursery" else name, sets or ())
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


RANKS = 8
"""The processes for which it is said what each of them sends."""


def _show_costs(lesson: str, sets: Sequence[str]) -> None:
    show.line(f"{show.LOADING}; no step is taken, but the lesson makes a batch at each size.", "dim")
    from devmind.curriculum.cost import costs

    name, found = costs(lesson, sets=sets)
    show.line(f"\nA step of {name}, forward and backward:")
    rows = []
    for size, one in found.items():
        moved = map(show.megabytes, (one.checkpoint, one.ddp(RANKS), one.fsdp(RANKS)))
        rows.append((size, f"{one.parameters:,}", f"{one.tokens:,}", f"{one.flops / 1e9:,.2f}", *moved))
    sent = (f"DDP sends, {RANKS}", f"FSDP, {RANKS}")
    show.table(("size", "parameters", "tokens", "GFLOP", "checkpoint", *sent), rows)
    show.line("\nIts memory:")
    show.table(
        ("size", "weights", "gradients", "optimizer", "activations", "peak"),
        [
            (size, *map(show.megabytes, (one.weights, one.gradients, one.optimizer, one.saved, one.peak)))
            for size, one in found.items()
        ],
    )
    show.line(
        f"\nA multiplication and an addition are two FLOP. DDP, FSDP: what each of {RANKS} processes sends in a step.\n"
        "The peak is that of PyTorch's tensors: less than the sum if gradients come as activations go."
    )


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
