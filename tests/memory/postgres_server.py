"""A real PostgreSQL server for tests: its own data folder, a free loopback port, a password, no socket file.

The binaries are Debian's (`make test-system`), or those of the `pg_ctl` in PATH; with `vector=True` those of the
wheel `pgserver`, which includes pgvector. PostgreSQL refuses to run as root, so root starts it as the user postgres.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import pwd
import secrets
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path

import psycopg

OWNER = "postgres"
"""The user of the system that runs the server when root starts it, and the database's superuser."""


def binaries(vector: bool = False) -> Path | None:
    """The folder of initdb and pg_ctl, or None."""
    if vector:
        spec = importlib.util.find_spec("pgserver")  # only its binaries are used; nothing is imported from it
        folder = Path(spec.origin).parent / "pginstall" / "bin" if spec and spec.origin else None
        return folder if folder and (folder / "initdb").is_file() else None
    found = shutil.which("initdb")
    versions = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = max(versions, key=lambda file: int(file.parts[-3]), default=Path(found) if found else None)
    return newest.resolve().parent if newest else None


class PostgresServer:
    """A server that starts empty. `stop` and `start` keep its data; `close` removes them.

    Args:
        bin: folder of the binaries.
        settings: lines of postgresql.conf by name.
    """

    def __init__(self, bin: Path, settings: dict[str, str] | None = None) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="devmind-postgres-"))
        self.data, self._log = self.folder / "data", self.folder / "log"
        self._as_root = os.geteuid() == 0
        self.bin = self._readable(bin)
        self.password = secrets.token_hex(16)
        (self.folder / "password").write_text(self.password)
        if self._as_root:
            user = pwd.getpwnam(OWNER)
            for path in (self.folder, self.folder / "password"):
                os.chown(path, user.pw_uid, user.pw_gid)
        self._run("initdb", "-D", self.data, "-U", OWNER, "-E", "UTF8", "--locale=C", "--no-sync", "--no-instructions",
                  "--auth=scram-sha-256", f"--pwfile={self.folder / 'password'}")  # fmt: skip
        self.port = free_port()
        lines = {"listen_addresses": "127.0.0.1", "port": str(self.port), "unix_socket_directories": ""}
        # Without fsync only a crash of the machine loses data, not one of the server, and tests run much faster.
        lines |= {"fsync": "off", "max_connections": "60", "shared_buffers": "32MB", **(settings or {})}
        with (self.data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in lines.items())
        self.start()

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self._run("pg_ctl", "-D", self.data, "-l", self._log, "-w", "-t", "60", "start")

    def stop(self, mode: str = "fast") -> None:
        """Stop the server: "fast" aborts the clients' work; "immediate" is a crash, and the log restores the data."""
        self._run("pg_ctl", "-D", self.data, "-w", "-t", "60", "-m", mode, "stop")

    def close(self) -> None:
        """Stop the server and remove its folder."""
        with contextlib.suppress(RuntimeError):
            self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def database(self, template: str = "template1") -> str:
        """Create a database and return its URL."""
        name = f"memory_{secrets.token_hex(6)}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}".encode())
        return self.url(name)

    def url(self, database: str, user: str = OWNER, password: str | None = None) -> str:
        """The URL of a database for one of its users."""
        return f"postgresql://{user}:{password or self.password}@127.0.0.1:{self.port}/{database}"

    def files_with(self, *marks: bytes) -> list[str]:
        """Paths of the server's files that hold one of the marks, relative to its data folder."""
        found = []
        for path in sorted(self.data.rglob("*")):
            with contextlib.suppress(FileNotFoundError):  # the server may remove files during the scan
                content = path.read_bytes() if path.is_file() else b""
                found += [str(path.relative_to(self.data)) for mark in marks if mark in content]
        return found

    def _readable(self, bin: Path) -> Path:
        """Copy the binaries and libraries if they lie in one of root's folders, which the server's user cannot read."""
        if not self._as_root or all(parent.stat().st_mode & 0o5 == 0o5 for parent in bin.parents):
            return bin
        self.folder.chmod(0o755)
        package = bin.parent.parent  # in a wheel, the libraries lie beside it
        copy = shutil.copytree(bin.parent, self.folder / package.name / bin.parent.name, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():
            shutil.copytree(libraries, self.folder / libraries.name)
        return copy / "bin"

    def _run(self, program: str, *words: object) -> None:
        command = [str(self.bin / program), *map(str, words)]
        if self._as_root:
            command = ["runuser", "-u", OWNER, "--", *command]
        # Not the pipes of the tests: the server would keep them open.
        with tempfile.TemporaryFile() as said:
            done = subprocess.run(
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, cwd="/", check=False, timeout=120
            )
            said.seek(0)
            text = said.read().decode(errors="replace")
        if done.returncode:
            log = self._log.read_text(errors="replace")[-2000:] if self._log.is_file() else ""
            raise RuntimeError(f"{program} ended with {done.returncode}: {text}{log}")


def free_port() -> int:
    """A loopback port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
