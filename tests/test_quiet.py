"""A look at the host before a block: what counts as quiet, and that our own doing does not count."""

from pathlib import Path

import pytest

from proofcost.bench_suites import quiet
from proofcost.bench_suites.quiet import Quiet

QUIET = {
    "loadavg": "0.05 0.10 0.20 1/234 5678\n",
    "meminfo": "MemTotal: 1000 kB\nMemAvailable: 900 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n",
    "pressure/cpu": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 avg60=0 avg300=0 total=0\n",
    "pressure/memory": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n",
    "pressure/io": "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n",
}


@pytest.fixture
def host(tmp_path: Path) -> Path:
    for name, text in QUIET.items():
        say(tmp_path, name, text)
    return tmp_path


def say(host: Path, name: str, text: str) -> None:
    path = host / "proc" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def throttle(host: Path, *counts: int) -> None:
    for cpu, count in enumerate(counts):
        folder = host / "sys" / "devices" / "system" / "cpu" / f"cpu{cpu}" / "thermal_throttle"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "core_throttle_count").write_text(f"{count}\n")


def looking(host: Path) -> Quiet:
    return Quiet(str(host / "proc"), str(host / "sys"))


def test_nothing_is_said_of_a_quiet_host(host: Path) -> None:
    look = looking(host)
    assert look.look() == []
    assert look.look() == []


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("loadavg", "0.00 0.00 0.00 3/234 5678\n", ["other tasks are running: 2"]),
        ("pressure/cpu", "some avg10=12.30 avg60=0 avg300=0 total=1\n",
         ["cpu pressure: some task waited in 12.3 % of the last 10 s"]),
        ("pressure/memory", "some avg10=1.50 avg60=0 avg300=0 total=1\n",
         ["memory pressure: some task waited in 1.5 % of the last 10 s"]),
        ("pressure/io", "some avg10=9.00 avg60=0 avg300=0 total=1\n", []),
        ("meminfo", "SwapTotal: 1000 kB\nSwapFree: 900 kB\n", ["swap in use: 102400 bytes"]),
        ("meminfo", "SwapTotal: 1000 kB\nSwapFree: 960 kB\n", []),
        ("loadavg", "", []),
        ("loadavg", "garbage\n", []),
        ("pressure/cpu", "some\n", []),
    ],
)  # fmt: skip
def test_each_disturbance_is_named_with_its_size(host: Path, name: str, text: str, expected: list[str]) -> None:
    say(host, name, text)
    assert looking(host).look() == expected


def test_load_and_pressure_of_our_own_doing_are_not_held_against_the_host(host: Path) -> None:
    look = looking(host)
    look.look()
    say(host, "loadavg", "2.00 0.10 0.20 1/234 5678\n")
    say(host, "pressure/cpu", "some avg10=90.00 avg60=0 avg300=0 total=1\n")
    assert look.look() == []


def test_load_before_we_began_counts(host: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    say(host, "loadavg", "0.50 0.10 0.20 1/234 5678\n")
    assert looking(host).look() == ["load of the last minute: 0.50 on 4 CPUs"]
    say(host, "loadavg", "0.40 0.10 0.20 1/234 5678\n")
    assert looking(host).look() == []


def test_throttling_since_the_last_look_is_told_once(host: Path) -> None:
    throttle(host, 5, 7)
    look = looking(host)
    assert look.look() == []
    throttle(host, 6, 9)
    assert look.look() == ["CPUs throttled by heat since the last look: 3 times"]
    assert look.look() == []


def test_this_very_host_can_be_looked_at() -> None:
    assert isinstance(Quiet().look(), list)
    available = quiet.memory_available_bytes()
    assert available is not None
    assert available > 10**7
