"""Workloads: what is loaded from paths and specs, with which verdict; and one clear line for what cannot be used."""

import gzip
import io
import os
from pathlib import Path

import pytest
import zstandard

from proofcost.bench_suites import families, workloads
from proofcost.bench_suites.workloads import Loaded, Workload, WorkloadError


def generated(spec: str) -> bytes:
    out = io.BytesIO()
    families.parse(spec).write(out.write)
    return out.getvalue()


GOOD = generated("church:20")


@pytest.fixture
def exports(tmp_path: Path) -> Path:
    """A folder with exports in every place that means something."""
    root = tmp_path / "exports"
    for place in ("top", "accept/one", "accept/two", "reject/three", "deep/good/four", "deep/bad/five", "good/bad/six"):
        path = root / f"{place}.ndjson"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(GOOD)
    (root / "accept/packed.ndjson.gz").write_bytes(gzip.compress(GOOD))
    (root / "accept/packed-too.ndjson.zst").write_bytes(zstandard.ZstdCompressor().compress(GOOD))
    (root / "README.md").write_text("not an export")
    (root / ".hidden.ndjson").write_bytes(GOOD)
    return root


def expected(loaded: Loaded) -> dict[str, str | None]:
    return {workload.name: workload.expected for workload in loaded.workloads}


def fails(*specs: str | Path) -> str:
    with pytest.raises(WorkloadError) as caught:
        workloads.load([str(spec) for spec in specs])
    assert "\n" not in str(caught.value)
    return str(caught.value)


def unusable(path: Path, folder: Path) -> str:
    (workload,) = workloads.load([str(path)]).workloads
    with pytest.raises(WorkloadError) as caught:
        workloads.prepare(workload, folder)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_nearest_folder_of_that_name_says_what_is_expected(exports: Path) -> None:
    assert expected(workloads.load([str(exports)])) == {
        "top": None,
        "accept/one": "accept",
        "accept/two": "accept",
        "accept/packed": "accept",
        "accept/packed-too": "accept",
        "reject/three": "reject",
        "deep/good/four": "accept",
        "deep/bad/five": "reject",
        "good/bad/six": "reject",
    }


