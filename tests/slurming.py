"""A Slurm cluster of two nodes on this machine: a controller and two slurmd, each a process, files in one folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE_S = 60
PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "squeue", "sinfo", "scancel")
CONF = """
ClusterName=tests
SlurmctldHost=localhost(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.sock
CredType=cred/munge
SlurmctldPort={ports[0]}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
ProctrackType=proctrack/pgid
TaskPlugin=task/none
MpiDefault=none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdTimeout=10
KillWait=5
MessageTimeout=5
SwitchType=switch/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
NodeName=n1 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[1]} CPUs=2 RealMemory=1000 Feature=classA
NodeName=n2 NodeHostname=localhost NodeAddr=127.0.0.1 Port={ports[2]} CPUs=2 RealMemory=1000 Feature=classA
PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP
"""


def lacking() -> list[str]:
    """Programs of Slurm and munge that are not here (Debian: slurm-wlm, munge)."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    return [name for name in PROGRAMS if shutil.which(name, path=path) is None]


def free_ports(count: int) -> list[int]:
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


@dataclass
class Slurm:
    """Started by `start`, ended by `end`, each process by its id."""

    folder: Path
    processes: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def env(self) -> dict[str, str]:
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    def start(self) -> None:
        for name in ("state", "spool"):
            (self.folder / name).mkdir()
        ports = free_ports(3)
        (self.folder / "slurm.conf").write_text(CONF.format(folder=self.folder, ports=ports))
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        self._run(
            "munged",
            *("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={self.folder}/munge.sock"),
            *(f"--pid-file={self.folder}/munge.pid", f"--log-file={self.folder}/munge.log"),
            *(f"--seed-file={self.folder}/munge.seed", "--num-threads=2"),
        )
        self._run("slurmctld", "slurmctld", "-D", "-f", self.folder / "slurm.conf")
        for node in ("n1", "n2"):
            self.start_node(node)
        self.wait_for_nodes(2)

    def start_node(self, node: str) -> None:
        self._run(node, "slurmd", "-D", "-N", node, "-f", self.folder / "slurm.conf")

    def wait_for_nodes(self, count: int) -> None:
        end = time.monotonic() + PATIENCE_S
        while self.call("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split() != ["n1", "n2"][:count]:
            assert time.monotonic() < end, self.call("sinfo", "-N", "-l")
            time.sleep(0.5)

    def _run(self, name: str, *words: object) -> None:
        with (self.folder / f"{name}.out").open("wb") as output:
            self.processes[name] = subprocess.Popen(
                list(map(str, words)),
                env={**os.environ, **self.env, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def call(self, *words: object) -> str:
        done = subprocess.run(
            list(map(str, words)), env={**os.environ, **self.env}, capture_output=True, text=True, check=False
        )
        return done.stdout + done.stderr

    def end(self, names: Sequence[str] = ()) -> None:
        for name in names or list(self.processes)[::-1]:
            process = self.processes.pop(name)
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
