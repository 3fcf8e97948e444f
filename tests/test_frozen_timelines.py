"""Timelines that a released version wrote read for ever, with the same samples."""

import xml.etree.ElementTree as ET
from pathlib import Path

from proofcost.harness.process_tree import processes
from proofcost.harness.reading import read_store
from proofcost.harness.timeline import path_beside, read_timeline
from proofcost.reports.course import course_of
from proofcost.reports.picture import picture

TIMELINES = Path(__file__).parent / "fixtures" / "records" / "timeline-0.1.0"
"""One `proofcost run --memory 150M` of the stand-in comparator with real landrun, nanoda and sokonanoda."""
SHORT = "the command ended before the first sample"

SAMPLED = [
    # phase, kernel, samples, largest memory bytes, last CPU ns, looks, stamps, processes
    ("whole", None, 50, 115052544, 1445819000, 6, 67, 19),
    ("challenge-build", None, SHORT),
    ("challenge-export", None, SHORT),
    ("build", None, SHORT),
    ("export", None, SHORT),
    ("checker", "nanoda", 26, 15499264, 801875000, 3, 5, 1),
    ("checker", "sokonanoda", 11, 74166272, 313011000, 2, 5, 1),
]


def test_timelines_of_0_1_0_read_as_they_were_sampled() -> None:
    store = read_store(TIMELINES)
    assert not store.problems
    seen: list[tuple[object, ...]] = []
    for record in store.records:
        assert record.finished is not None
        told = record.finished["trace"]
        if told["samples_count"] is None:
            seen.append((record.phase, record.kernel, told["reason"]))
            continue
        path = path_beside(record.path)
        assert path is not None
        found = read_timeline(path)
        assert (found.problems, found.ended_ns) == ({}, record.finished["clocks"]["monotonic_ns"])
        assert told == {"samples_count": len(found.samples), "size_bytes": Path(path).stat().st_size, "reason": None}
        clocks = record.started["clocks"]
        tree = processes(found, clocks["boottime_ns"] - clocks["monotonic_ns"])
        assert all(one.ended_ns is not None for one in tree if record.phase == "checker")
        memory = max(sample.memory_bytes or 0 for sample in found.samples)
        counts = (len(found.looks), len(found.stamps), len(tree))
        seen.append((record.phase, record.kernel, len(found.samples), memory, found.samples[-1].cpu_ns, *counts))
    assert seen == SAMPLED


def texts(svg: bytes) -> list[str | None]:
    return [node.text for node in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}text")]


def test_the_picture_in_the_documents_is_of_that_session() -> None:
    records = read_store(TIMELINES).records
    kept = TIMELINES.parents[3] / "docs" / "timeline.svg"
    assert texts(picture(course_of(records, records))) == texts(kept.read_bytes())
