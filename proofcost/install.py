"""`proofcost install DIR`: write launchers that a judge's configuration can name for good, and the meter beside them.

DIR gets `phase`, `landrun`, `bwrap`, what is asked for (install_asked.py), `meter/` (one tree:
`proofcost/{__init__.py, harness/, adapters/}`, compiled) and `manifest.json`, which lists every file with its digest;
`--undo` removes exactly what it lists.
"""

import argparse
import contextlib
import ctypes
import fcntl
import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from proofcost import install_asked
from proofcost.adapters import comparator, launchers
from proofcost.harness import digest, policy, spawn, store
from proofcost.harness.version import VERSION
from proofcost.meter_copy import CopyError, copy_meter

MANIFEST = "manifest.json"
METER = "meter"
STAGE = ".proofcost.new"
# renameat2(2), include/uapi/linux/fs.h and fcntl.h
_AT_FDCWD, _EXCHANGE = -100, 2
# The sandboxes that a launcher stands in for, and the judges' variable for each.
SANDBOXES = {"landrun": "COMPARATOR_LANDRUN", "bwrap": "COMPARATOR_BWRAP"}
USAGE_ERROR = 2
DONE = 0


class InstallError(Exception):
    """What is wrong, where, and how to mend it; one line."""


def add_parser(subparsers: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command line of `install`."""
    parser = subparsers.add_parser(
        "install",
        help="write launchers for a judge's configuration",
        description="Write launchers that a judge can name for good; prints the lines to paste into its configuration.",
    )
    parser.add_argument("directory", metavar="DIR", help="where the launchers go; not the store")
    parser.add_argument("--store", metavar="DIR", help="where records go (default: $PROOFCOST_STORE, else by user)")
    for name, variable in SANDBOXES.items():
        parser.add_argument(
            f"--{name}",
            metavar="PATH",
            help=f"the real {name}, or a script around it (default: ${variable}, else PATH)",
        )
    parser.add_argument(
        "--comparator", metavar="PATH", help="a comparator to look into: does it have the measurement hook?"
    )
    parser.add_argument("--strict", action="store_true", help="refuse (exit 125) rather than run unmeasured")
    parser.add_argument(
        "--kill-stragglers", action="store_true", help="kill what outlives a call instead of reporting it"
    )
    parser.add_argument(
        "--cgroup", choices=("auto", "off"), default="auto", help="use a cgroup for each call (default auto)"
    )
    install_asked.add_arguments(parser)
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--off", action="store_true", help="make the launchers in DIR plain execs, at once")
    which.add_argument("--on", action="store_true", help="measure again after --off")
    which.add_argument(
        "--undo",
        action="store_true",
        help="remove what install wrote into DIR (take it out of the judge first); the store stays",
    )
    parser.set_defaults(run=main)


def main(args: argparse.Namespace) -> int:
    """Install, switch or undo. Returns 0, or 2 with one line on stderr."""
    directory = Path(store.absolute(args.directory))
    try:
        if args.undo:
            undo(directory)
        elif args.off or args.on:
            switch(directory, on=args.on)
        else:
            install(directory, args)
    except (InstallError, CopyError, install_asked.AskedError, store.StoreError) as error:
        policy.say(str(error))
        return USAGE_ERROR
    except BrokenPipeError:  # the reader of our report had enough; everything is written by then
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError as error:
        policy.say(f"{error.filename or directory}: {error.strerror}; nothing more was changed")
        return USAGE_ERROR
    return DONE


def install(directory: Path, args: argparse.Namespace) -> None:
    """Write everything, then the manifest, then say what to paste. Raises InstallError, StoreError, OSError."""
    if args.store == "":
        raise InstallError("--store '': empty; name a folder, or leave the option out")
    place = store.absolute(args.store) if args.store else store.default_place(dict(os.environ), os.geteuid())
    if store.is_inside(str(directory), place) or store.is_inside(place, str(directory / METER)):
        raise InstallError(f"{directory}: the store ({place}) may hold nothing executable; choose a folder outside it")
    if directory.exists() and not directory.is_dir():
        raise InstallError(f"{directory}: is not a folder; name one for the launchers")
    before = earlier(directory)
    asked = install_asked.find(args, directory, before)
    for path in (directory / name for name in (*launchers.LAUNCHERS, *asked.reals)):
        if path.exists() and (before is None or not launchers.is_ours(str(path))):
            known = f" (no {MANIFEST})" if before is None else ""
            raise InstallError(f"{path}: exists and is not ours{known}; choose another folder")
    for path in strangers(directory, before):
        raise InstallError(f"{path}: is not ours, and would go with the meter of before; move it away")
    store.check_place(place, [])
    sandboxes = {name: find_real(name, getattr(args, name), directory) for name in SANDBOXES}
    reals = {"phase": "", **sandboxes, **asked.reals}
    interpreter = launchers.choose_interpreter()
    if not launchers.fits_first_line(interpreter):
        raise InstallError(f"{interpreter!r}: too long, or with blanks, for a `#!` line; use a Python at another path")
    hook = None if args.comparator is None else look_for_hook(args.comparator)
    made = not directory.exists()
    directory.mkdir(parents=True, exist_ok=True)
    if made:
        directory.chmod(0o755)
    with alone(directory):
        stage = directory / STAGE
        try:
            store.make_folder(place + "/sessions")
            # All that can fail happens aside; what is in use is exchanged last, by renames alone.
            shutil.rmtree(stage, ignore_errors=True)
            stage.mkdir()
            tree_digest = copy_meter(stage / METER, directory / METER, interpreter)
            options = launchers.Options(place, str(directory / METER), interpreter)
            options.strict, options.kill_stragglers, options.cgroup = args.strict, args.kill_stragglers, args.cgroup
            options.digest, options.leaneval = tree_digest, asked.options()
            for name in reals:
                launchers.write(str(stage / name), launchers.text_of(name, reals[name], options))
            write_manifest(stage, place, interpreter, tree_digest, reals, asked.capture)
        except BaseException:
            shutil.rmtree(stage, ignore_errors=True)
            if made:
                directory.rmdir()
            raise
        exchange(stage / METER, directory / METER)
        for name in reals:
            (stage / name).replace(directory / name)
            (directory / f"{name}.measuring").unlink(missing_ok=True)  # switched off before: it measures again
        (stage / MANIFEST).replace(directory / MANIFEST)
        shutil.rmtree(stage, ignore_errors=True)
    report(directory, args.comparator, hook, place, interpreter, reals, asked)


@contextlib.contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Hold the folder for one install at a time. Raises InstallError when another is at work."""
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InstallError(f"{directory}: another install is at work there; wait for it") from None
        yield
    finally:
        os.close(fd)


def exchange(fresh: Path, used: Path) -> None:
    """Put a folder in another's place; the two change places at once, so that no call finds neither."""
    if used.exists():
        rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
        if rename is not None and rename(_AT_FDCWD, os.fsencode(fresh), _AT_FDCWD, os.fsencode(used), _EXCHANGE) == 0:
            return
        # A file system or C library that cannot: a call in between runs unmeasured.
        used.rename(fresh.with_name(fresh.name + ".old"))
    fresh.rename(used)


def look_for_hook(path: str) -> bool:
    """Whether that comparator has the measurement hook. Raises InstallError when it cannot be read."""
    try:
        return comparator.has_hook(path)
    except OSError as error:
        why = error.strerror
        raise InstallError(f"--comparator {path!r}: {why}; name the comparator's program, or leave it out") from None


def find_real(name: str, given: str | None, directory: Path) -> str:
    """The real sandbox's absolute path; the bare name, looked up at each call, when there is none yet."""
    variable = SANDBOXES[name]
    found = spawn.find_program(given or os.environ.get(variable) or name)
    if found is None:
        if given is not None:
            raise InstallError(f"--{name} {given}: no such program, or not executable; name the real {name}")
        return name
    path = os.path.abspath(found)
    if Path(os.path.realpath(path)).parent == Path(os.path.realpath(directory)):
        if given is None and (directory / MANIFEST).exists():
            # An upgrade with the variable set as we had said to: the real one is the one of before.
            known = read_manifest(directory)["real"]
            if isinstance(known, dict) and isinstance(known.get(name), str):
                return str(known[name])
        raise InstallError(f"{path}: is our own launcher; name the real {name} with --{name}")
    return path


def write_manifest(
    directory: Path, place: str, interpreter: str, tree_digest: str, reals: dict[str, str], capture: str | None
) -> None:
    """List what was written, so that it can be verified and undone."""
    files = [*meter_files(directory), *(directory / name for name in reals)]
    content = {
        "proofcost": VERSION,
        "store": place,
        "interpreter": interpreter,
        "meter_digest": tree_digest,
        "real": reals,
        "capture": capture,
        "files": {str(path.relative_to(directory)): digest.of_file(str(path), None)[0] for path in files},
    }
    text = json.dumps(content, indent=1, sort_keys=True) + "\n"
    temporary = directory / (MANIFEST + ".new")
    temporary.write_text(text)
    temporary.replace(directory / MANIFEST)


def read_manifest(directory: Path) -> dict[str, object]:
    """The manifest of an earlier install. Raises InstallError."""
    path = directory / MANIFEST
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        raise InstallError(f"{path}: not there, so nothing was installed in {directory}") from None
    except ValueError as error:
        raise InstallError(f"{path}: damaged ({error}); install again") from None
    if not isinstance(content, dict):
        content = {}
    reals = content.get("real")
    if not isinstance(reals, dict) or not set(reals) <= {*launchers.LAUNCHERS, launchers.LEANEVAL, launchers.TIMER}:
        raise InstallError(f"{path}: not a manifest of ours; install again")
    return content


def strangers(directory: Path, content: dict[str, object] | None) -> list[Path]:
    """What stands where the meter goes and is none of its files (`content`: the manifest of before)."""
    listed = content.get("files") if content is not None else {}
    if listed is None and (directory / METER / "proofcost" / "harness").is_dir():
        return []  # the manifest is damaged; the meter says itself what it is
    known = {str(directory / name) for name in listed} if isinstance(listed, dict) else set()
    return [path for path in meter_files(directory) if str(path) not in known]


def meter_files(directory: Path) -> list[Path]:
    """All that stands in the meter's place but folders, and what Python writes for itself."""
    place = directory / METER
    if place.is_symlink() or place.is_file():
        return [place]
    found = (path for path in sorted(place.rglob("*")) if "__pycache__" not in path.parts)
    return [path for path in found if path.is_symlink() or not path.is_dir()]


def earlier(directory: Path) -> dict[str, object] | None:
    """The manifest of what an install is to replace, one without launchers where that is damaged; None: nothing."""
    if not (directory / MANIFEST).exists():
        return None
    try:
        return read_manifest(directory)
    except InstallError:
        return {"real": {}}


def switch(directory: Path, on: bool) -> None:
    """Exchange each launcher for a plain exec, or bring the measuring one back."""
    content = read_manifest(directory)
    reals = content["real"]
    assert isinstance(reals, dict)
    for name in reals:
        path, kept = directory / name, directory / f"{name}.measuring"
        if on:
            if kept.exists():
                kept.replace(path)
        elif not kept.exists():
            shutil.copy2(path, kept)
            launchers.write(str(path), launchers.off_text(name, str(reals[name])))
    print(f"{directory}: launchers {'measure again' if on else 'are plain execs now; --on brings measuring back'}")


def undo(directory: Path) -> None:
    """Remove exactly what install wrote."""
    content = read_manifest(directory)
    print("A judge whose configuration still names these launchers fails from now on: take the lines out first.")
    reals = content["real"]
    assert isinstance(reals, dict)
    for name in reals:
        (directory / name).unlink(missing_ok=True)
        (directory / f"{name}.measuring").unlink(missing_ok=True)
    remove_meter(directory, content)
    (directory / MANIFEST).unlink()
    left = sorted(path.name for path in directory.iterdir())
    if not left:
        directory.rmdir()
    kept = f"; kept what is not ours: {', '.join(left)}" if left else ""
    print(f"{directory}: removed{kept}. Records stay in {content.get('store')}.")


def remove_meter(directory: Path, content: dict[str, object]) -> None:
    """Take the meter away; what somebody else put beside its files stays."""
    kept = set(strangers(directory, content))
    for path in meter_files(directory):
        if path not in kept:
            path.unlink()
    for folder in sorted((directory / METER).rglob("*"), reverse=True):
        if folder.name == "__pycache__":
            shutil.rmtree(folder, ignore_errors=True)
    for folder in sorted((directory / METER, *(directory / METER).rglob("*")), reverse=True):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()


_UNIT = """
Under systemd on a cgroup v2 host, for the memory of each call's whole tree: delegate, and keep the judge in a leaf
    [Service]
    Delegate=yes
    DelegateSubgroup=judge
    ExecStart={command} run -- JUDGE
(DelegateSubgroup needs systemd 254; before that start the judge from a shell that moves itself into a leaf first)"""


def report(
    directory: Path,
    comparator: str | None,
    hook: bool | None,
    place: str,
    interpreter: str,
    reals: dict[str, str],
    asked: install_asked.Asked,
) -> None:
    """What was written and the lines to paste; `hook` tells whether the comparator has it, None: not asked."""
    phase = directory / "phase"
    print(f"launchers   {phase}")
    for name in SANDBOXES:
        print(f"            {directory / name}  (real {name}: {reals[name]})")
    print(f"records     {place}")
    print(f"interpreter {interpreter}")
    for path in (interpreter, str(directory), place):
        if not launchers.is_root_owned(path):
            print(f"note        {path} can be changed by others than root: good on a desk, not in a judge that matters")
    uid = os.geteuid()
    print(f"note        records are kept only for calls made as user {uid}, the store's owner; other users' calls run")
    print("            unmeasured. Install as the user the judge runs as, with a store of that user")
    missing = [name for name in SANDBOXES if not os.path.isabs(reals[name])]
    for name in missing:
        level = "warning " if len(missing) == len(SANDBOXES) else "note    "
        print(f"{level}    no {name} found: each call looks on the judge's PATH, and fails where there is none")
    print()
    if hook is False:
        print(f"comparator  {comparator} has no measurement hook and would ignore `measurement_command` silently.")
        print("            In its environment:")
    else:
        known = "if it has the measurement hook (--comparator PATH tells; most releases have not)"
        print(f"comparator  {'has the measurement hook' if hook else known}; in its config.json:")
        print(f'    "measurement_command": {json.dumps([str(phase)])}')
        print("            or, for any comparator and with its challenge calls, in its environment:")
    print(f"    {SANDBOXES['landrun']}={directory / 'landrun'}")
    print("lake        `lake comparator` and `lake check` (Lean 4.35 or newer), in their environment:")
    print(f"    {SANDBOXES['bwrap']}={directory / 'bwrap'}")
    install_asked.report(directory, asked)
    print(_UNIT.format(command=os.path.abspath(sys.argv[0])))
    print(f"\nswitch off at once: proofcost install {directory} --off   remove: proofcost install {directory} --undo")


if __name__ == "__main__":
    sys.exit("call it as: proofcost install DIR")
