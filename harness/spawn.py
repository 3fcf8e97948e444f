"""Starting the command exactly as the caller would have, and replacing ourselves by it.

The command gets the descriptors, raw environment, working directory, signal dispositions and mask, process group and
limits that we got. One difference is wanted and stated: it dies when its meter is killed (PDEATHSIG KILL), since a
caller that kills its child means the command, not the meter.
"""

import errno
import os
import time

from proofcost.harness import libc, procfs
from proofcost.harness.cgroup import Group
from proofcost.harness.signals import SIGKILL, Inherited

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

    from proofcost.harness.user import User

# The command, once it was made, and its raw wait status, once known: where the launcher looks before it would run the
# command a second time.
started_pid = 0
ended_status: int | None = None

NOT_FOUND = 127
NOT_EXECUTABLE = 126
_SHELL = "/bin/sh"
# Where execvp looks when PATH is unset (confstr _CS_PATH of glibc and musl).
_DEFAULT_PATH = "/bin:/usr/bin"


def exit_code_of(error: OSError) -> int:
    """What a shell would exit with for an exec that failed."""
    return NOT_FOUND if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG) else NOT_EXECUTABLE


def find_program(name: str) -> str | None:
    """The file that exec would start for `name`; None when there is none."""
    for path in candidates(name):
        if os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    return None


def candidates(name: str) -> list[str]:
    """The files that execvp would try for a name, in order."""
    if "/" in name or not name:
        return [name]
    return [os.path.join(directory or ".", name) for directory in os.environ.get("PATH", _DEFAULT_PATH).split(":")]


def exec_in_place(argv: list[str]) -> OSError:
    """Become the command, as execvp would. Returns only when that fails, with the error a caller would have seen."""
    refused: OSError | None = None
    last = OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    for path in candidates(argv[0]):
        try:
            os.execv(path, argv)
        except ValueError:
            # Python itself refuses an empty name (which execvp does not find) and a NUL (which no caller can pass).
            return OSError(errno.EINVAL, os.strerror(errno.EINVAL)) if argv[0] else last
        except OSError as error:
            if error.errno == errno.ENOEXEC:
                # execvp hands a file that the kernel does not know to the shell: a script without `#!`.
                try:
                    os.execv(_SHELL, [_SHELL, path, *argv[1:]])
                except OSError as shell_error:
                    return shell_error
            last = error
            if error.errno == errno.EACCES:
                refused = error
            elif error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ESTALE, errno.ENODEV, errno.ETIMEDOUT):
                return error
    return refused or last


def restore_environment() -> None:
    """Undo what Python itself did to the environment: it sets LC_CTYPE in an empty or C locale (PEP 538)."""
    raw = procfs.read_file("/proc/self/environ", 1 << 24)
    if raw is None:
        return
    original = None
    for entry in raw.split(b"\0"):
        if entry.startswith(b"LC_CTYPE="):
            original = entry[9:]
            break
    current = os.environb.get(b"LC_CTYPE")
    if original == current:
        return
    # unsetenv and putenv change this one entry and keep duplicates and entries without `=`, which os.execve would drop.
    if original is None:
        os.unsetenv(b"LC_CTYPE")
    else:
        os.putenv(b"LC_CTYPE", original)


def keep_standard_descriptors_closed() -> None:
    """Where the caller closed 0, 1 or 2, put a close-on-exec placeholder there, so that no file of ours gets its
    number.

    The command then finds it closed, as without us.
    """
    for fd in (0, 1, 2):
        try:
            os.get_inheritable(fd)
        except OSError:
            opened = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
            if opened != fd:
                os.dup2(opened, fd, inheritable=False)
                os.close(opened)


def let_go() -> None:
    """Close our own copies of the descriptors that the command was given: who waits for the end of a stream that the
    command closes must not wait for us instead. 0, 1 and 2 become close-on-exec placeholders.

    One that holds a record lock (fcntl) stays: the lock is ours by now, and would end.
    """
    null = os.open("/dev/null", os.O_RDWR | os.O_CLOEXEC)
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        try:
            if not os.get_inheritable(fd) or b"POSIX" in (procfs.read_file(f"/proc/self/fdinfo/{fd}") or b""):
                continue
            if fd <= 2:
                os.dup2(null, fd, False)
            else:
                os.close(fd)
        except OSError:
            continue  # the one that listed them
    os.close(null)


