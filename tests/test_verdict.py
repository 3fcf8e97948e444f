"""The first rule: no fault of the meter changes a verdict.

Before the start, default policy: the command runs once, exactly as bare, and a mark is left. Strict: 125, and the
command never starts. After the start: its status, whatever fails. Every fault is made on a real launcher around a real
command; `faulty_tree` changes the installed meter, the rest changes the world.
"""

import os
import resource
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from calling import ENTRANCES, LANDRUN, PHASE, PLAIN, WAYS, Ended, Wrap, call, compile_c, limit, make_tree, nothing

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
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tree(tmp_path_factory.mktemp("tree"))


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


@pytest.mark.guest
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


@pytest.mark.guest
@pytest.mark.parametrize("strict", [False, True], ids=["run", "strict"])
@pytest.mark.parametrize("way", ENTRANCES)
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


@pytest.mark.guest
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


@pytest.mark.guest
@pytest.mark.parametrize("way", WAYS)
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


@pytest.mark.guest
@pytest.mark.parametrize("way", ENTRANCES)
@pytest.mark.parametrize("name", LIMITS)
def test_a_narrow_limit_changes_nothing(wrap: Wrap, counted: Counted, small_program: Path, way: str, name: str) -> None:
    argv = wrap.argv(way, [str(small_program), str(counted.file)])
    ended = counted.call(argv, as_child=LIMITS[name])
    is_as_bare(ended, counted, None if ended.stderr.startswith(b"proofcost: ") else b"")
    assert wrap.records() or wrap.marks() or ended.stderr.startswith(b"proofcost: "), "and it left a trace"


@pytest.mark.guest
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


@pytest.mark.guest
def test_nobody_reads_what_we_would_say(wrap: Wrap, tmp_path: Path) -> None:
    """Our line goes to a pipe without a reader: the SIGPIPE of it is ours, and must not kill the command."""
    wrap.options["store"] = "/proc/none"
    read_end, write_end = os.pipe()
    os.close(read_end)
    ended = call(
        wrap.argv(PHASE, ["/bin/sh", "-c", "exit 42"]), tmp_path / "s", as_child=lambda: os.dup2(write_end, 2) and None
    )
    os.close(write_end)
    assert ended.code == 42


@pytest.mark.guest
@pytest.mark.parametrize("strict", [False, True], ids=["run", "strict"])
def test_no_process_can_be_made(as_root: None, strict: bool) -> None:
    """As another user, whose processes are counted: the meter becomes the command."""
    folder = Path(tempfile.mkdtemp(prefix="proofcost-nproc-"))
    try:
        folder.chmod(0o755)
        wrap = Wrap(folder / "w", make_tree(folder), strict)
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
