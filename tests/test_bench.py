"""`proofcost bench`, the one line: what is run in which order, what is recorded of it, what is shown and returned."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from benching import ACCEPT, PATIENCE_S, PROOFCOST, REJECT, Bench, export, kernel, script, sequence, work

COUNTED = re.compile(r"^ *(\S.*?)?  +(\S+) +(\d+) ")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    script(tmp_path / "yes", ACCEPT)
    script(tmp_path / "no", REJECT)
    export(tmp_path / "exports" / "one.ndjson", "church:8")
    export(tmp_path / "exports" / "two.ndjson", "church:20")
    return Bench(tmp_path)


def test_two_kernels_on_a_folder_run_in_mirrored_blocks(bench: Bench) -> None:
    done = bench("a=./yes", "b=./yes", "--on", "exports/", "-r", 4)
    assert (done.status, done.stdout.count("accepted")) == (0, 4)
    records = bench.records()
    assert len(records) == 2 * 2 * (4 + 1)
    warm = [record for record in records if record.started["ids"]["warmup"]]
    assert [(kernel(record), work(record)) for record in warm] == [
        ("a", "one"),
        ("b", "one"),
        ("a", "two"),
        ("b", "two"),
    ]
    blocks: dict[int, list[tuple[int, str, str]]] = {}
    for record in records:
        ids = record.started["ids"]
        if not ids["warmup"]:
            blocks.setdefault(ids["block"], []).append((ids["order"], kernel(record), work(record)))
        else:
            assert (ids["block"], ids["order"]) == (None, None)
    assert blocks == {
        1: [(1, "a", "one"), (2, "b", "one"), (3, "b", "one"), (4, "a", "one")],
        2: [(1, "a", "two"), (2, "b", "two"), (3, "b", "two"), (4, "a", "two")],
        3: [(1, "b", "one"), (2, "a", "one"), (3, "a", "one"), (4, "b", "one")],
        4: [(1, "b", "two"), (2, "a", "two"), (3, "a", "two"), (4, "b", "two")],
    }
    mine = [record.started["ids"]["iteration"] for record in records if (kernel(record), work(record)) == ("a", "two")]
    assert mine == [1, 1, 2, 3, 4]


def test_records_start_in_the_order_of_the_plan_and_never_overlap(bench: Bench) -> None:
    bench("a=./yes", "b=./yes", "--on", "exports/", "-r", 2)
    ended = 0
    for record in bench.records():
        assert record.finished is not None
        assert record.started["clocks"]["monotonic_ns"] > ended
        ended = record.finished["clocks"]["monotonic_ns"]


def test_a_record_holds_what_was_planned(bench: Bench) -> None:
    bench("a=./yes", "b=./yes", "--on", "exports/", "-r", 2, "-l", "why=test", "--timeout", "90s", "--save", "monday")
    records = bench.records()
    first = records[0].started
    assert (first["phase"]["understood"], first["phase"]["known_by"]) == ("checker", "bench")
    assert first["meter"]["entrance"] == "bench"
    assert first["labels"] == {"why": "test", "saved": "monday"}
    assert first["limits"]["timeout_ns"] == 90 * 10**9
    assert first["limits"]["rlimits"]["fsize"] == {"soft": 10**9, "hard": 10**9}
    assert first["target"]["path"] == str(bench.folder / "yes")
    planned = first["bench"]
    assert (planned["suite"], planned["turn"], planned["part"], planned["shard"]) == ("a+b", 0, 1, None)
    assert planned["workload"]["path"] == str(bench.folder / "exports" / "one.ndjson")
    assert planned["workload"]["size_bytes"] == (bench.folder / "exports" / "one.ndjson").stat().st_size
    assert planned["covariates"]["export_bytes"] == planned["workload"]["size_bytes"]
    assert planned["covariates"]["export_declarations_count"] == 8
    assert planned["exit_codes"] == {"0": "accepted", "2": "declined"}
    assert len({record.started["bench"]["plan_sha256"] for record in records}) == 1
    assert len({record.started["session"] for record in records}) == 1


def test_a_kernel_gets_the_exports_path_last_and_nothing_on_stdin(bench: Bench) -> None:
    script(bench.folder / "look", f'#!/bin/sh\necho "$#:$1:$2:$(cat | wc -c)" >> {bench.folder}/seen\n')
    bench("a=./look --flag", "--on", "exports/one.ndjson", "-r", 1, "--warmups", 0)
    assert (bench.folder / "seen").read_text() == f"2:--flag:{bench.folder}/exports/one.ndjson:0\n"


def test_braces_say_where_the_export_goes(bench: Bench) -> None:
    script(bench.folder / "look", f'#!/bin/sh\necho "$@" >> {bench.folder}/seen\n')
    bench(
        "a=./look --in={export} -j{threads} last", "--on", "exports/one.ndjson", "-r", 1, "--warmups", 0, "--threads", 3
    )
    assert (bench.folder / "seen").read_text() == f"--in={bench.folder}/exports/one.ndjson -j3 last\n"
    assert bench.records()[0].started["kernel"]["threads_count"] == 3


def test_a_program_called_like_a_known_kernel_is_called_like_it(bench: Bench) -> None:
    script(
        bench.folder / "nanoda-a",
        f'#!/bin/sh\n[ $1 = --help ] && {{ echo "nanoda_bin 9.9"; exit 101; }}\ncat $1 >> {bench.folder}/seen\n',
    )
    bench("old=./nanoda-a", "--on", "exports/one.ndjson", "-r", 1, "--warmups", 0, "--threads", 2)
    config = json.loads((bench.folder / "seen").read_text())
    assert config == {
        "use_stdin": False,
        "export_file_path": str(bench.folder / "exports" / "one.ndjson"),
        "unsafe_permit_all_axioms": True,
        "unpermitted_axiom_hard_error": False,
        "nat_extension": True,
        "string_extension": True,
        "num_threads": 2,
    }
    planned = bench.records()[0].started["bench"]
    assert (planned["convention"], planned["version"]) == ("nanoda", "9.9")
    assert planned["exit_codes_known_by"] == "nanoda as documented, version 9.9, which nobody tried"
    assert "101" not in planned["exit_codes"]


def test_the_table_has_a_line_for_each_cell_and_a_ratio_to_the_first(bench: Bench) -> None:
    script(bench.folder / "slow", "#!/bin/sh\nsleep 0.2\n")
    script(bench.folder / "slower", "#!/bin/sh\nsleep 0.4\n")
    done = bench("a=./slow", "b=./slower", "--on", "exports/one.ndjson", "-r", 12, "--warmups", 0)
    rows = [line for line in done.stdout.splitlines() if "accepted" in line]
    assert len(rows) == 2
    assert re.search(r" a +12 .* 1  accepted$", rows[0])
    found = re.search(r" b +12 .* (\d\.\d+) \[(\d\.\d+) \.\. (\d\.\d+)\]  accepted$", rows[1])
    assert found, rows[1]
    ratio, low, high = map(float, found.groups())
    assert low <= ratio <= high
    assert ratio > 1


def test_a_disagreement_shouts_and_is_a_finding(bench: Bench) -> None:
    registry = bench.folder / "mine.toml"
    registry.write_text('[strict]\nprograms = ["no"]\nmatches = ["no"]\nexit = { 0 = "accepted", 1 = "rejected" }\n')
    done = bench("a=./yes", "b=./no", "--on", "exports/one.ndjson", "-r", 2, "--kernels", registry)
    assert done.status == 1
    assert "KERNELS DISAGREE: one: a accepted, b rejected" in done.stdout
    assert "KERNELS DISAGREE: one: a accepted, b rejected" in done.stderr, "at once, not only at the end"


def test_an_ambiguous_exit_beside_an_acceptance_is_a_finding_of_its_own(bench: Bench) -> None:
    done = bench("a=./yes", "b=./no", "--on", "exports/one.ndjson", "-r", 2)
    assert done.status == 1
    assert "KERNELS MAY DISAGREE: one: a accepted; what b said may be a rejection" in done.stdout


def test_what_folders_say_is_expected_counts(bench: Bench) -> None:
    export(bench.folder / "sorted" / "reject" / "bad.ndjson", "church-reject:8")
    export(bench.folder / "sorted" / "accept" / "good.ndjson")
    done = bench("a=./yes", "--on", "sorted", "-r", 1)
    assert done.status == 1
    assert "NOT THE EXPECTED VERDICT: reject/bad: a accepted what should be rejected" in done.stdout
    assert "accept/good:" not in done.stdout
    expected = {work(record): record.started["bench"]["workload"]["expected"] for record in bench.records()}
    assert expected == {"accept/good": "accepted", "reject/bad": "rejected"}


def test_a_kernel_that_changes_its_mind_is_a_finding(bench: Bench) -> None:
    registry = bench.folder / "mine.toml"
    registry.write_text('[fickle]\nprograms = ["x"]\nexit = { 0 = "accepted", 1 = "rejected" }\n')
    text = f"#!/bin/sh\necho x >> {bench.folder}/count\n[ $(wc -l < {bench.folder}/count) -ne 3 ]\n"
    script(bench.folder / "coin", text)
    done = bench("fickle=./coin", "--on", "exports/one.ndjson", "-r", 4, "--warmups", 0, "--kernels", registry)
    assert done.status == 1
    assert "CHANGES FROM RUN TO RUN: one: fickle accepted 3 times, rejected 1 times" in done.stdout


def test_a_dry_run_prints_the_plan_and_runs_nothing(bench: Bench) -> None:
    script(bench.folder / "look", f"#!/bin/sh\ntouch {bench.folder}/ran\n")
    done = bench("a=./look", "b=./yes", "--on", "exports", "-r", 6, "--timeout", "10s", "--dry-run")
    assert done.status == 0
    assert not (bench.folder / "ran").exists()
    assert not (bench.store / "sessions").exists()
    assert "order abba: 6 blocks, 28 turns (4 warm-ups)" in done.stdout
    assert "duration: not known: no run of these kernels in the store tells\n" in done.stdout
    worst = "worst case: if every turn ran into its time limit of 10 s: 6 min 04 s\n"
    assert worst in done.stdout, "28 turns of 10 s, and 3 s around each"


def test_what_an_earlier_bench_took_is_expected_again(bench: Bench) -> None:
    script(bench.folder / "nap", "#!/bin/sh\nexec sleep 0.5\n")
    words = ("a=./nap", "--on", "exports", "-r", 2, "--warmups", 0)
    assert "duration: not known" in bench(*words, "--dry-run").stdout
    bench("other=./nap", "--on", "exports/one.ndjson", "-r", 1, "--warmups", 0)
    plan = bench(*words, "--dry-run").stdout
    assert re.search(r"duration: about .* \(2 of 4 turns guessed by size from", plan), "seen before, under another name"


def test_what_a_kernel_took_on_other_exports_is_a_guess(bench: Bench) -> None:
    script(bench.folder / "nap", "#!/bin/sh\nexec sleep 0.5\n")
    bench("other=./nap", "--on", "exports/one.ndjson", "-r", 1, "--warmups", 0)
    plan = bench("a=./nap", "--aa", "--on", "exports/two.ndjson", "-r", 2, "--warmups", 0, "--dry-run").stdout
    guess = re.search(r"duration: about ([0-9.]+) s \(4 of 4 turns guessed by size from", plan)
    assert guess is not None, plan
    assert float(guess[1]) >= 4 * 0.5


def test_show_and_log_tell_of_a_bench_as_a_bench(bench: Bench) -> None:
    done = bench("a=./yes", "b=./yes", "--on", "exports", "-r", 2, "--save", "x")
    shown = other(bench, "show", "last")
    assert "bench a+b" in shown.splitlines()[0]
    assert "saved=x" in shown.splitlines()[1]
    assert done.stdout.splitlines()[:6] == shown.splitlines()[3:9], "the same table"
    assert "started (as recorded)" in other(bench, "show", "last.3", "--all")
    row = other(bench, "log").splitlines()[2]
    assert re.search(r"bench a\+b +saved=x +checker 12 ", row)


def other(bench: Bench, *words: str) -> str:
    """What another command prints about the bench's store."""
    argv = [PROOFCOST, *words, "--store", str(bench.store)]
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=PATIENCE_S).stdout


