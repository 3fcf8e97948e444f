"""One hostile program, all attempts (attempts.py): what is denied, by Landlock ABI and landrun version.

The expectations are the table; docs/security.md draws the conclusions. Whatever is allowed changes no verdict.
"""

import os
import shutil
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from attacks import attempts
from attacks.conftest import made_for
from attacks.sandboxed import NOBODY, PYTHON, landlock_abi, scoped
from proofcost.harness import reading

pytestmark = [pytest.mark.real, pytest.mark.guest_all]

ROOT, USER = "root", "user"
DONE = "done"
NEVER = 99
"""No Landlock that is known."""


@dataclass(frozen=True)
class Expected:
    """How an attempt ends. `denied_since`: the first Landlock ABI that refuses it; NEVER: it asks only whose process or
    file it is. `root_may`: root does it all the same."""

    denied_since: int = 1
    root_may: bool = False
    user_may: bool = True
    scoped: bool = False


DENIED = Expected()
SIGNALS = Expected(6, scoped=True)
ALLOWED = Expected(NEVER)
TABLE = {
    "inherit a descriptor of ours": DENIED,
    "append to a record": DENIED,
    "overwrite a record": DENIED,
    "open and empty a record": DENIED,
    "remove a record": DENIED,
    "rename a record": DENIED,
    "put another file in a record's place": DENIED,
    "take a record out of the store": DENIED,
    "link a record into the sandbox": DENIED,
    "make a file in the store": DENIED,
    "make a link in the store": DENIED,
    "make a session": DENIED,
    "make marks": DENIED,
    "make a pipe in the store": DENIED,
    "move the store": DENIED,
    "empty a record by its path": Expected(3),
    "read a record": ALLOWED,
    "lock a record": ALLOWED,
    "lock the store": ALLOWED,
    "change a record's mode": ALLOWED,
    "change a record's times": ALLOWED,
    "give a record away": Expected(NEVER, user_may=False),
    "change the store's mode": ALLOWED,
    "connect to a socket by its path": Expected(9),
    "connect to an abstract socket": SIGNALS,
    "connect by TCP": Expected(4),
    "send by UDP": ALLOWED,
    "write into its own cgroup": DENIED,
    "leave its cgroup": DENIED,
    "make a cgroup": DENIED,
    "remove its cgroup": DENIED,
    "have a child born in another cgroup": Expected(NEVER, user_may=False),
    "mount over the store": DENIED,
    "change the host's settings": DENIED,
}

# Against each process of ours that the hostile program can name.
PROCESS_TABLE = {
    "attach to {}": DENIED,
    "seize {}": DENIED,
    "read {}'s memory": DENIED,
    "write {}'s memory": DENIED,
    "open {}'s memory": DENIED,
    "take a descriptor of {}": DENIED,
    "open a descriptor of {} to write": DENIED,
    "open a descriptor of {} to read": DENIED,
    "look through {}'s root": DENIED,
    "count what {} does": Expected(root_may=True),
    "compare with {}": DENIED,
    "read {}'s arguments": ALLOWED,
    "write {}'s OOM score": DENIED,
    "write {}'s name": DENIED,
    "ask whether {} is there": SIGNALS,
    "send {} a signal": SIGNALS,
    "send a thread of {} a signal": SIGNALS,
    "send {} one by a pidfd": SIGNALS,
    "have input and output signal {}": ALLOWED,
    "limit {}": ALLOWED,
    "renice {}": ALLOWED,
    "pin {}": ALLOWED,
    "make {} idle": ALLOWED,
    "starve {}'s disk": ALLOWED,
}
PROCESSES = ("the meter",)
TABLE.update({name.format(process): expected for process in PROCESSES for name, expected in PROCESS_TABLE.items()})


@dataclass(frozen=True)
class Outcome:
    """What one run of all attempts left."""

    status: int
    results: dict[str, str]
    before: dict[str, bytes]
    after: dict[str, bytes]
    victim: str
    emptied: str
    next_status: int
    next_faults: tuple[str, ...]
    faults: tuple[str, ...]


OutcomeOf = Callable[[str], Outcome]


