"""C3: how many sandboxes one host takes, what stops there being more, and what a verdict then costs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from proofcost.reports.plan import words
from proofcost.reports.plan.asked import Asked, Host, Sandbox
from proofcost.reports.plan.evidence import ImpossibleError, PlanError
from proofcost.reports.plan.jobs import Verdicts
from proofcost.reports.plan.limits import Choice
from proofcost.reports.plan.profiles import Profiles
from proofcost.reports.plan.trials import Trials
from proofcost.reports.statistics.contention import Binding, Concurrency, Contention, concurrency
from proofcost.reports.statistics.peak_of_sums import LEAST_RUNS, Overcommit, profile_risk, room_for
from proofcost.reports.statistics.survival import Bounded
from proofcost.reports.units import human

SHOWN_RISK = 0.001
"""Of the peak of sums where no risk was asked for: shown beside the sum of limits, not recommended."""


MOST_ADDED = 1024
"""Sandboxes whose peaks are added up: each takes a hundred thousand draws."""


@dataclass(frozen=True, slots=True)
class Given:
    """What one sandbox is given, and where each part comes from."""

    cores: float
    memory_bytes: float | None
    time_ns: float | None
    disk_bytes: float | None
    sources: tuple[tuple[str, str], ...]
    """(what, why so much)."""


def given(sandbox: Sandbox, verdicts: Verdicts, memory: Choice, time: Choice, disk: Choice) -> Given:
    """What was settled, else what the records ask for."""
    if sandbox.cores is not None:
        cores, why = sandbox.cores, "as given"
    elif verdicts.threads is not None:
        cores, why = float(verdicts.threads), "threads of the kernels in the records"
    else:
        cores, why = 1.0, "no record tells threads: one is assumed"
    parts = [("cores", why)]
    amounts: list[float | None] = []
    for what, fixed, one in (
        ("memory", sandbox.memory_bytes, memory),
        ("time", sandbox.time_ns, time),
        ("disk", sandbox.disk_bytes, disk),
    ):
        amounts.append(fixed if fixed is not None else one.set_to)
        if fixed is not None:
            parts.append((what, "as given"))
        else:
            parts.append((what, one.why_not or f"exceeded by at most {words.percent(one.limit.target)} of submissions"))
    return Given(cores, amounts[0], amounts[1], amounts[2], tuple(parts))


def refuse_useless(asked: Asked, verdicts: Verdicts) -> None:
    """Raise ImpossibleError for a limit, as given, below the least that any verdict took: it would stop every one."""
    for what, amount, seen, size, so_much in (
        ("memory", asked.sandbox.memory_bytes, verdicts.memory_bytes, "size", words.size),
        ("time", asked.sandbox.time_ns, verdicts.wall_ns, None, words.span_ns),
    ):
        known = seen[np.isfinite(seen)]
        if amount is None or not known.size or amount >= known.min():
            continue
        keys = [f"sandbox.{one}" for one in (what, size) if one]
        how = next((asked.said[key] for key in keys if key in asked.said), keys[0])
        raise ImpossibleError(
            f"{how}: {so_much(amount)} of {what} stops every verdict: the least that any of {known.size} took is "
            f"{so_much(float(known.min()))}; give more, or none and take what is recommended"
        )


@dataclass(frozen=True, slots=True)
class Stopped:
    """What limits that were given would do to the verdicts that were seen: shares of those of which it is known."""

    memory: float | None
    time: float | None
    """None where no such limit was given, or no verdict tells."""
    any: float


def stopped_by(asked: Sandbox, verdicts: Verdicts) -> Stopped:
    """Surely: a verdict that was cut short below the limit may or may not have needed more, and does not count."""
    amounts = (
        (asked.memory_bytes, verdicts.memory_bytes, verdicts.memory_cut),
        (asked.time_ns, verdicts.wall_ns, verdicts.late),
    )
    over = []
    for limit, seen, cut in amounts:
        with np.errstate(invalid="ignore"):
            over.append(None if limit is None else (seen > limit) | (cut & (seen >= limit)))
    shares = [
        None if one is None or not np.isfinite(seen).any() else float(one.sum() / np.isfinite(seen).sum())
        for one, (_, seen, _) in zip(over, amounts, strict=True)
    ]
    together = [one for one in over if one is not None]
    either = float(np.any(together, axis=0).mean()) if together and verdicts.count else 0.0
    return Stopped(shares[0], shares[1], either)


@dataclass(frozen=True, slots=True)
class Service:
    """What one verdict takes of a sandbox, s; shape (n,), row by row as the verdicts."""

    seconds: np.ndarray
    memory_bytes: np.ndarray
    """Peak of each, cut at the limit; NaN where not known."""
    moved_bytes: np.ndarray
    """Export of each; NaN where not known."""
    overhead_s: float
    """Boot and library, in `seconds` already."""
    solved: float
    """Share of verdicts that neither limit stops, as the records have it."""
    said: tuple[str, ...]


def service(verdicts: Verdicts, sandbox: Given, asked: Sandbox, host: Host) -> Service:
    """With the time limit in force: who runs longer takes as long as that."""
    said = []
    wall = verdicts.wall_ns.copy()
    over_time = np.zeros(wall.size, dtype=bool)
    if sandbox.time_ns is not None:
        wall = np.where(verdicts.late, np.maximum(wall, sandbox.time_ns), wall)
        over_time = (wall > sandbox.time_ns) | verdicts.late
        wall = np.minimum(wall, sandbox.time_ns)
    elif verdicts.late.any():
        over_time = verdicts.late
        said.append(f"{int(verdicts.late.sum())} verdicts were stopped by time: they count as long as they had taken")
    over_memory = np.zeros(wall.size, dtype=bool)
    if sandbox.memory_bytes is not None:
        peak = verdicts.memory_bytes
        with np.errstate(invalid="ignore"):
            over_memory = (peak > sandbox.memory_bytes) | (verdicts.memory_cut & (peak >= sandbox.memory_bytes))
    overhead = sum(x for x in (asked.boot_ns, asked.library_ns) if x is not None) / 1e9
    seconds = wall / 1e9 + overhead
    moved = verdicts.size_bytes
    rates = [rate for rate in (host.disk_per_s, host.network_per_s) if rate]
    if rates:
        unknown = int(np.isnan(moved).sum())
        seconds = seconds + sum(np.nan_to_num(moved) / rate for rate in rates)
        if unknown:
            said.append(f"{unknown} of {moved.size} exports have no known size: moving them is not counted")
    memory = verdicts.memory_bytes
    if sandbox.memory_bytes is not None:
        memory = np.minimum(memory, sandbox.memory_bytes)
    return Service(
        seconds, memory, moved, overhead, 1 - float((over_time | over_memory).mean()) if wall.size else 0.0, tuple(said)
    )


SIMULATED_MOST = 100_000
"""Runs times sandboxes that are laid over each other: some seconds."""


@dataclass(frozen=True, slots=True)
class OverTime:
    """What time profiles say of sandboxes side by side: each peaks when its runs did, not all at once."""

    count: int
    """Sandboxes: those of the peak of sums, else those of the limits."""
    profiles: int
    low: float
    estimated: float
    high: float
    """Chance that a verdict sees the host run out of memory, with the simulation's interval (95 %)."""


