"""`KERNEL_TIMING=` lines: what a timer says of the region that it timed itself (the Lean Kernel Challenge's judge).

A line is `KERNEL_TIMING=` and a JSON object on one line of stdout. Its figures are the program's own word, kept apart
from ours (`…_region`), and each is held against what we measured around the whole program: what cannot be is
`contradicted`, never silently believed. Bounded: so many lines of so many bytes; what is more is counted.

Its instructions are user and kernel, of one thread: they are not `instructions:u` and never compare with it.
"""

from proofcost.harness import figures, parse, perf, record, relay
from proofcost.harness.record import CONTRADICTED, MEASURED, Json, measurement, unavailable

PREFIX = b"KERNEL_TIMING="
LINE_MAX_BYTES = 2048
LINES_MAX = 4
# What a record keeps of a line and of a name in it, so that the room that was reserved for the record holds it.
TEXT_KEPT_BYTES, NAME_KEPT_BYTES = 256, 256
COMPLETE = "complete"

_UNITS = {"wall_region": "ns", "instructions_region": "count", "memory_peak_region": "bytes"}
_BYTES_PER_KB = 1024  # VmHWM's "kB"
# The program's clock may not be the very one that ours is: 1 ms and 1 per thousand.
_CLOCK_SLACK_NS, _CLOCK_SLACK_PER_MILLE = 1_000_000, 1
# No processor retires more (8 a cycle at 8 GHz): how many its time in the kernel can have added to user mode's.
_INSTRUCTIONS_PER_NS_MAX = 64
# The kernel's running totals of resident pages are kept per thread and may lag behind by this much.
_RESIDENT_SLACK_BYTES = 4 << 20


class LineTap(relay.Tap):
    """Keeps the lines that start with PREFIX, in a stream of any size and with lines of any length."""

    def __init__(self) -> None:
        self._head = b""  # of a line that may be one of ours
        self._passing = False  # inside a line that is none
        self._count = 0
        self._kept: list[bytes] = []

    def take(self, data: bytes) -> None:
        if self._passing:
            end = data.find(b"\n")
            if end < 0:
                return
            data = data[end + 1 :]
        else:
            data = self._head + data
        self._head, self._passing = b"", False
        at = 0  # a line's start
        while True:
            if not data.startswith(PREFIX, at):
                before = data.find(b"\n" + PREFIX, at)
                if before < 0:
                    break
                at = before + 1
            end = data.find(b"\n", at)
            if end < 0:
                break
            self._keep(data[at:end])
            at = end + 1
        rest = data[max(at, data.rfind(b"\n") + 1) :]
        if len(rest) > LINE_MAX_BYTES and rest.startswith(PREFIX):
            self._keep(rest)
            self._passing = True
        elif rest.startswith(PREFIX) or PREFIX.startswith(rest):
            self._head = rest
        else:
            self._passing = True

    def _keep(self, line: bytes) -> None:
        self._count += 1
        if len(self._kept) < LINES_MAX:
            self._kept.append(line[: LINE_MAX_BYTES + 1])

    def report(self) -> dict[str, Json]:
        if self._head.startswith(PREFIX):  # a last line without an end
            self._keep(self._head)
            self._head = b""
        return {"count": self._count, "lines": [line.hex() for line in self._kept]}


class Region:
    """One line: the figures in it (None: not told), or what is wrong with it."""

    __slots__ = ("boundary", "contract", "instructions", "peak_bytes", "problem", "target", "text", "wall_ns")

    def __init__(self, text: str) -> None:
        self.text = text
        self.boundary: str | None = None
        self.contract: str | None = None
        self.target: str | None = None
        self.wall_ns: int | None = None
        self.instructions: int | None = None
        self.peak_bytes: int | None = None
        self.problem: str | None = None

    def as_json(self) -> dict[str, Json]:
        """One of the record's `regions.lines`."""
        texts = {"boundary": self.boundary, "contract": self.contract, "target": self.target, "problem": self.problem}
        return {
            **{name: None if text is None else _kept(text) for name, text in texts.items()},
            "wall_ns": self.wall_ns,
            "instructions_count": self.instructions,
            "peak_rss_bytes": self.peak_bytes,
            "text": self.text,
        }


def _kept(text: str) -> str:
    return record.escape(text.encode()[:NAME_KEPT_BYTES].decode(errors="ignore").encode())


def read_line(line: bytes) -> Region:
    """What a line says. Never raises: what is wrong with it is its `problem`."""
    region = Region(record.escape(line[:TEXT_KEPT_BYTES]))
    try:
        if len(line) > LINE_MAX_BYTES:
            raise ValueError(f"longer than {LINE_MAX_BYTES} bytes")
        said = parse.loads(line[len(PREFIX) :])
        if not isinstance(said, dict):
            raise ValueError("no JSON object")
        contract = said.get("measurement_contract")
        region.contract = contract if contract is None or isinstance(contract, str) else record.dumps(contract)
        region.boundary = _text(said, "boundary")
        region.target = _text(said, "target")
        region.wall_ns = _natural(said, "wall_ns")
        region.instructions = _natural(said, "instructions")
        peak = _natural(said, "peak_rss_kb")
        region.peak_bytes = None if peak is None else peak * _BYTES_PER_KB
        if not region.wall_ns:
            raise ValueError("wall_ns is missing or 0")
        if said.get("phase") != COMPLETE:
            raise ValueError(f"phase is {record.dumps(said.get('phase'))[:40]}, not {COMPLETE}")
    except ValueError as error:
        region.problem = str(error)
    return region


