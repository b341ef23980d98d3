"""Model of a disk that keeps only synced data after a power cut; it is fed with a trace of the shim."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple


class Call(NamedTuple):
    """One disk call.

    `what`: w write, s sync (`data`: all of it; `other`: "folder"), t truncate, r rename, u unlink, d rmdir, m mkdir,
    c create; a: something was acknowledged.
    """

    what: str
    path: str
    other: str
    offset: int
    data: bytes


def calls(trace: bytes) -> Iterator[Call]:
    """The calls of a trace, in order."""
    at = 0
    while at < len(trace):
        end = trace.index(b"\n", at)
        what, path, other, offset, size = trace[at:end].decode().split("\t")
        at = end + 1 + int(size)
        yield Call(what, path, other, int(offset), trace[end + 1 : at])


@dataclass
class Node:
    """A file (bytes) or a folder (nodes by name): its content as processes see it, and its content on the disk."""

    live: bytearray | dict[str, Node]
    safe: bytes | dict[str, Node] = field(default_factory=bytes)

    def sync(self) -> None:
        """As fsync does."""
        self.safe = dict(self.live) if isinstance(self.live, dict) else bytes(self.live)


class Disk:
    """The folder `root` and everything below it, all on the disk at first."""

    def __init__(self, root: Path) -> None:
        self.root, self.top = root, _node(root)

    def apply(self, call: Call) -> None:
        """Apply one more call."""
        if call.what == "a":
            return
        folder, name = self._place(call.path)
        if call.what == "s" and call.other:
            (folder.live[name] if name else folder).sync()  # type: ignore[index]
        elif call.what == "s":  # with its content: calls that the shim does not see may have made or filled it
            file = folder.live.setdefault(name, Node(bytearray()))  # type: ignore[union-attr]
            file.live = bytearray(call.data)
            file.sync()
        elif call.what in "cm":
            folder.live[name] = Node(bytearray()) if call.what == "c" else Node({}, {})  # type: ignore[index]
        elif call.what in "ud":
            del folder.live[name]  # type: ignore[arg-type]
        elif call.what == "r":
            to, new = self._place(call.other)
            to.live[new] = folder.live.pop(name)  # type: ignore[index,call-overload]
        else:
            content = folder.live[name].live  # type: ignore[index]
            if call.what == "t":
                content[:] = content[: call.offset].ljust(call.offset, b"\0")
            else:
                content[:] = content.ljust(call.offset, b"\0")
                content[call.offset : call.offset + len(call.data)] = call.data

    def leave(self, folder: Path, *, names: bool) -> None:
        """Write to `folder` what a power cut leaves now: only synced data. With `names`, all names have reached the
        disk; without, only those whose folder was synced."""
        _leave(self.top, folder, names)

    def _place(self, path: str) -> tuple[Node, str]:
        parts = Path(path).relative_to(self.root).parts
        node = self.top
        for part in parts[:-1]:
            node = node.live[part]  # type: ignore[index]
        return node, parts[-1] if parts else ""


def _node(path: Path) -> Node:
    if path.is_dir():
        inside = {one.name: _node(one) for one in path.iterdir()}
        return Node(inside, dict(inside))
    return Node(bytearray(path.read_bytes()), path.read_bytes())


def _leave(node: Node, to: Path, names: bool) -> None:
    if isinstance(node.live, dict):
        to.mkdir()
        inside = node.live if names else node.safe
        for name, below in inside.items():  # type: ignore[union-attr]
            _leave(below, to / name, names)
    else:
        to.write_bytes(node.safe)  # type: ignore[arg-type]
