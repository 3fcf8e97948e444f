"""What a campaign refuses: addresses, folders, and what stands where its data set belongs."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from benching import script
from campaigning import Cluster

from proofcost.bench_suites.cluster import dask_shards
from proofcost.bench_suites.cluster.folder import CampaignError

POD = ("--image", "bench:1", "--pod-memory", "1Gi", "--claim")


@pytest.mark.parametrize(
    "address",
    [
        "nosuch",
        "tls://u:secret@127.0.0.1:1",
        "u:secret@h:1",
        "tcp://u:secret@h",
        "tcp://[::1",
        "http://h:1",
        "tcp://h:x",
    ],
)
def test_an_address_that_dask_has_not_is_refused_before_it_is_tried_and_without_its_password(address: str) -> None:
    with pytest.raises(CampaignError) as caught:
        dask_shards.connect(address)
    line = str(caught.value)
    assert line.startswith("--scheduler ")
    assert "secret" not in line
    assert "no address of a Dask scheduler" in line or "a user or a password" in line


def test_a_dry_run_for_kubernetes_is_not_submitted_and_its_folder_holds_no_other(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    words = (*POD, f"c={tmp_path}")
    made = cluster.submit("kubernetes", *words, "--dry-run", families=("church:8",))
    assert made.status == 0, made.stderr
    assert "kind: Job" in made.stdout
    assert not list(cluster.campaign.glob("job-*.yaml"))
    assert cluster.states() == {1: "not submitted"}
    inside = cluster.submit("kubernetes", *words, "-o", cluster.campaign / "shard-1", families=("church:8",))
    assert (inside.status, inside.stderr.count("\n")) == (2, 1)
    assert f"lies in the folder of another campaign, {cluster.campaign}" in inside.stderr
    unnamed = cluster.submit("kubernetes", *words, "-o", "", families=("church:8",))
    assert (unnamed.status, unnamed.stderr.count("\n")) == (2, 1)
    assert "-o '': names no folder" in unnamed.stderr
    assert not (tmp_path / "campaign.json").exists()
    assert not (tmp_path / "told").exists()

    (cluster.campaign / "collected").write_text("mine")
    for _ in range(2):
        refused = cluster.do("collect", "--partial")
        assert (refused.status, refused.stderr.count("\n")) == (2, 1)
        assert f"{cluster.campaign}/collected: no folder that collect made" in refused.stderr
    assert (cluster.campaign / "collected").read_text() == "mine"
    assert [path.name for path in cluster.campaign.glob("collected*")] == ["collected"]

    resumed = cluster.do("resume")
    assert resumed.status == 0, resumed.stderr
    assert (cluster.campaign / "job-1.yaml").exists()
    assert cluster.states() == {1: "waiting"}


def test_a_slurm_that_cannot_be_asked_is_one_line_of_resume(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    assert cluster.submit("slurm", "--dry-run", families=("church:8",)).status == 0
    (tmp_path / "bin").mkdir()
    for name in ("squeue", "sbatch"):
        script(tmp_path / "bin" / name, "#!/bin/sh\necho 'no configuration' >&2\nexit 1\n")
    there = Cluster(tmp_path, {"PATH": f"{tmp_path}/bin:{os.environ['PATH']}"})
    resumed = there.do("resume")
    assert (resumed.status, resumed.stdout) == (2, "")
    assert resumed.stderr == "proofcost: campaign: Slurm refuses: no configuration\n"
    assert cluster.file()["submissions"] == []
    assert "told from the campaign's folder alone" in there.do("status").stderr


def test_a_scheduler_is_not_asked_about_a_campaign_that_is_done(tmp_path: Path) -> None:
    """Its nodes may be gone by then, and nothing it could say changes anything."""
    cluster = Cluster(tmp_path)
    (tmp_path / "bin").mkdir()
    for name in ("squeue", "sbatch", "sinfo"):
        script(tmp_path / "bin" / name, f"#!/bin/sh\ntouch {tmp_path}/asked\nexit 1\n")
    cluster.env = {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    assert cluster.submit("slurm", "--dry-run", families=("church:8",)).status == 0
    assert cluster.do("status").status == 1
    assert (tmp_path / "asked").exists(), "of what is missing it is"
    (tmp_path / "asked").unlink()
    assert cluster.do("run", 1).status == 0
    told = cluster.do("status")
    assert (told.status, told.stderr) == (0, "")
    assert "complete: proofcost campaign collect" in told.stdout
    assert not (tmp_path / "asked").exists()


def test_a_port_that_accepts_and_says_nothing_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dask_shards, "CONNECT_S", 2)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(CampaignError, match=f"--scheduler tcp://127.0.0.1:{port}: no Dask scheduler answers there"):
            dask_shards.connect(f"tcp://127.0.0.1:{port}")
