"""What every launcher runs; adapters/launchers.py puts a `#!` line and its configuration in front of it.

A launcher must never turn a fault of Python or of ours into a verdict: whatever it can catch before the command starts
ends in a plain exec of the command, or, strict, in 125. It stands alone: it must work when nothing of ours can be
imported.
"""

import sys

# Configuration begins: these lines are replaced.
NAME, VERSION, STORE, REAL, STRICT, TREE = "phase", "", "", "", False, ""
OPTIONS: dict[str, object] = {}
# Configuration ends.

# The rest comes compiled out of the meter's bundle, where that is there and of this Python: compiling it costs a call
# 0.5 ms. A launcher keeps it as text for the day it is not.
# Rest begins.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import CodeType

    Entries = tuple[tuple[str, str, CodeType], ...]

ENOENT, ENOEXEC, ENOTDIR = 2, 8, 20
# What the command must get back when the meter fails after it changed them.
SIGCHLD_WAS: list[object] = []
MASK_WAS: set[int] = set()


def launch(entries: "Entries") -> None:
    """Hand over to the meter; it never comes back."""
    import _signal  # type: ignore[import-not-found]
    import _warnings

    SIGCHLD_WAS.append(_signal.getsignal(_signal.SIGCHLD))
    MASK_WAS.update(_signal.pthread_sigmask(_signal.SIG_BLOCK, []))
    # Not `-W ignore`, which would import `warnings` (0.4 ms): nothing of ours may appear on the command's stderr.
    _warnings.filters.insert(0, ("ignore", None, Warning, None, 0))
    # A limit on file sizes or a full disk would leave half a .pyc, and every later call would fail on it.
    sys.dont_write_bytecode = True
    sys.path.append(TREE)
    try:
        use_bundled(entries)
    except Exception:
        for name in [name for name in sys.modules if name.partition(".")[0] == "proofcost"]:
            del sys.modules[name]  # the tree does as well
    from proofcost.adapters.entrance import Config

    if NAME == "phase":
        from proofcost.adapters.phase import main
    elif NAME == "leaneval":
        from proofcost.adapters.leaneval import main
    elif NAME == "timer":
        from proofcost.adapters.timer import main
    elif NAME == "bwrap":
        from proofcost.adapters.bwrap import main
    else:
        from proofcost.adapters.landrun import main
    main(Config(STORE, REAL, strict=STRICT, **OPTIONS))  # type: ignore[arg-type]


def use_bundled(entries: "Entries") -> None:
    """Make the meter's modules (name, its folder if it is a package, code) from the bundle.

    They stand there in the order in which they need each other, so that none of them is searched for: 2 ms less. What
    is not there (and seldom needed) is imported from the tree.
    """
    unused = {"landrun": ("phase", "bwrap"), "bwrap": ("phase",)}.get(NAME, ("bwrap",))
    for name, folder, code in entries:
        if name.removeprefix("proofcost.adapters.") in unused:
            continue
        module = sys.modules[name] = type(sys)(name)
        if folder:
            module.__path__ = [f"{TREE}/{folder}"]
        exec(code, module.__dict__)
        above, _, last = name.rpartition(".")
        if above:
            setattr(sys.modules[above], last, module)


def without_the_meter(fault: BaseException) -> None:
    """The meter cannot be used: leave a mark, then become the command as if we had never been called."""
    import os

    try:
        end_with_what_has_started()
        run_or_refuse(fault)
    finally:
        os._exit(125 if STRICT else 126)


def end_with_what_has_started() -> None:
    """A fault that comes after the command was started must not start it again: its status is all that counts."""
    import os

    spawn = sys.modules.get("proofcost.harness.spawn")
    pid, status = getattr(spawn, "started_pid", 0), getattr(spawn, "ended_status", None)
    if not pid:
        return
    try:
        if status is None:
            status = os.waitpid(pid, 0)[1]
        os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
    finally:
        os._exit(125)  # somebody else took the status: unknown is not a success


def run_or_refuse(fault: BaseException) -> None:
    """The policy, with nothing but the standard library."""
    import _signal
    import os

    command = [REAL, *sys.argv[1:]] if REAL else sys.argv[sys.argv.index("--") + 1 :] if "--" in sys.argv else []
    if isinstance(fault, KeyboardInterrupt):
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [_signal.SIGINT])
        os.kill(os.getpid(), _signal.SIGINT)
    try:
        text = f"{type(fault).__name__}: {fault}"[:300].replace("\\", "/").replace('"', "'")
        text = "".join(char if " " <= char <= "~" else "?" for char in text)
    except BaseException:
        text = "a fault that cannot even be told"
    if STRICT or not command:
        try:
            os.write(2, f"proofcost: {text}; refused, nothing was run\n".encode())
        finally:
            os._exit(125)
    leave_mark(text)
    hide_door()
    restore_signals()
    restore_environment()
    become(command)


