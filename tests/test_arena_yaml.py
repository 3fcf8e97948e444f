"""The arena's test files: every key of theirs, and what is wrong with others."""

from pathlib import Path

import pytest

from proofcost.adapters import arena_yaml
from proofcost.adapters.arena_yaml import ArenaError


def read(tmp_path: Path, text: str | bytes) -> arena_yaml.Test:
    path = tmp_path / "tests" / "case.yaml"
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return arena_yaml.read(path)


def test_every_way_of_getting_an_export_is_known(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests/case.ndjson").touch()
    test = read(tmp_path, "description: text\nfile: tests/case.ndjson\noutcome: accept\nlarge: true\n")
    assert (test.name, test.expected, test.export) == ("case", "accept", tmp_path / "tests/case.ndjson")
    assert (test.description, test.is_large, test.compares_cost, test.timeout_s) == ("text", True, False, None)
    test = read(
        tmp_path,
        "url: https://example.org/x\nref: main\nrev: deadbeef\npre-build: lake exe cache get\nmodule: Mod\n"
        "export-decls: [a, b]\ncompare-perf: true\nskip-on-ci: true\ntimeout: 90\n",
    )
    assert (test.expected, test.recipe, test.export) == (None, "module: Mod", None)
    assert (test.is_large, test.compares_cost, test.timeout_s, test.unknown) == (True, True, 90, ())
    test = read(tmp_path, "url: https://example.org/x\nrun: |\n  make\n  cp a $OUT\nmultiple: true\n")
    assert test.recipe == "run: make   cp a $OUT".replace("   ", " ")
    test = read(tmp_path, "leanfile: tests/a.lean\nnovel: 1\n")
    assert (test.recipe, test.unknown) == ("leanfile: tests/a.lean", ("novel",))


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (b"", 0, "no mapping of keys to values"),
        (b"- file\n", 0, "no mapping"),
        (b"a: 1\nb: [\n", 3, "not YAML"),
        (b"\x00", 0, "not YAML"),
        (b"file: \xff\n", 0, "not YAML"),
        (b"outcome: accept\n", 0, "here: none"),
        (b"module: A\nfile: b\n", 0, "here: file and module"),
        (b"module: A\noutcome: accepted\n", 2, "outcome is 'accepted'"),
        (b"module: A\n# no\ntimeout: soon\n", 3, "timeout is 'soon'"),
        (b"module: A\ntimeout: true\n", 2, "timeout is True"),
        (b"outcome: accept\nfile: tests/gone.ndjson\n", 2, "file tests/gone.ndjson lies in no folder above"),
        (b"file: [1]\n", 1, "file is [1]"),
    ],
)
def test_what_is_no_such_test_is_named_with_its_line(tmp_path: Path, text: bytes, line: int, says: str) -> None:
    with pytest.raises(ArenaError) as caught:
        read(tmp_path, text)
    assert (caught.value.line, says in caught.value.what) == (line, True), caught.value.what
    assert caught.value.cure
    assert "\n" not in caught.value.what
