"""A shared place: a folder, or any fsspec URL (s3://, gs://, abfs://, memory://, ...), as files by their names.

Credentials are fsspec's business: they come from the environment and its configuration, and what is shown of a URL
(`shown`) has none. A folder is written with the standard library, through a temporary name, and made to last (fsync).
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from proofcost.reports.file_seal import MOST_BYTES, SUFFIX
from proofcost.reports.inert import inert_outside

CHUNK_BYTES = 1 << 20
_BLOCK_BYTES = 8 << 20
_TOGETHER = 500
"""Small files that are asked for at once."""
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_LOCAL = ("file", "local")
_SECRETS = ((re.compile(r"(\w://)[^/\s'\"?#]*@"), r"\1"), (re.compile(r"(\w://[^\s'\"?#]*)[?#][^\s'\"]*"), r"\1"))
_WRITTEN = ("LastModified", "last_modified", "updated", "mtime", "created")
"""Under one of these a file system tells when a file was written."""
FLEET = "pip install '.[fleet]' in a checkout of proofcost"


class RemoteError(Exception):
    """A place cannot be used. One line: which, why, how to mend it; no credential in it."""


@dataclass(frozen=True, slots=True)
class There:
    """A file of a place."""

    bytes_: int
    written_s: float | None
    """By the storage's own clock, s since 1970; None where it does not tell."""


class Place(Protocol):
    """Names are relative to the place, with `/` between. All raise RemoteError."""

    shown: str

    def find(self) -> dict[str, There]:
        """The Parquet files and seals below; nothing where there is no such folder yet."""

    def read(self, name: str) -> Iterator[bytes]:
        """A file, piece by piece."""

    def small(self, names: Iterable[str]) -> dict[str, bytes]:
        """Of files of a few bytes the content; one that is gone or too long is left out."""

    def put(self, name: str, source: Path | bytes) -> None:
        """Write a file. Whatever happens: until this returns nobody may count it."""

    def written_s(self, name: str) -> float | None:
        """When a file was written, by the storage's clock; s since 1970, None where it does not tell."""


def is_url(given: str | os.PathLike[str]) -> bool:
    """Whether DATA is meant for fsspec: no path that is there, and it begins like a URL."""
    return _URL.match(os.fspath(given)) is not None and not os.path.exists(given)


def shown(given: str | os.PathLike[str]) -> str:
    """A path or URL for people: without user, password and query."""
    text = os.fspath(given)
    return inert_outside(without_secrets(text) if _URL.match(text) else text, 300, True)


def without_secrets(text: str) -> str:
    """A text without what may be secret in its URLs."""
    for pattern, rest in _SECRETS:
        text = pattern.sub(rest, text)
    return text


def local_path(given: str | os.PathLike[str]) -> Path | None:
    """The path that DATA is, or that a file:// URL means; None of what is elsewhere."""
    text = os.fspath(given)
    if not is_url(text):
        return Path(text)
    scheme, _, rest = text.partition("://")
    return Path(f"/{rest.lstrip('/')}") if scheme.lower() in _LOCAL else None


def open_place(given: str | os.PathLike[str]) -> Place:
    """The place that a path or URL means; nothing is made there. Raises RemoteError."""
    path = local_path(given)
    return Folder(path) if path is not None else Remote(os.fspath(given))


