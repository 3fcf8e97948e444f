"""Whether a file is a Parquet file of records, by its end: one that is not stops every report that reads it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from proofcost.reports.inert import inert_outside


def flaw(path: Path) -> str | None:
    """One line, with the file's name, of what is no Parquet file of records or cannot be read; None of a sound one."""
    try:
        names = pq.read_metadata(path).schema.names
    except FileNotFoundError:
        why = "a link that leads nowhere" if path.is_symlink() else "gone"
    except OSError as error:
        why = error.strerror or str(error).splitlines()[0][:100]
    except pa.ArrowException as error:
        why = f"no Parquet file that can be read ({inert_outside(str(error).splitlines()[0], 100)})"
    else:
        if "record" in names:
            return None
        why = "a Parquet file, but not of records (no column `record`)"
    return f"{inert_outside(str(path), 200, True)}: {why}; move it away"
