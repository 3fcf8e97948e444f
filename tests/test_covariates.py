"""Covariates: what the quick pass counts is what parsing every line counts, and faults are named with their line."""

import gzip
import hashlib
import io
import itertools
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from proofcost.bench_suites import covariates, export_depth, families, parse_only
from proofcost.bench_suites.covariates import Covariates
from proofcost.bench_suites.parse_only import BODIES, DECLARATIONS, MalformedError


def generated(spec: str) -> bytes:
    out = io.BytesIO()
    families.parse(spec).write(out.write)
    return out.getvalue()


GOOD = generated("church:40")
META = GOOD.splitlines(keepends=True)[0]
THEOREM = b'{"thm":{"all":[1],"levelParams":[],"name":1,"type":0,"value":0}}\n'
NAME = b'{"in":1,"str":{"pre":0,"str":"a"}}\n'
SORT = b'{"ie":0,"sort":0}\n'


def read(data: bytes, *, depth: bool = False, cut: int = 1 << 20) -> Covariates:
    return covariates.read_blocks((data[at : at + cut] for at in range(0, len(data), cut)), depth=depth)


def slowly(data: bytes) -> dict[str, Any]:
    """The same figures from json alone."""
    lines = data.splitlines(keepends=True)
    kinds: Counter[str] = Counter()
    declared = [0]
    for at, line in enumerate(lines):
        (kind,) = (key for key in json.loads(line) if key not in ("in", "il", "ie"))
        kinds[kind] += kind != "meta"
        if kind in DECLARATIONS:
            declared.append(at)
    return {
        "sha256": hashlib.sha256(data).hexdigest(),
        "bytes": len(data),
        "lines_count": len(lines),
        "line_longest_bytes": max(map(len, lines)),
        "names_count": sum(kinds[kind] for kind in BODIES["in"]),
        "levels_count": sum(kinds[kind] for kind in BODIES["il"]),
        "expressions_count": sum(kinds[kind] for kind in BODIES["ie"]),
        "declarations_count": sum(kinds[kind] for kind in DECLARATIONS),
        "declaration_lines_longest_count": max(b - a for a, b in itertools.pairwise(declared)),
        "kinds": {kind: count for kind, count in kinds.items() if count},
    }


def told(figures: Covariates) -> dict[str, Any]:
    return {name: getattr(figures, name) for name in slowly(GOOD)}


@pytest.mark.parametrize("name", families.names())
def test_counts_are_those_of_parsing_every_line(name: str) -> None:
    data = generated(f"{name}:{families.get(name).small}")
    assert told(read(data)) == slowly(data)
    assert told(read(data, depth=True)) == slowly(data)


@given(st.integers(1, 40) | st.integers(40, 5000))
@settings(max_examples=25, deadline=None)
def test_it_does_not_matter_where_blocks_are_cut(cut: int) -> None:
    assert read(GOOD, depth=True, cut=cut) == read(GOOD, depth=True)


@given(st.data())
@settings(max_examples=30, deadline=None)
def test_it_does_not_matter_how_the_json_is_written(data: st.DataObject) -> None:
    """Keys in another order, blanks, no last newline: the same counts."""
    given_lines = generated("church:10")
    lines = []
    for line in given_lines.splitlines():
        record = json.loads(line)
        keys = data.draw(st.permutations(list(record))) if data.draw(st.booleans()) else list(record)
        blanks = data.draw(st.sampled_from([(",", ":"), (", ", ": "), (" , ", " : ")]))
        lines.append(json.dumps({key: record[key] for key in keys}, separators=blanks))
    text = ("\n".join(lines) + data.draw(st.sampled_from(["", "\n"]))).encode()
    assert told(read(text)) == slowly(text)
    assert read(text, depth=True).depth == read(given_lines, depth=True).depth


def test_every_kind_of_the_format_is_known() -> None:
    records = [
        '{"in":1,"str":{"pre":0,"str":"a"}}',
        '{"in":2,"num":{"i":0,"pre":1}}',
        *(f'{{"il":1,"{kind}":0}}' for kind in ("succ", "param")),
        *(f'{{"il":1,"{kind}":[0,0]}}' for kind in ("max", "imax")),
        *(f'{{"{kind}":0,"ie":123456}}' for kind in ("bvar", "sort")),
        *(f'{{"ie":1,"{kind}":"0"}}' for kind in ("natVal", "strVal")),
        *(f'{{"ie":2,"{kind}":{{}}}}' for kind in ("app", "lam", "forallE", "const", "letE", "proj", "mdata")),
        *(f'{{"{kind}":{{}},"ie":2}}' for kind in ("app", "lam", "forallE", "const", "letE", "proj", "mdata")),
        *(f'{{"{kind}":{{}}}}' for kind in DECLARATIONS),
    ]
    data = META + "\n".join(records).encode() + b"\n"
    assert told(read(data)) == slowly(data)
    assert set(read(data).kinds) == set(parse_only.Tally().kinds)


