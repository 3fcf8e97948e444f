"""landrun's command line, what a comparator means by it, and the `landrun` entrance (a COMPARATOR_LANDRUN).

Read tolerantly: a shape that is not known is `unknown` and runs. Flags as of landrun 0.1.18; both `-flag` and `--flag`,
values as the next word or after `=`, path lists by comma.
"""

import os

from proofcost.adapters import entrance
from proofcost.harness import procfs
from proofcost.harness.plan import UNKNOWN, Plan, Sandbox

KIND = "landrun"
_CONFIGURATION_MAX_BYTES = 16384

_WRITABLE = ("rw", "rwx")
_READABLE = ("ro", "rox")
_OTHER_VALUED = ("unix", "bind-tcp", "connect-tcp", "env", "log-level")
# A wrapper of another name that is given one of these first is taken for a landrun.
FLAGS = (*_WRITABLE, *_READABLE, "best-effort", "unrestricted-filesystem")

_INTERPRETERS = ("python", "pypy", "sh", "bash", "node", "ruby")

BUILD, EXPORT, CHECKER = "build", "export", "checker"


def read_arguments(arguments: list[str]) -> tuple[Sandbox, list[str]]:
    """(the sandbox, the command inside it) from landrun's arguments; the command is empty when there is none.

    landrun 0.1.17 also takes what looks like a flag behind the command's name for one of its own, up to a `--` (its
    parser's way; older ones stop at the name), and trims blanks around the paths of a list. What it might make writable
    counts as writable.
    """
    sandbox = Sandbox(KIND)
    command: int | None = None
    at = 0
    while at < len(arguments):
        word = arguments[at]
        if word == "--":
            return sandbox, arguments[at + 1 if command is None else command :]
        if not word.startswith("-") or word == "-":
            command = at if command is None else command
            at += 1
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if name in _WRITABLE or name in _READABLE or name in _OTHER_VALUED:
            if not equals:
                at += 1
                value = arguments[at] if at < len(arguments) else ""
            paths = [path for path in map(str.strip, value.split(",")) if path]
            if name in _WRITABLE:
                sandbox.writable += paths
            elif name in _READABLE and command is None:
                sandbox.readable += paths
        elif name == "best-effort":
            sandbox.best_effort = value not in ("false", "0")
        elif name == "unrestricted-filesystem":
            sandbox.unrestricted = value not in ("false", "0")
        at += 1
    return sandbox, [] if command is None else arguments[command:]


def understand(plan: Plan) -> None:
    """Fill in what the command says of itself: sandbox, program, phase, module, kernel."""
    plan.sandbox, plan.target = read_arguments(plan.argv[1:])
    understand_target(plan)


def understand_target(plan: Plan) -> None:
    """Phase, module and kernel from the program that runs in a sandbox as comparators call it.

    `lake build M` builds; a program that is given a module, `--` and names exports; a program whose last argument is a
    file that was granted to it checks. Challenge and solution look alike from here: readers tell them by the judge's
    configuration.
    """
    target = plan.target
    if not target:
        return
    name = os.path.basename(target[0])
    if name == "lake" and len(target) >= 3 and target[1] == "build":
        plan.phase_understood = BUILD
        plan.subject_module = target[2]
        plan.source_path = source_of(target[2])
    elif len(target) >= 3 and target[2] == "--" and not target[1].startswith("-"):
        plan.phase_understood = EXPORT
        plan.subject_module = target[1]
    elif len(target) >= 2 and target[-1] in plan.sandbox.readable and os.path.isfile(target[-1]):
        understand_checker(plan, target[-1])
    else:
        plan.phase_understood = UNKNOWN


def understand_checker(plan: Plan, given: str) -> None:
    """A kernel that is given a file: an export, or a configuration that names one."""
    plan.phase_understood = CHECKER
    plan.kernel_name = kernel_name(plan.target)
    plan.kernel_config = given if _is_small_configuration(given) else None


def kernel_name(target: list[str]) -> str:
    """A kernel's name from how it is called: its file's, or its script's when an interpreter runs it."""
    name = os.path.basename(target[0])
    if name.startswith(_INTERPRETERS):
        for word in target[1:-1]:
            if not word.startswith("-"):
                return os.path.splitext(os.path.basename(word))[0]
    return name


def source_of(module: str) -> str:
    """Where a module's source stands in its project, by Lean's convention (dots are folders)."""
    return os.path.join(os.getcwd(), *module.split(".")) + ".lean"


def _is_small_configuration(path: str) -> bool:
    """A nanoda-style configuration is a small JSON object; an export starts like one too, but says other things."""
    head = procfs.read_file(path, _CONFIGURATION_MAX_BYTES + 1)
    if head is None or len(head) > _CONFIGURATION_MAX_BYTES or not head.lstrip().startswith(b"{"):
        return False
    return b'"export_file_path"' in head or b'"use_stdin"' in head


def main(config: entrance.Config) -> None:
    """The `landrun` entrance: measures `landrun ARGS...` and leaves with the real landrun's status."""
    entrance.stand_in_for(config, KIND, understand)
