"""What doctor concludes, on hosts that are made up, and one real look at this one."""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofcost import doctor, doctor_checks
from proofcost.doctor_seen import Check, Counter, Interpreter, Seen, Status, Tool, Tried
from proofcost.harness import host, libc
from proofcost.harness.record import Json

COUNTED = {
    "instructions:u": Counter(123456, None),
    "cycles:u": Counter(99999, None),
    "task_clock": Counter(500000, None),
    "page_faults": Counter(60, None),
    "page_faults_major": Counter(0, None),
    "context_switches": Counter(1, None),
    "cpu_migrations": Counter(0, None),
}
LANDRUN = Tool("landrun", "/usr/bin/landrun", "ab" * 32, "0.1.18")
BWRAP = Tool("bwrap", "/usr/bin/bwrap", "cd" * 32, "0.8.0")
PYTHON = Interpreter("/usr/bin/python3", (3, 11, 2), 8_000_000, None)
GIB = 1 << 30


def unlimited() -> dict[str, Json]:
    none: dict[str, Json] = {"value": None, "reason": "unlimited", "scope": None}
    rlimits: dict[str, Json] = {
        name: {"soft": None, "hard": None} for name in ("cpu", "as", "data", "rss", "fsize", "nofile")
    }
    return {
        "rlimits": rlimits,
        "affinity_cpus_count": 8,
        "cgroup_memory_bytes": none,
        "cgroup_swap_bytes": none,
        "cgroup_cpu": none,
    }


GOOD = Seen(
    counters=COUNTED,
    cgroup_made={"unified": "/sys/fs/cgroup/judge.slice/proofcost-1"},
    landrun=LANDRUN,
    landrun_enforces=Tried(True),
    bwrap=BWRAP,
    bwrap_works=Tried(True),
    kernels=(Tool("nanoda_bin", "/opt/nanoda_bin", "ef" * 32, None),),
    lean_tools=(Tool("lake", "/opt/lake", "01" * 32, "5.0.0"),),
    interpreters=(PYTHON,),
    limits=unlimited(),
)


def without(reason: str, *names: str) -> dict[str, Counter]:
    return {name: Counter(None, reason) if name in names else one for name, one in COUNTED.items()}


def rlimit(**soft: int) -> dict[str, Json]:
    limits = unlimited()
    rlimits = limits["rlimits"]
    assert isinstance(rlimits, dict)
    rlimits.update({name: {"soft": value, "hard": None} for name, value in soft.items()})
    return limits


def cgroup_limit(**values: Json) -> dict[str, Json]:
    limits = unlimited()
    for name, value in values.items():
        limits[f"cgroup_{name}"] = {"value": value, "reason": None, "scope": "/judge.slice"}
    return limits


def check(seen: Seen, name: str) -> Check:
    (found,) = [one for one in doctor_checks.examine(seen) if one.name == name]
    return found


def test_a_host_where_all_is_well_has_nothing_to_mend() -> None:
    for one in doctor_checks.examine(GOOD):
        assert one.status is Status.GOOD, one
    assert doctor_checks.worst(doctor_checks.examine(GOOD)) is Status.GOOD


