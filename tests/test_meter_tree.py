"""The tree that `install` copies is what the entrances import, no less and no more."""

import ast
import sys
from pathlib import Path

from proofcost.harness import store
from proofcost.meter_copy import copy_meter

ROOT = Path(__file__).parent.parent
ENTRANCES = tuple(f"proofcost.adapters.{name}" for name in ("phase", "landrun", "bwrap", "leaneval", "timer"))
# In the bundle it stands where the others import `os`.
BUNDLED = "proofcost.harness.lean_os"


def imported(module: str) -> set[str]:
    """Our modules that `module` imports, anywhere in its text."""
    file = ROOT / module.removeprefix("proofcost.").replace(".", "/")
    path = file / "__init__.py" if file.is_dir() else file.with_suffix(".py")
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("proofcost."):
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                is_module = (ROOT / inner.removeprefix("proofcost.").replace(".", "/")).with_suffix(".py").exists()
                found.add(inner if is_module else str(node.module))
    return found


def test_the_copied_meter_is_the_import_closure_of_the_entrances(tmp_path: Path) -> None:
    closure, new = {*ENTRANCES, BUNDLED}, set(ENTRANCES)
    while new:
        new = {name for module in new for name in imported(module)} - closure
        closure |= new
    copy_meter(tmp_path / "new", tmp_path / "meter", sys.executable)
    copied = {
        str(path.relative_to(tmp_path / "new").with_suffix("")).replace("/", ".")
        for path in (tmp_path / "new").rglob("*.py")
    }
    packages = {"proofcost.__init__", "proofcost.harness.__init__", "proofcost.adapters.__init__"}
    assert copied - packages == closure - {"proofcost.harness", "proofcost.adapters"}


def test_a_relative_state_folder_is_ignored() -> None:
    place = store.default_place({"XDG_STATE_HOME": "state", "HOME": "/home/judge"}, 1000)
    assert place == "/home/judge/.local/state/proofcost"
    assert store.default_place({"XDG_STATE_HOME": "/var/state", "HOME": "/home/judge"}, 1000) == "/var/state/proofcost"