def _text(said: dict[str, Json], name: str) -> str | None:
    value = said.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"{name} is no text")
    return value


def _natural(said: dict[str, Json], name: str) -> int | None:
    value = said.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 53:
        raise ValueError(f"{name} is {record.dumps(value)[:40]}, no integer from 0 to 2^53")
    return value


def add(table: figures.Figures, report: dict[str, Json] | None) -> dict[str, Json]:
    """`put` with what the process that passed the stream on reported (LineTap.report in a relay's report)."""
    tap = None if report is None else report.get("tap")
    lines, count = (None, None) if not isinstance(tap, dict) else (tap.get("lines"), tap.get("count"))
    if not isinstance(lines, list) or not isinstance(count, int):
        for name, unit in _UNITS.items():
            table[name] = unavailable(unit, "reported by the program", "who passed its output on did not say")
        return {"count": None, "lines": [], "contradictions": []}
    return put(table, [bytes.fromhex(line) for line in lines if isinstance(line, str)], count)


def put(table: figures.Figures, lines: list[bytes], count: int) -> dict[str, Json]:
    """Add the region's measurements to `table`, which has ours already; returns the record's `regions`.

    `lines` are those that were kept, `count` how many there were.
    """
    regions = [read_line(line) for line in lines]
    sound = next((region for region in regions if region.problem is None), None)
    doubts = _of_all(lines, regions, count)
    said: list[Json] = [*doubts]
    if sound is None:
        why = "the program printed no KERNEL_TIMING line" if not count else f"KERNEL_TIMING: {regions[0].problem}"
        for name, unit in _UNITS.items():
            table[name] = unavailable(unit, "reported by the program", record.escape_text(why))
    else:
        method = "reported by the program (KERNEL_TIMING, {})".format(
            "boundary not named" if sound.boundary is None else _kept(sound.boundary)
        )
        for name, value, doubt_of in (
            ("wall_region", sound.wall_ns, _wall_doubt),
            ("instructions_region", sound.instructions, _instructions_doubt),
            ("memory_peak_region", sound.peak_bytes, _peak_doubt),
        ):
            unit = _UNITS[name]
            if not value:
                why = "the program did not report it" if value is None else "the program reported 0: not counted"
                table[name] = unavailable(unit, method, why)
                continue
            own = doubt_of(table, value)
            reasons = doubts if own is None else [*doubts, own]
            said += [] if own is None else [own]
            table[name] = measurement(
                value, unit, method, CONTRADICTED if reasons else MEASURED, "; ".join(reasons) or None
            )
    return {"count": count, "lines": [region.as_json() for region in regions], "contradictions": said}


def _of_all(lines: list[bytes], regions: list[Region], count: int) -> list[str]:
    """What speaks against every figure: one region has one line."""
    doubts = []
    if count > 1:
        alike = count == len(lines) and len(set(lines)) == 1
        doubts.append(f"the program printed {count} KERNEL_TIMING lines" + (", all alike" if alike else ""))
    problems = [region.problem for region in regions if region.problem is not None]
    return doubts + [f"a KERNEL_TIMING line cannot be taken: {record.escape_text(problem)}" for problem in problems]


def _value(table: figures.Figures, name: str, status: str | None = None) -> int | None:
    figure = table.get(name)
    value = None if figure is None or (status is not None and figure["status"] != status) else figure["value"]
    return value if isinstance(value, int) else None


def _wall_doubt(table: figures.Figures, value: int) -> str | None:
    wall = _value(table, "wall_command")
    if wall is None or value <= wall + _CLOCK_SLACK_NS + wall * _CLOCK_SLACK_PER_MILLE // 1000:
        return None
    return f"the whole command took {wall} ns, a part of it cannot have taken {value}"


def _instructions_doubt(table: figures.Figures, value: int) -> str | None:
    ours = table.get("instructions:u")
    if ours is not None and ours["reason"] == perf.REASON_NOT_SUPPORTED:
        return "this host offers no counter of instructions (counter_not_supported), so nobody can have read one"
    user = _value(table, "instructions:u", MEASURED)
    name = "cpu_tree" if _value(table, "cpu_tree", MEASURED) is not None else "cpu_waited"
    if user is None:
        cpu = _value(table, name, MEASURED)
        if cpu is None or value <= cpu * _INSTRUCTIONS_PER_NS_MAX:
            return None
        return f"no processor retires {value} instructions in {cpu} ns"
    system = _value(table, name + "_system", MEASURED)
    if system is None or value <= user + system * _INSTRUCTIONS_PER_NS_MAX:
        return None
    return f"the whole command took {user} in user mode, and {system} ns in the kernel cannot add the rest of {value}"


def _peak_doubt(table: figures.Figures, value: int) -> str | None:
    peak = _value(table, "memory_peak_process", MEASURED)
    if peak is None or value <= peak + _RESIDENT_SLACK_BYTES:
        return None
    return f"its largest process had {peak} bytes at its peak, a part of its run cannot have had {value}"
