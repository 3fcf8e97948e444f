"""`report hosts`: what a host class costs against another, on what both did, and what it would cost where it never ran.

R6 (`statistics/hardware.py`): factors from cells that ran on two classes or more. Classes without a chain of shared
cells between them are not comparable, and said to be so. Where kernels differ in what a host costs them, each has its
own factors and there is no common one.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from statistics import median

from proofcost.reports import charts
from proofcost.reports.document import Column, Document, Entry, Estimate, Missing, Picture, Section, Table
from proofcost.reports.host_facts import Facts, differences
from proofcost.reports.metric_key import metric_key
from proofcost.reports.metrics import Metric
from proofcost.reports.statistics.connected import connected_hosts
from proofcost.reports.statistics.hardware import LEAST_CLUSTERS, HardwareModel, HostFactor, Rows, fit_hosts, rows
from proofcost.reports.statistics.host_prediction import predict_cost
from proofcost.reports.statistics.interaction import Interaction, InteractionFinding, find_interaction
from proofcost.reports.units import plural

LEAD = 20
COUNTED = ("instructions", "callgrind")
"""Groups of figures that do not follow a host's speed."""
CLASSES_MOST = 8
"""Host classes that are set against each other pair by pair."""
ROWS_MOST = 5000
"""Of the table of single works."""


@dataclass(frozen=True, slots=True)
class Costs:
    """One figure of many runs, in long form: four columns of one length."""

    figure: Metric
    costs: Sequence[int]
    """Above 0."""
    subjects: Sequence[str]
    kernels: Sequence[str]
    """With all that must be alike for costs to be: configuration, threads, sandbox."""
    hosts: Sequence[str]
    """Host classes."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a data set says about its hosts."""

    measured: Sequence[Costs]
    facts: Mapping[str, Facts]
    """By host class, where the data say what it is."""
    machines: Mapping[str, int]
    """Machines seen, by host class."""
    ipc: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Instructions per cycle by (kernel, host class), where both were counted."""
    declared: Sequence[tuple[str, str, str]] = ()
    """(one class, another, what showed it): taken as one by somebody's word."""
    notes: Sequence[str] = ()
    data: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Group:
    """Host classes that a chain of shared work connects, and their factors; `model` None for a class alone."""

    hosts: tuple[str, ...]
    costs: Costs
    """Of these hosts only."""
    data: Rows
    model: HardwareModel | None
    interaction: Interaction | None


def groups(costs: Costs) -> list[Group]:
    """The host classes of one figure, connected ones together."""
    cells = zip(costs.subjects, costs.kernels, strict=True)
    made = []
    for hosts in connected_hosts(zip(cells, costs.hosts, strict=True)):
        places = [at for at, host in enumerate(costs.hosts) if host in hosts]
        part = Costs(
            costs.figure,
            [costs.costs[at] for at in places],
            [costs.subjects[at] for at in places],
            [costs.kernels[at] for at in places],
            [costs.hosts[at] for at in places],
        )
        data = rows(part.costs, part.subjects, part.kernels, part.hosts)
        model = fit_hosts(data) if len(hosts) > 1 else None
        interaction = None if model is None else find_interaction(data, model, costs.figure.delta)
        made.append(Group(tuple(sorted(hosts)), part, data, model, interaction))
    return made


def document(found: Found) -> Document:
    """The report."""
    done = [(costs, groups(costs)) for costs in found.measured if costs.costs]
    classes = sorted({host for costs, _ in done for host in costs.hosts})
    sections = [_classes(classes, found, done)]
    if len(classes) > 1:
        sections.append(_differences(classes, found, done))
    for costs, connected in done:
        sections.append(_section(costs, connected))
    if found.ipc:
        sections.append(_ipc(found.ipc))
    return Document(
        kind="hosts",
        title="Hosts: what one costs against another",
        answer=_answer(classes, done),
        sections=[section for section in sections if section.blocks or section.text],
        notes=[*_declared(found.declared), *found.notes],
        data=found.data,
    )


def _declared(declared: Sequence[tuple[str, str, str]]) -> list[str]:
    return [f"{one} and {other} are taken as one host class by declaration: {shown}" for one, other, shown in declared]


