"""What a call imports: an allow-list, since each module of the standard library costs every call its time.

Measured in ms over Python's own start: json 8, typing 10, enum 4, dataclasses 14, subprocess 11, socket 7, ctypes 3,
signal 4, logging 13, pathlib 10, threading 4, os 0.9 (harness/lean_os.py stands in for it).
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from calling import BWRAP, LANDRUN, PHASE, Wrap, call, shared_tree

from proofcost.adapters import launchers

# Besides what Python itself has loaded by then. Built-in and frozen modules cost next to nothing; the three marked are
# shared objects.
ALLOWED = {
    "_signal", "_warnings", "errno", "gc", "marshal", "time", "posix", "_frozen_importlib_external",
    "resource",  # shared object
    "_ctypes",  # shared object
    "_sha256", "_sha2",  # shared object, by version
    "_struct", "_codecs", "encodings.ascii", "encodings.latin_1",
    "fcntl", "stat", "_stat",
}  # fmt: skip
NEVER = {"json", "re", "typing", "enum", "dataclasses", "subprocess", "socket", "ctypes", "signal", "logging",
         "pathlib", "threading", "collections", "functools", "contextlib", "warnings", "hashlib", "shutil", "tempfile",
         "argparse", "site", "importlib", "inspect", "struct", "select", "string", "traceback", "linecache",
         "tokenize"}  # fmt: skip
# A module that is seldom needed is not in the bundle, and takes the real one.
REAL_OS = {"os", "os.path", "posixpath", "genericpath", "_collections_abc", "abc", "_abc"}
OURS = "proofcost"
# Only where something outlived an earlier command, at the first call of a boot, or once a sample is taken.
ONLY_WHEN_NEEDED = {"proofcost.harness.settle", "proofcost.harness.hostclass", "proofcost.harness.reading",
                    "proofcost.harness.whole", "proofcost.adapters.launchers",
                    "proofcost.harness.samples", "proofcost.harness.trace", "zlib"}  # fmt: skip
# What an entrance has no use for of the others'.
OF_OTHERS = {
    PHASE: {"proofcost.adapters.bwrap"},
    LANDRUN: {"proofcost.adapters.bwrap", "proofcost.adapters.phase"},
    BWRAP: {"proofcost.adapters.phase"},
}


@pytest.fixture(scope="module")
def tree() -> Path:
    return shared_tree()


def argv_of(wrap: Wrap, way: str, command: Sequence[str]) -> list[str | bytes]:
    """A call through an entrance; of /bin/true, or of `command` where the entrance takes one."""
    if way == "timer":
        return [wrap.launcher("timer", "/bin/true")]
    if way == "leaneval":  # with /bin/true for its landrun
        metrics = str(wrap.folder / "run" / "metrics.json")
        wrap.options["leaneval"] = {"landrun": "/bin/true", "metrics": metrics, "capture": None}
        return [wrap.launcher("leaneval"), "--phase", "solution-export", "--", "/bin/true"]
    return wrap.argv(way, command)


def modules_of_a_call(wrap: Wrap, folder: Path, way: str, *command: str) -> set[str]:
    """Names in sys.modules when a call ends, less those of a bare interpreter with the same flags."""
    listing = folder / "modules"
    argv = argv_of(wrap, way, command or ["/bin/true"])
    launcher = Path(str(argv[0]))
    text = launcher.read_text()
    # At the very end: just before the process leaves.
    at = 'if __name__ == "__main__":\n'
    hook = (
        "def _list(status, leave=None):\n"
        "    import posix\n"
        f"    fd = posix.open({str(listing)!r}, posix.O_WRONLY | posix.O_CREAT | posix.O_TRUNC, 0o600)\n"
        "    posix.write(fd, '\\n'.join(sys.modules).encode())\n"
        "    leave_at_once(status)\n"
    )
    assert at in text
    begin = "    import posix\n    leave_at_once = posix._exit\n    posix._exit = _list\n"
    text = text.replace(at, hook + at + begin)
    launcher.write_text(text)
    assert call(argv, folder / "s").code == 0
    interpreter, flags = launchers.choose_interpreter(), launchers.INTERPRETER_FLAGS
    bare = subprocess.run(
        [interpreter, flags, "-c", "import sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(listing.read_text().splitlines()) - set(bare.stdout.split()) - {"__main__"}


@pytest.mark.parametrize("way", [PHASE, LANDRUN, BWRAP])
def test_a_call_imports_nothing_that_is_not_allowed(tmp_path: Path, tree: Path, way: str) -> None:
    # Without cgroups: what some other killed meter left there is looked at, by one module more.
    wrap = Wrap(tmp_path / "w", tree, options={"cgroup": "off"})
    modules_of_a_call(wrap, tmp_path, way)  # the first call of a boot describes the host
    found = modules_of_a_call(wrap, tmp_path, way)
    foreign = {name for name in found if name.split(".")[0] != OURS}
    assert foreign <= ALLOWED, foreign - ALLOWED
    assert not foreign & (NEVER | REAL_OS)
    assert not found & (ONLY_WHEN_NEEDED | OF_OTHERS[way])
    assert f"{OURS}.harness.meter" in found, "it did look at a call"
    assert len(wrap.records()) == 2


@pytest.mark.parametrize(("way", "more"), [("leaneval", set()), ("timer", {"select"})])
def test_the_entrances_that_are_asked_for_take_little_more(
    tmp_path: Path, tree: Path, way: str, more: set[str]
) -> None:
    wrap = Wrap(tmp_path / "w", tree, options={"cgroup": "off"})
    modules_of_a_call(wrap, tmp_path, way)
    found = modules_of_a_call(wrap, tmp_path, way)
    foreign = {name for name in found if name.split(".")[0] != OURS}
    # Their own modules are not in the bundle.
    assert foreign <= ALLOWED | REAL_OS | more, foreign - ALLOWED - REAL_OS
    assert not foreign & (NEVER - more)
    assert f"{OURS}.adapters.{way}" in found
    assert len(wrap.records()) == 2


def test_the_first_call_of_a_boot_stays_within_it_too(tmp_path: Path, tree: Path) -> None:
    found = modules_of_a_call(Wrap(tmp_path / "w", tree), tmp_path, PHASE)
    foreign = {name for name in found if name.split(".")[0] != OURS}
    assert foreign <= ALLOWED | REAL_OS, foreign - ALLOWED


def test_a_call_that_is_sampled_imports_what_takes_and_keeps_the_samples_alone(tmp_path: Path, tree: Path) -> None:
    """While the command runs: what is imported then disturbs it."""
    wrap = Wrap(tmp_path / "w", tree, options={"cgroup": "off"})
    modules_of_a_call(wrap, tmp_path, PHASE)
    short = modules_of_a_call(wrap, tmp_path, PHASE)
    long = modules_of_a_call(wrap, tmp_path, PHASE, "/bin/sleep", "0.5")
    assert wrap.records()[-1]["finished"]["trace"]["samples_count"] >= 2
    assert long - short == {"proofcost.harness.samples", "proofcost.harness.trace", "zlib"}


def test_what_is_forbidden_is_not_allowed() -> None:
    assert not NEVER & ALLOWED


def test_the_fault_path_needs_as_little(tmp_path: Path, tree: Path) -> None:
    wrap = Wrap(tmp_path / "w", tmp_path / "no-tree")
    argv = wrap.argv(PHASE, ["/bin/true"])
    code = (
        "import sys\n"
        "real = sys.meta_path[:]\n"
        f"forbidden = {sorted(NEVER)!r}\n"
        "class No:\n"
        "    @staticmethod\n"
        "    def find_spec(name, path=None, target=None):\n"
        "        if name in forbidden: raise ImportError(name)\n"
        "sys.meta_path.insert(0, No)\n"
        f"sys.argv = {[str(word) for word in argv]!r}\n"
        "exec(compile(open(sys.argv[0]).read(), sys.argv[0], 'exec'))\n"
    )
    done = subprocess.run(
        [launchers.choose_interpreter(), "-IS", "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert len(wrap.marks()) == 1


def test_the_package_itself_imports_nothing() -> None:
    code = "import sys; before = set(sys.modules); import proofcost; print(*set(sys.modules) - before)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["proofcost"]


@pytest.mark.parametrize("planted", ["argparse", "rich", "json"])
def test_nothing_is_imported_from_the_folder_in_which_we_are_called(tmp_path: Path, planted: str) -> None:
    """Where a judge may have written."""
    (tmp_path / f"{planted}.py").write_text("raise SystemExit(99)\n")
    command = [sys.executable, "-m", "proofcost", "log", "--store", str(tmp_path / "none")]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done
    assert "no such file or folder" in done.stderr
