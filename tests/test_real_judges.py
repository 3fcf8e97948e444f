"""The real run: a real landrun, real kernels, real exports; only the comparator stands in (see standin_comparator.py).

One question above all: is a verdict with us in the path the verdict without us? The table that every variant must
give is what the two kernels say bare, nanoda 0.4.10-beta and sokonanoda 0.5.0: 1 and 2 are nanoda's ways to say that
it could not run or declines, 101 (a Rust panic) is its rejection, and its one wrong acceptance stays visible.
"""

import gzip
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from standin_comparator import make_toolchain

import proofcost

STANDIN = Path(__file__).with_name("standin_comparator.py")
DEMO_JUDGE = Path(__file__).parents[1] / "bench_suites" / "demo_judge.py"
PROOFCOST = str(Path(sys.executable).with_name("proofcost"))
"""The command as installed beside this interpreter."""

AXIOMS = ("propext", "Quot.sound", "Classical.choice")
OLD_FORMAT = "Nat.add_succ"
"""An export in format 3.0.0, which neither kernel reads."""
BACK_REFERENCES = ("121_", "122_", "123_", "124_", "125_")
"""Names declared twice: nanoda finds their back-references out of order and declines."""
WRONGLY_ACCEPTED_BY_NANODA = "wrong-recursor-numparams"

CHALLENGE = ["challenge-build", "challenge-export"]
SOLUTION = ["build", "export", "checker", "checker"]
"""Phases as understood, in order, of a run with two kernels."""

pytestmark = pytest.mark.real


@dataclass(frozen=True)
class Kernels:
    nanoda: Path
    sokonanoda: Path

    def as_config(self) -> dict[str, list[str]]:
        return {"nanoda": [str(self.nanoda)], "sokonanoda": [str(self.sokonanoda)]}


@dataclass(frozen=True)
class Verdict:
    """What a judge's run came to: its exit, what it printed on stdout, and each kernel's exit as the judge saw it."""

    status: int
    stdout: str
    stderr: str
    kernels: Mapping[str, int]


@dataclass(frozen=True)
class Variant:
    """How a judge reaches its commands: `hook` as measurement_command (None: bare), `landrun` as COMPARATOR_LANDRUN.

    `around` is what the judge itself is started by, `environment` what is added to its environment.
    """

    name: str
    landrun: Path
    hook: tuple[str, ...] | None = None
    around: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Launchers:
    """What `proofcost install` made: the two entrances, and the store they write to."""

    phase: Path
    landrun: Path
    store: Path


def expected_nanoda(case: Path) -> int:
    if case.parent.name == "accept":
        return 1 if case.stem == OLD_FORMAT else 0
    if case.stem == WRONGLY_ACCEPTED_BY_NANODA:
        return 0
    return 2 if case.name.startswith(BACK_REFERENCES) else 101


def expected_sokonanoda(case: Path) -> int:
    if case.parent.name == "accept":
        return 2 if case.stem == OLD_FORMAT else 0
    return 1


@pytest.fixture(scope="module")
def kernels(nanoda: Path, sokonanoda: Path) -> Kernels:
    return Kernels(nanoda, sokonanoda)


@pytest.fixture(scope="module")
def cases(shared_exports: Path) -> list[Path]:
    found = sorted(shared_exports.glob("*/*.ndjson"))
    assert found, shared_exports
    return found


