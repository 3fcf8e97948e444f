"""Suite files and kernel registries: what they may say, and that whatever is wrong names file, line and key."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from benching import ACCEPT, Bench, export, script

from proofcost.bench_suites import families, registry, suite
from proofcost.bench_suites.kernel import from_command
from proofcost.bench_suites.series import ABBA, RANDOM, Limits
from proofcost.bench_suites.suite import Suite
from proofcost.harness.described import DescriptionError

KNOWN = registry.load()


def read(folder: Path, text: str) -> Suite:
    path = folder / "suite.toml"
    path.write_text(text)
    return suite.read(str(path), KNOWN, {"PATH": "/usr/bin:/bin"})


WHOLE = """
name = "nightly"
seed = 7
order = "random"
repetitions = 5
warmups = 2
threads = [1, 4]
co_running = [1, 2]
sandbox = "landrun"
aa = true
depth = true

[limits]
wall = "15m"
memory = "8Gi"
swap = "1G"
file_size = "2Gi"

[[kernel]]
use = "nanoda"
name = "old"
command = "./bin/nanoda-a"
config = { nat_extension = false, permitted_axioms = ["propext"] }

[[kernel]]
name = "new"
builds = ["./b1", "./b2 --fast"]
input = "stdin"
arguments = ["--jobs={threads}"]
env = { LEAN_PATH = "/x" }
exit = { 0 = "accepted", 1 = "rejected" }

[[workload]]
path = "exports"
expected = "accept"

