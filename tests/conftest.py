"""What every test may ask for: the real outside parts, found or missing.

A part that a test asks for and that is not here skips the test on a desk and fails it in CI (CI or PROOFCOST_CI set),
because .ci/run installs it there. The two kernels are the exception: no package has them, so they are used where found.
"""

import ctypes
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest
from collecting import Server
from collecting import start as start_s3
from hypothesis import settings
from kept import Judged
from standin_lake import Call as LakeCall
from standin_lake import bwrap_arguments
from wrapped import NOBODY, PROOFCOST, Wrapper

from proofcost.adapters import launchers

# A busy machine is no fault of the code.
settings.register_profile("patient", deadline=None)
settings.load_profile("patient")

REPO = Path(__file__).resolve().parent.parent


def in_ci() -> bool:
    return any(os.environ.get(name, "").lower() not in ("", "0", "false") for name in ("CI", "PROOFCOST_CI"))


def find_executable(name: str, variable: str | None = None, *more: Path) -> Path | None:
    """The file that `variable` names if it is set (then no other), else `name` on PATH, else the first of `more`."""
    if variable and os.environ.get(variable):
        named = Path(os.environ[variable])
        if not os.access(named, os.X_OK):
            raise pytest.UsageError(f"{variable} names {named}, which cannot be executed")
        return named
    found = shutil.which(name)
    candidates = [Path(found)] if found else []
    candidates += [path for path in more if os.access(path, os.X_OK)]
    return candidates[0] if candidates else None


def find_landrun() -> Path | None:
    return find_executable("landrun", "PROOFCOST_LANDRUN", REPO / ".ci/cache/landrun/landrun")


def find_s3_server() -> Path | None:
    """An S3-speaking server, which only .ci/s3 makes."""
    return find_executable("proofcost-s3-server", "PROOFCOST_S3_SERVER", REPO / ".ci/cache/s3/s3-server")


def find_nanoda() -> Path | None:
    return find_executable("nanoda_bin", "PROOFCOST_NANODA")


def find_sokonanoda() -> Path | None:
    return find_executable("sokonanoda", "PROOFCOST_SOKONANODA")


def find_exports() -> Path | None:
    """Folder of real lean4export files."""
    named = os.environ.get("PROOFCOST_EXPORTS")
    folder = Path(named) if named else REPO.parent / "shared" / "exports"
    if named and not folder.is_dir():
        raise pytest.UsageError(f"PROOFCOST_EXPORTS names {folder}, which is no folder")
    return folder if folder.is_dir() else None


def missing(what: str) -> NoReturn:
    if in_ci():
        pytest.fail(f"{what} is missing, and CI must have it (.ci/run installs it)", pytrace=False)
    pytest.skip(f"{what} is not here")


@pytest.fixture(scope="session")
def repo() -> Path:
    """The checkout."""
    return REPO


@pytest.fixture(scope="session")
def landrun() -> Path:
    return find_landrun() or missing("landrun")


@pytest.fixture(scope="session")
def bwrap() -> Path:
    return find_executable("bwrap") or missing("bwrap")


@pytest.fixture(scope="session")
def working_bwrap(bwrap: Path) -> Path:
    """bwrap where it may do all that Lake asks of it."""
    arguments = bwrap_arguments(LakeCall(["/bin/true"], directory="/tmp"), "/")
    tried = subprocess.run([bwrap, *arguments], capture_output=True, text=True, check=False)
    return bwrap if tried.returncode == 0 else missing(f"a bwrap that may start as Lake does ({tried.stderr.strip()})")


@pytest.fixture(scope="session")
def s3_server() -> Path:
    return find_s3_server() or missing("an S3-speaking server (.ci/s3 builds it)")


