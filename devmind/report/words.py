"""Numbers in a form that people read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import floor, isfinite, log10

TERMS = {
    "loss": ("loss", "loss"),
    "value loss": ("loss of the critic", "loss"),
    "kl": ("change of the policy", "KL, nats"),
    "entropy": ("entropy of the policy", "nats"),
    "clipped": ("updates clipped", "share"),
    "reward": ("reward", "reward"),
    "gradient norm": ("norm of the gradient", "norm"),
    "neurons": ("neurons alive", "neurons"),
    "synapses": ("synapses alive", "synapses"),
    "newborn gradient": ("gradient of newborn neurons, as a share of that of the others", "share"),
    "newborn activity": ("activity of newborn neurons, as a share of that of the others", "share"),
    "freed mb": ("memory freed by deaths", "MB"),
}
"""By name of a logged number that is a term of the field: its title for readers, and its unit."""
UNITS = {
    "right": "share right", "accuracy": "share right", "deg": "degrees", "m": "metres", "s": "seconds",
    "return": "return", "rate": "rate", "decay": "rate", "mutation": "standard deviation", "aside": "members",
    "replaced": "members",
}  # fmt: skip
"""By the last word of a logged number's name: its unit. Numbers with other names are parts of the loss."""
SPREAD = ("best", "highest", "the best one's", "median", "lowest", "worst")
"""First words of numbers that tell of a population; those of one quantity stand in one figure."""
FIRST = ("loss", "reward")
"""Numbers that come first in a group."""


def curve_words(name: str) -> tuple[str, str]:
    """Title and unit of a logged number: 'startle/kl' is ('startle: change of the policy', 'KL, nats')."""
    *of, last = name.split("/")
    word = last.replace("_", " ")
    title, unit = TERMS.get(word) or (word.removesuffix(" deg"), UNITS.get(word.rpartition(" ")[2], "loss"))
    unit = "cosine" if of == ["cosine"] else unit
    return ": ".join([*(part.replace("_", " ") for part in of), title]), unit


def spread_words(name: str) -> tuple[str, str]:
    """Of whom a logged number of a population is, and of what: 'x/best return' is ('best', 'x/return'); else ''."""
    of, slash, last = name.rpartition("/")
    which = next((word for word in SPREAD if last.startswith(f"{word} ")), "")
    return which, of + slash + last.removeprefix(which).strip()


def measure_words(name: str) -> str:
    """A measure's name for readers: 'startle/false alarms/move_trunk' is 'startle, false alarms, by the trunk'."""
    *of, last = name.split("/")
    parts = [*of, "by the trunk" if of and last.endswith("_trunk") else last]
    return ", ".join(part.replace("_", " ") for part in parts)


def reading_order(names: Iterable[str]) -> list[str]:
    """Sorted names of one lesson's numbers: its loss, then groups of numbers, rewards first."""

    def place(name: str) -> tuple[bool, str, bool, str]:
        of, _, last = name.rpartition("/")
        return name != "loss", of, last not in FIRST, last

    return sorted(names, key=place)


def number(value: float | None, signed: bool = False) -> str:
    """Three decimals below ten, then fewer; '–' for None, and 'not finite' for such numbers."""
    if value is None:
        return "–"
    if not isfinite(value):
        return "not finite"
    sign = "+" if signed else ""
    size = abs(value)
    if size < 1e-12:  # rounding errors of sums that should be zero
        value = size = 0.0
    if size and size < 0.001:
        text = f"{value:{sign}.1e}"
    else:
        text = f"{value:{sign},.{3 if size < 10 else 1 if size < 1000 else 0}f}"
    return text.replace("-", "−")


def count(value: float) -> str:
    """1,234 as '1,234', 1,234,567 as '1.23 M'."""
    for size, letter in ((1e9, "G"), (1e6, "M")):
        if value >= size:
            return f"{value / size:.{max(0, 2 - floor(log10(value / size)))}f} {letter}"
    return f"{value:,.0f}"


def duration(seconds: float) -> str:
    """'12 s', '24 min 05 s', '3 h 20 min'."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes == 0:
        return f"{rest} s"
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def machine(device: str, cores: int | None, threads: int, gflops: Sequence[float]) -> str:
    """'2 cores of 31 GFLOP/s', '1 of 2 cores of 30 to 110 GFLOP/s', 'cuda of 50,000 GFLOP/s'; '' when not measured.

    Args:
        gflops: float32, of one core or of the whole `device`; several if a run continued on other machines.
    """
    speed_texts = {
        f"{speed:,.0f}" if speed >= 1 else f"{speed:.2g}" for speed in gflops
    }  # "0 GFLOP/s" would be no speed
    speeds = sorted(speed_texts, key=lambda text: float(text.replace(",", "")))
    if not speeds:
        return ""
    speed = f"of {speeds[0]} to {speeds[-1]} GFLOP/s" if len(speeds) > 1 else f"of {speeds[0]} GFLOP/s"
    if device != "cpu":
        return f"{device} {speed}"
    some = f"{threads} of " if cores and threads < cores else ""
    return f"{some}{cores or threads} {'core' if (cores or threads) == 1 else 'cores'} {speed}"


def memory(megabytes: float) -> str:
    """'512 MB', '1.4 GB'."""
    return f"{megabytes:.0f} MB" if megabytes < 1000 else f"{megabytes / 1024:.1f} GB"


def percent(part: float, whole: float) -> str:
    """'12 %'; '<1 %' for a share that is small but not zero."""
    if not whole or not isfinite(part / whole):
        return "–"
    share = 100 * part / whole
    return "<1 %" if 0 < share < 0.5 else f"{share:.0f} %"


def trial(size: str) -> str:
    """The warning on top of everything that a run of a trial size shows (`Run.is_trial`)."""
    return f"Size {size} only tries the machinery: these scores mean nothing."
