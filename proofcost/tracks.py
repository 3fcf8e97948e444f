"""A session's course as Perfetto's tracks: phases as slices, counters, the tree of processes, the host."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from proofcost.adapters.perfetto_trace import Clocks, Instant, Slice, Track, encode
from proofcost.harness.process_tree import Process
from proofcost.harness.timeline import Sample, Timeline, Totals
from proofcost.reports import rates
from proofcost.reports.course import Course, Passage, Span
from proofcost.reports.inert import inert

_SAMPLED: tuple[tuple[str, str, Callable[[Sample], int | None]], ...] = (
    ("memory", "what the tree holds, page cache included", lambda one: one.memory_bytes),
    ("memory: anonymous", "of the tree", lambda one: one.anon_bytes),
    ("memory: files", "page cache without shared memory", lambda one: one.file_bytes),
    ("memory: shared", "of the tree", lambda one: one.shmem_bytes),
)
_HOST: tuple[tuple[str, str, str], ...] = (
    ("busy", "CPUs", "host: CPUs busy"),
    ("steal", "CPUs", "host: CPUs taken by the hypervisor"),
    ("psi_cpu_some", "%", "host pressure: CPU, some wait"),
    ("psi_memory_some", "%", "host pressure: memory, some wait"),
    ("psi_memory_full", "%", "host pressure: memory, all wait"),
    ("psi_io_some", "%", "host pressure: I/O, some wait"),
    ("psi_io_full", "%", "host pressure: I/O, all wait"),
    ("swap_in", "bytes/s", "host: swapped in"),
    ("swap_out", "bytes/s", "host: swapped out"),
)


def perfetto_trace(course: Course) -> bytes:
    """The file for ui.perfetto.dev. Raises ImportError without the `perfetto` package."""
    begin, offset = course.begin_ns, course.boottime_offset_ns
    clocks = Clocks(begin + offset, begin, begin + course.realtime_offset_ns)
    return encode(tracks_of(course), clocks)


def tracks_of(course: Course) -> list[Track]:
    """Everything that is known of the course, on CLOCK_BOOTTIME."""
    made = _Maker(course.boottime_offset_ns)
    top = Track(f"session {inert(course.session, 40)}: {course.name}")
    top.instants = [made.absence(course.begin_ns, name, why) for name, why in course.left_out.items()]
    if course.whole is not None:
        top.tracks += made.lanes("whole", [made.passage_slices(course.whole)])
    top.tracks += made.lanes("calls", [made.passage_slices(one) for one in course.calls])
    meters = [[made.slice(span)] for one in course.passages for span in one.meter]
    top.tracks += made.lanes("our meters", meters)
    stragglers = [[made.slice(one.stragglers)] for one in course.passages if one.stragglers is not None]
    top.tracks += made.lanes("stragglers", stragglers)
    top.tracks += [made.passage(one) for one in course.passages]
    top.tracks.append(made.host(course))
    return [top]


class _Maker:
    """Makes tracks whose times are `offset` later than those of the course."""

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def slice(self, span: Span, **notes: str | int) -> Slice:
        return Slice(span.name, span.begin_ns + self.offset, span.end_ns + self.offset, notes)

    def absence(self, at_ns: int, what: str, why: str) -> Instant:
        return Instant(f"absent: {what}", at_ns + self.offset, {"reason": why})

    def passage_slices(self, one: Passage) -> list[Slice]:
        """The call, and in it the sandbox's start-up and the program."""
        notes: dict[str, str | int] = {"outcome": one.outcome, "invocation": inert(one.record.invocation, 80)}
        for name in ("wall_command", "cpu_tree", "memory_peak_tree"):
            figure = one.record.measurement(name)
            if figure is not None and figure.value is not None:
                notes[f"{name} ({figure.unit}, {figure.status})"] = figure.value
            elif figure is not None and figure.reason:
                notes[f"absent: {name}"] = inert(figure.reason, 200)
        notes |= {f"absent: {what}": why for what, why in one.absent.items()}
        whole = Slice(one.name, one.begin_ns + self.offset, one.end_ns + self.offset, notes)
        return [whole, *(self.slice(part) for part in one.parts)]

    def lanes(self, name: str, groups: Sequence[Sequence[Slice]]) -> list[Track]:
        """Groups of nested slices on as few tracks as they fit on without crossing."""
        lanes: list[tuple[Track, int]] = []
        for group in sorted(groups, key=lambda group: group[0].begin_ns):
            begin, end = min(one.begin_ns for one in group), max(one.end_ns for one in group)
            for at, (track, until) in enumerate(lanes):
                if until <= begin:
                    track.slices.extend(group)
                    lanes[at] = (track, end)
                    break
            else:
                title = name if not lanes else f"{name}, at the same time ({len(lanes) + 1})"
                lanes.append((Track(title, slices=list(group)), end))
        return [track for track, _ in lanes]

    def passage(self, one: Passage) -> Track:
        """All that was sampled of one call, and the reasons for what was not."""
        track = Track(one.name)
        track.instants = [self.absence(one.begin_ns, what, why) for what, why in one.absent.items()]
        timeline = one.timeline
        if timeline is None:
            return track
        track.tracks += self._memory(one, timeline)
        said = f"CPUs in use by the tree, from {inert(timeline.methods.get('cpu_ns', ''), 100)}"
        track.tracks += self._counter("CPU", "CPUs", rates.cores(one), one.end_ns, said)
        looks = timeline.looks
        counted = [(look.at_ns, look.processes_count) for look in looks]
        track.tracks += self._counter("processes", "count", counted, one.end_ns, "of the tree")
        threads = [(look.at_ns, sum(kept.threads_count or 0 for kept in look.kept)) for look in looks if look.kept]
        track.tracks += self._counter("threads", "count", threads, one.end_ns, "of the largest 64 processes")
        for name, title in (("read_bytes", "read from storage"), ("write_bytes", "written to storage")):
            speeds = rates.rate(((total.at_ns, total.values.get(name)) for total in timeline.io), 1e9)
            said = "by the tree, from the cgroup's io.stat"
            track.tracks += self._counter(title, "bytes/s", speeds, one.end_ns, said)
        if not timeline.io:
            why = "no v2 io controller here; each process below has its own"
            track.instants.append(self.absence(one.begin_ns, "I/O of the tree", why))
        free = [(sample.at_ns, sample.free_bytes) for sample in timeline.samples if sample.free_bytes is not None]
        track.tracks += self._counter("free disk space", "bytes", free, None, "least of the writable filesystems")
        if one.processes:
            track.tracks.append(self._tree(one.processes))
        return track

    def _memory(self, one: Passage, timeline: Timeline) -> list[Track]:
        made: list[Track] = []
        for title, what, pick in _SAMPLED:
            points = [(sample.at_ns, value) for sample in timeline.samples if (value := pick(sample)) is not None]
            said = f"{what}; {inert(timeline.methods.get('memory_bytes', ''), 100)}" if title == "memory" else what
            made += self._counter(title, "bytes", points, one.end_ns, said)
            if title == "memory" and points and one.limit_bytes is not None:
                limits = [(one.begin_ns, one.limit_bytes), (one.end_ns, one.limit_bytes)]
                made += self._counter("memory: limit", "bytes", limits, None, "in force for the call")
        return made

    def _counter(
        self, name: str, unit: str, points: Iterable[tuple[int, float]], end_ns: int | None, said: str
    ) -> list[Track]:
        """One counter; none without points. `end_ns`: what it counts is gone then, which 0 marks."""
        made = [(at + self.offset, value) for at, value in points]
        if not made:
            return []
        if end_ns is not None:
            made = [(at, value) for at, value in made if at < end_ns + self.offset]
            made.append((end_ns + self.offset, 0))
            said += "; 0 marks the end"
        return [Track(name, said, unit, points=made)]

    def _tree(self, processes: Sequence[Process]) -> Track:
        """Each process below its parent."""
        top = Track("process tree")
        tracks: dict[int, Track] = {}
        for one in processes:
            tracks[id(one)] = self._process(one)
        for one in processes:
            above = top if one.parent is None else tracks[id(one.parent)]
            above.tracks.append(tracks[id(one)])
        return top

    def _process(self, one: Process) -> Track:
        title = inert(one.names[-1][1], 40) if one.names else "(forked, executed nothing)"
        until = max(one.until_ns, one.began_ns)
        notes: dict[str, str | int] = {"pid": one.pid, "start known by": one.began_known_by}
        if one.parent_pid is not None:
            notes["parent pid"] = one.parent_pid
        if one.ended_ns is None:
            notes["absent: end"] = "not stamped: shown up to the last look at it"
        life = Slice(f"{title} {one.pid}", one.began_ns + self.offset, until + self.offset, notes)
        track = Track(f"{title} {one.pid}", slices=[life])
        for at, (since, name) in enumerate(one.names if len(one.names) > 1 else ()):
            end = one.names[at + 1][0] if at + 1 < len(one.names) else until
            begin = min(max(since, one.began_ns), until)
            track.slices.append(Slice(inert(name, 40), begin + self.offset, max(begin, min(end, until)) + self.offset))
        seen = [(sample.at_ns, sample) for sample in one.samples]
        resident = [(at, sample.resident_bytes) for at, sample in seen if sample.resident_bytes is not None]
        track.tracks += self._counter("resident memory", "bytes", resident, until, "VmRSS")
        track.tracks += self._counter(
            "CPU",
            "CPUs",
            rates.rate([(one.began_ns, 0), *((at, sample.cpu_ns) for at, sample in seen)]),
            until,
            "user and system",
        )
        for name, pick in (("read", "read_bytes"), ("written", "write_bytes")):
            totals = [(at, value) for at, sample in seen if (value := getattr(sample, pick)) is not None]
            if any(value for _, value in totals):
                track.tracks += self._counter(f"{name} so far", "bytes", totals, None, "from and to storage")
        return track

    def host(self, course: Course) -> Track:
        """What else the machine did, from the timeline of the whole, else from those of the calls."""
        track = Track("host")
        whole = course.whole
        sources = [whole] if whole is not None and whole.timeline is not None else course.calls
        totals: list[Totals] = sorted(
            (total for one in sources if one.timeline is not None for total in one.timeline.host),
            key=lambda total: total.at_ns,
        )
        for name, unit, title in _HOST:
            points = rates.host(totals, name)
            if unit == "%":
                points = [(at, 100 * value) for at, value in points]
            track.tracks += self._counter(title, unit, points, course.end_ns, "of the whole host")
            if totals and not points:
                track.instants.append(
                    self.absence(course.begin_ns, title, "this host does not tell, or one look alone")
                )
        if not totals:
            track.instants.append(self.absence(course.begin_ns, "host", "nothing was sampled in this session"))
        return track
