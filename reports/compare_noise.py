"""How often a gate cries wolf on this host class (R7): by A/A runs kept here, else by the very runs that are compared.

A host class is calibrated by a series in which one binary ran under two names (`bench aa`). Where there is none, the
runs at hand are split into halves: less is known then, and the interval says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from proofcost.reports.dataset import VIEW, Data
from proofcost.reports.noise import Rate, Way, rates
from proofcost.reports.noise_data import noise_found
from proofcost.reports.units import plural
from proofcost.reports.where import Where

if TYPE_CHECKING:
    from proofcost.reports.compare import Report
    from proofcost.reports.sides import Side

_SAYS_NOTHING = 0.5
"""A rate known no better than to so much either way is not known."""
_SERIES = "coalesce(plan, session)"


def false_alarms(report: Report) -> list[str]:
    """A line for each host class and metric that decides a case. Empty where nothing was compared, or only counted."""
    wanted = list(dict.fromkeys(one.metric.name for one in report.leading() if not one.metric.counted))
    sides = (report.base, report.head)
    if not wanted:
        return []
    calibrated: dict[tuple[str, str], Rate] = {}
    for data in _distinct(sides):
        series = _calibrating(data)
        if series:
            where = Where(f"{_SERIES} IN ({', '.join('?' * len(series))})", tuple(series))
            _keep(calibrated, rates(noise_found(data, where).same), (Way.TWINS,))
    own: dict[tuple[str, str], Rate] = {}
    if any((name, host) not in calibrated for name in wanted for host in report.host_classes):
        same = [one for side in sides for one in noise_found(side.data, side.where).same]
        _keep(own, rates(same), tuple(Way))
    lines = []
    for name in wanted:
        for host in sorted(report.host_classes):
            known = calibrated.get((name, host))
            lines.append(_line(name, host, known or own.get((name, host)), known is not None))
    return lines


def _distinct(sides: Sequence[Side]) -> list[Data]:
    return [sides[0].data] if sides[0].data is sides[1].data else [side.data for side in sides]


def _calibrating(data: Data) -> list[str]:
    """Series in which one binary ran under two names on one thing."""
    query = (
        f"SELECT DISTINCT {_SERIES} FROM {VIEW} WHERE kernel_sha256 IS NOT NULL AND NOT coalesce(warmup, false) "
        f"GROUP BY {_SERIES}, coalesce(workload, subject, module), kernel_sha256 HAVING count(DISTINCT kernel) > 1"
    )
    return sorted(str(row[0]) for row in data.rows(query))


def _keep(kept: dict[tuple[str, str], Rate], found: Sequence[Rate], ways: Sequence[Way]) -> None:
    """Of each figure and host class the first way in which anything could be compared."""
    for way in ways:
        for one in found:
            key = (one.figure.name, one.host_class)
            if one.way is way and one.rate.comparisons and key not in kept:
                kept[key] = one


def _line(name: str, host: str, rate: Rate | None, calibrated: bool) -> str:
    what = f"false alarms of {name} on host class {host or 'unknown'}"
    counts = None if rate is None else rate.rate
    if rate is None or counts is None or counts.low is None or counts.high is None:
        return (
            f"{what}: not known: never calibrated, and too few runs here to compare anything with itself; "
            "`proofcost bench aa` calibrates it"
        )
    how = "A/A runs kept here" if calibrated else f"never calibrated: {rate.way.value} of these very runs"
    seen = f"{what}: {counts.alarms} of {plural(counts.comparisons, 'comparison')} of a thing with itself"
    if counts.high - counts.low > _SAYS_NOTHING:
        return f"{seen}, too few to tell how often ({how})"
    return f"{seen}, surely between {counts.low:.2%} and {counts.high:.2%} ({counts.confidence:.0%}; {how})"
