"""Files at a URL, for `import`: fetched one by one into a temporary folder, each gone when the next is asked for."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from proofcost.reports.place import local_path, shown
from proofcost.reports.remote import Remote


def fetched(url: str) -> Iterator[tuple[Path, str | None, str]]:
    """(file, the URL as a folder of it or None where it names the file itself, what to call it). Raises RemoteError."""
    assert local_path(url) is None
    place = Remote(url)
    for name in place.every_file():
        called = PurePosixPath(name or shown(url)).name
        with tempfile.TemporaryDirectory(prefix="proofcost-") as folder:
            path = Path(folder) / (called or "file")
            with path.open("wb") as file:
                file.writelines(place.read(name))
            yield path, place.shown if name else None, f"{place.shown}/{name}" if name else place.shown
