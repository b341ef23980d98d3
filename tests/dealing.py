"""Which process of a run gets which tests first, so that the processes end together and what a file makes is made once.

xdist hands each of its processes as many tests as any other, in the order that it is given, and who has none left takes
over from who is behind (`--dist worksteal`). Tests that take long come first, as a test of ten minutes that came last
would keep one process waiting for another; those of one file come one after another in one process, which makes what
they share (a browser, wheels, an agent) once.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

Item = TypeVar("Item")


def dealt(items: Sequence[Item], files: Sequence[str], long_s: Sequence[float], hands: int) -> list[Item]:
    """The items in an order of which each `hands`-th part begins with its share of those that take long.

    Args:
        items: tests, in the order in which they stand in their files.
        files: of each, the file that it is of.
        long_s: of each, about how many seconds it takes; 0 where that is little. Whole files are dealt by the sum, the
            largest first, to whom has least (LPT; Graham 1969).
        hands: how many processes there are.
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
