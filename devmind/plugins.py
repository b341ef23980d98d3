"""Plugins are found by entry point and loaded only when used; the built-in ones are found in the same way.

A stage's own encoders and heads need no entry points: the literal `part_classes` of its class names them.
"""

from __future__ import annotations

import ast
import importlib.util
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.machinery import PathFinder
from importlib.metadata import Distribution, EntryPoint, EntryPoints, entry_points
from pathlib import Path
from typing import Any

from devmind.errors import PluginError, nearest, without_library

SKIPS_UNREADABLE = "DEVMIND_SKIPS_UNREADABLE"
"""The variable by which `skip_unreadable` reaches the processes that this one starts."""
GROUPS = ("stages", "sensors", "worlds", "parts", "stores", "commands", "procedures", "voices", "abilities")


def kind_of(group: str) -> str:
    """What one plugin of a group is called."""
    return "ability" if group == "abilities" else group.removesuffix("s")


@dataclass(frozen=True)
class Plugin:
    """One entry point of one group, or one part that a stage names, and the distribution that it comes from.

    Attributes:
        rivals: other distributions that have another plugin of this name in the group.
    """

    group: str
    name: str
    value: str
    distribution: str
    version: str
    rivals: tuple[str, ...] = ()

    @property
    def about(self) -> str:
        """The first paragraph of the plugin's docstring, read from its file without running it; '' if there is none.

        A plugin that `load` would refuse raises nothing here, so that a list of plugins can show broken ones too.
        """
        found = self._defined(self._source())
        return "" if found is None else about(ast.get_docstring(found))

    def literal(self, name: str) -> Any:
        """The value of a class attribute that is written as a literal, read as `about` is; None if there is none."""
        found = self._defined(self._source())
        value = _assigned(found.body, name) if isinstance(found, ast.ClassDef) else None
        with suppress(ValueError):
            return None if value is None else ast.literal_eval(value)
        return None

    @property
    def skills(self) -> tuple[str, ...]:
        """The names of a stage's skills, read from its file without running it; () if they are not written out there.

        They are, if the class has `skills`, or a name for them, as a list of `Skill("name", ...)`.
        """
        tree = self._source()
        stage = self._defined(tree)
        if not isinstance(stage, ast.ClassDef) or (value := _assigned(stage.body, "skills")) is None:
            return ()
        if isinstance(value, ast.Name):
            value = _assigned(tree.body, value.id)
        names = [_skill(one) for one in value.elts] if isinstance(value, ast.List | ast.Tuple) else []
        return tuple(name for name in names if name) if all(names) else ()

    def _source(self) -> ast.Module:
        """The module's syntax, nothing imported, not even its packages; an empty one if its file cannot be read."""
        top, *inner = self.value.partition(":")[0].split(".")
        with suppress(Exception):
            spec = importlib.util.find_spec(top)
            for name in inner:
                spec = PathFinder.find_spec(name, spec.submodule_search_locations) if spec else None
            if spec and spec.origin:
                return ast.parse(Path(spec.origin).read_bytes())
        return ast.parse("")

    def _defined(self, tree: ast.Module) -> ast.ClassDef | ast.FunctionDef | None:
        """The definition of the plugin's object."""
        name = self.value.partition(":")[2]
        kinds = ast.ClassDef | ast.FunctionDef
        return next((node for node in tree.body if isinstance(node, kinds) and node.name == name), None)

    def load(self) -> Any:
        """Import and return the object.

        Raises:
            PluginError: the import fails or ends the process (`sys.exit`), a local folder of the same name shadows the
                package, or another package has a plugin of the same name.
        """
        if self.rivals:
            kind, packages = kind_of(self.group), (f"{self.distribution} {self.version}", *self.rivals)
            raise PluginError(
                f"Several packages have a {kind} named '{self.name}': {', '.join(packages)}. Uninstall all but one of "
                "them, or rename the entry point."
            )
        try:
            return EntryPoint(self.name, self.value, f"devmind.{self.group}").load()
        except (Exception, SystemExit) as error:
            raise PluginError(_why_broken(self, error)) from error


def _assigned(body: Sequence[ast.stmt], name: str) -> ast.expr | None:
    """The value that the last assignment gives to `name`."""
    found = None
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if any(isinstance(target, ast.Name) and target.id == name for target in targets):
            found = getattr(node, "value", None)
    return found


