"""Figures and times for people: SI units, three significant digits. For looking only: one computes with integers."""

from __future__ import annotations

from datetime import UTC, datetime

STEPS: dict[str, tuple[str, ...]] = {
    "ns": ("ns", "µs", "ms", "s"),
    "bytes": ("B", "kB", "MB", "GB", "TB", "PB"),
    "count": ("", "k", "M", "G", "T", "P"),
}
"""Names of the powers of 1000 of each unit of a record."""


def human(value: int, unit: str, ascii_only: bool = False) -> str:
    """`value`, in `unit` as records name it, with three significant digits: `1.24 s`, `19.6 MB`, `4.09 G`.

    Integers only on the way, so that 999 999 999 ns is `1.00 s`, not `1000 ms`. An unknown unit stands as it is.
    """
    steps = STEPS.get(unit)
    if steps is None:
        return f"{value} {unit}"
    if value == 0 and unit == "ns":
        return "0 s"
    size = abs(value)
    power = 0
    while power + 1 < len(steps) and size >= 1000 ** (power + 1):
        power += 1
    while True:
        text, fits = _three_digits(size, 1000**power)
        if fits or power + 1 == len(steps):
            break
        power += 1
    name = steps[power].replace("µ", "u") if ascii_only else steps[power]
    return f"{'-' if value < 0 else ''}{text} {name}".rstrip()


def _three_digits(size: int, scale: int) -> tuple[str, bool]:
    """`size / scale` rounded to three significant digits, and whether it is still below 1000 then."""
    decimals = 0 if scale == 1 else 2 if size < 10 * scale else 1 if size < 100 * scale else 0
    rounded = (size * 10**decimals * 2 + scale) // (2 * scale)
    if decimals and rounded >= 1000:  # 9.999 -> 10.0
        decimals -= 1
        rounded = (size * 10**decimals * 2 + scale) // (2 * scale)
    if not decimals:
        return str(rounded), rounded < 1000
    return f"{rounded // 10**decimals}.{rounded % 10**decimals:0{decimals}d}", True


def plural(count: int, one: str, many: str | None = None) -> str:
    """`1 call`, `2 calls`."""
    return f"{count} {one if count == 1 else many or one + 's'}"


def when(realtime_ns: int | None, zone: bool = True) -> str:
    """Local date and time, with the `zone`'s offset, to the second; the number itself where no calendar has it."""
    if realtime_ns is None:
        return "time unknown"
    try:
        moment = datetime.fromtimestamp(realtime_ns // 10**9, UTC).astimezone()
        return moment.strftime("%Y-%m-%d %H:%M:%S %z" if zone else "%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{realtime_ns} ns"
