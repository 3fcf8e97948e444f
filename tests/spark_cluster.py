"""A Spark standalone cluster of the package's own: a master and workers on 127.0.0.1, each a process of ours."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

_UP_S = 120
QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java that compiles little: most of what a short life costs on two cores is compiling."""


def settings(folder: Path) -> Path:
    """A folder for SPARK_CONF_DIR, so that drivers and executors are quick as well."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = [f"spark.{part}.extraJavaOptions {QUICK}" for part in ("driver", "executor")]
    (folder / "spark-defaults.conf").write_text("\n".join(lines) + "\n")
    return folder


def java() -> str | None:
    return shutil.which("java")


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


class Cluster:
    """Ended by `stop`; nothing else on the machine is touched."""

    def __init__(self, folder: Path, workers: int = 2) -> None:
        spec = importlib.util.find_spec("pyspark")
        assert spec is not None
        assert spec.origin is not None
        self._home = Path(spec.origin).parent
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._port = free_port()
        self.url = f"spark://127.0.0.1:{self._port}"
        self.master = self._start("master", "master.Master", "--host", "127.0.0.1", "--port", str(self._port))
        self._await("master", "I have been elected leader")
        self.workers = [
            self._start(f"worker{at}", "worker.Worker", "--cores", "1", "--memory", "2g", "--host", "127.0.0.1",
                        "--work-dir", str(folder / f"work{at}"), self.url)
            for at in range(workers)
        ]  # fmt: skip
        for at in range(workers):
            self._await(f"worker{at}", "Successfully registered with master")

    def _start(self, name: str, kind: str, *arguments: str) -> subprocess.Popen[bytes]:
        program = str(self._home / "bin" / "spark-class")
        command = [program, f"org.apache.spark.deploy.{kind}", "--webui-port", "0", *arguments]
        environment = {**os.environ, "SPARK_HOME": str(self._home), "SPARK_DAEMON_MEMORY": "512m",
                       "SPARK_DAEMON_JAVA_OPTS": QUICK}  # fmt: skip
        with (self._folder / f"{name}.log").open("wb") as log:
            return subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, env=environment)

    def _await(self, name: str, word: str) -> None:
        log = self._folder / f"{name}.log"
        deadline = time.monotonic() + _UP_S
        while word not in log.read_text(errors="replace"):
            if time.monotonic() > deadline:
                self.stop()
                raise AssertionError(f"no {name}: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.2)

    def stop(self) -> None:
        processes = [*getattr(self, "workers", []), self.master]
        for one in processes:
            one.kill()
        for one in processes:
            one.wait()
