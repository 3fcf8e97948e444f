"""Which machine this is: stable, never forged, never forked; and what else happened on it, never 0 for unknown."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofcost.harness import digest, host, hostclass, record

MACHINE_ID = "0123456789abcdef0123456789abcdef\n"
BOOT = "1f835752-23b0-4215-9d51-2e7cbbbb1397"
OTHER_BOOT = "2f835752-23b0-4215-9d51-2e7cbbbb1397"

X86 = """processor\t: {cpu}
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: 151
model name\t: 12th Gen Intel(R) Core(TM) i7-12700
stepping\t: 2
microcode\t: 0x2e
cpu MHz\t\t: {mhz}
flags\t\t: fpu vme tsc {flag}

"""
ARM = """processor\t: {cpu}
BogoMIPS\t: 48.00
Features\t: fp asimd
CPU implementer\t: 0x41
CPU architecture: 8
CPU variant\t: 0x1
CPU part\t: {part}
CPU revision\t: 0

"""


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class Machine:
    """A machine's /proc, /sys and /etc as files."""

    def __init__(self, root: Path, cpus: int = 2, threads: int = 1, cpuinfo: str = "") -> None:
        self.root = root
        self.proc, self.sys, self.etc = (root / name for name in ("proc", "sys", "etc"))
        self.cpu = self.sys / "devices/system/cpu"
        write(self.etc / "machine-id", MACHINE_ID)
        self.boot(BOOT)
        write(self.proc / "sys/kernel/osrelease", "6.1.0-18-amd64\n")
        write(self.proc / "meminfo", "MemTotal:       24684084 kB\nMemFree:        1 kB\n")
        write(self.proc / "cpuinfo", cpuinfo or "".join(X86.format(cpu=n, mhz=n, flag="") for n in range(cpus)))
        write(self.cpu / "online", f"0-{cpus - 1}\n")
        write(self.sys / "devices/system/node/online", "0\n")
        for n in range(cpus):
            first = n // threads * threads
            siblings = f"{first}-{first + threads - 1}\n" if threads > 1 else f"{n}\n"
            write(self.cpu / f"cpu{n}/topology/thread_siblings_list", siblings)
            write(self.cpu / f"cpu{n}/topology/physical_package_id", "0\n")
            self.cache(n, 0, "1", "Data", "48K", siblings)
            self.cache(n, 1, "3", "Unified", "25600K", f"0-{cpus - 1}\n")

    def cache(self, cpu: int, index: int, level: str, kind: str, size: str, shared: str) -> None:
        base = self.cpu / f"cpu{cpu}/cache/index{index}"
        for name, text in (("level", level), ("type", kind), ("size", size), ("shared_cpu_list", shared)):
            write(base / name, text.strip() + "\n")

    def boot(self, boot_id: str) -> None:
        write(self.proc / "sys/kernel/random/boot_id", boot_id + "\n")

    def governor(self, name: str) -> None:
        write(self.cpu / "cpufreq/policy0/scaling_governor", name + "\n")

    def capacities(self, text: str) -> None:
        for n in range(2):
            write(self.cpu / f"cpu{n}/cpu_capacity", text + "\n")

    def gather(self, machine: str = "x86_64") -> tuple[dict[str, Any], dict[str, Any]]:
        matters, declarable = hostclass.gather(str(self.proc), str(self.sys), machine)
        record.dumps([matters, declarable])
        return dict(matters), dict(declarable)

    def name(self) -> str:
        return hostclass.name_of(*hostclass.gather(str(self.proc), str(self.sys), "x86_64"))

    def identity(self, store: Path) -> dict[str, Any]:
        return dict(host.identity(str(store), str(self.proc), str(self.sys), str(self.etc)))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "machine")


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store"
    path.mkdir()
    return path


# Instance


def test_one_machine_keeps_its_id_over_calls_and_boots(machine: Machine, store: Path) -> None:
    first = machine.identity(store)
    assert machine.identity(store) == first
    machine.boot(OTHER_BOOT)
    second = machine.identity(store)
    assert second["instance"] == first["instance"]
    assert second["class"] == first["class"]
    assert (first["boot_id"], second["boot_id"], second["reason"]) == (BOOT, OTHER_BOOT, None)
    assert sorted(path.name for path in (store / "hosts" / first["instance"]).iterdir()) == [
        BOOT + ".json",
        OTHER_BOOT + ".json",
    ]