def test_an_odd_number_of_repetitions_is_shuffled_not_refused(bench: Bench) -> None:
    bench("a=./yes", "b=./yes", "c=./yes", "--on", "exports/one.ndjson", "-r", 5, "--warmups", 0)
    records = bench.records()
    blocks = [sequence(records[at : at + 3]) for at in range(0, 15, 3)]
    assert all(sorted(block) == ["a", "b", "c"] for block in blocks)
    assert len(set(blocks)) > 1
    assert [record.started["ids"]["order"] for record in records] == [1, 2, 3] * 5


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (["./yes"], "for a kernel write yes=./yes"),
        (["a=./yes"], "on what? Give --on EXPORTS"),
        ([], "what is to run?"),
        (["a=./yes", "a=./no", "--on", "exports"], "the name a is there twice"),
        (["a=", "--on", "exports"], "no command behind the `=`"),
        (["=./yes", "--on", "exports"], "'' is no kernel's name"),
        (["a b=./yes", "--on", "exports"], "'a b' is no kernel's name"),
        (["a='./yes", "--on", "exports"], "No closing quotation"),
        (["a=./yes {exprot}", "--on", "exports"], "{exprot} is not known"),
        (["a=./missing", "--on", "exports"], "kernel a: ./missing: no such file"),
        (["a=missing-program", "--on", "exports"], "kernel a: missing-program: not found on PATH"),
        (["a=./exports/one.ndjson", "--on", "exports"], "not executable"),
        (["a=./yes", "--on", "empty"], "empty"),
        (["a=./yes", "--on", "missing.ndjson"], "missing.ndjson: no such file or folder"),
        (["a=./yes", "--on", "torn.ndjson"], "torn.ndjson:7: not JSON"),
        (["a=./yes", "--on", "exports", "-r", "0"], "--repetitions 0: out of range"),
        (["a=./yes", "--on", "exports", "--threads", "0"], "--threads 0: out of range"),
        (["a=./yes", "--on", "exports", "-r", "3", "--order", "abba"], "--repetitions 3: odd"),
        (["a=./yes", "--on", "exports", "--timeout", "soon"], "--timeout 'soon': not a positive number"),
        (["a=./yes", "--on", "exports", "--shard", "3/2"], "--shard '3/2': I goes from 1 to N"),
        (["a=./yes", "--on", "exports", "--shard", "1"], "--shard '1': not of the form I/N"),
        (["a=./yes", "--on", "exports", "--resume"], "--resume: no series of this plan"),
        (["a=./yes", "--on", "exports", "--counter", "guess"], "--counter 'guess': no such counter"),
        (["a=./yes", "--on", "exports", "--kernels", "none.toml"], "none.toml: cannot be read"),
        (["clibration"], "'clibration' is neither NAME=CMD"),
        (["one.toml", "two.toml"], "more than one suite"),
    ],
)  # fmt: skip
def test_a_wrong_call_is_one_line_and_nothing_runs(bench: Bench, words: list[str], complaint: str) -> None:
    (bench.folder / "empty").mkdir()
    (bench.folder / "torn.ndjson").write_bytes((bench.folder / "exports" / "one.ndjson").read_bytes()[:300])
    done = bench(*words)
    assert done.status == 2
    assert complaint in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert done.stdout == ""
    assert not (bench.store / "sessions").exists()


