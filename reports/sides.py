"""What people call the two sides of a comparison -> conditions on records.

A side is a path (a store, a folder, a file), a condition (`kernel=nanoda`, `label.commit=abc`), a name that a bench was
saved under, or a kernel's name. Two kernels of one bench are compared within the newest series that ran both.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from proofcost.reports.dataset import Data, DataError, open_data
from proofcost.reports.engine import Opening
from proofcost.reports.place import is_url
from proofcost.reports.units import plural
from proofcost.reports.where import Where, parse

_OPERATOR = re.compile(r"[=<>~]")


class SideError(Exception):
    """A side that names nothing. One line: which, and what there is."""


@dataclass(frozen=True, slots=True)
class Side:
    """One side: a data set, and which of its records."""

    name: str
    data: Data
    where: Where
    said: str
    """How it was understood, for people."""


def resolve(
    base: str, head: str, paths: Sequence[str], common: Where, opening: Opening = open_data
) -> tuple[Side, Side]:
    """Both sides. `paths`: the data that names are looked up in. `opening`: for which engine.

    Raises SideError, DataError, WhereError, EngineError.
    """
    for name in (base, head):
        try:
            name.encode()
        except UnicodeEncodeError:
            if not os.path.exists(name):
                raise SideError(f"{name!r}: no such path, and not UTF-8: no saved name or kernel is") from None
    unknown = [name for name in (base, head) if not _is_data(name)]
    try:
        shared = opening(paths) if unknown else None
    except DataError as error:
        if len(unknown) == 2:
            raise
        raise SideError(f"{unknown[0]!r}: no path, and there is no data to look it up as a name in: {error}") from None
    known = [_resolve(name, shared, common, opening) for name in (base, head)]
    if shared is not None and all(side.said.startswith("kernel") for side in known):
        found = shared.rows(
            "SELECT plan, max(started_ns) FROM records WHERE plan IS NOT NULL AND kernel IN (?, ?) AND " + common.sql +
            " GROUP BY plan HAVING count(DISTINCT kernel) = 2 ORDER BY 2 DESC LIMIT 1",
            (base, head, *common.parameters),
        )  # fmt: skip
        for plan, started_ns in found:
            when = datetime.fromtimestamp(started_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M")
            known = [
                Side(side.name, side.data, _and(side.where, Where("plan = ?", (plan,))),
                     f"{side.said}, of the bench of {when} (plan {plan[:12]})")
                for side in known
            ]  # fmt: skip
    return known[0], known[1]


def _is_data(name: str) -> bool:
    """Whether a name is a path of records. A file of anything else may bear the name of a kernel: of a command that was
    imported, `/bin/true`."""
    if is_url(name):
        return True
    if os.path.isdir(name) or name.endswith((".parquet", ".jsonl")):
        return os.path.exists(name)
    if not os.path.isfile(name):
        return False  # nothing, or a pipe as of <(...): looking into that would empty it
    try:
        with open(name, "rb") as file:
            return file.read(64).lstrip().startswith(b"{")
    except OSError:
        return False


def _resolve(name: str, data: Data | None, common: Where, opening: Opening) -> Side:
    if _is_data(name):
        data = opening([name])
        return Side(data.paths[0], data, common, "; ".join((f"all of {data.paths[0]}", *data.notes)))
    assert data is not None
    saved = Where("json_extract_string(labels, '$.saved') = ?", (name,))
    for where, said in ((saved, f"saved as {name}"), (Where("kernel = ?", (name,)), f"kernel {name}")):
        query = f"SELECT 1 FROM records WHERE {where.sql} AND {common.sql} LIMIT 1"
        if data.rows(query, (*where.parameters, *common.parameters)):
            return Side(name, data, _and(where, common), said)
    # Not before: a command that was imported as a kernel's name may hold these signs.
    if _OPERATOR.search(name) and not os.path.exists(name):
        return Side(name, data, _and(common, parse([name])), name)
    if os.path.exists(name):
        if not os.path.isfile(name):  # a pipe
            return Side(name, opening([name]), common, f"all of {name}")
        raise SideError(
            f"{name!r}: a file, but of no records (a folder, .parquet, .jsonl), and no saved name or kernel"
        )
    for where, said in ((saved, "a saved name"), (Where("kernel = ?", (name,)), "a kernel")):
        query = f"SELECT count(*) FROM records WHERE {where.sql}"
        ((count,),) = data.rows(query, where.parameters)
        if count:
            raise SideError(f"{name!r}: {said}, but --where and --since leave none of its {plural(count, 'record')}")
    query = (
        "SELECT DISTINCT kernel FROM records UNION SELECT DISTINCT json_extract_string(labels, '$.saved') FROM records"
    )
    names = sorted(str(row[0]) for row in data.rows(query) if row[0] is not None)
    near = difflib.get_close_matches(name, names, 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(names[:10])}" if names else "there is no data"
    raise SideError(f"{name!r}: no path, no saved name, no kernel and no condition like kernel=NAME; {hint}")


def _and(one: Where, other: Where) -> Where:
    return Where(f"({one.sql}) AND ({other.sql})", (*one.parameters, *other.parameters))
