"""A Harbor trial's `result.json`: what its verifier took."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from proofcost.adapters.foreign import FormatError, Head, Source, moment, put, text
from proofcost.harness.columns import Row

HELP = "Harbor: a trial's result.json (give the job's folder)"
MAPS = (
    ("task_name", "subject", "as it is"),
    ("trial_uri, trial_uid, source", "labels", "task source, trial name"),
    ("task_checksum", "input_sha256", "as it is"),
    ("verifier.started_at, finished_at", "wall_command, started_ns", "the difference; phase `whole`"),
    ("environment_setup, agent_setup, agent_execution", "wall_command, phase", "one row each, under their own names"),
    ("agent_info", "labels", "agent and model"),
    ("verifier_result.rewards", "verdict", "reward 1: accepted, 0: rejected"),
    ("exception_info.exception_type", "outcome, cause", "VerifierTimeoutError: timed_out, time_limit"),
)
UNKNOWN = (
    "memory, CPU and disk: Harbor keeps none; run the verifier's judge under `proofcost run` to get them",
    "the machine",
    "what the verifier spent on which phase",
)
DEFECTS = (
    "A verifier's time ends with its container's start-up and log collection in it.",
    "After a VerifierTimeoutError the time is where it was stopped: a lower bound.",
)
_PARTS = ("environment_setup", "agent_setup", "agent_execution", "verifier")


def fits(head: Head) -> bool:
    return head.opening == "{" and {"trial_name", "task_name"} <= head.keys and "trial_results" not in head.keys


def rows(source: Source) -> Iterator[Row]:
    document = source.document()
    if not isinstance(document, dict) or not isinstance(document.get("trial_name"), str):
        raise FormatError("no trial: `trial_name` is missing")
    exception = document.get("exception_info")
    kind = text(exception.get("exception_type")) if isinstance(exception, dict) else None
    for part in _PARTS:
        timing = document.get(part)
        if isinstance(timing, dict):
            yield _row(document, part, timing, kind)


def _row(document: dict[str, Any], part: str, timing: dict[str, Any], exception: str | None) -> Row:
    agent = document.get("agent_info")
    model = agent.get("model_info") if isinstance(agent, dict) else None
    said = {
        "trial": document.get("trial_name"),
        "source": document.get("source"),
        "agent": agent.get("name") if isinstance(agent, dict) else None,
        "model": model.get("name") if isinstance(model, dict) else None,
    }
    row: Row = {
        "subject": text(document.get("task_name")),
        "phase": "whole" if part == "verifier" else part,
        "input_sha256": text(document.get("task_checksum")),
        "labels": {key: str(value) for key, value in said.items() if value} or None,
        "started_ns": moment(timing.get("started_at")),
    }
    ended = moment(timing.get("finished_at"))
    took = None if ended is None or row["started_ns"] is None else ended - row["started_ns"]
    put(row, "wall_command", took if took is not None and took >= 0 else None, "no start, no end, or a clock set back")
    for column in ("memory_peak_tree", "cpu_tree"):
        put(row, column, None, "Harbor keeps none")
    if part == "verifier":
        row["outcome"] = "exited"
        if exception == "VerifierTimeoutError":
            row["outcome"], row["cause"] = "timed_out", "time_limit"
            if "wall_command" in row:
                row["weak"], row["defects"] = {"wall_command": "lower_bound"}, ["stopped at a time limit"]
        elif exception is not None:
            row["outcome"], row["verdict"] = None, "error"
        else:
            row["verdict"] = _verdict(document.get("verifier_result"))
    return row


def _verdict(result: Any) -> str | None:
    rewards = result.get("rewards") if isinstance(result, dict) else None
    reward = rewards.get("reward") if isinstance(rewards, dict) else rewards
    if isinstance(reward, bool) or reward is None:
        return None
    return "accepted" if reward == 1 else "rejected" if reward == 0 else None