def test_a_name_is_taken_once(bench: Bench) -> None:
    assert bench("a=./yes", "--on", "exports", "-r", 1, "--save", "x").status == 0
    again = bench("a=./yes", "--on", "exports", "-r", 1, "--save", "x")
    assert (again.status, "that name is taken" in again.stderr) == (2, True)


def test_what_exports_cannot_be_read_is_said_by_its_line(bench: Bench) -> None:
    whole = (bench.folder / "exports" / "one.ndjson").read_bytes()
    (bench.folder / "exports" / "two.ndjson").write_bytes(whole + b"\xff\xfe\n")
    done = bench("a=./yes", "--on", "exports")
    assert done.status == 2
    line = whole.count(b"\n") + 1
    assert f"two.ndjson:{line}" in done.stderr


def test_an_arena_test_brings_its_verdict_and_its_own_time_limit(bench: Bench) -> None:
    text = "description: d\nfile: one.ndjson\noutcome: reject\ntimeout: 7\n"
    (bench.folder / "exports" / "arena.yaml").write_text(text)
    done = bench("a=./yes", "--on", "exports/arena.yaml", "-r", 1, "--warmups", 0, "--depth")
    assert done.status == 1
    assert "NOT THE EXPECTED VERDICT" in done.stdout
    started = bench.records()[0].started
    assert started["limits"]["timeout_ns"] == 7 * 10**9
    assert started["bench"]["workload"]["expected"] == "rejected"
    assert started["bench"]["covariates"]["export_expression_depth_count"] > 3


def test_nothing_is_left_in_the_temporary_folder(bench: Bench) -> None:
    tmp = bench.folder / "tmp"
    tmp.mkdir()
    bench("a=./yes", "--on", "exports", "-r", 1, env=[("TMPDIR", str(tmp))])
    assert os.listdir(tmp) == []
    assert bench.left_cgroups() == []
