"""An Indexed Job of Kubernetes: one pod a shard, on a node of its own, with CPUs that the static manager pins.

    completionMode Indexed       the index says which shard; each is one pod
    backoffLimitPerIndex 0       a shard is tried once, and one that fails ends no other
    podFailurePolicy             a pod that was evicted is no failure: it is made again, and goes on with its shard
    podReplacementPolicy Failed  but not before the old one has really ended: never two write to one store
    requests == limits           guaranteed quality of service; whole CPUs, or the static CPU manager pins none
    podAntiAffinity              no two pods of ours, of any campaign and namespace, on one node

All of it is on by default from Kubernetes 1.29 on. Nothing here needs a cluster, or kubectl.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any

from proofcost.bench_suites.cluster.folder import Campaign, CampaignError
from proofcost.bench_suites.cluster.options import Options
from proofcost.harness.store import is_inside

LABEL = "app.kubernetes.io/name"
OURS = "proofcost"
"""The label's value, and the key of a taint that our pods put up with: nodes that have it are for benches alone."""
SCRATCH = "/tmp"
INDEX = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
TERMINATION_S = 60
"""To end a kernel and write its record; SIGKILL comes then."""
POD_MEMORY_MIN_BYTES = 64 << 20
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_NAMESPACE = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL = re.compile(
    r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
    r"=([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
)


def check(options: Options, folder: str, cpus_needed: int, memory_limit_bytes: int | None, at_once: int) -> None:
    """`cpus_needed`: what runs at the same time, and the runner; `at_once`: kernels beside each other in a pod.

    Raises CampaignError.
    """
    if not options.image:
        raise CampaignError(
            "--on-cluster kubernetes: which image? Give --image NAME with proofcost and the kernels in it"
        )
    if options.image != options.image.strip() or not options.image.isprintable():
        raise CampaignError(f"--image {options.image[:60]!r}: no image's name")
    if options.namespace is not None and not _NAMESPACE.fullmatch(options.namespace):
        raise CampaignError(
            f"--namespace {options.namespace[:70]!r}: small letters, digits and `-`, as Kubernetes has them"
        )
    if not any(is_inside(folder, path) for _, path in claims(options)):
        raise CampaignError(
            f"-o {folder}: lies in no volume that pods mount; give --claim NAME=PATH with a PATH that it lies below"
        )
    if not folder.isprintable():
        raise CampaignError(f"-o {folder!r}: a manifest cannot hold such a path; choose another")
    selector(options)
    if options.cpus is not None and options.cpus < cpus_needed:
        raise CampaignError(
            f"--cpus {options.cpus}: the plan keeps {cpus_needed} busy at a time (threads, times those beside each "
            f"other, and the runner), and pinned to fewer they would wait for each other; give {cpus_needed} or more"
        )
    if options.pod_memory_bytes is None:
        raise CampaignError(
            "--on-cluster kubernetes: how much memory has a pod? Give --pod-memory M (what a kernel takes at most, and "
            "its export in the page cache)"
        )
    if options.pod_memory_bytes < POD_MEMORY_MIN_BYTES:
        raise CampaignError(
            f"--pod-memory: {options.pod_memory_bytes} bytes do not hold the runner itself; give 64Mi or more"
        )
    if memory_limit_bytes is not None and not options.privileged:
        raise CampaignError(
            f"the suite limits a kernel's memory ({memory_limit_bytes} bytes), which a pod can enforce only with "
            "--privileged; give that, or leave the limit out (the pod's own holds)"
        )
    if memory_limit_bytes is not None and options.pod_memory_bytes <= memory_limit_bytes * at_once:
        raise CampaignError(
            f"--pod-memory: {options.pod_memory_bytes} bytes are not more than the kernels may take together "
            f"({memory_limit_bytes * at_once}); give more"
        )


def claims(options: Options) -> list[tuple[str, str]]:
    """(claim, where it is mounted). Raises CampaignError."""
    found: list[tuple[str, str]] = []
    for word in options.claims:
        name, equals, path = word.partition("=")
        if not equals or not _NAME.fullmatch(name) or not path.startswith("/") or not path.isprintable():
            raise CampaignError(
                f"--claim {word[:80]!r}: not NAME=PATH; a claim's name has small letters, digits and dashes, the path "
                "is absolute"
            )
        if ":" in path:
            raise CampaignError(f"--claim {word[:80]!r}: Kubernetes mounts at no path with a colon")
        path = path.rstrip("/") or "/"
        if path == SCRATCH or path in [there for _, there in found]:
            raise CampaignError(f"--claim {word[:80]!r}: something else is mounted there; choose another path")
        found.append((name, path))
    return found


