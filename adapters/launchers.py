"""Writes launchers: small scripts with an absolute interpreter and their configuration baked in.

So they work in an empty environment. What they do stands in launcher_body.py.

Not part of the meter: `install` and `run` use it.
"""

import ast
import os
import re
import stat
import sys

from proofcost.harness import procfs, session
from proofcost.harness.version import VERSION

LAUNCHERS = ("phase", "landrun", "bwrap")
# Written where they are asked for.
LEANEVAL, TIMER = "leaneval", "timer"
# -I: no environment, no user site; -S: no site-packages. One word, for `#!`. Warnings are silenced in the script
# itself:
# -W ignore would import `warnings` (0.4 ms).
INTERPRETER_FLAGS = session.INTERPRETER_FLAGS.decode()
FIRST_LINE_MAX_BYTES = 255  # BINPRM_BUF_SIZE less one; 127 before Linux 5.1
BUNDLE = "bundle"
MINIMUM = (3, 11)
_LAUNCHERS_DEEP = 8
SYSTEM_PYTHON = "/usr/bin/python3"

_BODY = "launcher_body.py"
_BEGIN, _END = "# Configuration begins", "# Configuration ends.\n"
_REST_BEGIN, _REST_END = "# Rest begins.\n", "# Rest ends.\n"
_REST_HERE = 'REST = ""  # Here stands the text of the rest.\n'


class Options:
    """What is baked into every launcher of one installation or one run."""

    def __init__(self, store: str, tree: str, interpreter: str) -> None:
        self.store = store
        self.tree = tree
        self.interpreter = interpreter
        self.session: str | None = None
        self.strict = False
        self.kill_stragglers = False
        self.cgroup = "auto"
        self.digest: str | None = None
        # Of the `leaneval` launcher alone (adapters/leaneval.py); None: the contract's own paths, no capture.
        self.leaneval: dict[str, str | None] | None = None
        # The way to a collector (harness/door.py): descriptor, its inode, folder of digests.
        self.door: tuple[int, int, str] | None = None


def text_of(name: str, real: str, options: Options) -> str:
    """The launcher `name` around the real binary `real` (empty for `phase`, whose command stands in its arguments)."""
    before, rest, after = parts_of_body()
    strict = options.strict or name == LEANEVAL  # its reader takes a lost measurement for an error
    constants = (name, VERSION, options.store, real, strict, options.tree)
    baked: dict[str, object] = {
        "session": options.session,
        "kill_stragglers": options.kill_stragglers,
        "cgroup": options.cgroup,
        "digest": options.digest,
        "door": options.door,
    }
    if name == LEANEVAL:
        baked["leaneval"] = {**(options.leaneval or {}), "confined": "yes" if options.strict else None}
    text = (
        f"#!{options.interpreter} {INTERPRETER_FLAGS}\n"
        f"{session.LAUNCHER_MAGIC.decode()} {name} {VERSION}\n"
        "# Written by proofcost; to change it, install again. `proofcost install DIR --off` makes it a plain exec.\n"
        f"{before}NAME, VERSION, STORE, REAL, STRICT, TREE = {constants!r}\nOPTIONS = {baked!r}\n"
        f"REST = r'''{rest}'''{after}"
    )
    # A launcher that Python cannot read would end with 1, which a judge takes for a rejection.
    compile(text, name, "exec", dont_inherit=True)
    compile(rest, name, "exec", dont_inherit=True)
    return text


def parts_of_body() -> tuple[str, str, str]:
    """What stands in launcher_body.py before the configuration, what is compiled ahead, and what comes after."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), _BODY), encoding="utf-8") as file:
        body = file.read()
    before, _, body = body.partition(_BEGIN)
    _, _, body = body.partition(_END)
    _, _, body = body.partition(_REST_BEGIN)
    rest, _, after = body.partition(_REST_END)
    return before, rest, after.removeprefix(_REST_HERE)


_BUNDLER = """
import ast, marshal, os, sys
from importlib.machinery import FileFinder, SourceFileLoader
from importlib.util import MAGIC_NUMBER

tree, target, rest = sys.argv[1:]
sys.dont_write_bytecode = True
packages, modules = [], []

class Noting(SourceFileLoader):
    def exec_module(self, module):
        super().exec_module(module)  # what it needs is noted before it
        (packages if self.is_package(module.__name__) else modules).append((module.__name__, self.path))

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name.partition(".")[0] == "proofcost":
            return FileFinder(path[0] if path else tree, (Noting, [".py"])).find_spec(name)

class Statements(ast.NodeTransformer):
    # Expressions hold no statements, and to walk through them takes most of the time.
    def generic_visit(self, node):
        for name in ("body", "orelse", "handlers", "finalbody", "cases"):
            within = getattr(node, name, None)
            if isinstance(within, list):
                within[:] = map(self.visit, within)
        return node