def replace_by(argv: list[str], inherited: Inherited, user: "User | None" = None) -> OSError:
    """Run the command in our place, unmeasured, as `user` where one is named. Returns only when that fails."""
    restore_environment()
    if user is not None:
        try:
            user.become()
        except OSError as error:  # never the command as ourselves instead
            return error
    inherited.restore()
    return exec_in_place(argv)


class Child:
    """The command. `pid` is 0 until it was made; `exec_error` tells that it never came to life, `not_the_user` that it
    could not become `user`, whom it is to be (None: who we are); `refused` the cgroups it could not enter;
    `orphan_proof` whether it dies with its meter; `before_exec_ns` the CPU used until its exec; `outputs` descriptors
    that it gets other ones for (its number -> ours)."""

    __slots__ = (
        "before_exec_ns", "exec_error", "not_the_user", "orphan_proof", "outputs", "pid", "refused", "user",
    )  # fmt: skip

    def __init__(self) -> None:
        self.pid = 0
        self.before_exec_ns = 0
        self.exec_error: OSError | None = None
        self.not_the_user = False
        self.refused: list[str] = []
        self.orphan_proof = True
        self.outputs: dict[int, int] = {}
        self.user: User | None = None


def _child(
    child: Child, argv: list[str], inherited: Inherited, group: Group | None, report: int, parent: int
) -> "NoReturn":
    """Never returns. Nothing that is raised here may reach the parent's code."""
    code = NOT_EXECUTABLE
    try:
        if group is not None:
            for hierarchy in group.enter(group.was_born_inside()):
                os.write(report, f"cgroup:{hierarchy} ".encode())
        restore_environment()
        if child.user is not None:
            try:
                # After this we may not even read /proc/self/environ, nor may that user look into us, until the exec.
                child.user.become()
            except OSError as refused:
                os.write(report, f"user:{refused.errno or errno.EPERM} ".encode())
                os._exit(NOT_EXECUTABLE)
        try:
            # After the change of user, which takes it away.
            libc.die_with_parent(SIGKILL)
        except OSError:
            os.write(report, b"pdeathsig: ")
        if os.getppid() != parent:  # the meter died before the call above could take effect
            os._exit(NOT_EXECUTABLE)
        for target, source in child.outputs.items():
            os.dup2(source, target)
        inherited.restore()
        os.write(report, b"cpu:%d " % time.process_time_ns())
        error = exec_in_place(argv)
        code = exit_code_of(error)
        os.write(report, f"exec:{error.errno or errno.EINVAL} ".encode())
    except BaseException:
        try:
            os.write(report, f"exec:{errno.EINVAL} ".encode())
        except OSError:
            pass
    finally:
        os._exit(code)


def _start(child: Child, argv: list[str], inherited: Inherited, group: Group | None) -> None:
    """Fork, enter the cgroups, become the user, exec. Returns once the exec has happened or failed (the child then
    still waits to be reaped).

    Raises OSError when no process could be made; `child.pid` is then still 0 and nothing has run.
    """
    inherited.take_over()
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    parent = os.getpid()
    try:
        # In one statement: whatever becomes of the lines below, a child that is not the command never sees them.
        child.pid = (os.fork() if group is None else group.fork()) or _child(
            child, argv, inherited, group, write_end, parent
        )
    except BaseException:
        os.close(read_end)
        os.close(write_end)
        raise
    global started_pid
    started_pid = child.pid
    inherited.handed_over()
    os.close(write_end)
    said = bytearray()
    try:
        while part := os.read(read_end, 4096):
            said += part
    finally:
        os.close(read_end)
    for line in bytes(said).decode("ascii").split():
        word, _, rest = line.partition(":")
        if word in ("exec", "user"):
            child.exec_error = child.exec_error or OSError(int(rest), os.strerror(int(rest)))
            child.not_the_user = word == "user"
        elif word == "cgroup":
            child.refused.append(rest)
        elif word == "cpu":
            child.before_exec_ns = int(rest)
        elif word == "pdeathsig":
            child.orphan_proof = False


# The last line: a torn copy of this file has no `start` at all, and the command runs unmeasured. Half of one could
# leave a child that never becomes the command, and a caller that waits for it for ever.
start = _start
