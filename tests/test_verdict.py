"""The first rule: no fault of the meter changes a verdict.

Before the start, default policy: the command runs once, exactly as bare, and a mark is left. Strict: 125, and the
command never starts. After the start: its status, whatever fails. Every fault is made on a real launcher around a real
command; `faulty_tree` changes the installed meter, the rest changes the world.
"""

import importlib.util
import marshal
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from calling import (
    ENTRANCES,
    LANDRUN,
    PHASE,
    PLAIN,
    RUN,
    WAYS,
    Ended,
    Wrap,
    call,
    compile_c,
    limit,
    nothing,
    shared_tree,
)

REFUSED = 125
# Counts its own runs, says something on both streams, reads nothing, exits 42.
SCRIPT = 'echo once >>"$0"; echo said; echo complained >&2; exit 42'
# The same, in the few descriptors and the little memory that a C program needs.
COUNTED = r"""
#include <fcntl.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int fd = open(argv[1], O_WRONLY | O_CREAT | O_APPEND, 0644);
    if (fd < 0 || write(fd, "once\n", 5) != 5 || write(1, "said\n", 5) != 5) return 9;
    if (write(2, "complained\n", 11) != 11) return 9;
    return 42;
}
"""


@pytest.fixture(scope="module")
def tree() -> Path:
    return shared_tree()


@pytest.fixture
def wrap(tmp_path: Path, tree: Path) -> Wrap:
    return Wrap(tmp_path / "w", tree)