def _answer(classes: Sequence[str], done: Sequence[tuple[Costs, list[Group]]]) -> str:
    if not done:
        return "Nothing to compare: no run came to an end of its own with a figure."
    if len(classes) == 1:
        return f"All runs were on one host class, {classes[0]}: there is nothing to compare it with."
    several = [(costs, connected) for costs, connected in done if len(set(costs.hosts)) > 1]
    if not several:
        return f"Not comparable: {', '.join(classes)} have no figure in common."
    said = [_figure_said(*several[0])]
    # Beside a time what it was made of: alone, instructions would call unlike hosts alike.
    said += [_figure_said(*one) for one in several[1:] if one[0].figure.group in COUNTED][:1]
    if several[0][0].figure.group in COUNTED:
        said.append("No time was measured on both: what hosts cost in time this does not tell.")
    return " ".join(said)


def _figure_said(costs: Costs, connected: Sequence[Group]) -> str:
    if len(connected) > 1:
        told = "; ".join(", ".join(group.hosts) for group in connected)
        return (
            f"Host classes without shared work are not comparable ({costs.figure.name}): {told}. "
            "Run one and the same workload (proofcost bench calibration) on both sides."
        )
    model, interaction = connected[0].model, connected[0].interaction
    assert model is not None
    assert interaction is not None
    told = ", ".join(
        f"{factor.host} {factor.ratio:.3f} times {model.base}" for factor in model.factors if factor.host != model.base
    )
    return f"{costs.figure.name}: {told}; {interaction.finding.value}."


def _classes(classes: Sequence[str], found: Found, done: Sequence[tuple[Costs, list[Group]]]) -> Section:
    body: list[Sequence[Entry]] = []
    for name in classes:
        facts = found.facts.get(name)
        runs = max(sum(host == name for host in costs.hosts) for costs, _ in done)
        what: Entry = Missing("the data hold no description of this host class (hosts/ of its store)")
        body.append([name, what if facts is None else facts.what, found.machines.get(name, 0), runs])
    columns = [
        Column("host_class", "host class", None, "host class"),
        Column("is", "what it is"),
        Column("machines", "machines", "count"),
        Column("runs", "runs", "count"),
    ]
    return Section("Host classes", [Table("host_classes", "Host classes", columns, body)] if body else [])


class Matter(Enum):
    """Whether two host classes differ in a cost."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "not known"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two host classes in one figure."""

    figure: Metric
    ratio: Estimate
    """The second class over the first, on what connects them."""
    matter: Matter
    why: str


def pairs(one: str, other: str, done: Sequence[tuple[Costs, list[Group]]]) -> list[Pair]:
    """Two classes in every figure in which a chain of shared work connects them."""
    made = []
    for costs, connected in done:
        group = next((group for group in connected if one in group.hosts and other in group.hosts), None)
        if group is not None:
            made.append(_pair(costs.figure, fit_hosts(group.data, base=one).factor(other)))
    return made


def _pair(figure: Metric, factor: HostFactor) -> Pair:
    ratio = Estimate(factor.ratio, factor.low, factor.high, 0.95)
    if factor.low is None or factor.high is None:
        return Pair(figure, ratio, Matter.UNKNOWN, f"{LEAST_CLUSTERS} subjects on both are needed for an interval")
    bound = math.log1p(figure.delta)
    low, high = math.log(factor.low), math.log(factor.high)
    if low > bound or high < -bound:
        return Pair(figure, ratio, Matter.YES, f"more than {figure.delta:.1%}")
    if low >= -bound and high <= bound:
        return Pair(figure, ratio, Matter.NO, f"within {figure.delta:.1%}")
    return Pair(figure, ratio, Matter.UNKNOWN, "the interval is too wide")


def matters(found: Sequence[Pair]) -> str:
    """Over all figures: one that differs is enough for yes, no needs all of them."""
    if not found:
        return "not comparable: they share no work"
    for matter in (Matter.YES, Matter.UNKNOWN, Matter.NO):
        names = [pair.figure.name for pair in found if pair.matter is matter]
        if names:
            return f"{matter.value}: {', '.join(names)}"
    raise AssertionError(found)