[[workload]]
family = "church"
n = [10, 20]
seed = 3
"""


def test_everything_a_suite_may_say(tmp_path: Path) -> None:
    (tmp_path / "exports").mkdir()
    found = read(tmp_path, WHOLE)
    settings = found.settings
    assert (settings.name, settings.seed, settings.order) == ("nightly", 7, RANDOM)
    assert (settings.repetitions, settings.warmups) == (5, 2)
    assert (settings.threads, settings.co_running, settings.sandbox.kind) == ((1, 4), (1, 2), "landrun")
    assert settings.limits == Limits(15 * 60 * 10**9, 8 << 30, 10**9, 2 << 30)
    old, new = found.kernels
    assert old.convention.name == "nanoda"
    assert old.commands == ((str(tmp_path / "bin/nanoda-a"),),)
    assert old.configuration("/e", 4) == {
        "use_stdin": False,
        "export_file_path": "/e",
        "unpermitted_axiom_hard_error": False,
        "nat_extension": False,
        "string_extension": True,
        "permitted_axioms": ["propext"],
        "num_threads": 4,
    }
    assert new.commands == ((str(tmp_path / "b1"),), (str(tmp_path / "b2"), "--fast"))
    assert (new.input, new.arguments, new.takes_threads) == ("stdin", ("--jobs={threads}",), True)
    assert new.environment == {"LEAN_PATH": "/x"}
    assert new.exit_codes() == ({0: "accepted", 1: "rejected"}, "the suite says so")
    assert found.specs == (str(tmp_path / "exports"), "church:10:3", "church:20:3")
    assert found.expected == {str(tmp_path / "exports"): "accepted"}
    assert found.aa
    assert found.depth


def test_nothing_said_is_what_the_command_line_has(tmp_path: Path) -> None:
    found = read(tmp_path, "")
    settings = found.settings
    assert (settings.name, settings.order, settings.repetitions, settings.warmups) == ("suite", ABBA, 12, 1)
    assert settings.limits == suite.DEFAULT_LIMITS
    assert (found.kernels, found.specs, found.installed, found.aa) == ((), (), False, False)


def test_an_odd_number_of_repetitions_shuffles_unless_the_order_was_chosen(tmp_path: Path) -> None:
    assert read(tmp_path, "repetitions = 3").settings.order == RANDOM
    with pytest.raises(DescriptionError, match="repetitions: 3 is odd"):
        read(tmp_path, 'repetitions = 3\norder = "abba"')


WRONG: Sequence[tuple[str, str, str]] = [
    ("repetitons = 3", "1: repetitons", "unknown key; did you mean repetitions?"),
    ("\n\nseed = -1", "3: seed", "-1 is out of range: give a number from 0"),
    ("repetitions = 0", "1: repetitions", "0 is out of range: give a number from 1 to 100000"),
    ('repetitions = "many"', "1: repetitions", "'many' is a string, where a whole number belongs"),
    ("repetitions = true", "1: repetitions", "True is true or false, where a whole number belongs"),
    ("repetitions = 2.5", "1: repetitions", "2.5 is a float, where a whole number belongs"),
    ('order = "abab"', "1: order", "'abab' is none of abba, random; did you mean abba?"),
    ("threads = []", "1: threads", "is empty"),
    ("threads = [\n1,\n0]", "3: threads[2]", "0 is out of range: give numbers from 1"),
    ("threads = [2, 2]", "1: threads[2]", "2 stands there twice"),
    ("co_running = 4096", "1: co_running", "4096 is out of range"),
    ('sandbox = "docker"', "1: sandbox", "'docker' is none of none, landrun, bwrap"),
    ('counters = ["callgrnd"]', "1: counters[1]", "'callgrnd' is no counter"),
    (
        "[limits]\nwall = 15",
        "2: limits.wall",
        "15 is a whole number, where a string belongs: write for example wall = '15m'",
    ),
    ('[limits]\nwall = "soon"', "2: limits.wall", "'soon': not a positive number with a unit of s, m, h, d, ms"),
    ('[limits]\nmemry = "8G"', "2: limits.memry", "unknown key; did you mean memory?"),
    ('[limits]\nswap = "1G"', "2: limits.swap", "needs memory as well"),
    ('[limits]\nfile_size = "1K"', "2: limits.file_size", "at least 1Mi"),
    ("[[kernel]]", "1: kernel[1]", "says neither `use` (a kernel of the registry) nor `name` and `command`"),
    ('[[kernel]]\nuse = "nanodda"', "2: kernel[1].use", "no kernel 'nanodda' is known; did you mean nanoda?"),
    ('[[kernel]]\nuse = "lean4lean"', "2: kernel[1].use", "lean4lean is not installed: looked for lean4lean on PATH"),
    ('[[kernel]]\nname = "a b"\ncommand = "x"', "2: kernel[1].name", "'a b': letters, digits"),
    ('[[kernel]]\nname = "mine"', "2: kernel[1].name", "no kernel 'mine' is known"),
    (
        '[[kernel]]\nname = "k"\ncommand = "./k {exprt}"',
        "3: kernel[1].command",
        "{exprt} is not known; did you mean export?",
    ),
    ('[[kernel]]\nname = "k"\ncommand = "\'"', "3: kernel[1].command", "No closing quotation"),
    ('[[kernel]]\nname = "k"\ncommand = "x"\nbuilds = ["y"]', "4: kernel[1].builds", "is there beside `command`"),
    ('[[kernel]]\nname = "k"\nbuilds = ["y", ""]', "3: kernel[1].builds[2]", "an empty string"),
    ('[[kernel]]\nname = "k"\ncommand = "x"\ninput = "pipe"', "4: kernel[1].input", "'pipe' is none of path, stdin"),
    ('[[kernel]]\nname = "k"\ncommand = "x"\nconfig = { a = 1 }', "4: kernel[1].config", "k takes no configuration"),
    (
        '[[kernel]]\nname = "nanoda"\ncommand = "x"\n[kernel.config]\nuse_stdin = true',
        "5: kernel[1].config.use_stdin",
        "is set by the runner",
    ),
    ('[[kernel]]\nname = "k"\ncommand = "x"\nenv = { A = 1 }', "4: kernel[1].env.A", "1 is a whole number"),
    ('[[kernel]]\nname = "k"\ncommand = "x"\nexit = { x = "accepted" }', "4: kernel[1].exit.x", "not an exit code"),
    (
        '[[kernel]]\nname = "k"\ncommand = "x"\nexit = { 1 = "rejcted" }',
        "4: kernel[1].exit.1",
        "did you mean rejected?",
    ),
    (
        '[[kernel]]\nname = "k"\ncommand = "x"\n[[kernel]]\nname = "k"\ncommand = "y"',
        "4: kernel[2]",
        "the name k is there twice",
    ),
    ("kernel = 3", "1: kernel", "3 is a whole number, where an array belongs: tables headed [[kernel]]"),
    ("kernel = [3]", "1: kernel[1]", "3 is a whole number, where a table belongs ([[kernel]])"),
    ("[[workload]]", "1: workload[1]", "says neither `path` nor `family`"),
    ('[[workload]]\npath = "x"\nfamily = "church"', "1: workload[1]", "says both `path` and `family`"),
    ('[[workload]]\npath = "gone/x.ndjson"', "2: workload[1].path", "'gone/x.ndjson': no such file or folder"),
    ('[[workload]]\nfamily = "chruch"', "2: workload[1].family", "no family 'chruch'; did you mean church?"),
    ('[[workload]]\nfamily = "church"\nn = [100, 1]', "3: workload[1].n[2]", "n is 1, and church begins with"),
    ('[[workload]]\nfamily = "church"\nn = "all"', "3: workload[1].n", "'all' is a string"),
    (
        '[[workload]]\nfamily = "church"\nexpected = "maybe"',
        "3: workload[1].expected",
        "'maybe' is none of accept, reject",
    ),
]


@pytest.mark.parametrize(("text", "where", "what"), WRONG, ids=[where for _, where, _ in WRONG])
def test_what_is_wrong_in_a_suite_names_file_line_and_key(tmp_path: Path, text: str, where: str, what: str) -> None:
    with pytest.raises(DescriptionError) as raised:
        read(tmp_path, text)
    said = str(raised.value)
    assert said.startswith(f"{tmp_path}/suite.toml:{where}: ")
    assert what in said
    assert "\n" not in said


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b"a = ", ":1: not TOML: Invalid value"),
        (b"a = 1\nb = \nc = 2\n", ":2: not TOML: Invalid value"),
        (b'a = 1\nb = """x\n', ":3: not TOML"),
        (b"a = 1\n\nb = \xff\n", ":3: not UTF-8"),
        (b"[a]\n[a]\n", "not TOML"),
        (b"a = " + b"[" * 10_000, "nested too deeply"),
        (b"#" * (1 << 20) + b"\n", "larger than 1048576 bytes"),
    ],
)
def test_what_is_no_toml_is_said_so(tmp_path: Path, raw: bytes, what: str) -> None:
    path = tmp_path / "suite.toml"
    path.write_bytes(raw)
    with pytest.raises(DescriptionError) as raised:
        suite.read(str(path), KNOWN, {})
    assert str(raised.value).startswith(str(path))
    assert what in str(raised.value)


