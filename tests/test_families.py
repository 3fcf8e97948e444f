"""Generated families: valid by the format, the same bytes each time, judged by real kernels as each says."""

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofcost.bench_suites import families
from proofcost.bench_suites.families import FAMILIES, REJECT, FamilyError
from proofcost.bench_suites.families.family import Family

EVERY = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
NAMED = pytest.mark.parametrize("name", families.names())


def generated(name: str, n: int, seed: int = 0) -> bytes:
    out = io.BytesIO()
    families.generate(name, n, seed, out.write)
    return out.getvalue()


def records(name: str, n: int, seed: int = 0) -> list[dict[str, Any]]:
    return [json.loads(line) for line in generated(name, n, seed).splitlines()]


def check_references(found: list[dict[str, Any]]) -> None:
    """Running numbers follow each other; whatever is referred to has been written before; names are declared once."""
    known = {"in": 1, "il": 1, "ie": 0}  # name 0 and level 0 exist without a line
    declared: set[int] = set()
    parameters: set[int] = set()

    def name(number: int) -> None:
        assert 0 <= number < before["in"]

    def level(number: int) -> None:
        assert 0 <= number < before["il"]

    def expression(*numbers: int) -> None:
        assert all(0 <= number < before["ie"] for number in numbers)

    def declare(body: dict[str, Any]) -> None:
        name(body["name"])
        expression(body["type"], *([body["value"]] if "value" in body else []))
        assert set(body["levelParams"]) <= parameters, "a universe is a level before it is a parameter"
        assert body["name"] not in declared
        declared.add(body["name"])

    for line, record in enumerate(found):
        before = dict(known)
        for key in known:
            if key in record:
                assert record[key] == known[key], record
                known[key] += 1
        match record:
            case {"in": _, "str": {"pre": pre}} | {"in": _, "num": {"pre": pre}}:
                name(pre)
            case {"il": _, "param": of}:
                name(of)
                parameters.add(of)
            case {"il": _, "succ": of} | {"ie": _, "sort": of}:
                level(of)
            case {"il": _, "max": [left, right]} | {"il": _, "imax": [left, right]}:
                level(left)
                level(right)
            case {"ie": _, "const": {"name": of, "us": levels}}:
                name(of)
                for one in levels:
                    level(one)
            case {"ie": _, "app": {"fn": function, "arg": argument}}:
                expression(function, argument)
            case {"ie": _, "lam": body} | {"ie": _, "forallE": body}:
                name(body["name"])
                expression(body["type"], body["body"])
            case {"ie": _, "letE": body}:
                name(body["name"])
                expression(body["type"], body["value"], body["body"])
            case {"ie": _, "proj": body}:
                name(body["typeName"])
                expression(body["struct"])
            case {"ie": _, "bvar": _} | {"ie": _, "natVal": _} | {"ie": _, "strVal": _}:
                pass
            case {"def": body} | {"thm": body}:
                assert body["all"] == [body["name"]]
                declare(body)
            case {"quot": body}:
                declare(body)
            case {"inductive": block}:
                for one in (*block["types"], *block["ctors"], *block["recs"]):
                    declare(one)
                for rule in (rule for recursor in block["recs"] for rule in recursor["rules"]):
                    expression(rule["rhs"])
            case {"meta": _}:
                assert line == 0
            case _:
                pytest.fail(f"a record nobody expects: {record}")


