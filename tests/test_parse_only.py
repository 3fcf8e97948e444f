"""The parse-only control: counts what is there, and never succeeds on what is no export."""

import gzip
import io
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofcost.bench_suites import families, parse_only

SCRIPT = Path(__file__).parents[1] / "bench_suites" / "parse_only.py"


def generated(spec: str) -> bytes:
    out = io.BytesIO()
    families.parse(spec).write(out.write)
    return out.getvalue()


GOOD = generated("church:8")
META = GOOD.splitlines(keepends=True)[0]
THEOREM = b'{"thm":{"all":[1],"levelParams":[],"name":1,"type":0,"value":1}}\n'


def run(argument: str, *, given_stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-I", "-S", str(SCRIPT), argument], input=given_stdin, capture_output=True, check=False
    )


def fault(data: bytes) -> parse_only.MalformedError:
    with pytest.raises(parse_only.MalformedError) as caught:
        parse_only.read_export(io.BytesIO(data))
    return caught.value


def test_counts_every_kind(tmp_path: Path) -> None:
    path = tmp_path / "export.ndjson"
    path.write_bytes(GOOD)
    done = run(str(path))
    assert done.returncode == 0, done
    assert done.stdout.decode().splitlines()[0] == (
        f"parse-only control: checks nothing; 8 declarations, 67 expressions, 19 names, 3 levels, "
        f"98 lines, {len(GOOD)} bytes"
    )
    assert done.stderr == b""


def test_reads_stdin() -> None:
    done = run("-", given_stdin=GOOD)
    assert done.returncode == 0
    assert done.stdout.startswith(b"parse-only control: checks nothing;")


def test_every_kind_of_the_format_is_known() -> None:
    records = (
        b'{"in":1,"str":{"pre":0,"str":"a"}}',
        b'{"in":2,"num":{"i":0,"pre":1}}',
        *(b'{"il":1,"%s":0}' % kind for kind in (b"succ", b"max", b"imax", b"param")),
        *(b'{"ie":0,"%s":{}}' % kind.encode() for kind in sorted(parse_only.BODIES["ie"])),
        *(b'{"%s":{}}' % kind.encode() for kind in parse_only.DECLARATIONS),
    )
    tally = parse_only.read_export(io.BytesIO(META + b"\n".join(records)))
    assert (tally.names_count(), tally.levels_count(), tally.expressions_count()) == (2, 4, 11)
    assert tally.declarations_count() == len(parse_only.DECLARATIONS)
    assert set(tally.kinds.values()) == {1}


@pytest.mark.parametrize(
    ("data", "line", "says"),
    [
        (b"", 0, "empty"),
        (META, 0, "no declaration"),
        (META + b'{"in":1,"str":{"pre":0,"str":"a"}}\n', 0, "no declaration in 2 lines"),
        (THEOREM, 1, "meta"),
        (b"\n", 1, "not JSON"),
        (b"1\n", 1, "a JSON int"),
        (b'{"meta":3}\n' + THEOREM, 1, "meta"),
        (b'{"meta":{}}\n' + THEOREM, 1, "does not say which format version"),
        (META.replace(b"3.1.0", b"4.0.0") + THEOREM, 1, "format version '4.0.0', not 3.x"),
        (META.replace(b'"3.1.0"', b"3") + THEOREM, 1, "does not say which format version"),
        (META + META + THEOREM, 2, "no known record"),
        (META + b"\n" + THEOREM, 2, "not JSON"),
        (META + b"[]\n", 2, "a JSON list"),
        (META + b"{}\n", 2, "an empty object"),
        (META + b'{"thm":{},"def":{}}\n', 2, "no known record"),
        (META + b'{"theorem":{}}\n', 2, "theorem"),
        (META + b'{"ie":0,"lambda":{}}\n', 2, "no known kind of expressions"),
        (META + b'{"ie":0}\n', 2, "no known kind of expressions"),
        (META + b'{"ie":0,"bvar":0,"sort":0}\n', 2, "no known kind of expressions"),
        (META + b'{"ie":-1,"bvar":0}\n', 2, "not a running number"),
        (META + b'{"ie":1.0,"bvar":0}\n', 2, "not a running number"),
        (META + b'{"ie":true,"bvar":0}\n', 2, "not a running number"),
        (META + b'{"in":"1","str":{}}\n', 2, "not a running number"),
        (META + THEOREM + b"\xff\xfe\n", 3, "not UTF-8 (byte 1 of the line)"),
        (META + THEOREM.decode().encode("utf-16-le"), 2, "not JSON"),
        (META + THEOREM + b"\0\n", 3, "not JSON"),
        (META + b"[" * 200_000 + b"\n", 2, "nested too deeply"),
        (META + b'{"ie":' + b"9" * 5000 + b',"bvar":0}\n', 2, "not JSON"),
        (GOOD[:-20], 98, "cut off"),
        (gzip.compress(GOOD), 1, "gunzip"),
        (b"\x28\xb5\x2f\xfd\x04", 1, "zstd -dc"),
        (b"0 #NS 0 Nat\n1 #NS 0 succ\n", 1, "not JSON"),
    ],
)
def test_malformed_input_is_named(data: bytes, line: int, says: str) -> None:
    found = fault(data)
    assert found.line == line
    assert says in f"{found.what}; {found.cure}"


