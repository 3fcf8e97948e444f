"""SHA-256 of programs and of the meter's own files, and a cache so that a binary is read once and not at each call.

The interpreter's built-in SHA-256 is used: OpenSSL's is six times as fast (1.5 GB/s against 250 MB/s), but loading it
costs 3 ms and 3.5 MB of resident memory at each call that needs it, and our memory hides a small command's (ru_maxrss).
"""

import errno
import os
import sys
import time

from proofcost.harness import record

try:
    # By version: looking for the module that is not there costs more than loading the one that is.
    if sys.version_info >= (3, 12):
        from _sha2 import sha256  # type: ignore[import-not-found,unused-ignore]
    else:
        from _sha256 import sha256  # type: ignore[import-not-found,unused-ignore]
except ImportError:  # a Python built without its own hashes: 3 ms dearer, else the same
    from hashlib import sha256

BLOCK_BYTES = 256 * 1024  # measured: 1 MiB blocks are a quarter slower (fresh pages each) and cost 1.5 MB of our memory
LIMIT_BYTES = 1 << 30  # four seconds of reading in front of a judge's command is where it stops being a small thing
UNCACHED_BYTES = 16 * 1024  # below this reading the file is as fast as looking it up
SETTLED_NS = 2_000_000_000  # a file changed less long ago may change again within the same time stamp: not cached

_TYPE_MASK = 0o170000
_REGULAR = 0o100000


def sha256_hex(data: bytes) -> str:
    """SHA-256 of bytes, 64 hexadecimal digits."""
    return str(sha256(data).hexdigest())


def _says(error: OSError) -> str:
    return error.strerror or record.escape_text(str(error))


def _key(stat: os.stat_result) -> str:
    """What must be unchanged for the content to be the same: ctime cannot be set back by the file's owner."""
    return f"{stat.st_dev} {stat.st_ino} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns}"


def _entry_line(key: str, digest: str) -> bytes:
    # The line's own digest: a flipped bit in a cache must not become another program's name.
    body = f"1 {key} {digest}"
    return f"{body} {sha256_hex(body.encode())[:16]}\n".encode()


def _is_digest(text: str) -> bool:
    return len(text) == 64 and all(char in "0123456789abcdef" for char in text)


