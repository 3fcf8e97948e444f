"""A campaign without a scheduler: its folder, its shards run by hand as pods would, and all that can go wrong there."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from benching import PROOFCOST
from campaigning import TURNS, Cluster, check_whole, runner_of, wait_until
from conftest import find_nanoda
from test_homes import TURNS as PLANNED
from test_homes import done as finished
from test_homes import runs

from proofcost.bench_prepared import check_memory
from proofcost.bench_suites.cluster import done, lock, note
from proofcost.bench_suites.cluster import folder as campaigns
from proofcost.bench_suites.cluster.folder import Campaign, CampaignError, Shard
from proofcost.bench_suites.cluster.note import Note
from proofcost.bench_suites.cluster.states import Said, Seen, State, state_of
from proofcost.bench_suites.series import Limits
from proofcost.campaign_collect import skewed
from proofcost.reports.bench_cells import key_of
from proofcost.run import UsageError

TWO = ("church:8", "many:3")
POD = ("--image", "bench:1", "--pod-memory", "1Gi", "--claim")


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    return Cluster(tmp_path)


def submit(cluster: Cluster, *words: object, families: tuple[str, ...] = TWO) -> None:
    made = cluster.submit("kubernetes", *POD, f"c={cluster.folder}", *words, families=families)
    assert made.status == 0, made.stderr


@contextmanager
def running(cluster: Cluster, number: int, node: str = "x") -> Iterator[subprocess.Popen[bytes]]:
    """A shard's runner, in the middle of it."""
    words = ["-P", "-m", "proofcost", "campaign", "run", str(cluster.campaign), str(number), "--node", node]
    process = subprocess.Popen(
        [sys.executable, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        cluster.hold_in_the_middle(number)
        yield process
    finally:
        cluster.held.unlink(missing_ok=True)
        process.kill()
        process.communicate()


def test_shards_run_as_pods_would_are_told_resumed_and_collected_whole(cluster: Cluster) -> None:
    submit(cluster)
    path = cluster.campaign / "job-1.yaml"
    job = yaml.safe_load(path.read_text())
    assert job["spec"]["completions"] == 2
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["resources"]["limits"]["cpu"] == "2", "a thread, and the runner"
    assert cluster.states() == {1: "waiting", 2: "waiting"}

    first = cluster.do("run", "--submission", 1, "--index", 0, "--node", "x", "--cpus", 4097)
    assert first.status == 0, first.stderr
    assert "not pinned" in first.stderr
    assert {record.started["labels"]["pinned"] for record in cluster.records(1)} == {"no"}
    assert {record.started["labels"]["node"] for record in cluster.records(1)} == {"x"}
    with running(cluster, 2, "y") as process:
        assert cluster.states() == {1: "done", 2: "running"}
        second = cluster.do("run", 2, "--node", "z")
        assert second.status == 2
        assert "shard 2 is being run on y, and that still writes to its store" in second.stderr
        assert cluster.do("collect").status == 1
        process.kill()
        process.communicate()
    wait_until(lambda: runner_of(2, cluster.campaign) is None, "it is dead")
    assert cluster.states() == {1: "done", 2: "never returned"}
    partial = cluster.do("collect", "--partial")
    assert partial.status == 0, partial.stderr
    assert "PARTIAL, 1 of 2 shards missing: " in partial.stdout
    said = json.loads((cluster.campaign / "collected" / "collected.json").read_text())
    assert said["partial"] is True
    assert said["missing"][0].startswith("shard 2/2: ")
    assert TURNS < said["records_count"] < 2 * TURNS

    resumed = cluster.do("resume")
    assert resumed.stdout == f"submit it: kubectl apply -f {cluster.campaign}/job-2.yaml\n", resumed.stderr
    job = yaml.safe_load((cluster.campaign / "job-2.yaml").read_text())
    assert job["spec"]["completions"] == 1, "only what is missing"
    moved = cluster.do("run", "--submission", 2, "--index", 0, "--node", "z")
    assert moved.status == 0, moved.stderr
    assert cluster.note(2)["node"] == "z", "index 0 of the second submission is shard 2"
    done_now = cluster.do("collect")
    assert done_now.status == 0, done_now.stdout
    check_whole(cluster.collected(), works=2)
    assert json.loads((cluster.campaign / "collected" / "collected.json").read_text())["partial"] is False
    assert cluster.call("report", "kernels", cluster.campaign / "collected").status == 0


def test_a_suites_file_means_its_paths_from_wherever_a_shard_is_run(cluster: Cluster) -> None:
    """With our two controls, and nanoda where it is here; a family's sizes stay together."""
    nanoda = find_nanoda()
    names = ["null", "parse-only", *(["nanoda"] if nanoda else [])]
    text = "repetitions = 2\n" + "".join(f'[[kernel]]\nuse = "{name}"\n' for name in names)
    text += '[[kernel]]\nname = "mine"\ncommand = "../a"\n'
    text += '[[workload]]\nfamily = "church"\nn = [8, 9]\n[[workload]]\nfamily = "many"\nn = 3\n'
    (cluster.folder / "suites").mkdir()
    (cluster.folder / "suites" / "small.toml").write_text(text)
    env = {"PROOFCOST_NANODA": str(nanoda)} if nanoda else {}
    at_home = replace(cluster, env=env)
    made = at_home.call("bench", "suites/small.toml", "--on-cluster", "kubernetes", *POD, f"c={cluster.folder}",
                        "-o", "camp")  # fmt: skip
    assert made.status == 0, made.stderr
    words = [PROOFCOST, "campaign", "run", str(cluster.campaign)]
    for number in (1, 2):
        done = subprocess.run([*words, str(number)], cwd="/", capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
    assert cluster.do("collect").status == 0
    records = cluster.collected()
    per = {(key_of(record).work, key_of(record).kernel) for record in records}
    assert per == {(work, name) for work in ("church:8:0", "church:9:0", "many:3") for name in (*names, "mine")}
    assert len(records) == 3 * (2 + 1) * (len(names) + 1)
    shards = {(key_of(record).work.partition(":")[0], record.started["bench"]["shard"]) for record in records}
    assert shards == {("church", "1/2"), ("many", "2/2")}


def test_a_suite_that_changed_is_neither_run_nor_resumed(cluster: Cluster) -> None:
    submit(cluster, families=("church:8",))
    cluster.kernel("b", "exit 0")
    line = "its plan is "
    run = cluster.do("run", 1)
    assert (run.status, run.stderr.count("\n")) == (2, 1)
    assert line in run.stderr
    assert "a kernel's file, an export or an option is another one" in run.stderr
    assert cluster.records(1) == []
    assert cluster.states() == {1: "failed"}
    assert line in cluster.do("status").stdout
    resumed = cluster.do("resume")
    assert resumed.status == 2
    assert line in resumed.stderr
    assert len(cluster.file()["submissions"]) == 1


def test_a_campaigns_folder_is_one_campaigns(cluster: Cluster) -> None:
    submit(cluster)
    before = cluster.file()
    again = cluster.submit("kubernetes", *POD, f"c={cluster.folder}", families=("church:9",))
    assert again.status == 2
    assert f"campaign {before['id']} (suite a+b) is there" in again.stderr
    assert cluster.file() == before
    nothing = cluster.call("campaign", "status", cluster.folder / "nowhere")
    assert (nothing.status, nothing.stderr.count("\n")) == (2, 1)
    assert "no campaign there (no campaign.json)" in nothing.stderr


def test_a_store_of_another_shard_is_not_written_to_and_not_collected(cluster: Cluster) -> None:
    submit(cluster)
    assert cluster.do("run", 1).status == 0
    shutil.copytree(cluster.campaign / "shard-1", cluster.campaign / "shard-2")
    run = cluster.do("run", 2)
    assert run.status == 2
    assert "shard-2: holds records of shard 1/2, not 2/2; move it away" in run.stderr
    collected = cluster.do("collect", "--partial")
    assert collected.status == 2
    assert "holds records of shard 1/2, not 2/2" in collected.stderr
    assert not (cluster.campaign / "collected").exists()


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (("--shards", 3), "--shards 3: this plan has 2 parts"),
        (("--shards", 0), "--shards 0: a number from 1"),
        (("--partition", "x"), "--partition: of no use with --on-cluster kubernetes"),
        (("--shard", "1/2"), "--shard: every shard has its own"),
        (("--cpus", 1), "--cpus 1: the plan keeps 2 busy"),
        (("--memory", "1G"), "which a pod can enforce only with --privileged"),
    ],
)
def test_what_cannot_be_submitted_is_one_line_and_leaves_nothing(
    cluster: Cluster, words: tuple[object, ...], line: str
) -> None:
    refused = cluster.submit("kubernetes", *POD, f"c={cluster.folder}", *words, families=TWO)
    assert refused.status == 2
    assert line in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not cluster.campaign.exists()


def test_without_slurms_commands_or_without_a_cluster_it_is_said_so(cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    bare = Cluster(tmp_path, {"PATH": str(tmp_path / "bin")})
    refused = bare.submit("slurm", families=("church:8",))
    assert (refused.status, refused.stderr) == (
        2,
        "proofcost: bench: sbatch is not on PATH: submit where Slurm's commands are, or use another --on-cluster\n",
    )
    assert not bare.campaign.exists()
    alone = cluster.call("bench", "a=./a", "--on", "church:8", "--at-once", 2)
    assert "--at-once is for --on-cluster slurm|kubernetes|dask" in alone.stderr


def test_a_dry_run_writes_the_script_that_can_be_submitted_by_hand(cluster: Cluster) -> None:
    made = cluster.submit("slurm", "--shards", 2, "--at-once", 1, "--dry-run", families=TWO)
    assert made.status == 0, made.stderr
    script = (cluster.campaign / "slurm.sh").read_text()
    assert script in made.stdout
    assert "#SBATCH --array=1-2%1\n" in script
    # 14 turns of an hour each at most, and what comes before.
    minutes = next(int(line.partition("--time=")[2]) for line in script.splitlines() if "--time=" in line)
    assert 14 * 60 < minutes < 14 * 61 + 10
    assert f"not submitted: sbatch {cluster.campaign}/slurm.sh" in made.stdout
    assert cluster.file()["submissions"] == []
    env = {**os.environ, "SLURM_ARRAY_TASK_ID": "2", "SLURMD_NODENAME": "n7", "SLURM_ARRAY_JOB_ID": "5"}
    subprocess.run(["/bin/sh", cluster.campaign / "slurm.sh"], cwd="/", env=env, check=True)
    assert (cluster.note(2)["node"], cluster.note(2)["job"], cluster.note(2)["status"]) == ("n7", "5", 0)
    assert "median" in (cluster.campaign / "told" / "2.out").read_text()


def test_the_lists_of_options_in_a_campaigns_file_and_of_bench_are_the_same(cluster: Cluster) -> None:
    submit(cluster, "--label", "x=y", "--seed", 3)
    path = cluster.campaign / "campaign.json"
    said = cluster.file()
    assert (said["asked"]["label"], said["asked"]["seed"]) == (["x=y"], 3)
    assert "output" not in said["asked"]
    path.write_text(json.dumps({**said, "asked": {**said["asked"], "spead": 3}}))
    run = cluster.do("run", 1)
    assert run.status == 2
    assert "campaign.json: bench has no spead" in run.stderr


# What follows needs no process.

CAMPAIGN = Campaign("0123abcd", "s", "0" * 64, 10**18, {}, "/", {}, {}, (Shard(20, 20, 4),))
NOTE = Note(1, None, "x", None, 1)


@pytest.mark.parametrize(
    ("runs", "note", "held", "seen", "state"),
    [
        (20, replace(NOTE, ended_ns=2, status=0), False, Seen.GONE, State.DONE),
        (20, None, False, Seen.UNKNOWN, State.DONE),
        (5, NOTE, True, Seen.GONE, State.RUNNING),
        (5, NOTE, False, Seen.RUNNING, State.RUNNING),
        (5, NOTE, False, Seen.GONE, State.LOST),
        (5, NOTE, False, Seen.UNKNOWN, State.LOST),
        (5, replace(NOTE, ended_ns=2, status=130), False, Seen.GONE, State.FAILED),
        (5, replace(NOTE, ended_ns=2, status=130), False, Seen.WAITING, State.WAITING),
        (0, None, False, Seen.WAITING, State.WAITING),
        (0, None, False, Seen.GONE, State.LOST),
        (0, None, False, Seen.UNKNOWN, State.WAITING),
    ],
)
def test_how_a_shard_stands(runs: int, note: Note | None, held: bool, seen: Seen, state: State) -> None:
    assert state_of(CAMPAIGN.shards[0], runs, note, held, Said(seen), submitted=True) is state


def test_what_was_never_submitted_is_for_resume() -> None:
    state = state_of(CAMPAIGN.shards[0], 0, None, False, Said(Seen.UNKNOWN), submitted=False)
    assert state is State.READY
    assert state.is_missing


def test_a_block_on_two_hosts_is_not_done() -> None:
    block = [turn for turn in PLANNED if turn.block == 2]
    records = [finished(turn, "x", shard="1/1") for turn in PLANNED]
    records += [finished(turn, "y", part=2, shard="1/1") for turn in block[:2]]
    of = done.of_shard(CAMPAIGN, 1, runs(records))
    assert of.foreign is None
    assert (of.torn, of.turns_count, of.runs_count) == (frozenset({2}), 16, 16)
    again = done.of_shard(CAMPAIGN, 1, runs(records + [finished(turn, "y", part=3, shard="1/1") for turn in block]))
    assert (again.torn, again.turns_count) == (frozenset(), 20)


def test_records_of_another_plan_are_told() -> None:
    (run, *_) = runs([finished(turn, "x", shard="1/1", plan_sha256="f" * 64) for turn in PLANNED])
    told = f"holds records of another plan ({'f' * 16}, not {'0' * 16})"
    assert done.of_shard(CAMPAIGN, 1, [run]).foreign == told


def test_a_clock_that_is_wrong_is_told_in_one_line_with_its_host_and_by_how_much() -> None:
    at = finished(PLANNED[0], "x").started_at_ns
    assert at is not None
    made = replace(CAMPAIGN, made_ns=at + 90 * 10**9)
    (line,) = skewed(made, {1: runs([finished(PLANNED[0], "x")])}, made.made_ns + 1)
    assert line.startswith("clock: shard 1 has records 1 min 30 s before the campaign was made (")
    assert "the clock of x or of this host is wrong" in line
    (line,) = skewed(replace(made, made_ns=at), {1: runs([finished(PLANNED[0], "x")])}, at - 5 * 10**9)
    assert line.startswith("clock: shard 1 has records 5.0 s after they were collected: ")
    assert skewed(replace(made, made_ns=at), {1: runs([finished(PLANNED[0], "x")])}, at) == []


def test_a_lock_is_seen_by_others_and_ends_with_its_process(tmp_path: Path) -> None:
    path = str(tmp_path / "1.lock")
    assert not lock.is_held(path)
    hold = "from proofcost.bench_suites.cluster import lock\n"
    hold += f"with lock.held({path!r}):\n print('held', flush=True)\n input()"
    other = subprocess.Popen([sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout is not None
    assert other.stdout.readline() == b"held\n"
    assert lock.is_held(path)
    with pytest.raises(lock.HeldError), lock.held(path):
        pass
    other.kill()
    other.communicate()
    assert not lock.is_held(path)
    with lock.held(path):
        pass


def test_a_note_comes_back_as_it_was_and_a_torn_one_is_none(tmp_path: Path) -> None:
    (tmp_path / "told").mkdir()
    told = replace(NOTE, submission=2, job="17", ended_ns=5, status=2, why="ü'\n", runs_count=3, node="n\udcff")
    note.write(str(tmp_path), told)
    assert note.read(str(tmp_path), 1) == told
    path = tmp_path / "told" / "1.json"
    path.write_text(path.read_text()[:-20])
    assert note.read(str(tmp_path), 1) is None


def test_a_campaigns_file_comes_back_as_it_was_and_a_damaged_one_is_one_line(tmp_path: Path) -> None:
    made = replace(CAMPAIGN, submissions=(campaigns.Submission(1, "slurm", "17", (1,)),))
    campaigns.write(str(tmp_path), made)
    assert campaigns.read(str(tmp_path)) == made
    path = tmp_path / "campaign.json"
    text = path.read_text()
    damaged = [text[:-9], "[]", text.replace('"id"', '"ID"'), text.replace("0123abcd", "../../..")]
    damaged += [text.replace("[\n    1\n   ]", "[7]"), text.replace('"schema": 1', '"schema": 2')]
    for wrong in damaged:
        assert wrong != text
        path.write_text(wrong)
        with pytest.raises(CampaignError) as caught:
            campaigns.read(str(tmp_path))
        assert str(caught.value).startswith(str(path))
        assert "\n" not in str(caught.value)


def test_the_help_loads_no_engine() -> None:
    ask = "import sys, proofcost.cli as c\ntry: c.main(['campaign', '--help'])\nexcept SystemExit: pass\n"
    ask += "print([m for m in ('distributed', 'yaml', 'pyarrow', 'duckdb', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("[]\n")


def test_kernels_that_may_take_more_than_a_host_has_are_refused_there() -> None:
    with pytest.raises(UsageError, match=r"kernels may take 2306 PB together, and this host has .*--constraint"):
        check_memory(Limits(memory_bytes=1 << 60), 2)
    check_memory(Limits(memory_bytes=1 << 20), 2)
    check_memory(Limits(), 2)
