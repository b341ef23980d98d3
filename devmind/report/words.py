"""Numbers as people read them."""

from __future__ import annotations

from math import floor, isfinite, log10


def number(value: float | None, signed: bool = False) -> str:
    """Three decimals below ten, then fewer; '–' for nothing, and 'not finite' said rather than hidden."""
    if value is None:
        return "–"
    if not isfinite(value):
        return "not finite"
    sign = "+" if signed else ""
    size = abs(value)
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


def memory(megabytes: float) -> str:
    """'512 MB', '1.4 GB'."""
    return f"{megabytes:.0f} MB" if megabytes < 1000 else f"{megabytes / 1024:.1f} GB"


def percent(part: float, whole: float) -> str:
    """'12 %'; '<1 %' for what is there but small."""
    if not whole or not isfinite(part / whole):
        return "–"
    share = 100 * part / whole
    return "<1 %" if 0 < share < 0.5 else f"{share:.0f} %"
