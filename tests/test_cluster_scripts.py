"""What is handed to schedulers: a Slurm script that holds any path, a Kubernetes Job that every schema takes."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from benching import script as executable
from hypothesis import given
from hypothesis import strategies as st

from proofcost.bench_suites.cluster import kubernetes_job, slurm_script
from proofcost.bench_suites.cluster.folder import Campaign, CampaignError, Shard
from proofcost.bench_suites.cluster.options import KUBERNETES, SLURM, Options

CAMPAIGN = Campaign(
    id="0123abcd",
    suite="näme, with: [anything]",
    plan_sha256="0" * 64,
    made_ns=1,
    asked={},
    started_in="/",
    environment={},
    options={},
    shards=(Shard(14, 14, 3),) * 5,
)
ODD = ["a b", "c'd", 'e"f', "g\nh", "$(touch pwned)", "`i`", "%a %j", "\\", "*?[", "-n", "~", "ü", "a;b&c|d>e"]


def directives(text: str) -> list[str]:
    return [line.removeprefix("#SBATCH ") for line in text.splitlines() if line.startswith("#SBATCH")]


def test_a_node_is_a_shards_alone_and_nothing_runs_twice() -> None:
    options = Options(SLURM, time_ns=61 * 10**9, at_once=2, partition="main", constraint="intel&gpu")
    assert directives(slurm_script.script(CAMPAIGN, "/camp", options, "/py")) == [
        "--job-name=proofcost-0123abcd",
        "--array=1-5%2",
        "--exclusive",
        "--nodes=1",
        "--ntasks=1",
        "--mem=0",
        "--no-requeue",
        "--open-mode=append",
        "--output=/dev/null",
        "--chdir=/",
        "--time=2",
        "--partition=main",
        "--constraint=intel&gpu",
    ]


@pytest.mark.parametrize("odd", ODD)
def test_any_path_comes_through_the_script_as_it_is(odd: str, tmp_path: Path) -> None:
    folder = tmp_path / odd / "camp"
    (folder / "told").mkdir(parents=True)
    python = executable(tmp_path / odd / "py", "#!/bin/sh\nprintf '%s\\0' \"$@\"\n")
    text = slurm_script.script(CAMPAIGN, str(folder), Options(SLURM), str(python))
    made = executable(tmp_path / "job", text)
    env = {"SLURM_ARRAY_TASK_ID": "3", "SLURMD_NODENAME": "n1", "SLURM_ARRAY_JOB_ID": "17", "PATH": "/usr/bin:/bin"}
    done = subprocess.run([made], cwd=tmp_path, env=env, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    words = (folder / "told" / "3.out").read_bytes().split(b"\0")[:-1]
    assert words == [*map(os.fsencode, ("-P", "-m", "proofcost", "campaign", "run", str(folder), "3")),
                     b"--node", b"n1", b"--job", b"17"]  # fmt: skip
    assert not list(tmp_path.rglob("pwned"))
    assert all(len(line.split()) == 2 for line in text.splitlines() if line.startswith("#SBATCH")), "no path in them"


@given(st.sets(st.integers(1, 300), min_size=1), st.none() | st.integers(1, 9))
def test_an_array_names_each_shard_once(numbers: set[int], at_once: int | None) -> None:
    text, _, limit = slurm_script.array(sorted(numbers, reverse=True), at_once).partition("%")
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found += range(int(first), int(last or first) + 1)
    assert found == sorted(numbers)
    assert limit == ("" if at_once is None else str(at_once))


@given(st.integers(1, 10**18))
def test_slurms_time_limit_is_never_shorter_than_asked(time_ns: int) -> None:
    minutes = int(slurm_script.time_limit(time_ns))
    assert (minutes - 1) * 60 * 10**9 < time_ns <= minutes * 60 * 10**9


@pytest.mark.parametrize("word", ["a b", "a\n#SBATCH --mem=1", "'", "", "$(x)"])
@pytest.mark.parametrize("name", ["partition", "constraint"])
def test_a_word_that_a_directive_cannot_hold_is_refused(name: str, word: str) -> None:
    asked = Options(SLURM, partition=word) if name == "partition" else Options(SLURM, constraint=word)
    with pytest.raises(CampaignError, match=f"--{name} "):
        slurm_script.check(asked)


# Kubernetes

ASKED = Options(
    KUBERNETES,
    time_ns=90 * 10**9,
    at_once=3,
    constraint="class=a,zone/rack=7",
    image="registry.example/bench:1",
    claims=("results=/data",),
    cpus=3,
    pod_memory_bytes=8 << 30,
    user=1000,
    group=1000,
)
FOLDER = "/data/camp"


def manifest(options: Options = ASKED, folder: str = FOLDER) -> dict[str, Any]:
    """As it is read back from the file that is written."""
    made = kubernetes_job.manifest(CAMPAIGN, folder, options, [1, 2, 3, 4, 5], 1)
    found: dict[str, Any] = yaml.safe_load(yaml.safe_dump(made, sort_keys=False, width=10**6))
    return found


def pod(made: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = made["spec"]["template"]["spec"]
    return found


@pytest.mark.parametrize("options", [ASKED, replace(ASKED, privileged=True, user=0, namespace="bench"),
                                     replace(ASKED, constraint=None, time_ns=None, at_once=None)])  # fmt: skip
@pytest.mark.parametrize("version", [f"1.{minor}" for minor in range(29, 37)])
def test_the_published_schema_of_each_version_takes_the_job(version: str, options: Options) -> None:
    kubernetes_validate.validate(manifest(options), version, strict=True)


def test_the_check_against_the_schema_sees_what_is_wrong() -> None:
    """An older Kubernetes knows no limit for an index alone; a misspelt key is none of its keys."""
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(manifest(), "1.27", strict=True)
    wrong = manifest()
    pod(wrong)["restartPolcy"] = pod(wrong).pop("restartPolicy")
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.36", strict=True)


def test_a_pod_is_one_shard_tried_once_on_a_node_of_its_own() -> None:
    made = manifest()
    spec = made["spec"]
    assert (spec["completions"], spec["parallelism"], spec["completionMode"]) == (5, 3, "Indexed")
    assert spec["backoffLimitPerIndex"] == 0
    assert spec["podReplacementPolicy"] == "Failed", "no second pod while the first still writes"
    assert spec["podFailurePolicy"]["rules"] == [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    ]
    its = pod(made)
    assert its["restartPolicy"] == "Never"
    assert its["nodeSelector"] == {"class": "a", "zone/rack": "7"}
    assert its["activeDeadlineSeconds"] == 90
    (apart,) = its["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    labels = made["spec"]["template"]["metadata"]["labels"]
    assert apart["labelSelector"]["matchLabels"].items() <= labels.items(), "it must be kept from its own like"
    assert apart["namespaceSelector"] == {}, "of every namespace"


def test_a_pod_has_whole_cpus_guaranteed_and_no_right_that_the_meter_does_not_need() -> None:
    (container,) = pod(manifest())["containers"]
    assert (
        container["resources"]["requests"] == container["resources"]["limits"] == {"cpu": "3", "memory": str(8 << 30)}
    )
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    rights = pod(manifest())["securityContext"]
    assert (rights["runAsUser"], rights["runAsNonRoot"]) == (1000, True)
    assert rights["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod(manifest())["automountServiceAccountToken"] is False
    mounts = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounts == {"/data", "/tmp"}, "all that it writes to"


def test_kubernetes_puts_nothing_in_for_what_looks_like_a_variable_in_a_path() -> None:
    (container,) = pod(manifest(folder="/data/$(HOME) $x"))["containers"]
    assert container["command"][-1] == "/data/$$(HOME) $$x"
    declared = {variable["name"] for variable in container["env"]}
    named = {word[2:-1] for word in container["args"] if word.startswith("$(")}
    assert named == {"JOB_COMPLETION_INDEX", "NODE"} <= declared, "and what is to be put in is declared"


def refused(options: Options, folder: str = FOLDER, cpus: int = 3, memory: int | None = None) -> str:
    with pytest.raises(CampaignError) as caught:
        kubernetes_job.check(options, folder, cpus, memory, 1)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_what_a_job_cannot_be_made_of_is_said_in_one_line() -> None:
    kubernetes_job.check(ASKED, FOLDER, 3, None, 1)
    assert "which image? Give --image" in refused(replace(ASKED, image=None))
    assert "--cpus 3: the plan keeps 5 busy" in refused(ASKED, cpus=5)
    assert "how much memory has a pod? Give --pod-memory" in refused(replace(ASKED, pod_memory_bytes=None))
    assert "only with --privileged" in refused(ASKED, memory=1 << 30)
    assert "not more than the kernels may take" in refused(replace(ASKED, privileged=True), memory=8 << 30)
    assert "lies in no volume that pods mount" in refused(ASKED, folder="/elsewhere/camp")
    assert "--pod-memory: 1 bytes do not hold the runner" in refused(replace(ASKED, pod_memory_bytes=1))
    assert "small letters, digits and dashes" in refused(replace(ASKED, claims=("R=/data",)))
    assert "--constraint 'fast'" in refused(replace(ASKED, constraint="fast"))
    assert "--namespace 'A B'" in refused(replace(ASKED, namespace="A B"))
    for word in ("results", "results=data", "Results=/data", "=/data", "a=/b:c", "a=/tmp"):
        assert f"--claim {word!r}" in refused(replace(ASKED, claims=("results=/data", word)))


def test_a_manifest_is_plain_data() -> None:
    assert json.loads(json.dumps(manifest())) == manifest()
