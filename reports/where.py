"""`--where kernel=nanoda --where "wall_program>=2s" --since 7d`: conditions people can guess -> SQL.

A condition is COLUMN OP VALUE; OP is `=`, `!=`, `<`, `<=`, `>`, `>=` or `~` (contains). `=` and `!=` take several
values with commas between. `label.KEY` and `covariate.NAME` reach into those; `cache` is cold or warm, as the reports
tell them apart. Values of figures may bear a unit.
Conditions given together must all hold.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from proofcost.harness.columns import COLUMNS, Column, Kind

_BY_NAME = {column.name: column for column in COLUMNS if column.name != "events"}
_INSIDE = {"label": ("labels", Kind.TEXT), "covariate": ("covariates", Kind.INT)}
_CONDITION = re.compile(r"\s*([A-Za-z_][\w:]*(?:\.[^=!<>~]+)?)\s*(!=|<=|>=|=|<|>|~)\s*(.*)", re.DOTALL)
_NUMBER = re.compile(r"(-?\d+(?:\.\d+)?)\s*([A-Za-zµ]*)")
_UNITS: dict[str, dict[str, int]] = {
    "ns": {"ns": 1, "us": 10**3, "µs": 10**3, "ms": 10**6, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9},
    "bytes": {
        **{f"{prefix}B": 1000**power for power, prefix in enumerate(("", "k", "M", "G", "T"))},
        **{f"{prefix}iB": 1024**power for power, prefix in enumerate(("", "K", "M", "G", "T")) if power},
    },
    "count": {"": 1, "k": 10**3, "M": 10**6, "G": 10**9},
}
_SPAN = re.compile(r"(\d+)([hdw])")
_SPANS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}


_READ_MOST = 1 << 20
# Who reads half of its input (and a mebibyte) from storage did not find it in memory.
CACHE_STATE = f"""CASE WHEN labels LIKE '%"cache":%' THEN json_extract_string(labels, '$.cache')
        WHEN input_bytes > 0 AND coalesce(io_read_bytes_tree, io_read_bytes_waited) IS NOT NULL THEN
            CASE WHEN coalesce(io_read_bytes_tree, io_read_bytes_waited) >= {_READ_MOST}
                AND coalesce(io_read_bytes_tree, io_read_bytes_waited) >= input_bytes / 2 THEN 'cold'
            ELSE 'warm' END END"""
"""SQL: `cold` or `warm`, null where a record does not tell."""

_DERIVED = {"cache": Column("cache", Kind.TEXT, "cold or warm, as far as a record tells")}
"""Not in the records as such, and asked for all the same."""


class WhereError(Exception):
    """A condition that cannot be understood. One line: which, why, and how to mend it."""


@dataclass(frozen=True, slots=True)
class Where:
    """SQL for a WHERE clause, with its parameters in order."""

    sql: str
    parameters: tuple[str | int | bool, ...]


def parse(conditions: list[str], since: str | None = None, now: datetime | None = None) -> Where:
    """All conditions as one. Raises WhereError."""
    made = [_condition(text) for text in conditions]
    if since is not None:
        made.append(Where("started_ns >= ?", (_since(since, now or datetime.now(UTC)),)))
    if not made:
        return Where("true", ())
    return Where(" AND ".join(f"({one.sql})" for one in made), tuple(value for one in made for value in one.parameters))


def _condition(text: str) -> Where:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise WhereError(f"--where {text!r}: not UTF-8, and no text of a record is otherwise") from None
    match = _CONDITION.fullmatch(text)
    if match is None:
        raise WhereError(f"--where {text!r}: not COLUMN=VALUE; write for example --where kernel=nanoda")
    name, operator, value = match.groups()
    expression, column, parameters = reach(name.strip(), f"--where {text!r}")
    if operator == "~":
        return Where(f"contains(CAST({expression} AS VARCHAR), ?)", (*parameters, value))
    if operator in ("=", "!="):
        values = [_value(one, column, text) for one in value.split(",")]
        listed = f"{expression} IN ({', '.join('?' * len(values))})"
        if operator == "=":
            return Where(f"coalesce({listed}, false)", (*parameters, *values))
        return Where(f"NOT coalesce({listed}, false)", (*parameters, *values))
    if column.kind is not Kind.INT:
        raise WhereError(f"--where {text!r}: {name} is {column.kind.value}; `{operator}` compares integers only")
    return Where(f"{expression} {operator} ?", (*parameters, _value(value, column, text)))


def reach(name: str, said: str) -> tuple[str, Column, tuple[str, ...]]:
    """(SQL expression, what it is like, parameters it takes) of a column's name, `label.KEY` or `covariate.NAME`.

    Raises WhereError, which begins with `said`.
    """
    head, dot, key = name.partition(".")
    if dot and head in _INSIDE:
        column, kind = _INSIDE[head]
        path = '$."' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'
        expression = f"json_extract_string({column}, ?)"
        if kind is Kind.INT:
            expression = f"CAST({expression} AS BIGINT)"
        return expression, Column(name, kind, "", "count"), (path,)
    plain = name.replace(":", "_")
    if plain in _BY_NAME:
        return f'"{plain}"', _BY_NAME[plain], ()
    if plain in _DERIVED:
        return f"({CACHE_STATE})", _DERIVED[plain], ()
    near = difflib.get_close_matches(plain, [*_BY_NAME, *_DERIVED, "label.KEY", "covariate.NAME"], 1)
    hint = f"did you mean {near[0]}?" if near else "`proofcost store sql --columns` lists them"
    raise WhereError(f"{said}: no column {name!r}; {hint}")


def _value(text: str, column: Column, where: str) -> str | int | bool:
    text = text.strip()
    if column.kind is Kind.BOOL:
        if text.lower() not in ("true", "false", "yes", "no"):
            raise WhereError(f"--where {where!r}: {column.name} is true or false, not {text!r}")
        return text.lower() in ("true", "yes")
    if column.kind is not Kind.INT:
        return text
    match = _NUMBER.fullmatch(text)
    units = _UNITS[column.unit] if column.unit else {"": 1}
    if column.name.endswith("_ns") and column.unit is None:
        units = _UNITS["ns"]
    if column.name.endswith("_bytes") and column.unit is None:
        units = _UNITS["bytes"]
    if match is None or (match[2] and match[2] not in units):
        known = ", ".join(unit for unit in units if unit)
        unit = f" with a unit of {known}" if known else ""
        raise WhereError(f"--where {where!r}: {column.name} is a number{unit}, not {text!r}")
    whole, _, fraction = match[1].partition(".")
    scale: int = units.get(match[2], 1)
    return int(int(whole + fraction) * scale // 10 ** len(fraction))


def _since(text: str, now: datetime) -> int:
    """Nanoseconds since 1970 of `7d`, `2026-11-01` or `2026-11-01T12:00`."""
    span = _SPAN.fullmatch(text)
    if span is not None:
        try:
            return int((now - int(span[1]) * _SPANS[span[2]]).timestamp()) * 10**9
        except (OverflowError, ValueError):
            raise WhereError(f"--since {text!r}: so long ago there is no date; leave it out for all records") from None
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise WhereError(f"--since {text!r}: neither a date as 2026-11-01 nor a span as 12h, 7d or 4w") from None
    return int(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()) * 10**9