def declarations(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [record for record in found if not record.keys() & {"in", "il", "ie", "meta"}]


@NAMED
def test_every_reference_points_back(name: str) -> None:
    family = families.get(name)
    for n in range(family.n_min, family.n_min + 12):
        check_references(records(name, n))
    check_references(records(name, family.small, seed=1))


@NAMED
def test_nothing_is_written_twice(name: str) -> None:
    # An exporter writes each name, level and expression once, and a kernel (nanoda) refuses a second copy.
    family = families.get(name)
    for n in (family.n_min, family.n_min + 1, family.n_min + 7, family.small):
        found = [record for record in records(name, n) if record.keys() & {"in", "il", "ie"}]
        bodies = [json.dumps({k: v for k, v in record.items() if k not in ("in", "il", "ie")}) for record in found]
        assert len(bodies) == len(set(bodies))


@NAMED
def test_keys_stand_in_the_exporter_s_order(name: str) -> None:
    # The exporter sorts them; the quick way of counting (covariates) hangs on it.
    for line in generated(name, families.get(name).n_min + 3).decode().splitlines():
        assert line == json.dumps(json.loads(line), separators=(",", ":"), sort_keys=True, ensure_ascii=False)


@EVERY
@given(data=st.data())
@settings(max_examples=10, deadline=None)
def test_same_name_size_and_seed_give_the_same_bytes(family: Family, data: st.DataObject) -> None:
    n = data.draw(st.integers(family.n_min, family.small))
    seed = data.draw(st.integers(0, 2**64 - 1))
    assert generated(family.name, n, seed) == generated(family.name, n, seed)


@EVERY
def test_a_seed_matters_where_the_family_says_so(family: Family) -> None:
    bodies = {b"".join(generated(family.name, family.small, seed).splitlines()[1:]) for seed in range(4)}
    assert (len(bodies) > 1) is family.seeded


@EVERY
def test_the_twin_differs_in_one_place(family: Family) -> None:
    good = declarations(records(family.name, family.small))
    bad = declarations(records(family.name + REJECT, family.small))
    assert generated(family.name, family.small) != generated(family.name + REJECT, family.small)
    assert len(good) == len(bad)


@EVERY
def test_size_grows_as_it_says(family: Family) -> None:
    """Twice the n gives about 2^exponent times the bytes, once the prelude no longer counts."""
    n = max(family.small, 64)
    first, twice = len(generated(family.name, n)), len(generated(family.name, 2 * n))
    fixed = len(generated(family.name, family.n_min))
    if family.size_exponent == 0:
        assert twice - fixed < 100
    else:
        ratio = (twice - fixed) / (first - fixed)
        assert 2 ** (family.size_exponent - 0.35) <= ratio <= 2 ** (family.size_exponent + 0.35), (first, twice)


@EVERY
def test_a_family_says_what_it_is(family: Family) -> None:
    assert all((family.stresses, family.growth, family.fault))
    assert family.n_min <= family.small <= family.ladder[-1]
    assert list(family.ladder) == sorted(set(family.ladder))
    assert family.n_max is None or family.ladder[-1] <= family.n_max


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("chuch:100", "no family 'chuch'; did you mean church?"),
        ("xyz:100", "there are church"),
        ("church", "church has no size; give church:500, say"),
        ("church:", "not FAMILY:n"),
        ("church:7", "n is 7, and church begins with 8; give church:500, say"),
        ("church:-8", "not FAMILY:n"),
        ("church:100:1:2", "not FAMILY:n"),
        ("church:1e3", "not FAMILY:n"),
        ("church:100:x", "not FAMILY:n"),
        ("church:\u0663\u0663\u0663", "not FAMILY:n"),
        (f"church:100:{2**64}", "give a whole number from 0 to 2^64 - 1"),
    ],
)
def test_what_cannot_be_generated_is_refused_by_name(spec: str, says: str) -> None:
    with pytest.raises(FamilyError) as caught:
        families.parse(spec)
    assert says in str(caught.value)


def test_a_spec_is_told_back_in_full() -> None:
    assert families.parse("church:100").spec == "church:100:0"
    assert families.parse("church-reject:100:7").spec == "church-reject:100:7"
    assert families.parse("church-reject:100:7").expected == "reject"
    assert families.parse("church:100").expected == "accept"


HOLDS_N_THINGS = {"nat-digits", "strings", "universe-max", "universe-imax", "structure-eta", "function-eta"}
"""One declaration of these has n parts that are all alive at once, so their generator has to hold n of something."""


