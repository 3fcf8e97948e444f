"""A campaign: several benches of the same kernels on one host, as one document. Nothing in it is written by hand.

    calibration   what a run costs at least here, in the same sandbox
    exports       kernels on real exports, in mirrored blocks
    twins         every generated family, small, and its rejecting twin
    growth        every generated family in several sizes
    aa            the first kernel under two names

Each is the records of one bench; what is absent is left out of the document and said. Verdicts come first: of a kernel
that accepts what is false no cost is worth reading before that is known.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from proofcost.harness.decode import plain
from proofcost.harness.merged import Record, integer_at, text_at, value_at
from proofcost.reports import calibration
from proofcost.reports.bench_cells import (
    COMPARED_TO_FLOOR,
    CPU,
    MEMORY,
    WALL,
    Cell,
    by_stratum,
    cells,
    counted,
    key_of,
    ratio,
    verdicts_by_work,
)
from proofcost.reports.bench_table import found_troubles
from proofcost.reports.campaign_growth import growth_section
from proofcost.reports.document import Column, Document, Entry, Estimate, Missing, Section, Table
from proofcost.reports.units import plural, when
from proofcost.reports.verdicts import Trouble, Verdict, is_control

Parts = Mapping[str, Sequence[Record]]

PARTS = ("calibration", "exports", "twins", "growth", "aa")
NO_FIGURE = "no run ended by itself"
CONFIDENCE = 0.95
SAID = (Verdict.ACCEPTED, Verdict.REJECTED, Verdict.DECLINED, Verdict.AMBIGUOUS, Verdict.ERROR)
COVARIATES = (
    ("export_bytes", "bytes", "bytes"),
    ("export_lines_count", "lines", "count"),
    ("export_declarations_count", "declarations", "count"),
    ("export_expressions_count", "expressions", "count"),
    ("export_app_count", "applications", "count"),
    ("export_expression_depth_count", "depth", "count"),
    ("export_expression_tree_count", "largest unshared", "count"),
)


def document(parts: Parts) -> Document:
    """The whole of it. Needs numpy and scipy."""
    every = [record for records in parts.values() for record in records]
    floor = calibration.floor_ns(parts.get("calibration", ()))
    sections = [_verdicts(parts), _kernels(every), _floor(parts.get("calibration", ()), floor)]
    if parts.get("exports"):
        sections.append(_costs("Real exports", parts["exports"], floor))
    if parts.get("aa"):
        sections.append(_costs("The same kernel twice (A/A)", parts["aa"], floor))
    if parts.get("growth"):
        sections.append(growth_section(parts["growth"], floor))
    sections.append(_covariates([*parts.get("exports", ()), *parts.get("growth", ())], floor))
    absent = [name for name in PARTS if not parts.get(name)]
    notes = [f"not in it, for lack of records: {', '.join(absent)}"] if absent else []
    return Document(
        kind="campaign",
        title="A campaign on real kernels",
        answer=_answer(parts),
        sections=sections,
        notes=[*notes, *_quiet(every)],
        data=[f"{name}: {plural(len(records), 'record')}" for name, records in parts.items() if records],
    )


def _answer(parts: Parts) -> str:
    accepted: dict[str, list[str]] = {}
    other = 0
    for name, records in parts.items():
        if name == "calibration":
            continue
        for work, (said, expected) in verdicts_by_work(_own(records)).items():
            for kernel, all_of in said.items():
                if expected == "rejected" and Verdict.ACCEPTED in all_of:
                    accepted.setdefault(kernel, []).append(work)
        other += len({work for work, _, _ in found_troubles(records)})
    if not accepted:
        return f"No kernel accepted what must be rejected; {plural(other, 'workload')} with another finding."
    lines = [
        f"{kernel} ACCEPTS WHAT MUST BE REJECTED ({', '.join(sorted(set(on)))})" for kernel, on in accepted.items()
    ]
    return "; ".join(lines) + "."


def _verdicts(parts: Parts) -> Section:
    rank = list(Trouble)
    wrong: list[tuple[int, tuple[str, str, str]]] = []
    counts: dict[tuple[str, str], Counter[str]] = {}
    for name, records in parts.items():
        if name == "calibration":
            continue
        wrong += [(rank.index(kind), (work, kind.value, line)) for work, kind, line in found_troubles(records)]
        for said, expected in verdicts_by_work(_own(records)).values():
            for kernel, all_of in said.items():
                counts.setdefault((kernel, expected or "not known"), Counter())[_one(all_of)] += 1
    rows = [row for _, row in sorted(dict.fromkeys(wrong))]
    found = Table(
        key="findings",
        title="Verdicts that are not as they should be",
        columns=[Column("workload", "workload"), Column("finding", "finding"), Column("who", "who said what")],
        rows=rows,
        marked=dict.fromkeys(range(len(rows)), "bad"),
    )
    names = [*(one.value for one in SAID), "changes", "none"]
    said_rows: list[list[Entry]] = []
    for (kernel, expected), counter in sorted(counts.items()):
        said_rows.append([kernel, expected, sum(counter.values()), *(counter[name] for name in names)])
    table = Table(
        key="verdicts",
        title="Workloads by what is expected of them and what kernels said, all parts together",
        columns=[
            Column("kernel", "kernel"),
            Column("expected", "expected"),
            Column("workloads", "workloads", "count"),
            *(Column(name, name, "count") for name in names),
        ],
        rows=said_rows,
        notes=["changes: not the same in every run; none: killed, crashed or at a limit in every run"],
    )
    return Section("Verdicts", [*([found] if rows else []), table])


def _own(records: Iterable[Record]) -> list[Record]:
    """Without the second name of a kernel."""
    return [record for record in records if text_at(record.started, "bench", "twin_of") is None]


def _one(said: Iterable[Verdict]) -> str:
    kinds = set(said) - {Verdict.INCOMPLETE, Verdict.INTERRUPTED}
    if len(kinds) > 1:
        return "changes"
    return next((one.value for one in SAID if one in kinds), "none")


def _kernels(every: Sequence[Record]) -> Section:
    rows: dict[str, list[Entry]] = {}
    for record in every:
        name = key_of(record).kernel
        if name in rows or text_at(record.started, "bench", "twin_of") is not None:
            continue
        target = value_at(record.started, "target")
        rows[name] = [
            name,
            "control" if is_control(record) else plain(text_at(record.started, "bench", "version") or "not known"),
            (text_at(target, "sha256") or "not known")[:16],
            integer_at(record.started, "kernel", "threads_count") or "not told",
            plain(text_at(record.started, "bench", "exit_codes_known_by") or "not known"),
        ]
    table = Table(
        key="kernels",
        title="What was run",
        columns=[
            Column("kernel", "kernel"),
            Column("version", "version"),
            Column("sha256", "SHA-256 of its program"),
            Column("threads", "threads"),
            Column("codes", "meaning of its exit codes"),
        ],
        rows=list(rows.values()),
    )
    return Section("Kernels and host", [table], [_host(every)])


def _host(every: Sequence[Record]) -> str:
    if not every:
        return "No record."
    classes = sorted({text_at(record.started, "host", "class") or "not known" for record in every})
    sandboxes = sorted({text_at(record.started, "sandbox", "kind") or "not known" for record in every})
    begun = [at for record in every if (at := record.started_at_ns) is not None]
    ended = [at for record in every if (at := record.ended_at_ns) is not None]
    span = f"{when(min(begun))} to {when(max(ended))}" if begun and ended else "at a time not known"
    many = " (SEVERAL: these figures do not belong together)" if len(classes) > 1 else ""
    return f"{span}; host class {', '.join(classes)}{many}; sandbox {', '.join(sandboxes)}."


def _floor(records: Sequence[Record], floor: int | None) -> Section:
    rows: list[list[Entry]] = []
    for cell in cells(records):
        rows.append([cell.key.kernel, cell.key.work, len(cell.values(WALL)), *_medians(cell)])
    text = "The floor of this host is not known: there is no calibration, so no figure could be held against it."
    if floor is not None:
        text = (
            f"A wall below {COMPARED_TO_FLOOR} times the floor, which is the null program's median in the same "
            "sandbox, is mostly start-up: no ratio is made of it. Nothing is subtracted."
        )
    table = Table(
        key="calibration",
        title="Controls: they check nothing",
        columns=[Column("control", "control"), Column("workload", "workload"), *_figures()],
        rows=rows,
    )
    return Section("The floor", [table] if rows else [], [text])


def _figures() -> list[Column]:
    return [
        Column("runs", "n", "count"),
        Column("wall_median", "wall", "ns"),
        Column("wall_spread", "spread", "share"),
        Column("cpu_median", "CPU", "ns"),
        Column("memory_median", "memory", "bytes"),
    ]


def _medians(cell: Cell) -> list[Entry]:
    def entry(value: int | float | None) -> Entry:
        return Missing(NO_FIGURE) if value is None else value

    spread = cell.spread(WALL)
    return [
        entry(cell.median(WALL)),
        Missing("fewer than four values") if spread is None else spread,
        entry(cell.median(CPU)),
        entry(cell.median(MEMORY)),
    ]


def is_small(cell: Cell, floor: int | None) -> bool:
    """Whether a cell's wall is mostly start-up."""
    wall = cell.median(WALL)
    return wall is not None and floor is not None and wall < COMPARED_TO_FLOOR * floor


