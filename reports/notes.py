"""Footnotes, signs and legend of a table: what is missing or inexact is explained once, below it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from proofcost.reports.figures import Figure, missing_reason
from proofcost.reports.inert import inert
from proofcost.reports.units import human

SIGNS = {
    "lower_bound": ("≥", ">=", "at least this much"),
    "upper_bound": ("≤", "<=", "at most this much"),
    "sampled": ("~", "~", "the largest of samples: a peak between two samples is not seen"),
    "contradicted": ("!", "!", "two ways of measuring disagree: do not compare this figure"),
}
"""Status -> sign, the same in ASCII, and what it means."""

SHORT_REASONS = {
    "counter_not_supported": "no counter",
    "counter_permission_denied": "not permitted",
    "counter_multiplexed": "multiplexed",
    "counter_not_reported": "not reported",
    "counter_never_ran": "never ran",
}
"""Shown instead of a dash, since people ask about instructions first; the legend says what each means."""

LONG_REASONS = {
    "counter_not_supported": "this processor or hypervisor offers no such counter (counter_not_supported)",
    "counter_permission_denied": "the kernel forbids it here; `proofcost doctor` says how to mend that "
    "(counter_permission_denied)",
    "counter_multiplexed": "the counter ran only part of the time, so its count is no value (counter_multiplexed)",
    "counter_never_ran": "the counter was never scheduled: too few for all that were asked for (counter_never_ran)",
    "counter_not_reported": "the kernel did not report it (counter_not_reported)",
}

UNSAMPLED = "; ended before the first sample"
"""How a reason ends where samples would have stood in for the figure."""

MEMORY = "peak of the call's whole tree, page cache included (who reads a file first is charged for it)"
"""What a memory figure by cgroup is."""

ANOTHER = "*"
"""Beside a figure that is not the one its column names, or that is not what it looks like; a note says more."""


@dataclass(slots=True)
class Notes:
    """Footnotes and signs of one table as they come up."""

    ascii_only: bool
    calls: int = 0
    """Rows of the table that are calls."""
    notes: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    """What is said -> of what (a column's name, say) by what stands before those: `total of `, or nothing."""
    said_of: dict[str, Counter[tuple[tuple[str, str], ...]]] = field(default_factory=dict)
    """What is said -> of how many calls, by what it is said of there."""
    signs: set[str] = field(default_factory=set)
    legend: dict[str, str] = field(default_factory=dict)
    """What is shown -> what it means."""

    @property
    def dash(self) -> str:
        return "-" if self.ascii_only else "\u2013"

    def note(self, text: str, subjects: Iterable[tuple[str, str]] = (), call: bool = False) -> int:
        """The number of the footnote of this text, which all rows of the table share.

        `subjects`: what it is said of, each with what stands before its name. `call`: it is said of a call.
        """
        said, subjects = self.notes.setdefault(text, {}), tuple(subjects)
        for of, subject in subjects:
            names = said.setdefault(of, [])
            if subject not in names and subject not in said.get("", ()):
                names.append(subject)
        if call:
            self.said_of.setdefault(text, Counter())[subjects] += 1
        return list(self.notes).index(text) + 1

    def sign(self, status: str) -> str:
        if status not in SIGNS:
            return ""
        self.signs.add(status)
        return SIGNS[status][self.ascii_only]

    def text(self, raw: str, limit: int | None = 40) -> str:
        return inert(raw, limit, self.ascii_only)

    def lines(self) -> list[str]:
        """The legend and the footnotes."""
        signs = [f"{SIGNS[status][self.ascii_only]}: {SIGNS[status][2]}" for status in SIGNS if status in self.signs]
        legend = [f"{shown}: {meaning}" for shown, meaning in self.legend.items()]
        return [*signs, *legend, *(f"[{number}] {self._line(text)}" for number, text in enumerate(self.notes, 1))]

    def _line(self, text: str) -> str:
        subjects = ", ".join(f"{of}{', '.join(names)}" for of, names in self.notes[text].items() if names)
        if not subjects:
            return text
        alike = list(self.said_of.get(text, Counter()).values()) == [self.calls]
        return f"{subjects}: {text}" + (" (all calls)" if alike and self.calls > 1 else "")


@dataclass(slots=True)
class RowNotes:
    """What is to be said of one row. Its references stand in the last cell, so that the figures stay in line."""

    notes: Notes
    of: str = ""
    """Stands before the column's name in every footnote: `total of `, say."""
    call: bool = False
    """Whether the row is a call."""
    said: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    """What is said -> what it is said of, as `Notes.note` takes it; nothing where it names its figure itself."""

    def say(self, text: str, column: str | None = None) -> None:
        subjects = self.said.setdefault(text, [])
        if column is not None:
            subjects.append((self.of, column))

    def figure(self, column: str, figure: Figure) -> str:
        """A table cell."""
        shown, notes = figure.shown, self.notes
        if shown is None or shown.value is None:
            raw = missing_reason(shown)
            if column == "instructions" and raw in SHORT_REASONS:
                notes.legend[SHORT_REASONS[raw]] = LONG_REASONS[raw]
                return SHORT_REASONS[raw]
            if raw.endswith(UNSAMPLED):  # else one reason would be two notes
                raw, column = raw.removesuffix(UNSAMPLED), f"{column} ({UNSAMPLED.removeprefix('; ')})"
            self.say(self._reason(raw), column)
            return notes.dash
        text = notes.sign(shown.status) + human(shown.value, shown.unit, notes.ascii_only)
        if shown.status in ("lower_bound", "upper_bound", "contradicted") and shown.reason is not None:
            self.say(self._reason(shown.reason), column)
        if figure.remark is not None:
            notes.legend[ANOTHER] = "read the note before comparing this figure"
            if figure.reason is None:
                self.say(figure.remark)
            else:
                self.said.setdefault(self._reason(figure.reason), []).append(("", figure.remark))
            text += ANOTHER
        if column == "memory" and "cgroup" in shown.method:
            notes.legend[column] = MEMORY
        return text

    def references(self) -> str:
        """The references to all that was said of this row, to stand behind its last cell; empty where nothing was."""
        numbers = sorted(self.notes.note(text, subjects, self.call) for text, subjects in self.said.items())
        return f" [{','.join(map(str, numbers))}]" if numbers else ""

    def _reason(self, raw: str) -> str:
        return LONG_REASONS.get(raw) or self.notes.text(raw, 200)