def selector(options: Options) -> dict[str, str]:
    """The nodes' labels of `--constraint KEY=VALUE[,KEY=VALUE]`. Raises CampaignError."""
    found = {}
    for word in (options.constraint or "").split(","):
        if word and not _LABEL.fullmatch(word):
            raise CampaignError(f"--constraint {word[:80]!r}: on Kubernetes the label of a node: KEY=VALUE")
        if word:
            key, _, value = word.partition("=")
            found[key] = value
    return found


def manifest(
    campaign: Campaign, folder: str, options: Options, shards: Sequence[int], submission: int
) -> dict[str, Any]:
    """The Job of these shards. Its pods see `folder` under the same path. `options` have passed `check`."""
    labels = {LABEL: OURS, "proofcost/campaign": campaign.id}
    amounts = {"cpu": str(options.cpus), "memory": str(options.pod_memory_bytes)}
    volumes, mounts = _volumes(options)
    pod: dict[str, Any] = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": TERMINATION_S,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        # Whoever owns the campaign's folder: a store that belongs to anybody else is refused.
        "securityContext": {
            "runAsUser": options.user,
            "runAsGroup": options.group,
            "runAsNonRoot": options.user != 0,
            **({} if options.privileged else {"seccompProfile": {"type": "RuntimeDefault"}}),
        },
        "tolerations": [{"key": OURS, "operator": "Exists"}],
        "affinity": {
            "podAntiAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": [
                    {
                        "labelSelector": {"matchLabels": {LABEL: OURS}},
                        "namespaceSelector": {},
                        "topologyKey": "kubernetes.io/hostname",
                    }
                ]
            }
        },
        "containers": [
            {
                "name": "bench",
                "image": options.image,
                "command": ["proofcost", "campaign", "run", _literal(folder)],
                "args": [
                    *("--submission", str(submission), "--index", "$(JOB_COMPLETION_INDEX)"),
                    *("--node", "$(NODE)", "--cpus", str(options.cpus)),
                ],
                "env": [
                    # Jobs put it there themselves, but only what is declared is sure to be put into a word.
                    {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": INDEX}}},
                    {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                    {"name": "HOME", "value": SCRATCH},
                ],
                "resources": {"requests": dict(amounts), "limits": dict(amounts)},
                "securityContext": _rights(options),
                "volumeMounts": mounts,
            }
        ],
        "volumes": volumes,
    }
    if found := selector(options):
        pod["nodeSelector"] = found
    if options.time_ns is not None:
        pod["activeDeadlineSeconds"] = -(-options.time_ns // 10**9)
    metadata: dict[str, Any] = {
        "name": f"{campaign.name}-{submission}",
        "labels": labels,
        "annotations": {"proofcost/suite": campaign.suite, "proofcost/plan-sha256": campaign.plan_sha256},
    }
    if options.namespace is not None:
        metadata["namespace"] = options.namespace
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": metadata,
        "spec": {
            "completions": len(shards),
            "parallelism": min(len(shards), options.at_once or len(shards)),
            "completionMode": "Indexed",
            "backoffLimitPerIndex": 0,
            "podReplacementPolicy": "Failed",
            "podFailurePolicy": {
                "rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}]
            },
            "template": {"metadata": {"labels": dict(labels)}, "spec": pod},
        },
    }


def apply_line(path: str) -> str:
    return f"kubectl apply -f {shlex.quote(path)}"


def file_of(folder: str, submission: int) -> str:
    return f"{folder}/job-{submission}.yaml"


def _literal(text: str) -> str:
    """A word of a command that Kubernetes leaves as it is: it would put variables in for $(NAME)."""
    return text.replace("$", "$$")


def _rights(options: Options) -> dict[str, Any]:
    """A meter of one user needs no right at all; one that limits memory must write to the pod's cgroup."""
    if options.privileged:
        return {"privileged": True}
    return {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


def _volumes(options: Options) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    volumes: list[dict[str, Any]] = [{"name": "scratch", "emptyDir": {}}]
    mounts: list[dict[str, Any]] = [{"name": "scratch", "mountPath": SCRATCH}]
    for at, (name, path) in enumerate(claims(options)):
        volumes.append({"name": f"claim-{at}", "persistentVolumeClaim": {"claimName": name}})
        mounts.append({"name": f"claim-{at}", "mountPath": path})
    return volumes, mounts
