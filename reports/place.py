"""A shared place: a folder, or any fsspec URL (s3://, gs://, abfs://, memory://, ...), as files by their names.

Credentials are fsspec's business: they come from the environment and its configuration, and what is shown of a URL
(`shown`) has none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from proofcost.reports.file_seal import SUFFIX
from proofcost.reports.inert import inert_outside

CHUNK_BYTES = 1 << 20
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_LOCAL = ("file", "local")
_ONE_SLASH = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/[^/]")
_CHAINED = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+::|.*://.*::|.*::.*://", re.DOTALL)
_UNLISTED = ("http", "https")
_KEYS_APART = ("s3", "s3a", "gs", "gcs")
"""Schemes whose URLs have no user: one would be taken for a part of the bucket's name, and told in messages."""
# A password may hold any character: all goes up to the last @.
_SECRETS = ((re.compile(r"(\w://)\S*@"), r"\1"), (re.compile(r"(\w://[^\s'\"?#]*)[?#][^\s'\"]*"), r"\1"))


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
    if "://" in text and not os.path.exists(text):
        text = without_secrets(re.sub(r"(://).*@", r"\1", text, flags=re.DOTALL))
    return inert_outside(text, 300, True)


def check_name(given: str | os.PathLike[str]) -> None:
    """Raise RemoteError for what names no place, whatever may be there."""
    text = os.fspath(given)
    if not text:
        raise RemoteError("the place has no name; give a folder, or a URL like s3://BUCKET/PATH")
    if os.path.exists(text):
        return
    if _CHAINED.match(text):
        raise RemoteError(f"{shown(text)}: a chain of URLs (::) is no place; give the last of them alone")
    if one := _ONE_SLASH.match(text):
        raise RemoteError(f"{shown(text)}: a URL has two slashes, {one[1]}://...; a folder of that name is ./{one[1]}:")
    scheme = text.partition("://")[0].lower()
    if _URL.match(text) and scheme in _UNLISTED:
        raise RemoteError(
            f"{shown(text)}: a place must be listed, and {scheme} cannot; give a folder, or s3://, gs://, abfs://, "
            "sftp:// or what else fsspec lists"
        )
    if _URL.match(text) and scheme in _KEYS_APART and _has_user(text):
        raise RemoteError(
            f"{shown(text)}: given with a user or a password, and {scheme} takes none from a URL; put "
            "them into the environment (docs/collecting.md)"
        )


def _has_user(url: str) -> bool:
    """Whether a bucket's URL begins with a user. A key may hold an @ too, and an ARN in a bucket's place colons; a
    password may hold a slash.
    """
    bucket = url.partition("://")[2].partition("/")[0]
    return "@" in bucket or ("@" in url and ":" in bucket and not bucket.startswith("arn:"))


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


def counts(name: str) -> bool:
    """Whether a file of this name (no folder in it) may be a Parquet file or a seal."""
    return name.endswith((".parquet", f".parquet{SUFFIX}")) and not name.startswith(".")


def pieces(path: Path) -> Iterator[bytes]:
    """A file of this machine, piece by piece. Raises OSError."""
    with path.open("rb", buffering=0) as file:
        while piece := file.read(CHUNK_BYTES):
            yield piece
