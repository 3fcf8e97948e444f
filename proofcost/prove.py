"""`proofcost doctor --prove`: is a judge harmed by our standing between it and its sandbox? Bare against wrapped.

Every planted call (prove_cases.py) is made three times from the same caller's state, with the same files and pipes:
twice bare and once through an entrance. What differs between the two bare calls (a kernel that prints its own speed) is
no fault of ours and is not compared; all else must be alike: status, every byte of both streams, and what the program
finds. One line a comparison. Exit 0: all alike; 1: a difference, named; 2: a wrong call.
"""

import argparse
import dataclasses
import json
import os
import re
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from proofcost import doctor, install
from proofcost.adapters import launchers
from proofcost.doctor_seen import Tool, Tried
from proofcost.harness import policy, signals, whole
from proofcost.harness.record import Json, escape_text
from proofcost.meter_copy import copy_meter
from proofcost.prove_call import ENDING, Planted, Seen, State, call, streams_for
from proofcost.prove_cases import Case, Sandbox, for_kernels, for_sandbox, sandboxes
from proofcost.run import launcher_directory

SCHEMA = 1
EQUAL, DIFFERENT, USAGE = 0, 1, 2
# Launchers that are called as `NAME --phase PHASE -- COMMAND`; every other one stands in the place of the sandbox it is
# named after.
ADAPTERS = ("phase",)
PHASE = "prove"
_SHOWN_BYTES = 24
_ATTEMPTS = 3


@dataclass(frozen=True)
class Entrance:
    """A launcher to be proven. `store`: where its records go, None where they are not looked at."""

    name: str
    path: str
    store: Path | None = None

    def argv(self, case: Case) -> list[str]:
        if self.name in ADAPTERS:
            return [self.path, "--phase", PHASE, "--", *case.argv]
        return [self.path, *case.argv[1:]]

    def carries(self, sandbox: Sandbox) -> bool:
        return self.name in ADAPTERS or self.name == sandbox.name


@dataclass
class Compared:
    """One comparison: what differed (nothing, where all is alike), and what was looked at."""

    entrance: str
    sandbox: str
    case: str
    looked_at: str
    differences: list[str] = field(default_factory=list)
    skipped: bool = False

    def as_line(self) -> str:
        if self.skipped:
            return f"{'skipped':8}{self.entrance:9}not compared: {self.looked_at}"
        head = f"{'DIFFERS' if self.differences else 'equal':8}{self.entrance:9}{self.sandbox}: {self.case}"
        return f"{head}: {'; '.join(self.differences) if self.differences else self.looked_at}"

    def as_json(self) -> dict[str, Json]:
        return {
            "entrance": self.entrance,
            "sandbox": self.sandbox,
            "case": self.case,
            "looked_at": self.looked_at,
            "skipped": self.skipped,
            "differences": list(self.differences),
        }


def differing_bytes(name: str, bare: bytes, wrapped: bytes) -> list[str]:
    """How two streams differ; nothing when they do not."""
    if bare == wrapped:
        return []
    at = next((at for at, (one, other) in enumerate(zip(bare, wrapped, strict=False)) if one != other), None)
    at = min(len(bare), len(wrapped)) if at is None else at
    shown = [repr(text[at : at + _SHOWN_BYTES])[1:] for text in (bare, wrapped)]
    return [
        f"{name}: {len(bare)} bytes bare, {len(wrapped)} wrapped, from byte {at} on {shown[0]} bare, {shown[1]} wrapped"
    ]


def _entries(state: State, kind: str) -> list[str]:
    return [value for name, value in state.items() if name.startswith(kind + " ")]


def differing_lists(kind: str, bare: State, wrapped: State) -> list[str]:
    """How arguments or environment differ, entry by entry."""
    one, other = _entries(bare, kind), _entries(wrapped, kind)
    if one == other:
        return []
    lost, added = Counter(one) - Counter(other), Counter(other) - Counter(one)
    told = [f"{kind} {entry!r} is missing" for entry in lost.elements()]
    told += [f"{kind} {entry!r} was added" for entry in added.elements()]
    return told or [f"{kind}s stand in another order"]