def fault(data: bytes, *, depth: bool = False) -> MalformedError:
    with pytest.raises(MalformedError) as caught:
        read(data, depth=depth)
    return caught.value


@pytest.mark.parametrize("depth", [False, True])
@pytest.mark.parametrize(
    ("data", "line", "says"),
    [
        (b"", 0, "empty"),
        (META, 0, "no declaration"),
        (META + NAME, 0, "no declaration in 2 lines"),
        (THEOREM, 1, "meta"),
        (b"\n", 1, "not JSON"),
        (b"MZ\x90\x00\n", 1, "not UTF-8"),
        (META.replace(b"3.1.0", b"2.0.0") + THEOREM, 1, "format version '2.0.0', not 3.x"),
        (META + NAME + SORT + b"\n" + THEOREM, 4, "not JSON"),
        (META + NAME + SORT + b"nonsense\n" + THEOREM, 4, "not JSON"),
        (META + NAME + SORT + b'{"ie":1,"lambda":{}}\n' + THEOREM, 4, "no known kind of expressions"),
        (META + NAME + SORT + b'{"ie":1}\n' + THEOREM, 4, "no known kind of expressions"),
        (META + META, 2, "no known record"),
        (META + NAME + SORT + b'{"app":{"arg":0,"fn":0},"ie":1\n' + THEOREM, 4, "not JSON"),
        (META + NAME + SORT + THEOREM[:-3], 4, "cut off"),
        (META + NAME + SORT + THEOREM + b'{"ie":1,"strVal":"\xff"}\n', 5, "not UTF-8 (byte 19 of the line)"),
        (META + NAME + b"{\n" + b"\xff\n", 3, "not JSON"),
        (META + b"\xff\n" + b"{\n", 2, "not UTF-8"),
        (META + NAME + SORT + THEOREM + '{"ie":1,"strVal":"é'.encode()[:-1], 5, "not UTF-8"),
    ],
)
def test_malformed_input_is_named(data: bytes, line: int, says: str, depth: bool) -> None:
    found = fault(data, depth=depth)
    assert (found.line, says in found.what) == (line, True), found.what
    assert found.cure


@given(st.integers(0, len(GOOD)), st.booleans())
@settings(max_examples=200, deadline=None)
def test_cut_anywhere_it_fails_unless_whole_lines_are_left(length: int, depth: bool) -> None:
    data = GOOD[:length]
    try:
        figures = read(data, depth=depth)
    except MalformedError:
        return
    assert figures.bytes == length
    assert data.endswith((b"}\n", b"}"))
    assert told(figures) == slowly(data)


@given(st.binary(max_size=300), st.booleans())
@settings(max_examples=300, deadline=None)
def test_noise_never_succeeds(data: bytes, depth: bool) -> None:
    fault(data, depth=depth)
    fault(META + data, depth=depth)


@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255))
@settings(max_examples=300, deadline=None)
def test_a_changed_byte_is_refused_or_counted_as_parsing_does(at: int, byte: int) -> None:
    data = GOOD[:at] + bytes([byte]) + GOOD[at + 1 :]
    try:
        figures = read(data, depth=True)
    except MalformedError:
        return
    assert told(figures) == slowly(data)


def test_depth_of_a_known_export() -> None:
    lines = [
        '{"in":1,"str":{"pre":0,"str":"a"}}',
        '{"il":1,"succ":0}',
        '{"il":2,"max":[1,0]}',
        '{"ie":0,"sort":0}',
        '{"app":{"arg":0,"fn":0},"ie":1}',  # depth 2, 3 nodes
        '{"app":{"arg":1,"fn":1},"ie":2}',  # depth 3, 7 nodes
        '{"app":{"arg":0,"fn":2},"ie":3}',  # depth 4, 9 nodes, 3 arguments in a row
        '{"ie":4,"letE":{"body":3,"name":1,"nondep":false,"type":0,"value":0}}',  # depth 5, 12 nodes
        '{"ie":5,"natVal":"12345"}',
        '{"ie":6,"strVal":"héllo"}',
        '{"def":{"all":[1],"hints":"abbrev","levelParams":[],"name":1,"safety":"safe","type":0,"value":4}}',
    ]
    figures = read(META + "\n".join(lines).encode(), depth=True).depth
    assert figures == export_depth.Depth(
        expression_depth_count=5,
        expression_tree_count=12,
        references_most_count=6,  # expression 0: twice by 1, once by 3, twice by 4, and the type
        spine_longest_count=3,
        level_depth_count=3,
        nat_digits_longest_count=5,
        text_longest_bytes=6,
    )


