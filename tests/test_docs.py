"""The documents are true: everything is documented, links resolve, code runs, and commands print what is shown.

The fenced blocks of a page run in order in one empty folder: `python` blocks in one namespace, and lines of `console`
blocks that begin with `$ devmind` in process. Runs use size tiny, and files that a page assumes (`walk.mp4`,
`song.wav`) are made. The shown lines of a command that trains nothing must be in its output; `…` stands for anything.
A block after the line `<!-- not run: why -->` is not run.
"""

from __future__ import annotations

import itertools
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

from devmind import plugins
from devmind.cli.app import app
from devmind.config import LiveConfig, RunConfig, known_keys
from devmind.testing import short_session
from tests import unmeasured

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    path for pattern in ("*.md", "docs/**/*.md", "stages/**/*.md", "checkpoints/*.md") for path in ROOT.glob(pattern)
)
TRAINS = ("stage run", "stage exam", "devmind study")
SLOW = (*TRAINS, "from_pretrained", "check_stage", "doctor")
NEEDS_NETWORK = ("data ",)
EXIT_CODES = {
    "stage run": (0, 1),
    "stage exam": (0, 1),
    "doctor": (0, 1),
}
SHOWS_THE_MACHINE = (*TRAINS, "doctor", "session import", "report")
"""Commands whose output depends on the machine or the size: it is not compared."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page; `line` is that of its first line."""

    kind: str
    text: str
    line: int


def blocks(page: Path) -> list[Block]:
    """The python and console blocks of a page that are run, in order."""
    found: list[Block] = []
    lines = page.read_text(encoding="utf-8").splitlines()
    fence, start, spared = "", 0, False
    for number, line in enumerate(lines):
        if not line.startswith("```"):
            if not fence and line.strip():
                spared = line.startswith("<!-- not run:")
        elif not fence:
            fence, start = line[3:].strip() or "text", number + 1
        else:
            if fence in ("python", "console") and not spared:
                found.append(Block(fence, "\n".join(lines[start:number]), start + 1))
            fence, spared = "", False
    return found


def told() -> list[Any]:
    """Pages with blocks to run; those that train are slow."""
    pages = []
    for page in PAGES:
        text = "\n".join(block.text for block in blocks(page) if block.kind == "python" or "$ devmind" in block.text)
        if text:
            marks = [pytest.mark.slow, pytest.mark.timeout(900)] if any(word in text for word in SLOW) else []
            pages.append(pytest.param(page, id=str(page.relative_to(ROOT)), marks=marks))
    return pages


