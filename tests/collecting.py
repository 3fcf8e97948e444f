"""Many hosts' files in one place: stores to push, and an S3-speaking server to push them to."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rows_of_runs import DAY, kept, run

from proofcost.reports.dataset import open_data

DATE = "2023-11-14"
"""Of the runs that rows_of_runs.py makes."""
PATIENCE_S = 60.0


def store_of(folder: Path, host: str, files: int = 2, rows: int = 5, **more: Any) -> Path:
    """A store of one host that holds Parquet files only, as compaction names them."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        runs = [
            run(
                10 + at,
                record=f"{host}{number:02}{at:06}",
                host=host,
                boot=f"boot-{host}",
                session=f"{host}-{number}",
                started_ns=1_700_000_000 * 10**9 + at,
                **more,
            )
            for at in range(rows)
        ]
        kept(folder / "parquet" / f"day={DATE}" / f"host={host}", runs, f"{number:016x}")
    return folder


def records(*data: object) -> list[str]:
    """The ids of all records, each as often as it is there."""
    opened = open_data([str(one) for one in data])
    return sorted(str(row[0]) for row in opened.rows("SELECT record FROM records"))


def parquet_bytes(folder: Path) -> dict[str, bytes]:
    """Name -> content of the Parquet files below, whichever folder they lie in."""
    top = folder / "parquet"
    return {str(path.relative_to(top)): path.read_bytes() for path in sorted(top.rglob("*.parquet"))}


def ours(*words: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """`proofcost WORDS` in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "proofcost", *map(str, words)], env=os.environ | (env or {}),
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


@dataclass
class Server:
    """A running S3-speaking server."""

    program: Path
    folder: Path
    port: int
    process: subprocess.Popen[bytes]

    @property
    def env(self) -> dict[str, str]:
        """What a client needs: the variables that every S3 client knows."""
        return {
            "AWS_ACCESS_KEY_ID": "collector",
            "AWS_SECRET_ACCESS_KEY": "correct-horse",
            "AWS_DEFAULT_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
            "AWS_EC2_METADATA_DISABLED": "true",
            "PROOFCOST_CACHE": str(self.folder / "cache"),
        }

    def bucket(self, name: str) -> Path:
        """A new bucket: the folder in which the server keeps its objects."""
        made = self.folder / "buckets" / name
        made.mkdir()
        return made

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def start_again(self) -> None:
        self.process = _started(self.program, self.folder, self.port)


def start(program: Path, folder: Path) -> Server:
    for name in ("buckets", "attributes"):
        (folder / name).mkdir()
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    return Server(program, folder, port, _started(program, folder, port))


def _started(program: Path, folder: Path, port: int) -> subprocess.Popen[bytes]:
    env = os.environ | {"ROOT_ACCESS_KEY_ID": "collector", "ROOT_SECRET_ACCESS_KEY": "correct-horse"}
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [program, f"127.0.0.1:{port}", folder / "buckets", folder / "attributes"],
            env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
        )  # fmt: skip
    until = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > until:
                process.kill()
                raise AssertionError((folder / "log").read_text()) from None
            time.sleep(0.05)
        else:
            return process


__all__ = ["DATE", "DAY", "Server", "ours", "parquet_bytes", "records", "start", "store_of"]
