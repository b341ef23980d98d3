"""The import ladder and the banned imports of devmind, read from syntax trees: nothing is imported to check them.

The tables below follow the design (docs/decisions.md gives reasons for changes). A new arrow is one line here, in a
commit of its own.
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from devmind.plugins import Plugin

ROOT = Path(__file__).parent.parent
PACKAGES = ("devmind", "stages", "sensors")

BASE = frozenset(
    {"errors", "seeding", "moment", "config", "plugins", "erasing", "bounds", "worker", "checkpointing.files"}
)
EXAM = frozenset(
    {
        f"curriculum.{part}"
        for part in ("stage", "prefetch", "episodes", "exam", "gate", "journal", "progress", "finished")
    }
)
RUN = frozenset({"curriculum.plan", "curriculum.machine"}) | {
    f"curriculum.{part}"
    for part in (
        "runner",
        "childhood",
        "stage_run",
        "start",
        "pinned",
        "teaching",
        "timing",
        "ablation",
        "results",
        "night",
        "run_exams",
        "side_by_side",
        "cluster",
        "ranks",
        "cost",
        "sharding",
        "untouched",
        "consolidation",
        "study",
    )
}  # the runner and its parts: no stage and no live module imports them
RUNNER = RUN | {f"curriculum.{part}" for part in ("rehearsal", "sleep", "examining", "pass_through")}
BELOW_EXAM = frozenset({"agent", "acting", "memory", "worlds", "sessions", "algorithms"})
BELOW_RUNNER = BASE | BELOW_EXAM | EXAM | {"feed", "checkpointing", "raised", "report", "learners"}
EVERYTHING = BELOW_RUNNER | RUNNER | {"live", "testing", "datasets", "scaffold"}

COMMANDS = frozenset({f"cli.{part}" for part in ("agents", "house", "options", "paths", "serving", "show")})
"""Helpers of commands, for agents, errors, options, paths, pages and output; commands of stages may import them too."""

ROOMS: Mapping[str, frozenset[str]] = {
    "errors": frozenset(),
    "erasing": frozenset(),
    "bounds": frozenset({"errors"}),
    "worker": frozenset({"errors"}),
    "seeding": frozenset({"errors"}),
    "moment": frozenset({"errors", "seeding"}),
    "config": frozenset({"errors", "seeding", "bounds"}),
    "plugins": frozenset({"errors", "seeding"}),
    "algorithms": frozenset({"errors", "seeding", "bounds"}),
    "sensors": frozenset({"moment", "errors", "bounds", "worlds.clock"}),
    "sessions": BASE,
    "feed": BASE,
    "worlds": BASE | {"sessions.reader", "sessions.pictures"},
    # The names of packaged agents, for `Agent.from_pretrained`; the rule by which neurons are born, for `Agent.grow`.
    "agent": BASE | {"raised", "algorithms.growth"},
    "memory": BASE | {"algorithms"},
    "acting": BASE | {"agent", "memory", "worlds", "algorithms"},
    "checkpointing": BASE,
    "raised": BASE | {"acting", "agent"},
    "report": BASE,
    "datasets": BASE,
    "scaffold": BASE,
    **dict.fromkeys(EXAM, BASE | BELOW_EXAM | EXAM),
    "curriculum.finished": BASE | BELOW_EXAM | EXAM | {"raised"},
    "learners": BASE | {"agent", "acting", "memory", "worlds", "sessions.reader", "algorithms", "curriculum.stage"},
    **dict.fromkeys(RUNNER, BELOW_RUNNER | RUNNER),
    "live": BELOW_RUNNER | (RUNNER - RUN),
    "testing": BELOW_RUNNER | RUNNER | {"live"},
    "stages": BELOW_RUNNER | (RUNNER - RUN) | COMMANDS,
    "cli": EVERYTHING | {""},
    "__main__": frozenset({"cli"}),
    "": EVERYTHING,  # devmind/__init__.py: public names, loaded on request
}
"""Room -> what it may import besides itself. `sessions.reader` stands for one module of a room, `sessions` for all."""

SENSOR_PARTS = frozenset({f"sensors.{part}" for part in ("frames", "series", "device", "portaudio", "links")})
"""Helpers of sensors: sensors may import them, and they import no sensor."""

LIVE: Mapping[str, frozenset[str]] = {
    "serving": frozenset(),
    "learning": frozenset(),
    "viewing": frozenset({"loop"}),
    "remembering": frozenset({"viewing"}),
    "rerun": frozenset({"serving", "viewing"}),
}
"""Room of `devmind.live` -> other rooms of it that it may import; none imports the life that holds them all."""

DOORS = (
    "devmind.sessions.lerobot",
    "devmind.sessions.bags",
    "devmind.sessions.film",
    "devmind.memory.approximate",
    "devmind.memory.stores.postgres",
    "devmind.live.rerun",
)
"""Folders with one door: modules outside import the folder itself, not its modules."""

STAGE_WORDS: Mapping[str, str] = {
    "senses, a room's effectors, and those of worlds": "text look move say utter reach push choose walk arm trade",
    "worlds and their levels": (
        "memory_len repeat_previous tictactoe connect4 othello sliding maze startle track bind hear fetch "
        "orient/motion orient/sight orient/sound orient/empty"
    ),
    "what a world's state, its truth or a file of data calls it": (
        "cells event place things moving told worth voice sounds puzzles"
    ),
    "commands, and fields of files, views and answers": (
        "name named note values answer point memory procedures spoken sleep"
    ),
}
"""Names of stages' heads, effectors, skills or stages that are words of the core as well, by what they mean there."""
STAGE_NAMES: Mapping[str, frozenset[str]] = {
    "devmind.cli.renamed": frozenset({"echo"}),  # a command of an earlier version
    "devmind.cli.demo": frozenset({"reflex", "balance"}),  # the demonstration holds this exam of the newborn's stage
}
"""Module -> other names of stages that stand in it. It may only shrink: what a stage brings is found by its plugins."""