def _costs(title: str, records: Sequence[Record], floor: int | None) -> Section:
    rows: list[list[Entry]] = []
    ratios: dict[str, list[float]] = {}
    small: list[str] = []
    strata = by_stratum(cells(records))
    for stratum, group in strata.items():
        kernels = [cell for cell in group if not cell.control]
        if all(is_small(cell, floor) or not cell.values(WALL) for cell in kernels):
            small.append(stratum.work)
            continue
        for cell in kernels:
            found = _ratio(cell, kernels[0], floor)
            if isinstance(found, Estimate) and cell is not kernels[0]:
                ratios.setdefault(cell.key.kernel, []).append(found.value)
            said = ", ".join(f"{count} {one.value}" for one, count in cell.verdicts.most_common())
            said = next(iter(cell.verdicts)).value if len(cell.verdicts) == 1 else said
            rows.append([stratum.work, cell.key.kernel, len(cell.values(WALL)), *_medians(cell), found, said])
    table = Table(
        key="costs",
        title="Medians of the runs that ended by themselves",
        columns=[
            Column("workload", "workload"),
            Column("kernel", "kernel"),
            *_figures(),
            Column("wall_ratio", "wall to the first kernel's", "ratio"),
            Column("verdict", "verdict"),
        ],
        rows=rows,
        notes=[
            "spread: of the middle half of the walls, as a share of the median",
            "ratio: block by block (Hodges-Lehmann), with the signed rank's exact interval of at least 95 %",
            *(
                f"{kernel}: geometric mean of the ratios of {plural(len(all_of), 'workload')}: "
                f"{math.exp(math.fsum(map(math.log, all_of)) / len(all_of)):.3f}"
                for kernel, all_of in ratios.items()
            ),
        ],
    )
    text = f"{len(small)} of {plural(len(strata), 'workload')} cost every kernel less than {COMPARED_TO_FLOOR} times "
    text += "the floor, or end by no kernel: only their verdicts count, above."
    return Section(title, [table] if rows else [], [text] if small else [])


