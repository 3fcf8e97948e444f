"""Workloads: what kernels are run on. Export files, folders of them, arena tests, generated families.

    load(["exports/", "big.ndjson.zst", "arena/tests/app-lam.yaml", "church:5000"])

What a sound kernel should say of an export comes, in this order, from `workloads.toml` in the folder given, from an
arena test, from the family, or from the nearest folder above the file (not above the folder given) that is called
`accept` or `good`, `reject` or `bad`. Otherwise it is not known, and no answer is wrong.

`prepare` makes the plain file that a kernel takes and looks through it in the same pass: digest and covariates.
"""

import os
import urllib.parse
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from proofcost.adapters import arena_yaml
from proofcost.bench_suites import covariates, export_files, families, workload_manifest
from proofcost.bench_suites.covariates import Covariates
from proofcost.bench_suites.families import Chosen, FamilyError
from proofcost.bench_suites.parse_only import MalformedError
from proofcost.bench_suites.workload_manifest import Entry, ManifestError
from proofcost.harness.whole_file import whole_file

VERDICT_OF_FOLDER = {"accept": "accept", "good": "accept", "reject": "reject", "bad": "reject"}
"""`good` and `bad` are what the arena's builder calls them."""
SUFFIXES = (".ndjson", ".ndjson.gz", ".ndjson.zst")
"""What counts as an export in a folder. A file that is named itself may be called anything."""
ARENA_SUFFIXES = (".yaml", ".yml")


class WorkloadError(Exception):
    """One clear line: where (file, and line where there is one), what, and how to mend it."""

    def __init__(self, where: str | Path, line: int, what: str, cure: str) -> None:
        at = f"{where}:{line}" if line else f"{where}"
        super().__init__(f"{at}: {what}; {cure}")


@dataclass(frozen=True)
class Workload:
    """One export to be checked.

    `name` is unique in what one `load` returns. `source`: the file, or the export to generate. `expected`: accept,
    reject, or None where that is not known or either is right; `expected_from`: manifest, arena, family, folder.
    `sha256`: the plain text's digest according to the manifest. `timeout_s`: the arena's own limit.
    """

    name: str
    source: Path | Chosen
    expected: str | None = None
    expected_from: str | None = None
    sha256: str | None = None
    timeout_s: int | None = None


@dataclass(frozen=True)
class Loaded:
    """`left_out`: what was met but cannot be run here, a line each that says which and why."""

    workloads: tuple[Workload, ...]
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ready:
    """A workload whose plain export lies at `path`. Digest (`covariates.sha256`) and counts are those of that file."""

    workload: Workload
    path: Path
    covariates: Covariates


def load(specs: Iterable[str]) -> Loaded:
    """Everything that `specs` name, in their order. Raises WorkloadError.

    A spec is a path (export, folder, arena test) or FAMILY:n[:seed]; what exists as a path is one.
    """
    found: list[Workload] = []
    left_out: list[str] = []
    for spec in specs:
        path = Path(spec)
        if path.is_dir():
            found += _folder(path, left_out)
        elif path.suffix in ARENA_SUFFIXES and path.is_file():
            found += _arena(path, left_out)
        elif path.is_file():
            found.append(_export(path, path.name, path.parent))
        elif path.exists():
            raise WorkloadError(spec, 0, "no file that could be read again", "write what it gives to a file first")
        elif families.is_spec(spec):
            found.append(_generated(spec))
        else:
            known = f"a family needs a size: {spec}:{families.get(spec).small}" if spec in families.names() else ""
            raise WorkloadError(spec, 0, "no such file or folder", known or "name an export, a folder or FAMILY:n")
    if not found:
        raise WorkloadError("workloads", 0, left_out[0] if left_out else "none named", "name an export or FAMILY:n")
    return Loaded(_with_names_apart(found), tuple(left_out))


def prepare(workload: Workload, folder: Path, *, depth: bool = False) -> Ready:
    """The plain export for a kernel, looked through in the same pass.

    A plain file is used where it lies; anything else is written into `folder` under the workload's name. `depth`: see
    covariates. Raises WorkloadError where it is no whole export of format 3.x, not the one that the manifest means, or
    cannot be read or written.
    """
    source = workload.source
    path = folder / (urllib.parse.quote(workload.name, safe=" :") + SUFFIXES[0])  # other names, other files
    reader = covariates.Reader(depth=depth)
    try:
        if isinstance(source, Chosen):
            with whole_file(path) as file:

                def both(block: bytes, write: Callable[[bytes], object] = file.write) -> None:
                    write(block)
                    reader.take(block)

                source.write(both)
                figures = reader.end()  # a file that turns out to be no export goes away again
        elif export_files.compression(source) == "none":
            path = source
            for block in export_files.blocks(source):
                reader.take(block)
            figures = reader.end()
        else:
            with whole_file(path) as file:
                for block in export_files.blocks(source):
                    file.write(block)
                    reader.take(block)
                figures = reader.end()
    except MalformedError as fault:
        raise WorkloadError(source if isinstance(source, Path) else path, fault.line, fault.what, fault.cure) from None
    except OSError as error:
        raise WorkloadError(
            error.filename or path, 0, _told(error), "it has to be readable, and there be room"
        ) from None
    if workload.sha256 not in (None, figures.sha256):
        what = f"the plain text's sha256 is {figures.sha256}, {workload_manifest.NAME} says {workload.sha256}"
        raise WorkloadError(path, 0, what, "fetch the export again, or mend the manifest")
    return Ready(workload, path, figures)


