"""The meter's files beside launchers: all that a call needs, compiled, and nothing else of the package.

So a call starts in less than half the time, an upgrade of the package changes nothing under a judge that runs, and the
package may stand where only its owner can read.
"""

import shutil
import subprocess
from pathlib import Path

from proofcost.adapters import launchers
from proofcost.harness import digest

# What the entrances need of adapters/; the rest stays out of the trusted path.
ENTRANCES = (
    "__init__.py",
    "bwrap.py",
    "entrance.py",
    "export_capture.py",
    "kernel_timing.py",
    "landrun.py",
    "leaneval.py",
    "phase.py",
    "replay_file.py",
    "replay_metrics.py",
    "timer.py",
)
# What no entrance needs of harness/: reading records and what people write, and measuring a whole judge run.
NO_ENTRANCE = (
    "caller.py",
    "collected_whole.py",
    "collector.py",
    "columns.py",
    "decode.py",
    "derive.py",
    "described.py",
    "judge_self.py",
    "keeper.py",
    "kernels_known.py",
    "known_digests.py",
    "lines.py",
    "merged.py",
    "process_tree.py",
    "quantity.py",
    "reading.py",
    "record_v1.schema.json",
    "running.py",
    "run_folder.py",
    "seal.py",
    "settings.py",
    "timeline.py",
    "toml_lines.py",
    "walk.py",
    "whole.py",
    "whole_file.py",
)


class CopyError(Exception):
    """The meter could not be compiled. One line."""


def copy_meter(fresh: Path, place: Path, interpreter: str) -> str:
    """Copy the meter's files to `fresh`, compiled as what will stand at `place`; returns the digest over them."""
    source = Path(__file__).resolve().parent
    package = fresh / "proofcost"
    package.mkdir(parents=True)
    shutil.copyfile(source / "__init__.py", package / "__init__.py")
    for room in ("harness", "adapters"):
        (package / room).mkdir()
        for file in sorted((source / room).glob("*.py")):
            if file.name in ENTRANCES if room == "adapters" else file.name not in NO_ENTRANCE:
                shutil.copyfile(file, package / room / file.name)
    tree_digest = digest.of_tree(str(package))
    compile_tree = ["-I", "-S", "-m", "compileall", "-q", "-s", str(fresh), "-p", str(place), str(fresh)]
    for command in ([interpreter, *compile_tree], launchers.bundle_command(interpreter, str(fresh))):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CopyError(f"{interpreter}: cannot compile the meter: {(done.stdout + done.stderr).strip()[:200]!r}")
    for path in (fresh, *fresh.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)  # whatever our umask: the judge's user must read it
    return tree_digest
