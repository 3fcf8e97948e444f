"""The folder of one run's launchers: made, removed, and taken away by a later run where its own was killed.

Its name says whose it is: `proofcost-run-<boot>-<pid namespace>-<pid>-<random>`. A later run of the same user, boot and
pid namespace that comes by removes it once no process has this number, nor that of the run's judge (which a killed run
may leave behind where it is a set-user-id program, and whose calls must go on finding their launchers). A lock would
tell the same, but would have to be held by the judge to tell of it, too.

Nothing here waits or goes on for longer than it is told: what stands in the folder may be a hostile judge's.
"""

import errno
import os
import stat
import time

from proofcost.harness import procfs
from proofcost.harness.digest import sha256_hex

PREFIX = "proofcost-run-"
REMOVE_NS = 250_000_000
SWEEP_NS = 50_000_000
_JUDGE = "judge"
_BOOT_DIGITS = 8
_ATTEMPTS = 16


class _TooMuchError(Exception):
    """The time is over, or something there is not ours."""


def make(parent: str) -> str:
    """A new folder of ours in `parent`, mode 0755, after taking away what killed runs have left there. Raises
    OSError."""
    sweep(parent)
    whose = f"{_here()}{os.getpid()}-"
    for _ in range(_ATTEMPTS):
        made = f"{parent.rstrip('/') or ''}/{PREFIX}{whose}{os.urandom(4).hex()}"
        try:
            os.mkdir(made, 0o700)
        except FileExistsError:
            continue
        os.chmod(made, 0o755)  # whatever the umask
        return made
    raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), parent)


def note_judge(folder: str, pid: int) -> None:
    """Whoever else needs the launchers. Raises OSError."""
    os.symlink(str(pid), f"{folder}/{_JUDGE}")


def remove(folder: str, patience_ns: int = REMOVE_NS) -> bool:
    """Take a folder and all in it away; False where something of it stays (`sweep` goes on with it). Never raises.

    However deep it is nested, no path gets long and one descriptor is enough: what stands in a folder of the folder is
    moved up before that is removed.
    """
    try:
        until = time.monotonic_ns() + patience_ns
        while _thin_out(folder, until):
            pass
        os.rmdir(folder)
    except (OSError, _TooMuchError):
        return False
    return True


def _thin_out(folder: str, until: int) -> bool:
    """Remove the files in it, and of each folder in it the files and itself. Whether anything was there."""
    found = False
    for path, is_folder in _entries(folder, until):
        found = True
        if not is_folder:
            os.unlink(path)
            continue
        for inner, inner_is_folder in _entries(path, until):
            if inner_is_folder:
                os.rename(inner, f"{folder}/{os.urandom(8).hex()}")
            else:
                os.unlink(inner)
        os.rmdir(path)
    return found


def _entries(folder: str, until: int) -> "list[tuple[str, bool]]":
    """Paths in a folder that is ours, and whether each is a folder itself. Raises OSError, _TooMuchError."""
    # By its owner's own chmod it may be closed to its owner.
    if os.lstat(folder).st_uid != os.geteuid():
        raise _TooMuchError
    os.chmod(folder, 0o700)
    found = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if time.monotonic_ns() > until:
                raise _TooMuchError
            found.append((entry.path, entry.is_dir(follow_symlinks=False)))
    return found


def sweep(parent: str, patience_ns: int = SWEEP_NS) -> None:
    """Take away what runs of ours that were killed have left in `parent`, as far as the time goes. Never raises."""
    until = time.monotonic_ns() + patience_ns
    mine = PREFIX + _here()
    try:
        with os.scandir(parent) as entries:
            for entry in entries:
                if time.monotonic_ns() > until:
                    return
                if entry.name.startswith(mine) and _is_ours(entry) and _is_left(entry.path, entry.name[len(mine) :]):
                    remove(entry.path, until - time.monotonic_ns())
    except OSError:
        return


def _here() -> str:
    """`<boot>-<pid namespace>-`: where a process number means something. Unknown, nothing is ever swept."""
    boot, namespace = procfs.boot_id(), procfs.pid_namespace()
    if boot is None or namespace is None:
        return f"{os.urandom(4).hex()}-0-"
    return f"{sha256_hex(boot.encode())[:_BOOT_DIGITS]}-{namespace}-"


def _is_ours(entry: "os.DirEntry[str]") -> bool:
    try:
        known = entry.stat(follow_symlinks=False)
    except OSError:
        return False
    return stat.S_ISDIR(known.st_mode) and known.st_uid == os.geteuid()


def _is_left(folder: str, rest: str) -> bool:
    """Whether neither the run of a folder (`rest` of its name: `<pid>-<random>`) nor its judge is there any more."""
    try:
        judge = os.readlink(f"{folder}/{_JUDGE}")
    except OSError:  # killed before it had one
        judge = ""
    numbers = [rest.partition("-")[0], *([judge] if judge else [])]
    return all(number.isascii() and number.isdigit() and len(number) < 10 for number in numbers) and not any(
        _is_there(int(number)) for number in numbers
    )


def _is_there(pid: int) -> bool:
    if pid <= 0:
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):
        return True
    # One that has ended and that nobody waits for (a container without an init) keeps its number.
    state = (procfs.read_file(f"/proc/{pid}/stat") or b"").rpartition(b")")[2].split()[:1]
    return state not in ([b"Z"], [b"X"])
