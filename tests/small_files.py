"""A limit on how large files may become, which fails as a full disk does, in this very process."""

import contextlib
import resource
from collections.abc import Iterator


@contextlib.contextmanager
def room_for(size: int) -> Iterator[None]:
    """No file grows beyond `size` bytes (EFBIG; Python ignores the signal)."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
