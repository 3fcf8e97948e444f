"""Digests of programs that meters of the judge's user had to compute, for the next meter of that user to read.

They stand in a folder of root's: the user may read it and not write, so nothing of the user's must be removed at the
end, and what stands there is as much as the collector lets in. A digest is the word of the user's meter, as all of its
record is; only other calls of the same session read it.
"""

from proofcost.harness import digest
from proofcost.harness.record import Json

FOLDER = "digests"
KEPT_MAX = 256


class KnownDigests:
    """The folder (empty: none is kept), and how many may still be added."""

    __slots__ = ("_folder", "_left")

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._left = KEPT_MAX

    def take(self, learnt: Json) -> None:
        """Keep what a meter learnt, `[["DEVICE INODE SIZE MTIME CTIME", "SHA-256"], ...]`. Never raises: what is
        nothing of the kind, or too much, is dropped."""
        if not self._folder or not isinstance(learnt, list):
            return
        for pair in learnt[: self._left]:
            if isinstance(pair, list) and len(pair) == 2:
                key, value = pair
                if isinstance(key, str) and isinstance(value, str) and digest.keep_for_others(self._folder, key, value):
                    self._left -= 1