def differing_state(bare: State, again: State, wrapped: State) -> list[str]:
    """How what the program finds differs, fact by fact."""
    found = [told for kind in ("argument", "variable") for told in differing_lists(kind, bare, wrapped)]
    lists = ("argument ", "variable ")
    for name in {**bare, **wrapped}:
        one, other = bare.get(name), wrapped.get(name)
        if one == other or name.startswith(lists) or one != again.get(name):
            continue
        if one is None:
            found.append(f"{name} was added: {other}")
        elif other is None:
            found.append(f"{name} is missing: {one}")
        else:
            found.append(f"{name}: {one} bare, {other} wrapped")
    return found


_DIGITS = re.compile(rb"[0-9]+")


def differing_streams(name: str, bare: bytes, again: bytes, wrapped: bytes) -> list[str]:
    """How a stream differs, as far as two bare calls agree on it: else without its numbers (times, process ids), else
    not at all."""
    if bare == again:
        return differing_bytes(name, bare, wrapped)
    one, other, third = (_DIGITS.sub(b"0", text) for text in (bare, again, wrapped))
    return differing_bytes(f"{name} without its numbers", one, third) if one == other else []


def _how_compared(name: str, bare: bytes, again: bytes) -> str:
    if bare == again:
        return f"{len(bare)} bytes of {name}"
    alike = _DIGITS.sub(b"0", bare) == _DIGITS.sub(b"0", again)
    return f"{name} without its numbers" if alike else f"{name} not compared: two bare calls differ"


def _status(seen: Seen) -> str:
    return "no end" if seen.code is None else str(seen.code)


def compare(bare: Seen, again: Seen, wrapped: Seen) -> list[str]:
    """Every way in which the wrapped call differs from the bare ones. A death by signal n and exit 128+n are alike: so
    it is agreed with judges."""
    found = []
    if bare.code != wrapped.code or wrapped.code is None:
        found.append(f"status: {_status(bare)} bare, {_status(wrapped)} wrapped")
    found += differing_streams("stdout", bare.stdout, again.stdout, wrapped.stdout)
    found += differing_streams("stderr", bare.stderr, again.stderr, wrapped.stderr)
    if bare.unread != wrapped.unread:
        found.append(f"state: {bare.unread or 'read'} bare, {wrapped.unread or 'read'} wrapped")
    else:
        found += differing_state(bare.state, again.state, wrapped.state)
    if len(bare.survivors) != len(wrapped.survivors):
        found.append(f"processes that lived on: {len(bare.survivors)} bare, {len(wrapped.survivors)} wrapped")
    return found


def _looked_at(bare: Seen, again: Seen, recorded: bool) -> str:
    told = [f"status {_status(bare)}"]
    told += [_how_compared("stdout", bare.stdout, again.stdout), _how_compared("stderr", bare.stderr, again.stderr)]
    if bare.state:
        told.append(f"{len(bare.state)} facts of its state")
    return ", ".join([*told, *(["recorded"] if recorded else [])])


def _files(store: Path) -> set[Path]:
    return {path for path in store.glob("sessions/*/*.jsonl") if not path.name.endswith(".settled.jsonl")}


def _not_as_recorded(store: Path, before: set[Path], marks: set[Path], bare: Seen, planted: Planted) -> list[str]:
    """What is wrong with the record that the wrapped call made, if it made one."""
    fresh = _files(store) - before
    if not fresh:
        left = sorted(set(store.glob("marks/*.json")) - marks)
        why = json.loads(left[-1].read_text()).get("fault") if left else "no record and no mark"
        return [f"not measured: {why}"]
    events = [json.loads(line) for path in fresh for line in path.read_text("ascii").splitlines()]
    ends = [event["outcome"] for event in events if event["event"] == "finished"]
    if planted.kill == 9:  # the meter itself was killed: its start stands alone
        return [f"record: {len(ends)} ends of a call that was killed with its meter"] if ends else []
    assert bare.status is not None
    signaled = os.WIFSIGNALED(bare.status)
    expected = (None, os.WTERMSIG(bare.status)) if signaled else (os.WEXITSTATUS(bare.status), None)
    found = [(end["code"], end["signal"]) for end in ends]
    return [] if found == [expected] else [f"record: {found}, expected {expected} (exit code, signal)"]