@pytest.mark.parametrize("page", told())
def test_blocks_of_a_page_run_as_shown(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("webbrowser.open", lambda address: True)
    monkeypatch.setattr("devmind.curriculum.machine.LESSON_S", 0.1)  # a forecast may be rough here
    if page.name != "raise-one.md":
        unmeasured.patched(monkeypatch)
    if page.name == "childhood.md":  # exhibits are shown in the runs of raise-one.md and in the laws of stages
        monkeypatch.setattr("devmind.curriculum.stage_run.StageRun._glimpse", lambda *_: None)
    namespace: dict[str, Any] = {"__name__": "__docs__"}
    for block in blocks(page):
        if block.kind == "python":
            code = "\n" * (block.line - 1) + at_size_tiny(block.text)
            exec(compile(code, str(page), "exec"), namespace)
        else:
            for command, shown in commands(block.text):
                run(command, shown)
                if command[:2] == ["stage", "run"]:
                    unmeasured.patched(monkeypatch)  # the first run has measured all lessons of `reflex`


def commands(text: str) -> Iterator[tuple[list[str], list[str]]]:
    """The `$ devmind` and `$ python -m` lines of a console block as words, each with the output shown below it."""
    for part in re.split(r"^\$ ", text.replace("\\\n", " "), flags=re.MULTILINE)[1:]:
        line, *shown = part.splitlines()
        words = shlex.split(line, comments=True)
        if words[:1] == ["devmind"] or words[:2] == ["python", "-m"]:
            yield words[words[0] == "devmind" :], [line for line in shown if line.strip()]


def run(words: list[str], shown: list[str]) -> None:
    """Run one command; compare its exit code, and its output where that is equal on all machines."""
    name = " ".join(word for word in words[:2] if not word.startswith("-"))
    if name.startswith(NEEDS_NETWORK):
        return
    words = [at_size_tiny(word) for word in words]
    if name == "stage run" and "--help" not in words:
        words = with_option(
            with_option(words, "--config", "tiny"), "--minutes", "0.2" if "--minutes" in words else None
        )
        words += ["--set", "exam.episodes_scale=0.02"]  # no page shows a score
        # Two stages: all six take minutes, as each takes the exams of the earlier ones.
        words = [one for word in words for one in (("reflex", "memory") if word == "all" else (word,))]
    for before, word in itertools.pairwise(words):
        if before != "--out" and (name, word) != ("session repair", words[-1]):
            make_file(Path(word.rpartition("=")[2]))  # video_file=walk.mp4
    if words[0] == "python":
        text = subprocess.run([sys.executable, *words[1:]], check=True, capture_output=True, text=True).stdout
        assert not not_printed(text, shown), text
        return
    result = CliRunner().invoke(app, words)
    text = result.output
    fault = "" if result.exception is None or isinstance(result.exception, SystemExit) else repr(result.exception)
    where = f"devmind {shlex.join(words)}"
    allowed = EXIT_CODES.get(name, (2,) if any("did you mean" in line for line in shown) else (0,))
    assert not fault, f"{where}: {fault}"
    assert result.exit_code in allowed, f"{where} ended with {result.exit_code}:\n{text}"
    if not name.startswith(SHOWS_THE_MACHINE):
        assert not (missing := not_printed(text, shown)), f"{where} does not print {missing!r} but\n{text}"


def with_option(words: list[str], option: str, value: str | None) -> list[str]:
    """`words` with `option` set to `value`; None leaves them as they are."""
    if value is None:
        return words
    if option in words:
        at = words.index(option) + 1
        return [*words[:at], value, *words[at + 1 :]]
    return [*words, option, value]


def at_size_tiny(text: str) -> str:
    """Default folders carry the size in their names (`reflex-nursery-seed0`)."""
    return re.sub(r"-(nursery|child|adult)-seed", "-tiny-seed", text)


def not_printed(text: str, shown: list[str]) -> str:
    """The first shown line that is not in the output, ignoring blanks; '' if all are."""
    whole = " ".join(text.split())
    for line in shown:
        pieces = [" ".join(piece.split()) for piece in line.split("…")]
        pattern = ".*?".join(re.escape(piece) for piece in pieces if piece)
        if not re.search(pattern, whole):
            return line
    return ""


def make_file(path: Path) -> None:
    """A small file of the kind that a page assumes."""
    if path.exists() or path.parent != Path() or path.suffix not in (".mp4", ".wav", ".mcap"):
        return
    if path.suffix == ".mcap":
        short_session(path)
    elif path.suffix == ".wav":
        import soundfile

        soundfile.write(path, 0.1 * np.sin(np.arange(16_000) / 10), 16_000)
    else:
        import cv2

        film = cv2.VideoWriter(str(path), cv2.VideoWriter.fourcc(*"mp4v"), 20, (96, 64))
        for frame in range(40):
            film.write(np.full((64, 96, 3), 5 * frame, np.uint8))
        film.release()


def test_a_page_names_no_script_that_is_gone_but_by_its_commit() -> None:
    """Log and CHANGELOG tell what was done with the scripts of their day."""
    named = [
        f"{page.relative_to(ROOT)}: {script}"
        for page in (*PAGES, *ROOT.glob("devmind/**/*.md"))
        if page.name != "CHANGELOG.md" and not page.is_relative_to(ROOT / "docs" / "log") and page.name != "log.md"
        for script in re.findall(r"(?<!:)\bbenchmarks/\w+\.py", page.read_text(encoding="utf-8"))
        if not (ROOT / script).is_file()
    ]
    assert not named, f"Gone scripts are seen by `git show COMMIT:benchmarks/NAME.py`: {', '.join(named)}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_resolves(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    dead = []
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            dead.append(link)
    assert not dead, f"{page.relative_to(ROOT)} links to what is not there: {', '.join(dead)}"


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as on GitHub."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return {anchor(title) for title in titles}


def anchor(title: str) -> str:
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


def documents() -> str:
    """The text of README and docs."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    return "\n".join(page.read_text(encoding="utf-8") for page in pages)


def test_every_command_is_documented() -> None:
    def paths(command: Any, path: str) -> Iterator[str]:
        below = getattr(command, "commands", None)
        if below is None:
            yield path
        for name in below or ():
            yield from paths(below[name], f"{path} {name}")

    text = documents()
    missing = [path for path in paths(get_command(app), "devmind") if path not in text]
    assert not missing, f"write about {', '.join(missing)} in README or docs"


def test_every_stage_has_a_page_with_its_skills_and_lessons(tmp_path: Path) -> None:
    from devmind.testing import tiny_context

    for plugin in plugins.available("stages").values():
        if plugin.distribution != "devmind":
            continue
        # Memory has a page of its own, and so has the stage that teaches it.
        pages = [ROOT / "docs" / f"{plugin.name}{end}.md" for end in ("-stage", "")]
        page = next((page for page in pages if page.is_file()), None)
        assert page is not None, f"the stage '{plugin.name}' has no page docs/{plugin.name}.md"
        text, stage = page.read_text(encoding="utf-8"), plugin.load()()
        names = {skill.name for skill in stage.skills} | {
            lesson.name for lesson in stage.lessons(tiny_context(tmp_path))
        }
        missing = sorted(name for name in names if not re.search(rf"\b{re.escape(name)}\b", text))
        assert not missing, f"{page.relative_to(ROOT)} says nothing of {', '.join(missing)}"


def test_every_configuration_key_is_documented() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    missing = [row for row in configuration_rows() if row not in text]
    assert not missing, "docs/configuration.md is stale; its table needs these rows:\n" + "\n".join(missing)


def test_every_key_of_a_life_is_on_its_page() -> None:
    text = (ROOT / "docs" / "live.md").read_text(encoding="utf-8")
    missing = [key for key in known_keys(LiveConfig) if key != "extends" and f"`{key}`" not in text]
    assert not missing, f"docs/live.md lacks {', '.join(missing)}"


def configuration_rows() -> list[str]:
    """The rows of the table of keys: name, default, meaning."""
    values = RunConfig().model_dump(mode="json")
    rows = []
    for key, meaning in known_keys().items():
        value: Any = values
        for part in key.split("."):
            value = value.get(part) if isinstance(value, dict) else None
        default = "none" if value is None else ", ".join(value) if isinstance(value, list) else value
        rows.append(f"| `{key}` | {default} | {meaning} |")
    return rows


def test_shown_line_must_be_printed() -> None:
    assert not_printed("size:  tiny\nseed: 0", ["size: tiny"]) == ""
    assert not_printed("took 3.2 s for all", ["took … s for all"]) == ""
    assert not_printed("size: tiny", ["size: nursery"]) == "size: nursery"


def test_blocks_are_found_and_marked_ones_are_skipped(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\na = 1\n```\n<!-- not run: needs a camera -->\n```console\n$ devmind doctor\n```\n")
    assert blocks(page) == [Block("python", "a = 1", 2)]
    assert list(commands("$ devmind config show \\\n  tiny\nsize: tiny\n\n$ make\nx")) == [
        (["config", "show", "tiny"], ["size: tiny"])
    ]


def test_a_page_can_be_read_in_one_sitting() -> None:
    long = {
        str(page.relative_to(ROOT)): size
        for page in (ROOT / "docs").rglob("*.md")
        if (size := page.stat().st_size) > 15 * 1024 and not page.is_relative_to(ROOT / "docs" / "log")
    }
    assert set(long) <= {"docs/log.md"}, f"split what is longer than 15 kB: {long}"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(readme.splitlines()) <= 90
    assert len(readme.split()) <= 900
    assert len((ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()) <= 200


def test_scores_in_the_readme_stand_in_a_row_of_their_stages_results() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(
        r"^\| \[(\w+)\]\(docs/[\w-]+\.md\) \| [^|]+ \| ([\d.]+) \| ([\d.]+) \|$", readme, flags=re.MULTILINE
    )
    assert {stage for stage, _, _ in rows} == set(plugins.available("stages"))
    for stage, score, simple in rows:
        page = (ROOT / "docs" / f"results-{stage}.md").read_text(encoding="utf-8")
        found = [
            line
            for line in page.splitlines()
            if all(float(wanted) in map(float, re.findall(r"\d+\.\d+", line)) for wanted in (score, simple))
        ]
        assert found, f"README's {score} and {simple} of {stage} stand in no row of docs/results-{stage}.md"


def test_every_entry_of_the_log_has_a_row_in_its_index() -> None:
    index = (ROOT / "docs" / "log.md").read_text(encoding="utf-8").partition("## Index\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| \[[^\]]+\]\((?:log/)?([^)]*)\) \| [^|]+ \| [^|]+ \| [^|]+ \|$", index, flags=re.MULTILINE)
    assert len(rows) == index.count("\n| ["), "each row has a date, a question, an answer and a figure"
    entries = [
        f"{'' if page.parent.name == 'docs' else page.name}#{anchor(title)}"
        for page in (*sorted((ROOT / "docs" / "log").glob("*.md")), ROOT / "docs" / "log.md")
        for title in re.findall(r"^## (.+)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        if title != "Index"
    ]
    assert rows == entries, "the index of docs/log.md has one row for each entry, in their order"
