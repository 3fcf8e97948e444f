"""Another user, and how a process becomes it for good: what `run --as` does between fork and exec.

As setpriv and runuser do it (real, effective and saved ids, supplementary groups), without PAM: no session, no limits
of pam_limits. What a change of user does not take away by itself is looked at: a process that kept a capability would
be root by another name.
"""

import errno
import os

from proofcost.harness import procfs


class User:
    """Whom to become. `groups` are the supplementary ones; `name` is the number where the user has no name."""

    __slots__ = ("gid", "groups", "home", "name", "uid")

    def __init__(self, name: str, uid: int, gid: int, groups: list[int], home: str) -> None:
        self.name = name
        self.uid = uid
        self.gid = gid
        self.groups = groups
        self.home = home

    def become(self) -> None:
        """Become this user; there is no way back. Raises OSError, and the process must then run nothing."""
        os.setgroups(self.groups)
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)
        if os.getresuid() != (self.uid,) * 3 or os.getresgid() != (self.gid,) * 3 or keeps_capabilities():
            # The securebit NO_SETUID_FIXUP lets a former root keep what it could do.
            raise OSError(errno.EPERM, "capabilities would be kept (securebits)")

    def environment(self) -> dict[str, str]:
        """What of the environment names the user."""
        return {"HOME": self.home, "USER": self.name, "LOGNAME": self.name}


def keeps_capabilities() -> bool:
    """Whether we have any capability, or would have after an exec without being root."""
    found = [procfs.status_field("self", field) for field in (b"CapPrm", b"CapAmb")]
    return any(value is not None and int(value, 16) != 0 for value in found)


def has_capability(number: int) -> bool:
    """Whether we ourselves have the capability of this number in force; True where /proc does not tell."""
    value = procfs.status_field("self", b"CapEff")
    return value is None or bool(int(value, 16) >> number & 1)
