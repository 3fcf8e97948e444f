"""What environment a bench's kernels get, that it is recorded and parted by, and what is said where it does not do."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from benching import PROOFCOST, Bench, export, kernel, script

from proofcost.bench_suites import demo_judge, environment
from proofcost.bench_suites.output import Output

TELL = "#!/bin/sh\nenv | sort > {place}/env-$$.txt\n"
SUITE = """
repetitions = 2
warmups = 0
env = { OF_ALL = "all", BOTH = "all" }
[[kernel]]
name = "a"
command = "./a"
env = { OF_A = "a b", BOTH = "a" }
[[kernel]]
name = "b"
command = "./b"
[[workload]]
path = "exports/one.ndjson"
"""


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    for name in ("a", "b"):
        (tmp_path / f"of-{name}").mkdir()
        script(tmp_path / name, TELL.format(place=tmp_path / f"of-{name}"))
    export(tmp_path / "exports" / "one.ndjson")
    return Bench(tmp_path)


def seen(bench: Bench, name: str) -> dict[str, str]:
    """What the first turn of a kernel had, without what the shell adds."""
    text = min((bench.folder / f"of-{name}").glob("env-*.txt")).read_text()
    found = dict(line.split("=", 1) for line in text.splitlines())
    return {name: value for name, value in found.items() if name not in ("PWD", "OLDPWD", "SHLVL", "_")}


def digests(bench: Bench) -> dict[str, set[Any]]:
    found: dict[str, set[Any]] = {}
    for record in bench.records():
        found.setdefault(kernel(record), set()).add(record.started["bench"]["settings_sha256"])
    return found


def test_a_kernel_gets_nothing_of_the_callers_environment_but_path_and_home(bench: Bench) -> None:
    noise = [("RUST_BACKTRACE", "1"), ("PROOFCOST_STORE", "/nowhere"), ("LC_ALL", "POSIX")]
    assert bench("a=./a", "--on", "exports", "-r", 2, env=noise).status == 0
    got = seen(bench, "a")
    assert os.path.dirname(got.pop("TMPDIR")) != ""
    assert got == {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "LANG": "C.UTF-8"}
    assert [record.started["bench"]["environment"] for record in bench.records()] == [{}] * len(bench.records())
    assert digests(bench) == {"a": {None}}


def test_a_kernels_tmpdir_is_the_turns_own_folder_and_goes_with_it(bench: Bench) -> None:
    script(bench.folder / "a", f'#!/bin/sh\n[ "$TMPDIR" = "$PWD" ] && mktemp > {bench.folder}/made\n')
    assert bench("a=./a", "--on", "exports", "-r", 2).status == 0
    made = Path((bench.folder / "made").read_text().strip())
    assert made.name
    assert not made.parent.exists()


def test_what_is_named_is_given_recorded_and_part_of_the_settings(bench: Bench) -> None:
    words = ("a=./a", "--on", "exports", "-r", 2)
    bench(*words)
    done = bench(*words, "--env", "RUST_BACKTRACE=1", "--env", "X=a=b")
    assert done.status == 0
    named = {"RUST_BACKTRACE": "1", "X": "a=b"}
    told = [record.started["bench"]["environment"] for record in bench.records()]
    assert [one for one in told if one] == [named] * 3
    assert len(told) == 6
    assert len(digests(bench)["a"]) == 2  # so no report pools them
    argv = [PROOFCOST, "show", "last", "--store", str(bench.store)]
    shown = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    assert "environment  a: RUST_BACKTRACE=1  X=a=b\n" in shown
    bench(*words, "--env", "RUST_BACKTRACE=2", "--env", "X=a=b")
    assert len(digests(bench)["a"]) == 3


def test_a_suite_names_them_for_all_and_for_one_and_the_call_goes_before_both(bench: Bench) -> None:
    (bench.folder / "s.toml").write_text(SUITE)
    assert bench("s.toml").status == 0
    assert seen(bench, "a").items() >= {"OF_ALL": "all", "OF_A": "a b", "BOTH": "a"}.items()
    assert seen(bench, "b").items() >= {"OF_ALL": "all", "BOTH": "all"}.items()
    assert "OF_A" not in seen(bench, "b")
    planned = bench("s.toml", "--env", "BOTH=call", "--dry-run").stdout
    assert "environment: OF_ALL=all BOTH=call OF_A='a b'" in planned


def test_another_environment_is_another_plan(bench: Bench) -> None:
    words = ("a=./a", "--on", "exports", "-r", 2)
    bench(*words, "--env", "X=1")
    done = bench(*words, "--env", "X=2", "--resume")
    assert (done.status, "was of another plan" in done.stderr) == (2, True)
    assert bench(*words, "--env", "X=1", "--resume").status == 0
    assert len(bench.records()) == 3


def test_a_sandbox_lets_through_what_was_named(bench: Bench, landrun: Path) -> None:
    script(bench.folder / "a", '#!/bin/sh\n[ "$X" = 1 ] && [ -z "$Y" ]\n')
    environment = [("Y", "1"), ("PROOFCOST_LANDRUN", str(landrun))]
    done = bench("a=./a", "--on", "exports", "-r", 2, "--sandbox", "landrun", "--env", "X=1", env=environment)
    assert (done.status, done.stdout.count("accepted")) == (0, 1), done


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("X", "--env 'X': not of the form NAME=VALUE"),
        ("=1", "--env '': no variable's name"),
    ],
)
def test_what_is_no_variable_is_refused(bench: Bench, word: str, complaint: str) -> None:
    done = bench("a=./a", "--on", "exports", "--env", word)
    assert (done.status, done.stderr.count("\n")) == (2, 1)
    assert complaint in done.stderr


def test_what_no_environment_can_hold_is_refused_in_a_suite(bench: Bench) -> None:
    (bench.folder / "s.toml").write_text(SUITE.replace('OF_A = "a b"', '"O=A" = "1"'))
    done = bench("s.toml")
    assert (done.status, done.stderr.count("\n")) == (2, 1)
    assert "s.toml" in done.stderr
    assert "no variable's name" in done.stderr


def test_a_kernel_whose_library_only_the_callers_environment_led_to_says_so(bench: Bench, tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("gcc is not here")
    (tmp_path / "lib").mkdir()
    (tmp_path / "odd.c").write_text("int odd(void) { return 0; }\n")
    (tmp_path / "main.c").write_text("int odd(void);\nint main(void) { return odd(); }\n")
    library = tmp_path / "lib" / "libodd.so"
    subprocess.run([compiler, "-shared", "-o", library, tmp_path / "odd.c"], check=True)
    subprocess.run([compiler, "-o", tmp_path / "k", tmp_path / "main.c", "-L", library.parent, "-lodd"], check=True)
    led = ("LD_LIBRARY_PATH", str(library.parent))
    done = bench("k=./k", "--on", "exports", "-r", 2, env=[led])
    assert "it could not start: the shared library libodd.so is not found" in done.stderr
    assert "--env LD_LIBRARY_PATH=" in done.stderr
    assert "accepted" not in done.stdout
    assert bench("k=./k", "--on", "exports", "-r", 2, "--env", "=".join(led)).stdout.count("accepted") == 1


def test_the_demos_calls_see_as_little(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RUST_BACKTRACE", "1")
    judge = demo_judge.Judge(tmp_path, None, demo_judge.Sandbox("none"))
    call = demo_judge.Call(command=("/usr/bin/env",), directory=tmp_path)
    status, text = judge.run("checker", call, pipes=True)
    names = {line.partition("=")[0] for line in text.decode().splitlines()}
    assert status == 0
    assert names <= {"PATH", "HOME", "TMPDIR", "LANG", "LEAN_PATH"}
    assert {"PATH", "LANG"} <= names


def test_a_version_is_asked_for_in_the_same_environment(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from proofcost.bench_suites import registry
    from proofcost.bench_suites.kernel import version_of

    monkeypatch.setenv("NOISE", "1")
    asked = script(bench.folder / "v", '#!/bin/sh\necho "v$NOISE$X"\n')
    entry = registry.Convention("k", version=("-V",))
    assert version_of(entry, [str(asked)]) == "v"
    assert version_of(entry, [str(asked)], {"X": "2"}) == "v2"


def test_the_environment_of_all_holds_what_its_page_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VALGRIND_LIB", "/v")
    assert set(environment.base("/t")) == {"PATH", "HOME", "LANG", "TMPDIR"}
    assert environment.base("/t", environment.COUNTING)["VALGRIND_LIB"] == "/v"


@pytest.mark.parametrize(
    ("printed", "reason"),
    [
        (b"It expects a config file.\n\nrun with `-h` or `--help` for help\n", "It expects a config file."),
        (b"error: no such file\n\nUsage: k [OPTIONS]\n\nOptions:\n  -v  verbose\n", "error: no such file"),
        (b"thread 'main' panicked at src/a.rs:1:2:\nno such name\nnote: run with `RUST_BACKTRACE=1`\n", "no such name"),
        (b"Traceback (most recent call last):\n  File x\nValueError: bad\n", "ValueError: bad"),
        (b"first\nlast\n\n", "last"),
        (b"errors were 0\ndone\n", "done"),
        (b"see --help\n", "see --help"),
        (b"", ""),
        (b"error: early\n" + b"x\n" * 9000 + b"the end\n", "error: early"),
    ],
)  # fmt: skip
def test_the_line_that_tells_why(printed: bytes, reason: str) -> None:
    reading, writing = os.pipe()
    output = Output(reading)
    try:
        with os.fdopen(writing, "wb", buffering=0) as pipe:
            pipe.write(printed)
        output.drain()
        assert output.reason() == reason
    finally:
        output.close()


def test_a_failure_is_told_by_its_reason_and_its_call(bench: Bench) -> None:
    text = '#!/bin/sh\necho "no axioms" >&2\necho "run with --help for help" >&2\nexit 77\n'
    script(bench.folder / "a", text)
    done = bench("a=./a", "--on", "exports", "-r", 2)
    (line,) = [line for line in done.stderr.splitlines() if "a on one: " in line]
    first = bench.records()[0].started["invocation"]
    assert line.endswith(f": no axioms; proofcost show {first}")
