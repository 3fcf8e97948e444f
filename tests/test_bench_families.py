"""`proofcost bench --list-families`: every family and twin is told, with what is expected and in which sizes."""

import io
import subprocess

import pytest
from benching import PROOFCOST
from rich.console import Console

from proofcost import bench_families
from proofcost.bench_suites import families


def listed() -> list[str]:
    done = subprocess.run(
        [PROOFCOST, "bench", "--list-families"], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_a_pipe_gets_one_row_for_each_name_and_nothing_is_folded() -> None:
    rows = {line.split()[0]: line for line in listed()[2:]}
    assert list(rows) == list(families.names())
    many = families.get("many")
    assert rows["many"].split()[1:7] == ["accepted", "1..", "10000", "30000", "100000", "300000"]
    assert many.stresses in rows["many"]
    assert many.growth in rows["many"]
    assert rows["many-reject"].split()[1] == "rejected"
    assert many.fault in rows["many-reject"]
    assert "nat-extension, string-extension" in rows["strings"]


def test_a_pipe_gets_no_escape_sequences() -> None:
    assert not any("\x1b" in line for line in listed())


@pytest.mark.parametrize("width", [40, 80, 200])
def test_a_terminal_gets_a_paragraph_for_each_family_within_its_width(width: int) -> None:
    file = io.StringIO()
    bench_families.render(Console(file=file, force_terminal=True, width=width, color_system=None))
    lines = file.getvalue().splitlines()
    assert all(len(line) <= width for line in lines)
    assert [line.partition(":")[0] for line in lines if line[:1].strip() and ":" in line][:3] == [
        "church",
        "many",
        "def-chain",
    ]
    text = " ".join(file.getvalue().split())
    for family in families.FAMILIES:
        assert f"{family.name}-reject: rejected: {family.fault}" in text


def test_what_is_expected_is_what_the_family_says() -> None:
    assert {bench_families.expected(name) for name in families.names() if name.endswith("-reject")} == {"rejected"}
    assert bench_families.expected("nat-digits") == "accepted"
