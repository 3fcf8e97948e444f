"""Shards on a Dask cluster: one task a shard, one slot a host.

A slot is the worker's resource `proofcost=1`: a worker that does not offer it gets nothing of ours, and one that does
takes a shard at a time, however many threads it has for other work. (Naming one worker for each shard instead would
settle beforehand which host takes how much, and leave fast ones idle.) Two such workers on one host would run kernels
beside each other: refused.

Dask runs a task again, elsewhere, when its worker dies; nothing that a client says prevents that. So the runner does
(`--stay`): a shard that has begun on one host in this submission does not begin on another. `resume` sends it back to
the host that it began on.

The scheduler holds on to the tasks (fire and forget): whoever submits may leave.
"""

from __future__ import annotations

import importlib
import os
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from proofcost.bench_suites.cluster import folder as campaigns
from proofcost.bench_suites.cluster.folder import Campaign, CampaignError
from proofcost.bench_suites.cluster.states import Said, Seen

RESOURCE = "proofcost"
SCHEMES = ("tcp", "tls", "ws", "wss", "ucx", "ucxx")
SOCKETS = ("tcp", "tls", "ws", "wss")
CONNECT_S = 10
READY_S = 60
_TRY = """
import os, sys
from distributed import Client
try:
    Client(sys.argv[1], timeout=int(sys.argv[2]), set_as_default=False).close()
except Exception as error:
    print(str(error).split("\\n")[0] or type(error).__name__, flush=True)
    os._exit(1)  # what it has begun would be told of for long
os._exit(0)
"""
_AT_WORK = ("processing", "waiting", "queued", "released")
"""A task's states from which it goes on by itself; `processing` means handed to a worker, whose slot may be taken."""


def check_address(address: str) -> tuple[str, str, int]:
    """(scheme, host, port) of a scheduler's address. Raises CampaignError, which never shows a user or a password."""
    head, slashes, rest = address.partition("://")
    shown = f"{head}{slashes}{rest.rpartition('@')[2]}" if slashes else address.rpartition("@")[2]
    try:
        parts = urlsplit(address)
        host, port = parts.hostname, parts.port
    except ValueError:  # no number, or brackets that do not close
        host, port = None, None
    if head not in SCHEMES or not slashes or not host or not port or not shown.isprintable():
        raise CampaignError(
            f"--scheduler {shown[:200]!r}: no address of a Dask scheduler; give tcp://HOST:PORT (or "
            f"{', '.join(SCHEMES[1:])})"
        )
    if "@" in rest:
        raise CampaignError(f"--scheduler {shown}: given with a user or a password, which Dask has not; leave them out")
    return head, host, port


def connect(address: str) -> Any:
    """A client (distributed.Client) of that scheduler. Raises CampaignError where it does not answer."""
    scheme, host, port = check_address(address)
    if scheme in SOCKETS:
        # Asked first: the client tries for all of its time where nobody listens.
        try:
            socket.create_connection((host, port), CONNECT_S).close()
        except (OSError, UnicodeError) as error:
            why = getattr(error, "strerror", None) or str(error) or type(error).__name__
            raise _silent(address, why) from None
    _try(address)
    distributed: Any = importlib.import_module("distributed")  # it has types for some of its functions only
    try:
        return distributed.Client(address, timeout=CONNECT_S, set_as_default=False)
    except (OSError, ValueError, ImportError, TypeError) as error:
        raise _silent(address, str(error).split("\n")[0][:200] or type(error).__name__) from None


