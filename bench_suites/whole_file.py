"""A file that appears under its name only when it is whole."""

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path


@contextlib.contextmanager
def whole_file(path: Path) -> Iterator[Callable[[bytes], object]]:
    """Gives what writes to it. `path` appears when the block ends well; nothing is left behind when it does not.

    Raises OSError where it cannot be written.
    """
    partial = path.with_name(f"{path.name}.partial-{os.getpid()}")
    try:
        with partial.open("wb") as file:
            yield file.write
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