class Bare(Statements):
    # Annotations say nothing at run time and are evaluated at each start; docstrings go by optimize=2.
    def visit_FunctionDef(self, node):
        self.generic_visit(node)
        node.returns = None
        of = node.args
        for one in (*of.posonlyargs, *of.args, *of.kwonlyargs, of.vararg, of.kwarg):
            if one is not None:
                one.annotation = None
        return node

    def visit_AnnAssign(self, node):
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign([node.target], node.value), node)

class Lean(Statements):
    # `import os` costs each call 0.9 ms; what a call needs of it is in a module of ours.
    def visit_Import(self, node):
        if [name.name for name in node.names] != ["os"]:
            return node
        return ast.copy_location(ast.ImportFrom("proofcost.harness", [ast.alias("lean_os", "os")], 0), node)

sys.meta_path.insert(0, Finder)
import proofcost.harness.lean_os
import proofcost.adapters.phase
import proofcost.adapters.landrun
import proofcost.adapters.bwrap

def compiled(text, path, *leaner):
    tree = Bare().visit(ast.parse(text, path))
    for one in leaner:
        tree = one.visit(tree)
    return compile(ast.fix_missing_locations(tree), path, "exec", dont_inherit=True, optimize=2)

entries = []
for name, path in sorted(packages) + modules:
    with open(path, "rb") as source:
        code = compiled(source.read(), path, *([] if name.endswith(".lean_os") else [Lean()]))
    folder = os.path.relpath(os.path.dirname(path), tree) if (name, path) in packages else ""
    entries.append((name, folder, code))
with open(target, "wb") as out:
    out.write(MAGIC_NUMBER + marshal.dumps((compiled(rest, "launcher"), tuple(entries))))
"""


def bundle_command(interpreter: str, tree: str) -> list[str]:
    """The command that compiles the meter in `tree` into one file for this interpreter.

    Without the columns of each instruction, which only tracebacks would show: a third less to load.
    """
    flags = ["-I", "-S", "-X", "no_debug_ranges"]
    return [interpreter, *flags, "-c", _BUNDLER, tree, os.path.join(tree, BUNDLE), parts_of_body()[1]]


_OFF_PHASE = """while [ $# -gt 0 ] && [ "$1" != -- ]; do shift; done
[ $# -gt 1 ] || exit 125
shift
exec "$@"
"""


def fits_first_line(interpreter: str) -> bool:
    """Whether the kernel can start an interpreter from a `#!` line: 256 bytes in all, and a blank ends its path."""
    line = os.fsencode(f"#!{interpreter} {INTERPRETER_FLAGS}\n")
    return len(line) < FIRST_LINE_MAX_BYTES and len(line.split()) == 2


def off_text(name: str, real: str) -> str:
    """A plain exec in the launcher's place."""
    head = f"#!/bin/sh\n# proofcost launcher {name} {VERSION}, switched off: measures nothing\n"
    if not real:  # the command stands in the arguments
        return head + _OFF_PHASE
    quoted = "'" + real.replace("'", "'\\''") + "'"
    return head + f'exec {quoted} "$@"\n'


def write(path: str, text: str) -> None:
    """Replace a launcher in one step, so that a judge never sees half of one."""
    temporary = path + ".new"
    with open(temporary, "w", encoding="utf-8", errors="surrogateescape") as file:
        file.write(text)
        os.fchmod(file.fileno(), 0o755)
    os.replace(temporary, path)


def is_root_owned(path: str) -> bool:
    """Whether a file and every folder above it belong to root and nobody else may change which file that is.

    Where everybody may write but (by the sticky bit, as in /tmp) change only what is his, root's stays root's.
    """
    path, allowed = os.path.realpath(path), 0
    while True:
        info = os.stat(path)
        if info.st_uid != 0 or (info.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not info.st_mode & allowed):
            return False
        if path == "/":
            return True
        path, allowed = os.path.dirname(path), stat.S_ISVTX


def choose_interpreter() -> str:
    """The system's Python where it is new enough, else the one that runs us (not its virtual environment's link)."""
    real = os.path.realpath(SYSTEM_PYTHON)
    version = os.path.basename(real).removeprefix("python").split(".")
    if os.access(real, os.X_OK) and all(part.isdigit() for part in version) and tuple(map(int, version)) >= MINIMUM:
        return real
    base = getattr(sys, "_base_executable", sys.executable) or sys.executable
    return os.path.realpath(base)


def is_ours(path: str) -> bool:
    """Whether a file is one of our launchers."""
    head = procfs.read_file(path, 512)
    return head is not None and session.LAUNCHER_MAGIC in head


def real_behind(path: str) -> str:
    """The real program behind a launcher of ours; any other path is returned as it is."""
    for _ in range(_LAUNCHERS_DEEP):
        if not is_ours(path):
            break
        text = (procfs.read_file(path) or b"").decode("utf-8", "surrogateescape")
        found = re.search(r"^NAME, VERSION, STORE, REAL, STRICT, TREE = (.*)$", text, re.M)
        if found is None:
            break
        path = str(ast.literal_eval(found.group(1))[3])
    return path
