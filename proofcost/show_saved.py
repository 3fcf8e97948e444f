"""`proofcost show ... -o FILE`: a session or a call as a picture, or as a timeline to be opened.

Nothing here is imported without `-o`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from proofcost.extras import need
from proofcost.harness.merged import Record
from proofcost.harness.whole_file import whole_file
from proofcost.reports.course import Course, NoTimeError, course_of

PERFETTO, SVG = ".perfetto-trace", ".svg"
SUFFIXES = (PERFETTO, SVG)


class SavingError(Exception):
    """The file cannot be made; the message says why and what to do."""


def writer_for(path: str) -> Callable[[Course], bytes] | None:
    """What makes the bytes of a file with this suffix; None for a suffix that we do not have.

    Leaves with exit code 2 and the extra's name where its package is not installed.
    """
    if path.endswith(PERFETTO):
        need("bench", "perfetto")
        from proofcost.tracks import perfetto_trace

        return perfetto_trace
    if path.endswith(SVG):
        need("reports", "matplotlib")
        from proofcost.reports.picture import picture

        return picture
    return None


def save(path: str, make: Callable[[Course], bytes], session: Sequence[Record], wanted: Sequence[Record]) -> None:
    """Write the `wanted` records of one session; what they lack is said on stderr. Raises SavingError."""
    try:
        course = course_of(session, wanted)
    except NoTimeError as error:
        raise SavingError(f"show -o {path}: nothing can be placed in time ({error})") from None
    content = make(course)
    try:
        with whole_file(path) as file:
            file.write(content)
    except OSError as error:
        raise SavingError(f"show -o {path}: cannot be written: {error.strerror or error}") from None
    without = [one for one in course.passages if one.timeline is None]
    if len(without) == len(course.passages):
        why = "; ".join(sorted({one.absent.get("timeline", "not known") for one in without}))
        print(f"{path}: no timeline in it: {why}", file=sys.stderr)
    for name, why in course.left_out.items():
        print(f"{path}: {name} is not in it: {why}", file=sys.stderr)