def _ratio(cell: Cell, base: Cell, floor: int | None) -> Entry:
    if cell is base:
        return 1
    if is_small(cell, floor) or is_small(base, floor):
        return Missing("below ten times the floor")
    found = ratio(cell, base, WALL)
    if found is None:
        return Missing("not the same whole work with one verdict")
    return Estimate(found.value, found.low, found.high, CONFIDENCE)


def _covariates(records: Sequence[Record], floor: int | None) -> Section:
    """Of every workload that costs any kernel more than start-up; of a family the largest size."""
    chosen: dict[str, Record] = {}
    for cell in cells(records):
        if cell.control or is_small(cell, floor):
            continue
        work = value_at(cell.records[0].started, "bench", "workload")
        chosen[text_at(work, "family") or cell.key.work] = cell.records[0]  # sizes come in order: the last is largest
    rows: list[list[Entry]] = []
    for record in chosen.values():
        known = value_at(record.started, "bench", "covariates")
        values = [integer_at(known, name) for name, _, _ in COVARIATES]
        rows.append([key_of(record).work, *(Missing("not looked for") if one is None else one for one in values)])
    table = Table(
        key="covariates",
        title="What these exports hold that cost may hang on",
        columns=[Column("workload", "workload"), *(Column(*one) for one in COVARIATES)],
        rows=rows,
        notes=["docs/workloads.md explains each; of a family the largest size that ran"],
    )
    return Section("Covariates", [table] if rows else [])


def _quiet(every: Sequence[Record]) -> list[str]:
    all_of = counted(every)
    told: Counter[str] = Counter()
    marked = 0
    for record in all_of:
        why = value_at(record.started, "bench", "disturbances")
        if isinstance(why, list) and why:
            marked += 1
            told.update(text.partition(":")[0] for text in why if isinstance(text, str))
    if not marked:
        return [f"all {plural(len(all_of), 'repetition')} began on a quiet host"]
    reasons = ", ".join(reason for reason, _ in told.most_common(4))
    return [f"{marked} of {plural(len(all_of), 'repetition')} BEGAN ON A HOST THAT WAS NOT QUIET ({reasons})"]