def test_a_tree_that_no_integer_holds_stops_at_the_largest() -> None:
    lines = [SORT.decode().strip()]
    lines += [f'{{"app":{{"arg":{i},"fn":{i}}},"ie":{i + 1}}}' for i in range(100)]
    data = META + NAME + "\n".join(lines).encode() + b"\n" + THEOREM
    figures = read(data, depth=True).depth
    assert figures is not None
    assert figures.expression_tree_count == 2**63 - 1
    assert figures.expression_depth_count == 101


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b'{"app":{"arg":0,"fn":7},"ie":1}\n', "refers to an expression or level that no line before it holds"),
        (b'{"app":{"arg":-1,"fn":0},"ie":1}\n', "refers to"),
        (b'{"ie":1,"lam":{"binderInfo":"default","body":1,"name":1,"type":0}}\n', "refers to"),
        (b'{"il":1,"succ":5}\n', "refers to"),
        (b'{"app":{"arg":0},"ie":1}\n', "not as the format has it"),
        (b'{"app":{"arg":"0","fn":0},"ie":1}\n', "not as the format has it"),
        (b'{"app":7,"ie":1}\n', "not as the format has it"),
        (b'{"bvar":0,"ie":99999999999}\n', "not as the format has it"),
        (b'{"thm":{"name":1,"type":8,"value":0}}\n', "refers to"),
        (b'{"app":{"arg":0,"fn":0,"ie":1}}\n', "not as the format has it"),
    ],
)
def test_depth_sees_what_counting_does_not(line: bytes, says: str) -> None:
    data = META + NAME + SORT + line + THEOREM
    found = fault(data, depth=True)
    assert (found.line, says in found.what) == (4, True), found.what


def test_running_numbers_may_leave_gaps_and_come_in_any_order() -> None:
    lines = [
        '{"ie":5,"sort":0}',
        '{"app":{"arg":5,"fn":5},"ie":2}',
        '{"il":4,"succ":0}',
        '{"il":2,"succ":4}',
        '{"thm":{"all":[1],"levelParams":[],"name":1,"type":5,"value":2}}',
    ]
    figures = read(META + NAME + "\n".join(lines).encode(), depth=True).depth
    assert figures is not None
    assert (figures.expression_depth_count, figures.level_depth_count) == (2, 3)


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress], ids=["gzip", "zstd"])
def test_a_packed_export_reads_as_the_plain_one(tmp_path: Path, pack: Any) -> None:
    data = generated("church:5000")
    path = tmp_path / "no-telling-name"
    half = len(data) // 2
    path.write_bytes(pack(data[:half]) + pack(data[half:]))  # two members, as pigz and pzstd write
    assert covariates.read(path) == read(data)
    copied = io.BytesIO()
    covariates.read(path, copy=copied.write)
    assert copied.getvalue() == data


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.ZstdCompressor().compress], ids=["gzip", "zstd"])
@pytest.mark.parametrize("spoil", ["cut", "garbage"])
def test_a_damaged_packed_export_is_named(tmp_path: Path, pack: Any, spoil: str) -> None:
    packed = pack(GOOD)
    path = tmp_path / "export.ndjson"
    path.write_bytes(packed[:-9] if spoil == "cut" else packed + b"garbage")
    with pytest.raises(MalformedError, match="cut off" if spoil == "cut" else "damaged") as caught:
        covariates.read(path)
    assert caught.value.line == 0


def test_zeros_behind_a_gzip_stream_are_padding(tmp_path: Path) -> None:
    path = tmp_path / "export.ndjson.gz"
    path.write_bytes(gzip.compress(GOOD) + bytes(600))
    assert covariates.read(path) == read(GOOD)


def test_a_record_of_them_is_flat_whole_numbers_with_every_kind() -> None:
    record = read(GOOD, depth=True).as_record()
    assert all(type(value) is int for value in record.values())
    assert record["export_bytes"] == len(GOOD)
    assert record["export_natVal_count"] == 0
    assert record["export_app_count"] == GOOD.count(b'"app":')
    assert record["export_expression_depth_count"] > 5
    assert all(name.endswith(("_bytes", "_count")) for name in record)


def test_a_line_too_long_is_refused_without_holding_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(covariates, "LINE_BYTES_MAX", 1000)
    long = b'{"ie":1,"strVal":"' + b"x" * 5000 + b'"}\n'
    for cut in (100, 1 << 20):
        with pytest.raises(MalformedError, match="longer than 1000 bytes") as caught:
            read(META + NAME + SORT + long, cut=cut)
        assert caught.value.line == 4


def test_memory_does_not_grow_with_the_input() -> None:
    def peak(n: int) -> int:
        # Not ru_maxrss: a process begins with its parent's there.
        code = (
            "from proofcost.bench_suites import covariates, families\n"
            "reader = covariates.Reader()\n"
            f"families.generate('church', {n}, 0, reader.take)\n"
            "reader.end()\n"
            "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        return int(done.stdout)

    assert peak(50_000) - peak(500) < 6 * 1024, "KiB more for a hundred times the input"
