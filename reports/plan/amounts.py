"""Shares, rates, prices, sizes of machines and rules of thumb as people write them in a plan."""

from __future__ import annotations

import re
from dataclasses import dataclass

from proofcost.harness import quantity
from proofcost.harness.quantity import BYTE_UNITS, TIME_UNITS

_SHARE = re.compile(r"\s*(\d{1,3}(?:\.\d{1,12})?)\s*(%?)\s*")
_RATE = re.compile(r"\s*(\d{1,12}(?:\.\d{1,12})?)\s*/\s*(s|m|min|h|d|day|week|month)\s*")
_PRICE = re.compile(r"\s*([$€£]|[A-Z]{3})?\s*(\d{1,9}(?:\.\d{1,9})?)\s*(?:/\s*(s|m|min|h|d|day|month))?\s*")
_WAIT = re.compile(r"\s*p(\d{1,2}(?:\.\d{1,6})?)\s*=\s*(\S+)\s*")
_CORES = re.compile(r"\s*(\d{1,6}(?:\.\d{1,3})?)\s*c(?:ores)?\s*")
_RULE = re.compile(r"\s*(\S+)\s*\+\s*(\S+)\s*/\s*([KMGT]i?B)\s*(?:(?:up to|<=)\s*(\S+)\s*)?")
_SPAN_S = {"s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, "day": 86400, "week": 7 * 86400, "month": 30 * 86400}


def share(text: str) -> float:
    """`1%` or `0.01`, above 0 and below 1. Raises ValueError."""
    match = _SHARE.fullmatch(text)
    if match is None:
        raise ValueError("not a share; write for example 1%")
    value = float(match[1]) / (100 if match[2] else 1)
    if not 0 < value < 1:
        raise ValueError(
            "a share lies above 0 and below 100%" + ("" if match[2] else "; write 1% for one in a hundred")
        )
    return value


def rate_per_s(text: str) -> float:
    """`400/h`, `0.2/s`, `9000/d`. Raises ValueError."""
    match = _RATE.fullmatch(text)
    if match is None:
        raise ValueError("not a rate; write for example 400/h (s, min, h, d, week or month)")
    value = float(match[1]) / _SPAN_S[match[2]]
    if not 1e-9 < value < 1e6:
        raise ValueError("no fleet sees such a rate: it lies between one in thirty years and a million a second")
    return value


@dataclass(frozen=True, slots=True)
class Price:
    """Of one host."""

    per_hour: float
    currency: str
    """`$`, `EUR`; empty where none was named."""


def price(text: str) -> Price:
    """`2.50/h`, `$2.5/h`, `EUR 900/month`. Raises ValueError."""
    match = _PRICE.fullmatch(text)
    if match is None:
        raise ValueError("not a price; write for example 2.50/h")
    if match[3] is None:
        raise ValueError("a price of what time? write for example 2.50/h")
    value = float(match[2]) * 3600 / _SPAN_S[match[3]]
    if not 0 < value < 1e6:
        raise ValueError("no host costs that: a price lies above 0 and below a million an hour")
    return Price(value, match[1] or "")


def wait(text: str) -> tuple[float, float]:
    """`p95=10m` as (0.95, seconds). Raises ValueError."""
    match = _WAIT.fullmatch(text)
    if match is None:
        raise ValueError("not a wait; write for example p95=10m: 95 of 100 wait no longer than that")
    p = float(match[1]) / 100
    if not 0.01 <= p < 1:
        raise ValueError("a quantile lies from p1 to below p100")
    if match[2] in ("0", "0s"):
        return p, 0.0
    try:
        return p, quantity.parse(match[2], TIME_UNITS) / 1e9
    except ValueError as error:
        raise ValueError(f"its time is {error}; write for example p95=10m") from None


@dataclass(frozen=True, slots=True)
class Size:
    """Of a host or a sandbox; None for what was not said."""

    cores: float | None = None
    memory_bytes: int | None = None
    disk_bytes: int | None = None


def size(text: str) -> Size:
    """`64c/256G` or `4c/8G/10G`: cores, memory, disk. Raises ValueError."""
    parts = text.split("/")
    example = "write for example 64c/256G, or with a disk 64c/256G/1T"
    match = _CORES.fullmatch(parts[0])
    if match is None or not 2 <= len(parts) <= 3:
        raise ValueError(f"not a size; {example}")
    cores = float(match[1])
    if not 0 < cores <= 100_000:
        raise ValueError(f"{cores:g} cores: no machine has so many, or so few; {example}")
    amounts = []
    for part in parts[1:]:
        try:
            amounts.append(quantity.parse(part.strip(), BYTE_UNITS))
        except ValueError as error:
            raise ValueError(f"{part.strip()!r} is {error}; {example}") from None
    return Size(cores, amounts[0], amounts[1] if len(amounts) > 1 else None)


@dataclass(frozen=True, slots=True)
class TimeRule:
    """A rule of thumb: `base_ns`, more for each byte, and a cap."""

    text: str
    base_ns: int
    ns_per_byte: float
    cap_ns: int | None

    def limit_ns(self, size_bytes: float) -> float:
        limit = self.base_ns + self.ns_per_byte * size_bytes
        return limit if self.cap_ns is None else min(limit, self.cap_ns)


def time_rule(text: str) -> TimeRule:
    """`3h + 15m/MB up to 6h`. Raises ValueError."""
    match = _RULE.fullmatch(text)
    example = "write for example 3h + 15m/MB up to 6h"
    if match is None:
        raise ValueError(f"not a rule; {example}")
    try:
        base, more = quantity.parse(match[1], TIME_UNITS), quantity.parse(match[2], TIME_UNITS)
        cap = None if match[4] is None else quantity.parse(match[4], TIME_UNITS)
    except ValueError as error:
        raise ValueError(f"a time in it is {error}; {example}") from None
    if cap is not None and cap < base:
        raise ValueError(f"it contradicts itself: at most {match[4]}, but never below {match[1]}")
    return TimeRule(" ".join(text.split()), base, more / BYTE_UNITS[match[3].removesuffix("B")], cap)