def compare_one(entrance: Entrance, case: Case, folder: Path) -> Compared:
    """Make the planted call twice bare and once wrapped; again where it differs.

    What does not come again is told, and is no difference: bare bwrap itself leaves its tree behind once in some
    hundred kills, and a second may begin between two calls that print the time.
    """
    found = [_attempt(entrance, case, folder)]
    while found[-1].differences and len(found) < _ATTEMPTS:
        found.append(_attempt(entrance, case, folder))
    differing = [one for one in found if one.differences]
    if differing and len(differing) < 2:
        once = f"differed in one of {len(found)} attempts: {'; '.join(differing[0].differences)}"
        return dataclasses.replace(found[-1], looked_at=f"{found[-1].looked_at}; {once}")
    return found[-1] if not differing else differing[-1]


def _attempt(entrance: Entrance, case: Case, folder: Path) -> Compared:
    store = entrance.store
    with streams_for(folder, case.planted) as streams:
        bare, again = (call(case.argv, case.planted, case.caller, streams) for _ in range(2))
        before, marks = (set(), set()) if store is None else (_files(store), set(store.glob("marks/*.json")))
        wrapped = call(entrance.argv(case), case.planted, case.caller, streams)
    differences = compare(bare, again, wrapped)
    if store is not None and bare.status is not None:
        differences += _not_as_recorded(store, before, marks, bare, case.planted)
    looked_at = _looked_at(bare, again, store is not None)
    return Compared(entrance.name, case.sandbox.label, case.name, looked_at, differences)


def fresh_entrances(folder: Path, kinds: list[Sandbox]) -> list[Entrance]:
    """Launchers as `install` writes them, in `folder`, with a store of their own."""
    interpreter = launchers.choose_interpreter()
    tree, place = folder / install.METER, folder / "store"
    copy_meter(tree, tree, interpreter)
    options = launchers.Options(str(place), str(tree), interpreter)
    real = {kind.name: kind.prefix[0] for kind in kinds if kind.prefix}
    made = []
    for name in launchers.LAUNCHERS:
        if name in ADAPTERS or name in real:
            path = str(folder / name)
            launchers.write(path, launchers.text_of(name, real.get(name, ""), options))
            made.append(Entrance(name, path, place))
    return made


def installed_entrances(directory: Path, kinds: list[Sandbox]) -> tuple[list[Entrance], list[Sandbox], list[str]]:
    """The launchers in a folder, the sandboxes with the programs that those start, and which cannot be compared.

    Raises ValueError with one line when there is none.
    """
    names = [name for name in launchers.LAUNCHERS if (directory / name).is_file()]
    if not names:
        raise ValueError(
            f"--launchers {directory}: holds none of {', '.join(launchers.LAUNCHERS)}; name a folder that `install` "
            "wrote, or leave the option out"
        )
    store = _store_of(directory)
    reals = {name: launchers.real_behind(str(directory / name)) for name in names if name not in ADAPTERS}
    # One that was written before there was such a program looks for it at each call: nobody knows where it leads.
    known = [name for name in names if name in ADAPTERS or os.path.isabs(reals[name])]
    found = [Entrance(name, str(directory / name), _if_measuring(directory, name, store)) for name in known]
    changed = []
    for kind in kinds:
        real = reals.get(kind.name, "")
        ours = os.path.isabs(real) and real != str(directory / kind.name)
        changed.append(Sandbox(kind.name, (real, *kind.prefix[1:]), f"{kind.name} ({real})") if ours else kind)
    return found, changed, [name for name in names if name not in known]


def _store_of(directory: Path) -> Path | None:
    """Where the installed launchers keep their records, where a manifest says so."""
    try:
        return Path(str(install.read_manifest(directory)["store"]))
    except (install.InstallError, OSError, KeyError):
        return None


