"""Writing a plugin package from the templates of its kind."""

from __future__ import annotations

import keyword
import re
import shutil
import sys
import tempfile
from importlib.metadata import requires
from importlib.resources import files
from pathlib import Path
from string import Template

from devmind.errors import PluginError, nearest
from devmind.plugins import available

KINDS = ("stage", "sensor", "world")
FILES = {
    "pyproject.toml": "pyproject.toml.tmpl",
    "README.md": "README.md.tmpl",
    "$package/__init__.py": "init.py.tmpl",
    "$package/$kind.py": "$kind.py.tmpl",
    "tests/test_$name.py": "test_$kind.py.tmpl",
}
"""File of the package -> its template; `$words` are replaced in names and texts."""


LONGEST = 50
DEVICES = re.compile(r"con|prn|aux|nul|(?:com|lpt)[0-9]")


def _required() -> set[str]:
    """Distributions that devmind requires in every installation, as Python words."""
    texts = (text for text in requires("devmind") or () if "extra ==" not in text)
    return {re.split(r"[^\w.-]", text)[0].lower().replace("-", "_") for text in texts}


def create(kind: str, name: str, out: str | Path = ".") -> Path:
    """Write the package `devmind-NAME` with one plugin of `kind` into the folder `out`; returns the package's folder.

    It has a pyproject.toml with the entry point, one module, and a test that calls the check of its kind. It is
    written whole or not at all.

    Raises:
        PluginError: no such kind, a name that cannot be a Python word, is too long or is an installed plugin's, a
            package's or a device's, or the folder is there already.
    """
    if kind not in KINDS:
        raise PluginError(f"There is no kind of plugin '{kind}'{nearest(kind, KINDS)}")
    word = name.replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9_]*(?<!_)", word):  # pip refuses a package whose name ends with -
        raise PluginError(
            f"A {kind}'s name is a word of a-z, 0-9, - and _ that starts with a letter and ends with none of - and _; "
            f"got '{name}'."
        )
    if len(word) > LONGEST:
        raise PluginError(f"A {kind}'s name has at most {LONGEST} letters; got {len(word)}: choose a shorter one.")
    if keyword.iskeyword(word):
        raise PluginError(f"'{word}' is a word of Python itself, and no {kind} can have it; choose another name.")
    if DEVICES.fullmatch(word):
        raise PluginError(f"'{word}' is a device on Windows, where no file can have that name; choose another name.")
    if word in sys.stdlib_module_names or word in _required():
        raise PluginError(f"'{word}' is a package that devmind itself uses; choose another name for the {kind}.")
    if installed := next((one for one in available(f"{kind}s").values() if one.name.replace("-", "_") == word), None):
        raise PluginError(f"There is a {kind} '{word}' already, of {installed.distribution}; choose another name.")
    target = Path(out) / f"devmind-{word.replace('_', '-')}"
    if target.exists():
        raise PluginError(f"The folder '{target}' is there already; choose another name or --out.")
    words = {
        "name": word,
        "distribution": target.name,
        "package": f"devmind_{word}",
        "title": "".join(part.capitalize() for part in word.split("_")),
    }
    try:
        Path(out).mkdir(parents=True, exist_ok=True)
        _write_whole(target, words | {"kind": kind})
    except OSError as error:
        raise PluginError(f"'{target}' cannot be written: {error.strerror}; choose another --out.") from error
    return target


def _write_whole(target: Path, words: dict[str, str]) -> None:
    """All files into a folder of another name, which then becomes `target`."""
    incomplete = Path(tempfile.mkdtemp(prefix=f".{target.name}-", dir=target.parent))
    try:
        for name, template in FILES.items():
            place = incomplete / Template(name).substitute(words)
            place.parent.mkdir(exist_ok=True)
            text = (files("devmind.scaffold") / "templates" / Template(template).substitute(words)).read_text("utf-8")
            place.write_text(Template(text).substitute(words), encoding="utf-8")
        incomplete.chmod(0o755)
        incomplete.rename(target)  # no `take_place`: it must not replace anything, and may be made anew after a kill
    except BaseException:
        shutil.rmtree(incomplete, ignore_errors=True)
        raise
