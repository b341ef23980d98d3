#!/usr/bin/env bash
# Expected: a package whose entry_points.txt has a line that is no entry point (without "=") breaks nothing but itself.
# Happens: `import torch` raises TypeError, and so does every program that uses torch, with a traceback that names neither
#   the package nor the file: importlib.metadata parses the entry points of all packages before it selects a group, and
#   torch asks for the groups of its backends when it is imported.
# Version: torch 2.13.0 (torch/__init__.py looks for `torch.backends`), importlib.metadata of CPython 3.11. Seen by running
#   it; after public reports of other programs (visidata 1529, pip 11352, importlib_metadata 536).
# Matters: whoever installs a hand-made plugin beside an agent can lose the agent, and looks for the fault in torch.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/env"
"$folder/env/bin/pip" install -q --disable-pip-version-check torch==2.13.0 numpy==2.4.6
cd "$folder"
"$folder/env/bin/python" - <<'PYTHON'
import subprocess
import sys
from pathlib import Path

site = Path(next(path for path in sys.path if path.endswith("site-packages")))
package = site / "some_tool-1.0.dist-info"


def imported():
    done = subprocess.run([sys.executable, "-c", "import torch; print('imported')"], capture_output=True, text=True)
    return done.stdout.strip(), (done.stderr.strip().splitlines() or [""])[-1], "some_tool" in done.stderr


print("torch alone:", imported())
assert imported()[0] == "imported"
package.mkdir()
(package / "METADATA").write_text("Metadata-Version: 2.1\nName: some-tool\nVersion: 1.0\n")
(package / "entry_points.txt").write_text("[console_scripts]\nsome-tool\n")
out, last, names_it = imported()
print("beside a package with one such line:", (out, last, names_it))
assert (out, last.startswith("TypeError"), names_it) == ("", True, False), "the behaviour has changed"
PYTHON
echo "as stated: import torch fails beside it, and nothing names the package"
