"""Bytes of a file overwritten before a name is taken off them, and the sentence for where that does not reach.

A file system gives the blocks of a file that was deleted or cut off back as they are: whoever reads the bare disk finds
them. So what is to be gone is overwritten first, once, with zeros, and put on the disk. A copy-on-write file system
writes the zeros elsewhere, and a drive that levels its wear keeps old pages: nothing a program can do reaches those.
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
"""File systems that write what is changed to another place than it was at."""
ELSEWHERE = frozenset({"nfs", "nfs4", "cifs", "smb3", "9p", "ceph", "virtiofs", "afs"})
IN_PLACE = frozenset({"ext2", "ext3", "ext4", "xfs", "vfat", "exfat", "tmpfs", "ramfs", "hfsplus", "ntfs3"})


def overwrite(file: int, head: bytes = b"") -> None:
    """Zeros over everything an open file holds, on the disk when it returns; its size stays.

    Args:
        file: a descriptor open for writing.
        head: put at the start instead of zeros, and on the disk before the rest is touched.

    Raises:
        OSError: the disk refuses.
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
    """Take a file away, overwritten first; nothing happens when it is not there.

    A file that has a second name (a hard link) only loses this one: whoever made the other wants to keep it.
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
    """Why bytes that are overwritten in a file may stay readable where it lies, as a sentence; '' when they do not.

    It says what this machine tells: not what a virtual disk lies on, nor who made backups or snapshots.
    """
    kind, options, device = _mount(path)
    if kind in COPYING:
        return (
            f"'{path}' lies on {COPYING[kind]}, which writes changes to another place: what was overwritten stays "
            "readable on the bare disk until it is used again, and in snapshots. Only an encrypted disk helps there."
        )
    if kind in ELSEWHERE or kind.startswith("fuse"):
        return f"'{path}' lies on a file system of another machine or program ({kind}), which may keep old versions."
    if kind == "overlay":
        return f"'{path}' lies in a container's layers (overlay): layers below and the host may keep older versions."
    if kind and kind not in IN_PLACE:
        return f"'{path}' lies on a file system ({kind}) of which it is not known whether it overwrites in place."
    if "data=journal" in options.split(","):
        return f"'{path}' lies on a file system that writes data to its journal, where a copy stays for a while."
    if not kind:
        return f"It is not known on what '{path}' lies: copy-on-write file systems and flash drives keep old versions."
    if device and _levels_its_wear(device):
        return (
            f"The drive under '{path}' is a flash drive: it writes to other cells than it read, and those keep what "
            "they held until the drive empties them. Only an encrypted disk helps there."
        )
    return ""


def _mount(path: Path) -> tuple[str, str, str]:
    """(file system, options, device as major:minor) of where a path lies; empty texts when the system does not tell."""
    try:
        place = path.resolve()
        rows = [row.split(" ") for row in Path("/proc/self/mountinfo").read_text().splitlines()]
    except (OSError, RuntimeError):
        return "", "", ""
    best: tuple[int, str, str, str] = (-1, "", "", "")
    for row in rows:
        point = row[4].encode().decode("unicode_escape", "replace")
        if len(point) >= best[0] and place.is_relative_to(point):  # of two at one place the later one is on top
            after = row.index("-")
            best = len(point), row[after + 1], f"{row[5]},{row[-1]}", row[2]
    return best[1:]


def _levels_its_wear(device: str) -> bool:
    """Whether a block device says that it is no turning disk; what no block device is (a network, RAM) says nothing."""
    for place in ("queue", "../queue"):  # of a partition its drive is asked
        with suppress(OSError):
            return Path(f"/sys/dev/block/{device}/{place}/rotational").read_text().strip() == "0"
    return False
