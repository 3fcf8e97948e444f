"""A back-test as a document."""

from __future__ import annotations

from collections.abc import Sequence

from proofcost.reports.document import Column, Document, Entry, Section, Table
from proofcost.reports.entries import figure_text
from proofcost.reports.plan import page, words
from proofcost.reports.plan.backtest import CONFIDENCE, BackTested, Check
from proofcost.reports.units import plural

COLUMNS = (
    Column("promise", "promise"),
    Column("low", "from"),
    Column("high", "to"),
    Column("realised", "in the second half"),
    Column("count", "verdicts", "count"),
    Column("kept", "kept"),
)


def document(tested: BackTested, sources: Sequence[str] = ()) -> Document:
    rows = tuple(_row(check) for check in tested.checks)
    marked = {at: "good" if check.kept else "bad" for at, check in enumerate(tested.checks)}
    note = f"all intervals together hold with {words.percent(CONFIDENCE)} confidence, if nothing changes"
    sections = [
        Section("Promises", (Table("backtest", "Promised and realised", COLUMNS, rows, (note,), marked=marked),))
    ]
    lines = [f"Drift: {one.said}." for one in tested.drifts]
    if tested.drifts:
        seen = [one.said.replace("the records", "the first half alone") for one in tested.foreseen]
        lines.append(
            f"It could have been seen before: {'; '.join(seen)}." if seen else "The first half alone did not show it."
        )
    else:
        lines.append("The halves do not surely differ in time or memory.")
    sections.append(Section("Do the records drift?", (), tuple(lines)))
    sections.append(page.chosen_section(tested.plan))
    return Document(
        kind="plan",
        title="Plan, back-tested",
        answer=answer(tested),
        sections=tuple(sections),
        notes=(*tested.said, *page.notes(tested.plan)),
        data=tuple(sources),
    )


def _row(check: Check) -> tuple[Entry, ...]:
    return (
        check.name,
        _shown(check.low, check.unit),
        _shown(check.high, check.unit),
        _shown(check.realised, check.unit),
        check.count,
        check.kept,
    )


def _shown(value: float, unit: str) -> str:
    return words.span(value) if unit == "s" else figure_text(value, unit)


def answer(tested: BackTested) -> str:
    kept = sum(check.kept for check in tested.checks)
    said = (
        f"{kept} of {plural(len(tested.checks), 'promise')} made from the first half of the records held in the second."
    )
    if tested.drifts:
        said += f" The records drift: {'; '.join(one.said for one in tested.drifts)}: plan from the newest (--since)."
    elif tested.broken:
        said += " The halves do not differ in the middle: look at the ends, and at what came when."
    return said