@pytest.fixture(scope="module")
def s3(s3_server: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A running S3-speaking server, in a folder and at a port of its own."""
    server = start_s3(s3_server, tmp_path_factory.mktemp("s3"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def perf() -> Path:
    return find_executable("perf") or missing("perf")


@pytest.fixture(scope="session")
def gcc() -> Path:
    return find_executable("gcc") or missing("gcc")


@pytest.fixture(scope="session")
def valgrind() -> Path:
    return find_executable("valgrind") or missing("valgrind")


@pytest.fixture(scope="session")
def promtool() -> Path:
    return find_executable("promtool") or missing("promtool")


@pytest.fixture(scope="session")
def hyperfine() -> Path:
    return find_executable("hyperfine") or missing("hyperfine")


@pytest.fixture(scope="session")
def chromium() -> Path:
    return find_executable("chromium") or missing("chromium")


@pytest.fixture(scope="session")
def chromedriver() -> Path:
    return find_executable("chromedriver") or missing("chromedriver (Debian: chromium-driver)")


@pytest.fixture(scope="session")
def gnu_time() -> Path:
    found = Path("/usr/bin/time")
    return found if found.exists() else missing("GNU time")


@pytest.fixture(scope="session")
def nanoda() -> Path:
    found = find_nanoda()
    if found is None:
        pytest.skip("nanoda is not here (PROOFCOST_NANODA, or nanoda_bin on PATH)")
    return found


@pytest.fixture(scope="session")
def sokonanoda() -> Path:
    found = find_sokonanoda()
    if found is None:
        pytest.skip("sokonanoda is not here (PROOFCOST_SOKONANODA or PATH)")
    return found


@pytest.fixture(scope="session")
def shared_exports() -> Path:
    found = find_exports()
    if found is None:
        pytest.skip("no real exports here (PROOFCOST_EXPORTS, or shared/exports beside the checkout)")
    return found


@pytest.fixture
def as_root() -> None:
    """Skips the test unless it runs as root."""
    if os.geteuid() != 0:
        pytest.skip("needs root")


@pytest.fixture(autouse=True)
def store_of_this_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The default store while a test runs: without it, root's would be the machine's real one in /var/lib."""
    store = tmp_path / "default-store"
    monkeypatch.setenv("PROOFCOST_STORE", str(store))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg-state"))
    return store


def pytest_runtest_setup() -> None:
    """Have a test start with no signal ignored that it may send: `nohup` and a shell's `&` let us inherit that.

    Nor the two that glibc keeps to itself, 32 and 33. Nobody can ignore them through it. Yet once, in the middle of a
    long run, every later test found 32 ignored.
    """
    for stopping, usual in ((signal.SIGHUP, signal.SIG_DFL), (signal.SIGINT, signal.default_int_handler),
                          (signal.SIGQUIT, signal.SIG_DFL), (signal.SIGTERM, signal.SIG_DFL)):  # fmt: skip
        if signal.getsignal(stopping) is signal.SIG_IGN:
            signal.signal(stopping, usual)
    with open("/proc/self/status", encoding="ascii") as status:
        ignored = int(next(line for line in status if line.startswith("SigIgn:")).split()[1], 16)
    default = (ctypes.c_ulong * 4)()
    for number in (32, 33):
        if ignored >> (number - 1) & 1:
            ctypes.CDLL(None).syscall(13 if os.uname().machine == "x86_64" else 134, number, default, None, 8)


LEFT = {"long": "takes minutes: make long", "heavy": "needs an engine or scheduler of its own: make heavy"}
"""Marker -> why tests that bear it are left out, unless PROOFCOST_LONG, PROOFCOST_HEAVY is set."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave the longest tests to `make long`, those with engines to `make heavy`; files whose tests call meters first.

    A call is a fork of this process, and the tests of reports make it large: with 1.6 GB a fork takes four times as
    long as at the beginning.
    """
    calling = {item.path for item in items if "wrap" in getattr(item, "fixturenames", ())}
    items.sort(key=lambda item: item.path not in calling)
    for name, reason in LEFT.items():
        if os.environ.get(f"PROOFCOST_{name.upper()}"):
            continue
        for item in items:
            if item.get_closest_marker(name):
                item.add_marker(pytest.mark.skip(reason=reason))


def first_line(*command: str) -> str:
    """First line that a command prints, or why there is none."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"does not run: {error}"
    lines = (done.stdout + done.stderr).strip().splitlines()
    return lines[0].strip() if lines else f"prints nothing (exit {done.returncode})"


def pytest_report_header() -> list[str]:
    """Which real parts this run has: without this a green run does not say what it proved."""
    uname = os.uname()
    kind = os.environ.get("PROOFCOST_HOST_KIND") or (
        "v2" if Path("/sys/fs/cgroup/cgroup.controllers").exists() else "v1"
    )
    lines = [
        f"host: {uname.release} {uname.machine}, cgroup {kind}, uid {os.geteuid()}, CI {'yes' if in_ci() else 'no'}"
    ]
    parts = {
        "landrun": (find_landrun(), True),
        "bwrap": (find_executable("bwrap"), True),
        "perf": (find_executable("perf"), True),
        "gcc": (find_executable("gcc"), True),
        "valgrind": (find_executable("valgrind"), True),
        # Asked for its version, it takes an emulated machine half a minute, and no test there needs it.
        "chromium": (find_executable("chromium"), kind != "v2" or not os.environ.get("PROOFCOST_HOST_KIND")),
        "nanoda": (find_nanoda(), False),
        "sokonanoda": (find_sokonanoda(), False),
    }
    for name, (path, tells_version) in parts.items():
        if path is None:
            lines.append(f"{name}: missing")
        elif tells_version:
            lines.append(f"{name}: {first_line(str(path), '--version')} ({path})")
        else:
            lines.append(f"{name}: {path}")
    lines.append(f"S3-speaking server: {find_s3_server() or 'missing'}")
    lines.append(f"exports: {find_exports() or 'missing'}")
    return lines


@pytest.fixture(scope="session")
def open_folder() -> Iterator[Path]:
    """A folder outside pytest's own, which only its user may enter; root owns it, anybody may read it."""
    folder = Path(tempfile.mkdtemp(prefix="proofcost-tests-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture(scope="session")
def meter_tree(open_folder: Path) -> Path:
    """An installed meter, compiled."""
    subprocess.run(
        [PROOFCOST, "install", open_folder / "launchers", "--store", open_folder / "unused"],
        check=True,
        capture_output=True,
    )
    return open_folder / "launchers" / "meter"


@pytest.fixture(scope="session")
def open_landrun(landrun: Path, open_folder: Path) -> Path:
    """A landrun that the user nobody can execute: the one found, or a copy of what .ci/landrun unpacked."""
    tried = subprocess.run(["setpriv", "--reuid", str(NOBODY), "--clear-groups", landrun, "--version"],
                           capture_output=True, check=False)  # fmt: skip
    if tried.returncode == 0:
        return landrun
    if not (landrun.parent / "usr/bin/landrun").exists():
        missing("a landrun that another user than root can execute")
    copy = open_folder / "landrun"
    shutil.copytree(landrun.parent, copy, symlinks=True)
    copy.chmod(0o755)
    wrapper = copy / landrun.name
    wrapper.write_text(wrapper.read_text().replace(str(landrun.parent), str(copy)))
    return wrapper


@pytest.fixture
def wrap(meter_tree: Path, tmp_path: Path) -> Wrapper:
    """Calls through a launcher, with a store of this test's own."""
    return Wrapper(tmp_path, meter_tree, launchers.choose_interpreter())


@pytest.fixture
def wrap_as_nobody(as_root: None, meter_tree: Path, open_folder: Path) -> Iterator[Wrapper]:
    """The same, all of it in a folder that belongs to the user nobody."""
    folder = Path(tempfile.mkdtemp(prefix="nobody-", dir=open_folder))
    os.chown(folder, NOBODY, NOBODY)
    yield Wrapper(folder, meter_tree, launchers.choose_interpreter())
    shutil.rmtree(folder)


@pytest.fixture
def judged(as_root: None, open_folder: Path) -> Iterator[Judged]:
    """Judges run as nobody whose records root keeps; nothing of theirs may be left afterwards."""
    made = Judged(Path(tempfile.mkdtemp(prefix="judged-", dir=open_folder)))
    made.folder.chmod(0o755)
    yield made
    assert made.left() == []


@pytest.fixture(scope="session")
def hostile(gcc: Path, open_folder: Path) -> Callable[[str], Path]:
    """Compiles a program of tests/hostile/."""

    @cache
    def compiled(name: str) -> Path:
        made = open_folder / name
        source = Path(__file__).with_name("hostile") / f"{name}.c"
        subprocess.run([gcc, "-O1", "-pthread", "-o", made, source], check=True, capture_output=True)
        return made

    return compiled