def _generated(spec: str) -> Workload:
    try:
        chosen = families.parse(spec)
    except FamilyError as error:
        raise WorkloadError(spec, 0, error.what, error.cure) from None
    return Workload(chosen.spec, chosen, chosen.expected, "family")


def _without_suffix(name: str) -> str:
    return next((name.removesuffix(suffix) for suffix in reversed(SUFFIXES) if name.endswith(suffix)), name)


def _export(path: Path, name: str, folder: Path) -> Workload:
    """`path` as a workload; the verdict is that of the folders from `path` up to `folder`."""
    for parent in path.parents:
        verdict = VERDICT_OF_FOLDER.get(parent.absolute().name)
        if verdict is not None:
            return Workload(_without_suffix(name), path, verdict, "folder")
        if parent == folder:
            break
    return Workload(_without_suffix(name), path)


def _arena(path: Path, left_out: list[str]) -> list[Workload]:
    try:
        test = arena_yaml.read(path)
    except arena_yaml.ArenaError as error:
        raise WorkloadError(path, error.line, error.what, error.cure) from None
    except OSError as error:
        raise WorkloadError(path, 0, _told(error), "give a readable file") from None
    if test.export is None:
        left_out.append(f"{path}: its export has yet to be made ({test.recipe}); make it and name it")
        return []
    return [Workload(test.name, test.export, test.expected, "arena" if test.expected else None, None, test.timeout_s)]


def _folder(folder: Path, left_out: list[str]) -> list[Workload]:
    """All exports below `folder`, by name, with what an arena test or the manifest says of them."""
    paths = list(_files(folder))
    of_tests: dict[Path, Workload] = {}
    for path in paths:
        if path.suffix in ARENA_SUFFIXES:
            try:
                of_tests.update({_file_of(workload).resolve(): workload for workload in _arena(path, left_out)})
            except WorkloadError as error:
                left_out.append(str(error))
    entries = _manifest(folder / workload_manifest.NAME)
    exports = [path for path in paths if path.name.endswith(SUFFIXES)]
    known = {path.resolve() for path in exports}
    exports += [entry.path for entry in entries.values() if entry.path not in known]
    found = []
    for path in exports:
        name = os.path.relpath(path, folder) if path.is_relative_to(folder) else path.name
        workload = of_tests.pop(path.resolve(), None) or _export(path, name, folder)
        entry = entries.get(path.resolve())
        found.append(workload if entry is None else _as_listed(workload, entry))
    found += of_tests.values()
    if not found and not left_out:
        raise WorkloadError(folder, 0, f"holds no export ({', '.join(SUFFIXES)})", "name a folder that does")
    return found


def _file_of(workload: Workload) -> Path:
    assert isinstance(workload.source, Path)
    return workload.source


def _files(folder: Path) -> Iterator[Path]:
    """Every file below `folder`, by name; hidden ones and what links to folders lead to stay out."""

    def fails(error: OSError) -> None:
        raise WorkloadError(error.filename, 0, _told(error), "make it readable") from None

    for where, folders, names in os.walk(folder, onerror=fails):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (path for path in (Path(where, name) for name in sorted(names)) if _is_plain(path))


def _is_plain(path: Path) -> bool:
    return path.is_file() and not path.name.startswith(".")


def _manifest(path: Path) -> dict[Path, Entry]:
    if not path.exists():
        return {}
    try:
        return workload_manifest.read(path)
    except ManifestError as error:
        raise WorkloadError(path, error.line, error.what, error.cure) from None
    except OSError as error:
        raise WorkloadError(path, 0, _told(error), "give a readable file") from None


def _told(error: OSError) -> str:
    return error.strerror or str(error)


def _as_listed(workload: Workload, entry: Entry) -> Workload:
    if entry.expected is None:
        return replace(workload, sha256=entry.sha256)
    expected = None if entry.expected == "either" else entry.expected
    return replace(workload, sha256=entry.sha256, expected=expected, expected_from="manifest")


def _with_names_apart(found: list[Workload]) -> tuple[Workload, ...]:
    """Where two files share a name, both are called by their whole path. Raises WorkloadError for one named twice."""
    counts = Counter(workload.name for workload in found)
    apart = [
        replace(workload, name=_without_suffix(str(workload.source)))
        if counts[workload.name] > 1 and isinstance(workload.source, Path)
        else workload
        for workload in found
    ]
    for name, count in Counter(workload.name for workload in apart).items():
        if count > 1:
            raise WorkloadError(name, 0, f"named {count} times", "name each workload once")
    return tuple(apart)