class Folder:
    """A folder of this machine, or mounted here."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.shown = shown(path)

    def find(self) -> dict[str, There]:
        found: dict[str, There] = {}
        for top, folders, names in os.walk(self.path, onerror=self._refuse):
            folders[:] = sorted(name for name in folders if name != "declared")
            for name in names:
                if _counts(name):
                    path = os.path.join(top, name)
                    with contextlib.suppress(FileNotFoundError):  # another tidies up
                        told = os.stat(path)
                        if stat.S_ISREG(told.st_mode):
                            found[os.path.relpath(path, self.path)] = There(told.st_size, told.st_mtime)
        return found

    def _refuse(self, error: OSError) -> None:
        if not isinstance(error, FileNotFoundError):
            raise RemoteError(f"{self.shown}: {error.strerror or error}") from None

    def read(self, name: str) -> Iterator[bytes]:
        with self._told(name), (self.path / name).open("rb", buffering=0) as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)  # what is on disk, not what was meant to be
            while piece := file.read(CHUNK_BYTES):
                yield piece

    def small(self, names: Iterable[str]) -> dict[str, bytes]:
        found = {}
        for name in names:
            with self._told(name), contextlib.suppress(FileNotFoundError), (self.path / name).open("rb") as file:
                found[name] = file.read(MOST_BYTES + 1)
        return {name: content for name, content in found.items() if len(content) <= MOST_BYTES}

    def put(self, name: str, source: Path | bytes) -> None:
        path = self.path / name
        temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        with self._told(name):
            made = _missing(path.parent)
            path.parent.mkdir(parents=True, exist_ok=True)
            try:
                with temporary.open("wb") as file:
                    for piece in [source] if isinstance(source, bytes) else pieces(source):
                        file.write(piece)
                    file.flush()
                    os.fsync(file.fileno())
                temporary.replace(path)
            finally:
                temporary.unlink(missing_ok=True)
            for folder in (path.parent, *made):
                _sync(folder)

    def written_s(self, name: str) -> float | None:
        with self._told(name):
            return (self.path / name).stat().st_mtime

    @contextlib.contextmanager
    def _told(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise RemoteError(f"{self.shown}: {inert_outside(name, 200, True)}: {error.strerror or error}") from None


def _missing(folder: Path) -> list[Path]:
    """The folders that hold those which are still to be made."""
    return [one.parent for one in (folder, *folder.parents) if not one.exists()]


def _sync(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


class Remote:
    """Whatever fsspec has a package for."""

    def __init__(self, url: str) -> None:
        self.shown = shown(url)
        self.filesystem, self._root = _filesystem(url, self.shown)

    def find(self) -> dict[str, There]:
        self.filesystem.invalidate_cache()
        with self._told("cannot be listed"):
            try:
                listed = self.filesystem.find(self._root, detail=True)
            except FileNotFoundError:
                listed = {}
            if not listed:
                self._reach()
        found = {}
        for path, told in listed.items():
            name = path.removeprefix(self._root).lstrip("/")
            if _counts(name.rpartition("/")[2]) and "declared" not in name.split("/"):
                found[name] = There(int(told.get("size") or 0), _written(told))
        return found

    def _reach(self) -> None:
        """Nothing may be there yet, but what it lies in (a bucket) must be: some file systems list nothing without."""
        top = self._root.lstrip("/").partition("/")[0]
        if self.filesystem.protocol != "memory" and top:
            self.filesystem.invalidate_cache()
            self.filesystem.ls(self._root[: self._root.index(top)] + top, detail=False, refresh=True)

    def read(self, name: str) -> Iterator[bytes]:
        asked: dict[str, Any] = {"block_size": _BLOCK_BYTES, "cache_type": "readahead"}
        told = self._told(f"{inert_outside(name, 200, True)} cannot be read")
        with told, self.filesystem.open(self._at(name), "rb", **asked) as file:
            while piece := file.read(_BLOCK_BYTES):
                yield piece

    def small(self, names: Iterable[str]) -> dict[str, bytes]:
        wanted, found = list(names), {}
        for first in range(0, len(wanted), _TOGETHER):
            part = {self._at(name): name for name in wanted[first : first + _TOGETHER]}
            with self._told("cannot be read"):
                got = self.filesystem.cat(list(part), on_error="return")
                for path, content in (got if isinstance(got, dict) else {next(iter(part)): got}).items():
                    if isinstance(content, FileNotFoundError):
                        continue
                    if isinstance(content, Exception):
                        raise content
                    found[part[path]] = bytes(content)
        return {name: content for name, content in found.items() if len(content) <= MOST_BYTES}

    def put(self, name: str, source: Path | bytes) -> None:
        with self._told(f"{inert_outside(name, 200, True)} cannot be written"):
            if isinstance(source, bytes):
                self.filesystem.pipe_file(self._at(name), source)
            else:
                self.filesystem.put_file(str(source), self._at(name))

    def written_s(self, name: str) -> float | None:
        self.filesystem.invalidate_cache()
        with self._told(f"{inert_outside(name, 200, True)} cannot be read"):
            return _written(self.filesystem.info(self._at(name)))

    def url_of(self, name: str) -> str:
        """How fsspec, and what goes through it, names a file; without credentials."""
        return str(self.filesystem.unstrip_protocol(self._at(name)))

    def _at(self, name: str) -> str:
        return f"{self._root}/{name}"

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """One line of whatever goes wrong: each of fsspec's packages has exceptions of its own, of no common class."""
        try:
            yield
        except (RemoteError, GeneratorExit):
            raise
        except Exception as error:
            raise RemoteError(f"{self.shown}: {what}: {_why(error)}") from error


def _filesystem(url: str, named: str) -> tuple[Any, str]:
    """fsspec's object for a URL, and the path in it. Raises RemoteError."""
    scheme = url.partition("://")[0]
    try:
        fsspec = importlib.import_module("fsspec")
    except ImportError:
        raise RemoteError(f"{named}: fsspec not installed; a URL needs the extra `fleet`: {FLEET}") from None
    try:
        filesystem, root = fsspec.core.url_to_fs(url)
    except ImportError as error:
        package = getattr(error.__cause__, "name", None) or _package(str(error))
        how = FLEET if package == "s3fs" else f"pip install {package}"
        raise RemoteError(f"{named}: {package} not installed; {scheme}:// needs it: {how}") from None
    except Exception as error:  # noqa: BLE001 - whatever a package of fsspec raises
        raise RemoteError(f"{named}: {_why(error)}") from None
    return filesystem, root.rstrip("/")


def _package(told: str) -> str:
    match = re.search(r"[Ii]nstall ([A-Za-z0-9_-]+)", told)
    return match[1] if match else "a package"


def _why(error: BaseException) -> str:
    """The first line of what went wrong, or the kind of it."""
    text = without_secrets(str(error)).strip().splitlines()
    return inert_outside(text[0] if text else type(error).__name__, 300, True)


def _written(told: dict[str, Any]) -> float | None:
    for name in _WRITTEN:
        value = told.get(name)
        with contextlib.suppress(ValueError):
            if isinstance(value, str):
                value = datetime.fromisoformat(value)
            if isinstance(value, datetime):
                return value.timestamp()
        if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
    return None


def _counts(name: str) -> bool:
    return name.endswith((".parquet", f".parquet{SUFFIX}")) and not name.startswith(".")


def pieces(path: Path) -> Iterator[bytes]:
    """A file of this machine, piece by piece. Raises OSError."""
    with path.open("rb", buffering=0) as file:
        while piece := file.read(CHUNK_BYTES):
            yield piece
