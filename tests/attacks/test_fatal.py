"""What ends or stops the meter, tried one by one: a death by signal for its caller, never a success, `started` alone.

Whatever is allowed here the checked code could do to the judge itself as well.
"""

import signal
from collections.abc import Sequence

import pytest
from calling import ENTRANCES, LANDRUN, has_ended, wait_for

from attacks.sandboxed import Attacker, landlock_abi, scoped

pytestmark = pytest.mark.real


def some_in_the_guest(values: Sequence[object], chosen: Sequence[object]) -> list[object]:
    """In the emulated guest a call takes seconds: a few of each kind there, all of them here."""
    return [pytest.param(value, marks=pytest.mark.guest_all) if value in chosen else value for value in values]


LIMITS = ("RLIMIT_CPU", "RLIMIT_NOFILE", "RLIMIT_AS", "RLIMIT_DATA", "RLIMIT_FSIZE", "RLIMIT_STACK", "RLIMIT_NPROC",
          "RLIMIT_SIGPENDING", "RLIMIT_MEMLOCK", "RLIMIT_CORE", "RLIMIT_RSS", "RLIMIT_MSGQUEUE")  # fmt: skip
ENDING = (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGABRT,
          signal.SIGSEGV, signal.SIGBUS, signal.SIGUSR1, 32, 40)  # fmt: skip


def is_told_apart(attacker: Attacker, code: int, given: int) -> None:
    """The caller saw the command's own status or a death by signal; the record has the command's own or no end."""
    [one] = attacker.records()
    assert code == given or code > 128, "a meter that was killed is no success"
    # Killed right after it had written the end: that was the command's, and stays true.
    assert one.get("finished") is None or one["finished"]["outcome"]["code"] == given


@pytest.mark.parametrize("name", some_in_the_guest(LIMITS, ("RLIMIT_NOFILE", "RLIMIT_AS")))
@pytest.mark.parametrize("given", [0, 8])
def test_a_limit_set_on_the_meter_to_nothing(either: Attacker, name: str, given: int) -> None:
    """prlimit asks only for the same user. A record may be lost; a lost one is `started` alone."""
    script = f"""
attempt("limit", lambda: resource.prlimit(meter, resource.{name}, (0, 0)))
time.sleep(0.2)
sys.exit({given})
"""
    code = either.run(script)
    if code == given:
        assert "limit done" in either.said
    is_told_apart(either, code, given)


@pytest.mark.guest_all
def test_a_meter_that_its_cpu_limit_kills(either: Attacker) -> None:
    """Although signals end at the sandbox's border: the host's kernel sends this one."""
    script = """
attempt("limit", lambda: resource.prlimit(meter, resource.RLIMIT_CPU, (0, 0)))
print("pid", os.getpid(), flush=True)
time.sleep(20)
sys.exit(0)
"""
    code = either.run(script)
    assert "limit done" in either.said
    assert code in (128 + signal.SIGKILL, 128 + signal.SIGXCPU)
    [one] = either.records()
    assert set(one) == {"started"}
    command = int(either.said.split("pid ")[1].split()[0])
    wait_for(lambda: has_ended(command), "its end with its meter's")


@pytest.mark.parametrize("number", some_in_the_guest(ENDING, (signal.SIGKILL, signal.SIGTERM)))
def test_a_signal_that_would_end_the_meter(either: Attacker, number: int) -> None:
    """Refused from ABI 6 on. Before, the meter keeps what its own command sends it to itself, or dies of it."""
    script = f"""
attempt("kill", lambda: os.kill(meter, {int(number)}))
time.sleep(0.5)
sys.exit(0)
"""
    code = either.run(script)
    if scoped(either.landrun):
        assert (code, "kill refused EPERM" in either.said) == (0, True)
        assert either.records()[0]["finished"]["outcome"]["cause"] == "completed"
    else:
        fatal = number in (signal.SIGKILL, signal.SIGSEGV, signal.SIGBUS, 32)
        assert code == (128 + number if fatal else 0)
        [one] = either.records()
        assert ("finished" in one) is not fatal


@pytest.mark.guest_all
def test_a_stop_of_the_meter(either: Attacker) -> None:
    """Refused from ABI 6 on. Before, it holds the caller up for as long as it likes, as a stop of the judge would."""
    script = """
attempt("stop", lambda: os.kill(meter, signal.SIGSTOP))
time.sleep(0.3)
attempt("continue", lambda: os.kill(meter, signal.SIGCONT))
sys.exit(9)
"""
    assert either.run(script) == 9
    assert ("stop refused EPERM" in either.said) is scoped(either.landrun)
    [one] = either.records()
    assert one["finished"]["outcome"]["code"] == 9


@pytest.mark.parametrize("way", ENTRANCES)
def test_a_signal_to_all_that_it_may_signal(as_root: None, own_user: Attacker, way: str) -> None:
    """kill(-1): of its own sandbox from ABI 6 on, of its user before."""
    script = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
attempt("kill all", lambda: os.kill(-1, signal.SIGTERM))
time.sleep(0.3)
sys.exit(9)
"""
    assert own_user.run(script, way) == 9
    [one] = own_user.records()
    assert one["finished"]["outcome"]["code"] == 9


@pytest.mark.guest_all
def test_a_kill_of_all_that_it_may_kill(as_root: None, own_user: Attacker) -> None:
    code = own_user.run('attempt("kill all", lambda: os.kill(-1, signal.SIGKILL)); sys.exit(0)', LANDRUN)
    [one] = own_user.records()
    if scoped(own_user.landrun):
        assert (code, one["finished"]["outcome"]["code"]) == (0, 0)
    else:
        assert code == 128 + signal.SIGKILL
        assert set(one) == {"started"}


@pytest.mark.guest_all
def test_this_host_has_a_landlock_that_is_known() -> None:
    assert landlock_abi() >= 1