class Counted:
    """A command that leaves a line each time it runs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "runs"
        self.command: list[str | bytes] = ["/bin/sh", "-c", SCRIPT, str(self.file)]

    def runs(self) -> int:
        return len(self.file.read_text().splitlines()) if self.file.exists() else 0

    def call(
        self, argv: list[str | bytes], as_child: Callable[[], None] = nothing, env: tuple[bytes, ...] = PLAIN
    ) -> Ended:
        return call(argv, self.folder / "s", env, as_child=as_child)


@pytest.fixture
def counted(tmp_path: Path) -> Counted:
    return Counted(tmp_path)


@pytest.fixture(scope="module")
def small_program(tmp_path_factory: pytest.TempPathFactory, gcc: Path) -> Path:
    return compile_c(gcc, COUNTED, tmp_path_factory.mktemp("counted") / "counted")


def is_as_bare(ended: Ended, counted: Counted, said: bytes | None = b"") -> None:
    """The command ran once, and its caller saw what it would have seen; `said` is our one line on stderr, if any."""
    assert (ended.status, ended.stdout) == (42 << 8, b"said\n"), ended
    if said == b"":
        assert ended.stderr == b"complained\n"
    else:
        lines = ended.stderr.splitlines()
        assert len(lines) == 2, ended.stderr
        assert lines[0].startswith(b"proofcost: "), "before the command starts"
        assert lines[1] == b"complained"
    assert counted.runs() == 1, "it ran once"


def is_refused(ended: Ended, counted: Counted) -> None:
    assert ended.status == REFUSED << 8, ended
    assert ended.stdout == b""
    assert counted.runs() == 0, "nothing was run"


# A store that cannot be used.


def a_file(store: Path) -> Path:
    store.write_text("mine")
    return store


def a_link(store: Path) -> Path:
    (store.parent / "real").mkdir(mode=0o700)
    store.symlink_to(store.parent / "real")
    return store


def below_a_link(store: Path) -> Path:
    (store.parent / "real").mkdir(mode=0o700)
    (store.parent / "link").symlink_to(store.parent / "real")
    return store.parent / "link" / "store"


def below_a_file(store: Path) -> Path:
    (store.parent / "file").write_text("")
    return store.parent / "file" / "store"


def below_an_open_folder(store: Path) -> Path:
    folder = store.parent / "open"
    folder.mkdir()
    folder.chmod(0o777)
    return folder / "store"


def of_somebody_else(store: Path) -> Path:
    store.mkdir(mode=0o700)
    os.chown(store, 4321, 4321)
    return store


def below_somebody_else_s(store: Path) -> Path:
    folder = store.parent / "theirs"
    folder.mkdir(mode=0o755)
    os.chown(folder, 4321, 4321)
    return folder / "store"


def below_dev(store: Path) -> Path:
    return Path("/dev/shm/proofcost-test-store")


def in_proc(store: Path) -> Path:
    return Path("/proc/proofcost-store")


def not_a_store(store: Path) -> Path:
    store.mkdir(mode=0o755)
    (store / "thesis.tex").write_text("")
    return store


def named_by_half(store: Path) -> Path:
    return Path("relative/store")


PLACES: list[tuple[Callable[[Path], Path], bool]] = [
    (a_file, False), (a_link, False), (below_a_link, False), (below_a_file, False), (below_an_open_folder, False),
    (of_somebody_else, True), (below_somebody_else_s, True), (below_dev, False), (in_proc, False), (not_a_store, False),
    (named_by_half, False),
]  # fmt: skip


@pytest.mark.parametrize(("make", "needs_root"), PLACES, ids=lambda value: getattr(value, "__name__", ""))
@pytest.mark.parametrize("strict", [False, True], ids=["run", "strict"])
def test_a_store_that_cannot_be_used(
    wrap: Wrap, counted: Counted, tmp_path: Path, make: Callable[[Path], Path], needs_root: bool, strict: bool
) -> None:
    if needs_root and os.geteuid() != 0:
        pytest.skip("needs root")
    store = make(tmp_path / "store")
    before = sorted(str(path) for path in tmp_path.rglob("*"))
    wrap.options["store"] = str(store)
    wrap.strict = strict
    for way in WAYS if make in (a_file, below_dev) else (PHASE,):
        counted.file.unlink(missing_ok=True)
        ended = counted.call(wrap.argv(way, counted.command))
        if strict:
            is_refused(ended, counted)
            assert b"refused" in ended.stderr
        else:
            marks = [*store.glob("marks/*.json")] if store.is_dir() else []
            is_as_bare(ended, counted, b"" if marks else None)
    assert not list(store.glob("sessions/*/*.jsonl")), "and no record was left in an unsafe place"
    now = {str(path) for path in tmp_path.rglob("*")} - {str(tmp_path / "runs")}
    ours = {path for path in now if "/w" in path or "/s/" in path or path.endswith("/s") or "/marks" in path}
    assert now - ours <= set(before), "and nothing else was made or changed"
    if store.is_relative_to("/dev"):
        shutil.rmtree(store, ignore_errors=True)


GRANTS = {
    "--rw PARENT": ["--rw", "{parent}"],
    "-rw PARENT": ["-rw", "{parent}"],
    "--rw=PARENT": ["--rw=/nonexistent,{parent}"],
    "-rwx=STORE": ["-rwx={store}"],
    "a list of paths": ["--rwx", "/nonexistent,{parent},/other"],
    "a list with blanks": ["--rwx", "/nonexistent, {parent}"],
    "the root": ["--rwx", "/"],
    "inside the store": ["--rw", "{store}/sessions"],
    "with dots": ["--rw", "{store}/../store"],
    "through a link": ["--rw", "{parent}/link"],
    "all of it": ["--unrestricted-filesystem"],
    "all of it, by =": ["-unrestricted-filesystem=true"],
    "behind the command's name": ["--ro", "/usr", "/bin/sh", "--rw", "{parent}"],
    "late": ["--env", "A", "--ro", "/usr", "-ldd", "-add-exec", "--rw", "{parent}"],
}


@pytest.mark.parametrize("strict", [False, True], ids=["run", "strict"])
@pytest.mark.parametrize("way", [PHASE, LANDRUN])  # bwrap has words of its own: tests/test_bwrap.py
@pytest.mark.parametrize("grant", GRANTS)
def test_a_store_that_the_sandbox_may_write_to(
    wrap: Wrap, counted: Counted, tmp_path: Path, grant: str, way: str, strict: bool
) -> None:
    """The real rule of the sandbox is not asked: it is a stand-in that runs what it is given."""
    (tmp_path / "link").symlink_to(wrap.folder)
    fake = tmp_path / "landrun"
    fake.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    fake.chmod(0o755)
    words = [word.format(parent=wrap.folder, store=wrap.store) if "link" not in word else str(tmp_path / "link")
             for word in GRANTS[grant]]  # fmt: skip
    wrap.strict = strict
    ended = counted.call(wrap.argv(way, [str(fake), *words, "--", *counted.command]))
    if strict:
        is_refused(ended, counted)
    else:
        is_as_bare(ended, counted, None if not wrap.marks() else b"")
        assert wrap.records() == []


@pytest.mark.parametrize("words", [["--rwx", "."], ["-rw", "w,x"], ["--rw=../here/w"]], ids=str)
def test_a_relative_grant_is_meant_from_where_the_call_is(
    wrap: Wrap, counted: Counted, tmp_path: Path, words: list[str]
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    wrap.folder = here / "w"
    fake = tmp_path / "landrun"
    fake.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    fake.chmod(0o755)
    argv = wrap.argv(LANDRUN, [str(fake), *words, "--", *counted.command])
    ended = call(argv, tmp_path / "s", as_child=lambda: os.chdir(here))
    is_as_bare(ended, counted, None if not wrap.marks() else b"")
    assert wrap.records() == []
    counted.file.unlink()
    ended = call(argv, tmp_path / "s", as_child=lambda: os.chdir("/usr"))
    is_as_bare(ended, counted)
    assert len(wrap.records()) == 1, "from elsewhere it grants something else"


# Disks.


@pytest.fixture
def small_disk(as_root: None, tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB."""
    point = tmp_path / "disk"
    point.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=755", "none", point], check=False).returncode:
        pytest.skip("cannot mount here")
    yield point
    subprocess.run(["umount", "-l", point], check=True)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("strict", [False, True], ids=["run", "strict"])
