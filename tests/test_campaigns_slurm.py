"""A campaign on a real Slurm: Debian's slurmctld and two slurmd on this machine, as two nodes."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from campaigning import TURNS, Cluster, check_whole, kill, runner_of, wait_until
from conftest import missing
from slurming import Slurm, lacking

from proofcost.bench_suites import homes

pytestmark = pytest.mark.heavy


@pytest.fixture(scope="module")
def slurm(as_root_all: None) -> Iterator[Slurm]:
    if lacks := lacking():
        missing(f"Slurm ({', '.join(lacks)}; Debian: slurm-wlm, munge)")
    with tempfile.TemporaryDirectory(prefix="proofcost-slurm-", ignore_cleanup_errors=True) as folder:
        made = Slurm(Path(folder))
        try:
            made.start()
            yield made
        finally:
            made.end()


@pytest.fixture(scope="module")
def as_root_all() -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root")


@pytest.fixture
def cluster(slurm: Slurm, tmp_path: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path, slurm.env)
    yield made
    if (made.campaign / "campaign.json").exists():
        slurm.call("scancel", "-n", f"proofcost-{made.file()['id']}")
    made.held.unlink(missing_ok=True)
    wait_until(lambda: not slurm.call("squeue", "-h"), "jobs are left")


def test_jobs_killed_in_the_middle_are_told_resumed_where_they_began_and_collected_whole(
    slurm: Slurm, cluster: Cluster
) -> None:
    submitted = cluster.submit("slurm", "--shards", 4, "--constraint", "classA", "--partition", "main")
    assert submitted.status == 0, submitted.stderr
    (job,) = [one["job"] for one in cluster.file()["submissions"]]
    assert f"submitted: Slurm job {job}, shards 1-4" in submitted.stdout
    cluster.hold_in_the_middle(1, 2)
    nodes = {number: cluster.note(number)["node"] for number in (1, 2)}
    assert set(nodes.values()) == {"n1", "n2"}, "exclusive nodes"
    assert cluster.states() == {1: "running", 2: "running", 3: "waiting", 4: "waiting"}

    slurm.call("scancel", f"{job}_1", f"{job}_3")
    runner = runner_of(2, cluster.campaign)
    assert runner is not None
    kill(runner)
    cluster.held.unlink()
    wait_until(lambda: cluster.states()[4] == "done", "the shard that nobody touched")
    assert cluster.states() == {1: "failed", 2: "never returned", 3: "never returned", 4: "done"}
    told = cluster.do("status")
    assert told.status == 1
    lines = told.stdout.splitlines()
    assert f"{nodes[1]}; interrupted" in lines[1]
    assert "Slurm says" in lines[2]
    assert f"{nodes[2]}; began" in lines[2]
    assert "it has never begun; Slurm knows nothing of it any more" in lines[3]
    assert lines[-1].startswith("3 shards to be resumed: proofcost campaign resume ")
    refused = cluster.do("collect")
    assert refused.status == 1
    assert [line.partition(":")[0] for line in refused.stdout.splitlines()[:3]] == [
        "shard 1/4",
        "shard 2/4",
        "shard 3/4",
    ]
    assert not (cluster.campaign / "collected").exists()

    done = [record.invocation for record in cluster.records(4)]
    begun = {record.invocation for record in cluster.records(1) if record.finished is not None}
    resumed = cluster.do("resume")
    assert resumed.status == 0, resumed.stderr
    wait_until(lambda: set(cluster.states().values()) == {"done"}, "the rest")
    assert {number: cluster.note(number)["node"] for number in (1, 2)} == nodes, "each back on its node"
    assert [record.invocation for record in cluster.records(4)] == done, "what was done is not run again"
    assert begun <= {record.invocation for record in cluster.records(1)}
    assert len(cluster.records(3)) == TURNS
    again = cluster.do("resume")
    assert (again.status, again.stdout) == (0, "nothing to resume: 4 done, 0 at work or waiting\n")

    collected = cluster.do("collect")
    assert collected.status == 0, collected.stdout
    records = cluster.collected()
    check_whole(records)
    assert len({record.started["host"]["instance"] for record in records}) == 1, "one machine is one host instance"
    by_node = Counter(homes.home_of(record) for record in records)
    assert set(by_node) == {"n1", "n2"}
    compared = cluster.call("compare", "--data", cluster.campaign / "collected", "a", "b")
    assert compared.status == 0, compared.stderr
    assert "4 cases compared" in compared.stdout
    assert "design: paired blocks" in compared.stdout


def test_a_node_that_is_gone_hands_its_shard_on_and_the_torn_block_is_run_again(slurm: Slurm, cluster: Cluster) -> None:
    assert cluster.submit("slurm", "--shards", 1, families=("church:8",)).status == 0
    cluster.hold_in_the_middle(1, records=8)  # the second block is torn
    node = cluster.note(1)["node"]
    other = {"n1": "n2", "n2": "n1"}[node]
    runner = runner_of(1, cluster.campaign)
    assert runner is not None
    kill(runner)
    slurm.call("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
    try:
        cluster.held.unlink()
        wait_until(lambda: cluster.states()[1] == "never returned", "status does not tell")
        resumed = cluster.do("resume")
        assert f"shard 1 began on {node}, which takes nothing now: it goes on elsewhere" in resumed.stdout
        wait_until(lambda: cluster.states()[1] == "done", "it does not go on")
    finally:
        slurm.call("scontrol", "update", f"NodeName={node}", "State=RESUME")
    assert cluster.note(1)["node"] == other
    collected = cluster.do("collect")
    assert collected.status == 0
    check_whole(cluster.collected(), works=1)
    assert {homes.home_of(record) for record in cluster.collected()} == {"n1", "n2"}, (
        "whole blocks stay where they were"
    )


def test_a_shard_whose_node_slurm_has_given_up_is_running_as_long_as_it_runs(slurm: Slurm, cluster: Cluster) -> None:
    """A slurmd that dies leaves what it started behind; Slurm calls the node down and the job failed."""
    assert cluster.submit("slurm", "--shards", 1, families=("church:8",)).status == 0
    cluster.hold_in_the_middle(1)
    node = cluster.note(1)["node"]
    daemon = slurm.processes.pop(node)
    daemon.kill()
    daemon.wait()
    try:
        wait_until(
            lambda: "NODE_FAIL" in slurm.call("squeue", "-h", "-t", "all", "-o", "%T"), "Slurm waits for the node"
        )
        assert cluster.states() == {1: "running"}
        assert cluster.do("resume").stdout == "nothing to resume: 0 done, 1 at work or waiting\n"
        cluster.held.unlink()
        wait_until(lambda: cluster.states() == {1: "done"}, "it does not come to its end")
    finally:
        slurm.start_node(node)
        slurm.wait_for_nodes(2)
    assert cluster.do("collect").status == 0
    check_whole(cluster.collected(), works=1)


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (
            ("--constraint", "no-such-class"),
            "Slurm refuses: sbatch: error: Batch job submission failed: Invalid feature",
        ),
        (("--partition", "nowhere"), "Slurm refuses: sbatch: error: invalid partition specified: nowhere"),
    ],
)
def test_what_slurm_refuses_is_passed_on_in_one_line_and_leaves_nothing(
    cluster: Cluster, words: tuple[str, str], line: str
) -> None:
    refused = cluster.submit("slurm", *words)
    assert refused.status == 2
    assert line in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not cluster.campaign.exists()


def test_a_controller_that_does_not_answer_is_one_line(slurm: Slurm, cluster: Cluster, tmp_path: Path) -> None:
    conf = (slurm.folder / "slurm.conf").read_text()
    lines = ["SlurmctldPort=1" if line.startswith("SlurmctldPort") else line for line in conf.splitlines()]
    (tmp_path / "slurm.conf").write_text("\n".join(lines) + "\n")
    lost = Cluster(tmp_path, {"SLURM_CONF": str(tmp_path / "slurm.conf")})
    refused = lost.submit("slurm", families=("church:8",))
    assert refused.status == 2
    assert "Unable to contact slurm controller" in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not lost.campaign.exists()


def test_paths_with_blanks_quotes_and_line_ends_reach_the_nodes(slurm: Slurm, tmp_path: Path) -> None:
    folder = tmp_path / "a b'c\"d\n$(e) %a"
    folder.mkdir()
    odd = Cluster(folder, slurm.env)
    submitted = odd.submit("slurm", families=("church:8",))
    assert submitted.status == 0, submitted.stderr
    wait_until(lambda: odd.states() == {1: "done"}, odd.do("status").stdout)
    assert odd.do("collect").status == 0
    check_whole(odd.collected(), works=1)
