"""Overwrite a file's bytes before it is deleted, and say where overwriting cannot remove them.

A file system frees the blocks of a deleted or truncated file without clearing them, so their content can be read from
the raw disk. Here the bytes are overwritten once with zeros and synced first. A copy-on-write file system writes the
zeros to other blocks, and a drive with wear levelling keeps old pages; a program cannot reach either.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

_BLOCK = 1 << 20
COPYING = {
    "btrfs": "btrfs", "zfs": "ZFS", "bcachefs": "bcachefs", "nilfs2": "NILFS", "f2fs": "F2FS", "ubifs": "UBIFS",
    "jffs2": "JFFS2", "apfs": "APFS",
}  # fmt: skip
"""File systems that write changed data to new blocks."""
ELSEWHERE = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "virtiofs", "afs"})
IN_PLACE = frozenset({"ext2", "ext3", "ext4", "xfs", "vfat", "exfat", "tmpfs", "ramfs", "hfsplus", "ntfs3"})


def overwrite(file: int, head: bytes = b"") -> None:
    """Overwrite an open file with zeros and sync it to the disk; its size stays the same.

    Args:
        file: a descriptor open for writing.
        head: bytes that are written at the start in place of zeros, and synced before the rest is overwritten.

    Raises:
        OSError: writing fails.
    """
    left = os.fstat(file).st_size
    os.lseek(file, 0, os.SEEK_SET)
    if head and left >= len(head):
        left -= os.write(file, head)
        os.fsync(file)
    while left > 0:
        left -= os.write(file, bytes(min(left, _BLOCK)))
    os.fsync(file)


def unlink_overwritten(path: Path) -> None:
    """Overwrite a file and delete it; do nothing if it does not exist.

    A file with a second name (a hard link) is not overwritten and only loses this name, since the other is in use.
    """
    with suppress(OSError):
        file = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            about = os.fstat(file)
            if stat.S_ISREG(about.st_mode) and about.st_nlink == 1:
                overwrite(file)
        finally:
            os.close(file)
    with suppress(FileNotFoundError):
        path.unlink()


def where_traces_stay(path: Path) -> str:
    """A sentence that says why overwritten bytes of the file at `path` may stay readable; '' if they do not.

    It uses what this machine reports. It cannot know what is under a virtual disk, nor of backups and snapshots.
    """
    kind, options, device = _mount(path)
    if kind in COPYING:
        return (
            f"'{path}' lies on {COPYING[kind]}, which writes changes to another place: overwritten data stays "
            "readable on the raw disk until it is used again, and in snapshots. Only an encrypted disk helps there."
        )
    if kind in ELSEWHERE or kind.startswith("fuse"):
        return f"'{path}' lies on a file system of another machine or program ({kind}), which may keep old versions."
    if kind == "overlay":
        return f"'{path}' lies in a container's layers (overlay): layers below and the host may keep older versions."
    if kind and kind not in IN_PLACE:
        return f"'{path}' lies on a file system ({kind}) that may not overwrite in place; devmind does not know it."
    if "data=journal" in options.split(","):
        return f"'{path}' lies on a file system that writes data to its journal, where a copy stays for a while."
    if not kind:
        return f"It is not known on what '{path}' lies: copy-on-write file systems and flash drives keep old versions."
    if device and _levels_its_wear(device):
        return (
            f"The drive under '{path}' is a flash drive: it writes changes to other cells, and the old ones keep their "
            "data until the drive erases them. Only an encrypted disk helps there."
        )
    return ""


def _mount(path: Path) -> tuple[str, str, str]:
    """(file system, options, device as major:minor) that a path is on; empty texts if the system does not say."""
    try:
        place = path.resolve()
        rows = [row.split(" ") for row in Path("/proc/self/mountinfo").read_text().splitlines()]
    except (OSError, RuntimeError):
        return "", "", ""
    best: tuple[int, str, str, str] = (-1, "", "", "")
    for row in rows:
        point = row[4].encode().decode("unicode_escape", "replace")
        if len(point) >= best[0] and place.is_relative_to(point):  # a later mount hides an earlier one at its place
            after = row.index("-")
            best = len(point), row[after + 1], f"{row[5]},{row[-1]}", row[2]
    return best[1:]


def _levels_its_wear(device: str) -> bool:
    """Whether a block device reports that it does not rotate; False where there is no block device (network, RAM)."""
    for place in ("queue", "../queue"):  # a partition's entry is under its drive
        with suppress(OSError):
            return Path(f"/sys/dev/block/{device}/{place}/rotational").read_text().strip() == "0"
    return False