def test_a_full_disk(wrap: Wrap, counted: Counted, small_disk: Path, way: str, strict: bool) -> None:
    wrap.strict = strict
    wrap.options["store"] = str(small_disk / "store")
    argv = wrap.argv(way, counted.command)
    with (small_disk / "filler").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass
    ended = counted.call(argv)
    if strict:
        is_refused(ended, counted)
    else:
        is_as_bare(ended, counted, None)
        assert not list(small_disk.glob("store/sessions/*/*.jsonl"))


@pytest.mark.parametrize("way", [pytest.param(PHASE, marks=pytest.mark.guest_all), LANDRUN, RUN])
def test_a_disk_that_fills_while_the_command_runs(wrap: Wrap, counted: Counted, small_disk: Path, way: str) -> None:
    """The room was reserved: `finished` is whole, and the status is the command's."""
    wrap.options["store"] = str(small_disk / "store")
    fill = f'echo once >>"$0"; cat /dev/zero >{small_disk}/filler 2>/dev/null; echo said; echo complained >&2; exit 42'
    ended = counted.call(wrap.argv(way, ["/bin/sh", "-c", fill, str(counted.file)]))
    is_as_bare(ended, counted)
    [path] = small_disk.glob("store/sessions/*/*.jsonl")
    assert path.read_text().count("\n") == 2


@pytest.mark.parametrize("way", ENTRANCES)
def test_a_disk_that_takes_nothing_any_more_when_the_command_ends(
    wrap: Wrap, counted: Counted, small_disk: Path, way: str
) -> None:
    """Read-only by the time `finished` is due: its status, `started` alone."""
    wrap.options["store"] = str(small_disk / "store")
    script = f'echo once >>"$0"; mount -o remount,ro {small_disk} 2>/dev/null; echo said; echo complained >&2; exit 42'
    ended = counted.call(wrap.argv(way, ["/bin/sh", "-c", script, str(counted.file)]))
    assert (ended.status, ended.stdout, counted.runs()) == (42 << 8, b"said\n", 1)


@pytest.mark.parametrize("strict", [False, True], ids=["run", "strict"])
def test_a_read_only_disk(wrap: Wrap, counted: Counted, small_disk: Path, strict: bool) -> None:
    wrap.strict = strict
    wrap.options["store"] = str(small_disk / "store")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    ended = counted.call(wrap.argv(PHASE, counted.command))
    if strict:
        is_refused(ended, counted)
    else:
        is_as_bare(ended, counted, None)


# Limits.


def descriptors(count: int) -> Callable[[], None]:
    return limit(resource.RLIMIT_NOFILE, count)


LIMITS: dict[str, Callable[[], None]] = {
    **{f"{count} descriptors": descriptors(count) for count in range(4, 13)},
    "address space of 30 MB": limit(resource.RLIMIT_AS, 30_000_000),
    "address space of 24 MB": limit(resource.RLIMIT_AS, 24_000_000),
    "address space of 20 MB": limit(resource.RLIMIT_AS, 20_000_000),
    "no locked memory": limit(resource.RLIMIT_MEMLOCK, 0),
    "one second of CPU": limit(resource.RLIMIT_CPU, 1, 1),
    "small stack": limit(resource.RLIMIT_STACK, 128 << 10),
    "no queued signals": limit(resource.RLIMIT_SIGPENDING, 0),
}


@pytest.mark.parametrize("way", ENTRANCES)
@pytest.mark.parametrize("name", LIMITS)
def test_a_narrow_limit_changes_nothing(wrap: Wrap, counted: Counted, small_program: Path, way: str, name: str) -> None:
    argv = wrap.argv(way, [str(small_program), str(counted.file)])
    ended = counted.call(argv, as_child=LIMITS[name])
    is_as_bare(ended, counted, None if ended.stderr.startswith(b"proofcost: ") else b"")
    assert wrap.records() or wrap.marks() or ended.stderr.startswith(b"proofcost: "), "and it left a trace"


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("strict", [False, True], ids=["run", "strict"])
@pytest.mark.parametrize("size", [0, 1000, 2000, 3000, 5000, 8000, 60_000])
def test_a_limit_on_the_size_of_files(wrap: Wrap, tmp_path: Path, way: str, strict: bool, size: int) -> None:
    """SIGXFSZ would kill whoever writes more; the command writes nothing to files, and so must we not."""
    wrap.strict = strict
    read_end, write_end = os.pipe()

    def stdout_is_a_pipe() -> None:
        os.dup2(write_end, 1)
        os.dup2(write_end, 2)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    env = (*PLAIN, b"PYTHONDONTWRITEBYTECODE=1")  # this checkout's own modules would be left half compiled
    argv = wrap.argv(way, ["/bin/sh", "-c", "echo said; exit 42"])
    ended = call(argv, tmp_path / "s", env, as_child=stdout_is_a_pipe)
    os.close(write_end)
    said = os.read(read_end, 10_000)
    os.close(read_end)
    if strict and ended.code == REFUSED:
        assert size < 10_000
        assert b"said" not in said
    else:
        assert ended.code == 42
        assert said.endswith(b"said\n")
        if said != b"said\n":
            assert said.startswith(b"proofcost: ")
            assert said.count(b"\n") == 2
            assert size < 10_000


