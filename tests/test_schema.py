"""The schema says what docs/record.md says, no less and no more, and refuses what a record must not hold."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from fixtures import made

from proofcost.adapters import kernel_timing

ROOT = Path(__file__).parent.parent
SCHEMA: dict[str, Any] = json.loads((ROOT / "harness" / "record_v1.schema.json").read_text("ascii"))
VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)
TEXT = (ROOT / "docs" / "record.md").read_text("utf-8")
ENVELOPE = {"schema", "event", "invocation", "session"}
"""Stands in every event; docs/record.md names it once, for `started`."""

ADDED_LATER = {"bench", "trace", "relay", "capture", "regions"}
"""Fields that records of version 1 from before them do not have, or that stand only where they were asked for."""

Place = dict[str, Any]


def errors(event: Any) -> list[str]:
    return [f"{error.json_path}: {error.message}" for error in VALIDATOR.iter_errors(event)]


def resolved(node: Place) -> Place:
    """`node`, or what it refers to."""
    while "$ref" in node:
        node = SCHEMA["$defs"][node["$ref"].rsplit("/", 1)[1]]
    return node


def section(title: str) -> str:
    found = re.search(rf"^## {re.escape(title)}$(.*?)(?=^## |\Z)", TEXT, re.M | re.S)
    assert found, title
    return found.group(1)


def documented(event: str) -> dict[str, str]:
    """Field -> what docs/record.md says about it."""
    text = section(f"Fields of `{event}`")
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.M))
    return rows if rows else dict.fromkeys(re.findall(r"`(clocks|settled_by|stragglers|measurements)`", text), text)


def ticked(text: str) -> set[str]:
    """Every word in backticks that could be a field's name; paths are none."""
    return set(re.findall(r"[a-z_0-9]+", " ".join(re.findall(r"`([^`/]*)`", text))))


def below(node: Place) -> Iterator[tuple[str, Place]]:
    """Names and schemas of the fields of `node`, at any depth, shared shapes left out."""
    for name, inner in node.get("properties", {}).items():
        yield name, inner
        yield from below(inner)
    for key in ("items", "additionalProperties"):
        if isinstance(node.get(key), dict):
            yield from below(node[key])


@pytest.mark.parametrize("event", ["started", "finished", "settled"])
def test_the_schema_has_exactly_the_documented_fields(event: str) -> None:
    names = set(SCHEMA["$defs"][event]["properties"])
    assert names - ENVELOPE == set(documented(event)) - ENVELOPE
    assert names >= ENVELOPE
    assert set(SCHEMA["$defs"][event]["required"]) == names - ADDED_LATER


@pytest.mark.parametrize("event", ["started", "finished"])
def test_every_part_of_a_field_is_named_in_its_row_of_the_document(event: str) -> None:
    for field, meaning in documented(event).items():
        node = SCHEMA["$defs"][event]["properties"][field]
        parts = {name for name, _ in below(node)}
        if field in ("argv", "subject", "judge_config", "target", "kernel", "stragglers", "exec_stamps", "cgroup"):
            parts |= {name for name, _ in below(resolved(node))}
        # "null with reason" is said once for the whole record (Encoding), not in each row
        missing = parts - ticked(meaning) - {"reason"}
        assert not missing, f"{event}.{field}: in the schema, not in docs/record.md: {sorted(missing)}"


@pytest.mark.parametrize("event", ["started", "finished"])
def test_every_part_named_in_the_document_is_in_the_schema(event: str) -> None:
    for field, meaning in documented(event).items():
        if field in ENVELOPE:
            continue
        node = SCHEMA["$defs"][event]["properties"][field]
        whole = json.dumps([node, resolved(node), SCHEMA["$defs"]["limit"], SCHEMA["$defs"]["ratio"]])
        known = set(re.findall(r"[a-z_0-9]+", whole))
        missing = ticked(meaning) - known - {"module", "run", "bench", "leaneval", "timer", "checker", "whole", "l"}
        assert not missing, f"{event}.{field}: in docs/record.md, not in the schema: {sorted(missing)}"


def test_enumerations_are_the_documents() -> None:
    statuses = SCHEMA["$defs"]["measurement"]["properties"]["status"]["enum"]
    assert re.findall(r"^\| `(\w+)` \|", section("A measurement"), re.M) == statuses
    causes = SCHEMA["$defs"]["finished"]["properties"]["outcome"]["properties"]["cause"]["enum"]
    said = re.search(r"`cause` is one of: (.*?)\.\s", TEXT, re.S)
    assert said
    assert re.findall(r"`(\w+)`", said.group(1)) == causes


def test_every_field_has_a_meaning_of_one_sentence() -> None:
    def visit(where: str, node: Any) -> Iterator[str]:
        if isinstance(node, dict):
            for name, inner in node.get("properties", {}).items() if "description" in node else ():
                text = inner.get("description", "")
                if not (text.endswith((".", ";")) and 10 <= len(text) <= 330):
                    yield f"{where}.{name}: {text!r}"
            for key, inner in node.items():
                yield from visit(f"{where}.{key}", inner)
        elif isinstance(node, list):
            for inner in node:
                yield from visit(where, inner)

    assert list(visit("", SCHEMA)) == []


def test_the_schema_is_one() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize("path", sorted(made.RECORDS.rglob("*.jsonl")), ids=lambda path: path.name)
def test_kept_records_are_valid(path: Path) -> None:
    for line in path.read_text("ascii").splitlines():
        assert errors(json.loads(line)) == []