def _try(address: str) -> None:
    """Connect in a process of its own, which can be given up: a client of a port that accepts and says nothing never
    ends by itself (tcp), or tells twenty seconds later, in a trace, that it has not (tls). Raises CampaignError."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-c", _TRY, address, str(CONNECT_S)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=4 * CONNECT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _silent(address, f"something accepts there, and says nothing for {4 * CONNECT_S} s") from None
    if done.returncode:
        lines = done.stdout.decode("utf-8", "replace").splitlines()
        raise _silent(address, lines[-1][:200] if lines else f"trying ended with status {done.returncode}")


def _silent(address: str, why: str) -> CampaignError:
    return CampaignError(
        f"--scheduler {address}: no Dask scheduler answers there ({why}); start one with `dask scheduler`"
    )


def slots(client: Any) -> dict[str, str]:
    """{host: the worker's address} of those that offer a slot. Raises CampaignError."""
    workers: Mapping[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
    found: dict[str, str] = {}
    for address, worker in workers.items():
        if worker["resources"].get(RESOURCE, 0) >= 1:
            host = host_of(address)
            if host in found or worker["resources"][RESOURCE] >= 2:
                raise CampaignError(
                    f"host {host} offers more than one slot, and kernels there would run beside each other; start one "
                    f"worker a host with --resources {RESOURCE}=1"
                )
            found[host] = address
    if not found:
        raise CampaignError(
            f"none of {len(workers)} workers offers a slot; start one on each host: dask worker ADDRESS --nthreads 1 "
            f"--resources {RESOURCE}=1"
        )
    return found


def check(address: str) -> None:
    """Raises CampaignError where that scheduler has no slot, or is not there."""
    client = connect(address)
    try:
        slots(client)
    finally:
        client.close(timeout=CONNECT_S)


def host_of(address: str) -> str:
    """`10.0.0.7` of `tcp://10.0.0.7:40315`: what Dask takes for a host."""
    return urlsplit(address).hostname or address


def submit(
    address: str, folder: str, campaign: Campaign, submission: int, shards: Sequence[int], nodes: Mapping[int, str]
) -> list[str]:
    """Hand over shards; `nodes`: where one has to go back to, if there is a slot. Returns what is to be told.

    Raises CampaignError before anything was handed over.
    """
    distributed: Any = importlib.import_module("distributed")
    client = connect(address)
    try:
        found = slots(client)
        wrong: Mapping[str, str | None] = client.run(look_ready, folder, campaign.id, workers=list(found.values()))
        for worker, why in wrong.items():
            if why is not None:
                raise CampaignError(f"worker {worker}: {why}")
        _forget(client, campaign, shards)
        told, tasks = [], []
        for number in shards:
            node = nodes.get(number)
            if node is not None and node not in found:
                told.append(f"shard {number} began on {node}, where there is no slot now: it goes on elsewhere")
                node = None
            tasks.append(
                client.submit(
                    run_shard,
                    folder,
                    number,
                    submission,
                    key=key_of(campaign, submission, number),
                    resources={RESOURCE: 1},
                    workers=None if node is None else [node],
                    retries=0,
                    pure=False,
                )
            )
        distributed.fire_and_forget(tasks)
        return told
    except (OSError, RuntimeError, ModuleNotFoundError) as error:
        why = str(error).split("\n")[0][:200] or type(error).__name__
        raise CampaignError(f"--scheduler {address}: {why}; every worker needs this proofcost installed") from None
    finally:
        client.close(timeout=CONNECT_S)


def _forget(client: Any, campaign: Campaign, shards: Sequence[int]) -> None:
    """Take back what the scheduler still has of earlier submissions, waiting for a worker that does not come."""
    distributed: Any = importlib.import_module("distributed")
    keys = [
        key_of(campaign, at, number)
        for at, one in enumerate(campaign.submissions, 1)
        for number in one.shards
        if number in shards
    ]
    client.cancel([distributed.Future(key, client) for key in keys], force=True)


def key_of(campaign: Campaign, submission: int, number: int) -> str:
    return f"{campaign.name}-{submission}-shard-{number}"


def look(address: str, campaign: Campaign) -> dict[int, Said]:
    """{shard: what the scheduler says}. Raises CampaignError where it cannot be asked."""
    client = connect(address)
    try:
        found = {}
        for at, submission in enumerate(campaign.submissions, 1):
            for number in submission.shards:
                story = [one for one in client.story(key_of(campaign, at, number)) if one[0] == "scheduler"]
                found[number] = _said(story[-1] if story else None)
        return found
    except OSError as error:
        raise CampaignError(f"--scheduler {address}: {error}") from None
    finally:
        client.close(timeout=CONNECT_S)


def _said(last: Sequence[Any] | None) -> Said:
    """From the last transition of a task: (scheduler, key, from, to, ...)."""
    if last is None:
        return Said(Seen.GONE, "the scheduler knows nothing of it any more")
    if last[3] in _AT_WORK:
        return Said(Seen.WAITING)
    if last[3] == "no-worker":
        return Said(Seen.GONE, "no worker has a slot for it")
    return Said(Seen.GONE, "the scheduler has it no more")


def look_ready(folder: str, campaign_id: str) -> str | None:
    """On a worker: why it cannot run shards of this campaign; None when it can."""
    try:
        there = campaigns.read(folder).id
    except CampaignError as error:
        return f"{error}; the folder has to be on a file system that all workers share"
    return None if there == campaign_id else f"{folder} holds another campaign there ({there})"


def run_shard(folder: str, number: int, submission: int) -> int:
    """On a worker: run a shard to its end in a process of its own, which ends with the worker. Returns its status."""
    distributed: Any = importlib.import_module("distributed")
    node = host_of(distributed.get_worker().address)
    words = [sys.executable, "-P", "-m", "proofcost", "campaign", "run", folder, str(number), "--node", node]
    words += ["--submission", str(submission), "--stay", "--parent", str(os.getpid())]
    with open(campaigns.told(folder, number, "out"), "ab") as output:
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, check=False)
    return done.returncode