def stderr_is(fd: int) -> None:
    os.dup2(fd, 2)


@pytest.mark.guest
def test_nobody_reads_what_we_would_say(wrap: Wrap, tmp_path: Path) -> None:
    """Our line goes to a pipe without a reader: the SIGPIPE of it is ours, and must not kill the command."""
    wrap.options["store"] = "/proc/none"
    read_end, write_end = os.pipe()
    os.close(read_end)
    ended = call(wrap.argv(PHASE, ["/bin/sh", "-c", "exit 42"]), tmp_path / "s", as_child=lambda: stderr_is(write_end))
    os.close(write_end)
    assert ended.code == 42


@pytest.mark.parametrize("strict", [pytest.param(False, marks=pytest.mark.guest_all), True])
def test_no_process_can_be_made(as_root: None, strict: bool) -> None:
    """As another user, whose processes are counted: the meter becomes the command."""
    folder = Path(tempfile.mkdtemp(prefix="proofcost-nproc-"))
    try:
        folder.chmod(0o755)
        wrap = Wrap(folder / "w", shared_tree(), strict)
        wrap.folder.mkdir()
        os.chown(wrap.folder, 54321, 54321)
        counted = Counted(wrap.folder)
        argv = wrap.argv(PHASE, counted.command)

        def alone() -> None:
            os.setgroups([])
            os.setresgid(54321, 54321, 54321)
            os.setresuid(54321, 54321, 54321)
            resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))

        ended = call(argv, folder / "s", as_child=alone)
        if strict:
            is_refused(ended, counted)
        else:
            is_as_bare(ended, counted)
            [mark] = wrap.marks()
            assert "BlockingIOError" in mark["fault"]
        assert wrap.records() == []
    finally:
        shutil.rmtree(folder)


# A damaged meter.


class Trees:
    """Copies of the installed meter, changed, read file by file (a `bundle` would hide the change)."""

    def __init__(self, tree: Path, folder: Path) -> None:
        self.tree = tree
        self.folder = folder
        self.count = 0

    def changed(self, change: Callable[[Path], object]) -> Path:
        self.count += 1
        copy = self.folder / f"tree{self.count}"
        shutil.copytree(self.tree, copy, ignore=shutil.ignore_patterns("__pycache__", "bundle"))
        change(copy)
        return copy


@pytest.fixture
def trees(tree: Path, tmp_path: Path) -> Trees:
    return Trees(tree, tmp_path)


def modules_of(tree: Path) -> list[str]:
    """Every module that is installed."""
    return sorted(str(path.relative_to(tree / "proofcost")) for path in tree.rglob("*.py"))


def garbage(file: Path) -> None:
    file.write_bytes(b"\x00\xff garbage (" * 20)