def test_the_folder_given_counts_and_none_above_it(exports: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert expected(workloads.load([str(exports / "accept")]))["one"] == "accept"
    assert expected(workloads.load([str(exports / "good/bad")])) == {"six": "reject"}
    below_good = exports / "good/plain"
    below_good.mkdir()
    (below_good / "seven.ndjson").write_bytes(GOOD)
    assert expected(workloads.load([str(below_good)])) == {"seven": None}
    monkeypatch.chdir(exports / "reject")
    assert expected(workloads.load(["."])) == {"three": "reject"}


def test_a_file_goes_by_its_own_folder(exports: Path) -> None:
    (workload,) = workloads.load([str(exports / "reject/three.ndjson")]).workloads
    assert (workload.name, workload.expected, workload.expected_from) == ("three", "reject", "folder")
    (workload,) = workloads.load([str(exports / "accept/packed.ndjson.gz")]).workloads
    assert (workload.name, workload.expected) == ("packed", "accept")
    assert expected(workloads.load([str(exports / "top.ndjson")])) == {"top": None}


def test_a_generated_export_is_named_by_its_spec_and_knows_its_verdict() -> None:
    loaded = workloads.load(["church:20:3", "many-reject:7"])
    assert expected(loaded) == {"church:20:3": "accept", "many-reject:7": "reject"}
    assert {workload.expected_from for workload in loaded.workloads} == {"family"}


def test_what_exists_as_a_path_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("church:20").write_bytes(GOOD)
    (workload,) = workloads.load(["church:20"]).workloads
    assert workload.source == Path("church:20")


def test_specs_keep_their_order(exports: Path) -> None:
    loaded = workloads.load(["many:3", str(exports / "reject"), "church:20"])
    assert [workload.name for workload in loaded.workloads] == ["many:3", "three", "church:20:0"]


def test_files_of_one_name_are_told_apart_by_their_paths(exports: Path) -> None:
    one, other = exports / "accept/one.ndjson", exports / "deep/one.ndjson"
    other.write_bytes(GOOD)
    loaded = workloads.load([str(one), str(other)])
    assert [workload.name for workload in loaded.workloads] == [str(one.with_suffix("")), str(other.with_suffix(""))]


@pytest.mark.parametrize("name", ["top", "accept/packed", "accept/packed-too"])
def test_prepared_is_the_plain_text_with_its_digest_and_counts(exports: Path, tmp_path: Path, name: str) -> None:
    workload = next(w for w in workloads.load([str(exports)]).workloads if w.name == name)
    made = tmp_path / "made"
    made.mkdir()
    ready = workloads.prepare(workload, made, depth=True)
    assert ready.path.read_bytes() == GOOD
    assert ready.covariates.bytes == len(GOOD)
    assert ready.covariates.declarations_count == 20
    assert ready.covariates.depth is not None
    # A plain file is used where it lies; nothing else is left beside what was made.
    assert os.listdir(made) == ([] if name == "top" else [f"{name.replace('/', '%2F')}.ndjson"])


def test_a_generated_export_is_prepared_as_it_is_written(tmp_path: Path) -> None:
    (workload,) = workloads.load(["church:20"]).workloads
    ready = workloads.prepare(workload, tmp_path)
    assert ready.path.read_bytes() == GOOD
    assert ready.covariates.lines_count == GOOD.count(b"\n")
    assert ready.covariates.depth is None


@pytest.mark.parametrize(
    ("data", "where", "says"),
    [
        (GOOD[:-20], f":{GOOD.count(10)}:", "the file was cut off"),
        (GOOD[: len(GOOD) // 2], ":", "the file was cut off"),
        (b"0 #NS 0 Nat\n", ":1:", "not JSON"),
        (GOOD.replace(b"3.1.0", b"2.0.0", 1), ":1:", "format version '2.0.0', not 3.x"),
        (GOOD.splitlines(keepends=True)[0] + b"\xff\xfe\n", ":2:", "not UTF-8"),
        (b"", ":", "empty"),
        (gzip.compress(GOOD)[:-30], ":", "the gzip stream ends too early"),
        (zstandard.ZstdCompressor().compress(GOOD)[:-30], ":", "the zstd stream ends too early"),
        (gzip.compress(GOOD[:-20]), f":{GOOD.count(10)}:", "the file was cut off"),
    ],
)
def test_an_export_that_cannot_be_used_is_named_with_its_line(
    tmp_path: Path, data: bytes, where: str, says: str
) -> None:
    path, made = tmp_path / "export.ndjson", tmp_path / "made"
    path.write_bytes(data)
    made.mkdir()
    told = unusable(path, made)
    assert told.startswith(f"{path}{where}")
    assert says in told
    assert os.listdir(made) == [], "nothing half-written stays"


def test_what_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    (workload,) = workloads.load(["church:20"]).workloads
    with pytest.raises(WorkloadError, match="No such file or directory"):
        workloads.prepare(workload, tmp_path / "missing")
    gone = Workload("gone", tmp_path / "gone.ndjson")
    with pytest.raises(WorkloadError, match=f"{tmp_path}/gone.ndjson: No such file"):
        workloads.prepare(gone, tmp_path)


def test_specs_that_name_nothing_are_refused(exports: Path, tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    pipe = tmp_path / "pipe.ndjson"
    os.mkfifo(pipe)
    assert "name an export or FAMILY:n" in fails()
    assert f"{empty}: holds no export (.ndjson, .ndjson.gz, .ndjson.zst)" in fails(empty)
    assert "no such file or folder; name an export, a folder or FAMILY:n" in fails(tmp_path / "nothing.ndjson")
    assert "a family needs a size: church:500" in fails("church")
    assert "chuch:20: no family 'chuch'; did you mean church?" in fails("chuch:20")
    assert "church:3: n is 3, and church begins with 8; give church:500, say" in fails("church:3")
    assert "write what it gives to a file first" in fails(pipe)
    assert "named 2 times; name each workload once" in fails(exports / "top.ndjson", exports / "top.ndjson")
    assert "church:20:0: named 2 times" in fails("church:20", "church:20:0")


def test_a_folder_that_cannot_be_listed_is_an_error_and_not_empty(
    exports: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lists = os.scandir

    def scandir(path: str) -> object:
        if path.endswith("reject"):
            raise PermissionError(13, "Permission denied", path)
        return lists(path)

    monkeypatch.setattr(os, "scandir", scandir)  # root may list anything
    assert f"{exports}/reject: Permission denied" in fails(exports)


def test_links_to_folders_are_not_followed(exports: Path) -> None:
    before = len(workloads.load([str(exports)]).workloads)
    (exports / "again").symlink_to(exports)
    assert len(workloads.load([str(exports)]).workloads) == before


@pytest.mark.real
def test_the_shared_exports_load_with_their_verdicts(shared_exports: Path, tmp_path: Path) -> None:
    loaded = workloads.load([str(shared_exports)])
    by_verdict = dict.fromkeys(("accept", "reject", None), 0)
    for workload in loaded.workloads:
        by_verdict[workload.expected] += 1
        ready = workloads.prepare(workload, tmp_path, depth=not workload.name.startswith("reject"))
        assert ready.covariates.declarations_count >= 1
    assert by_verdict == {"accept": 74, "reject": 38, None: 1}


def manifest(exports: Path, text: str) -> None:
    (exports / "workloads.toml").write_text(text)


def test_a_manifest_says_more_than_a_folder(exports: Path) -> None:
    digest = "0" * 64
    manifest(
        exports,
        f"""
        [[workload]]
        file = "top.ndjson"
        expected = "reject"
        sha256 = "{digest}"
        [[workload]]
        file = "accept/one.ndjson"
        expected = "either"
        [[workload]]
        file = "accept/two.ndjson"
        """,
    )
    by_name = {workload.name: workload for workload in workloads.load([str(exports)]).workloads}
    assert len(by_name) == 9
    told = {name: (by_name[name].expected, by_name[name].expected_from, by_name[name].sha256) for name in by_name}
    assert told["top"] == ("reject", "manifest", digest)
    assert told["accept/one"] == (None, "manifest", None)
    assert told["accept/two"] == ("accept", "folder", None)
    with pytest.raises(WorkloadError, match=f"sha256 is [0-9a-f]{{64}}, workloads.toml says {digest}"):
        workloads.prepare(by_name["top"], exports)


def test_a_manifest_may_name_what_a_folder_would_pass_over(exports: Path) -> None:
    (exports / "odd").write_bytes(GOOD)
    manifest(exports, '[[workload]]\nfile = "odd"\nexpected = "accept"\n')
    assert expected(workloads.load([str(exports)]))["odd"] == "accept"


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        ("workload = 3", 1, "is no list of entries"),
        ("[[workload]\n", 1, "not TOML"),
        ('[[workload]]\nfile = "top.ndjson\n', 2, "not TOML"),
        ("[[workload]]\n", 1, "file is None"),
        ('[[workload]]\nfile = "top.ndjson"\n[[workload]]\nfile = "gone.ndjson"', 4, "no file gone.ndjson"),
        ('[[workload]]\nfile = "top.ndjson"\nexpected = "accepts"', 3, "it is one of accept, reject, either"),
        ('[[workload]]\nfile = "top.ndjson"\nexpect = "accept"', 3, "unknown key 'expect'; did you mean expected?"),
        ('[[workload]]\nfile = "top.ndjson"\nsha256 = "abc"', 3, "sha256 is 'abc'"),
        ('[[workload]]\nfile = "top.ndjson"\n[[workload]]\nfile = "./top.ndjson"', 3, "listed twice"),
        ("\n[[workloads]]\n", 2, "unknown key 'workloads'"),
    ],
)
def test_a_wrong_manifest_is_named_with_its_line(exports: Path, text: str, line: int, says: str) -> None:
    manifest(exports, text)
    told = fails(exports)
    assert told.startswith(f"{exports}/workloads.toml:{line}: ")
    assert says in told


def test_a_manifest_that_is_no_text_is_named(exports: Path) -> None:
    (exports / "workloads.toml").write_bytes(b"\xff")
    assert "workloads.toml: not UTF-8" in fails(exports)


@pytest.fixture
def arena(tmp_path: Path) -> Path:
    """A checkout of the arena, as far as it matters."""
    root = tmp_path / "arena"
    (root / "tests/bugs").mkdir(parents=True)
    (root / "tests/bugs/levels.ndjson").write_bytes(GOOD)
    (root / "tests/bugs/levels.yaml").write_text(
        "description: |\n  Two lines\n  of it.\nfile: tests/bugs/levels.ndjson\noutcome: reject\ntimeout: 30\n"
    )
    (root / "tests/init.yaml").write_text("leanfile: tests/init.lean\noutcome: accept\ncompare-perf: true\n")
    return root


def test_an_arena_test_is_read_as_it_is(arena: Path) -> None:
    (workload,) = workloads.load([str(arena / "tests/bugs/levels.yaml")]).workloads
    assert workload == Workload("levels", arena / "tests/bugs/levels.ndjson", "reject", "arena", None, 30)


def test_a_folder_of_arena_tests_counts_each_export_once(arena: Path) -> None:
    loaded = workloads.load([str(arena)])
    assert [(w.name, w.expected, w.expected_from) for w in loaded.workloads] == [("levels", "reject", "arena")]
    assert len(loaded.left_out) == 1
    assert "init.yaml: its export has yet to be made (leanfile: tests/init.lean)" in loaded.left_out[0]


def test_yaml_that_is_no_arena_test_is_left_out_of_a_folder_and_said(arena: Path) -> None:
    (arena / "tests/ci.yaml").write_text("on: push\n")
    (arena / "tests/torn.yaml").write_text("a: [1\n")
    loaded = workloads.load([str(arena)])
    assert [workload.name for workload in loaded.workloads] == ["levels"]
    assert any("ci.yaml: of file, leanfile, module, run a test has exactly one" in line for line in loaded.left_out)
    assert any("torn.yaml:2: not YAML" in line for line in loaded.left_out)


def test_only_tests_whose_exports_have_yet_to_be_made_is_nothing_to_run(arena: Path) -> None:
    assert "its export has yet to be made" in fails(arena / "tests/init.yaml")