MOST_LINES: Mapping[str, int] = {"devmind": 69_700, "stages": 41_600, "sensors": 1_900, "tests": 76_800}
"""Folder -> lines of Python that it may have: what is added takes something out. Lower them with the house. Saving, the
feed and more machines were given 3,000 lines and two thirds as many of tests."""
MOST_PARTS, MOST_KINDS, MOST_COMMANDS, MOST_OPTIONS = 22, 56, 48, 153
"""Parts by entry point, classes of parts (those that stages name, too), commands, and options of commands."""

HEAVY = frozenset({"torch", "lightning", "pytorch_lightning", "transformers", "diffusers", "librosa", "cv2", "numba"})
LIGHT_ROOMS = ("", "errors", "seeding", "moment", "config", "plugins", "datasets", "scaffold", "sessions", "cli")
LIGHTNING_ROOMS = {"curriculum.teaching"}
LIGHTNING = ("lightning", "pytorch_lightning")
FILES = "devmind.checkpointing.files"
DOOR = "devmind.bounds"
PICKLES = frozenset({"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "joblib", "shelve", "marshal"})


@dataclass(frozen=True)
class Import:
    """One import of one module: `target` is a full dotted name; `lazy` if it does not run as the module loads."""

    source: str
    target: str
    line: int
    lazy: bool


@dataclass
class Module:
    """A file of the packages under the ladder."""

    name: str
    path: Path
    tree: ast.Module
    found: list[Import] | None = None

    @property
    def room(self) -> str:
        """The row of ROOMS of this module; '?' if the ladder has none for it."""
        return room_of(self.name)


def room_of(module: str) -> str:
    """The row of ROOMS for a dotted name."""
    top, _, rest = module.partition(".")
    if top in ("stages", "sensors"):
        return top
    parts = rest.split(".")
    if parts[0] == "curriculum":
        return (
            "curriculum.stage" if len(parts) == 1 else next((r for r in [f"curriculum.{parts[1]}"] if r in ROOMS), "?")
        )
    return parts[0] if parts[0] in ROOMS else "?"


def modules(root: Path) -> dict[str, Module]:
    """Every Python file of the packages by its dotted name; packaged templates are data, not code."""
    found = {}
    for path in sorted(path for package in PACKAGES for path in (root / package).rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, path, ast.parse(path.read_text(encoding="utf-8")))
    return found


@cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """All nodes of a module's tree; ten tests look through those of the whole house."""
    return tuple(ast.walk(tree))


def imports(module: Module, known: Mapping[str, Module]) -> list[Import]:
    """All imports of a module, including those in functions and behind TYPE_CHECKING (both are `lazy`)."""
    if module.found is not None:
        return module.found
    module.found = found = []

    def visit(node: ast.AST, lazy: bool) -> None:
        for child in ast.iter_child_nodes(node):
            inside = lazy or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                inside = True
            found.extend(Import(module.name, target, child.lineno, inside) for target in _targets(child, module, known))
            visit(child, inside)

    visit(module.tree, lazy=False)
    return found


def _targets(node: ast.AST, module: Module, known: Mapping[str, Module]) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = module.name if module.path.name == "__init__.py" else module.name.rpartition(".")[0]
            for _ in range(node.level - 1):
                package = package.rpartition(".")[0]
            base = f"{package}.{base}".rstrip(".")
        for alias in node.names:
            inner = f"{base}.{alias.name}"
            yield inner if inner in known else base


def ladder_faults(known: Mapping[str, Module]) -> list[str]:
    """Arrows that are not in the ladder, one sentence each."""
    faults = []
    for module in known.values():
        if module.room == "?":
            faults.append(f"{module.name} has no place in the ladder: add its room to ROOMS (and to the design)")
            continue
        for item in imports(module, known):
            fault = _arrow_fault(module, item)
            if fault:
                faults.append(f"{module.path.name}:{item.line} {module.name} -> {item.target}: {fault}")
    return faults


def _arrow_fault(module: Module, item: Import) -> str:
    top = item.target.partition(".")[0]
    if top not in PACKAGES:
        return ""
    if top in ("stages", "sensors"):
        here = module.name.split(".")[:2]
        same = module.room == top and (here == item.target.split(".")[:2] or item.target in {top, *SENSOR_PARTS})
        return "" if same else "stages and sensors are found by entry point, never imported, not by each other either"
    room, inner = room_of(item.target), item.target.removeprefix("devmind").lstrip(".")
    allowed = ROOMS[module.room]
    if room == "" and room not in allowed:
        return "a room imports the module that holds the name, not the package's front door"
    if room == module.room or room in allowed or inner in allowed:
        return ""
    return f"'{module.room}' may import only {', '.join(sorted(allowed)) or 'nothing'}"


def live_faults(known: Mapping[str, Module]) -> list[str]:
    """Arrows between the rooms of a life that are not in `LIVE`."""
    faults = []
    for module in known.values():
        here = _live_room(module.name)
        if here not in LIVE:
            continue
        for item in imports(module, known):
            if (there := _live_room(item.target)) and there != here and there not in LIVE[here]:
                faults.append(f"{module.path.name}:{item.line} {module.name} -> {item.target}")
    return faults


def _live_room(module: str) -> str:
    """The part of a life that a dotted name belongs to; '' outside."""
    return module.removeprefix("devmind.live.").partition(".")[0] if module.startswith("devmind.live.") else ""


def door_faults(known: Mapping[str, Module]) -> list[str]:
    """Imports from outside of modules behind one of `DOORS`."""
    return [
        f"{module.path.name}:{item.line} {module.name} -> {item.target}: import {door}, its one door"
        for module in known.values()
        for item in imports(module, known)
        for door in DOORS
        if item.target.startswith(f"{door}.") and not f"{module.name}.".startswith(f"{door}.")
    ]


def circles(known: Mapping[str, Module], lazy: bool = True) -> list[list[str]]:
    """Sets of modules that import each other in a circle, sorted. Imports for types and in functions count unless
    `lazy` is False: whoever reads one module of a circle has to read them all.
    """
    graph = {
        module.name: {i.target for i in imports(module, known) if i.target in known and (lazy or not i.lazy)}
        for module in known.values()
    }
    reached = {name: _reached(name, graph) for name in graph}
    found = {tuple(sorted({name, *(there for there in reached[name] if name in reached[there])})) for name in graph}
    return sorted(list(circle) for circle in found if len(circle) > 1)


def _reached(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    seen, queue = set[str](), [start]
    while queue:
        fresh = graph[queue.pop()] - seen
        seen |= fresh
        queue += fresh
    return seen


def cut_classes(known: Mapping[str, Module], entries: Collection[str] = ()) -> list[tuple[str, str]]:
    """Classes that are one class over two files: (full name of the base, full name of its only heir).

    A base is half of its heir where it stands in another file of the same package (`devmind.agent`, `stages.planning`),
    has no other heir in the product, and nobody but the heir names it: it is never made, asked for or annotated by
    itself, and is none of the classes that entry points name. Errors are left out: who catches one names its kind.

    Args:
        entries: full names that entry points give to others.
    """
    words = {module.name: _words(module, known) for module in known.values()}
    classes = {
        f"{module.name}.{node.name}"
        for module in known.values()
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.endswith("Error")
    }
    heirs: dict[str, set[str]] = {name: set() for name in classes}
    users: dict[str, set[str]] = {name: set() for name in classes}
    for module in known.values():
        for top in module.tree.body:
            here = f"{module.name}.{top.name}" if isinstance(top, ast.ClassDef) else module.name
            for node in ast.walk(top):
                if (named := _meant(node, module.name, words)) in classes and named != here:
                    users[named].add(here)
            for base in top.bases if isinstance(top, ast.ClassDef) else ():
                of = base.value if isinstance(base, ast.Subscript) else base
                if (named := _meant(of, module.name, words)) in classes:
                    heirs[named].add(here)
    return sorted(
        (base, heir)
        for base, (heir, *others) in ((base, sorted(found)) for base, found in heirs.items() if found)
        if not others
        and base.rpartition(".")[0] != heir.rpartition(".")[0]
        and _package(base) == _package(heir)
        and users[base] == {heir}
        and base not in entries
    )


def _package(module: str) -> str:
    """The room of devmind, or the stage, that a module is in."""
    return ".".join(module.split(".")[:2])


def _words(module: Module, known: Mapping[str, Module]) -> dict[str, str]:
    """Full names of the classes and modules that a module's own words may mean: what it defines and what it imports."""
    words = {node.name: f"{module.name}.{node.name}" for node in module.tree.body if isinstance(node, ast.ClassDef)}
    for node in nodes(module.tree):
        if isinstance(node, ast.ImportFrom):
            for alias, target in zip(node.names, _targets(node, module, known), strict=True):
                is_module = target.rpartition(".")[2] == alias.name and target in known
                words[alias.asname or alias.name] = target if is_module else f"{target}.{alias.name}"
    return words


def _meant(node: ast.AST, module: str, words: Mapping[str, Mapping[str, str]]) -> str:
    """The full name of what a name, `module.Name` or a quoted annotation means in a module; "" if it is not known."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        found = f"{words[module].get(node.value.id, '')}.{node.attr}"
    elif isinstance(node, ast.Name):
        found = words[module].get(node.id, "")
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        found = words[module].get(node.value, "")
    else:
        return ""
    while (there := found.rpartition("."))[0] in words and words[there[0]].get(there[2], found) != found:
        found = words[there[0]][there[2]]  # a package's front door hands on what its modules define
    return found


def heavy_faults(known: Mapping[str, Module]) -> list[str]:
    """Heavy packages that load with a light module, with the import path."""
    faults = []
    for module in known.values():
        if module.room in LIGHT_ROOMS:
            faults += [f"{' -> '.join(way)}" for way in _heavy_ways(module, known)]
    return sorted(set(faults))


def _heavy_ways(start: Module, known: Mapping[str, Module]) -> Iterator[list[str]]:
    seen, queue = {start.name}, [(start, [start.name])]
    while queue:
        module, way = queue.pop()
        for item in imports(module, known):
            if item.lazy:
                continue
            if item.target.partition(".")[0] in HEAVY:
                yield [*way, item.target]
            for name in _loaded_with(item.target, known):
                if name not in seen:
                    seen.add(name)
                    queue.append((known[name], [*way, name]))


def _loaded_with(target: str, known: Mapping[str, Module]) -> list[str]:
    """The modules that importing `target` runs: itself and its parent packages."""
    parts = target.split(".")
    return [name for name in (".".join(parts[:n]) for n in range(1, len(parts) + 1)) if name in known]


def lightning_faults(known: Mapping[str, Module]) -> list[str]:
    """Lightning outside its one adapter."""
    return [
        f"{module.path.name}:{item.line} {module.name} imports {item.target}: only its adapter may"
        for module in known.values()
        if module.room not in LIGHTNING_ROOMS
        for item in imports(module, known)
        if item.target.partition(".")[0] in LIGHTNING and not _only_for_types(module, item.line)
    ]


def _only_for_types(module: Module, line: int) -> bool:
    blocks = (n for n in nodes(module.tree) if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.unparse(n.test))
    return any(block.lineno <= line <= (block.end_lineno or block.lineno) for block in blocks)


def banned(tree: ast.Module) -> list[tuple[int, str]]:
    """Pickle, fork and remote code: (line, what is wrong)."""
    found = []
    for node in nodes(tree):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            found += [(node.lineno, f"imports {n}: no pickle") for n in names if n.partition(".")[0] in PICKLES]
        elif isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            words = {w.arg: ast.unparse(w.value) for w in node.keywords}
            texts = {a.value for a in node.args if isinstance(a, ast.Constant)}
            if called in ("torch.load", "torch.save"):
                found.append((node.lineno, f"{called} pickles: use safetensors"))
            if words.get("allow_pickle") == "True" or words.get("trust_remote_code") == "True":
                found.append((node.lineno, f"{called} would run code that a file brings"))
            if called in ("os.fork", "os.forkpty", "pty.fork") or (
                called.startswith("multiprocessing.") and called.split(".")[1] in ("Process", "Pool", "Manager")
            ):
                found.append((node.lineno, f"{called} forks: use multiprocessing.get_context('spawn')"))
            if called.endswith(("get_context", "set_start_method")) and texts & {"fork", "forkserver"}:
                found.append((node.lineno, f"{called}: spawn only"))
    return found


def replacing(tree: ast.Module) -> list[int]:
    """Lines that replace a file by the system's own calls."""
    calls = (node for node in nodes(tree) if isinstance(node, ast.Call))
    return [call.lineno for call in calls if ast.unparse(call.func) in ("os.replace", "os.link", "shutil.move")]


def parsing(tree: ast.Module) -> list[tuple[int, str]]:
    """(line, call) of every call of a parser of JSON or YAML; deep nesting and long numbers make each raise more than
    its readers expect."""
    found = []
    for node in nodes(tree):
        if isinstance(node, ast.ImportFrom) and node.module in ("json", "yaml"):
            found += [(node.lineno, f"from {node.module}") for name in node.names if "load" in name.name]
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            module, _, name = called.partition(".")
            if (module in ("json", "yaml") and "load" in name) or called.endswith((".JSONDecoder", ".raw_decode")):
                found.append((node.lineno, called))
    return found


def cuda_places(tree: ast.Module) -> list[tuple[int, str]]:
    """(line, function) of every string literal that names cuda, except docstrings, and of every `.cuda()` call."""
    docstrings = {
        id(node.body[0].value)
        for node in nodes(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    found: list[tuple[int, str]] = []

    def visit(node: ast.AST, function: str) -> None:
        for child in ast.iter_child_nodes(node):
            inside = child.name if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef) else function
            named = isinstance(child, ast.Constant) and isinstance(child.value, str) and "cuda" in child.value.lower()
            moved = isinstance(child, ast.Call) and isinstance(child.func, ast.Attribute) and child.func.attr == "cuda"
            if moved or (named and id(child) not in docstrings):
                found.append((child.lineno, inside))  # type: ignore[attr-defined]
            visit(child, inside)

    visit(tree, "<module>")
    return found


def stage_names(root: Path) -> set[str]:
    """Names of the heads and effectors of the agent that went through all stages, and of stages and their skills."""
    config = json.loads((root / "devmind" / "raised" / "after-voice" / "config.json").read_text(encoding="utf-8"))
    names = {head["name"] for head in config["heads"]} | {head.get("effector") for head in config["heads"]} - {None}
    for path in (root / "stages").glob("*/stage.py"):
        calls = (node for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))) if isinstance(node, ast.Call))
        skills = [call.args[0] for call in calls if ast.unparse(call.func) == "Skill" and call.args]
        names |= {path.parent.name} | {one.value for one in skills if isinstance(one, ast.Constant)}
    return names


def named_in(tree: ast.Module, names: set[str]) -> dict[str, int]:
    """Strings that are one of `names`, or a measure of a skill ("SKILL/..."), each with a line; no docstrings."""
    statements = {id(node.value) for node in nodes(tree) if isinstance(node, ast.Expr)}
    texts = (node for node in nodes(tree) if isinstance(node, ast.Constant) and id(node) not in statements)
    strings = [(node.value, node.lineno) for node in texts if isinstance(node.value, str)]
    return {text: line for text, line in strings if text in names or ("/" in text and text.split("/")[0] in names)}


def entry_points() -> dict[str, dict[str, str]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"]


def parts_of_stages() -> dict[str, str]:
    """Part -> class, as the stages of this checkout name them."""
    stages = entry_points()["devmind.stages"].items()
    tables = [Plugin("stages", name, value, "", "").literal("part_classes") for name, value in stages]
    return {name: value for table in tables for name, value in table.items()}


@pytest.fixture(scope="module")
def house() -> dict[str, Module]:
    return modules(ROOT)


def test_every_arrow_is_in_the_ladder(house: dict[str, Module]) -> None:
    assert not (faults := ladder_faults(house)), "\n".join(faults)


def test_parts_of_a_life_do_not_import_the_life(house: dict[str, Module]) -> None:
    assert set(LIVE) <= set(map(_live_room, house))
    assert not (faults := live_faults(house)), "\n".join(faults)


def test_folder_with_one_door_is_imported_through_it(house: dict[str, Module]) -> None:
    assert set(DOORS) <= set(house)
    assert not (faults := door_faults(house)), "\n".join(faults)


def test_no_modules_know_each_other_in_a_circle(house: dict[str, Module]) -> None:
    assert not (found := circles(house, lazy=False)), "\n".join(map(", ".join, found))
    assert not (found := circles(house)), "modules that know each other are one idea in one file:\n" + "\n".join(
        map(", ".join, found)
    )


def test_a_class_stands_in_one_file(house: dict[str, Module]) -> None:
    named = [*entry_points().values(), parts_of_stages()]
    found = cut_classes(house, {one.replace(":", ".") for group in named for one in group.values()})
    assert not found, "one class in one file:\n" + "\n".join(
        f"{base}, the base of {heir} alone" for base, heir in found
    )


def test_house_stays_within_its_totals() -> None:
    lines = {
        room: sum(len(file.read_text(encoding="utf-8").splitlines()) for file in (ROOT / room).rglob("*.py"))
        for room in MOST_LINES
    }
    over = {room: count for room, count in lines.items() if count > MOST_LINES[room]}
    assert not over, f"{over} lines are above {MOST_LINES}: take something out"
    core, of_stages = entry_points()["devmind.parts"], parts_of_stages()
    kinds = {*core.values(), *of_stages.values()}
    print(f"{len(core)} parts by entry point, {len(of_stages)} of stages, {len(kinds)} classes")
    assert (len(core) <= MOST_PARTS, len(kinds) <= MOST_KINDS) == (True, True), (len(core), len(kinds))
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("commands*.md"))
    assert len(re.findall(r"^```text", pages, flags=re.MULTILINE)) <= MOST_COMMANDS
    assert len(re.findall(r"^\| `-", pages, flags=re.MULTILINE)) <= MOST_OPTIONS


def test_light_modules_load_nothing_heavy(house: dict[str, Module]) -> None:
    assert not (faults := heavy_faults(house)), "\n".join(faults)


def test_only_its_adapter_imports_lightning(house: dict[str, Module]) -> None:
    assert not (faults := lightning_faults(house)), "\n".join(faults)


def test_nothing_pickles_or_forks(house: dict[str, Module]) -> None:
    faults = [f"{m.path}:{line} {what}" for m in house.values() for line, what in banned(m.tree)]
    assert not faults, "\n".join(faults)


def test_only_one_module_replaces_files(house: dict[str, Module]) -> None:
    places = [f"{m.path}:{line}" for m in house.values() if m.name != FILES for line in replacing(m.tree)]
    assert not places, f"{FILES} has put and take_place, which sync too:\n" + "\n".join(places)
    assert replacing(house[FILES].tree), "it is looked for by the right name"


def test_only_one_module_parses_json_and_yaml(house: dict[str, Module]) -> None:
    places = [f"{m.path}:{n}: {call}" for m in house.values() if m.name != DOOR for n, call in parsing(m.tree)]
    assert not places, f"{DOOR} has parse_json and parse_yaml, whose failures are sentences:\n" + "\n".join(places)
    assert len(parsing(house[DOOR].tree)) == 2, "it is looked for by the right name"


def test_only_one_function_names_the_accelerator(house: dict[str, Module]) -> None:
    places = {(m.name, function): f"{m.path}:{line}" for m in house.values() for line, function in cuda_places(m.tree)}
    assert len(places) <= 1, "only one device function may say 'cuda':\n" + "\n".join(places.values())


def test_core_knows_no_stage_by_name(house: dict[str, Module]) -> None:
    """What a stage brings to an agent's life is found by its plugins and by what its parts can do."""
    names, own = stage_names(ROOT), {word for words in STAGE_WORDS.values() for word in words.split()}
    assert {"heard_words", "recognised", "clean", "speak_answer", "voice"} <= names
    core = [m for m in house.values() if m.name.startswith("devmind.") and m.room not in ("raised", "scaffold")]
    found = {module.name: named_in(module.tree, names) for module in core}
    faults = [
        f"{name}:{line} '{text}' is a stage's"
        for name, here in found.items()
        for text, line in here.items()
        if text not in own | STAGE_NAMES.get(name, frozenset())
        and not text.startswith(("text/", "sounds/", "puzzles/"))
    ]
    assert not faults, "an ability, an option or a property of the part tells it:\n" + "\n".join(faults)
    assert own <= {text for here in found.values() for text in here}, "the list may only shrink"
    for name, known in STAGE_NAMES.items():
        assert known <= found[name].keys(), "the list may only shrink"


def test_name_of_a_stage_is_found_but_not_in_docstrings() -> None:
    tree = ast.parse('"""voice"""\nX = "voice"\ndef f():\n    """voice"""\n    return g("echo/words", "voices")\n')
    assert named_in(tree, {"voice", "echo"}) == {"voice": 2, "echo/words": 5}


def _house(tmp_path: Path, files: Mapping[str, str]) -> dict[str, Module]:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return modules(tmp_path)


@pytest.mark.parametrize(
    ("file", "text", "fault"),
    [
        ("devmind/errors.py", "from devmind import config", "may import only nothing"),
        ("devmind/agent/agent.py", "def f():\n    from devmind.worlds import make", "'agent' may import only"),
        ("devmind/worlds/room.py", "from devmind.sessions.recorder import Recorder", "'worlds' may import only"),
        ("devmind/algorithms/ppo.py", "from ..moment import Moment", "'algorithms' may import only"),
        ("devmind/learners/a.py", "from devmind.curriculum.exam import Measure", "'learners' may import only"),
        ("devmind/cli/stage.py", "import stages.reflex", "found by entry point"),
        ("devmind/sessions/a.py", "from devmind import Agent", "front door"),
        ("stages/language/stage.py", "from stages.reflex.see import exam", "found by entry point"),
        ("stages/language/stage.py", "from devmind.curriculum.runner import run_stage", "'stages' may import only"),
        ("sensors/camera.py", "from devmind.config import load", "'sensors' may import only"),
        ("sensors/camera.py", "from devmind.worlds import make", "'sensors' may import only"),
        ("sensors/camera.py", "from sensors.thermal import Thermal", "found by entry point"),
        ("sensors/frames.py", "from sensors.thermal import Thermal", "found by entry point"),
        ("devmind/curriculum/mood.py", "", "no place in the ladder"),
        ("devmind/kitchen.py", "", "no place in the ladder"),
    ],
)
def test_wrong_arrow_is_found(tmp_path: Path, file: str, text: str, fault: str) -> None:
    stands = (
        "__init__",
        "config",
        "moment",
        "worlds/__init__",
        "sessions/recorder",
        "curriculum/exam",
        "curriculum/runner",
    )
    base = {f"devmind/{name}.py": "" for name in stands} | {"stages/reflex/see/exam.py": "", "sensors/thermal.py": ""}
    found = ladder_faults(_house(tmp_path, base | {file: text}))
    assert len(found) == 1
    assert fault in found[0]


def test_part_of_a_life_that_imports_the_life_is_found(tmp_path: Path) -> None:
    files = {
        "devmind/live/life.py": "from devmind.live.serving.hub import Hub",
        "devmind/live/serving/hub.py": "",
        "devmind/live/rerun/page.py": "from devmind.live.serving.hub import Hub",
        "devmind/live/serving/server.py": "def f():\n    from devmind.live.life import Life",
    }
    assert live_faults(_house(tmp_path, files)) == ["server.py:2 devmind.live.serving.server -> devmind.live.life"]


def test_import_past_a_door_is_found(tmp_path: Path) -> None:
    files = {
        "devmind/sessions/bags/__init__.py": "from devmind.sessions.bags.ros import import_bag",
        "devmind/sessions/bags/ros.py": "",
        "devmind/sessions/imports.py": "from devmind.sessions.bags import import_bag",
        "devmind/sessions/export.py": "def f():\n    from devmind.sessions.bags import ros",
    }
    assert door_faults(_house(tmp_path, files)) == [
        "export.py:2 devmind.sessions.export -> devmind.sessions.bags.ros: import devmind.sessions.bags, its one door"
    ]


def test_right_arrows_pass(tmp_path: Path) -> None:
    files = {
        "devmind/sessions/reader.py": "from devmind.moment import Moment",
        "devmind/worlds/replayed.py": "from devmind.sessions.reader import Session",
        "devmind/moment.py": "from . import errors",
        "devmind/errors.py": "",
        "stages/reflex/stage.py": "from stages.reflex.see import exam\nfrom devmind.curriculum import exam",
        "stages/reflex/see/exam.py": "",
        "devmind/curriculum/exam.py": "",
        "sensors/camera.py": "from devmind.worlds.clock import ClockFit\nfrom sensors.frames import Health",
        "devmind/worlds/clock.py": "",
        "sensors/frames.py": "",
    }
    assert ladder_faults(_house(tmp_path, files)) == []


def test_circle_for_types_is_found(tmp_path: Path) -> None:
    files = {
        "stages/planning/head.py": "from stages.planning.output import Path",
        "stages/planning/output.py": "if TYPE_CHECKING:\n    from stages.planning.head import Head",
        "stages/planning/film.py": "from stages.planning.head import Head",
        "stages/planning/lesson.py": "def f():\n    from stages.planning import exam",
        "stages/planning/exam.py": "from stages.planning.lesson import f",
    }
    house = _house(tmp_path, files)
    assert circles(house, lazy=False) == []
    assert circles(house) == [
        ["stages.planning.exam", "stages.planning.lesson"],
        ["stages.planning.head", "stages.planning.output"],
    ]


@pytest.mark.parametrize(
    ("file", "text", "cut"),
    [
        ("devmind/agent/other.py", "", True),
        ("devmind/live/loop.py", "from devmind.live.life import Life\nLife()", True),
        ("devmind/agent/other.py", "from devmind.agent.holding import Holder\nclass Tool(Holder): ...", False),
        ("devmind/agent/other.py", "from devmind.agent.holding import Holder\ndef f(x: Holder): ...", False),
        ("devmind/agent/other.py", "from devmind.agent.holding import Holder\nHolder()", False),
        ("devmind/agent/agent.py", "from devmind.live.life import Holder\nclass Agent(Holder): ...", False),
        ("devmind/agent/agent.py", "class Holder: ...\nclass Agent(Holder): ...", False),
    ],
)
def test_class_over_two_files_is_found(tmp_path: Path, file: str, text: str, cut: bool) -> None:
    files = {
        "devmind/live/life.py": "class Holder: ...\nclass Life: ...",
        "devmind/agent/holding.py": "class Holder:\n    def copy(self) -> Holder: ...",
        "devmind/agent/agent.py": "from devmind.agent.holding import Holder\nclass Agent(Holder): ...",
    }
    found = cut_classes(_house(tmp_path, files | {file: text}))
    assert found == ([("devmind.agent.holding.Holder", "devmind.agent.agent.Agent")] if cut else [])
    assert cut_classes(modules(tmp_path), {"devmind.agent.holding.Holder"}) == []


def test_cycle_and_heavy_import_are_found(tmp_path: Path) -> None:
    files = {
        "devmind/__init__.py": "",
        "devmind/agent/a.py": "from devmind.agent import b",
        "devmind/agent/b.py": "import torch.nn\nfrom devmind.agent.a import x",
        "devmind/cli/stage.py": "from devmind.agent.a import x\ndef f():\n    import cv2",
        "devmind/cli/late.py": "def f():\n    import torch",
    }
    house = _house(tmp_path, files)
    assert circles(house, lazy=False) == [["devmind.agent.a", "devmind.agent.b"]]
    assert heavy_faults(house) == ["devmind.cli.stage -> devmind.agent.a -> devmind.agent.b -> torch.nn"]


@pytest.mark.parametrize(
    "text",
    [
        "import pickle",
        "from joblib import dump",
        "import torch\ntorch.load('x', weights_only=True)",
        "import numpy as np\nnp.load('x', allow_pickle=True)",
        "import os\nos.fork()",
        "import multiprocessing\nmultiprocessing.Process(target=print)",
        "from multiprocessing import get_context\nget_context('fork')",
    ],
)
def test_banned_call_is_found(text: str) -> None:
    assert len(banned(ast.parse(text))) == 1


def test_device_name_is_found_but_not_in_docstrings() -> None:
    tree = ast.parse('"""cuda"""\ndef pick():\n    """cuda"""\n    return f"cuda:{0}"\nx.cuda()\n')
    assert cuda_places(tree) == [(4, "pick"), (5, "<module>")]