def test_two_machines_that_share_a_store_are_two(machine: Machine, store: Path, tmp_path: Path) -> None:
    other = Machine(tmp_path / "other")
    write(other.etc / "machine-id", MACHINE_ID.replace("0", "f"))
    assert machine.identity(store)["instance"] != other.identity(store)["instance"]


def test_the_machine_id_itself_is_not_shown(machine: Machine, store: Path) -> None:
    machine.identity(store)
    told = [str(path.relative_to(store)) + path.read_text() for path in store.rglob("*") if path.is_file()]
    assert len(told) == 2
    assert not any(MACHINE_ID.strip() in text for text in told)


def test_files_are_private_and_nothing_is_left_over(machine: Machine, store: Path) -> None:
    machine.identity(store)
    modes = {path.is_dir(): path.stat().st_mode & 0o777 for path in (store / "hosts").rglob("*")}
    assert modes == {True: 0o700, False: 0o600}
    assert len(list((store / "hosts").rglob("*"))) == 3


@pytest.mark.parametrize(
    ("text", "word"),
    [(None, "missing"), ("", "empty"), ("uninitialized\n", "no machine id"), ("\xff" * 32, "no machine")],
)
def test_without_a_machine_id_the_host_is_known_for_this_boot(
    machine: Machine, store: Path, text: str | None, word: str
) -> None:
    (machine.etc / "machine-id").unlink()
    if text is not None:
        write(machine.etc / "machine-id", text)
    first = machine.identity(store)
    assert word in first["machine_id_reason"]
    assert machine.identity(store) == first
    machine.boot(OTHER_BOOT)
    assert machine.identity(store)["instance"] != first["instance"]


def test_a_damaged_id_is_never_replaced(machine: Machine, store: Path) -> None:
    """A new id for an old machine would fork its history without a word."""
    machine.identity(store)
    (path,) = (store / "hosts").glob("*.id")
    for damage in (b"", b"x" * 33, path.read_bytes()[:-1], path.read_bytes() * 2):
        path.write_bytes(damage)
        found = machine.identity(store)
        assert found["instance"] is None
        assert found["class"] is None
        assert "damaged" in found["reason"]
        assert path.read_bytes() == damage


@pytest.mark.parametrize("obstacle", ["missing", "file", "hosts is a file", "link"])
def test_a_store_that_cannot_be_used_is_a_reason(machine: Machine, store: Path, obstacle: str) -> None:
    if obstacle == "missing":
        store = store / "nowhere" / "at all"
    elif obstacle == "file":
        store = machine.etc / "machine-id"
    elif obstacle == "hosts is a file":
        (store / "hosts").write_text("")
    else:
        machine.identity(store)
        (path,) = (store / "hosts").glob("*.id")
        path.rename(store / "elsewhere")
        path.symlink_to(store / "elsewhere")
    found = machine.identity(store)
    assert (found["instance"], found["class"], found["boot_id"]) == (None, None, BOOT)
    assert found["reason"].startswith("hosts/ in the store: ")


def test_a_store_that_may_not_be_written_is_a_reason(machine: Machine, store: Path, tmp_path: Path) -> None:
    for path in (tmp_path, *tmp_path.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    code = (
        "import os\n"
        "from proofcost.harness import host, hostclass\n"
        "if os.geteuid() == 0:\n    os.setgid(65534); os.setuid(65534)\n"
        "os.chmod('store', 0o555) if os.stat('store').st_uid == os.geteuid() else None\n"
        "found = host.identity('store', 'machine/proc', 'machine/sys', 'machine/etc')\n"
        "print(found['instance'], found['reason'])"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parent.parent)}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.stdout == "None hosts/ in the store: Permission denied\n", done.stderr


def test_without_a_boot_id_there_is_no_class(machine: Machine, store: Path) -> None:
    machine.boot("../../etc")
    found = machine.identity(store)
    assert found["boot_id"] is None
    assert found["class"] is None
    assert found["reason"] == "no boot id: class not looked up"


