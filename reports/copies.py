"""Copies of sealed files of elsewhere, on this machine: fetched once, and kept under the digest of their bytes.

A report asks many questions of every file. Asked over the network each would fetch parts of it again, unchecked. A copy
is fetched whole, checked against its seal, and only then bears its name, so that a name that stands there is right.
Kept in `$PROOFCOST_CACHE`, else `~/.cache/proofcost`; what nobody read for 30 days goes.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from proofcost.reports.file_seal import Seal
from proofcost.reports.inert import inert_outside
from proofcost.reports.place import Place, RemoteError

KEPT_S = 30 * 86_400
VARIABLE = "PROOFCOST_CACHE"
_DAY_S = 86_400


def folder() -> Path:
    """Where copies are kept."""
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE])
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(base) / "proofcost"


def of(place: Place, files: Sequence[tuple[str, Seal]]) -> list[Path]:
    """A checked copy of each file (name, seal), in their order. Raises RemoteError: the copies there are stay."""
    where = folder()
    try:
        where.mkdir(mode=0o700, parents=True, exist_ok=True)
        if os.stat(where).st_uid != os.geteuid():
            raise RemoteError(
                f"{_shown(where)}: copies are kept there, and it belongs to another user; set {VARIABLE} to a folder "
                "of yours"
            )
        made = [_copy(place, name, seal, where) for name, seal in files]
        _tidy(where, set(made))
    except OSError as error:
        at = _shown(Path(str(error.filename or where)))
        raise RemoteError(f"{at}: {error.strerror or error}; copies are kept there, {VARIABLE} names another") from None
    return made


def _copy(place: Place, name: str, seal: Seal, where: Path) -> Path:
    path = where / f"{seal.sha256}.parquet"
    if path.exists() and path.stat().st_size == seal.bytes_:
        with contextlib.suppress(OSError):
            os.utime(path)
        return path
    fd, temporary = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=where)
    try:
        digest = hashlib.sha256()
        with open(fd, "wb") as file:
            for piece in place.read(name):
                digest.update(piece)
                file.write(piece)
        if digest.hexdigest() != seal.sha256:
            raise RemoteError(
                f"{place.shown}: {inert_outside(name, 200, True)}: its bytes are not those that were sealed; move it "
                "and its seal away, and push it again from its host"
            )
        os.replace(temporary, path)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
    return path


def _tidy(where: Path, used: set[Path]) -> None:
    """Remove what nobody read for long, and what a killed reader left."""
    now = time.time()
    with os.scandir(where) as entries:
        for entry in entries:
            left = entry.name.startswith(".") and entry.name.endswith(".tmp")
            if not left and not (entry.name.endswith(".parquet") and len(entry.name) == 72):
                continue
            with contextlib.suppress(OSError):
                age = now - entry.stat(follow_symlinks=False).st_mtime
                if age > (_DAY_S if left else KEPT_S) and where / entry.name not in used:
                    os.unlink(entry.path)


def _shown(path: Path) -> str:
    return inert_outside(str(path), 200, True)
