"""What a command needs besides the base install: one line that names the extra, where it is missing."""

from __future__ import annotations

import importlib.util
import sys


def need(extra: str, *modules: str) -> None:
    """Leave with one line and exit code 2 when a module of an extra is not installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"proofcost: {', '.join(missing)} not installed; this command needs the extra `{extra}`: "
            f"pip install 'proofcost[{extra}]'",
            file=sys.stderr,
        )
        raise SystemExit(2)
