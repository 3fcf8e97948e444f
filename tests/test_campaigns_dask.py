"""A campaign on a real Dask cluster: a scheduler and two workers, each a process, each taken for a host of its own."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from campaigning import TURNS, Cluster, check_whole, runner_of, wait_until

LEFT = ("failed", "never returned")
"""A runner whose worker is killed is told to end; how far it comes with telling so is the machine's business."""

pytestmark = pytest.mark.heavy


@dataclass
class Dask:
    """A scheduler; `hosts`: {address of a loopback host: its worker}."""

    folder: Path
    address: str
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    hosts: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, *words: object) -> subprocess.Popen[bytes]:
        with (self.folder / f"dask-{len(self.processes)}.out").open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "distributed.cli.dask_" + str(words[0]), *map(str, words[1:])],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        self.processes.append(process)
        return process

    def worker(self, host: str, *more: str, slot: bool = True) -> None:
        slots = ("--resources", "proofcost=1") if slot else ()
        scratch = self.folder / f"worker-{len(self.processes)}"
        self.hosts[host] = self.start(
            *("worker", self.address, "--host", host, "--nthreads", 1, "--no-nanny", "--no-dashboard"),
            *("--local-directory", scratch, *slots, *more),
        )
        self.wait_for(len(self.hosts))

    def wait_for(self, workers: int) -> None:
        from distributed import Client

        client = Client(self.address, timeout=60, set_as_default=False)  # type: ignore[no-untyped-call]
        wait_until(lambda: len(client.scheduler_info(n_workers=-1)["workers"]) == workers, f"{workers} workers")
        client.close()  # type: ignore[no-untyped-call]

    def kill(self, host: str) -> None:
        process = self.hosts.pop(host)
        process.kill()
        process.wait()

    def end(self) -> None:
        for process in reversed(self.processes):
            process.kill()
            process.wait()


@pytest.fixture
def dask(tmp_path: Path) -> Iterator[Callable[[], Dask]]:
    made: list[Dask] = []

    def start() -> Dask:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        one = Dask(tmp_path, f"tcp://127.0.0.1:{port}")
        made.append(one)
        one.start("scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard")
        return one

    yield start
    for one in made:
        one.end()


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def test_a_worker_killed_in_the_middle_costs_its_blocks_and_nothing_else(
    dask: Callable[[], Dask], cluster: Cluster
) -> None:
    here = dask()
    here.worker("127.0.0.1")
    here.worker("127.0.0.2")
    submitted = cluster.submit("dask", "--scheduler", here.address, "--shards", 2)
    assert submitted.status == 0, submitted.stderr
    assert "submitted: shards 1-2 to tcp://" in submitted.stdout
    cluster.hold_in_the_middle(1, 2)
    nodes = {number: cluster.note(number)["node"] for number in (1, 2)}
    assert set(nodes.values()) == {"127.0.0.1", "127.0.0.2"}, "one slot a host"
    assert set(cluster.states().values()) == {"running"}
    here.kill(nodes[1])
    wait_until(lambda: runner_of(1, cluster.campaign) is None, "the runner outlives its worker")
    cluster.held.unlink()
    wait_until(lambda: cluster.states()[2] == "done", "the other shard goes on to its end")
    # The scheduler has sent the lost task to the worker that is left: the runner does not take it there.
    wait_until(lambda: "began on" in (cluster.campaign / "told" / "1.out").read_text(), "the task was not sent on")
    wait_until(lambda: cluster.states()[1] in LEFT, "status does not tell")
    before = [record.invocation for record in cluster.records(2)]
    assert cluster.do("collect").status == 1, "what is missing is not collected"
    here.worker(nodes[1])
    resumed = cluster.do("resume")
    assert (resumed.status, resumed.stdout) == (0, f"submitted: shard 1 to {here.address}\n"), resumed.stderr
    wait_until(lambda: set(cluster.states().values()) == {"done"}, "it is not resumed to its end")
    assert cluster.note(1)["node"] == nodes[1], "it went back to the host that it began on"
    assert [record.invocation for record in cluster.records(2)] == before, "what was done is not run again"
    collected = cluster.do("collect")
    assert collected.status == 0, collected.stdout
    check_whole(cluster.collected())


def test_a_host_that_is_gone_for_good_hands_its_shard_on_and_no_block_is_torn(
    dask: Callable[[], Dask], cluster: Cluster
) -> None:
    here = dask()
    here.worker("127.0.0.1")
    assert cluster.submit("dask", "--scheduler", here.address, "--shards", 1, families=("church:8",)).status == 0
    cluster.hold_in_the_middle(1, records=8)  # the second block is torn
    here.kill("127.0.0.1")
    wait_until(lambda: cluster.states()[1] in LEFT, "status does not tell")
    cluster.held.unlink()
    here.worker("127.0.0.3")
    resumed = cluster.do("resume")
    assert "shard 1 began on 127.0.0.1, where there is no slot now: it goes on elsewhere" in resumed.stdout
    wait_until(lambda: cluster.states()[1] == "done", "it does not go on")
    assert cluster.do("collect").status == 0
    records = cluster.collected()
    check_whole(records, works=1)
    assert len(records) == TURNS < len(cluster.records(1))


def test_what_a_dask_cluster_lacks_is_one_line_and_leaves_nothing(dask: Callable[[], Dask], cluster: Cluster) -> None:
    here = dask()
    here.worker("127.0.0.1", slot=False)
    refused = cluster.submit("dask", "--scheduler", here.address)
    assert refused.status == 2
    assert "none of 1 workers offers a slot; start one on each host" in refused.stderr
    here.worker("127.0.0.2")
    here.hosts["the first of two"] = here.hosts.pop("127.0.0.2")
    here.worker("127.0.0.2")
    refused = cluster.submit("dask", "--scheduler", here.address)
    assert refused.status == 2
    assert "host 127.0.0.2 offers more than one slot" in refused.stderr
    assert not cluster.campaign.exists()


def test_a_dask_scheduler_that_is_not_there_is_one_line(cluster: Cluster) -> None:
    refused = cluster.submit("dask", "--scheduler", "tcp://127.0.0.1:1")
    assert refused.status == 2
    assert "--scheduler tcp://127.0.0.1:1: no Dask scheduler answers there" in refused.stderr
    assert refused.stderr.count("\n") == 1, refused.stderr
    assert not cluster.campaign.exists()