def _differences(classes: Sequence[str], found: Found, done: Sequence[tuple[Costs, list[Group]]]) -> Section:
    ratios: list[Sequence[Entry]] = []
    parts: list[Sequence[Entry]] = []
    marked: tuple[dict[int, str], dict[int, str]] = ({}, {})
    text = []
    if len(classes) > CLASSES_MOST:
        text.append(f"The first {CLASSES_MOST} of {len(classes)} host classes are set against each other.")
    for one, other in itertools.combinations(classes[:CLASSES_MOST], 2):
        known = pairs(one, other, done)
        said = matters(known)
        if not known:
            missing = Missing("no work ran on both, and no chain of shared works connects them")
            ratios.append([one, other, missing, missing, said])
        for pair in known:
            if pair.matter is Matter.YES:
                marked[0][len(ratios)] = "bad"
            ratios.append([one, other, pair.figure.name, pair.ratio, f"{pair.matter.value}: {pair.why}"])
        a, b = found.facts.get(one), found.facts.get(other)
        if a is None or b is None:
            unknown = Missing("the data hold no description of both")
            parts.append([one, other, unknown, unknown, unknown, unknown, said])
            continue
        for part in differences(a, b) or [("nothing that is known", "", "", "")]:
            if said.startswith(Matter.YES.value):
                marked[1][len(parts)] = "bad"
            parts.append([one, other, *part, said])
    both = [Column("one", "one"), Column("other", "other")]
    columns = [
        *both,
        Column("figure", "figure"),
        Column("ratio", "cost of the other", "ratio", "host factor"),
        Column("matters", "does it matter"),
    ]
    blocks = [Table("host_pairs", "Does the host matter", columns, ratios, lead=LEAD, marked=marked[0])]
    columns = [
        *both,
        Column("part", "differs in"),
        Column("kind", "which is", None, "declarable"),
        Column("of_one", "of the one"),
        Column("of_other", "of the other"),
        Column("matters", "does the host matter"),
    ]
    notes = ["which part of a difference is to blame no figure tells: all parts of a pair share its costs"]
    blocks.append(Table("host_differences", "What differs", columns, parts, notes, LEAD, marked[1]))
    return Section("What differs between host classes, and whether it matters", blocks, text)


def _section(costs: Costs, connected: list[Group]) -> Section:
    figure = costs.figure
    blocks: list[Table | Picture] = []
    text = []
    if len(connected) > 1:
        body: list[Sequence[Entry]] = []
        for group in connected:
            works = set(zip(group.costs.subjects, group.costs.kernels, strict=True))
            body.append([", ".join(group.hosts), len(group.costs.costs), len(works)])
        columns = [Column("hosts", "host classes"), Column("runs", "runs", "count"), Column("cells", "works", "count")]
        notes = ["between lines nothing is comparable: run one workload on both"]
        key = f"connected_{metric_key(figure)}"
        blocks.append(Table(key, "Which host classes share work", columns, body, notes))
    for group in connected:
        if group.model is None or group.interaction is None:
            continue
        blocks += _factors(group)
        table = _own_factors(group)
        if table is not None:
            blocks.append(table)
        text.append(f"{', '.join(group.hosts)}: {_interaction_said(group.interaction)}.")
        blocks.append(_works(group))
    return Section(f"{figure.name}", blocks, text)


def _interaction_said(interaction: Interaction) -> str:
    p = "" if interaction.p is None else f" (least p {interaction.p:.2g}, corrected for their number)"
    return interaction.finding.value + p


def _suffix(group: Group) -> str:
    """Tells this group's tables from those of others of the same figure."""
    return metric_key(group.costs.figure) + "_" + group.hosts[0]


def _factors(group: Group) -> list[Table | Picture]:
    model, figure = group.model, group.costs.figure
    assert model is not None
    own = group.interaction is not None and group.interaction.finding is InteractionFinding.PRESENT
    body: list[Sequence[Entry]] = []
    for factor in model.factors:
        ratio: Entry = Estimate(factor.ratio, factor.low, factor.high, model.confidence)
        if factor.host == model.base:
            ratio = 1.0
        elif own:
            ratio = Missing("kernels differ in what this host costs them: see each kernel's own factor")
        body.append([factor.host, ratio, factor.cells])
    columns = [
        Column("host_class", "host class", None, "host class"),
        Column("factor", f"cost to {model.base}", "ratio", "host factor"),
        Column("cells", "shared works", "count"),
    ]
    notes = [f"from {plural(model.rows, 'run')} of works on more than one class, {plural(model.clusters, 'subject')}"]
    if model.residual is not None:
        notes.append(f"what factors do not explain: {model.residual:.2%} of a run's cost")
    if model.clusters < LEAST_CLUSTERS:
        notes.append(f"no interval: {LEAST_CLUSTERS} subjects on more than one class are needed")
    table = Table(f"factors_{_suffix(group)}", f"Factors: {figure.name}", columns, body, notes=notes)
    if own:
        return [table]
    effects = [
        charts.Effect(one.host, Estimate(one.ratio, one.low, one.high, model.confidence))
        for one in model.factors
        if one.host != model.base
    ]
    picture = Picture(
        f"factors_{_suffix(group)}",
        f"What does a host class cost against {model.base}? {figure.name}",
        f"Cost to {model.base}: " + "; ".join(f"{one.name} {one.ratio.value:.3f}" for one in effects) + ".",
        lambda canvas: charts.forest(canvas.subplots(), effects, figure.delta, f"cost to {model.base}"),
        height=1.8 + 0.4 * len(effects),
    )
    return [table, picture]


