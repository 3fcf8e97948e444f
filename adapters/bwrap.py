"""bwrap's command line, what `lake comparator` and `lake check` mean by it, and the `bwrap` entrance.

Options as of bubblewrap 0.11, each with its number of words. Whatever is not known is `unknown` and runs: an option
that bwrap does not know ends it before anything runs, and what `--args FD` holds is bwrap's to read, once.
"""

import os

from proofcost.adapters import entrance, landrun
from proofcost.harness.plan import HIDDEN, UNKNOWN, Plan, Sandbox

KIND = "bwrap"

RESOLVE, CHECK = "resolve", "check"
# What `lake check` sets for the half of it that runs inside the sandbox.
_EXPORTING = "LAKE_CHECK_EXPORT"
# Options that name a kernel's export, as the bundled ones take it.
_EXPORT_OPTIONS = ("--from-export", "--import")

# Number of words after each option.
_WORDS = {
    **dict.fromkeys(
        (
            "--help", "--version", "--level-prefix", "--unshare-all", "--share-net", "--unshare-user",
            "--unshare-user-try", "--unshare-ipc", "--unshare-pid", "--unshare-net", "--unshare-uts",
            "--unshare-cgroup", "--unshare-cgroup-try", "--disable-userns", "--assert-userns-disabled", "--clearenv",
            "--new-session", "--die-with-parent", "--as-pid-1",
        ),
        0,
    ),
    **dict.fromkeys(
        (
            "--args", "--argv0", "--userns", "--userns2", "--pidns", "--uid", "--gid", "--hostname", "--chdir",
            "--unsetenv", "--lock-file", "--sync-fd", "--remount-ro", "--exec-label", "--file-label", "--proc", "--dev",
            "--tmpfs", "--mqueue", "--dir", "--seccomp", "--add-seccomp-fd", "--block-fd", "--userns-block-fd",
            "--info-fd", "--json-status-fd", "--cap-add", "--cap-drop", "--perms", "--size", "--overlay-src",
            "--tmp-overlay", "--ro-overlay",
        ),
        1,
    ),
    **dict.fromkeys(
        (
            "--setenv", "--bind", "--bind-try", "--dev-bind", "--dev-bind-try", "--ro-bind", "--ro-bind-try",
            "--bind-fd", "--ro-bind-fd", "--file", "--bind-data", "--ro-bind-data", "--symlink", "--chmod",
        ),
        2,
    ),
    "--overlay": 3,
}  # fmt: skip
_WRITABLE = ("--bind", "--bind-try", "--dev-bind", "--dev-bind-try")
_READABLE = ("--ro-bind", "--ro-bind-try")
# What these put there is empty at first, or the kernel's.
_EMPTY = ("--tmpfs", "--dir", "--dev", "--proc", "--mqueue")
# What these put there is not to be had from outside; the last word is where.
_OTHER = ("--bind-fd", "--ro-bind-fd", "--file", "--bind-data", "--ro-bind-data", "--symlink", "--overlay",
          "--tmp-overlay", "--ro-overlay")  # fmt: skip
_PATH_OF_NONE = "/bin:/usr/bin"


class Arguments:
    """bwrap's arguments as read. `odd`: what keeps them from being understood, None when nothing does."""

    __slots__ = ("chdir", "command", "environment", "forgets", "init", "mounts", "odd", "own_pids", "sandbox")

    def __init__(self) -> None:
        self.sandbox = Sandbox(KIND)
        self.command: list[str] = []
        self.odd: str | None = None
        # In order: (where inside, what of the host; "" for empty, HIDDEN for what cannot be told).
        self.mounts: list[tuple[str, str]] = []
        self.environment: dict[str, str] = {}
        # Whether the caller's environment is dropped.
        self.forgets = False
        self.chdir: str | None = None
        self.own_pids = False
        self.init = True


def read(arguments: list[str]) -> Arguments:
    """Read bwrap's arguments as it reads them: options up to `--` or to the first word that is none, then the command.

    From an unknown option on nobody can tell options from their words: everything up to `--` that looks like a writable
    path counts as one.
    """
    seen = Arguments()
    at = 0
    while at < len(arguments):
        option = arguments[at]
        if option == "--" or not option.startswith("-"):
            seen.command = arguments[at + (option == "--") :]
            break
        count = _WORDS.get(option)
        if count is None:
            end = arguments.index("--", at) if "--" in arguments[at:] else len(arguments)
            _look_for_writable(seen, arguments[at:end])
            seen.command = arguments[end + 1 :]
            seen.odd = seen.odd or f"bwrap option {option[:80]!r} is not known"
            break
        words = arguments[at + 1 : at + 1 + count]
        if len(words) < count:
            seen.odd = seen.odd or f"bwrap option {option} lacks {count - len(words)} of its {count} words"
            break
        _take(seen, option, words)
        at += 1 + count
    # bwrap leaves as soon as the program in it has: its own init, which waits for the rest, is not waited for.
    seen.sandbox.waits = not (seen.own_pids and seen.init)
    return seen


