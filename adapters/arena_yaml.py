"""The Lean Kernel Arena's test files (`tests/*.yaml`), read as they are.

A test names where its export comes from in one of several ways. Only `file` (an export in the arena's own checkout) can
be had without Lean, network and the arena's builder; the others say how the export would be made, and `Test.recipe`
keeps that. `file` is relative to the arena's root: here the nearest folder above the YAML that has such a file.
"""

from dataclasses import dataclass
from pathlib import Path

import yaml

OUTCOMES = ("accept", "reject")
RECIPES = ("file", "leanfile", "module", "run")
"""Keys of which a test has exactly one."""
KNOWN = frozenset(
    (*RECIPES, "description", "url", "ref", "rev", "dir", "pre-build", "export-decls", "outcome", "large")
) | {"skip-on-ci", "multiple", "compare-perf", "timeout"}


class ArenaError(Exception):
    """A file that is no such test. `line` counts from 1; 0 is the file as a whole."""

    def __init__(self, line: int, what: str, cure: str) -> None:
        super().__init__(what)
        self.line = line
        self.what = what
        self.cure = cure


@dataclass(frozen=True)
class Test:
    """`expected` is None where the arena takes either answer. `export` is None where `recipe` needs more than a file.

    `timeout_s` is the arena's own, None where it has none. `unknown` are keys that this reader does not know.
    """

    name: str
    expected: str | None
    recipe: str
    export: Path | None
    description: str
    is_large: bool
    compares_cost: bool
    timeout_s: int | None
    unknown: tuple[str, ...]


def read(path: Path) -> Test:
    """Raises ArenaError, and OSError where the file cannot be read."""
    try:
        found = yaml.safe_load(path.read_bytes())
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise ArenaError(mark.line + 1 if mark else 0, f"not YAML ({error.problem})", "mend it there") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ArenaError(0, f"not YAML ({error})".replace("\n", " "), "give an arena test file") from None
    if not isinstance(found, dict):
        raise ArenaError(0, "no mapping of keys to values", "give an arena test file")
    outcome = found.get("outcome")
    if outcome is not None and outcome not in OUTCOMES:
        raise ArenaError(_line_of(path, "outcome"), f"outcome is {outcome!r}", "it is accept or reject, or left out")
    recipes = [key for key in RECIPES if key in found]
    if len(recipes) != 1:
        told = " and ".join(recipes) if recipes else "none"
        raise ArenaError(0, f"of {', '.join(RECIPES)} a test has exactly one, here: {told}", "give an arena test file")
    (recipe,) = recipes
    timeout = found.get("timeout")
    if timeout is not None and (not isinstance(timeout, int) or isinstance(timeout, bool) or timeout <= 0):
        raise ArenaError(_line_of(path, "timeout"), f"timeout is {timeout!r}", "it is a whole number of seconds")
    return Test(
        name=path.stem,
        expected=outcome,
        recipe=f"{recipe}: {found[recipe]}".strip().replace("\n", " "),
        export=_export(path, found["file"]) if recipe == "file" else None,
        description=str(found.get("description", "")).strip(),
        is_large=bool(found.get("large") or found.get("skip-on-ci")),
        compares_cost=bool(found.get("compare-perf")),
        timeout_s=timeout,
        unknown=tuple(sorted(str(key) for key in found if key not in KNOWN)),
    )


def _export(path: Path, file: object) -> Path:
    if not isinstance(file, str):
        raise ArenaError(_line_of(path, "file"), f"file is {file!r}", "it is a path below the arena's root")
    for root in path.absolute().parents:
        if (root / file).is_file():
            return root / file
    raise ArenaError(
        _line_of(path, "file"), f"file {file} lies in no folder above", "read the test inside the arena's checkout"
    )


def _line_of(path: Path, key: str) -> int:
    """The line that a top-level key stands on."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return next((number for number, line in enumerate(lines, 1) if line.startswith(f"{key}:")), 0)
