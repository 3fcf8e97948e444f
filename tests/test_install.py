"""`proofcost install`: what it refuses, that it is whole or not at all, and that a judge never finds half of it."""

import ctypes
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from calling import PROOFCOST, call, running

from proofcost import install as module
from proofcost.adapters import launchers
from proofcost.harness import digest

COMMAND = ["--phase", "build", "--", "/bin/sh", "-c", "exit 5"]


def proofcost(*words: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, **(env or {})}
    environment.pop("COMPARATOR_LANDRUN", None) if env is None else None
    return subprocess.run([PROOFCOST, "install", *words], capture_output=True, text=True, check=False, env=environment)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "bin"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store"


@pytest.fixture
def real(tmp_path: Path) -> Path:
    path = tmp_path / "real-landrun"
    path.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    path.chmod(0o755)
    return path


def listing(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def installed(place: Path, store: Path, real: Path, *more: str) -> None:
    done = proofcost(place, "--store", store, "--landrun", real, *more)
    assert done.returncode == 0, done.stderr


def records(store: Path) -> int:
    return len([path for path in store.glob("sessions/*/*.jsonl") if ".settled" not in path.name])


def works(place: Path, folder: Path) -> bool:
    one = call([str(place / "phase"), *COMMAND], folder / "s")
    two = call([str(place / "landrun"), "--ro", "/", "--", "/bin/sh", "-c", "exit 6"], folder / "s")
    return (one.code, one.stderr, two.code, two.stderr) == (5, b"", 6, b"")


def test_what_is_installed_works_and_is_listed(tmp_path: Path, place: Path, store: Path, real: Path) -> None:
    installed(place, store, real)
    assert works(place, tmp_path)
    assert records(store) == 2
    manifest = json.loads((place / "manifest.json").read_text())
    assert manifest["meter_digest"] == digest.of_tree(str(place / "meter/proofcost"))
    found = {name for name in listing(place) if (place / name).is_file() and "__pycache__" not in name}
    assert set(manifest["files"]) == found - {"manifest.json"}
    for name, expected in manifest["files"].items():
        assert digest.of_file(str(place / name), None)[0] == expected
    record = json.loads(next(store.glob("sessions/*/*.jsonl")).read_text().splitlines()[0])
    assert record["meter"]["digest"] == manifest["meter_digest"]


def test_others_may_run_it_whatever_the_umask(place: Path, store: Path, real: Path) -> None:
    umask = os.umask(0o077)
    try:
        installed(place, store, real)
    finally:
        os.umask(umask)
    for path in (place, *place.rglob("*")):
        expected = 0o755 if path.is_dir() or path.name in launchers.LAUNCHERS else 0o644
        if path.name != "manifest.json":
            assert path.stat().st_mode & 0o777 == expected, path


def test_the_options_are_baked_in(tmp_path: Path, place: Path, store: Path, real: Path) -> None:
    installed(place, store, real, "--strict", "--cgroup", "off", "--kill-stragglers")
    store.rmdir() if not any(store.iterdir()) else shutil.rmtree(store)
    store.write_text("")
    assert call([str(place / "phase"), *COMMAND], tmp_path / "s").code == 125


# What it refuses, with 2 and one line, leaving everything as it was.


def file_in_the_way(place: Path, store: Path) -> list[str | Path]:
    place.write_text("")
    return [place, "--store", store]


def inside_the_store(place: Path, store: Path) -> list[str | Path]:
    return [store / "bin", "--store", store]


def the_store_itself(place: Path, store: Path) -> list[str | Path]:
    return [store, "--store", store]


def store_in_the_meter(place: Path, store: Path) -> list[str | Path]:
    return [place, "--store", place / "meter/x"]


def foreign_launcher(place: Path, store: Path) -> list[str | Path]:
    place.mkdir()
    (place / "landrun").write_text("the real one")
    return [place, "--store", store]


def store_below_dev(place: Path, store: Path) -> list[str | Path]:
    return [place, "--store", "/dev/shm/proofcost-no"]


def store_is_a_file(place: Path, store: Path) -> list[str | Path]:
    store.write_text("")
    return [place, "--store", store]


def store_is_a_link(place: Path, store: Path) -> list[str | Path]:
    (store.parent / "elsewhere").mkdir()
    store.symlink_to(store.parent / "elsewhere")
    return [place, "--store", store]


def no_such_landrun(place: Path, store: Path) -> list[str | Path]:
    return [place, "--store", store, "--landrun", "/nonexistent/landrun"]


def no_such_bwrap(place: Path, store: Path) -> list[str | Path]:
    return [place, "--store", store, "--bwrap", "/nonexistent/bwrap"]


def bwrap_that_may_not_be_executed(place: Path, store: Path) -> list[str | Path]:
    return [place, "--store", store, "--bwrap", "/etc/passwd"]


def manifest_of_launchers_that_are_not_ours(place: Path, store: Path) -> list[str | Path]:
    """`--undo` takes away what it lists: a name that leads elsewhere must not be among them."""
    place.mkdir()
    (place.parent / "precious").write_text("mine")
    (place / "manifest.json").write_text('{"real": {"../precious": ""}}')
    return [place, "--undo"]


def below_a_file(place: Path, store: Path) -> list[str | Path]:
    place.write_text("")
    return [place / "bin", "--store", store]


def nothing_to_switch(place: Path, store: Path) -> list[str | Path]:
    return [place, "--off"]


def nothing_to_undo(place: Path, store: Path) -> list[str | Path]:
    return [place, "--undo"]


def damaged_manifest(place: Path, store: Path) -> list[str | Path]:
    place.mkdir()
    (place / "manifest.json").write_text("{")
    return [place, "--undo"]


@pytest.mark.parametrize(
    "make",
    [file_in_the_way, inside_the_store, the_store_itself, store_in_the_meter, foreign_launcher, store_below_dev,
     store_is_a_file, store_is_a_link, no_such_landrun, no_such_bwrap, bwrap_that_may_not_be_executed, below_a_file,
     nothing_to_switch, nothing_to_undo, damaged_manifest, manifest_of_launchers_that_are_not_ours],
)  # fmt: skip
def test_it_refuses(tmp_path: Path, place: Path, store: Path, make: Callable[[Path, Path], list[str | Path]]) -> None:
    words = make(place, store)
    before = listing(tmp_path)
    done = proofcost(*words)
    assert done.returncode == 2
    assert done.stderr.startswith("proofcost: ")
    assert done.stderr.count("\n") == 1
    assert listing(tmp_path) == before


def test_our_own_launcher_is_not_the_real_landrun(tmp_path: Path, place: Path, store: Path, real: Path) -> None:
    installed(place, store, real)
    link = tmp_path / "link"
    link.symlink_to(place / "landrun")
    other = tmp_path / "other"
    other.symlink_to(place)
    for name in (place / "landrun", link, other / "landrun"):
        before = listing(place)
        done = proofcost(place, "--store", store, "--landrun", name)
        assert (done.returncode, "our own launcher" in done.stderr) == (2, True)
        assert listing(place) == before
    assert works(place, tmp_path)


def test_a_launcher_of_another_folder_may_be_the_real_one(tmp_path: Path, place: Path, store: Path, real: Path) -> None:
    installed(place, store, real)
    second = tmp_path / "second"
    installed(second, tmp_path / "store2", place / "landrun")
    assert works(second, tmp_path)
    assert (records(store), records(tmp_path / "store2")) == (0, 2), "the inner one steps aside"


# The third launcher, around bwrap.


@pytest.fixture
def real_bwrap(tmp_path: Path) -> Path:
    path = tmp_path / "real-bwrap"
    path.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    path.chmod(0o755)
    return path


def bwrap_works(place: Path, folder: Path) -> bool:
    ended = call([str(place / "bwrap"), "--ro-bind", "/", "/", "--", "/bin/sh", "-c", "exit 7"], folder / "s", ())
    return (ended.code, ended.stderr) == (7, b"")


def test_the_bwrap_launcher_is_installed_switched_and_removed_like_the_others(
    tmp_path: Path, place: Path, store: Path, real: Path, real_bwrap: Path
) -> None:
    installed(place, store, real, "--bwrap", str(real_bwrap))
    for word, count in ((None, 1), ("--off", 1), ("--on", 2)):
        assert word is None or proofcost(place, word).returncode == 0
        assert bwrap_works(place, tmp_path)
        assert records(store) == count, word
    assert json.loads((place / "manifest.json").read_text())["real"]["bwrap"] == str(real_bwrap)
    assert proofcost(place, "--undo").returncode == 0
    assert not place.exists()


def test_the_line_to_paste_and_what_an_upgrade_makes_of_it(
    tmp_path: Path, place: Path, store: Path, real_bwrap: Path
) -> None:
    done = proofcost(place, "--store", store, env={"COMPARATOR_BWRAP": str(real_bwrap)})
    assert f"COMPARATOR_BWRAP={place / 'bwrap'}" in done.stdout
    assert f"(real bwrap: {real_bwrap})" in done.stdout
    assert proofcost(place, "--store", store, env={"COMPARATOR_BWRAP": str(place / "bwrap")}).returncode == 0
    assert json.loads((place / "manifest.json").read_text())["real"]["bwrap"] == str(real_bwrap)
    assert bwrap_works(place, tmp_path)


def without_bwrap(place: Path) -> None:
    """As an installation of before there was this launcher."""
    content = json.loads((place / "manifest.json").read_text())
    del content["real"]["bwrap"], content["files"]["bwrap"]
    (place / "manifest.json").write_text(json.dumps(content))
    (place / "bwrap").unlink()


def test_an_installation_without_it_is_switched_upgraded_and_removed(
    tmp_path: Path, place: Path, store: Path, real: Path, real_bwrap: Path
) -> None:
    installed(place, store, real)
    without_bwrap(place)
    for word in ("--off", "--on"):
        assert proofcost(place, word).returncode == 0
        assert works(place, tmp_path)
    (place / "bwrap").write_text("mine")
    before = listing(place)
    done = proofcost(place, "--store", store, "--landrun", real, "--bwrap", real_bwrap)
    assert (done.returncode, "exists and is not ours" in done.stderr) == (2, True)
    assert (listing(place), (place / "bwrap").read_text()) == (before, "mine")
    assert proofcost(place, "--undo").returncode == 0
    assert listing(place) == ["bwrap"]
    (place / "bwrap").unlink()
    installed(place, store, real, "--bwrap", str(real_bwrap))
    assert bwrap_works(place, tmp_path)


def test_where_there_is_no_sandbox_yet_it_says_so(place: Path, store: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = proofcost(place, "--store", store, env={"PATH": str(tmp_path / "empty")})
    assert done.returncode == 0
    assert [line.split()[0] for line in done.stdout.splitlines() if "found: each call" in line] == ["warning"] * 2
    assert json.loads((place / "manifest.json").read_text())["real"] == {
        "phase": "", "landrun": "landrun", "bwrap": "bwrap",
    }  # fmt: skip


# Whole or not at all.


def failing(point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "planted")

    target: object = module if hasattr(module, point) else launchers
    monkeypatch.setattr(target, point, fail)


@pytest.mark.parametrize("point", ["copy_meter", "write_manifest", "text_of", "write", "bundle_command"])
@pytest.mark.parametrize("upgrade", [False, True])
def test_a_failing_install_leaves_what_was(
    tmp_path: Path, place: Path, store: Path, real: Path, monkeypatch: pytest.MonkeyPatch, point: str, upgrade: bool
) -> None:
    if upgrade:
        installed(place, store, real)
    kept = {name: (place / name).read_bytes() for name in listing(place) if (place / name).is_file()} if upgrade else {}
    failing(point, monkeypatch)
    from proofcost.cli import main

    assert main(["install", str(place), "--store", str(store), "--landrun", str(real)]) == 2
    monkeypatch.undo()
    if upgrade:
        assert {name: (place / name).read_bytes() for name in listing(place) if (place / name).is_file()} == kept
        assert works(place, tmp_path)
    else:
        assert not place.exists()
    installed(place, store, real)
    assert works(place, tmp_path)


def test_an_interpreter_that_cannot_compile_the_meter(
    tmp_path: Path,
    place: Path,
    store: Path,
    real: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    from proofcost.cli import main

    for interpreter in ("/bin/false", "/opt/my python/python3"):
        monkeypatch.setattr(launchers, "choose_interpreter", lambda path=interpreter: path)
        assert main(["install", str(place), "--store", str(store), "--landrun", str(real)]) == 2
        assert interpreter in capfd.readouterr().err
        assert not place.exists()


def test_a_folder_of_the_user_s_is_not_removed_by_a_failing_install(place: Path, store: Path, real: Path) -> None:
    place.mkdir()
    (place / "notes").write_text("mine")
    done = proofcost(place, "--store", store, "--landrun", "/nonexistent")
    assert done.returncode == 2
    assert listing(place) == ["notes"]


def test_a_killed_install_is_mended_by_the_next(tmp_path: Path, place: Path, store: Path, real: Path) -> None:
    installed(place, store, real)
    for delay in (0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4):
        argv = [PROOFCOST, "install", str(place), "--store", str(store), "--landrun", str(real)]
        with running(argv, stdout=subprocess.DEVNULL) as started:
            try:
                started.wait(delay)
            except subprocess.TimeoutExpired:
                started.kill()
        assert works(place, tmp_path), "at any moment"
    installed(place, store, real)
    assert works(place, tmp_path)
    assert not (place / module.STAGE).exists()


def test_no_call_meets_half_an_upgrade(tmp_path: Path, place: Path, store: Path, real: Path) -> None:
    """Calls without a pause, strict, while it is installed again and again: each finds launchers and a meter."""
    installed(place, store, real, "--strict")
    stop = tmp_path / "stop"
    loop = f"""
n=0
while [ ! -e '{stop}' ]; do
    '{place}/phase' --phase build -- /bin/true || exit 1
    '{place}/landrun' -- /bin/true || exit 2
    n=$((n + 1))
done
echo $n
"""
    with running(["/bin/sh", "-c", loop], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as started:
        for _ in range(4):
            installed(place, store, real, "--strict")
            assert started.poll() is None, started.communicate()
        stop.touch()
        out, err = started.communicate(timeout=60)
    assert (started.returncode, err) == (0, b"")
    assert records(store) == 2 * int(out) > 0
    assert not list(store.glob("marks/*"))


def test_two_installs_at_once_are_one(place: Path, store: Path, real: Path, tmp_path: Path) -> None:
    installed(place, store, real)
    with module.alone(place):
        done = proofcost(place, "--store", store, "--landrun", real)
    assert (done.returncode, "another install" in done.stderr) == (2, True)
    assert works(place, tmp_path)


def test_without_renameat2_it_installs_all_the_same(
    tmp_path: Path, place: Path, store: Path, real: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from proofcost.cli import main

    class Old:
        def __init__(self, *_: object, **__: object) -> None:
            pass

    monkeypatch.setattr(ctypes, "CDLL", Old)
    for _ in range(2):
        assert main(["install", str(place), "--store", str(store), "--landrun", str(real)]) == 0
        assert works(place, tmp_path)
    assert not [name for name in listing(place) if ".old" in name or ".new" in name]


def foreign_folder(place: Path) -> Path:
    (place / "meter").mkdir(parents=True)
    (place / "meter" / "x").write_text("mine")
    return place / "meter" / "x"


def foreign_file(place: Path) -> Path:
    place.mkdir(exist_ok=True)
    (place / "meter").write_text("mine")
    return place / "meter"


def foreign_link(place: Path) -> Path:
    place.mkdir(exist_ok=True)
    (place / "elsewhere").mkdir()
    (place / "meter").symlink_to(place / "elsewhere")
    return place / "meter"


@pytest.mark.parametrize("make", [foreign_folder, foreign_file, foreign_link])
def test_somebody_else_s_meter_is_left_alone(
    place: Path, store: Path, real: Path, make: Callable[[Path], Path]
) -> None:
    mine = make(place)
    done = proofcost(place, "--store", store, "--landrun", real)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"proofcost: {mine}: is not ours, and would go with the meter of before; move it away\n"
    assert os.path.lexists(mine)
    assert not (place / "phase").exists()


def test_what_somebody_puts_beside_the_meter_s_files_is_neither_replaced_nor_removed(
    place: Path, store: Path, real: Path
) -> None:
    installed(place, store, real)
    mine = place / "meter" / "proofcost" / "mine"
    mine.write_text("x")
    assert proofcost(place, "--store", store, "--landrun", real).returncode == 2
    done = proofcost(place, "--undo")
    assert (done.returncode, "kept what is not ours: meter" in done.stdout) == (0, True)
    assert [path for path in place.rglob("*") if path.is_file()] == [mine]


# Off, on, undo.


def test_off_and_on(tmp_path: Path, place: Path, store: Path, real: Path) -> None:
    installed(place, store, real)
    for _ in range(2):  # twice is once
        assert proofcost(place, "--off").returncode == 0
        assert works(place, tmp_path)
        assert records(store) == 0
    for _ in range(2):
        assert proofcost(place, "--on").returncode == 0
    assert works(place, tmp_path)
    assert records(store) == 2


def test_off_then_installed_again_then_off(tmp_path: Path, place: Path, store: Path, real: Path) -> None:
    """What was kept for --on is an older launcher by then, and must not stand in the way of the next --off."""
    installed(place, store, real)
    proofcost(place, "--off")
    installed(place, store, real)
    assert works(place, tmp_path)
    assert records(store) == 2, "installing measures again"
    proofcost(place, "--off")
    assert works(place, tmp_path)
    assert records(store) == 2, "and off is off"
    proofcost(place, "--on")
    assert works(place, tmp_path)
    assert records(store) == 4


def test_off_needs_no_working_python(tmp_path: Path, place: Path, store: Path, real: Path) -> None:
    installed(place, store, real)
    shutil.rmtree(place / "meter")
    proofcost(place, "--off")
    for name in launchers.LAUNCHERS:
        assert (place / name).read_bytes().startswith(b"#!/bin/sh\n")
    assert works(place, tmp_path)


def test_undo_removes_what_install_wrote_and_nothing_else(tmp_path: Path, place: Path, store: Path, real: Path) -> None:
    installed(place, store, real)
    (place / "notes").write_text("mine")
    works(place, tmp_path)
    done = proofcost(place, "--undo")
    assert done.returncode == 0
    assert listing(place) == ["notes"]
    assert records(store) == 2, "records stay"
    (place / "notes").unlink()
    installed(place, store, real)
    proofcost(place, "--off")
    assert proofcost(place, "--undo").returncode == 0
    assert not place.exists()


def test_a_call_survives_the_undo(tmp_path: Path, place: Path, store: Path, real: Path) -> None:
    installed(place, store, real)
    with running(
        [str(place / "phase"), "--phase", "build", "--", "/bin/sh", "-c", "read line; exit 7"], stdin=subprocess.PIPE
    ) as started:
        while not records(store):
            pass
        assert proofcost(place, "--undo").returncode == 0
        assert started.stdin is not None
        started.stdin.write(b"\n")
        started.stdin.flush()
        assert started.wait(timeout=10) == 7
    [path] = store.glob("sessions/*/*.jsonl")
    assert path.read_text().count("\n") == 2


# What it says.


def test_a_comparator_without_the_hook_is_told_apart(place: Path, store: Path, real: Path, tmp_path: Path) -> None:
    with_hook, without = tmp_path / "with", tmp_path / "without"
    with_hook.write_bytes(bytes(1 << 20)[:-9] + b"measurement_command" + bytes(100))
    without.write_bytes(bytes(1000))
    done = proofcost(place, "--store", store, "--landrun", real, "--comparator", with_hook)
    assert '"measurement_command"' in done.stdout
    done = proofcost(place, "--store", store, "--landrun", real, "--comparator", without)
    assert "has no measurement hook" in done.stdout
    assert '"measurement_command":' not in done.stdout
    assert f"COMPARATOR_LANDRUN={place / 'landrun'}" in done.stdout


def test_a_comparator_that_is_not_there_is_said_before_anything_is_written(
    place: Path, store: Path, real: Path
) -> None:
    done = proofcost(place, "--store", store, "--landrun", real, "--comparator", "/nonexistent/comparator")
    assert done.returncode == 2
    assert not place.exists()


def test_the_environment_s_landrun_is_taken(place: Path, store: Path, real: Path) -> None:
    done = proofcost(place, "--store", store, env={"COMPARATOR_LANDRUN": str(real)})
    assert done.returncode == 0
    assert json.loads((place / "manifest.json").read_text())["real"]["landrun"] == str(real)


def test_an_upgrade_with_the_pasted_line_in_the_environment_keeps_the_real_landrun(
    place: Path, store: Path, real: Path, tmp_path: Path
) -> None:
    """COMPARATOR_LANDRUN names our launcher by then, as install itself had said to do."""
    installed(place, store, real)
    done = proofcost(place, "--store", store, env={"COMPARATOR_LANDRUN": str(place / "landrun")})
    assert done.returncode == 0, done.stderr
    assert json.loads((place / "manifest.json").read_text())["real"]["landrun"] == str(real)
    assert works(place, tmp_path)
