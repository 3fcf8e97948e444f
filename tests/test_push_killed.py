"""A push that is killed anywhere: nothing counts that is not whole, and the same call finishes it, nothing twice."""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from collecting import Server, ours, parquet_bytes, store_of

from proofcost.cli import main
from proofcost.reports.dataset import open_data
from proofcost.reports.file_seal import SUFFIX, read_seal

POINTS = 10
CHILD = """
import os, signal, sys
from pathlib import Path
from proofcost.reports import place_folder, pushing, remote, removal
left = int(sys.argv[3])
def step():
    global left
    left -= 1
    if left == 0:
        os.kill(os.getpid(), signal.SIGKILL)
def audited(event, arguments):
    if event in ("open", "os.rename", "os.mkdir", "os.remove") and sys.argv[2] in str(arguments[0]):
        step()
def pieces(path):
    with path.open("rb") as file:
        while piece := file.read(2000):
            step()
            yield piece
sys.addaudithook(audited)
place_folder.pieces = pushing.pieces = pieces
before = left
pushing.push(Path(sys.argv[1]), remote.open_place(sys.argv[2]))
print(before - left)
"""


def pushed(store: Path, place: Path, steps: int) -> subprocess.CompletedProcess[str]:
    """A push that kills itself before the file operation, or the piece of a file, with this number."""
    command = [sys.executable, "-c", CHILD, str(store), str(place), str(steps)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def sealed(place: Path) -> dict[str, str]:
    """Name -> digest of what counts; fails where a seal is not true."""
    found = {}
    for path in place.rglob(f"*{SUFFIX}"):
        if path.name.startswith("."):
            continue
        name = path.name.removesuffix(SUFFIX)
        seal = read_seal(name, path.read_bytes())
        content = path.with_name(name).read_bytes()
        assert (hashlib.sha256(content).hexdigest(), len(content)) == (seal.sha256, seal.bytes_)
        found[str(path.relative_to(place))] = seal.sha256
    return found


@pytest.mark.slow
def test_killed_at_ten_random_points(tmp_path: Path) -> None:
    """Each time from where the last one was killed, which is after any of some thousand steps."""
    store, place = store_of(tmp_path / "store", "aa", files=20, rows=500), tmp_path / "place"
    steps = int(pushed(store, tmp_path / "whole", 10**9).stdout)
    assert steps > 200
    points = sorted(random.Random(11).sample(range(1, steps), POINTS))
    before: dict[str, str] = {}
    for point, last in zip(points, [0, *points], strict=False):
        done = pushed(store, place, max(1, point - last))
        assert done.returncode in (-signal.SIGKILL, 0), done.stderr
        now = sealed(place)
        assert before.items() <= now.items(), "what was sealed stays as it was"
        before = now
        assert parquet_bytes(place).items() <= parquet_bytes(store).items(), "nothing half bears its name"
    assert main(["store", "push", str(place), str(store)]) == 0
    assert len(sealed(place)) == 20
    assert parquet_bytes(place) == parquet_bytes(store)
    rows = open_data([place]).rows("SELECT count(*), count(DISTINCT record), sum(wall_program) FROM records")
    assert rows == open_data([store]).rows("SELECT count(*), count(DISTINCT record), sum(wall_program) FROM records")
    assert rows[0][:2] == (10_000, 10_000)


@pytest.mark.slow
@pytest.mark.parametrize("point", [1, 2, 3, 5, 8])
def test_a_removal_that_is_killed_has_lost_nothing(point: int, tmp_path: Path) -> None:
    store, place = store_of(tmp_path / "store", "aa", files=5), tmp_path / "place"
    assert main(["store", "push", str(place), str(store)]) == 0
    child = (
        CHILD.replace("pushing.push(", "removal.remove_pushed(Path(sys.argv[1]), pushing.verified(")
        .replace("sys.argv[2]))\n", "sys.argv[2]))[0])\n")
        .replace(
            '"open", "os.rename", "os.mkdir", "os.remove") and sys.argv[2]', '"os.remove", "os.rmdir") and sys.argv[1]'
        )
    )
    command = [sys.executable, "-c", child.replace("            step()\n", ""), str(store), str(place), str(point)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    assert len(sealed(place)) == 5
    assert main(["store", "push", str(place), str(store)]) == 0
    assert len(open_data([place]).rows("SELECT record FROM records")) == 25


MILLION = 1_000_000


@pytest.mark.heavy
@pytest.mark.real
def test_a_million_records_killed_at_ten_random_points(s3: Server, tmp_path: Path) -> None:
    """From outside, at any moment, with an S3-speaking server at the far end."""
    store = tmp_path / "store"
    assert main(["store", "synth", str(store), "--records", str(MILLION), "--days", "300"]) == 0
    whole, bucket = s3.bucket("whole"), s3.bucket("killed")
    env = os.environ | s3.env
    began = time.monotonic()
    assert ours("store", "push", "s3://whole", store, env=env).returncode == 0
    took = time.monotonic() - began
    assert parquet_bytes(whole) == parquet_bytes(store)
    random_ = random.Random(7)
    before: dict[str, str] = {}
    kills, counts = 0, []
    while kills < POINTS:
        with subprocess.Popen([sys.executable, "-m", "proofcost", "store", "push", "s3://killed", store],
                              env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:  # fmt: skip
            first = len(before)
            while len(list(bucket.rglob(f"*{SUFFIX}"))) == first and process.poll() is None:
                time.sleep(0.01)  # it has begun
            time.sleep(random_.uniform(0, took / 8))
            process.kill()
        now = sealed(bucket)
        assert before.items() <= now.items(), "what was sealed stays as it was"
        before, kills = now, kills + 1
        counts.append(len(now))
    assert ours("store", "push", "s3://killed", store, env=env).returncode == 0
    print("sealed at each kill:", counts, "of", len(sealed(bucket)))
    assert parquet_bytes(bucket) == parquet_bytes(store)
    assert sealed(bucket) == sealed(whole)
    done = ours("store", "sql", "SELECT count(*), count(DISTINCT record), sum(wall_command) FROM records", "--csv",
                "--data", "s3://killed", env=env)  # fmt: skip
    local = ours("store", "sql", "SELECT count(*), count(DISTINCT record), sum(wall_command) FROM records", "--csv",
                 "--data", store)  # fmt: skip
    assert done.stdout == local.stdout
    assert done.stdout.splitlines()[1].startswith(f"{MILLION},{MILLION},")