@pytest.mark.parametrize("name", suite.shipped())
def test_a_shipped_suite_is_sound(name: str) -> None:
    found = suite.read(suite.file_of(name), KNOWN, {"PATH": "/usr/bin:/bin"})
    assert found.settings.name == name
    assert found.specs
    assert found.kernels or found.installed


def test_the_shipped_suites_are_these() -> None:
    assert suite.shipped() == ["aa", "calibration", "contention", "growth"]


def test_growth_takes_every_family_in_its_ladder() -> None:
    found = suite.read(suite.file_of("growth"), KNOWN, {})
    expected = [f"{family.name}:{n}:0" for family in families.FAMILIES for n in family.ladder]
    assert list(found.specs) == expected


# The registry.


def test_every_shipped_entry_says_how_it_is_started_and_what_its_exit_means() -> None:
    for name, entry in KNOWN.items():
        assert entry.programs or entry.command, name
        assert entry.exit_codes.get(0) == ("ran" if entry.control else "accepted"), name
        assert entry.description, name
        if "config" in entry.input:
            assert entry.threads_key == "num_threads", name


def test_only_tried_versions_of_nanoda_and_sokonanoda_reject() -> None:
    for name, version, code in (("nanoda", "0.4.10-beta", 101), ("sokonanoda", "0.5.0", 1)):
        entry = KNOWN[name]
        assert entry.meanings(version)[0][code] == "rejected"
        for other in ("0.4.11", None, ""):
            codes, known_by = entry.meanings(other)
            assert "rejected" not in codes.values()
            assert "nobody tried" in known_by
    folded = [name for name, entry in KNOWN.items() if "rejected" in entry.exit_codes.values()]
    assert folded == ["con-leche", "con-ron", "eink0rn"], "those that never fold anything into a rejection"


@pytest.mark.parametrize(
    ("program", "name"),
    [
        ("./nanoda-a", "nanoda"),
        ("/x/still-nanoda", "nanoda"),
        ("sokonanoda", "sokonanoda"),
        ("sokonanoda-5ab", "sokonanoda"),
        ("con-leche", "con-leche"),
        ("lean_checker", "vow"),
        ("kernel", "official"),
        ("mykernel", None),
    ],
)
def test_a_program_is_known_by_its_file_name(program: str, name: str | None) -> None:
    found = registry.by_program(KNOWN, program)
    assert (None if found is None else found.name) == name


