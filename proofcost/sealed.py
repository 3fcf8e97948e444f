"""Whether a session is as `run --as` sealed it: what `show` and `log` say of it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from proofcost import sessions
from proofcost.harness import seal
from proofcost.harness.derive import whole_of
from proofcost.harness.merged import Record
from proofcost.harness.running import MeterState, meter_state
from proofcost.harness.session import SEAL_FILE
from proofcost.reports.seal import broken_lines, seal_lines

MISSING = (
    f"no {SEAL_FILE}, and root's collector kept these records: it was removed, or whoever was to write it was killed"
)


@dataclass(frozen=True)
class Sealed:
    """A session's seal against what stands there. `checked`: None where there is none; `problems`: empty where nothing
    is wrong."""

    checked: seal.Checked | None
    problems: tuple[str, ...]

    def lines(self) -> list[str]:
        """For the session's own table: also what is well."""
        return self.broken() or seal_lines(self.checked)

    def broken(self) -> list[str]:
        """What is wrong; nothing where nothing is."""
        return broken_lines(self.problems)

    def as_json(self) -> dict[str, Any] | None:
        """`state` (`as_sealed`, `broken`), `problems`, and what the seal says: `complete`, `incomplete`, `signature`;
        null where there is no seal and none is missing."""
        if self.checked is None and not self.problems:
            return None
        said = {} if self.checked is None else self.checked.seal
        return {
            "state": "broken" if self.problems else "as_sealed",
            "problems": list(self.problems),
            "complete": said.get("complete"),
            "incomplete": said.get("incomplete"),
            "signature": None if self.checked is None else self.checked.signature,
        }


def sealed(records: Sequence[Record], key: bytes | None = None) -> Sealed:
    """Look at the seal of one session, whose records (at least one) these are. Raises CopiesError."""
    folder = os.path.dirname(records[0].path)
    collected = any(record.started.get("trust") == "collected" for record in records)
    if not collected and not os.path.lexists(os.path.join(folder, SEAL_FILE)):
        return Sealed(None, ())
    checked = seal.check(folder, key, sessions.contents_of(records))
    if checked is not None:
        return Sealed(checked, tuple(checked.problems))
    return Sealed(None, () if _still_runs(records) else (MISSING,))


def _still_runs(records: Sequence[Record]) -> bool:
    """Whether the session's `run`, which seals it last of all, is still there."""
    whole = whole_of(records)
    return whole is not None and meter_state(whole.started) is MeterState.RUNNING