def test_made_events_are_valid() -> None:
    for event in (made.started(), made.started("w", "whole"), made.finished(), made.settled(), COPIED()):
        assert errors(event) == []


def test_unknown_keys_are_allowed_everywhere() -> None:
    started, finished = made.example()
    extra = {"new": {"x": 1}}
    assert errors({**started, **extra, "host": {**started["host"], **extra}}) == []
    wall = {**finished["measurements"]["wall_command"], **extra}
    assert errors({**finished, "measurements": {"wall_command": wall}}) == []


def at(event: made.Event, path: str, value: Any) -> made.Event:
    """`event` with `value` at the slashed `path`; `...` takes the key away."""
    *way, last = (int(key) if key.isdecimal() else key for key in path.split("/"))
    node: Any = event
    for key in way:
        node = node[key]
    if value is ...:
        del node[last]
    else:
        node[last] = value
    return event


START, END = (lambda: made.example()[0]), (lambda: made.example()[1])
FIGURE = "measurements/cpu_tree"


def COPIED() -> made.Event:  # noqa: N802  # stands beside START and END
    """A `finished` of a call whose output passed through us."""
    relay = {"streams": ["stdout"], "state": "ended", "passed_bytes": 9, "cpu_ns": 10**6, "errno": None}
    capture = {"path": "/run/x", "kept": False, "size_bytes": None, "reason": "the command printed nothing"}
    line = kernel_timing.read_line(b'KERNEL_TIMING={"wall_ns":1,"phase":"complete"}').as_json()
    regions = {"count": 1, "lines": [line], "contradictions": []}
    return {**made.example()[1], "relay": relay, "capture": capture, "regions": regions}


CORRUPTIONS: list[tuple[Callable[[], made.Event], str, Any]] = [
    (START, "schema", 2),
    (START, "schema", ...),
    (START, "event", "paused"),
    (START, "event", ...),
    (START, "invocation", "../../etc/passwd"),
    (START, "invocation", 7),
    (START, "session", ""),
    (START, "session_known_by", "guess"),
    (START, "meter/digest_reason", ...),
    (START, "meter/policy", "maybe"),
    (START, "meter/metric_definitions", 0),
    (START, "phase", None),
    (START, "phase/known_by", "magic"),
    (START, "labels/k", 1),
    (START, "argv/head/0", "a\nb"),
    (START, "argv/head/0", "a\x7fb"),
    (START, "argv/head/0", "lone \\ backslash"),
    (START, "argv/head/0", "\\x0"),
    (START, "argv/count", -1),
    (START, "argv/count", 1.5),
    (START, "argv/sha256", "beef"),
    (START, "sandbox/kind", "docker"),
    (START, "sandbox/enforced", "yes"),
    (START, "target/sha256", None),
    (START, "inputs/0/size_bytes", "12"),
    (START, "limits/cgroup_memory_bytes/reason", None),
    (START, "limits/effective_cpus", 2.5),
    (START, "limits/effective_cpus/denominator", 0),
    (START, "clocks/realtime_ns", 1 << 63),
    (START, "clocks/boottime_ns", None),
    (START, "trust", "full"),
    (START, "cgroup/kind", "v3"),
    (START, "import", 1),
    (END, f"{FIGURE}/value", 1.5),
    (END, f"{FIGURE}/value", None),
    (END, f"{FIGURE}/value", "5"),
    (END, f"{FIGURE}/value", True),
    (END, f"{FIGURE}/status", "guessed"),
    (END, f"{FIGURE}/status", "lower_bound"),
    (END, f"{FIGURE}/status", "contradicted"),
    (END, f"{FIGURE}/status", "unavailable"),
    (END, f"{FIGURE}/unit", "ms"),
    (END, f"{FIGURE}/method", ...),
    (END, FIGURE, 7),
    (END, "measurements/instructions:u/reason", None),
    (END, "measurements/instructions:u/value", 0),
    (END, "outcome/kind", "ok"),
    (END, "outcome/code", None),
    (END, "outcome/code", 256),
    (END, "outcome/signal", 9),
    (END, "outcome/kind", "signaled"),
    (END, "outcome/cause", "rejected"),
    (END, "outcome/evidence", []),
    (END, "stragglers/count", None),
    (END, "stragglers/action", "ignored"),
    (END, "exec_stamps/names", ["n"] * 9),
    (END, "exec_stamps/count", None),
    (END, "host_disturbance/steal/value", None),
    (END, "faults", None),
    (COPIED, "relay/state", "done"),
    (COPIED, "relay/streams", []),
    (COPIED, "relay/passed_bytes", -1),
    (COPIED, "capture/reason", None),
    (COPIED, "capture/kept", None),
    (COPIED, "regions/lines/0/wall_ns", 1.5),
    (COPIED, "regions/contradictions", None),
    (made.settled, "settled_by", "nobody"),
    (made.settled, "measurements", {"cpu_tree": {}}),
]


@pytest.mark.parametrize(("make", "path", "value"), CORRUPTIONS, ids=[f"{p}={v!r}"[:60] for _, p, v in CORRUPTIONS])
def test_a_corrupt_event_is_refused(make: Callable[[], made.Event], path: str, value: Any) -> None:
    assert errors(make()) == []
    assert errors(at(make(), path, value)) != [], f"{path} = {value!r} was accepted"