def _from_cache(entry: str, key: str) -> str | None:
    try:
        fd = os.open(entry, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        line = os.read(fd, 512)
    except OSError:
        return None
    finally:
        os.close(fd)
    words = line.decode("ascii", "replace").split(" ")
    digest = words[-2] if len(words) == 8 else ""
    return digest if _is_digest(digest) and line == _entry_line(key, digest) else None


def _to_cache(entry: str, key: str, digest: str, mode: int = 0o600) -> None:
    """Write one entry, complete or not at all. Any fault is silent: a cache that fails is a cache that is slow."""
    temporary = f"{entry}.{os.getpid()}-{os.urandom(4).hex()}"
    try:
        try:
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except FileNotFoundError:
            os.mkdir(os.path.dirname(entry), 0o700)
            fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError:
        return
    line = _entry_line(key, digest)
    try:
        try:
            whole = os.write(fd, line) == len(line)
            if mode != 0o600:
                os.fchmod(fd, mode)
        finally:
            os.close(fd)
        if whole:
            os.rename(temporary, entry)
            return
    except OSError:
        pass
    try:
        os.unlink(temporary)
    except OSError:
        pass


def _read_through(fd: int) -> str:
    state = sha256()
    while block := os.read(fd, BLOCK_BYTES):
        state.update(block)
    return str(state.hexdigest())


def keep_for_others(cache: str, key: str, digest: str) -> bool:
    """Keep what somebody else computed (`learnt` of `of_file`) where others may read it; False when it is no such
    thing."""
    words = key.split(" ")
    numbers = [word.removeprefix("-") for word in words]
    if len(words) != 5 or not all(word.isascii() and word.isdigit() and len(word) <= 20 for word in numbers):
        return False
    if not _is_digest(digest):
        return False
    _to_cache(_entry_of(cache, int(words[0]), int(words[1])), key, digest, 0o644)
    return True


def _entry_of(cache: str, device: int, inode: int) -> str:
    return f"{cache}/{device:x}-{inode:x}"


def of_file(path: str, cache: str | None, learnt: list[tuple[str, str]] | None = None) -> tuple[str | None, str | None]:
    """SHA-256 of a regular file: (64 hex digits, None), or (None, why not). Never raises.

    `cache` is a directory of ours (made when missing; None: compute). An entry is believed only for the same device,
    inode, size, mtime and ctime, and only for files that had been at rest when they were read. `learnt`: where we may
    only read that directory, what would have been written is added here (`keep_for_others`).
    """
    try:
        before = os.stat(path)
    except OSError as error:
        return None, _says(error)
    except ValueError:  # a NUL in the path
        return None, _says(OSError(errno.EINVAL, os.strerror(errno.EINVAL)))
    if before.st_mode & _TYPE_MASK != _REGULAR:
        return None, "not a regular file"
    if before.st_size > LIMIT_BYTES:
        return None, f"larger than {LIMIT_BYTES} bytes: {before.st_size}"
    key = _key(before)
    entry = None
    if cache is not None and before.st_size >= UNCACHED_BYTES:
        entry = _entry_of(cache, before.st_dev, before.st_ino)
        known = _from_cache(entry, key)
        if known is not None:
            return known, None
    began = time.time_ns()
    try:
        # O_NONBLOCK: what was a file a moment ago may be a pipe now, and an open that waits would hold up the judge.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
    except OSError as error:
        return None, _says(error)
    try:
        if _key(os.fstat(fd)) != key:
            return None, "changed while read"
        digest = _read_through(fd)
        after = os.stat(path)
    except OSError as error:
        return None, "changed while read" if error.errno == errno.ENOENT else _says(error)
    except MemoryError:
        return None, "out of memory"
    finally:
        os.close(fd)
    if _key(after) != key:
        return None, "changed while read"
    if entry is not None and began - max(before.st_mtime_ns, before.st_ctime_ns) > SETTLED_NS:
        if learnt is None:
            _to_cache(entry, key, digest)
        else:
            learnt.append((key, digest))
    return digest, None


def _tree_files(root: str, under: str, above: tuple[tuple[int, int], ...]) -> list[str]:
    here = os.stat(os.path.join(root, under))
    if (here.st_dev, here.st_ino) in above:
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), os.path.join(root, under))
    above = (*above, (here.st_dev, here.st_ino))
    found: list[str] = []
    with os.scandir(os.path.join(root, under)) as entries:
        for entry in entries:
            relative = f"{under}/{entry.name}" if under else entry.name
            if "\n" in relative:
                raise OSError(errno.EINVAL, "a line break in a file name", os.path.join(root, relative))
            if entry.is_dir():
                if entry.name != "__pycache__":
                    found += _tree_files(root, relative, above)
            elif entry.name.endswith((".py", ".json")):
                found.append(relative)
    return found


def of_tree(directory: str) -> str:
    """Digest of a tree's *.py and *.json files: names and contents, whatever their order, owners and times.

    It is the SHA-256 of what `sha256sum` prints over the relative paths in byte order, so that anyone can check it:
    `find -L . -name __pycache__ -prune -o -type f \\( -name '*.py' -o -name '*.json' \\) -printf '%P\\n' |
    LC_ALL=C sort | xargs -d '\\n' sha256sum | sha256sum`.
    Symbolic links are followed, so a checkout and its installed copy agree.
    Raises OSError for what cannot be read, for a loop of links and for a line break in a name.
    """
    lines: list[bytes] = []
    for relative in sorted(_tree_files(directory, "", ()), key=os.fsencode):
        fd = os.open(os.path.join(directory, relative), os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            lines.append(_read_through(fd).encode() + b"  " + os.fsencode(relative) + b"\n")
        finally:
            os.close(fd)
    return sha256_hex(b"".join(lines))
