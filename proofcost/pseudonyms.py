"""Texts that people choose, replaced by keyed digests: the same text is the same pseudonym, under one key only.

HMAC-SHA256 of column and text under the operator's key, 16 hex digits. Whoever has no key cannot try names out; whoever
has it can. A kernel's name stays if it is one: an import's command line is none. What a record says beyond the columns
(`events`: command lines, paths) is left out altogether.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from proofcost.harness.columns import Row
from proofcost.show import UsageError

CHOSEN = ("subject", "module", "workload", "suite", "source_name", "host")
"""Columns whose texts people choose, or that name their machines."""
COMMAND_LINES = ("hyperfine", "gnu-time")
"""Imports (`source`) that have a command line for the kernel's name."""
NAMED = ("kernel", "kernel_version")
"""Columns that stay where they hold a plain name, and no such import wrote them."""
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+:@-]{0,59}")
KEY_BYTES = 16


def read_key(path: str) -> bytes:
    """The key in a file. Raises UsageError."""
    try:
        key = Path(path).read_bytes().strip()
    except OSError as error:
        raise UsageError(
            f"--pseudonymise {path}: {error.strerror}; make one: head -c 32 /dev/urandom > {path}"
        ) from None
    if len(key) < KEY_BYTES:
        raise UsageError(f"--pseudonymise {path}: {len(key)} bytes are no key; give {KEY_BYTES} or more, at random")
    return key


def pseudonymised(rows: Iterable[Row], key: bytes) -> Iterator[Row]:
    """Rows with pseudonyms; the values of labels as well, their names stay."""
    for row in rows:
        made = {name: value for name, value in row.items() if name != "events"}
        for name in CHOSEN:
            if made.get(name) is not None:
                made[name] = pseudonym(key, name, str(made[name]))
        for name in NAMED:
            text = made.get(name)
            if text is None or (made.get("source") not in COMMAND_LINES and _PLAIN.fullmatch(str(text))):
                continue
            made[name] = pseudonym(key, name, str(text))
        if made.get("labels"):
            made["labels"] = {name: pseudonym(key, f"label.{name}", str(text)) for name, text in made["labels"].items()}
        yield made


def pseudonym(key: bytes, column: str, text: str) -> str:
    """16 hex digits that stand for a text of a column."""
    return hmac.new(key, f"{column}\0{text}".encode(), "sha256").hexdigest()[:16]