def leave_mark(text: str) -> None:
    """A trace in the store, else one line on stderr."""
    import os
    import time

    mark = f'{{"schema":1,"event":"mark","fault":"{text}","policy":"run","entrance":"{NAME}","version":"{VERSION}"}}\n'
    try:
        os.makedirs(STORE + "/marks", mode=0o700, exist_ok=True)
        path = f"{STORE}/marks/{time.time_ns()}-{os.getpid()}.json"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        os.write(fd, mark.encode())
        os.close(fd)
    except BaseException:
        try:
            os.write(2, f"proofcost: {text}; the command runs unmeasured\n".encode())
        except OSError:
            pass


def hide_door() -> None:
    """The command must not inherit the way to the collector, where there is one (harness/door.py)."""
    import os

    door = OPTIONS.get("door")
    try:
        if isinstance(door, tuple) and os.fstat(door[0]).st_ino == door[1]:
            os.set_inheritable(door[0], False)
    except OSError:
        pass


def restore_signals() -> None:
    """Python ignores SIGPIPE and SIGXFSZ, the meter blocks signals; the command gets what our caller had."""
    import _signal
    import os

    ignored = 0
    try:
        counts_as_we_do = os.readlink("/proc/self") == str(os.getpid())  # else its PID is a stranger
        with open(f"/proc/{os.getppid()}/status" if counts_as_we_do else "", "rb") as status:
            ignored = int(status.read().split(b"SigIgn:")[1].split()[0], 16)
        both = 1 << _signal.SIGPIPE - 1 | 1 << _signal.SIGXFSZ - 1
        if ignored & both == both:  # as a Python has it for itself: its subprocess module gives both back
            program = os.readlink(f"/proc/{os.getppid()}/exe").rpartition("/")[2]
            ignored = 0 if program.startswith(("python", "pypy")) else ignored
    except BaseException:
        pass
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        if not ignored >> (number - 1) & 1:
            _signal.signal(number, _signal.SIG_IGN)  # drops one that waits because it was blocked
            _signal.signal(number, _signal.SIG_DFL)
    if SIGCHLD_WAS:
        _signal.signal(_signal.SIGCHLD, SIGCHLD_WAS[0])
        _signal.pthread_sigmask(_signal.SIG_SETMASK, MASK_WAS)


def restore_environment() -> None:
    """Python sets LC_CTYPE where the locale is C (PEP 538)."""
    import os

    try:
        with open("/proc/self/environ", "rb") as file:
            at = [entry[9:] for entry in file.read().split(b"\0") if entry.startswith(b"LC_CTYPE=")]
        if at:
            os.putenv(b"LC_CTYPE", at[0])
        else:
            os.unsetenv(b"LC_CTYPE")
    except BaseException:
        pass


def become(command: list[str]) -> None:
    """exec as execvp would; leaves with a shell's code when there is nothing to become."""
    import os

    places, code = [command[0]], 127
    if "/" not in command[0]:
        places = [os.path.join(d or ".", command[0]) for d in os.environ.get("PATH", "/bin:/usr/bin").split(":")]
    for path in places:
        if is_ours(path):
            continue
        try:
            os.execv(path, command)
        except OSError as error:
            if error.errno == ENOEXEC:  # a script without `#!`, which execvp hands to the shell
                os.execv("/bin/sh", ["/bin/sh", path, *command[1:]])
            if error.errno not in (ENOENT, ENOTDIR):
                code = 126
    os._exit(code)


def is_ours(path: str) -> bool:
    """Whether a sandbox that is looked for by its bare name is this launcher: it would start itself for ever."""
    if not REAL or "/" in REAL:
        return False
    try:
        with open(path, "rb") as file:
            return b"# proofcost launcher" in file.read(256)
    except OSError:
        return False


# Rest ends.
REST = ""  # Here stands the text of the rest.


def bundled() -> "tuple[CodeType | str, Entries]":
    """(the rest, the meter's modules) from the bundle, else (the rest's text, nothing)."""
    try:
        from _frozen_importlib_external import MAGIC_NUMBER
        from marshal import loads

        with open(TREE + "/bundle", "rb", buffering=0) as file:
            if file.read(len(MAGIC_NUMBER)) == MAGIC_NUMBER:
                rest, entries = loads(file.read())
                return rest, entries
    except Exception:
        pass
    return REST, ()


if __name__ == "__main__":
    try:
        import gc

        gc.disable()  # 0.8 ms of looking through what start-up makes; the meter leaves next to no garbage behind
        rest, entries = bundled()
        exec(rest)
        launch(entries)
    except BaseException as fault:
        try:
            if "without_the_meter" not in globals():
                exec(REST)
            without_the_meter(fault)
        finally:
            import os

            os._exit(125 if STRICT else 126)