def half(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def missing(file: Path) -> None:
    file.unlink()


def raises(file: Path) -> None:
    file.write_text("raise RuntimeError('planted')\n")


def leaves_with_success(file: Path) -> None:
    file.write_text("raise SystemExit(0)\n")


def has_odd_last_words(file: Path) -> None:
    file.write_text('class Odd(BaseException):\n def __str__(self):\n  raise ValueError("\\n\\"")\nraise Odd\n')


DAMAGE = (garbage, half, missing, leaves_with_success)


def has_left_a_trace(wrap: Wrap, ended: Ended) -> bool:
    # A file, whatever is in it: half of a module may well write half a record.
    return bool(wrap.marks()) or any(wrap.store.glob("sessions/*/*.jsonl")) or ended.stderr.startswith(b"proofcost: ")


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_module(
    wrap: Wrap, trees: Trees, counted: Counted, tree: Path, damage: Callable[[Path], None]
) -> None:
    for module in modules_of(tree):
        copy = trees.changed(lambda tree, name=module: damage(tree / "proofcost" / name))  # type: ignore[misc]
        wrap.tree = copy
        for way in ENTRANCES if damage is leaves_with_success else (PHASE,):
            counted.file.unlink(missing_ok=True)
            shutil.rmtree(wrap.store, ignore_errors=True)
            ended = counted.call(wrap.argv(way, counted.command))
            said = ended.stderr
            if module == "harness/store.py" and said.startswith(b"proofcost: "):
                said = said.partition(b"\n")[2]  # a store that cannot even leave a mark: the last resort is one line
            assert (ended.status, ended.stdout, said) == (42 << 8, b"said\n", b"complained\n"), (module, ended)
            assert counted.runs() == 1, module
            assert has_left_a_trace(wrap, ended), module
        shutil.rmtree(copy)


@pytest.mark.parametrize(
    "module", ["harness/meter.py", "harness/policy.py", "harness/spawn.py", "adapters/entrance.py"]
)
@pytest.mark.parametrize("damage", [raises, leaves_with_success])
def test_a_damaged_module_and_strict(
    wrap: Wrap, trees: Trees, counted: Counted, module: str, damage: Callable[[Path], None]
) -> None:
    wrap.strict = True
    wrap.tree = trees.changed(lambda tree: damage(tree / "proofcost" / module))
    for way in ENTRANCES:
        is_refused(counted.call(wrap.argv(way, counted.command)), counted)


def test_a_module_that_ends_after_any_line(wrap: Wrap, trees: Trees, counted: Counted, tree: Path) -> None:
    """What a torn copy leaves: Python that may well be valid, and does half of what it should."""
    for name in ("meter", "spawn", "outcome", "signals"):
        lines = (tree / f"proofcost/harness/{name}.py").read_text().splitlines(keepends=True)
        step = 2 if name == "spawn" else max(7, len(lines) // 16)  # there a half does most harm
        for end in range(len(lines) // 3, len(lines), step):
            text = "".join(lines[:end])
            copy = trees.changed(lambda to, n=name, t=text: (to / f"proofcost/harness/{n}.py").write_text(t))  # type: ignore[misc]
            wrap.tree = copy
            counted.file.unlink(missing_ok=True)
            ended = counted.call(wrap.argv(PHASE, counted.command))
            assert (ended.status, ended.stdout, ended.stderr) == (42 << 8, b"said\n", b"complained\n"), (
                name,
                end,
                ended,
            )
            assert counted.runs() == 1, (name, end)
            shutil.rmtree(copy)


BUNDLES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda whole: b"",
    "another Python's": lambda whole: b"\x00\x00\r\n" + whole[4:],
    "cut off": lambda whole: whole[: len(whole) // 2],
    "its magic alone": lambda whole: whole[:4],
    "a number": lambda whole: whole[:4] + marshal.dumps(42),
    "no modules": lambda whole: whole[:4] + marshal.dumps({}),
    "not code": lambda whole: whole[:4] + marshal.dumps({"proofcost": (True, "text"), "proofcost.harness": 1}),
    "code that leaves": lambda whole: whole[:4] + marshal.dumps(
        {"proofcost": (True, compile("raise SystemExit(0)", "x", "exec"))}
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BUNDLES)
def test_a_damaged_bundle(wrap: Wrap, tree: Path, tmp_path: Path, counted: Counted, name: str) -> None:
    copy = tmp_path / "tree"
    shutil.copytree(tree, copy)
    whole = (tree / "bundle").read_bytes()
    if name == "code that leaves" and whole[:4] != importlib.util.MAGIC_NUMBER:
        pytest.skip("the launchers' Python is another one than ours")
    (copy / "bundle").write_bytes(BUNDLES[name](whole))
    wrap.tree = copy
    ended = counted.call(wrap.argv(PHASE, counted.command))
    is_as_bare(ended, counted)
    assert has_left_a_trace(wrap, ended)


@pytest.mark.parametrize("change", ["no tree", "closed tree", "closed bundle"])
def test_a_tree_that_cannot_be_read(as_root: None, tree: Path, change: str) -> None:
    """By another user; root reads everything."""
    folder = Path(tempfile.mkdtemp(prefix="proofcost-closed-"))
    try:
        folder.chmod(0o755)
        copy = folder / "meter"
        shutil.copytree(tree, copy)
        wrap = Wrap(folder / "w", copy)
        wrap.folder.mkdir()
        os.chown(wrap.folder, 54321, 54321)
        if change == "no tree":
            shutil.rmtree(copy)
        else:
            (copy if change == "closed tree" else copy / "bundle").chmod(0o600)
        counted = Counted(wrap.folder)

        def another() -> None:
            os.setgroups([])
            os.setresgid(54321, 54321, 54321)
            os.setresuid(54321, 54321, 54321)

        ended = call(wrap.argv(PHASE, counted.command), folder / "s", as_child=another)
        is_as_bare(ended, counted)
        assert bool(wrap.marks()) == (change != "closed bundle")
    finally:
        shutil.rmtree(folder)


PLANT = """
def _plant():
    import importlib, os
    from proofcost.harness import spawn
    target = importlib.import_module({module!r})
    *path, last = {name!r}.split(".")
    for part in path:
        target = getattr(target, part)
    real = getattr(target, last)
    def faulty(*arguments, **named):
        if {when}:
            raise {fault}
        return real(*arguments, **named)
    setattr(target, last, faulty)
_plant()
"""
H = "proofcost.harness."
BEFORE = [
    ("proofcost.adapters.entrance", "begin"), ("proofcost.adapters.entrance", "pass_through_if_measured"),
    ("proofcost.adapters.entrance", "Inherited"), ("proofcost.adapters.entrance", "Config.plan"),
    ("proofcost.adapters.entrance", "try_to"), (H + "spawn", "keep_standard_descriptors_closed"),
    (H + "signals", "block_all"), (H + "meter", "Meter.__init__"), (H + "store", "check_place"),
    (H + "session", "find"),
    (H + "store", "make_folder"), (H + "hierarchy", "find_own"), (H + "hierarchy", "session_dirs"),
    (H + "hierarchy", "wanted"), (H + "hierarchy", "base_for"), (H + "cgroup", "Group.__init__"),
    (H + "cgroup", "Group.make"), (H + "store", "OwnFile.__init__"), (H + "store", "OwnFile.append"),
    (H + "describe", "started"), (H + "record", "dumps"), (H + "meter", "Sampler"), (H + "host", "snapshot"),
    (H + "meter", "oom_counts_above"), (H + "cgroup", "Group.open_entries"), (H + "perf", "Counters.open"),
    (H + "perf", "ExecStamps.open"), (H + "procfs", "own_io"), (H + "procfs", "peak_resident_bytes"),
    (H + "spawn", "start"), ("os", "pipe2"), (H + "cgroup", "Group.fork"), (H + "cgroup", "left_over"),
    (H + "limits", "in_force"), (H + "host", "identity"), (H + "digest", "sha256_hex"), ("os", "fdatasync"),
    (H + "libc", "reserve"), (H + "meter", "Meter.prepare"),
]  # fmt: skip
# Faults of the way out itself, on top of one in `prepare`.
WAYS_OUT = [
    (H + "policy", "mark"), (H + "store", "leave_mark"), (H + "policy", "refuse_or_run"), (H + "meter", "give_up"),
    (H + "meter", "Meter.abandon"), (H + "signals", "Inherited.restore"), (H + "spawn", "restore_environment"),
    (H + "spawn", "replace_by"), (H + "spawn", "exec_in_place"), (H + "store", "OwnFile.discard"),
    (H + "perf", "Counters.close"), ("os", "execv"),
]  # fmt: skip
FAULTS = ("SystemExit(0)", "MemoryError()", "OSError(28, 'no space')", "RuntimeError('planted')")


def plant(module: str, name: str, fault: str, when: str = "True") -> str:
    return PLANT.format(module=module, name=name, fault=fault, when=when)


def planted(wrap: Wrap, trees: Trees, way: str, command: list[str | bytes], text: str) -> list[str | bytes]:
    """The command line that calls a command through a meter with these changes."""
    if way != RUN:

        def append(tree: Path) -> None:
            with (tree / "proofcost/harness/meter.py").open("a") as file:
                file.write(text)

        wrap.tree = trees.changed(append)
        return wrap.argv(way, command)
    script = f"{text}\nimport sys\nfrom proofcost.cli import main\nsys.exit(main())"
    return [sys.executable, "-c", script, *wrap.argv(way, command)[1:]]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_any_step_before_the_start(wrap: Wrap, trees: Trees, counted: Counted, fault: str) -> None:
    for module, name in BEFORE:
        for way in (PHASE, RUN) if fault == FAULTS[0] else (PHASE,):
            if way == RUN and module.startswith("proofcost.adapters"):
                continue
            counted.file.unlink(missing_ok=True)
            shutil.rmtree(wrap.store, ignore_errors=True)
            argv = planted(wrap, trees, way, counted.command, plant(module, name, fault))
            ended = counted.call(argv)
            assert (ended.status, ended.stdout) == (42 << 8, b"said\n"), (way, name, ended)
            assert counted.runs() == 1, (way, name)
            assert ended.stderr.endswith(b"complained\n"), (way, name, ended)
            assert ended.stderr.count(b"\n") <= 2, (way, name, ended)
            assert has_left_a_trace(wrap, ended), (way, name)


@pytest.mark.parametrize("way", [PHASE, RUN])
def test_a_fault_before_the_start_and_strict(wrap: Wrap, trees: Trees, counted: Counted, way: str) -> None:
    """Nothing runs; what only costs figures is no fault."""
    wrap.strict = True
    for name in ("Meter.__init__", "Meter.prepare", "Sampler"):
        ended = counted.call(planted(wrap, trees, way, counted.command, plant(H + "meter", name, "SystemExit(0)")))
        is_refused(ended, counted)


@pytest.mark.parametrize("way", [PHASE, RUN])
def test_a_fault_on_the_way_out_of_a_fault(wrap: Wrap, trees: Trees, counted: Counted, way: str) -> None:
    first = plant(H + "meter", "Meter.prepare", "RuntimeError('first')")
    for module, name in WAYS_OUT:
        if way == RUN and name not in ("mark", "leave_mark", "Meter.abandon", "OwnFile.discard", "Counters.close"):
            continue  # `run` has no second line of defence: it is no launcher
        when = "not hasattr(os, 'planted_once') and not setattr(os, 'planted_once', 1)" if name == "execv" else "True"
        counted.file.unlink(missing_ok=True)
        ended = counted.call(
            planted(wrap, trees, way, counted.command, first + plant(module, name, "MemoryError()", when))
        )
        assert (ended.status, ended.stdout) == (42 << 8, b"said\n"), (name, ended)
        assert counted.runs() == 1, name


def test_the_command_starts_with_clean_signals_after_any_fault(wrap: Wrap, trees: Trees, tmp_path: Path) -> None:
    """The launcher's own way out gives back mask and dispositions that the meter had changed by then."""
    # Not SigQ: it counts the waiting signals of all processes of this user.
    command: list[str | bytes] = ["/bin/grep", "^Sig[^Q]", "/proc/self/status"]

    def odd() -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})

    bare = call(command, tmp_path / "s", as_child=odd)
    for module, name in (
        (H + "policy", "refuse_or_run"),
        (H + "meter", "give_up"),
        (H + "signals", "Inherited.restore"),
    ):
        text = plant(H + "meter", "Meter.prepare", "RuntimeError('first')") + plant(module, name, "MemoryError()")
        argv = planted(wrap, trees, PHASE, command, text)
        ended = call(argv, tmp_path / "s", (b"LC_CTYPE=C", b"A=1"), as_child=odd)
        assert ended.stdout == bare.stdout, name
    text = plant(H + "meter", "Meter.prepare", "RuntimeError('first')") + plant(H + "meter", "give_up", "MemoryError()")
    argv = planted(wrap, trees, PHASE, ["/bin/grep", "SigIgn", "/proc/self/status"], text)
    done = subprocess.run(argv, stdout=subprocess.PIPE, check=True)  # it ignores two for itself and gives them back
    assert done.stdout == b"SigIgn:\t0000000000000000\n"
    environments: list[tuple[bytes, ...]] = [(), (b"LC_CTYPE=C",), (b"A=1", b"A=2", b"no-equals", b"LANG=C")]
    for env in environments:
        argv = planted(wrap, trees, PHASE, ["/bin/cat", "/proc/self/environ"], text)
        assert call(argv, tmp_path / "s", env).stdout == b"".join(entry + b"\0" for entry in env)


@pytest.mark.parametrize("way", [PHASE, RUN])
def test_control_c_while_we_get_ready(wrap: Wrap, trees: Trees, counted: Counted, way: str) -> None:
    """The command would have died of it: it is not started, and the caller sees SIGINT."""
    text = plant(H + "meter", "Meter.prepare", "KeyboardInterrupt()")
    ended = counted.call(planted(wrap, trees, way, counted.command, text))
    assert ended.status == signal.SIGINT
    assert counted.runs() == 0


AFTER = [
    (H + "sample", "Sampler.begin"), (H + "sample", "Sampler.due_ns"), (H + "sample", "Sampler.tick"),
    (H + "signals", "take"), ("os", "waitid"), ("os", "wait4"), (H + "meter", "Meter._has_ended"),
    (H + "procfs", "own_io"),
    (H + "perf", "Counters.read"), (H + "perf", "ExecStamps.read"), (H + "sample", "Sampler.last"),
    (H + "meter", "Meter._stragglers"), (H + "meter", "read_usage"), (H + "figures", "find_program"),
    (H + "figures", "walls"), (H + "figures", "cpu"), (H + "figures", "counters"), (H + "figures", "memory"),
    (H + "figures", "input_output"), (H + "figures", "disk"), (H + "host", "snapshot"), (H + "host", "disturbance"),
    (H + "outcome", "judge"), (H + "store", "OwnFile.append"), (H + "store", "OwnFile.close"), ("os", "fdatasync"),
    (H + "store", "OwnFile.sync"),
    ("os", "ftruncate"), (H + "cgroup", "Group.remove"), (H + "cgroup", "Group.close_entries"), (H + "meter", "clocks"),
    (H + "record", "dumps"), (H + "record", "escape_text"), (H + "meter", "Meter._fault"), (H + "meter", "Meter._step"),
    (H + "meter", "Meter._last_words"), (H + "meter", "Meter._record"), (H + "meter", "Meter._wait"),
    (H + "meter", "Meter.run"), (H + "policy", "mark"), (H + "outcome", "exit_code"), (H + "meter", "run_to_end"),
    (H + "meter", "Meter.plain_wait"), ("time", "monotonic_ns"), (H + "signals", "name"), ("os", "read"),
    ("os", "close"),
    (H + "spawn", "Child.__init__"), (H + "settle", "settle"), ("os", "waitpid"),
]  # fmt: skip
AFTER_THE_START = "spawn.started_pid"
# Where `run` itself, not the meter, needs them.
NOT_OF_RUN = {"exit_code", "run_to_end", "monotonic_ns", "read", "close", "take", "plain_wait", "waitpid"}


@pytest.mark.parametrize("fault", ["SystemExit(0)", "MemoryError()", "OSError(4, 'interrupted')"])
def test_a_fault_in_any_step_after_the_start(
    wrap: Wrap, trees: Trees, counted: Counted, tmp_path: Path, fault: str
) -> None:
    """Neither 0 nor another code, and never a second time."""
    for module, name in AFTER:
        for way in (PHASE, RUN) if fault == "MemoryError()" and name not in NOT_OF_RUN else (PHASE,):
            argv = planted(wrap, trees, way, counted.command, plant(module, name, fault, AFTER_THE_START))
            counted.file.unlink(missing_ok=True)
            ended = counted.call(argv)
            assert (ended.status, ended.stdout, ended.stderr) == (42 << 8, b"said\n", b"complained\n"), (
                way,
                name,
                ended,
            )
            assert counted.runs() == 1, (way, name)


@pytest.mark.parametrize("script", ["exit 0", "exit 1", "kill -9 $$", "sleep 0.2; exit 101"])
def test_a_fault_after_the_start_and_other_ends(wrap: Wrap, trees: Trees, tmp_path: Path, script: str) -> None:
    command: list[str | bytes] = ["/bin/sh", "-c", script]
    bare = call(command, tmp_path / "s")
    for name in ("Meter._wait", "Meter._record", "Meter.run", "Meter._fault", "run_to_end"):
        argv = planted(wrap, trees, PHASE, command, plant(H + "meter", name, "SystemExit(0)", AFTER_THE_START))
        assert call(argv, tmp_path / "s").code == bare.code, name


def test_two_faults_after_the_start(wrap: Wrap, trees: Trees, counted: Counted) -> None:
    for pair in (
        ("Meter._wait", "Meter.plain_wait"),
        ("Meter._record", "Meter._last_words"),
        ("Meter._record", "Meter._fault"),
    ):
        text = "".join(plant(H + "meter", name, "MemoryError()", AFTER_THE_START) for name in pair)
        counted.file.unlink(missing_ok=True)
        is_as_bare(counted.call(planted(wrap, trees, PHASE, counted.command, text)), counted)


def test_a_status_that_somebody_else_took_is_no_success(wrap: Wrap, trees: Trees, tmp_path: Path) -> None:
    steal = """
import os
from proofcost.harness import signals
_real = signals.take
def _take(timeout):
    os.wait()
    return _real(timeout)
signals.take = _take
"""
    ended = call(planted(wrap, trees, PHASE, ["/bin/true"], steal), tmp_path / "s")
    assert ended.code == REFUSED


@pytest.mark.guest
def test_a_host_without_ctypes(wrap: Wrap, trees: Trees, counted: Counted) -> None:
    def hide(tree: Path) -> None:
        file = tree / "proofcost/harness/libc.py"
        file.write_text("import sys\nsys.modules['_ctypes'] = None\n" + file.read_text())

    wrap.tree = trees.changed(hide)
    is_as_bare(counted.call(wrap.argv(PHASE, counted.command)), counted)
    [one] = wrap.records()
    assert one["finished"]["measurements"]["task_clock"]["status"] == "unavailable"
    assert one["finished"]["outcome"]["code"] == 42


def test_no_call_writes_compiled_modules(wrap: Wrap, trees: Trees, counted: Counted) -> None:
    """A limit on file sizes would leave half of one, and every later call would fail on it."""
    wrap.tree = trees.changed(nothing_of)
    is_as_bare(counted.call(wrap.argv(PHASE, counted.command)), counted)
    assert not list(wrap.tree.rglob("*.pyc"))


def nothing_of(tree: Path) -> None:
    """No change."""


def test_a_fault_right_after_the_wait(wrap: Wrap, trees: Trees, counted: Counted) -> None:
    """The status is known and the command reaped: it cannot be asked for again."""
    gone = "spawn.started_pid and not os.path.exists(f'/proc/{spawn.started_pid}')"
    text = plant(H + "meter", "Meter._has_ended", "OSError()", AFTER_THE_START)
    text += plant("time", "monotonic_ns", "MemoryError()", gone)
    is_as_bare(counted.call(planted(wrap, trees, PHASE, counted.command, text)), counted)


def test_a_signal_that_a_write_of_ours_caused_is_not_the_command_s(wrap: Wrap, trees: Trees, tmp_path: Path) -> None:
    """The kernel names the writer as its sender: taken for a caller's, SIGXFSZ would be passed on."""
    text = """
import os
from proofcost.harness import perf
_open = perf.Counters.open
def _over_the_limit(self):
    os.kill(os.getpid(), 25)
    _open(self)
perf.Counters.open = _over_the_limit
"""
    ended = call(planted(wrap, trees, PHASE, ["/bin/sh", "-c", "sleep 0.2; exit 42"], text), tmp_path / "s")
    assert ended.code == 42
    assert wrap.records()[0]["finished"]["outcome"]["cause"] == "completed"


def test_our_own_samples_never_reach_the_command_s_limit_of_cpu(wrap: Wrap, trees: Trees, tmp_path: Path) -> None:
    """Sampling costs little, but a limit is a limit: after hours, or at once when each sample is due at once."""
    text = "from proofcost.harness import sample\nsample.FAST_NS = sample.PROCESSES_NS = 1\n"
    argv = planted(wrap, trees, PHASE, ["/bin/sleep", "2"], text)
    ended = call(argv, tmp_path / "s", as_child=limit(resource.RLIMIT_CPU, 1, 1))
    assert (ended.code, ended.stderr) == (0, b"")
    assert wrap.records()[0]["finished"]["meter_cost"]["cpu_ns"] < 900_000_000
