"""Writes launchers: small scripts with an absolute interpreter and their configuration baked in, so that they work in
an empty environment. A launcher must never turn a fault of Python or of ours into a verdict: whatever it can catch
before the command starts ends in a plain exec of the command (or, strict, in 125).

Not part of the meter: `install` and `run` use it.
"""

import os
import stat
import sys

from proofcost.harness import session
from proofcost.harness.version import VERSION

LAUNCHERS = ("phase", "landrun")
# -I: no environment, no user site; -S: no site-packages. One word, for `#!`. Warnings are silenced in the script
# itself:
# -W ignore would import `warnings` (0.4 ms).
INTERPRETER_FLAGS = "-IS"
BUNDLE = "bundle"
MINIMUM = (3, 11)
SYSTEM_PYTHON = "/usr/bin/python3"

_TEXT = '''#!{interpreter} {flags}
{magic} {name} {version}
# Written by proofcost; to change it, install again. `proofcost install DIR --off` makes it a plain exec.
import sys

STORE, REAL, STRICT, TREE = {store!r}, {real!r}, {strict!r}, {tree!r}


def from_one_file():
    """Take the meter's modules from one compiled file beside the tree: 1.3 ms less than from 28. Without it, the tree.
    """
    import marshal
    from _frozen_importlib_external import MAGIC_NUMBER

    with open(TREE + "/{bundle}", "rb", buffering=0) as file:
        if file.read(len(MAGIC_NUMBER)) != MAGIC_NUMBER:
            return
        codes = marshal.loads(file.read())
    spec_of = type(sys.__spec__)

    class Bundle:
        def find_spec(name, path=None, target=None):
            return spec_of(name, Bundle, is_package=codes[name][0]) if name in codes else None

        def create_module(spec):
            return None

        def exec_module(module):
            exec(codes[module.__name__][1], module.__dict__)

    sys.meta_path.insert(0, Bundle)


def without_the_meter(fault):
    """The meter cannot be used: leave a mark, then become the command as if we had never been called."""
    import os

    try:
        run_or_refuse(fault)
    finally:
        os._exit(125 if STRICT else 126)


def run_or_refuse(fault):
    import _signal
    import os
    import time

    arguments = sys.argv[1:]
    command = [REAL, *arguments] if REAL else arguments[arguments.index("--") + 1 :] if "--" in arguments else []
    if isinstance(fault, KeyboardInterrupt):
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
        os.kill(os.getpid(), _signal.SIGINT)
    text = f"{{type(fault).__name__}}: {{fault}}"[:300].replace("\\\\", "/").replace('"', "'")
    text = "".join(c if " " <= c <= "~" else "?" for c in text)
    if STRICT or not command:
        os.write(2, f"proofcost: {{text}}; refused, nothing was run\\n".encode())
        os._exit(125)
    try:
        os.makedirs(STORE + "/marks", mode=0o700, exist_ok=True)
        path = f"{{STORE}}/marks/{{time.time_ns()}}-{{os.getpid()}}.json"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        line =
        f'{{{{"schema":1,"event":"mark","fault":"{{text}}","policy":"run","entrance":"{name}","version":"{version}"}}}}\\n'
        os.write(fd, line.encode()) os.close(fd)
    except BaseException:
        try:
            os.write(2, f"proofcost: {{text}}; the command runs unmeasured\\n".encode())
        except OSError:
            pass
    ignored = 0
    try:
        with open(f"/proc/{{os.getppid()}}/status", "rb") as status:
            ignored = int(status.read().split(b"SigIgn:")[1].split()[0], 16)
    except BaseException:
        pass
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        if not ignored >> (number - 1) & 1:
            _signal.signal(number, _signal.SIG_DFL)
    try:
        if b"\\0LC_CTYPE=" not in b"\\0" + open("/proc/self/environ", "rb").read():
            os.unsetenv("LC_CTYPE")
    except BaseException:
        pass
    found, code = [command[0]], 127
    if "/" not in command[0]:
        found = [os.path.join(d or ".", command[0]) for d in os.environ.get("PATH", "/bin:/usr/bin").split(":")]
    for path in found:
        try:
            os.execv(path, command)
        except OSError as error:
            if error.errno == 8:  # ENOEXEC: a script without `#!`, which execvp hands to the shell
                os.execv("/bin/sh", ["/bin/sh", path, *command[1:]])
            if error.errno not in (2, 20):  # ENOENT, ENOTDIR
                code = 126
    os._exit(code)


try:
    import _warnings

    _warnings.filters.insert(0, ("ignore", None, Warning, None, 0))
    sys.path.append(TREE)
    try:
        from_one_file()
    except Exception:
        pass
    from proofcost.adapters.{name} import main
    from proofcost.adapters.entrance import Config

    config = Config(STORE, REAL, {session!r}, STRICT, {kill_stragglers!r}, {cgroup!r}, {digest!r})
    main(config)
except BaseException as fault:
    without_the_meter(fault)
'''


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


