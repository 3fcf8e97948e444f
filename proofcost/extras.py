"""What a command needs besides the base install: one line that names the extra, where it is missing."""

from __future__ import annotations

import importlib.util
import sys


def how(extra: str) -> str:
    """The command that installs an extra. No registry has the package yet: from a checkout."""
    return f"pip install '.[{extra}]' in a checkout of proofcost"


def need(extra: str, *modules: str) -> None:
    """Leave with one line and exit code 2 when a module of an extra is not installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"proofcost: {', '.join(missing)} not installed; this command needs the extra `{extra}`: {how(extra)}",
            file=sys.stderr,
        )
        raise SystemExit(2)
