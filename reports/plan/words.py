"""Amounts in the sentences of a plan: `8.00 GB`, `3 h 20 min`, `1 %`, `7.50 EUR/h`."""

from __future__ import annotations

from proofcost.reports.entries import figure_text
from proofcost.reports.plan.amounts import Price


def size(amount_bytes: float) -> str:
    return figure_text(float(amount_bytes), "bytes")


def span(seconds: float) -> str:
    """A time as people say it; below two minutes as a table would."""
    if seconds < 120:
        return figure_text(seconds * 1e9, "ns") if seconds else "0 s"
    minutes = round(seconds / 60)
    if minutes < 60:
        return f"{seconds / 60:.3g} min"
    hours, rest = divmod(minutes, 60)
    return f"{hours} h" + (f" {rest} min" if rest else "")


def span_ns(ns: float) -> str:
    return span(ns / 1e9)


def number(value: float) -> str:
    """With three digits, never as a power of ten: `9,000`."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def percent(share: float) -> str:
    return figure_text(share, "share")


def money(amount: float, price: Price) -> str:
    """In the price's currency."""
    shown = figure_text(amount, "money")
    if price.currency in ("$", "€", "£"):
        return f"{price.currency}{shown}"
    return f"{price.currency} {shown}".strip()


def listed(parts: list[str]) -> str:
    """`a, b and c`."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
