"""Files at a URL, for `import`: fetched one by one into a temporary folder, each gone when the next is asked for."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from proofcost.reports.file_seal import SUFFIX
from proofcost.reports.place import RemoteError, local_path, shown
from proofcost.reports.remote import Remote
from proofcost.reports.sealed_files import has_seal


def of_records(place: str) -> str:
    """Why a place with seals is not imported."""
    return (
        f"{place}: records, not a foreign format: name it as the data of a report (proofcost report kernels PLACE), or "
        "of store sql --data"
    )


def sealed(path: Path) -> bool:
    """Whether a folder is a place that stores were pushed to."""
    return (path / "parquet").is_dir() and has_seal(path)


def fetched(url: str) -> Iterator[tuple[Path, str | None, str]]:
    """(file, the URL as a folder of it or None where it names the file itself, what to call it). Raises RemoteError."""
    assert local_path(url) is None
    place = Remote(url)
    names = place.every_file()
    if any(name.endswith(f".parquet{SUFFIX}") for name in names):
        raise RemoteError(of_records(place.shown))
    for name in names:
        called = PurePosixPath(name or shown(url)).name
        with tempfile.TemporaryDirectory(prefix="proofcost-") as folder:
            path = Path(folder) / (called or "file")
            with path.open("wb") as file:
                file.writelines(place.read(name))
            yield path, place.shown if name else None, f"{place.shown}/{name}" if name else place.shown
