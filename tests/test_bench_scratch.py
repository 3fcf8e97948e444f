"""A bench's own folder goes with it: told to end before anything ran as well; killed, the next bench takes it away."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from benching import ACCEPT, PATIENCE_S, Bench, script

from proofcost.bench_suites import scratch


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def aged(path: Path) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "export").write_text("x")
    long_ago = time.time() - 2 * scratch.YOUNG_S
    os.utime(path, (long_ago, long_ago))
    return path


def test_the_folder_is_gone_at_the_end_whatever_ended_it(temporary: Path) -> None:
    def interrupted() -> None:
        with scratch.folder() as made:
            Path(made, "export").write_text("x")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert list(temporary.iterdir()) == []


def test_what_a_killed_bench_left_is_taken_away_and_nothing_else(temporary: Path) -> None:
    abandoned = aged(temporary / f"{scratch.PREFIX}old")
    young = temporary / f"{scratch.PREFIX}young"
    young.mkdir()
    other = aged(temporary / "somebody-elses")
    link = temporary / f"{scratch.PREFIX}link"
    link.symlink_to(other)
    with scratch.folder() as held:
        assert not abandoned.exists()
        os.utime(held, (1, 1))
        scratch.sweep()
        assert Path(held).is_dir(), "somebody works in it"
    assert (young.is_dir(), link.is_symlink(), (other / "export").exists()) == (True, True, True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_told_to_end_while_exports_are_made_it_takes_them_away(tmp_path: Path, number: signal.Signals) -> None:
    bench = Bench(tmp_path)
    script(tmp_path / "yes", ACCEPT)
    (tmp_path / "tmp").mkdir()
    process = subprocess.Popen(
        bench.argv("a=./yes", "--on", "church:2000000"),
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path / "tmp")},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    end = time.monotonic() + PATIENCE_S
    while not list((tmp_path / "tmp").glob(f"{scratch.PREFIX}*/*")):
        assert time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(number)
    _, said = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert list((tmp_path / "tmp").iterdir()) == []
