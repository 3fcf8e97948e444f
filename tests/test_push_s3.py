"""`store push` to a real S3-speaking server, over HTTP with signatures, in processes of their own."""

import shutil
from pathlib import Path

import pytest
from collecting import Server, ours, parquet_bytes, store_of

MEASURED = Path(__file__).parent / "fixtures" / "records" / "measured-0.1.0"
COUNT = "SELECT count(*), count(DISTINCT record), count(DISTINCT host) FROM records"

pytestmark = [pytest.mark.real, pytest.mark.heavy]


def told(s3: Server, *words: object, status: int = 0, **env: str) -> str:
    done = ours("store", *words, env=s3.env | env)
    assert done.returncode == status, done
    assert done.stderr.count("\n") == (1 if status else 0), done.stderr
    return done.stderr if status else done.stdout


def test_two_hosts_become_one_data_set(s3: Server, tmp_path: Path) -> None:
    bucket = s3.bucket("fleet")
    one, two = store_of(tmp_path / "one", "aa"), store_of(tmp_path / "two", "bb", files=3)
    shutil.copytree(MEASURED, tmp_path / "measured")
    assert "2 files (0.0 MB) sent to s3://fleet/all, read back and sealed" in told(s3, "push", "s3://fleet/all", one)
    told(s3, "push", "s3://fleet/all", two)
    told(s3, "push", "s3://fleet/all", tmp_path / "measured", "--min-age", "0")
    assert "0 files sent to s3://fleet/all, read back and sealed; 2 stood there sealed" in told(
        s3, "push", "s3://fleet/all", one
    )
    assert told(s3, "sql", COUNT, "--csv", "--data", "s3://fleet/all").splitlines()[1] == "32,32,3"
    assert parquet_bytes(bucket / "all") == {
        name: content for store in (one, two, tmp_path / "measured") for name, content in parquet_bytes(store).items()
    }
    for path in (bucket / "all").rglob("*.sha256"):
        assert b"correct-horse" not in path.read_bytes()
    pruned = told(s3, "prune", "--pushed", "s3://fleet/all", two, "--min-age", "0")
    assert "3 Parquet files removed of 3" in pruned
    assert told(s3, "sql", COUNT, "--csv", "--data", "s3://fleet/all").splitlines()[1] == "32,32,3"


def test_every_reader_takes_the_url(s3: Server, tmp_path: Path) -> None:
    s3.bucket("readers")
    shutil.copytree(MEASURED, tmp_path / "store")
    told(s3, "push", "s3://readers", tmp_path / "store", "--min-age", "0")
    for words in (
        ["report", "kernels", "DATA", "-o", tmp_path / "DATA.json"],
        ["export", "--to", "csv", "DATA", "-o", tmp_path / "DATA.csv"],
        ["compare", "kernel=nanoda", "kernel=sokonanoda", "--data", "DATA", "-o", tmp_path / "compare-DATA.json"],
    ):
        made = {}
        for name, data in (("url", "s3://readers"), ("store", tmp_path / "store")):
            here = [str(word).replace("DATA", name) if isinstance(word, Path) else word for word in words]
            done = ours(*(data if word == "DATA" else word for word in here), env=s3.env)
            assert (done.returncode, done.stderr) == (0, ""), done
            (path,) = [Path(str(word)) for word in here if isinstance(word, str) and word.startswith(str(tmp_path))]
            made[name] = path.read_text().replace(str(data), "DATA")
        assert made["url"] == made["store"]
    code = "import proofcost, sys; print(proofcost.load(sys.argv[1]).num_rows)"
    assert ran(code, "s3://readers", s3) == "7\n"


def ran(code: str, url: str, s3: Server) -> str:
    import os
    import subprocess
    import sys

    return subprocess.run(
        [sys.executable, "-c", code, url], env=os.environ | s3.env, capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.parametrize(
    ("url", "env", "said"),
    [
        ("s3://absent/x", {}, "s3://absent/x: cannot be listed: The specified bucket does not exist"),
        ("s3://there/x", {"AWS_SECRET_ACCESS_KEY": "wrong"}, "The request signature we calculated does not match"),
        ("s3://there/x", {"AWS_ACCESS_KEY_ID": "nobody"}, "No user exists with the provided access key ID"),
        ("s3://me:secret@there/x", {"AWS_ACCESS_KEY_ID": "nobody"}, "s3://there/x: given with a user or a password"),
        ("s3://there/x", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "Could not connect to the endpoint URL"),
    ],
)
def test_a_place_that_cannot_be_reached_is_one_line(
    s3: Server, url: str, env: dict[str, str], said: str, tmp_path: Path
) -> None:
    if not (s3.folder / "buckets" / "there").exists():
        s3.bucket("there")
    store = store_of(tmp_path / "one", "aa")
    for words in (["push", url, store], ["prune", "--pushed", url, store], ["sql", "SELECT 1", "--data", url]):
        found = told(s3, *words, status=2, **env)
        assert said in found
        assert "secret" not in found
        assert "correct-horse" not in found
    assert len(parquet_bytes(store)) == 2


def test_a_server_that_dies_in_the_middle_loses_nothing(s3: Server, tmp_path: Path) -> None:
    """It is killed once three files are there; the same call goes on when it is back."""
    import os
    import subprocess
    import sys
    import time

    bucket = s3.bucket("dying")
    store = store_of(tmp_path / "one", "aa", files=60)
    with subprocess.Popen(
        [sys.executable, "-m", "proofcost", "store", "push", "s3://dying", store], env=os.environ | s3.env,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        while len(list(bucket.rglob("*.sha256"))) < 3 and process.poll() is None:
            time.sleep(0.005)
        s3.stop()
        _, said = process.communicate(timeout=240)
    s3.start_again()
    sealed = len(list(bucket.rglob("*.sha256")))
    if process.returncode:  # else it was quicker than we were
        assert (process.returncode, said.count("\n")) == (1, 1), said
        assert "the same call goes on from there" in said
        assert 3 <= sealed < 60
    assert f"{60 - sealed} file" in told(s3, "push", "s3://dying", store)
    assert parquet_bytes(bucket) == parquet_bytes(store)
    assert told(s3, "sql", COUNT, "--csv", "--data", "s3://dying").splitlines()[1] == "300,300,1"