def text_of(name: str, real: str, options: Options) -> str:
    """The launcher `name` around the real binary `real` (empty for `phase`, whose command stands in its arguments)."""
    return _TEXT.format(
        interpreter=options.interpreter,
        flags=INTERPRETER_FLAGS,
        magic=session.LAUNCHER_MAGIC.decode(),
        name=name,
        version=VERSION,
        bundle=BUNDLE,
        store=options.store,
        real=real,
        strict=options.strict,
        tree=options.tree,
        session=options.session,
        kill_stragglers=options.kill_stragglers,
        cgroup=options.cgroup,
        digest=options.digest,
    )


_BUNDLER = """
import marshal, os, sys
from importlib.util import MAGIC_NUMBER
tree, target = sys.argv[1:]
codes = {}
for folder, _, files in sorted(os.walk(os.path.join(tree, "proofcost"))):
    for file in sorted(files):
        if file.endswith(".py"):
            path = os.path.join(folder, file)
            name = os.path.relpath(path, tree)[:-3].replace(os.sep, ".")
            package = name.endswith(".__init__")
            name = name.removesuffix(".__init__")
            with open(path, "rb") as source:
                code = compile(source.read(), path, "exec", dont_inherit=True, optimize=2)
            codes[name] = (package, code)
with open(target, "wb") as out:
    out.write(MAGIC_NUMBER + marshal.dumps(codes))
"""


def bundle_command(interpreter: str, tree: str) -> list[str]:
    """The command that compiles the meter in `tree` into one file for this interpreter."""
    return [interpreter, "-I", "-S", "-c", _BUNDLER, tree, os.path.join(tree, BUNDLE)]


_OFF_PHASE = """while [ $# -gt 0 ] && [ "$1" != -- ]; do shift; done
[ $# -gt 1 ] || exit 125
shift
exec "$@"
"""


def off_text(name: str, real: str) -> str:
    """A plain exec in the launcher's place."""
    head = f"#!/bin/sh\n# proofcost launcher {name} {VERSION}, switched off: measures nothing\n"
    if name == "phase":
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
    """Whether a file and every folder above it belong to root and nobody else may write there."""
    path = os.path.realpath(path)
    while True:
        info = os.stat(path)
        if info.st_uid != 0 or info.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            return False
        if path == "/":
            return True
        path = os.path.dirname(path)


def choose_interpreter() -> str:
    """The system's Python where it is new enough, else the one that runs us (not its virtual environment's link)."""
    real = os.path.realpath(SYSTEM_PYTHON)
    version = os.path.basename(real).removeprefix("python").split(".")
    if os.access(real, os.X_OK) and all(part.isdigit() for part in version) and tuple(map(int, version)) >= MINIMUM:
        return real
    base = getattr(sys, "_base_executable", sys.executable) or sys.executable
    return os.path.realpath(base)