@pytest.fixture(scope="module")
def outcome_of(landrun: Path) -> OutcomeOf:
    @cache
    def run(who: str) -> Outcome:
        if os.geteuid() != 0 and who == ROOT:
            pytest.skip("needs root")
        attackers = made_for(NOBODY if who == USER and os.geteuid() == 0 else 0, landrun)
        attacker = next(attackers)
        try:
            program = attacker.wrap.folder / "attempts.py"
            shutil.copy(attempts.__file__, program)
            program.chmod(0o644)
            for code in (1, 2):
                assert attacker.run(f"sys.exit({code})") == code, attacker.said
            before = attacker.contents()
            victim, emptied = sorted(before)
            planted = attacker.project / ".lake" / "planted"
            planted.write_text("{}\n")
            os.chown(planted, attacker.uid, attacker.uid)
            path = str(attacker.wrap.folder / "listens")
            with socket.socket(socket.AF_UNIX) as named, socket.socket(socket.AF_UNIX) as abstract:
                named.bind(path)
                named.listen(5)
                os.chmod(path, 0o777)
                abstract.bind(f"\0proofcost-{os.getpid()}-{who}")
                abstract.listen(5)
                words = [str(attacker.wrap.store), victim, emptied, path, f"proofcost-{os.getpid()}-{who}"]
                ended = attacker.call([PYTHON, "-I", "-S", str(program), *words])
            results = dict(line.split(": ") for line in attacker.said.splitlines())
            after = attacker.contents()
            next_status = attacker.run("sys.exit(4)")
            *_, attacked, last = attacker.records()
            return Outcome(
                ended.code,
                results,
                before,
                after,
                victim,
                emptied,
                next_status,
                tuple(fault["what"] for fault in last["finished"]["faults"]),
                tuple(fault["what"] for fault in attacked["finished"]["faults"]),
            )
        finally:
            attackers.close()

    return run


def test_every_attempt_has_its_expectation() -> None:
    assert set(TABLE) == {*attempts.ATTEMPTS, *[name for one in PROCESSES for name in attempts.against(one, 0)]}


@pytest.mark.parametrize("who", [ROOT, USER])
@pytest.mark.parametrize("name", TABLE)
def test_an_attempt_ends_as_this_landlock_has_it(outcome_of: OutcomeOf, landrun: Path, name: str, who: str) -> None:
    outcome = outcome_of(who)
    expected = TABLE[name]
    refused = scoped(landrun) if expected.scoped else landlock_abi() >= expected.denied_since
    may = not refused or (expected.root_may and who == ROOT)
    if who == USER and not expected.user_may:
        may = False
    assert (outcome.results[name] == DONE) is may, f"{name}: {outcome.results[name]} (ABI {landlock_abi()}, {who})"


@pytest.mark.parametrize("who", [ROOT, USER])
def test_none_of_it_changes_the_status_or_a_record(outcome_of: OutcomeOf, who: str) -> None:
    outcome = outcome_of(who)
    assert (outcome.status, outcome.next_status) == (3, 4)
    untouched = set(outcome.before) - ({outcome.emptied} if landlock_abi() < 3 else set())
    assert {path: outcome.after[path] for path in untouched} == {path: outcome.before[path] for path in untouched}


@pytest.mark.parametrize("who", [ROOT, USER])
def test_changed_modes_are_put_right_and_said_by_the_next_call(outcome_of: OutcomeOf, who: str) -> None:
    outcome = outcome_of(who)
    assert any(what.endswith(": mode was 0755, set to 0700") for what in outcome.next_faults), outcome.next_faults


@pytest.mark.parametrize("who", [ROOT, USER])
def test_what_was_done_to_the_meter_s_priority_and_limits_is_said(outcome_of: OutcomeOf, who: str) -> None:
    outcome = outcome_of(who)
    told = "; ".join(outcome.faults)
    for what in ("nice", "processors", "scheduling policy", "I/O priority", "RLIMIT_NOFILE"):
        assert what in told, outcome.faults


def test_an_emptied_record_is_not_taken_for_one(outcome_of: OutcomeOf, tmp_path: Path) -> None:
    """Before ABI 3: what is left is nothing, and nothing is no success."""
    outcome = outcome_of(USER)
    copy = tmp_path / "sessions" / "0123456789abcdef"
    copy.mkdir(parents=True)
    for path, content in outcome.after.items():
        (copy / Path(path).name).write_bytes(content)
    states = {record.invocation: record.state for record in reading.read_store(tmp_path).records}
    emptied = Path(outcome.emptied).name.removesuffix(".jsonl")
    if landlock_abi() < 3:
        assert outcome.after[outcome.emptied] == b""
        assert emptied not in states
    else:
        assert states[emptied] == "complete"