def _take(seen: Arguments, option: str, words: list[str]) -> None:
    if option in _WRITABLE or option in _READABLE:
        (seen.sandbox.writable if option in _WRITABLE else seen.sandbox.readable).append(words[0])
        seen.mounts.append((words[1], words[0]))
    elif option in _EMPTY:
        seen.mounts.append((words[0], ""))
    elif option in _OTHER:
        seen.mounts.append((words[-1], HIDDEN))
        if option == "--bind-fd":
            seen.sandbox.writable.append(f"/proc/self/fd/{words[0]}")
        elif option == "--overlay":  # upper layer and work folder
            seen.sandbox.writable += words[:2]
    elif option == "--setenv":
        seen.environment[words[0]] = words[1]
    elif option == "--unsetenv":
        seen.environment.pop(words[0], None)
    elif option == "--clearenv":
        seen.environment.clear()
        seen.forgets = True
    elif option == "--chdir":
        seen.chdir = words[0]
    elif option in ("--unshare-all", "--unshare-pid"):
        seen.own_pids = True
    elif option == "--as-pid-1":
        seen.init = False
    elif option == "--args":
        seen.odd = seen.odd or f"bwrap reads more options from descriptor {words[0][:20]}, which are not seen here"


def _look_for_writable(seen: Arguments, words: list[str]) -> None:
    for at in range(len(words) - 1):
        if words[at] in (*_WRITABLE, "--overlay"):
            seen.sandbox.writable.append(words[at + 1])


def read_arguments(arguments: list[str]) -> tuple[Sandbox, list[str]]:
    """(the sandbox, the command inside it); the command is empty when there is none."""
    seen = read(arguments)
    return seen.sandbox, seen.command


def host_path(seen: Arguments, path: str) -> str:
    """What file of the host a path inside the sandbox is; "" for none, HIDDEN when that cannot be told."""
    found = _mapped(seen, os.path.normpath(path))
    if found in ("", HIDDEN):
        return found
    real = os.path.realpath(found)
    # A link is followed inside, where other things may stand.
    if real != found and _mapped(seen, real) != real:
        return HIDDEN
    return found


def _mapped(seen: Arguments, path: str) -> str:
    for where, of in reversed(seen.mounts):
        base = os.path.normpath(where).rstrip("/")
        if path == base or path.startswith(base + "/"):
            return of if of in ("", HIDDEN) else os.path.normpath(of + "/" + path[len(base) :])
    return ""  # bwrap's root is empty


def program_file(seen: Arguments) -> str:
    """The host's file of the program inside; HIDDEN where it cannot be told."""
    name = seen.command[0]
    if "/" in name:
        return host_path(seen, name if name.startswith("/") else f"{seen.chdir or os.getcwd()}/{name}") or HIDDEN
    path = seen.environment.get("PATH") or (_PATH_OF_NONE if seen.forgets else os.environ.get("PATH", _PATH_OF_NONE))
    for folder in path.split(":"):
        found = host_path(seen, os.path.join(folder or ".", name)) if folder.startswith("/") else HIDDEN
        if found == HIDDEN or (found and os.access(found, os.X_OK) and os.path.isfile(found)):
            return found
    return HIDDEN


def understand(plan: Plan) -> None:
    """Fill in what the command says of itself: sandbox, program, phase, module, kernel."""
    seen = read(plan.argv[1:])
    plan.sandbox, plan.target = seen.sandbox, seen.command
    plan.phase_understood = UNKNOWN
    if seen.odd is not None:
        plan.target_file = HIDDEN
        plan.notes.append(seen.odd)
    elif plan.target:
        plan.target_file = program_file(seen)
        _understand_call(plan, seen)


def _understand_call(plan: Plan, seen: Arguments) -> None:
    """Phase, module and kernel of a call as Lake makes it (4.35); other calls as any comparator's."""
    target = plan.target
    if os.path.basename(target[0]) == "lake":
        if target[1:] in (["env"], ["resolve-deps"]):
            plan.phase_understood = RESOLVE
            return
        if target[1:] == ["check"] and seen.environment.get(_EXPORTING):
            plan.phase_understood = CHECK
            return
    last = host_path(seen, target[-1]) if len(target) > 1 and target[-1].startswith("/") else ""
    granted = any(where == target[-1] and of == last for where, of in seen.mounts)
    if last not in ("", HIDDEN) and (granted or target[-2] in _EXPORT_OPTIONS) and os.path.isfile(last):
        landrun.understand_checker(plan, last)
        return
    landrun.understand_target(plan)


def main(config: entrance.Config) -> None:
    """The `bwrap` entrance: measures `bwrap ARGS...` and leaves with the real bwrap's status."""
    entrance.stand_in_for(config, KIND, understand)
