"""`export --to perfetto`: a session's timeline, as `show -o FILE.perfetto-trace` writes it.

Not in adapters/: it needs the course of a session, which reports know.
"""

from __future__ import annotations

from collections.abc import Sequence

from proofcost.harness.merged import Record
from proofcost.show import UsageError

HELP = "one session as a Perfetto trace (docs/timeline.md)"


def export(records: Sequence[Record], store: str) -> tuple[bytes, list[str]]:
    """The trace, and what is not in it. Raises UsageError where nothing can be placed in time."""
    from proofcost.extras import need
    from proofcost.reports.course import NoTimeError, course_of

    need("bench", "perfetto")
    from proofcost.tracks import perfetto_trace

    try:
        course = course_of(records, records)
    except NoTimeError as error:
        raise UsageError(f"export --to perfetto: nothing can be placed in time ({error})") from None
    return perfetto_trace(course), [f"{name} is not in it: {why}" for name, why in course.left_out.items()]
