"""The families' plain script: what the demo's judge calls inside its sandbox."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from proofcost.bench_suites import families

SCRIPT = Path(__file__).parents[1] / "bench_suites" / "generate_export.py"


def run(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-I", "-S", SCRIPT, *arguments], capture_output=True, check=False)


def test_writes_a_file_and_stdout_alike(tmp_path: Path) -> None:
    path = tmp_path / "out.ndjson"
    expected = io.BytesIO()
    families.generate("church", 50, 3, expected.write)
    assert run("church:50:3", "--out", str(path)).returncode == 0
    assert path.read_bytes() == run("church:50:3").stdout == expected.getvalue()
    assert os.listdir(tmp_path) == ["out.ndjson"]


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        ((), 2, "required"),
        (("church:3",), 2, "give church:500, say"),
        (("church",), 2, "church has no size"),
        (("church:50", "--out", "/nonexistent/directory/x"), 1, "name a writable path"),
    ],
)
def test_bad_arguments(arguments: tuple[str, ...], status: int, says: str) -> None:
    done = run(*arguments)
    assert done.returncode == status
    assert says in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_refused_arguments_leave_no_file(tmp_path: Path) -> None:
    assert run("church:3", "--out", str(tmp_path / "x")).returncode == 2
    assert os.listdir(tmp_path) == []


def test_reader_that_goes_away_is_no_traceback() -> None:
    command = f'"{sys.executable}" -I -S "{SCRIPT}" church:20000 | head -1'
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)
    assert done.stderr == ""


def test_what_it_imports_is_there_without_any_package() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "importtime", str(SCRIPT), "church:8"], capture_output=True, check=True
    )
    imported = {line.rsplit(b"|", 1)[1].strip() for line in done.stderr.splitlines() if b"|" in line}
    assert not imported & {b"numpy", b"orjson", b"zstandard", b"yaml"}
