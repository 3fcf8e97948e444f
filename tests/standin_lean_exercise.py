"""A FAKE lean-exercise: `batch` over students' files, one `lake comparator` a theorem, its own script around bwrap.

Kept of the real one is what a meter meets: with `--project` it writes a script of its own, which adds a read-only bind
of the project's packages, takes `--share-net` away and then runs the bwrap that was found on PATH; COMPARATOR_BWRAP
names that script; a command line of another shape than Lake's makes it end with 125, which is a `tool_error`. Each
theorem is judged in a folder of its own; after a build error the file's other theorems get the same verdict without a
run. What it prints is an exercise-batch/1 object (no times). Exit: 0 all accepted, 1 not, 2 a wrong call.

    standin_lean_exercise.py batch [--project DIR] [--no-exec] --challenge DIR --theorem NAME... FILE...

FILE is a folder that holds a project as standin_lake.py reads it (Solution.ndjson and so on), one for each student.
`--no-exec`: the script stays in between instead of becoming bwrap.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

SCRIPT = """\
#!@PYTHON@ -IS
import os, sys
given = sys.argv[1:]
if given[:3] != ["--ro-bind", "/", "/"] or "--unshare-all" not in given or "--" not in given:
    sys.exit(125)
end = given.index("--")
options = [word for word in given[:end] if word != "--share-net"]
at = options.index("--unshare-all")
command = ["bwrap", *options[:at], "--ro-bind", "@PACKAGES@", "@PACKAGES@", *options[at:], *given[end:]]
if @EXEC@:
    os.execv("@BWRAP@", command)
status = os.waitstatus_to_exitcode(os.spawnv(os.P_WAIT, "@BWRAP@", command) << 8)
sys.exit(status)
"""
INTERPRETER = "/usr/bin/python3"
VERDICTS = {0: "accepted", 1: "kernel_rejected", 2: "tool_error"}


def write_script(path: Path, packages: Path, bwrap: str, becomes: bool) -> None:
    values = {"PYTHON": INTERPRETER, "PACKAGES": str(packages), "BWRAP": bwrap, "EXEC": str(becomes)}
    text = SCRIPT
    for sign, value in values.items():
        text = text.replace(f"@{sign}@", value)
    path.write_text(text)
    path.chmod(0o755)


def judge(folder: Path, theorem: str, environment: dict[str, str]) -> str:
    """Run `lake comparator` in a folder for one theorem; its verdict."""
    config = {"challenge_module": "Challenge", "solution_module": "Solution", "theorem_names": [theorem]}
    (folder / "comparator.json").write_text(json.dumps({**config, "permitted_axioms": ["propext"]}))
    (folder / "lake-manifest.json").write_text("{}")
    done = subprocess.run(
        ["lake", "comparator"], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    said = done.stdout + done.stderr
    if "Child exited with 125" in said:
        return "tool_error"
    if done.returncode == 1 and "kernel" not in said:
        return "build_error"
    return VERDICTS.get(done.returncode, "tool_error")


def batch(options: argparse.Namespace) -> int:
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        sys.stderr.write("lean-exercise: bwrap was not found\n")
        return 2
    files = []
    with tempfile.TemporaryDirectory(prefix="lean-exercise-") as work:
        environment = {**os.environ, "LAKE_ARTIFACT_CACHE": "false"}
        if options.project is not None:
            script = Path(work, "bwrap-with-packages")
            write_script(script, options.project / "packages", bwrap, not options.no_exec)
            environment["COMPARATOR_BWRAP"] = str(script)
        for file in options.files:
            verdicts: dict[str, str] = {}
            for theorem in options.theorem:
                if "build_error" in verdicts.values():
                    verdicts[theorem] = "build_error"
                    continue
                folder = Path(work, file.name, theorem)
                shutil.copytree(file, folder)
                shutil.copytree(options.challenge, folder, dirs_exist_ok=True)
                verdicts[theorem] = judge(folder, theorem, environment)
            accepted = sum(verdict == "accepted" for verdict in verdicts.values())
            digest = hashlib.sha256((file / "Solution.lean").read_bytes()).hexdigest()
            result = "pass" if accepted == len(verdicts) else "fail"
            row = {"file": file.name, "sha256": digest, "result": result, "accepted": accepted, "total": len(verdicts)}
            files.append({**row, "verdicts": verdicts})
    passed = sum(one["result"] == "pass" for one in files)
    summary = {"passed": passed, "total": len(files)}
    print(json.dumps({"schema": "exercise-batch/1", "ok": True, "files": files, "summary": summary}))
    return 0 if passed == len(files) else 1


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("command", choices=("batch",))
    parser.add_argument("--project", type=Path)
    parser.add_argument("--no-exec", action="store_true")
    parser.add_argument("--challenge", type=Path, required=True)
    parser.add_argument("--theorem", action="append", required=True)
    parser.add_argument("files", nargs="+", type=Path)
    return batch(parser.parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