@pytest.mark.parametrize(
    ("data", "where"), [(b"", ": empty;"), (META + b"{\n", ":2: not JSON"), (GOOD[:-20], ":98: not JSON")]
)
def test_malformed_input_exits_3_with_one_line(tmp_path: Path, data: bytes, where: str) -> None:
    path = tmp_path / "export.ndjson"
    path.write_bytes(data)
    done = run(str(path))
    assert done.returncode == 3
    assert done.stdout == b""
    assert done.stderr.startswith(f"parse_only: {path}{where}".encode())
    assert done.stderr.count(b"\n") == 1


def test_line_too_long_is_refused_without_holding_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse_only, "LINE_BYTES_MAX", 1000)
    assert "longer than 1000 bytes" in fault(META + b" " * 2000 + b"\n").what


@pytest.mark.parametrize("argument", ["/nonexistent/export", "/", "", "--help"])
def test_what_cannot_be_opened_is_exit_2(argument: str) -> None:
    done = run(argument)
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.startswith(b"parse_only: ")
    assert done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("redirect", [">/dev/full", ">&-"])
def test_unwritable_stdout_is_no_success(tmp_path: Path, redirect: str) -> None:
    path = tmp_path / "export.ndjson"
    path.write_bytes(GOOD)
    done = subprocess.run(
        f'"{sys.executable}" -I -S "{SCRIPT}" "{path}" {redirect}', shell=True, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert b"cannot write to stdout" in done.stderr


def test_closed_stdin_is_no_success() -> None:
    done = subprocess.run(f'"{sys.executable}" -I -S "{SCRIPT}" - <&-', shell=True, capture_output=True, check=False)
    assert done.returncode == 2


@given(st.integers(0, len(GOOD)))
def test_cut_anywhere_it_fails_unless_a_declaration_is_whole(length: int) -> None:
    data = GOOD[:length]
    try:
        tally = parse_only.read_export(io.BytesIO(data))
    except parse_only.MalformedError:
        return
    # A cut between two lines cannot be seen; whatever it accepts has whole lines and at least one declaration.
    assert tally.bytes == length
    assert tally.declarations_count() >= 1
    assert data.endswith((b"}\n", b"}"))


@given(st.binary(max_size=200))
def test_noise_never_succeeds(data: bytes) -> None:
    fault(data)
    fault(META + data)


def test_memory_does_not_grow_with_the_input(tmp_path: Path) -> None:
    def peak(n: int) -> int:
        path = tmp_path / f"{n}.ndjson"
        with path.open("wb") as file:
            families.generate("church", n, 0, file.write)
        # Not ru_maxrss: a process begins with its parent's there.
        code = "import runpy, sys; sys.argv[:1] = []\ntry: runpy.run_path(sys.argv[0], run_name='__main__')\n"
        code += (
            "except SystemExit as e: print(e.code, *[x.split()[1] for x in open('/proc/self/status') if 'VmHWM' in x])"
        )
        done = subprocess.run(
            [sys.executable, "-I", "-c", code, str(SCRIPT), str(path)], capture_output=True, text=True, check=True
        )
        status, peak_kib = done.stdout.splitlines()[-1].split()
        assert status == "0"
        return int(peak_kib)

    assert peak(20_000) - peak(200) < 2048, "KiB more for a hundred times the input"


def test_parts_of_ours_are_not_imported() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-X", "importtime", str(SCRIPT), "-"], input=GOOD, capture_output=True, check=True
    )
    imported = {line.rsplit(b"|", 1)[1].strip() for line in done.stderr.splitlines() if b"|" in line}
    assert not imported & {b"proofcost", b"argparse", b"typing", b"dataclasses", b"subprocess"}
