"""`run --as USER`: who that is, and a place for launchers that this user can execute but not change."""

import contextlib
import grp
import os
import pwd
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

from proofcost.adapters import launchers
from proofcost.harness import known_digests, policy, run_folder, store
from proofcost.harness.collected_whole import CollectedWhole
from proofcost.harness.plan import Plan
from proofcost.harness.user import User, has_capability
from proofcost.harness.whole import Whole
from proofcost.meter_copy import copy_meter
from proofcost.run import UsageError

_CAP_SETGID, _CAP_SETUID, _CAP_KILL = 6, 7, 5
_UID_MAX = (1 << 32) - 2
# The caller's own choice first; a folder of /run or /tmp cannot be renamed or replaced by others.
_PLACES = ("/run", "/tmp", "/var/tmp")
_PROBE_S = 20
KEY_MIN_BYTES, KEY_MAX_BYTES = 16, 4096


def find_user(word: str) -> User:
    """Whom `--as` names. Raises UsageError."""
    name, colon, group = word.partition(":")
    said = f"--as {word!r}"
    if os.geteuid() != 0:
        raise UsageError(f"{said}: only root can run a judge as another user; leave it out, or call `run` as root")
    for number, what in ((_CAP_SETUID, "CAP_SETUID"), (_CAP_SETGID, "CAP_SETGID"), (_CAP_KILL, "CAP_KILL")):
        if not has_capability(number):
            raise UsageError(f"{said}: this root lacks {what}, which that needs; give it to the container")
    entry = _entry(name)
    if entry is None and not _is_id(name):
        raise UsageError(f"{said}: there is no such user here; name one that `getent passwd` lists, or give UID:GID")
    if entry is None and not colon:
        raise UsageError(f"{said}: no user has this number here, so its group is unknown; give both, UID:GID")
    uid = int(name) if entry is None else entry.pw_uid
    gid = _group(said, group) if colon else entry.pw_gid if entry is not None else uid
    if uid == 0:
        raise UsageError(f"{said}: that is root itself, from whom no record can be kept; leave --as out")
    if entry is None:
        return User(name, uid, gid, [gid], "/")
    return User(entry.pw_name, uid, gid, os.getgrouplist(entry.pw_name, gid), entry.pw_dir or "/")


def _entry(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(int(name)) if _is_id(name) else pwd.getpwnam(name)
    except (KeyError, ValueError):  # ValueError: a NUL in the name
        return None


def _is_id(word: str) -> bool:
    return word.isascii() and word.isdigit() and int(word) <= _UID_MAX


def _group(said: str, word: str) -> int:
    if _is_id(word):
        return int(word)
    try:
        return grp.getgrnam(word).gr_gid
    except (KeyError, ValueError):
        raise UsageError(f"{said}: there is no group {word!r} here; name one, or give its number") from None


def read_key(path: str | None, user: User | None) -> bytes | None:
    """The key to sign with. Raises UsageError unless only its owner, root, can have read or changed it."""
    if path is None:
        return None
    said = f"--seal-key {path!r}"
    if user is None:
        raise UsageError(f"{said}: only a session that another user keeps is sealed; use it with --as")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise UsageError(f"{said}: cannot be read: {why}") from None
    try:
        seen = os.fstat(fd)
        if not stat.S_ISREG(seen.st_mode):
            raise UsageError(f"{said}: not a file")
        if seen.st_uid != 0 or seen.st_mode & 0o077:
            mode = stat.S_IMODE(seen.st_mode)
            raise UsageError(
                f"{said}: others than root can read it (owner {seen.st_uid}, mode {mode:04o}); chown root, chmod 600"
            )
        key = os.read(fd, KEY_MAX_BYTES + 1)
    finally:
        os.close(fd)
    if not KEY_MIN_BYTES <= len(key) <= KEY_MAX_BYTES:
        raise UsageError(f"{said}: {len(key)} bytes; a key has {KEY_MIN_BYTES} to {KEY_MAX_BYTES}")
    return key


def launcher_directory(plan: Plan, one: Whole) -> tuple[str, launchers.Options]:
    """A new folder of root's with the meter in it, for launchers that the judge's user can execute but not change; and
    what these have baked in.

    The meter is copied: an upgrade while the judge runs changes nothing under it, and the package may stand where only
    root can read. Raises MeterError, StoreError or OSError where none of the places will do.
    """
    assert isinstance(one, CollectedWhole)
    assert plan.user is not None
    assert plan.door is not None
    refused: list[str] = []
    for parent in (os.environ.get("TMPDIR") or _PLACES[0], *_PLACES):
        try:
            if os.pathsep in parent:
                raise policy.MeterError("no PATH can name it")
            if os.statvfs(parent).f_flag & os.ST_NOEXEC:
                raise policy.MeterError("mounted noexec")
            store.check_above(parent)
            made = run_folder.make(os.path.abspath(parent))
        except (OSError, policy.MeterError, store.StoreError) as error:
            refused.append(f"{parent}: {error}")
            continue
        with _removed_on_failure(made):
            tree, interpreter = Path(made, "meter"), launchers.choose_interpreter()
            options = launchers.Options(plan.store, str(tree), interpreter)
            options.digest = copy_meter(tree, tree, interpreter)
            options.door = (plan.door.number, plan.door.inode, _make_digests(made))
            problem = _try_as(plan.user, interpreter, str(tree))
            if problem is None:
                one.directory = made
                return made, options
        refused.append(f"{parent}: {problem}")
        run_folder.remove(made)
    raise policy.MeterError(
        f"no place for launchers that user {plan.user.name} can execute: {'; '.join(refused)}; set TMPDIR"
    )


def _make_digests(folder: str) -> str:
    """Where the user's meters find digests of programs, which the collector keeps for them."""
    made = os.path.join(folder, known_digests.FOLDER)
    os.mkdir(made, 0o700)
    os.chmod(made, 0o755)  # whatever the umask
    return made


@contextlib.contextmanager
def _removed_on_failure(folder: str) -> Iterator[None]:
    try:
        yield
    except BaseException:
        run_folder.remove(folder)
        raise


def _try_as(user: User, interpreter: str, tree: str) -> str | None:
    """Why this user cannot run the meter; None when it can."""
    code = f"import sys; sys.path.append({tree!r}); import proofcost.harness.collected"
    try:
        done = subprocess.run(
            [interpreter, launchers.INTERPRETER_FLAGS, "-c", code],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=_PROBE_S, check=False,
            user=user.uid, group=user.gid, extra_groups=user.groups, env={}, cwd="/",
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError) as error:
        return f"{interpreter}: {error}"
    if done.returncode == 0:
        return None
    last = done.stderr.decode("utf-8", "replace").strip().rpartition("\n")[2]
    return f"{interpreter} ends with {done.returncode}: {last[:200]}"
