"""The part of `os` that a call needs: in the bundle this module stands in for it.

`import os` costs every call 0.9 ms, most of it for classes that we never use. Our modules import `os` as everybody
does; where they are compiled into the bundle (adapters/launchers.py), that line becomes an import of this one. What is
not here comes from the real `os`, then.

The functions do for str what `os` and `os.path` do; tests hold them side by side.
"""

import posix
import sys
from posix import *  # noqa: F403
from posix import _exit as _exit

# Bytes in posix; as they were when Python started.
environb = posix.environ
del environ  # noqa: F821  # text in `os`: that one, where it is asked for
_FILE_TYPE, _FOLDER, _FILE, _LINK = 0o170000, 0o040000, 0o100000, 0o120000


def __getattr__(name: str) -> object:
    import os

    return getattr(os, name)


def fsencode(text: str) -> bytes:
    """As os.fsencode, for str."""
    return text.encode(sys.getfilesystemencoding(), "surrogateescape")


def fsdecode(raw: bytes) -> str:
    """As os.fsdecode, for bytes."""
    return raw.decode(sys.getfilesystemencoding(), "surrogateescape")


class path:  # noqa: N801  # stands where os.path does
    """The part of `os.path` that a call needs."""

    @staticmethod
    def basename(name: str) -> str:
        return name[name.rfind("/") + 1 :]

    @staticmethod
    def dirname(name: str) -> str:
        head = name[: name.rfind("/") + 1]
        return head if not head.strip("/") else head.rstrip("/")

    @staticmethod
    def split(name: str) -> tuple[str, str]:
        return path.dirname(name), path.basename(name)

    @staticmethod
    def join(first: str, *others: str) -> str:
        joined = first
        for part in others:
            if part.startswith("/") or not joined:
                joined = part
            else:
                joined += part if joined.endswith("/") else "/" + part
        return joined

    @staticmethod
    def normpath(name: str) -> str:
        return posix._path_normpath(name) or "."  # type: ignore[attr-defined]

    @staticmethod
    def abspath(name: str) -> str:
        # Not always: the working directory may be gone.
        return path.normpath(name if name.startswith("/") else path.join(posix.getcwd(), name))

    @staticmethod
    def realpath(name: str) -> str:
        """Asks the kernel where the path leads; Python goes from link to link, and does so for what is not there."""
        try:
            fd = posix.open(name, posix.O_PATH | posix.O_CLOEXEC)
            try:
                seen = posix.readlink(f"/proc/self/fd/{fd}")
            finally:
                posix.close(fd)
            if seen.startswith("/") and not seen.endswith(" (deleted)"):
                return seen
        except (OSError, ValueError):
            pass
        from os.path import realpath

        return realpath(name)

    @staticmethod
    def splitext(name: str) -> tuple[str, str]:
        from os.path import splitext

        return splitext(name)

    @staticmethod
    def islink(name: str) -> bool:
        try:
            return posix.lstat(name).st_mode & _FILE_TYPE == _LINK
        except (OSError, ValueError):
            return False

    @staticmethod
    def lexists(name: str) -> bool:
        try:
            posix.lstat(name)
        except (OSError, ValueError):
            return False
        return True

    @staticmethod
    def exists(name: str) -> bool:
        return _mode(name) is not None

    @staticmethod
    def isdir(name: str) -> bool:
        mode = _mode(name)
        return mode is not None and mode & _FILE_TYPE == _FOLDER

    @staticmethod
    def isfile(name: str) -> bool:
        mode = _mode(name)
        return mode is not None and mode & _FILE_TYPE == _FILE


def _mode(name: str) -> int | None:
    try:
        return posix.stat(name).st_mode
    except (OSError, ValueError):
        return None