@pytest.mark.slow
@EVERY
def test_memory_does_not_grow_with_n(family: Family) -> None:
    """Some 8 MB of export against the smallest one, in processes of their own."""
    if family.size_exponent == 0 or family.name in HOLDS_N_THINGS:
        pytest.skip("the export does not grow, or its declarations do")
    n = family.small
    while len(generated(family.name, n)) < 1_000_000:
        n *= 2
    n *= 8 if family.size_exponent == 1 else 3
    grown = peak_bytes(family.name, min(n, family.n_max or n)) - peak_bytes(family.name, family.n_min)
    assert grown < 6 << 20, f"{grown} bytes more for n {n}"


def peak_bytes(name: str, n: int) -> int:
    # Not ru_maxrss: a process begins with its parent's there.
    code = (
        "from proofcost.bench_suites import families\n"
        f"families.generate({name!r}, {n}, 0, len)\n"
        "print(next(line for line in open('/proc/self/status') if line.startswith('VmHWM')).split()[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout) * 1024


def config_of(folder: Path, export: Path, *, extensions: bool = True) -> Path:
    config = folder / "config.json"
    told = {
        "export_file_path": str(export),
        "use_stdin": False,
        "permitted_axioms": [],
        "unpermitted_axiom_hard_error": True,
        "nat_extension": extensions,
        "string_extension": extensions,
        "print_success_message": True,
    }
    config.write_text(json.dumps(told))
    return config


def kernels_count(found: list[dict[str, Any]]) -> int:
    """Declarations as kernels count them: constructors and recursors too."""
    count = 0
    for record in declarations(found):
        block = record.get("inductive")
        count += 1 if block is None else sum(len(block[part]) for part in ("types", "ctors", "recs"))
    return count


QUIET = {"RUST_BACKTRACE": "0"}
"""A panic is how both say no; looking up its frames would take longer than the check."""
WRONGLY_ACCEPTED = {("sokonanoda", "many"), ("sokonanoda", "binders")}
"""Twins that a kernel lets pass. sokonanoda 0.5.0 takes `fun x => e` for a proof of `(x : A) -> e`: it compares the two
bodies as they are written, and forgets that of the one it is the type that counts. So it proves anything."""


@pytest.mark.real
@EVERY
@pytest.mark.parametrize(("kernel", "rejects"), [("nanoda", 101), ("sokonanoda", 1)])
def test_real_kernels_say_of_it_what_it_says(
    request: pytest.FixtureRequest, tmp_path: Path, family: Family, kernel: str, rejects: int
) -> None:
    program: Path = request.getfixturevalue(kernel)
    export = tmp_path / "export.ndjson"
    config = config_of(tmp_path, export)
    orders = [(n, 0) for n in (family.n_min, family.n_min + 1, family.n_min + 6, family.small)]
    orders += [(family.small, 12345)] if family.seeded else []
    for name, expected in ((family.name, 0), (family.name + REJECT, rejects)):
        for n, seed in orders:
            export.write_bytes(generated(name, n, seed))
            done = subprocess.run([program, config], capture_output=True, text=True, check=False, env=QUIET)
            if expected and (kernel, family.name) in WRONGLY_ACCEPTED:
                assert done.returncode in (0, expected), (name, n, seed, done)
            else:
                assert done.returncode == expected, (name, n, seed, done)
            if expected == 0:
                assert f"Checked {kernels_count(records(name, n, seed))} declarations" in done.stdout, done


@pytest.mark.real
@EVERY
@pytest.mark.parametrize(("kernel", "declines"), [("nanoda", 1), ("sokonanoda", 2)])
def test_extensions_are_needed_where_it_says_so_and_only_there(
    request: pytest.FixtureRequest, tmp_path: Path, family: Family, kernel: str, declines: int
) -> None:
    program: Path = request.getfixturevalue(kernel)
    export = tmp_path / "export.ndjson"
    export.write_bytes(generated(family.name, family.small))
    config = config_of(tmp_path, export, extensions=False)
    done = subprocess.run([program, config], capture_output=True, text=True, check=False, env=QUIET)
    assert done.returncode == (declines if family.needs else 0), done
    assert ("literal" in done.stdout + done.stderr) is bool(family.needs), done