HARDWARE = ("instructions:u", "cycles:u")
# what is seen, the check that tells it, how grave, words of what was seen, words of the cure
CASES: dict[str, tuple[dict[str, Any], str, Status, str, str]] = {
    "vm without a pmu": (
        {"counters": without("counter_not_supported", *HARDWARE)},
        "counters",
        Status.WARN,
        "no hardware counters",
        "callgrind",
    ),
    "paranoid 4": (
        {"counters": without("counter_permission_denied", *COUNTED), "paranoid": 4, "uid": 1000},
        "counters",
        Status.WARN,
        "perf_event_paranoid = 4",
        "sysctl -w kernel.perf_event_paranoid=1",
    ),
    "container's seccomp": (
        {"counters": without("counter_permission_denied", *COUNTED), "seccomp": True},
        "counters",
        Status.WARN,
        "seccomp",
        "--cap-add PERFMON",
    ),
    "counters shared": (
        {"counters": without("counter_multiplexed", *HARDWARE), "nmi_watchdog": True},
        "counters",
        Status.WARN,
        "part of the time",
        "nmi_watchdog=0",
    ),
    "no python ctypes": ({"counters": {}}, "counters", Status.WARN, "no hardware", "PMU"),
    "nothing countable": (
        {"counters": without("counter_permission_denied", *COUNTED), "paranoid": 4},
        "software counters",
        Status.WARN,
        "none",
        "paranoid",
    ),
    "user-only": (
        {
            "counters": {
                **without("counter_reads_zero_when_user_only", "context_switches", "cpu_migrations"),
                "task_clock": Counter(5, None, user_only=True),
            }
        },
        "software counters",
        Status.NOTE,
        "without context_switches, cpu_migrations; opened user-only: task_clock",
        "paranoid",
    ),
    "no stamps": (
        {"stamps": Tried(False, "counter_permission_denied")},
        "exec stamps",
        Status.WARN,
        "counter_permission_denied",
        "sysctl",
    ),
    "no descriptors for stamps": (
        {"stamps": Tried(False, "128 CPUs need more descriptors than the limit of 64 leaves")},
        "exec stamps",
        Status.WARN,
        "128 CPUs",
        "ulimit -n",
    ),
    "no cgroup": (
        {"cgroup_kind": "off", "cgroup_made": {}},
        "cgroup",
        Status.WARN,
        "none could be made",
        "mount cgroup2",
    ),
    "no delegation": (
        {"cgroup_made": {}, "cgroup_reasons": {"unified": "cgroup /x: Permission denied"}, "uid": 1000},
        "cgroup",
        Status.WARN,
        "Permission denied",
        "Delegate=yes",
    ),
    "no memory handed down": ({"cgroup_memory_peak": False}, "cgroup", Status.WARN, "memory peak no", "Delegate"),
    "child kept out": (
        {"cgroup_child": Tried(False, "refused by the kernel")},
        "cgroup",
        Status.WARN,
        "a child could not enter",
        "cgroup",
    ),
    "no sandbox at all": (
        {"landlock_abi": None, "landlock_reason": "Function not implemented", "bwrap_works": Tried(False, "no")},
        "landlock",
        Status.BAD,
        "unconfined, and bwrap does not work",
        "lsm=landlock",
    ),
    "no landlock but bwrap": ({"landlock_abi": None}, "landlock", Status.WARN, "unconfined", "bwrap"),
    "debian 12": ({"landlock_abi": 2}, "landlock", Status.WARN, "truncation", "--as USER"),
    "abi 7": ({"landlock_abi": 7}, "landlock", Status.NOTE, "AF_UNIX", "RestrictAddressFamilies"),
    "landrun lets through": (
        {"landrun_enforces": Tried(False, "a forbidden write was NOT refused")},
        "landrun",
        Status.BAD,
        "NOT refused",
        "bwrap",
    ),
    "no landrun": ({"landrun": None}, "landrun", Status.NOTE, "not on PATH", "COMPARATOR_LANDRUN"),
    "no bwrap": ({"bwrap": None, "bwrap_works": Tried(None)}, "bwrap", Status.NOTE, "not on PATH", "bubblewrap"),
    "ubuntu's apparmor": (
        {"bwrap_works": Tried(False, "setting up uid map: Permission denied")},
        "bwrap",
        Status.WARN,
        "does not start: setting up uid map",
        "userns",
    ),
    "setuid bwrap": ({"bwrap": replace(BWRAP, setuid=True)}, "bwrap", Status.WARN, "setuid", "chmod u-s"),
    "no kernel": ({"kernels": ()}, "kernels", Status.NOTE, "none found", "proofcost kernels"),
    "no lake": ({"lean_tools": ()}, "lean", Status.NOTE, "no lake", "elan"),
    "forgeable store": (
        {"store_fault": "store /dev/shm/x: below /dev, which sandboxes make writable; choose another folder"},
        "store",
        Status.BAD,
        "below /dev",
        "--store",
    ),
    "read-only store": ({"store_writable": False}, "store", Status.BAD, "may not be written", "mkdir"),
    "full disk": ({"store_free_bytes": 1 << 20}, "store", Status.BAD, "1 MiB free", "df"),
    "nearly full disk": ({"store_free_bytes": 100 << 20}, "store", Status.WARN, "100 MiB free", "df"),
    "drifted modes": ({"store_drift": "mode is 0755"}, "store", Status.NOTE, "mode is 0755", "chmod 700"),
    "store in memory": ({"store_filesystem": "tmpfs"}, "store", Status.NOTE, "gone after", "--store"),
    "store on a network": ({"store_filesystem": "nfs4"}, "store", Status.NOTE, "network", "local disk"),
    "jiffies": ({"clock_source": "jiffies"}, "clock", Status.BAD, "steps of milliseconds", "clocksource"),
    "acpi clock": ({"clock_source": "acpi_pm"}, "clock", Status.WARN, "slow clock", "dmesg"),
    "ondemand": ({"governors": ("ondemand",)}, "governor", Status.WARN, "ondemand", "cpupower"),
    "hardware scaling": (
        {"governors": ("powersave",), "frequency_drivers": ("intel_pstate",)},
        "governor",
        Status.NOTE,
        "hardware",
        "cpupower",
    ),
    "mixed governors": (
        {"governors": ("performance", "powersave"), "frequency_drivers": ("intel_pstate",)},
        "governor",
        Status.WARN,
        "performance, powersave",
        "cpupower",
    ),
    "a guest's governor": ({"governors": ()}, "governor", Status.NOTE, "hypervisor", ""),
    "intel turbo": (
        {"turbo": True, "frequency_drivers": ("intel_pstate",)},
        "turbo",
        Status.NOTE,
        "on",
        "intel_pstate/no_turbo",
    ),
    "amd boost": ({"turbo": True}, "turbo", Status.NOTE, "on", "cpufreq/boost"),
    "smt": ({"threads_per_core": 2, "cores_count": 4}, "smt", Status.NOTE, "8 CPUs on 4 cores", "smt/control"),
    "hybrid": (
        {
            "core_kinds": (
                {"counter_device": "cpu_core", "cpus_count": 8, "max_frequency_khz": 4900000},
                {"counter_device": "cpu_atom", "cpus_count": 4, "max_frequency_khz": 3600000},
            )
        },
        "cores",
        Status.WARN,
        "2 kinds: 8 of cpu_core up to 4900000 kHz; 4 of cpu_atom",
        "taskset",
    ),
    "two nodes": ({"numa_nodes": 2}, "numa", Status.NOTE, "2 nodes", "numactl"),
    "little memory": ({"memory_available_bytes": GIB}, "memory", Status.WARN, "1024 of 65536 MiB", "ps"),
    "swap": ({"swap_total_bytes": GIB}, "swap", Status.NOTE, "1024 MiB", "swapoff"),
    "swap in use": (
        {"swap_total_bytes": GIB, "swap_used_bytes": GIB // 2},
        "swap",
        Status.WARN,
        "512 MiB in use",
        "memory.swap.max",
    ),
    "steal now": ({"steal_ns": 80_000_000}, "steal", Status.WARN, "2.0 % just now", "steal"),
    "steal once": ({"steal_since_boot_ns": 1}, "steal", Status.NOTE, "0.0 % of all CPU time since boot", ""),
    "no steal figure": ({"steal_ns": None}, "steal", Status.NOTE, "does not tell", ""),
    "busy": ({"busy_ns": 2_000_000_000}, "load", Status.WARN, "50.0 % busy", "top"),
    "load": ({"load_1_minute_hundredths": 405}, "load", Status.WARN, "load 4.05 on 8 CPUs", "top"),
    "no psi": ({"pressure": False}, "pressure", Status.NOTE, "no pressure", "psi=1"),
    "no system python": ({"interpreters": ()}, "interpreter", Status.WARN, "no system Python 3.11", "apt-get"),
    "old python": (
        {"interpreters": (replace(PYTHON, version=(3, 9, 2)),)},
        "interpreter",
        Status.WARN,
        "/usr/bin/python3 3.9.2",
        "3.11",
    ),
    "somebody's python": (
        {"interpreters": (replace(PYTHON, unsafe="/usr/local belongs to user 1000"),)},
        "interpreter",
        Status.WARN,
        "belongs to user 1000",
        "apt-get",
    ),
    "slow python": (
        {"interpreters": (replace(PYTHON, start_ns=64_000_000),)},
        "interpreter",
        Status.WARN,
        "64.0 ms",
        "interpreter",
    ),
    "cpu limit": ({"limits": rlimit(cpu=600)}, "time limit", Status.WARN, "RLIMIT_CPU 600 s: SIGXCPU", "--timeout"),
    "address limit": ({"limits": rlimit(**{"as": GIB})}, "limits", Status.WARN, "RLIMIT_AS 1073741824", "ulimit -v"),
    "few descriptors": ({"limits": rlimit(nofile=20)}, "limits", Status.WARN, "RLIMIT_NOFILE 20", "-n 4096"),
    "memory limit": (
        {"limits": cgroup_limit(memory_bytes=8 * GIB)},
        "cgroup limits",
        Status.NOTE,
        "memory 8192 MiB (/judge.slice)",
        "",
    ),
    "docker's default swap": (
        {"limits": cgroup_limit(memory_bytes=8 * GIB, swap_bytes=8 * GIB), "swap_total_bytes": 8 * GIB},
        "cgroup limits",
        Status.WARN,
        "but swap beyond it",
        "memory.swap.max = 0",
    ),
    "quota": (
        {"limits": cgroup_limit(cpu={"numerator": 150000, "denominator": 100000})},
        "cgroup limits",
        Status.WARN,
        "CPU 150000/100000 (/judge.slice)",
        "cpuset",
    ),
    "affinity": (
        {"limits": {**unlimited(), "affinity_cpus_count": 2}},
        "cgroup limits",
        Status.NOTE,
        "2 of 8 CPUs by affinity",
        "",
    ),
    "cloned machine": (
        {"other_boots_at_once": ("2f83",)},
        "identity",
        Status.BAD,
        "two machines share one machine-id",
        "machine-id",
    ),
    "no machine id": (
        {"machine_id_reason": "machine-id is missing or unreadable: known for this boot only"},
        "identity",
        Status.NOTE,
        "this boot only",
        "systemd-machine-id-setup",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_host_with_one_trouble_is_told_what_and_how_to_mend(case: str) -> None:
    change, name, status, seen, mend = CASES[case]
    found = check(replace(GOOD, **change), name)
    assert found.status is status, found
    assert seen in found.seen, found
    assert mend in (found.mend or ""), found
    assert found.why
    assert status is Status.NOTE or found.mend, "a warning without a cure"


@pytest.mark.parametrize("case", CASES)
def test_one_trouble_changes_no_verdict_that_it_does_not_touch(case: str) -> None:
    change, name, status, _seen, _mend = CASES[case]
    found = doctor_checks.examine(replace(GOOD, **change))
    assert (doctor_checks.worst(found) is Status.BAD) == (status is Status.BAD or case == "no sandbox at all")
    others = {one.name: one.status for one in found if one.status is Status.BAD and one.name != name}
    assert not others


def test_swap_that_the_limit_covers_is_no_trouble() -> None:
    tight = cgroup_limit(memory_bytes=GIB, swap_bytes=0)
    assert check(replace(GOOD, limits=tight, swap_total_bytes=GIB), "cgroup limits").status is Status.NOTE
    v1 = cgroup_limit(memory_bytes=GIB, swap_bytes=GIB)
    v1["cgroup_swap_bytes"] = {"value": GIB, "reason": None, "scope": "/x (memory and swap together)"}
    assert check(replace(GOOD, limits=v1, swap_total_bytes=GIB), "cgroup limits").status is Status.NOTE


def test_no_landlock_makes_landrun_bad_only_where_it_is_the_one_sandbox() -> None:
    lets = replace(GOOD, landlock_abi=None, landrun_enforces=Tried(False, "a forbidden write was NOT refused"))
    assert doctor_checks.worst(doctor_checks.examine(lets)) is Status.WARN
    alone = replace(lets, bwrap_works=Tried(False, "no"))
    assert doctor_checks.worst(doctor_checks.examine(alone)) is Status.BAD


@given(st.integers(1, 9))
def test_a_newer_landlock_leaves_less_open_and_never_nothing(abi: int) -> None:
    older, newer = doctor_checks.landlock_open(abi), doctor_checks.landlock_open(abi + 1)
    assert set(newer) <= set(older)
    assert "UDP" in newer
    assert ("TCP" in older) == (abi < 4)
    assert any("AF_UNIX" in what for what in older) == (abi < 9)


# What is shown


def test_plain_text_says_why_and_how_only_where_it_is_needed() -> None:
    lines = doctor.as_lines(doctor_checks.examine(replace(GOOD, turbo=True, clock_source="jiffies")))
    assert sum(" why: " in line for line in lines) == 2
    assert "figures from this host would be wrong" in lines[-1]
    assert "1 bad" in lines[-1]
    assert "this host can measure (" in doctor.as_lines(doctor_checks.examine(GOOD))[-1]


def test_rich_output_shows_brackets_of_what_was_seen(capsys: pytest.CaptureFixture[str]) -> None:
    said = "[landrun:error] [bold]x[/nothing]"
    doctor._show(doctor_checks.examine(replace(GOOD, landrun_enforces=Tried(False, said))))
    assert "[landrun:error]" in capsys.readouterr().out


def test_json_holds_every_check_with_its_parts() -> None:
    shown = json.loads(doctor.as_json(doctor_checks.examine(replace(GOOD, clock_source="jiffies")), "/s\udcff"))
    assert shown["schema"] == 1
    assert shown["status"] == "bad"
    assert shown["store"] == "/s\\xff"
    assert len(shown["checks"]) == len(doctor_checks.ALL)
    assert all(set(one) == {"name", "status", "seen", "why", "mend", "facts"} for one in shown["checks"])


# The real host


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(prog="proofcost")
    doctor.add_parser(whole.add_subparsers(required=True))
    return whole


def run(*words: str) -> int:
    args = parser().parse_args(["doctor", *words])
    return int(args.run(args))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "SAMPLE_S", 0.05)


@pytest.mark.guest
def test_this_host_is_looked_at(tmp_path: Path, capsys: pytest.CaptureFixture[str], quick: None) -> None:
    status = run("--json", "--store", str(tmp_path / "store"))
    shown = json.loads(capsys.readouterr().out)
    checks = {one["name"]: one for one in shown["checks"]}
    assert status == (1 if shown["status"] == "bad" else 0)
    assert checks["store"]["facts"]["path"] == str(tmp_path / "store")
    assert not (tmp_path / "store").exists(), "looking must not make a store"
    try:
        assert checks["landlock"]["facts"]["abi"] == libc.landlock_abi()
    except OSError:
        assert checks["landlock"]["facts"]["abi"] is None
    assert checks["counters"]["facts"]["events"]["task_clock"]
    assert checks["smt"]["facts"]["cpus_count"] == os.cpu_count()


@pytest.mark.guest
def test_looking_leaves_no_cgroup_behind() -> None:
    seen = doctor.look_cgroup()
    made = seen["cgroup_made"]
    assert isinstance(made, dict)
    if os.geteuid() == 0 and seen["cgroup_kind"] != "off":
        assert made, seen
    for directory in made.values():
        assert not Path(directory).exists()


def test_a_store_below_dev_is_bad(capsys: pytest.CaptureFixture[str], quick: None) -> None:
    assert run("--store", "/dev/shm/proofcost-never-made") == 1
    out = capsys.readouterr().out
    assert "below /dev" in out
    assert "\x1b" not in out, "no colours into a pipe"


def test_looking_at_a_store_changes_nothing(tmp_path: Path) -> None:
    """A store named by mistake may be anything: /etc at mode 0700 is a machine that is broken."""
    place = tmp_path / "store"
    place.mkdir(mode=0o755)
    assert doctor._store_fault(str(place)) == (None, "mode is 0755; the meter sets it to 0700 at its next call")
    (place / "sessions").mkdir()
    assert doctor._store_fault(str(place))[0] is None
    (place / "passwd").write_text("")
    fault, drift = doctor._store_fault(str(place))
    assert "holds other things (passwd)" in (fault or "")
    assert drift is None
    assert place.stat().st_mode & 0o777 == 0o755
    place.chmod(0o700)
    assert doctor._store_fault(str(place)) == (None, None)


@pytest.mark.parametrize("kind", ["file", "link", "others may write", "below a link"])
def test_a_store_that_the_meter_would_refuse_is_told_by_its_own_name(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "store"
    if kind == "file":
        place.write_text("")
    elif kind == "link":
        (tmp_path / "real").mkdir()
        place.symlink_to("real")
    elif kind == "others may write":
        place.mkdir()
        place.chmod(0o777)
    else:
        (tmp_path / "real").mkdir()
        (tmp_path / "link").symlink_to("real")
        place = tmp_path / "link" / "store"
    fault, _drift = doctor._store_fault(str(place))
    assert fault is not None
    assert str(place) in fault
    assert "/doctor" not in fault


def test_a_wrong_option_is_usage() -> None:
    with pytest.raises(SystemExit) as stop:
        run("--no-such-option")
    assert stop.value.code == 2


def test_landrun_is_found_and_made_to_refuse(landrun: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COMPARATOR_LANDRUN", str(landrun))
    tool = doctor.find_tool("landrun", "COMPARATOR_LANDRUN")
    assert tool is not None
    assert tool.version
    assert tool.sha256
    assert doctor.try_landrun(tool) == Tried(True)


def script(path: Path, text: str) -> Tool:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return Tool(path.name, str(path), None, None)


def test_a_landrun_that_confines_nothing_is_caught(tmp_path: Path) -> None:
    fake = script(tmp_path / "landrun", 'while [ "$1" != -- ]; do shift; done; shift; exec "$@"')
    assert doctor.try_landrun(fake) == Tried(False, "a forbidden write was NOT refused")
    broken = script(tmp_path / "landrun", "echo '[landrun:error] no ruleset'; exit 1")
    assert doctor.try_landrun(broken) == Tried(False, "does not start a program: [landrun:error] no ruleset")


def test_an_elan_shim_is_not_asked_for_its_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked, it may download a toolchain."""
    script(tmp_path / "elan", f"touch {tmp_path}/asked; echo 4.1")
    (tmp_path / "lake").symlink_to("elan")
    monkeypatch.setenv("PATH", str(tmp_path))
    tool = doctor.find_tool("lake")
    assert tool is not None
    assert tool.version is not None
    assert "elan" in tool.version
    assert not (tmp_path / "asked").exists()


def test_a_tool_that_hangs_or_says_nothing_has_no_version(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(doctor, "ANSWER_S", 0.2)
    for text in ("exec sleep 60", "exit 0", "echo 'usage: 1 file'; exit 1", "printf '\\033[31m'; exit 0"):
        script(tmp_path / "kernel", text)
        tool = doctor.find_tool("kernel")
        assert tool is not None
        assert tool.version is None or "\x1b" not in tool.version


def test_an_interpreter_that_others_may_change_is_told(tmp_path: Path) -> None:
    python = script(tmp_path / "python3", "exit 0")
    (tmp_path / "python3").chmod(0o777)
    assert "written by others" in (doctor._who_else_may_change(python.path) or "") or os.geteuid() != 0


def test_a_clone_that_uses_our_id_is_seen(tmp_path: Path) -> None:
    store = tmp_path / "store"
    store.mkdir()
    found = host.identity(str(store))
    assert doctor.look_identity(str(store))["other_boots_at_once"] == ()
    directory = store / "hosts" / str(found["instance"])
    (own,) = directory.iterdir()
    (directory / "broken.json").write_text("{")
    (directory / "other.json").write_text(own.read_text().replace(str(found["boot_id"]), "another-boot"))
    assert doctor.look_identity(str(store))["other_boots_at_once"] == ("another-boot",)
    parts = json.loads(own.read_text())
    earlier = {**parts, "boot_id": "before", "made": {"realtime_ns": 10**18, "boottime_ns": 5}}
    (directory / "other.json").write_text(json.dumps(earlier))
    assert doctor.look_identity(str(store))["other_boots_at_once"] == ()


def test_doctor_needs_no_stdin_and_no_terminal(tmp_path: Path) -> None:
    code = "import sys; sys.path[:0] = sys.argv[1:2]; import test_doctor as t; sys.exit(t.run('--store', sys.argv[2]))"
    shutil.copy(__file__, tmp_path / "test_doctor.py")
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path), str(tmp_path / "store")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=root,
        check=False,
    )
    assert done.returncode in (0, 1)
    assert "this host" in done.stdout
    assert done.stderr == ""


def install(target: Path, store: Path, landrun: str, bwrap: str = "/bin/true") -> None:
    command = [sys.executable, "-m", "proofcost", "install", str(target), "--store", str(store), "--landrun", landrun]
    subprocess.run([*command, "--bwrap", bwrap], check=True, stdout=subprocess.DEVNULL)


def test_installed_launchers_are_started_once(tmp_path: Path) -> None:
    target, store = tmp_path / "L", tmp_path / "store"
    install(target, store, "/bin/true")
    tried = doctor.look_launchers(str(target))
    assert tried == Tried(True, f"each started once as user {os.geteuid()}, as installed, measuring")
    assert list(store.glob("sessions/*")) == [], "the trial is no judge's session"


def test_a_sandbox_that_is_not_here_makes_no_launcher_bad(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Most judges need one of the two; but one that was there when it was installed and went away is missed."""
    target, store, gone = tmp_path / "L", tmp_path / "store", tmp_path / "gone"
    gone.symlink_to("/bin/true")
    install(target, store, "/bin/true", str(gone))
    manifest = json.loads((target / "manifest.json").read_text())
    gone.unlink()
    missing = doctor.look_launchers(str(target))
    assert (missing.works, "bwrap ended with 127" in missing.said) == (False, True)
    manifest["real"]["bwrap"] = "bwrap"
    (target / "manifest.json").write_text(json.dumps(manifest))
    monkeypatch.setenv("PATH", str(tmp_path))
    tried = doctor.look_launchers(str(target))
    assert (tried.works, tried.said.endswith("there is no bwrap here")) == (True, True)


def test_a_launcher_that_was_changed_or_cannot_start_is_bad(tmp_path: Path) -> None:
    target, store = tmp_path / "L", tmp_path / "store"
    install(target, store, "/bin/false", "/bin/true")
    failing = doctor.look_launchers(str(target))
    assert (failing.works, failing.said.startswith("landrun ended with 1: ")) == (False, True)
    (target / "meter/proofcost/harness/meter.py").write_text("raise SystemExit(0)\n")
    changed = doctor.look_launchers(str(target))
    assert (changed.works, "1 file(s) are not as installed" in changed.said) == (False, True)
    assert doctor.look_launchers(str(tmp_path)).works is False


@pytest.mark.parametrize(
    ("tried", "directory", "status"),
    [(Tried(None), None, Status.GOOD), (Tried(True, "x"), "/L", Status.GOOD), (Tried(False, "x"), "/L", Status.BAD)],
)
def test_launchers_check(tried: Tried, directory: str | None, status: Status) -> None:
    assert doctor_checks.launchers(replace(GOOD, launchers=tried, launchers_directory=directory)).status is status


def test_every_kernel_that_the_registry_knows_is_found_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "mine"
    program.write_text("#!/bin/sh\necho mine 1.2\n")
    program.chmod(0o755)
    own = tmp_path / "own.toml"
    own.write_text(
        '[mine]\ndescription = "one of ours"\nprograms = ["mine"]\nversion = ["--version"]\n'
        'version_pattern = "mine (.*)"\ninput = "path"\nexit = { 0 = "accepted" }\n'
    )
    monkeypatch.setenv("PROOFCOST_KERNELS", str(own))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("PROOFCOST_NANODA", "PROOFCOST_SOKONANODA"):
        monkeypatch.delenv(name, raising=False)
    (found,) = doctor.look_kernels()
    assert (found.name, found.path, found.version) == ("mine", str(program), "1.2")
    assert found.sha256 == hashlib.sha256(program.read_bytes()).hexdigest()


def test_a_faulty_list_of_kernels_is_told_and_the_known_ones_are_still_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own.toml").write_text("[mine]\nprogramm = 3\n")
    monkeypatch.setenv("PROOFCOST_KERNELS", str(tmp_path / "own.toml"))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("PROOFCOST_NANODA", "PROOFCOST_SOKONANODA"):
        monkeypatch.delenv(name, raising=False)
    assert doctor.look_kernels() == ()
    assert "own.toml:2: mine.programm: unknown key; did you mean programs?" in capfd.readouterr().err
