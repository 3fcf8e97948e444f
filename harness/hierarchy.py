"""Where this process lives in the cgroup hierarchies, and where a new cgroup of ours may be made.

Which hierarchy gives what:
- v2 (`unified`), any host that mounts it: CPU (no controller needed), pressure, kill, populated; with the memory
  controller also memory.peak and OOM events; with io, io.stat. A child can be born inside by clone3 (0.5 ms).
- v1 `memory` (a "hybrid" or v1 host): peak, split and OOM count. A child writes itself into `tasks` (0.1 ms).
- v1 `cpuacct`, only where v2 is not mounted at all.

A cgroup is made below the session's when `run` started us (we live in <session>/whole); else, on v2, beside our own if
the parent is writable and hands memory down (a cgroup that holds processes cannot give controllers to a child); else
below our own: CPU yes, memory peak no.
"""

import os

from proofcost.harness import procfs

PREFIX = "proofcost"
WHOLE = "whole"
UNIFIED = "unified"
MEMORY = "memory"
CPUACCT = "cpuacct"
CPU = "cpu"  # v1; only its limits are read


class Own:
    """Where this process lives: {hierarchy: directory}, {hierarchy: mount point}, and the kind of host."""

    __slots__ = ("dirs", "kind", "mounts")

    def __init__(self, dirs: dict[str, str], mounts: dict[str, str]) -> None:
        self.dirs = dirs
        self.mounts = mounts
        self.kind = kind_of(mounts)


def kind_of(mounts: dict[str, str]) -> str:
    """`v2`, `v1`, `hybrid` (v2 mounted beside v1's memory) or `off` (nothing usable)."""
    if UNIFIED in mounts:
        return "hybrid" if MEMORY in mounts else "v2"
    return "v1" if MEMORY in mounts or CPUACCT in mounts else "off"


def parse_mounts(mountinfo: bytes) -> dict[str, tuple[str, str]]:
    """{hierarchy: (mount point, root of that mount inside the hierarchy)} for those we use; the first mount wins."""
    found: dict[str, tuple[str, str]] = {}
    for line in mountinfo.splitlines():
        if b" - cgroup" not in line:
            continue
        left, _, right = line.partition(b" - ")
        fields = left.split()
        kind, _, rest = right.partition(b" ")
        root, point = _unoctal(fields[3]), _unoctal(fields[4])
        if kind == b"cgroup2":
            found.setdefault(UNIFIED, (point, root))
        elif kind == b"cgroup":
            options = rest.split()[-1].split(b",")
            for name in (MEMORY, CPUACCT, CPU):
                if name.encode() in options:
                    found.setdefault(name, (point, root))
    return found


def _unoctal(raw: bytes) -> str:
    """mountinfo writes space, tab, newline and backslash as three octal digits."""
    if b"\\" not in raw:
        return os.fsdecode(raw)
    out = bytearray()
    at = 0
    while at < len(raw):
        if raw[at : at + 1] == b"\\" and raw[at + 1 : at + 4].isdigit():
            out.append(int(raw[at + 1 : at + 4], 8))
            at += 4
        else:
            out.append(raw[at])
            at += 1
    return os.fsdecode(bytes(out))


def parse_own(self_cgroup: bytes) -> dict[str, str]:
    """{hierarchy: path} from /proc/self/cgroup."""
    paths: dict[str, str] = {}
    for line in self_cgroup.splitlines():
        number, _, rest = line.partition(b":")
        controllers, _, path = rest.partition(b":")
        if number == b"0" and not controllers:
            paths[UNIFIED] = os.fsdecode(path)
        for name in controllers.split(b","):
            if name.decode("ascii", "replace") in (MEMORY, CPUACCT, CPU):
                paths[name.decode("ascii")] = os.fsdecode(path)
    return paths


def find_own() -> Own:
    """Our own place in every hierarchy that can be seen from here."""
    mounts = parse_mounts(procfs.read_file("/proc/self/mountinfo", 1 << 22) or b"")
    paths = parse_own(procfs.read_file("/proc/self/cgroup") or b"")
    dirs: dict[str, str] = {}
    for name, (point, root) in mounts.items():
        path = paths.get(name)
        if path is None or (path + "/").startswith("/../"):  # outside the cgroup namespace that the mount shows
            continue
        if root != "/":
            if path != root and not path.startswith(root + "/"):
                continue
            path = path[len(root) :]
        directory = (point + path).rstrip("/")
        if os.path.isdir(directory):
            dirs[name] = directory
    return Own(dirs, {name: point for name, (point, _root) in mounts.items() if name in dirs})


def session_dirs(own: Own) -> dict[str, str]:
    """The session's cgroups when we live in <session>/whole (started by `run`); empty otherwise."""
    found = {}
    for name, directory in own.dirs.items():
        parent, _, leaf = directory.rpartition("/")
        if leaf == WHOLE and is_session(parent.rpartition("/")[2]):
            found[name] = parent
    return found


def session_name(session: str) -> str:
    """The name of a session's cgroup."""
    return f"{PREFIX}-{session}"


def is_session(name: str) -> bool:
    """Whether a cgroup's name is a session's (and not, say, that of a unit called after us)."""
    prefix, _, session = name.partition("-")
    return prefix == PREFIX and len(session) == 16 and all(char in "0123456789abcdef" for char in session)


def open_controllers(directory: str) -> None:
    """Give every controller that a v2 cgroup has to its children; one by one, so that one refusal costs only itself."""
    have = (procfs.read_file(directory + "/cgroup.controllers", 4096) or b"").split()
    for name in (b"memory", b"cpu", b"io", b"pids"):
        if name in have:
            procfs.write_file(directory + "/cgroup.subtree_control", b"+" + name)


def hands_down_memory(directory: str) -> bool:
    """Whether a v2 cgroup's children have the memory controller; taken up first where the cgroup was delegated to us.

    systemd gives a delegated unit its controllers and leaves it to the unit to hand them on (user.delegate, or
    trusted.delegate before 251); it can where no process lives in the unit's own cgroup.
    """
    control = directory + "/cgroup.subtree_control"
    if b"memory" in (procfs.read_file(control, 4096) or b"").split():
        return True
    if not _is_delegated(directory) or procfs.read_file(directory + "/cgroup.procs", 64):
        return False
    open_controllers(directory)
    return b"memory" in (procfs.read_file(control, 4096) or b"").split()


def _is_delegated(directory: str) -> bool:
    for name in ("user.delegate", "trusted.delegate"):
        try:
            if os.getxattr(directory, name) == b"1":
                return True
        except OSError:
            continue
    return False


def base_for(own: Own, name: str) -> str:
    """Under which directory of hierarchy `name` a new cgroup beside or below our own is made."""
    directory = own.dirs[name]
    if name != UNIFIED or own.kind != "v2":
        return directory
    parent = directory.rpartition("/")[0]
    if directory != own.mounts[UNIFIED] and hands_down_memory(parent) and os.access(parent, os.W_OK):
        return parent
    return directory


def wanted(own: Own) -> list[str]:
    """The hierarchies that add something on this host."""
    names = [name for name in (UNIFIED, MEMORY) if name in own.dirs]
    if UNIFIED not in own.dirs and CPUACCT in own.dirs:
        names.append(CPUACCT)
    return names
