"""Processes that outlive the sandboxed call: they neither hold the caller up nor change the status, and are told of."""

import time

import pytest
from calling import ENTRANCES
from wrapped import Wrapper

from attacks.sandboxed import Attacker

pytestmark = pytest.mark.real

STAY = """
kind = {kind!r}
def stay():
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2): os.dup2(null, fd)
    time.sleep(1.5)
    os._exit(0)
for _ in range(60 if kind == "many" else 1):
    if os.fork() == 0:
        if kind != "fork": os.setsid()
        if kind == "double" and os.fork(): os._exit(0)
        stay()
sys.exit(11)
"""


@pytest.mark.parametrize("way", ENTRANCES)
@pytest.mark.parametrize("kind", ["fork", "setsid", pytest.param("double", marks=pytest.mark.guest_all), "many"])
def test_they_neither_hold_the_caller_up_nor_change_the_status(attacker: Attacker, kind: str, way: str) -> None:
    assert attacker.run(STAY.format(kind=kind), way) == 11
    [one] = attacker.records()
    assert one["finished"]["outcome"]["code"] == 11
    left = one["finished"]["stragglers"]
    if one["started"]["cgroup"]["paths"]:
        assert left["count"] == (60 if kind == "many" else 1)
        assert left["action"] == "reported"


@pytest.mark.guest
def test_they_are_killed_where_asked(attacker: Attacker) -> None:
    attacker.wrap.options["kill_stragglers"] = True
    script = """
if os.fork() == 0:
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2): os.dup2(null, fd)
    time.sleep(0.7)
    open(".lake/alive", "w").close()
    os._exit(0)
sys.exit(12)
"""
    assert attacker.run(script) == 12
    [one] = attacker.records()
    if not one["started"]["cgroup"]["paths"]:
        pytest.skip("no cgroup here, nothing can be killed")
    assert one["finished"]["stragglers"]["action"] == "killed"
    time.sleep(0.8)
    assert not (attacker.project / ".lake/alive").exists()


# What a hostile command leaves of its cgroup, over very many calls.

_DAEMON = "setsid sleep 0.3 </dev/null >/dev/null 2>&1 &"
_OWN_CGROUPS = (
    "for line in $(grep -E ':memory:|^0::' /proc/self/cgroup); do path=${line##*:}; for mount in /sys/fs/cgroup "
    '/sys/fs/cgroup/unified /sys/fs/cgroup/memory; do d="$mount$path"; case "$d" in */proofcost*) [ -d "$d" ] && '
)
_NEXT = "esac; done; done; "
HOSTILE = {
    "one daemon": f"{_DAEMON} exit 3",
    "ten daemons": f"for i in 1 2 3 4 5 6 7 8 9 10; do {_DAEMON} done; exit 3",
    "a daemon in a cgroup of its own": f'{_OWN_CGROUPS} mkdir -p "$d/inner/most" && '
    f'(echo $BASHPID >"$d/inner/most/cgroup.procs"; exec setsid sleep 0.3) </dev/null >/dev/null 2>&1 & ;; {_NEXT}'
    "sleep 0.02; exit 3",
    "empty cgroups": f'{_OWN_CGROUPS} mkdir -p "$d/inner/most" "$d/other" ;; {_NEXT} exit 3',
    "a meter that is killed": f"{_DAEMON} kill -9 $PPID; sleep 5",
    "a crash": f"{_DAEMON} ulimit -c 0; kill -SEGV $$",
}


def many_hostile_calls(wrap: Wrapper, count: int, look_every: int) -> None:
    killing = bool(wrap.options.get("kill_stragglers"))
    expected = {"a meter that is killed": -9, "a crash": 139}
    # Whom a killed meter leaves behind is there until the next call passes by.
    names = [name for name in HOSTILE if not (killing and expected.get(name) == -9)]
    for number in range(count):
        name = names[number % len(names)]
        assert wrap("/bin/bash", "-c", HOSTILE[name]).status == expected.get(name, 3), name
        if killing and number % look_every == 0:
            assert wrap.left_cgroups() == [], f"call {number}, after {name}"
    time.sleep(1)  # until the last daemon has ended
    # One passes by at most so many leftovers of others.
    for _ in range(count // 64 + 2):
        wrap("/bin/true")
    assert wrap.left_cgroups() == []


@pytest.mark.parametrize("killed", [False, True], ids=["reported", "killed"])
def test_hostile_calls_leave_no_cgroup_behind(as_root: None, wrap: Wrapper, killed: bool) -> None:
    many_hostile_calls(wrap.with_options(kill_stragglers=killed), 36, 1)


@pytest.mark.long
@pytest.mark.parametrize("killed", [False, True], ids=["reported", "killed"])
def test_a_thousand_hostile_calls_leave_no_cgroup_behind(as_root: None, wrap: Wrapper, killed: bool) -> None:
    many_hostile_calls(wrap.with_options(kill_stragglers=killed), 1000, 50)
