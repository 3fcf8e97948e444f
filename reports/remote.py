"""A place that fsspec reaches: S3, Google's and Azure's storage, memory, and whatever else it has a package for.

fsspec and its packages are imported when a URL needs them; one that is missing is named, with how to install it.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

from proofcost.reports.file_seal import MOST_BYTES
from proofcost.reports.inert import inert_outside
from proofcost.reports.place import Place, RemoteError, There, check_name, counts, local_path, shown, without_secrets
from proofcost.reports.place_folder import Folder

_BLOCK_BYTES = 8 << 20
_TOGETHER = 500
"""Small files that are asked for at once."""
_WRITTEN = ("LastModified", "last_modified", "updated", "mtime", "created")
"""Under one of these a file system tells when a file was written."""
FLEET = "pip install '.[fleet]' in a checkout of proofcost"


def open_place(given: str | os.PathLike[str]) -> Place:
    """The place that a path or URL means; nothing is made there. Raises RemoteError."""
    check_name(given)
    path = local_path(given)
    return Folder(path) if path is not None else Remote(os.fspath(given))


class Remote:
    """Whatever fsspec has a package for."""

    def __init__(self, url: str) -> None:
        self.shown = shown(url)
        self._secret = url.partition("://")[2].rpartition("@")[0]
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
            if counts(name.rpartition("/")[2]) and "declared" not in name.split("/"):
                found[name] = There(int(told.get("size") or 0), _written(told))
        return found

    def _reach(self) -> None:
        """Nothing may be there yet, but what it lies in (a bucket) must be: some file systems list nothing without."""
        top = self._root.lstrip("/").partition("/")[0]
        if self.filesystem.protocol != "memory" and top:
            self.filesystem.invalidate_cache()
            self.filesystem.ls(self._root[: self._root.index(top)] + top, detail=False, refresh=True)

    def every_file(self) -> list[str]:
        """All files below, whatever they are; "" where the URL names a file itself."""
        self.find()
        with self._told("cannot be listed"):
            found = self.filesystem.find(self._root)
        return sorted(path.removeprefix(self._root).lstrip("/") for path in found)

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
        return f"{self._root}/{name}" if name else self._root

    @contextlib.contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """One line of whatever goes wrong: each of fsspec's packages has exceptions of its own, of no common class."""
        try:
            yield
        except (RemoteError, GeneratorExit):
            raise
        except Exception as error:
            raise RemoteError(f"{self.shown}: {what}: {_why(error, self._secret)}") from error


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
        raise RemoteError(f"{named}: {_why(error, url.partition('://')[2].rpartition('@')[0])}") from None
    return filesystem, root.rstrip("/")


def _package(told: str) -> str:
    match = re.search(r"[Ii]nstall ([A-Za-z0-9_-]+)", told)
    return match[1] if match else "a package"


def _why(error: BaseException, secret: str = "") -> str:
    """What went wrong in one line: its first, and the second where that one only announces it; or the kind of it.

    `secret`: what stands before the @ of the URL, whose packages may take it for anything and repeat it.
    """
    told = str(error).replace(f"{secret}@", "") if secret else str(error)
    for part in filter(None, secret.split(":", 1)[1:]):
        told = told.replace(part, "***")
    lines = [line.strip() for line in without_secrets(told).splitlines() if line.strip()]
    text = " ".join(lines[: 1 + (bool(lines) and lines[0].endswith(":"))])
    return inert_outside(text or type(error).__name__, 300, True)


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