@pytest.fixture(scope="module")
def init_medium(shared_exports: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    unpacked = tmp_path_factory.mktemp("init") / "init-medium.ndjson"
    with gzip.open(shared_exports / "init-medium.ndjson.gz") as packed, unpacked.open("wb") as file:
        shutil.copyfileobj(packed, file)
    return unpacked


@pytest.fixture(scope="module")
def toolchain(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_toolchain(tmp_path_factory.mktemp("toolchain"))


def install(folder: Path, landrun: Path) -> Launchers:
    """Run `proofcost install` around `landrun`; skips where it is not written yet."""
    if importlib.util.find_spec("proofcost.install") is None:
        pytest.skip("proofcost.install is not here yet")
    made, store = folder / "launchers", folder / "store"
    subprocess.run([PROOFCOST, "install", made, "--store", store, "--landrun", landrun], check=True)
    return Launchers(made / "phase", made / "landrun", store)


@pytest.fixture
def launchers(tmp_path: Path, landrun: Path) -> Launchers:
    """Launchers with a store of this test's own."""
    return install(tmp_path, landrun)


@pytest.fixture(scope="module")
def launchers_for_tables(tmp_path_factory: pytest.TempPathFactory, landrun: Path) -> Launchers:
    """Launchers with one store for the whole tables: hundreds of sessions, two judges at a time."""
    return install(tmp_path_factory.mktemp("tables"), landrun)


def hooked(launchers: Launchers, landrun: Path) -> Variant:
    return Variant("hook", landrun, (str(launchers.phase),))


def shimmed(launchers: Launchers) -> Variant:
    return Variant("shim", launchers.landrun)


def hooked_and_shimmed(launchers: Launchers) -> Variant:
    return Variant("hook and shim", launchers.landrun, (str(launchers.phase),))


def judge(
    project: Path,
    variant: Variant,
    toolchain: Path,
    export: Path,
    kernels: Mapping[str, Sequence[str]],
    *,
    kernel_config: str = "permit-all-axioms",
    axioms: Sequence[str] = AXIOMS,
    solution_build_status: int = 0,
) -> Verdict:
    """One run of the stand-in comparator in a new directory `project`, `export` being both sides' export."""
    project.mkdir(parents=True)
    for module in ("Challenge", "Solution"):
        (project / f"{module}.lean").write_text(f"-- {module}\n")
        (project / f"{module}.ndjson").symlink_to(export)
    if solution_build_status:
        (project / "Solution.build-status").write_text(str(solution_build_status))
    result = project / "result.json"
    config: dict[str, object] = {
        "challenge_module": "Challenge",
        "solution_module": "Solution",
        "theorem_names": ["main_theorem"],
        "permitted_axioms": list(axioms),
        "external_kernels": kernels,
        "standin": {"kernel_config": kernel_config, "result": str(result)},
    }
    if variant.hook is not None:
        config["measurement_command"] = list(variant.hook)
    (project / "config.json").write_text(json.dumps(config))
    done = subprocess.run(
        [*variant.around, sys.executable, "-I", "-S", str(STANDIN), "config.json"],
        cwd=project,
        env={
            **dict(variant.environment),
            "PATH": f"{toolchain}:/usr/bin:/bin",
            "HOME": str(project),
            "COMPARATOR_LANDRUN": str(variant.landrun),
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    seen: dict[str, int] = json.loads(result.read_text())["kernels"] if result.exists() else {}
    return Verdict(done.returncode, done.stdout, done.stderr, seen)


Table = Mapping[Path, Verdict]


@pytest.fixture(scope="module")
def make_table(
    cases: list[Path], kernels: Kernels, toolchain: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[Variant], Table]]:
    """A function from a variant to the verdicts over every small case, made once for each variant."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:

        @cache
        def make(variant: Variant) -> Table:
            folder = tmp_path_factory.mktemp("projects")

            def one(case: Path) -> Verdict:
                return judge(folder / f"{case.parent.name}-{case.stem}", variant, toolchain, case, kernels.as_config())

            return dict(zip(cases, pool.map(one, cases), strict=True))

        yield make


def wrong_entries(table: Table) -> list[str]:
    """Every entry that is not what the kernels say bare."""
    wrong = []
    for case, verdict in table.items():
        expected = {"nanoda": expected_nanoda(case), "sokonanoda": expected_sokonanoda(case)}
        status = 0 if set(expected.values()) == {0} else 1
        if verdict.kernels != expected or verdict.status != status:
            wrong.append(f"{case.parent.name}/{case.name}: expected {expected} and exit {status}, got {verdict}")
    return wrong


def test_verdicts_bare(make_table: Callable[[Variant], Table], landrun: Path) -> None:
    table = make_table(Variant("bare", landrun))
    assert wrong_entries(table) == []


def test_bare_counts_are_the_published_ones(make_table: Callable[[Variant], Table], landrun: Path) -> None:
    table = make_table(Variant("bare", landrun))
    counts = Counter(
        (case.parent.name, kernel, status)
        for case, verdict in table.items()
        for kernel, status in verdict.kernels.items()
    )
    assert counts == {
        ("accept", "nanoda", 0): 73,
        ("accept", "nanoda", 1): 1,
        ("accept", "sokonanoda", 0): 73,
        ("accept", "sokonanoda", 2): 1,
        ("reject", "nanoda", 0): 1,
        ("reject", "nanoda", 2): 5,
        ("reject", "nanoda", 101): 32,
        ("reject", "sokonanoda", 1): 38,
    }


@pytest.mark.slow
@pytest.mark.parametrize("way", ["hook", "shim", "hook and shim"])
def test_verdicts_with_us_in_the_path(
    make_table: Callable[[Variant], Table], landrun: Path, launchers_for_tables: Launchers, way: str
) -> None:
    variants = (
        hooked(launchers_for_tables, landrun),
        shimmed(launchers_for_tables),
        hooked_and_shimmed(launchers_for_tables),
    )
    (variant,) = (one for one in variants if one.name == way)
    table = make_table(variant)
    assert wrong_entries(table) == []
    bare = make_table(Variant("bare", landrun))
    assert {case: verdict.stdout for case, verdict in table.items()} == {
        case: verdict.stdout for case, verdict in bare.items()
    }


def test_init_medium_bare(tmp_path: Path, landrun: Path, toolchain: Path, init_medium: Path, kernels: Kernels) -> None:
    verdict = judge_init_medium(tmp_path, Variant("bare", landrun), toolchain, init_medium, kernels)
    assert verdict.status == 0, verdict
    assert verdict.kernels == {"nanoda": 0, "sokonanoda": 0}


def judge_init_medium(folder: Path, variant: Variant, toolchain: Path, init_medium: Path, kernels: Kernels) -> Verdict:
    return judge(folder / "project", variant, toolchain, init_medium, kernels.as_config(), kernel_config="comparator")


def test_init_medium_with_every_axiom_refused_is_rejected(
    tmp_path: Path, landrun: Path, toolchain: Path, init_medium: Path, nanoda: Path
) -> None:
    # The other half of the configuration: that the list of axioms reaches the kernel at all.
    verdict = judge(
        tmp_path / "project",
        Variant("bare", landrun),
        toolchain,
        init_medium,
        {"nanoda": [str(nanoda)]},
        kernel_config="comparator",
        axioms=(),
    )
    assert verdict.status == 1
    assert verdict.kernels["nanoda"] != 0


# --- what the store holds afterwards ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """A record, reduced to what these tests ask of it."""

    given: str | None
    understood: str
    target: str | None
    outcome: tuple[str, int | None]


def seen(store: Path) -> list[Seen]:
    """The store's records in the order of their start; they have to be of one session and whole."""
    from proofcost.harness.reading import read_store

    found = read_store(store)
    assert found.problems == ()
    assert found.marks == ()
    assert len({record.session for record in found.records}) <= 1, "one judge's run is one session"
    made = []
    for record in found.records:
        assert record.outcome is not None, record
        wall = record.measurement("wall_command")
        assert wall is not None, record
        assert wall.value is not None, wall
        assert wall.value > 0, wall
        outcome = (record.outcome["kind"], record.outcome["code"])
        made.append(Seen(record.phase_given, record.phase, record.target_name, outcome))
    return made


def phases(records: Sequence[Seen]) -> list[str]:
    return [record.understood for record in records]


@pytest.fixture(scope="module")
def one_case(shared_exports: Path) -> Path:
    return shared_exports / "accept" / "023_peano1.ndjson"


def test_hook_records_the_solution_as_given_and_as_understood(
    tmp_path: Path, landrun: Path, launchers: Launchers, toolchain: Path, one_case: Path, kernels: Kernels
) -> None:
    verdict = judge(tmp_path / "p", hooked(launchers, landrun), toolchain, one_case, kernels.as_config())
    assert verdict.status == 0, verdict
    records = seen(launchers.store)
    assert [record.given for record in records] == ["build", "build", "checker", "checker"]
    assert phases(records) == SOLUTION
    assert [record.target for record in records] == [
        "lake",
        "lean4export",
        kernels.nanoda.name,
        kernels.sokonanoda.name,
    ]
    assert {record.outcome for record in records} == {("exited", 0)}


def test_shim_records_the_challenge_beside_the_solution(
    tmp_path: Path, launchers: Launchers, toolchain: Path, one_case: Path, kernels: Kernels
) -> None:
    verdict = judge(tmp_path / "p", shimmed(launchers), toolchain, one_case, kernels.as_config())
    assert verdict.status == 0, verdict
    records = seen(launchers.store)
    assert {record.given for record in records} == {None}
    assert phases(records) == [*CHALLENGE, *SOLUTION]


def test_hook_around_the_shim_counts_nothing_twice(
    tmp_path: Path, launchers: Launchers, toolchain: Path, one_case: Path, kernels: Kernels
) -> None:
    verdict = judge(tmp_path / "p", hooked_and_shimmed(launchers), toolchain, one_case, kernels.as_config())
    assert verdict.status == 0, verdict
    records = seen(launchers.store)
    assert [record.given for record in records] == [None, None, "build", "build", "checker", "checker"]
    assert phases(records) == [*CHALLENGE, *SOLUTION]


def test_run_around_the_judge_records_all_of_it(
    tmp_path: Path, landrun: Path, toolchain: Path, one_case: Path, kernels: Kernels
) -> None:
    if importlib.util.find_spec("proofcost.install") is None:
        pytest.skip("proofcost.install is not here yet")
    store = tmp_path / "store"
    variant = Variant(
        "run",
        landrun,
        around=(PROOFCOST, "run", "--"),
        environment=(("PROOFCOST_STORE", str(store)),),
    )
    verdict = judge(tmp_path / "p", variant, toolchain, one_case, kernels.as_config())
    assert verdict.status == 0, verdict
    assert phases(seen(store)) == ["whole", *CHALLENGE, *SOLUTION]


@pytest.mark.parametrize("way", ["hook", "shim"])
def test_rejections_are_recorded_as_the_kernels_gave_them(
    tmp_path: Path,
    landrun: Path,
    launchers: Launchers,
    toolchain: Path,
    shared_exports: Path,
    kernels: Kernels,
    way: str,
) -> None:
    variant = hooked(launchers, landrun) if way == "hook" else shimmed(launchers)
    case = shared_exports / "reject" / "002_badDef.ndjson"
    verdict = judge(tmp_path / "p", variant, toolchain, case, kernels.as_config())
    assert verdict.status == 1
    assert verdict.kernels == {"nanoda": 101, "sokonanoda": 1}
    assert [r.outcome for r in seen(launchers.store) if r.understood == "checker"] == [("exited", 101), ("exited", 1)]


@pytest.mark.parametrize(("way", "expected"), [("hook", ["build"]), ("shim", [*CHALLENGE, "build"])])
def test_failed_build_is_recorded_and_nothing_after_it(
    tmp_path: Path, landrun: Path, launchers: Launchers, toolchain: Path, one_case: Path, way: str, expected: list[str]
) -> None:
    variant = hooked(launchers, landrun) if way == "hook" else shimmed(launchers)
    verdict = judge(tmp_path / "p", variant, toolchain, one_case, {}, solution_build_status=3)
    assert verdict.status == 1
    assert "Child exited with 3" in verdict.stderr
    records = seen(launchers.store)
    assert phases(records) == expected
    assert records[-1].outcome == ("exited", 3)


@pytest.mark.parametrize("way", ["hook", "shim"])
def test_init_medium_with_us_in_the_path(
    tmp_path: Path, landrun: Path, launchers: Launchers, toolchain: Path, init_medium: Path, kernels: Kernels, way: str
) -> None:
    variant = hooked(launchers, landrun) if way == "hook" else shimmed(launchers)
    verdict = judge_init_medium(tmp_path, variant, toolchain, init_medium, kernels)
    assert verdict.status == 0, verdict
    checkers = [record for record in seen(launchers.store) if record.understood == "checker"]
    assert [record.target for record in checkers] == [kernels.nanoda.name, kernels.sokonanoda.name]


# --- the demo's judge -------------------------------------------------------------------------------------------------

RECORDING_HOOK = """\
#!/bin/sh
echo "$2" >> "$(dirname "$0")/phases"
shift 3
exec "$@"
"""


def demo(folder: Path, *arguments: object) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """Run the demo's judge behind a hook that writes down its phases; the run, and those phases."""
    project, hook = folder / "demo", folder / "hook"
    project.mkdir()
    hook.write_text(RECORDING_HOOK)
    hook.chmod(0o755)
    done = subprocess.run(
        [sys.executable, str(DEMO_JUDGE), "--hook", hook, "--project", project, "--n", "50", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    return done, (folder / "phases").read_text().split() if (folder / "phases").exists() else []


def test_demo_judge_without_any_real_part(tmp_path: Path) -> None:
    done, phases_seen = demo(tmp_path)
    assert done.returncode == 0, done
    assert phases_seen == ["build", "export", "checker"]
    assert "parse-only control: checks nothing; 50 declarations" in done.stdout
    assert "no sandbox" in done.stdout
    assert "no kernel was given" in done.stdout


def test_demo_judge_in_landrun(tmp_path: Path, landrun: Path, kernels: Kernels) -> None:
    done, phases_seen = demo(
        tmp_path,
        "--landrun",
        landrun,
        "--kernel",
        f"nanoda={kernels.nanoda}",
        "--kernel",
        f"soko-noda={kernels.sokonanoda}",
    )
    assert done.returncode == 0, done
    assert phases_seen == ["build", "export", "checker", "checker", "checker"]
    assert "judge: every kernel accepts" in done.stdout


def test_demo_judge_in_bwrap(tmp_path: Path, bwrap: Path) -> None:
    if subprocess.run([bwrap, "--ro-bind", "/", "/", "--unshare-all", "true"], check=False).returncode != 0:
        pytest.skip("bwrap may not make namespaces here")
    done, phases_seen = demo(tmp_path, "--bwrap", bwrap)
    assert done.returncode == 0, done
    assert phases_seen == ["build", "export", "checker"]


def test_demo_judge_passes_a_rejection_on(tmp_path: Path) -> None:
    done, phases_seen = demo(tmp_path, "--kernel", "no=/bin/false", "--kernel", "yes=/bin/true")
    assert done.returncode == 1
    assert phases_seen == ["build", "export", "checker", "checker", "checker"]
    assert done.stdout.splitlines()[-1] == "judge: not accepted by no"


def test_demo_judge_names_what_it_cannot_start(tmp_path: Path) -> None:
    done, _ = demo(tmp_path, "--landrun", "/nonexistent/landrun")
    assert done.returncode != 0
    assert "Traceback" not in done.stderr


def test_a_fresh_store_of_a_judge_is_planned_and_reported_as_it_is(
    tmp_path: Path, launchers: Launchers, kernels: Kernels, toolchain: Path, cases: list[Path]
) -> None:
    """The configurations differ in a random path alone; nanoda says 101 where it rejects."""
    accepted = next(case for case in cases if expected_nanoda(case) == 0 and case.parent.name == "accept")
    rejected = next(case for case in cases if expected_nanoda(case) == 101)
    for number, case in enumerate((accepted, accepted, accepted, rejected)):
        judge(tmp_path / f"{number}", shimmed(launchers), toolchain, case, {"nanoda": [str(kernels.nanoda)]})
    for words in (["report", "kernels"], ["report", "submissions"], ["plan", "--host", "8c/32G", "--data"]):
        done = subprocess.run([PROOFCOST, *words, launchers.store], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), (words, done.stderr)
        assert "3 accepted" in done.stdout or words[-1] != "kernels"
    rows = [row for row in proofcost.load(launchers.store).to_pylist() if row["phase"] == "checker"]
    assert [row["verdict"] for row in sorted(rows, key=lambda row: row["started_ns"])] == [
        *["accepted"] * 3,
        "rejected",
    ]
    assert {row["kernel"] for row in rows} == {"nanoda"}
    assert len({row["config_sha256"] for row in rows}) == 1
