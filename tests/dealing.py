"""The order of tests in each process of a run, so that processes end together and a file's fixtures are made once.

xdist gives each process the same number of tests, in the given order, and a process without tests takes over those of
a slower one (`--dist worksteal`). Long tests come first, because a test of ten minutes at the end would keep all other
processes waiting. Tests of one file follow one another in one process, which makes their shared fixtures (a browser,
wheels, an agent) once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def dealt(items: Sequence[Item], files: Sequence[str], long_s: Sequence[float], hands: int) -> list[Item]:
    """The items in an order in which the part of each process begins with its share of the long tests.

    Args:
        items: tests, in the order of their files.
        files: the file of each test.
        long_s: the approximate duration of each test in seconds; 0 for short ones. Whole files are dealt by their sum,
            the largest first, to the process with the least (LPT; Graham 1969).
        hands: number of processes.
    """
    of_file: dict[str, list[int]] = {}
    for at, seconds in enumerate(long_s):
        if seconds:
            of_file.setdefault(files[at], []).append(at)
    sums = {file: sum(long_s[at] for at in held) for file, held in of_file.items()}
    held, mine = [0.0] * hands, [list[str]() for _ in range(hands)]
    for file in sorted(of_file, key=lambda file: -sums[file]):
        least = min(range(hands), key=lambda hand: held[hand])
        held[least] += sums[file]
        mine[least].append(file)
    # Within a hand the file with the longest test comes first.
    parts = [
        [at for file in sorted(own, key=lambda file: -max(long_s[at] for at in of_file[file])) for at in of_file[file]]
        for own in mine
    ]
    rest, size = [at for at, seconds in enumerate(long_s) if not seconds], len(items) // hands
    for hand in range(hands - 1):
        part = parts[hand]
        wanted = max(0, size - len(part))
        part += rest[:wanted]
        del rest[:wanted]
        if lacking := size - len(part):  # xdist cuts by number: whoever has too many gives up its last ones
            giver = parts[-1] if lacking > 0 else part
            moved = giver[-abs(lacking) :]
            del giver[-abs(lacking) :]
            (part if lacking > 0 else parts[-1]).extend(moved)
    return [items[at] for at in [*(at for part in parts for at in part), *rest]]