def _if_measuring(directory: Path, name: str, store: Path | None) -> Path | None:
    return None if (directory / f"{name}.measuring").exists() else store


def comparisons(directory: Path | None, folder: Path) -> Iterator[Compared]:
    """Compare all that can be planted here, one after the other. Raises ValueError for a folder without launchers."""
    tools = doctor.look_tools()
    landrun, bwrap, kernels = tools["landrun"], tools["bwrap"], tools["kernels"]
    enforces, works = tools["landrun_enforces"], tools["bwrap_works"]
    assert isinstance(landrun, Tool | None)
    assert isinstance(bwrap, Tool | None)
    assert isinstance(enforces, Tried)
    assert isinstance(works, Tried)
    assert isinstance(kernels, tuple)
    kinds = sandboxes(folder, landrun, enforces, bwrap, works)
    if directory is None:
        entrances = fresh_entrances(folder, kinds)
    else:
        entrances, kinds, unknown = installed_entrances(directory, kinds)
        for name in unknown:
            yield Compared(
                name, name, "", f"no {name} was found when this launcher was written; install again", skipped=True
            )
    for kind in kinds:
        # A landrun that does not start what it is given would only be compared with itself.
        cases = [*for_sandbox(kind)]
        if kind.name in ("none", "landrun"):
            cases += for_kernels(folder, kernels, kind)
        for entrance in entrances:
            if entrance.carries(kind):
                for case in cases:
                    yield compare_one(entrance, case, folder)


def summary(found: list[Compared]) -> str:
    found = [one for one in found if not one.skipped]
    differing = sum(bool(one.differences) for one in found)
    if differing:
        return f"{len(found)} comparisons, {differing} with a difference: these launchers may harm a judge"
    return f"{len(found)} comparisons, all equal (what no comparison can remove: docs/transparency.md)"


def _print(one: Compared) -> None:
    line = escape_text(one.as_line())
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.text import Text

        Console(highlight=False, soft_wrap=True).print(Text(line, style="bold red" if one.differences else "green"))
    else:
        print(line, flush=True)


class _EndedError(BaseException):
    """Somebody sent us a signal to end by."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    """The first signal that would end us raises _EndedError, so that what was made is taken away."""
    ours = os.getpid()
    defaults = (signal.SIG_DFL, signal.default_int_handler)
    taken = {number: signal.getsignal(number) for number in ENDING if signal.getsignal(number) in defaults}

    def end(number: int, frame: object) -> None:
        if os.getpid() != ours:  # a child that is not yet its command
            signals.die_by(number)
        for other in taken:
            signal.signal(other, signal.SIG_IGN)
        raise _EndedError(number)

    for number in taken:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, before in taken.items():
            signal.signal(number, before)


def main(args: argparse.Namespace) -> int:
    """Compare, print, and say 1 when something differs."""
    if args.store is not None:
        policy.say("--store: not with --prove, which keeps what it records in a folder of its own; leave it out")
        return USAGE
    directory = None if args.launchers is None else Path(os.path.abspath(args.launchers))
    found: list[Compared] = []
    try:
        with _ended_by_signals():
            folder = Path(launcher_directory())
            try:
                for one in comparisons(directory, folder):
                    found.append(one)
                    if not args.json:
                        _print(one)
            finally:
                shutil.rmtree(folder, ignore_errors=True)
                _forget_trials(directory)
    except ValueError as error:
        policy.say(str(error))
        return USAGE
    except _EndedError as ended:
        signals.die_by(ended.number)
    if args.json:
        whole_answer = {"schema": SCHEMA, "comparisons": [one.as_json() for one in found], "summary": summary(found)}
        print(json.dumps(whole_answer, indent=1))
    else:
        print(summary(found))
    return DIFFERENT if any(one.differences for one in found) else EQUAL


def _forget_trials(directory: Path | None) -> None:
    """The trials' own session, named after this very process, is no judge's."""
    store = None if directory is None else _store_of(directory)
    if store is not None:
        shutil.rmtree(store / "sessions" / whole.new_session(), ignore_errors=True)