def test_meters_that_come_first_at_the_same_time_agree(machine: Machine, store: Path) -> None:
    children = []
    for n in range(12):
        pid = os.fork()
        if pid == 0:
            found = machine.identity(store)
            (store / f"said-{n}").write_text(f"{found['instance']} {found['class']} {found['reason']}")
            os._exit(0)
        children.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * 12
    assert len({path.read_text() for path in store.glob("said-*")}) == 1
    assert "None" in next(store.glob("said-*")).read_text().split()[2]
    assert len(list((store / "hosts").rglob("*"))) == 3


def test_a_filesystem_without_hard_links_will_do(
    machine: Machine, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    first = machine.identity(store)
    assert first["reason"] is None
    assert machine.identity(store) == first
    assert len(list((store / "hosts").rglob("*"))) == 3


# Class file


def test_the_class_is_gathered_once_per_boot(machine: Machine, store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = machine.identity(store)
    monkeypatch.setattr(hostclass, "gather", lambda *_: pytest.fail("gathered again"))
    assert machine.identity(store) == first


def test_the_class_file_holds_the_parts_of_its_class(machine: Machine, store: Path) -> None:
    found = machine.identity(store)
    parts = json.loads((store / "hosts" / found["instance"] / (BOOT + ".json")).read_text())
    assert parts["schema"] == 1
    assert parts["class"] == found["class"] == hostclass.name_of(parts["matters"], parts["declarable"])
    assert parts["matters"]["cpu_models"] == ["12th Gen Intel(R) Core(TM) i7-12700"]
    assert parts["boot_id"] == BOOT
    assert parts["made"]["realtime_ns"] > parts["made"]["boottime_ns"] > 0


def test_a_governor_set_while_the_machine_runs_is_another_class(machine: Machine, store: Path) -> None:
    machine.governor("powersave")
    first = machine.identity(store)
    machine.governor("performance")
    second = machine.identity(store)
    assert second["class"] != first["class"]
    assert second["instance"] == first["instance"]
    assert machine.identity(store) == second
    machine.governor("powersave")
    assert machine.identity(store) == first
    names = sorted(path.name for path in (store / "hosts" / first["instance"]).iterdir())
    assert len(names) == 2
    assert names[0].startswith(BOOT + "-")


@pytest.mark.parametrize("damage", [b"", b"{}\n", b'{"schema":1,"class":"zz', b"\0" * 300])
def test_a_damaged_class_file_costs_time_and_nothing_else(machine: Machine, store: Path, damage: bytes) -> None:
    first = machine.identity(store)
    directory = store / "hosts" / first["instance"]
    (directory / (BOOT + ".json")).write_bytes(damage)
    assert machine.identity(store) == first
    (second,) = directory.glob(BOOT + "-*.json")
    second.write_bytes(damage)
    assert machine.identity(store) == first
    assert host.parse_head(second.read_bytes()) is not None


@given(st.binary(max_size=120))
def test_a_head_is_understood_or_refused(raw: bytes) -> None:
    assert host.parse_head(raw) is None
    assert host.parse_head(b'{"schema":1,"class":"' + raw) is None


# Class parts


def test_a_desktop_with_threads_is_read(tmp_path: Path) -> None:
    matters, declarable = Machine(tmp_path, cpus=8, threads=2).gather()
    assert matters["cpus_count"] == 8
    assert (matters["sockets_count"], matters["cores_count"], matters["threads_per_core_count"]) == (1, 4, 2)
    assert matters["cpu_signatures"] == ["GenuineIntel/6/151/2"]
    assert matters["memory_gib_count"] == 24
    assert matters["virtual"] is False
    assert matters["caches"] == [
        {"level": 1, "type": "Data", "size_bytes": 49152, "shared_by_cpus_count": 2, "count": 4},
        {"level": 3, "type": "Unified", "size_bytes": 26214400, "shared_by_cpus_count": 8, "count": 1},
    ]
    assert len(matters["core_kinds"]) == 1
    assert declarable["microcode"] == ["0x2e"]
    assert declarable["kernel_release"] == "6.1.0-18-amd64"


def test_a_hybrid_is_two_kinds_of_core(tmp_path: Path) -> None:
    """benchexec #850: P and E cores make timings incomparable."""
    machine = Machine(tmp_path, cpus=4)
    write(machine.sys / "devices/cpu_core/cpus", "0-1\n")
    write(machine.sys / "devices/cpu_atom/cpus", "2-3\n")
    kinds = machine.gather()[0]["core_kinds"]
    assert [(kind["counter_device"], kind["cpus_count"]) for kind in kinds] == [("cpu_atom", 2), ("cpu_core", 2)]


def test_a_hybrid_is_known_by_top_speed_or_capacity_alone(tmp_path: Path) -> None:
    by_speed, by_capacity = Machine(tmp_path / "a", cpus=4), Machine(tmp_path / "b", cpus=4)
    for n, speed in enumerate((4900000, 4800000, 3600000, 3600000)):
        write(by_speed.cpu / f"cpu{n}/cpufreq/cpuinfo_max_freq", f"{speed}\n")
        write(by_capacity.cpu / f"cpu{n}/cpu_capacity", f"{speed // 5000}\n")
    assert [kind["max_frequency_khz"] for kind in by_speed.gather()[0]["core_kinds"]] == [3600000, 4900000]
    assert [kind["capacity"] for kind in by_capacity.gather()[0]["core_kinds"]] == [720, 980]


def test_a_favoured_core_is_no_hybrid(tmp_path: Path) -> None:
    machine = Machine(tmp_path, cpus=4)
    for n, speed in enumerate((5200000, 5100000, 5000000, 4950000)):
        write(machine.cpu / f"cpu{n}/cpufreq/cpuinfo_max_freq", f"{speed}\n")
    assert len(machine.gather()[0]["core_kinds"]) == 1


def test_arm_cores_are_named_by_their_numbers(tmp_path: Path) -> None:
    cpuinfo = "".join(ARM.format(cpu=n, part="0xd05" if n < 2 else "0xd0b") for n in range(4))
    matters, declarable = Machine(tmp_path, cpus=4, cpuinfo=cpuinfo).gather("aarch64")
    assert matters["cpu_models"] == ["0x41/0xd05/0x1/0", "0x41/0xd0b/0x1/0"]
    assert [kind["cpus_count"] for kind in matters["core_kinds"]] == [2, 2]
    assert matters["virtual"] is None
    assert "architecture" in matters["virtual_reason"]
    assert declarable["microcode"] is None


@pytest.mark.parametrize(
    ("vendor", "product", "architecture", "virtual"),
    [
        ("QEMU", "Standard PC", "aarch64", True),
        ("Amazon EC2", "c7g.large", "aarch64", True),
        ("Amazon EC2", "c7g.metal", "aarch64", False),
        ("Microsoft Corporation", "Virtual Machine", "aarch64", True),
        ("Dell Inc.", "PowerEdge", "x86_64", False),
    ],
)
def test_virtual_or_not(tmp_path: Path, vendor: str, product: str, architecture: str, virtual: bool) -> None:
    arm = "".join(ARM.format(cpu=n, part="0xd40") for n in range(2))
    machine = Machine(tmp_path, cpuinfo=arm if architecture == "aarch64" else "")
    write(machine.sys / "class/dmi/id/sys_vendor", vendor + "\n")
    write(machine.sys / "class/dmi/id/product_name", product + "\n")
    assert machine.gather(architecture)[0]["virtual"] is virtual


def test_a_guest_with_the_hypervisor_flag_is_virtual(tmp_path: Path) -> None:
    cpuinfo = "".join(X86.format(cpu=n, mhz=1, flag="hypervisor lahf_lm") for n in range(2))
    matters, declarable = Machine(tmp_path, cpuinfo=cpuinfo).gather()
    assert matters["virtual"] is True
    assert declarable["hypervisor"] is None
    assert declarable["hypervisor_reason"] == "it does not say"


def test_a_machine_that_tells_nothing_is_all_reasons(tmp_path: Path) -> None:
    matters, declarable = hostclass.gather(str(tmp_path), str(tmp_path), "riscv64")
    for parts in (matters, declarable):
        for name, value in parts.items():
            assert value is not None or parts[name + "_reason"], name
    assert matters["cpus_count"] is None


Change = Callable[[Machine], None]


@pytest.mark.parametrize(
    "change",
    [
        lambda m: write(m.proc / "cpuinfo", (m.proc / "cpuinfo").read_text().replace("i7-12700", "i7-12700K")),
        lambda m: write(m.cpu / "cpu1/topology/physical_package_id", "1\n"),
        lambda m: write(m.cpu / "online", "0\n"),
        lambda m: m.cache(0, 0, "1", "Data", "32K", "0"),
        lambda m: write(m.sys / "devices/system/node/online", "0-1\n"),
        lambda m: write(m.proc / "meminfo", "MemTotal:       49368168 kB\n"),
        lambda m: m.governor("performance"),
        lambda m: write(m.cpu / "intel_pstate/no_turbo", "1\n"),
        lambda m: write(m.proc / "cpuinfo", (m.proc / "cpuinfo").read_text().replace("tsc", "hypervisor")),
        lambda m: write(m.sys / "devices/cpu_atom/cpus", "1\n"),
    ],
)
def test_what_matters_for_cost_changes_the_class(machine: Machine, change: Change) -> None:
    before = machine.name()
    change(machine)
    assert machine.name().split("-")[0] != before.split("-")[0]


@pytest.mark.parametrize(
    "change",
    [
        lambda m: write(m.proc / "cpuinfo", (m.proc / "cpuinfo").read_text().replace("0x2e", "0x35")),
        lambda m: write(m.proc / "sys/kernel/osrelease", "6.1.0-19-amd64\n"),
        lambda m: write(m.sys / "class/dmi/id/sys_vendor", "QEMU\n"),
    ],
)
def test_what_may_be_declared_harmless_changes_the_second_half_only(machine: Machine, change: Change) -> None:
    flagged = (machine.proc / "cpuinfo").read_text().replace("tsc", "tsc hypervisor")
    write(machine.proc / "cpuinfo", flagged)
    before = machine.name()
    change(machine)
    after = machine.name()
    assert after.split("-")[0] == before.split("-")[0]
    assert after != before


@pytest.mark.parametrize(
    "change",
    [
        # pytest-benchmark #255: the CPU's speed at the moment made "another machine" of each start
        lambda m: write(m.proc / "cpuinfo", (m.proc / "cpuinfo").read_text().replace("MHz\t\t: 1", "MHz\t\t: 4900.1")),
        lambda m: write(m.proc / "meminfo", "MemTotal:       24600000 kB\n"),
        lambda m: m.capacities("1024"),
    ],
)
def test_what_does_not_matter_does_not_change_the_class(machine: Machine, change: Change) -> None:
    before = machine.name()
    change(machine)
    assert machine.name() == before


@given(st.lists(st.integers(0, 500), max_size=30, unique=True))
def test_cpu_lists_round_trip(cpus: list[int]) -> None:
    assert hostclass.cpu_list(",".join(map(str, cpus))) == cpus


@given(st.binary(max_size=300))
def test_cpuinfo_of_any_bytes_is_read_without_a_fault(raw: bytes) -> None:
    record.dumps([dict(block) for block in hostclass.cpuinfo_blocks(b"processor : 0\nmodel name : " + raw)])


# What else happened

STAT = b"cpu  100 5 50 1000 20 1 2 7 30 0\ncpu0 1 2 3 4 5 6 7 8 9 0\nintr 5\n"
VMSTAT = b"nr_free_pages 5\npswpin 3\npswpout 4\nthp_swpout 9\noom_kill 2\nzswpin 8\n"
PRESSURE = b"some avg10=0.13 avg60=0.15 avg300=0.74 total=18803980\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=12\n"
NAMES = {
    "steal",
    "busy",
    "swap_in",
    "swap_out",
    "host_oom_kills",
    "psi_cpu_some",
    "psi_memory_some",
    "psi_memory_full",
    "psi_io_some",
    "psi_io_full",
}


def test_stat_is_read_in_ns() -> None:
    tick = 10**9 // os.sysconf("SC_CLK_TCK")
    assert host.parse_stat(STAT) == {"steal": 7 * tick, "busy": 158 * tick}


@pytest.mark.parametrize(
    "raw", [b"", b"cpu  1 2 3\n", b"cpu  100 5 50 1000 20 1 2 7", b"intr 5\n", b"cpu a b c d e f g h i\n"]
)
def test_a_stat_that_is_cut_or_old_is_unknown(raw: bytes) -> None:
    assert host.parse_stat(raw) == {"steal": None, "busy": None}


def test_vmstat_is_read_in_bytes() -> None:
    assert host.parse_vmstat(VMSTAT, 4096) == {"swap_in": 12288, "swap_out": 16384, "host_oom_kills": 2}
    assert host.parse_vmstat(b"zpswpin 4\nnr_oom_kill 3\n") == {
        "swap_in": None,
        "swap_out": None,
        "host_oom_kills": None,
    }


def test_pressure_is_read_in_ns() -> None:
    assert host.parse_pressure(PRESSURE, "psi_io") == {"psi_io_some": 18803980000, "psi_io_full": 12000}
    # kernels before 5.13 had no `full` for cpu
    assert host.parse_pressure(b"some avg10=0.00 total=5\n", "psi_cpu") == {"psi_cpu_some": 5000, "psi_cpu_full": None}


@given(st.binary(max_size=200))
def test_any_bytes_are_a_number_or_unknown(raw: bytes) -> None:
    for found in (host.parse_stat(raw), host.parse_vmstat(raw), host.parse_pressure(raw, "psi_io")):
        assert all(value is None or value >= 0 for value in found.values())


def test_a_host_without_psi_and_swap_figures_says_unavailable_and_why(tmp_path: Path) -> None:
    write(tmp_path / "stat", STAT.decode())
    write(tmp_path / "vmstat", "nr_free_pages 5\n")
    before = host.snapshot(str(tmp_path))
    found = host.disturbance(before, host.snapshot(str(tmp_path)), str(tmp_path))
    assert set(found) == NAMES
    assert found["steal"]["value"] == 0
    assert found["steal"]["status"] == "measured"
    for name, reason in (
        ("psi_io_full", "/proc/pressure/io: No such file or directory"),
        ("swap_in", "/proc/vmstat does not have it"),
        ("host_oom_kills", "/proc/vmstat does not have it"),
    ):
        assert (found[name]["value"], found[name]["status"], found[name]["reason"]) == (None, "unavailable", reason)


def test_a_snapshot_that_failed_does_not_blame_the_host() -> None:
    found = host.disturbance(host.snapshot(), {})
    assert {figure["reason"] for figure in found.values()} == {"the meter did not read it"}


def test_a_total_that_goes_back_is_no_figure() -> None:
    found = host.disturbance({"steal": 20}, {"steal": 10})["steal"]
    assert (found["value"], found["status"]) == (None, "unavailable")
    assert found["reason"] == "the host's total went back, from 20 to 10"


@given(st.dictionaries(st.sampled_from(sorted(NAMES)), st.one_of(st.none(), st.integers(0, 2**63 - 1))))
def test_disturbance_is_the_difference_or_a_reason(after: dict[str, int | None]) -> None:
    found = host.disturbance(dict.fromkeys(NAMES, 0), after)
    record.dumps({name: dict(figure) for name, figure in found.items()})
    for name in NAMES:
        assert found[name]["value"] == after.get(name)
        assert (found[name]["reason"] is None) == (after.get(name) is not None)


# This host


def test_this_host_has_an_identity(store: Path) -> None:
    found = host.identity(str(store))
    assert found["reason"] is None
    assert host.identity(str(store)) == found


def test_this_host_burns_cpu_that_a_snapshot_sees() -> None:
    before = host.snapshot()
    subprocess.run(
        [sys.executable, "-c", "import time; e = time.process_time() + 0.2\nwhile time.process_time() < e: 0"],
        check=True,
    )
    busy = host.disturbance(before, host.snapshot())["busy"]
    assert isinstance(busy["value"], int)
    assert busy["value"] >= 150_000_000


def test_the_hot_path_imports_nothing_dear() -> None:
    code = (
        "import os, sys, time; known = set(sys.modules)\n"
        "from proofcost.harness import digest, host, limits\n"
        "print(*sorted(set(sys.modules) - known))"
    )
    root = str(Path(digest.__file__).resolve().parent.parent)
    command = [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.insert(0, {root!r})\n{code}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    new = {name for name in done.stdout.split() if not name.startswith("proofcost")}
    assert new <= {"errno", "resource", "_sha256", "_sha2"}, new
