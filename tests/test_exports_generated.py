"""The generated workload: valid by the format's rules, the size asked for, and judged as it says by real kernels."""

import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofcost.bench_suites.generate_export import N_MIN, PRELUDE_COUNT, export_lines

SCRIPT = Path(__file__).parents[1] / "bench_suites" / "generate_export.py"
BODIES = {"bvar", "sort", "const", "app", "lam", "forallE"}

sizes = st.integers(N_MIN, 400)
works = st.integers(1, 12)


def records(n: int, **keys: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in export_lines(n, **keys)]


def declarations(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [body for record in found for kind, body in record.items() if kind in ("def", "thm")]


@given(sizes, works, st.booleans())
def test_has_exactly_n_declarations(n: int, work: int, fault: bool) -> None:
    assert len(declarations(records(n, work=work, fault=fault))) == n


@given(sizes, works)
def test_every_reference_points_back(n: int, work: int) -> None:
    """Running numbers follow each other; whatever is referred to has been written before; names are declared once."""
    known = {"in": 1, "il": 1, "ie": 0}  # name 0 and level 0 exist without a line
    declared: set[int] = set()
    for record in records(n, work=work):
        before = dict(known)
        for kind in known:
            if kind in record:
                assert record[kind] == known[kind]
                known[kind] += 1

        match record:
            case {"in": _, "str": {"pre": pre}} | {"in": _, "num": {"pre": pre}} | {"il": _, "param": pre}:
                assert 0 <= pre < before["in"]
            case {"il": _, "succ": level} | {"ie": _, "sort": level}:
                assert 0 <= level < before["il"]
            case {"ie": _, "const": {"name": name, "us": levels}}:
                assert name in declared
                for level in levels:
                    assert 0 <= level < before["il"]
            case {"ie": _, "app": {"fn": function, "arg": argument}}:
                assert 0 <= function < before["ie"]
                assert 0 <= argument < before["ie"]
            case {"ie": _, "lam": body} | {"ie": _, "forallE": body}:
                assert 0 <= body["name"] < before["in"]
                assert 0 <= body["type"] < before["ie"]
                assert 0 <= body["body"] < before["ie"]
            case {"def": body} | {"thm": body}:
                assert body["all"] == [body["name"]]
                assert 0 <= body["name"] < before["in"]
                assert 0 <= body["type"] < before["ie"]
                assert 0 <= body["value"] < before["ie"]
                assert body["name"] not in declared
                declared.add(body["name"])
            case {"ie": _, "bvar": _} | {"meta": _}:
                pass
            case _:
                pytest.fail(f"a record nobody expects: {record}")


@given(sizes, works)
def test_no_expression_is_written_twice(n: int, work: int) -> None:
    # An exporter writes each once, and a kernel (nanoda) refuses a second copy.
    bodies = [
        json.dumps({k: v for k, v in record.items() if k != "ie"}) for record in records(n, work=work) if "ie" in record
    ]
    assert len(bodies) == len(set(bodies))


@given(sizes, works)
def test_same_arguments_give_the_same_bytes(n: int, work: int) -> None:
    assert list(export_lines(n, work=work)) == list(export_lines(n, work=work))


@given(sizes, works)
def test_faulty_twin_differs_in_the_last_theorem_only(n: int, work: int) -> None:
    good, bad = declarations(records(n, work=work)), declarations(records(n, work=work, fault=True))
    assert [d["name"] for d in good] == [d["name"] for d in bad]
    lines, twin = list(export_lines(n, work=work)), list(export_lines(n, work=work, fault=True))
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(lines, twin, strict=False)))
    assert sum('{"thm"' in line or '{"def"' in line for line in lines[:same]) == n - 1
    assert lines != twin


@pytest.mark.parametrize(("n", "work"), [(N_MIN - 1, 7), (0, 7), (-3, 7), (100, 0)])
def test_arguments_out_of_range_are_refused_by_name(n: int, work: int) -> None:
    with pytest.raises(ValueError, match=r"give --(n|work) \d+ or more"):
        next(export_lines(n, work=work))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-I", "-S", str(SCRIPT), *arguments], capture_output=True, text=True, check=False
    )


def test_command_line_writes_a_file_and_stdout_alike(tmp_path: Path) -> None:
    path = tmp_path / "out.ndjson"
    assert run("--n", "50", "--out", str(path)).returncode == 0
    assert path.read_text() == run("--n", "50").stdout == "".join(export_lines(50))
    assert os.listdir(tmp_path) == ["out.ndjson"]


@pytest.mark.parametrize(
    ("arguments", "status", "says"),
    [
        (("--n", "3"), 2, f"give --n {N_MIN} or more"),
        (("--n", "many"), 2, "invalid int"),
        (("--out", "/nonexistent/directory/x"), 1, "name a writable path"),
    ],
)
def test_bad_arguments(arguments: tuple[str, ...], status: int, says: str) -> None:
    done = run(*arguments)
    assert done.returncode == status
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_refused_arguments_leave_no_file(tmp_path: Path) -> None:
    assert run("--n", "3", "--out", str(tmp_path / "x")).returncode == 2
    assert os.listdir(tmp_path) == []


def test_reader_that_goes_away_is_no_traceback() -> None:
    done = subprocess.run(
        f'"{sys.executable}" -I -S "{SCRIPT}" --n 20000 | head -1',
        shell=True,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""


@pytest.mark.real
@pytest.mark.parametrize(("kernel", "rejects"), [("nanoda", 101), ("sokonanoda", 1)])
@pytest.mark.parametrize("n", [N_MIN, N_MIN + 1, PRELUDE_COUNT + 40, 500])
@pytest.mark.parametrize("work", [1, 2, 7])
def test_real_kernels_accept_it_and_reject_the_twin(
    request: pytest.FixtureRequest, tmp_path: Path, kernel: str, rejects: int, n: int, work: int
) -> None:
    program: Path = request.getfixturevalue(kernel)
    export, config = tmp_path / "export.ndjson", tmp_path / "config.json"
    settings_of_kernel = {
        "export_file_path": str(export),
        "use_stdin": False,
        "permitted_axioms": [],
        "unpermitted_axiom_hard_error": True,
        "nat_extension": True,
        "string_extension": True,
        "print_success_message": True,
    }
    config.write_text(json.dumps(settings_of_kernel))
    for fault, status in ((False, 0), (True, rejects)):
        export.write_text("".join(export_lines(n, work=work, fault=fault)))
        done = subprocess.run([program, config], capture_output=True, text=True, check=False)
        assert done.returncode == status, done
        assert (f"Checked {n} declarations" in done.stdout) is not fault, done


@settings(max_examples=5, deadline=None)
@given(st.integers(N_MIN, 3000))
def test_lines_grow_with_n_and_no_faster(n: int) -> None:
    assert 5 * n <= sum(1 for _ in export_lines(n)) <= 12 * n + 80
