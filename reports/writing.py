"""A document into a file, by its suffix, or several into a folder: whole or not at all."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from proofcost.harness.whole_file import whole_file
from proofcost.reports.document import Document
from proofcost.reports.inert import inert_outside
from proofcost.reports.names import file_names
from proofcost.reports.units import plural

SUFFIXES = (".html", ".md", ".json", ".csv", ".parquet", ".svg", ".pdf", ".png")

MODULES = ("jinja2", "matplotlib", "numpy", "pyarrow")
"""What the formats need beyond the base install (extra `reports`)."""

_PICTURES = (".svg", ".pdf", ".png")


class OutputError(Exception):
    """This cannot be written there. One line: what, why, what to do."""


@dataclass(frozen=True, slots=True)
class Written:
    """What was written, and what must be said about it."""

    paths: tuple[Path, ...]
    said: tuple[str, ...] = ()


def is_folder(path: str | Path) -> bool:
    """Whether `-o PATH` means a folder: it is one, or its name has no suffix."""
    return Path(path).is_dir() or not Path(path).suffix


def check_path(path: str | Path) -> None:
    """Raise OutputError where nothing could be written by this name, before anybody has waited for the figures."""
    path, name = Path(path), _named(path)
    if str(path) == "-":
        raise OutputError(f"-o -: no file; leave -o out for stdout, or name a folder or a file that ends in {_any()}")
    if is_folder(path):
        if path.exists() and not path.is_dir():
            raise OutputError(f"-o {name}: is a file without a suffix; give a folder, or a name that ends in {_any()}")
    elif path.suffix not in SUFFIXES:
        raise OutputError(f"-o {name}: give a folder, or a name that ends in {_any()}")
    if not path.absolute().parent.is_dir():
        raise OutputError(f"-o {name}: there is no folder {_named(path.absolute().parent)}; make it first")


def _any() -> str:
    return f"{', '.join(SUFFIXES[:-1])} or {SUFFIXES[-1]}"


def _named(path: Path) -> str:
    return inert_outside(str(path), 200, True)


def print_document(document: Document, console: Console) -> None:
    """On a terminal, or plain into a pipe."""
    from proofcost.reports import as_terminal

    as_terminal.render(document, console)


def write(document: Document, path: str | Path) -> Written:
    """Write a file, or a folder (`write_folder`). Raises OutputError, OSError."""
    path = Path(path)
    check_path(path)
    if is_folder(path):
        return write_folder([document], path)
    if path.suffix in _PICTURES:
        return _write_pictures(document, path)
    if path.suffix in (".csv", ".parquet"):
        return _write_table(document, path)
    replace({path: _whole(path.suffix)(document)})
    return Written((path,))


def _whole(suffix: str) -> Callable[[Document], bytes]:
    """Formats that hold all of a document."""
    from proofcost.reports import as_html, as_json, as_markdown

    return {".json": as_json.render, ".md": as_markdown.render, ".html": as_html.render}[suffix]


def _write_table(document: Document, path: Path) -> Written:
    from proofcost.reports import as_table

    tables = document.tables()
    if not tables:
        raise OutputError(f"-o {_named(path)}: this report has no table; write .md, .html or .json")
    render = as_table.csv_file if path.suffix == ".csv" else as_table.parquet_file
    replace({path: render(tables[0])})
    if len(tables) == 1:
        return Written((path,))
    said = (
        f"{_named(path)} holds the first of {plural(len(tables), 'table')}, “{inert_outside(tables[0].title, 80)}”; "
        "all of them: -o FOLDER"
    )
    return Written((path,), (said,))


def _write_pictures(document: Document, path: Path) -> Written:
    from proofcost.reports import as_pictures

    pictures = document.pictures()
    if not pictures:
        raise OutputError(f"-o {_named(path)}: this report has no picture; write .md, .html, .json or .csv")
    keys = file_names([picture.key for picture in pictures])
    paths = [path] if len(pictures) == 1 else [path.with_name(f"{path.stem}-{key}{path.suffix}") for key in keys]
    replace({one: as_pictures.render(picture, path.suffix[1:]) for one, picture in zip(paths, pictures, strict=True)})
    if len(paths) == 1:
        return Written((path,))
    said = f"{plural(len(paths), 'picture')}, a file each: {', '.join(_named(one) for one in paths)}"
    return Written(tuple(paths), (said,))


def write_folder(documents: Sequence[Document], path: str | Path) -> Written:
    """A home page with every document's page, JSON, tables and pictures beside it. Raises OutputError, OSError.

    A folder that is there already keeps what is in it; a file of the same name that a report did not write is refused.
    """
    from proofcost.reports.folder import files_of

    path = Path(path)
    check_path(path)
    files = files_of(documents)
    for name in files:
        if (path / name).exists() and not _is_ours(path):
            raise OutputError(f"-o {_named(path)}: {name} is there, and no report wrote it; give another folder")
    path.mkdir(exist_ok=True)
    replace({path / name: content for name, content in files.items()})
    return Written(tuple(path / name for name in files))


def _is_ours(folder: Path) -> bool:
    """Whether the folder's home page is one that was written here."""
    try:
        with (folder / "index.html").open("rb") as file:
            return b'<meta name="generator" content="proofcost">' in file.read(2000)
    except OSError:
        return False


def replace(files: Mapping[Path, bytes]) -> None:
    """Put all of these files in place, or none: all are written beside their places before the first is renamed.

    Raises OSError.
    """
    with contextlib.ExitStack() as open_files:
        for path, content in reversed(list(files.items())):  # the first is closed, and named, first
            file = open_files.enter_context(whole_file(path))
            file.write(content)
            file.flush()  # what cannot be written is to be known before any is named