def test_a_file_of_ones_own_adds_and_replaces(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('[mine]\nprograms = ["mine"]\n[nanoda]\nprograms = ["other"]\ninput = "path"\n')
    known = registry.load([str(path)])
    assert set(known) == {*KNOWN, "mine"}
    assert known["nanoda"].programs == ("other",)
    assert registry.load(env={"PROOFCOST_KERNELS": str(path)}) == known


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("[a]\ninput = 'path'", "1: a", "has neither programs, variable nor command"),
        ("[a]\nprograms = ['x']\nexits = {}", "3: a.exits", "unknown key; did you mean exit?"),
        ("['a b']\nprograms = ['x']", "1: 'a b'", "not a kernel's name"),
        ("a = 1", "1: a", "a kernel is a table"),
        ("[a]\nprograms = ['x']\nversion_pattern = '('", "3: a.version_pattern", "not a regular expression"),
        ("[a]\nprograms = ['x']\nversion_pattern = 'x'", "3: a.version_pattern", "needs exactly one group"),
        ("[a]\nprograms = ['x']\narguments = ['{n}']", "3: a.arguments[1]", "{n} in '{n}' is not known"),
        ("[a]\nprograms = ['x']\nthreads_key = 'n'", "3: a.threads_key", "of no use with input 'path'"),
        ("[a]\nprograms = ['x']\n[[a.tried]]\nexit = {0='accepted'}", "3: a.tried[1]", "versions is missing"),
        ("[a]\nprograms = ['x']\nexit = {256='accepted'}", "3: a.exit.256", "not an exit code"),
    ],
)
def test_what_is_wrong_in_a_registry_names_file_line_and_key(tmp_path: Path, text: str, where: str, what: str) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(DescriptionError) as raised:
        registry.load([str(path)])
    assert str(raised.value).startswith(f"{path}:{where}: ")
    assert what in str(raised.value)


def test_threads_and_memory_stand_where_a_kernel_wants_them() -> None:
    kernel = from_command("eink0rn", "/bin/true", KNOWN)
    assert kernel.takes_threads
    assert kernel.arguments == ("-j{threads}", "{export}")
    assert kernel.convention.memory == ("+RTS", "-M{memory_mb}m", "-RTS")
    assert not from_command("k", "/bin/true", KNOWN).takes_threads


# A suite that runs.


def test_a_suite_with_builds_threads_and_an_a_a_runs_as_planned(tmp_path: Path) -> None:
    for name in ("b1", "b2", "single"):
        script(tmp_path / name, f'#!/bin/sh\necho {name} "$@" >> {tmp_path}/seen\n')
    export(tmp_path / "one.ndjson")
    (tmp_path / "suite.toml").write_text(
        "repetitions = 2\nwarmups = 0\nthreads = [1, 2]\naa = true\n"
        '[[kernel]]\nname = "many"\nbuilds = ["./b1 -j{threads}", "./b2 -j{threads}"]\n'
        '[[kernel]]\nname = "single"\ncommand = "./single"\n'
        '[[workload]]\npath = "one.ndjson"\n'
    )
    bench = Bench(tmp_path)
    assert bench("suite.toml").status == 0
    records = bench.records()
    planned = [
        (
            record.started["kernel"]["name"],
            record.started["ids"]["build"],
            record.started["kernel"]["threads_count"],
            record.started["ids"]["block"],
        )
        for record in records
    ]
    assert planned == [
        ("many", 1, 1, 1), ("single", None, None, 1), ("many~aa", 1, 1, 1),
        ("many~aa", 1, 1, 1), ("single", None, None, 1), ("many", 1, 1, 1),
        ("many", 1, 2, 2), ("many~aa", 1, 2, 2), ("many~aa", 1, 2, 2), ("many", 1, 2, 2),
        ("single", None, None, 3), ("many~aa", 2, 1, 3), ("many", 2, 1, 3),
        ("many", 2, 1, 3), ("many~aa", 2, 1, 3), ("single", None, None, 3),
        ("many~aa", 2, 2, 4), ("many", 2, 2, 4), ("many", 2, 2, 4), ("many~aa", 2, 2, 4),
    ]  # fmt: skip
    twins = {record.started["bench"]["twin_of"] for record in records if record.started["kernel"]["name"] == "many~aa"}
    assert twins == {"many"}
    seen = (tmp_path / "seen").read_text().split("\n")
    assert seen.count(f"b2 -j2 {tmp_path}/one.ndjson") == 4


def test_nothing_to_run_is_said_so(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    (tmp_path / "empty.toml").write_text("")
    done = bench("empty.toml")
    assert (done.status, "suite empty: no kernel; list one under [[kernel]]" in done.stderr) == (2, True)
    script(tmp_path / "yes", ACCEPT)
    (tmp_path / "half.toml").write_text('[[kernel]]\nname = "a"\ncommand = "./yes"\n')
    done = bench("half.toml")
    assert (done.status, "suite half: no workload; list one under [[workload]]" in done.stderr) == (2, True)
