"""When the meter fails before the command starts: leave a mark, then run the command as without us, or refuse.

docs/security.md has the table of every fault and what each policy does.
"""

import os

from proofcost.harness import digest, record, signals, spawn, store
from proofcost.harness.clock import clocks
from proofcost.harness.plan import Plan
from proofcost.harness.record import Json
from proofcost.harness.version import SCHEMA, VERSION

REFUSED = 125


class MeterError(Exception):
    """The meter failed before the command started. The message is one line."""


def mark(plan: Plan, fault: Json, invocation: str | None) -> dict[str, Json]:
    """What is left behind when the meter failed."""
    raw = [os.fsencode(argument) for argument in plan.argv]
    return {
        "schema": SCHEMA,
        "event": "mark",
        "fault": fault,
        "policy": "strict" if plan.strict else "run",
        "entrance": plan.entrance,
        "invocation": invocation,
        "argv_sha256": digest.sha256_hex(b"\0".join(raw)),
        "argv_count": len(raw),
        "version": VERSION,
        "clocks": clocks(),
        "pid": os.getpid(),
    }


def say(line: str, called: str = "proofcost") -> None:
    """One line on stderr, in one write; nobody listening is no error."""
    try:
        os.write(2, os.fsencode(f"{called}: {line}\n"))
    except (OSError, ValueError):
        return


def refuse_or_run(plan: Plan, inherited: signals.Inherited, fault: object, invocation: str | None = None) -> int:
    """The meter failed before the command started: leave a mark, then do as the policy says.

    With `run` this returns only when the command cannot be executed at all, with a shell's code for that.
    """
    if isinstance(fault, KeyboardInterrupt):  # Ctrl-C while we got ready: the command would have died of it
        inherited.restore()
        signals.die_by(signals.SIGINT)
    text = str(fault) if isinstance(fault, MeterError | store.StoreError) else f"{type(fault).__name__}: {fault}"
    try:
        unsafe = isinstance(fault, store.StoreError) or not plan.store
        content = mark(plan, record.escape_text(text[:500]), invocation)
        left = store.leave_mark(None if unsafe and not _is_own_store(plan.store) else plan.store, content)
    except BaseException:
        left = None
    if plan.strict:
        say(f"{text}; refused, nothing was run", plan.called)
        return REFUSED
    # Who sits at a terminal is to know at once; an entrance keeps the command's stderr clean.
    if left is None or (plan.entrance == "run" and os.isatty(2)):
        say(f"{text}; the command runs unmeasured", plan.called)
    error = spawn.replace_by(plan.argv, inherited, plan.user)
    say(f"{record.escape_text(plan.argv[0])}: {os.strerror(error.errno or 0)}", plan.called)
    return spawn.exit_code_of(error)


def _is_own_store(place: str) -> bool:
    """A store that is unsafe for records may still take a mark, if it is ours, a store, and no link."""
    if not place or not os.path.isdir(place) or os.path.islink(place) or os.stat(place).st_uid != os.geteuid():
        return False
    return store.is_store(place)
