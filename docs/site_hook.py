"""A hook of mkdocs: what a page links to outside of docs/ becomes a page of the site, under source/.

Pages link to the files of this repository by relative paths, which work in a clone and on its host. The site has no
repository around it, so it takes along each file that is linked to: a text as it is, code as a block. mkdocs' strict
mode then checks all links, and the site can be read without the network.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files, InclusionLevel

ROOT = Path(__file__).parent.parent
LINK = re.compile(r"(\]\()([^)\s:#]+)(#[^)\s]*)?(\))")
FENCED = re.compile(r"```.*?```", re.DOTALL)
ITEM = re.compile(r"(- |\d+\. )")
SOURCE = "source"
TAKEN: dict[Path, str] = {}
"""Files outside of docs/ that the site takes along, each with its address in it."""


def on_files(files: Files, config: Any) -> Files:
    """Take along what pages link to, and what is linked to there."""
    TAKEN.clear()
    waiting = [Path(str(file.abs_src_path)) for file in files.documentation_pages()]
    while waiting:
        page = waiting.pop()
        for _, link, _, _ in LINK.findall(FENCED.sub("", page.read_text(encoding="utf-8"))):
            path = Path(os.path.normpath(page.parent / link))
            if path in TAKEN or _included(path, files) or not path.is_file() or not path.is_relative_to(ROOT):
                continue
            name = path.relative_to(ROOT).as_posix()
            is_page = path.suffix == ".md"
            TAKEN[path] = f"{SOURCE}/{name}" if is_page else f"{SOURCE}/{name}.md"
            text = path.read_text(encoding="utf-8")
            content = text if is_page else f"# {name}\n\n````{path.suffix[1:]}\n{text}\n````\n"
            file = File.generated(config, TAKEN[path], content=content, inclusion=InclusionLevel.NOT_IN_NAV)
            files.append(file)
            if is_page:
                waiting.append(path)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Let links lead to where the files lie in the site."""
    uri = page.file.src_uri
    at = next((path for path, address in TAKEN.items() if address == uri), Path(config.docs_dir) / uri)

    def lead(found: re.Match[str]) -> str:
        opens, link, anchor, closes = found.groups(default="")
        path = Path(os.path.normpath(at.parent / link))
        address = TAKEN.get(path) or _address(path)
        if path not in TAKEN and not _included(path, files):
            return found[0]
        return f"{opens}{os.path.relpath(address, os.path.dirname(uri) or '.')}{anchor}{closes}"

    return as_python_markdown(LINK.sub(lead, markdown))


def as_python_markdown(text: str) -> str:
    """Pages are written as on GitHub, where what belongs to a list's item is indented by two and a list may follow a
    paragraph at once; mkdocs' Markdown wants four, and a blank line.
    """
    lines, is_code, before = [], False, ""
    for line in text.split("\n"):
        is_code ^= line.startswith("```")
        if not is_code:
            if ITEM.match(line) and before.strip() and not before.startswith((" ", "- ")) and not ITEM.match(before):
                lines.append("")
            line = " " * (len(line) - len(line.lstrip(" "))) + line
        lines.append(line)
        before = line
    return "\n".join(lines)


def _included(path: Path, files: Files) -> bool:
    file = files.get_file_from_path(_address(path))
    return file is not None and file.inclusion.is_included()


def _address(path: Path) -> str:
    """Where a file of docs/ lies in the site."""
    docs = ROOT / "docs"
    return path.relative_to(docs).as_posix() if path.is_relative_to(docs) else ""
