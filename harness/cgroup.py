"""A cgroup per invocation: the whole tree's CPU and memory, and an honest list of what outlived the command.

hierarchy.py says where they are made, usage.py reads them.
"""

import os
import time

from proofcost.harness import libc, procfs
from proofcost.harness.hierarchy import MEMORY, UNIFIED

# A tree that is only just dying is not a straggler: how long an exit is given to finish.
GRACE_NS = 20_000_000
_GRACE_STEP_S = 0.002


class Group:
    """One set of cgroups (one per hierarchy) made by us, for an invocation or a session."""

    __slots__ = ("_fds", "dirs", "kind", "reasons")

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.dirs: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        self._fds: dict[str, int] = {}

    def make(self, bases: dict[str, str], name: str) -> None:
        """Make directory `name` under each base. What cannot be made is left out, with its reason."""
        for hierarchy, base in bases.items():
            directory = base + "/" + name
            try:
                os.mkdir(directory, 0o755)
            except OSError as error:
                # The folder above, not ours: the same words for every call that it refuses.
                self.reasons[hierarchy] = f"no cgroup below {base}: {os.strerror(error.errno or 0)}"
                continue
            self.dirs[hierarchy] = directory
            if hierarchy == MEMORY:
                # An old kernel's default would not add children up; a new one refuses the write and is always so.
                procfs.write_file(directory + "/memory.use_hierarchy", b"1")

    @property
    def has_memory(self) -> bool:
        """Whether the peak memory of the tree can be read from here."""
        return MEMORY in self.dirs or os.path.exists(self.dirs.get(UNIFIED, "") + "/memory.peak")

    def open_entries(self) -> None:
        """Open what the child needs to get in: before the fork, so that the child only writes."""
        for hierarchy, directory in list(self.dirs.items()):
            try:
                if hierarchy == UNIFIED:
                    flags, path = os.O_RDONLY | os.O_DIRECTORY, directory
                else:
                    # A thread that moves itself alone takes no lock over all processes (no RCU grace period: 0.1 ms
                    # instead of 10); the child has one thread. Only v1 lets a thread go alone.
                    flags, path = os.O_WRONLY, directory + "/tasks"
                self._fds[hierarchy] = os.open(path, flags | os.O_CLOEXEC)
            except OSError as error:
                self.reasons[hierarchy] = f"cgroup {directory}: {os.strerror(error.errno or 0)}"
                self.remove_one(hierarchy)

    def close_entries(self) -> None:
        for fd in self._fds.values():
            os.close(fd)
        self._fds.clear()

    def fork(self) -> int:
        """fork into the v2 cgroup where that works, else a plain fork after which the child writes itself in."""
        fd = self._fds.get(UNIFIED)
        if fd is not None:
            try:
                return libc.clone_into_cgroup(fd)
            except OSError as error:
                # No clone3 (seccomp, an old kernel) or no right to move: figures of this hierarchy are void.
                self.reasons[UNIFIED] = f"clone3 into {self.dirs[UNIFIED]}: {os.strerror(error.errno or 0)}"
                os.close(self._fds.pop(UNIFIED))
                if not self._enter_v2_after_fork():
                    self.remove_one(UNIFIED)
        return os.fork()

    def _enter_v2_after_fork(self) -> bool:
        try:
            self._fds[UNIFIED] = os.open(self.dirs[UNIFIED] + "/cgroup.procs", os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            return False
        return True

    def enter(self, born_inside_v2: bool) -> list[str]:
        """In the child: write ourselves into every cgroup we were not born in. Returns the hierarchies that refused."""
        refused = []
        for hierarchy, fd in self._fds.items():
            if hierarchy == UNIFIED and born_inside_v2:
                continue
            try:
                os.write(fd, b"0")
            except OSError:
                refused.append(hierarchy)
        return refused

    def was_born_inside(self) -> bool:
        """In the child: whether clone3 put us into the v2 cgroup."""
        return UNIFIED in self._fds and UNIFIED not in self.reasons

    def forget(self, hierarchy: str, reason: str) -> None:
        """The child could not enter: nothing read there would be true."""
        self.reasons[hierarchy] = reason
        self.remove_one(hierarchy)

    def pids(self) -> list[int]:
        """Processes in the cgroup and below it, from whichever hierarchy we have."""
        for directory in self.dirs.values():
            return pids_below(directory)
        return []

    def wait_empty(self, grace_ns: int = GRACE_NS) -> list[int]:
        """Processes left after an exit was given `grace_ns` to finish."""
        left = self.pids()
        end = time.monotonic_ns() + grace_ns
        while left and time.monotonic_ns() < end:
            time.sleep(_GRACE_STEP_S)
            left = self.pids()
        return left

    def kill(self, first: int = 0) -> None:
        """SIGKILL everything inside, at once where v2 can, else until nothing is left or a second has passed."""
        unified = self.dirs.get(UNIFIED)
        if unified is not None and procfs.write_file(unified + "/cgroup.kill", b"1"):
            return
        end = time.monotonic_ns() + 1_000_000_000
        pids = self.pids()
        if first in pids:
            pids = [first, *pids]
        while pids and time.monotonic_ns() < end:
            for pid in pids:
                try:
                    if pid:  # 0: one that our pid namespace cannot see, and to `kill` our own process group
                        os.kill(pid, 9)
                except OSError:
                    continue
            time.sleep(_GRACE_STEP_S)
            pids = self.pids()

    def remove_one(self, hierarchy: str, whole: bool = False) -> bool:
        """Remove one directory; False when something still lives in it. `whole`: with what was made below it."""
        directory = self.dirs.get(hierarchy)
        if directory is None:
            return True
        if not remove_tree(directory, whole):
            return False
        del self.dirs[hierarchy]
        return True

    def remove(self, whole: bool = False) -> bool:
        """Remove all directories; True when nothing is left of them. `whole`: with what was made below them."""
        for hierarchy in list(self.dirs):
            self.remove_one(hierarchy, whole)
        return not self.dirs


def remove_tree(directory: str, whole: bool) -> bool:
    """Remove a cgroup, and with `whole` those that a command made in it; False when something still lives in one."""
    try:
        os.rmdir(directory)
    except FileNotFoundError:
        return True
    except OSError:
        below = left_over(directory, "") if whole else []
        for name in below:
            remove_tree(f"{directory}/{name}", True)
        if not below:
            return False
        try:
            os.rmdir(directory)
        except OSError:
            return False
    return True


def pids_below(directory: str) -> list[int]:
    """Processes in a cgroup and in all cgroups below it."""
    raw = procfs.read_file(directory + "/cgroup.procs") or b""
    pids = [int(pid) for pid in raw.split()]
    for name in left_over(directory, ""):
        pids += pids_below(directory + "/" + name)
    return pids


def limit_tree(dirs: dict[str, str], memory_bytes: int, swap_bytes: int = 0) -> str | None:
    """Limit a tree's memory and, beside it, its swap (a tree that swaps thrashes instead of ending).

    Returns the reason where that fails.
    """
    memory, unified = dirs.get(MEMORY), dirs.get(UNIFIED)
    text = str(memory_bytes).encode()
    # A page more for memory and swap together: so it is the limit on memory that is hit, which every kernel counts.
    together = str(memory_bytes + swap_bytes + os.sysconf("SC_PAGE_SIZE")).encode()
    if memory is not None:
        if not procfs.write_file(memory + "/memory.limit_in_bytes", text):
            return f"{memory}/memory.limit_in_bytes cannot be written"
        if os.path.exists(memory + "/memory.memsw.limit_in_bytes") and not procfs.write_file(
            memory + "/memory.memsw.limit_in_bytes", together
        ):
            return f"{memory}/memory.memsw.limit_in_bytes cannot be written"
        return None
    if unified is None or not os.path.exists(unified + "/memory.max"):
        return "no memory controller here"
    if not procfs.write_file(unified + "/memory.max", text):
        return f"{unified}/memory.max cannot be written"
    swap_max = unified + "/memory.swap.max"
    if os.path.exists(swap_max) and not procfs.write_file(swap_max, str(swap_bytes).encode()):
        return f"{swap_max} cannot be written"
    return None


def left_over(base: str, prefix: str) -> list[str]:
    """Names of the cgroups under `base` that start with `prefix`; none when it cannot be listed (it may just have
    gone)."""
    try:
        return [entry.name for entry in os.scandir(base) if entry.is_dir() and entry.name.startswith(prefix)]
    except OSError:
        return []