def over_time(found: Profiles | None, limit_bytes: float, count: int, room: float, seed: int) -> OverTime | None:
    """None without profiles, or where nobody runs beside another."""
    if found is None or count < 2:
        return None
    cut = [np.minimum(one, limit_bytes) for one in found.memory_bytes]
    runs = max(200, min(4000, SIMULATED_MOST // count))
    risk = profile_risk(cut, count, room, runs=runs, seed=seed)
    return None if risk is None else OverTime(count, len(cut), *risk)


@dataclass(frozen=True, slots=True)
class HostPlan:
    host: Host
    sandbox: Given
    concurrency: Concurrency
    guaranteed: int
    """Sandboxes whose limits fit together."""
    overcommit: Overcommit | None
    """By the peak of sums, up to twice what the cores allow; None where `no_overcommit` says why, or nobody asked."""
    no_overcommit: str
    risk: float
    """Of the target of `overcommit`."""
    over_time: OverTime | None
    own_kills: Bounded
    """Share of verdicts that need more memory than their own limit, whatever else runs."""
    fit: Contention | None
    """The least favourable that was measured."""
    trials: tuple[Trials, ...]
    beyond_trials: bool
    """More side by side than was ever measured."""
    efficiency: float
    """Of a sandbox at this many; 1 where contention was never measured."""
    service_s: float
    """Mean of one verdict, contention included."""
    overhead_s: float
    """Boot and library, as given; in `service_s`."""
    per_hour: float
    """Verdicts, solved or not, with every sandbox busy."""
    solved: float

    @property
    def count(self) -> int:
        return self.concurrency.count

    @property
    def cost_per_1000(self) -> float | None:
        """Of 1,000 solved ones, with every sandbox always busy: no fleet does better."""
        if self.host.price is None or not self.solved or not self.per_hour:
            return None
        return self.host.price.per_hour / (self.per_hour * self.solved) * 1000


def plan_host(
    asked: Asked,
    host: Host,
    sandbox: Given,
    memory: Choice,
    work: Service,
    found: tuple[Trials, ...],
    both_ways: bool = True,
    profiles: Profiles | None = None,
) -> HostPlan | None:
    """None where no memory limit is known. `both_ways`: peaks are added up though limits decide. `profiles`: laid over
    each other beside that. Raises PlanError for a host that is smaller than any verdict."""
    if sandbox.memory_bytes is None:
        return None
    room = host.memory_bytes - host.reserve_bytes
    _fits(asked, host, sandbox, memory, room)
    caps = {Binding.CORES: int((host.cores + 1e-9) // sandbox.cores)}
    fits = [(one.fit, one) for one in found if one.fit is not None]
    fit = min(fits, key=lambda one: (one[0].most_at(host.efficiency), -one[0].measured_upto))[0] if fits else None
    if fit is not None and fit.most_at(host.efficiency) < fit.measured_upto:
        caps[Binding.EFFICIENCY] = fit.most_at(host.efficiency)
    if host.disk_bytes is not None and sandbox.disk_bytes is not None:
        caps[Binding.DISK] = int(host.disk_bytes // sandbox.disk_bytes)
    if host.network_per_s and np.isfinite(work.moved_bytes).any():
        each = float(np.nanmean(work.moved_bytes)) / float(work.seconds.mean())
        caps[Binding.NETWORK] = max(1, int(host.network_per_s // each))
    guaranteed = int(room // sandbox.memory_bytes)
    risk = host.risk or SHOWN_RISK
    overcommit, no_overcommit = None, "fewer than 20 runs"
    most = max(2 * caps[Binding.CORES], 1)
    if guaranteed >= most:
        # Cores bind long before: peaks need not be added up.
        no_overcommit = "limits alone leave room for more than cores can take"
    elif memory.limit.curve.count >= LEAST_RUNS and (both_ways or host.risk is not None):
        too_many = guaranteed >= MOST_ADDED
        if not too_many:
            overcommit = room_for(
                memory.limit.curve,
                host.memory_bytes,
                sandbox.memory_bytes,
                risk,
                reserve_bytes=host.reserve_bytes,
                most=min(most, MOST_ADDED),
                seed=asked.seed,
            )
            too_many = overcommit is not None and overcommit.count == MOST_ADDED < most
        if too_many:
            overcommit, no_overcommit = None, f"not added up beyond {MOST_ADDED} sandboxes"
            if host.risk is not None:
                how = asked.said.get("host.overcommit", "host.overcommit")
                raise PlanError(
                    f"{how}: peaks are added up for {MOST_ADDED} sandboxes a host at most; plan for smaller hosts"
                )
    caps[Binding.MEMORY] = overcommit.count if host.risk is not None and overcommit is not None else guaranteed
    chosen = concurrency(dict(sorted(caps.items(), key=lambda item: list(Binding).index(item[0]))))
    count = max(chosen.count, 1)
    efficiency = 1.0 if fit is None else max(fit.efficiency(count), 1e-6)
    mean = float(work.seconds.mean()) / efficiency
    return HostPlan(
        host=host,
        sandbox=sandbox,
        concurrency=chosen,
        guaranteed=guaranteed,
        overcommit=overcommit,
        no_overcommit=no_overcommit,
        risk=risk,
        over_time=over_time(
            profiles, sandbox.memory_bytes, guaranteed if overcommit is None else overcommit.count, room, asked.seed
        ),
        own_kills=memory.limit.curve.exceedance(sandbox.memory_bytes),
        fit=fit,
        trials=found,
        beyond_trials=fit is not None and count > fit.measured_upto,
        efficiency=efficiency,
        service_s=mean,
        overhead_s=work.overhead_s,
        per_hour=chosen.count * 3600 / mean,
        solved=work.solved,
    )


def _fits(asked: Asked, host: Host, sandbox: Given, memory: Choice, room: int) -> None:
    how = asked.said.get("host.size", "host.size")
    if sandbox.memory_bytes is not None and sandbox.memory_bytes > room:
        peaks = memory.amounts.values
        least = f"; even the smallest verdict seen took {human(int(peaks.min()), 'bytes')}" if peaks.size else ""
        least = least if peaks.size and peaks.min() > room else ""
        raise PlanError(
            f"{how}: a host with {human(room, 'bytes')} for sandboxes is smaller than any: one needs "
            f"{human(int(sandbox.memory_bytes), 'bytes')}{least}; take a larger host, or a larger share of kills "
            "(limits.oom)"
        )
    if sandbox.cores > host.cores + 1e-9:
        raise PlanError(f"{how}: {host.cores:g} cores are fewer than one sandbox needs: {sandbox.cores:g}")
    if host.disk_bytes is not None and sandbox.disk_bytes is not None and sandbox.disk_bytes > host.disk_bytes:
        raise PlanError(
            f"{how}: a disk of {human(host.disk_bytes, 'bytes')} is smaller than one sandbox needs: "
            f"{human(int(sandbox.disk_bytes), 'bytes')}"
        )
