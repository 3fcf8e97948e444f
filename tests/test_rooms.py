"""The rooms' imports run down only. Who breaks this finds out here and not when the meter starts slowly as root."""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

REPO = Path(__file__).resolve().parent.parent

# Standard modules that some of our Pythons lack: each stands behind a fallback in the file that uses it.
STANDARD_IN_SOME = {"_sha2"}  # since 3.12; before it _sha256

# What each room may import from ours besides itself. The face may import all.
BELOW = {
    "harness": set[str](),
    "adapters": {"harness"},
    "bench_suites": {"adapters", "harness"},
    "reports": {"harness"},
    "proofcost": {"adapters", "bench_suites", "harness", "reports"},
}


def files_of(room: str) -> list[Path]:
    # The face's own files only: its sub-folders are symlinks to the other rooms.
    return sorted(REPO.joinpath(room).glob("*.py") if room == "proofcost" else REPO.joinpath(room).rglob("*.py"))


def imported_modules(source: str, package: str) -> Iterator[tuple[int, str]]:
    """(line, absolute dotted module) of every import in `source`, wherever it stands; `package` resolves relative ones.

    `from a import b` gives both `a` and `a.b`, since b may be a module.
    """
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            base = ".".join([*parents, node.module] if node.module else parents)
            yield node.lineno, base
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"


def room_of(module: str) -> str | None:
    """Room that a dotted module is in; "proofcost" for the face; None for what is not ours."""
    parts = module.split(".")
    if parts[0] != "proofcost":
        # A top-level folder imported by its own name works in the checkout and nowhere else: counted as that room,
        # and refused by `test_rooms_are_imported_under_proofcost`.
        return parts[0] if parts[0] in BELOW else None
    return parts[1] if len(parts) > 1 and parts[1] in BELOW else "proofcost"


def every_import(room: str) -> list[tuple[str, str]]:
    """("file:line", module) of every import in the room."""
    package = "proofcost" if room == "proofcost" else f"proofcost.{room}"
    found = []
    for path in files_of(room):
        inner = path.parent.relative_to(REPO / room).parts
        for line, module in imported_modules(path.read_text(encoding="utf-8"), ".".join([package, *inner])):
            found.append((f"{path.relative_to(REPO)}:{line}", module))
    return found


@pytest.mark.parametrize("room", BELOW)
def test_imports_run_down_only(room: str) -> None:
    # `proofcost` alone is the empty package that every import passes through.
    wrong = [
        f"{where}: {module}"
        for where, module in every_import(room)
        if room_of(module) not in {None, room, *BELOW[room]} and module != "proofcost"
    ]
    assert wrong == []


@pytest.mark.parametrize("room", BELOW)
def test_rooms_are_imported_under_proofcost(room: str) -> None:
    wrong = [
        f"{where}: {module}"
        for where, module in every_import(room)
        if module.split(".")[0] in BELOW.keys() - {"proofcost"}
    ]
    assert wrong == []


def test_the_harness_imports_the_standard_library_only() -> None:
    wrong = [
        f"{where}: {module}"
        for where, module in every_import("harness")
        if room_of(module) is None and module.split(".")[0] not in sys.stdlib_module_names | STANDARD_IN_SOME
    ]
    assert wrong == []


def test_the_package_itself_imports_nothing_on_import() -> None:
    """Everything passes through proofcost/__init__.py, the meter too. Imports inside functions are lazy and fine."""
    tree = ast.parse((REPO / "proofcost/__init__.py").read_text(encoding="utf-8"))
    assert [ast.unparse(node) for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)] == []


@pytest.mark.parametrize("room", sorted(BELOW.keys() - {"proofcost"}))
def test_each_room_is_installed_through_a_symlink(room: str) -> None:
    link = REPO / "proofcost" / room
    assert link.is_symlink()
    assert link.readlink() == Path("..") / room
    assert (link / "__init__.py").is_file()


@pytest.mark.parametrize(
    ("source", "package", "expected"),
    [
        ("import a.b", "proofcost.harness", {"a.b"}),
        ("from a import b", "proofcost.harness", {"a", "a.b"}),
        ("from . import b", "proofcost.harness", {"proofcost.harness", "proofcost.harness.b"}),
        ("from ..reports import b", "proofcost.harness", {"proofcost.reports", "proofcost.reports.b"}),
        ("def f():\n    import a", "proofcost.harness", {"a"}),
        ("import harness.record", "proofcost.reports", {"harness.record"}),
    ],
)
def test_the_check_sees_every_kind_of_import(source: str, package: str, expected: set[str]) -> None:
    assert {module for _, module in imported_modules(source, package)} == expected
