"""How fast a fleet is simulated: 100,000 verdicts in at most 3 s. Part of `make bench`."""

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from proofcost.reports.statistics import arrivals
from proofcost.reports.statistics.fleet import Discipline, Fleet, simulate
from proofcost.reports.statistics.jobs import Jobs

VERDICTS = 100_000
MOST_S = 3.0


@pytest.mark.parametrize("discipline", list(Discipline), ids=lambda one: one.name.lower())
@pytest.mark.parametrize("hosts", [3, 100])
def test_simulation(benchmark: BenchmarkFixture, hosts: int, discipline: Discipline) -> None:
    random = np.random.default_rng(1)
    services = random.lognormal(0, 1, VERDICTS)
    services *= 0.9 * hosts * 16 / services.mean()
    jobs = Jobs(
        arrivals.constant(1.0, VERDICTS, random),
        services,
        random.uniform(2e9, 16e9, VERDICTS),
        random.choice([1.0, 2.0, 4.0], VERDICTS),
    )
    fleet = Fleet(hosts, 256e9, 64, 16, discipline)
    done = benchmark.pedantic(simulate, (jobs, fleet), rounds=3)  # type: ignore[no-untyped-call]
    assert done.wait_s.size == VERDICTS
    assert benchmark.stats is not None
    assert benchmark.stats.stats.min <= MOST_S