def _skill(call: ast.expr) -> str | None:
    """The name in `Skill("name", ...)` or `Skill(name="name", ...)`."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.func.id != "Skill":
        return None
    given = [*call.args[:1], *(word.value for word in call.keywords if word.arg == "name")]
    name = given[0] if given else None
    return name.value if isinstance(name, ast.Constant) and isinstance(name.value, str) else None


def about(docstring: str | None) -> str:
    """The first paragraph of a docstring, as one line."""
    return " ".join((docstring or "").strip().partition("\n\n")[0].split())


def _why_broken(plugin: Plugin, error: BaseException) -> str:
    top = plugin.value.partition(":")[0].partition(".")[0]
    head = f"The plugin '{plugin.name}' ({plugin.value} of {plugin.distribution} {plugin.version}) cannot be loaded"
    if isinstance(error, (ModuleNotFoundError, AttributeError)) and top in ("stages", "sensors"):
        spec = importlib.util.find_spec(top)
        places = list(spec.submodule_search_locations or []) if spec else []
        if not places or not spec or spec.origin is None:
            where = f" in {places[0]}" if places else ""
            return f"{head}: a folder named '{top}'{where} shadows devmind's own; rename it or run from another folder."
    if isinstance(error, SystemExit):
        return (
            f"{head}: its module ends the process when it is imported (sys.exit({error.code!r})). Put that below "
            "'if __name__ == \"__main__\":', or uninstall it ('devmind plugins list' shows all)."
        )
    if sentence := without_library(error):
        return sentence
    why = f"{type(error).__name__}: {error}".removesuffix(".")
    return f"{head}: {why}. Fix or uninstall it ('devmind plugins list' shows all)."


class _Readable(property):
    """The property that `skip_unreadable` has put in place."""


def skip_unreadable() -> None:
    """Let this process, and those that it starts, take a distribution whose entry_points.txt cannot be parsed for one
    without entry points; a warning names it.

    `importlib.metadata` lets one such file fail the search for all groups. torch searches when it is
    imported, so that nothing would work.
    """
    if isinstance(Distribution.entry_points, _Readable):
        return
    os.environ[SKIPS_UNREADABLE] = "1"
    parsed, said = Distribution.entry_points.fget, set[str]()  # type: ignore[attr-defined]

    def entry_points_of(dist: Distribution) -> EntryPoints:
        try:
            return parsed(dist)
        except Exception as error:
            name = _named(dist)
            if name not in said:
                said.add(name)
                warnings.warn(
                    f"The entry_points.txt of the installed package '{name}' cannot be read ({type(error).__name__}: "
                    f"{error}); it is left out. Reinstall that package, or uninstall it: other programs fail by it.",
                    stacklevel=1,  # no caller can mend it
                )
            return EntryPoints()

    Distribution.entry_points = _Readable(entry_points_of)  # type: ignore[assignment]


def _named(dist: Distribution) -> str:
    """Its name, or its folder where that cannot be read either."""
    try:
        return str(dist.metadata["Name"] or dist.locate_file(""))
    except Exception:
        return str(dist.locate_file(""))


def _points(group: str) -> EntryPoints:
    try:
        return entry_points(group=group)
    except Exception:  # any package's file may be broken
        skip_unreadable()
        return entry_points(group=group)


def _installed(group: str) -> Iterator[Plugin]:
    """The plugins that packages name: by entry points, and parts by the tables of their stages, too."""
    for point in _points(f"devmind.{group}"):
        dist = point.dist
        yield Plugin(group, point.name, point.value, dist.name if dist else "unknown", dist.version if dist else "?")
    for stage in _scan("stages").values() if group == "parts" else ():
        table = stage.literal("part_classes")
        for name, value in table.items() if isinstance(table, dict) else ():
            if isinstance(name, str) and isinstance(value, str):
                yield replace(stage, group=group, name=name, value=value, rivals=())


@cache
def _scan(group: str) -> dict[str, Plugin]:
    found: dict[str, Plugin] = {}
    for one in _installed(group):
        first = found.setdefault(one.name, one)
        if first.value != one.value:  # which of them is found first depends on the order of folders
            found[one.name] = replace(first, rivals=(*first.rivals, f"{one.distribution} {one.version}"))
    return found


def available(group: str) -> dict[str, Plugin]:
    """All plugins of `group` by name, sorted, none of them imported."""
    if group not in GROUPS:
        raise PluginError(f"There is no plugin group '{group}'{nearest(group, GROUPS)}")
    return dict(sorted(_scan(group).items()))


def find(group: str, name: str) -> Plugin:
    """The plugin `name` of `group`, not yet imported.

    Raises:
        PluginError: there is no such plugin, and the message names the nearest; or a stage that may have the part
            cannot be read.
    """
    known = available(group)
    if name not in known:
        for stage in available("stages").values() if group == "parts" else ():
            if not stage._source().body:
                stage.load()  # it says why the stage's file, and so its table of parts, cannot be read
        raise PluginError(f"There is no {kind_of(group)} named '{name}'{nearest(name, known)}")
    return known[name]


def load(group: str, name: str) -> Any:
    """Find and import the plugin `name` of `group`."""
    return find(group, name).load()