def _own_factors(group: Group) -> Table | None:
    interaction = group.interaction
    if interaction is None or len({factor.kernel for factor in interaction.factors}) < 2:
        return None
    body: list[Sequence[Entry]] = []
    marked = {}
    for factor in interaction.factors:
        if (
            factor.p is not None
            and factor.p <= 0.05
            and abs(math.log(factor.deviation)) > math.log1p(group.costs.figure.delta)
        ):
            marked[len(body)] = "bad"
        deviation = Estimate(factor.deviation, factor.low, factor.high, 0.95)
        p: Entry = Missing(f"{LEAST_CLUSTERS} subjects are needed") if factor.p is None else factor.p
        body.append([factor.kernel, factor.host, factor.ratio, deviation, p])
    columns = [
        Column("kernel", "kernel"),
        Column("host_class", "host class", None, "host class"),
        Column("factor", "its own factor", "ratio", "host factor"),
        Column("deviation", "to the common one", "ratio", "interaction"),
        Column("p", "p", None, "p"),
    ]
    assert group.model is not None
    return Table(
        f"interaction_{_suffix(group)}", f"Each kernel's own factors to {group.model.base}", columns, body, lead=LEAD,
        notes=["intervals hold for all lines together (Bonferroni)"], marked=marked,
    )  # fmt: skip


def _works(group: Group) -> Table:
    """Raw and normalised side by side, and predictions for hosts that never ran a work."""
    model, interaction = group.model, group.interaction
    assert model is not None
    assert interaction is not None
    own: dict[tuple[str, str], float] = {}
    if interaction.finding is not InteractionFinding.ABSENT:
        own = {(factor.kernel, factor.host): factor.ratio for factor in interaction.factors}
    spread = 0.0 if interaction.finding is InteractionFinding.ABSENT else interaction.spread
    use_own = interaction.finding is InteractionFinding.PRESENT
    runs: dict[tuple[str, str], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    part = group.costs
    for cost, subject, kernel, host in zip(part.costs, part.subjects, part.kernels, part.hosts, strict=True):
        runs[subject, kernel][host].append(cost)
    body: list[Sequence[Entry]] = []
    for (subject, kernel), by_host in sorted(runs.items()):
        for host in group.hosts:
            values = by_host.get(host)
            if values is None:
                there = predict_cost(model, dict(by_host), host, spread)
                predicted = Estimate(there.cost, there.low, there.high, model.confidence)
                missing = Missing("never ran there")
                body.append([subject, kernel, host, 0, missing, missing, predicted])
                continue
            raw = median(values)
            factor: float | None = model.factor(host).ratio
            if use_own and host != model.base:
                factor = own.get((kernel, host))
            normalised: Entry = (
                Missing("this kernel's own runs do not connect that host to the base")
                if factor is None
                else raw / factor
            )
            body.append([subject, kernel, host, len(values), raw, normalised, ""])
    cut = body[:ROWS_MOST]
    columns = [
        Column("subject", "subject"),
        Column("kernel", "kernel"),
        Column("host_class", "host class", None, "host class"),
        Column("runs", "runs", "count"),
        Column("raw", "measured", part.figure.unit),
        Column("normalised", f"as on {model.base}", part.figure.unit, "normalised"),
        Column("predicted", "expected there", part.figure.unit, "predicted"),
    ]
    notes = [
        "measured: median; expected there: where a single run would lie, from where the work did run and the factors",
    ]
    if len(body) > len(cut):
        notes.append(f"the first {ROWS_MOST} of {len(body)} lines")
    return Table(f"works_{_suffix(group)}", f"Measured and normalised: {part.figure.name}", columns, cut, notes, LEAD)


def _ipc(ipc: Mapping[tuple[str, str], float]) -> Section:
    body: list[Sequence[Entry]] = [[kernel, host, ratio] for (kernel, host), ratio in sorted(ipc.items())]
    columns = [
        Column("kernel", "kernel"),
        Column("host_class", "host class", None, "host class"),
        Column("ipc", "instructions per cycle", "ratio", "instructions per cycle"),
    ]
    table = Table(
        "ipc", "Instructions per cycle", columns, body, lead=LEAD,
        notes=["median over works, in user mode; instructions travel better between hosts than seconds"],
    )  # fmt: skip
    return Section("Instructions per cycle", [table])
