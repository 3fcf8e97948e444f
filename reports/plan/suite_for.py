"""The suite file that gets what a plan is missing: something to begin from, that `proofcost bench` takes as it is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from proofcost.reports.inert import inert
from proofcost.reports.statistics.safe_limit import Evidence

if TYPE_CHECKING:
    from proofcost.reports.plan.made import Plan

STAND_IN = ("church", 5000)
"""A generated workload, where no exports were named."""
MOST_AT_ONCE = 1024
FEW = 12
"""Repetitions of trials, and of a limit's runs where exports are many: repetitions say nothing of other submissions."""


def suite_text(
    plan: Plan,
    exports: Sequence[str] = (),
    kernels: Sequence[str] = (),
    generated: Sequence[tuple[str, int, int]] = (),
) -> str:
    """TOML. `exports`: paths of exports to check; `generated`: others, (family, n, seed) each; `kernels`: those of the
    records that `bench` knows by name; none: whatever is installed."""
    short = [one for one in (plan.memory, plan.time) if one.why_not is not None]
    for_contention = plan.host is not None and plan.host.fit is None and not short
    lines = [f"# Made by proofcost plan for the plan {inert(plan.asked.name, 60, True)!r}: what it is missing."]
    lines += [f"# {inert(f'{one.what.value}: {one.why_not}', 200, True)}" for one in short]
    if not exports and not generated:
        lines += [
            '# The workload is a stand-in. Put your own exports here (path = "FOLDER"), or give them to the call:',
            "#     proofcost bench THIS.toml --on EXPORTS",
        ]
        if short:
            floor = max(one.limit.floor for one in short)
            lines.append(
                f"# Limits come from different submissions, {floor} at the least, not from repetitions of one."
            )
    lines += ["", f"name = {json.dumps('contention' if for_contention else 'limits')}", 'order = "random"']
    if for_contention:
        at_once = ladder(int(plan.asked.host.cores) if plan.asked.host is not None else 8)
        lines += ['report = "contention"', f"repetitions = {FEW}", "warmups = 1", f"co_running = {at_once}"]
    else:
        lines += ["repetitions = 1", "warmups = 0"]
    if not kernels:
        lines.append('kernels = "installed"')
    lines += ["", "[limits]", f"wall = {json.dumps(_wall(plan))}"]
    memory = _memory(plan)
    if memory is not None:
        lines.append(f"memory = {json.dumps(memory)}")
    for name in kernels:
        lines += ["", "[[kernel]]", f"use = {json.dumps(name)}"]
    for path in exports:
        lines += ["", "[[workload]]", f"path = {json.dumps(path)}"]
    for family, n, seed in generated:
        lines += ["", "[[workload]]", f"family = {json.dumps(family)}", f"n = [{n}]"]
        lines += [f"seed = {seed}"] if seed else []
    if not exports and not generated:
        family, n = STAND_IN
        lines += ["", "[[workload]]", f"family = {json.dumps(family)}", f"n = [{n}]"]
    return "\n".join(lines) + "\n"


def ladder(cores: int) -> list[int]:
    """1, 2, 4, ... up to and with the number of cores; at least three of them, since the law has three parameters."""
    found = [1]
    while found[-1] * 2 < min(cores, MOST_AT_ONCE):
        found.append(found[-1] * 2)
    if cores > found[-1]:
        found.append(min(cores, MOST_AT_ONCE))
    while len(found) < 3:
        found.append(found[-1] * 2)
    return found


def _wall(plan: Plan) -> str:
    """Four times what any took: runs that are stopped again would tell nothing new."""
    times = plan.time.amounts.values
    seconds = max(60, int(4 * float(times.max()) / 1e9) + 1) if times.size else 3600
    return f"{seconds}s"


def _memory(plan: Plan) -> str | None:
    """Twice the largest, where some were stopped for it."""
    if plan.memory.limit.evidence is not Evidence.CENSORED or not plan.memory.amounts.values.size:
        return None
    return str(2 * int(plan.memory.amounts.values.max()))
