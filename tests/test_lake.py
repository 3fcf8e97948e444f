"""`lake comparator`, `lake check`, lean-exercise through the `bwrap` entrance: the same verdict, every call told apart.

Lake stands in (standin_lake.py: there is no Lean toolchain here), bwrap is the real one.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import standin_lean_exercise
from standin_lake import make_toolchain

from proofcost.harness.merged import Record
from proofcost.harness.reading import read_store

PROOFCOST = str(Path(sys.executable).with_name("proofcost"))
EXERCISE = Path(standin_lean_exercise.__file__)

pytestmark = pytest.mark.real


@dataclass(frozen=True)
class Ended:
    status: int
    stdout: str
    stderr: str


@dataclass
class Bench:
    """A toolchain of stand-ins, a project, and a store."""

    folder: Path
    prefix: Path
    environment: dict[str, str]
    config: dict[str, object] = field(default_factory=dict)

    @property
    def project(self) -> Path:
        return self.folder / "project"

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def call(self, *command: object, **more: str) -> Ended:
        done = subprocess.run(
            list(map(str, command)),
            cwd=self.project,
            env={**self.environment, **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        return Ended(done.returncode, done.stdout, done.stderr)

    def run(self, *command: object, shims: str = "env", options: Sequence[str] = (), **more: str) -> Ended:
        own = [PROOFCOST, "run", "--store", self.store, "--shims", shims, *options]
        return self.call(*own, "--", *command, **more)

    def installed(self, *options: object) -> Path:
        where = self.folder / "launchers"
        done = self.call(PROOFCOST, "install", where, "--store", self.store, *options)
        assert done.status == 0, done.stderr
        return where

    def records(self) -> tuple[Record, ...]:
        found = read_store(self.store)
        assert found.problems == (), found.problems
        return found.records

    def calls(self) -> list[tuple[str, str | None]]:
        """(phase, module or kernel) of every sandboxed call, in order."""
        records = [one for one in self.records() if one.phase != "whole"]
        return [(one.phase, one.kernel or one.module) for one in records]

    def kernel(self, name: str, status: object) -> None:
        (self.prefix / f"{name}.kernel-status").write_text(str(status))


def write_project(folder: Path, config: dict[str, object] | None = None) -> None:
    folder.mkdir(parents=True)
    for module in ("Challenge", "Solution", "Project"):
        (folder / f"{module}.lean").write_text(f"-- {module}\n")
        (folder / f"{module}.ndjson").write_text(f'{{"meta":"{module}"}}\n')
    (folder / "lake-manifest.json").write_text("{}")
    if config is not None:
        (folder / "comparator.json").write_text(json.dumps(config))


CONFIG: dict[str, object] = {
    "challenge_module": "Challenge",
    "solution_module": "Solution",
    "theorem_names": ["main_theorem"],
    "permitted_axioms": ["propext"],
}


@pytest.fixture
def bench(tmp_path: Path, working_bwrap: Path) -> Bench:
    prefix = make_toolchain(tmp_path / "lean")
    environment = {"PATH": f"{prefix}/bin:{working_bwrap.parent}:/usr/bin:/bin", "HOME": str(tmp_path)}
    made = Bench(tmp_path, prefix, environment)
    kernels = {"zeta": [f"{prefix}/bin/con-ron"], "nanoda": [f"{prefix}/bin/nanoda_bin"]}
    write_project(made.project, {**CONFIG, "external_kernels": kernels})
    return made


BEFORE_KERNELS = [
    ("resolve", None),
    ("challenge-build", "Challenge"),
    ("challenge-export", "Challenge"),
    ("build", "Solution"),
    ("export", "Solution"),
]
KERNELS = [("checker", "nanoda"), ("checker", "zeta"), ("checker", "leanchecker")]


def all_well(bench: Bench) -> None:
    pass


def a_kernel_rejects(bench: Bench) -> None:
    bench.kernel("nanoda_bin", 101)


def the_bundled_kernel_rejects(bench: Bench) -> None:
    bench.kernel("leanchecker", 1)


def a_kernel_is_killed(bench: Bench) -> None:
    bench.kernel("con-ron", "KILL")


def the_solution_does_not_compile(bench: Bench) -> None:
    (bench.project / "Solution.build-status").write_text("1")


def the_challenge_does_not_compile(bench: Bench) -> None:
    (bench.project / "Challenge.build-status").write_text("1")


def the_export_fails(bench: Bench) -> None:
    (bench.project / "Solution.export-status").write_text("70")


def the_statements_differ(bench: Bench) -> None:
    config = json.loads((bench.project / "comparator.json").read_text())
    (bench.project / "comparator.json").write_text(json.dumps({**config, "standin": {"mismatch": True}}))


def dependencies_cannot_be_had(bench: Bench) -> None:
    (bench.project / "resolve-status").write_text("5")


def there_is_no_manifest(bench: Bench) -> None:
    (bench.project / "lake-manifest.json").unlink()


SCENARIOS = [
    (all_well, 0, [*BEFORE_KERNELS, *KERNELS]),
    (a_kernel_rejects, 1, [*BEFORE_KERNELS, *KERNELS]),
    (the_bundled_kernel_rejects, 1, [*BEFORE_KERNELS, *KERNELS]),
    (a_kernel_is_killed, 1, [*BEFORE_KERNELS, *KERNELS]),
    (the_solution_does_not_compile, 1, BEFORE_KERNELS[:4]),
    (the_challenge_does_not_compile, 1, BEFORE_KERNELS[:2]),
    (the_export_fails, 1, BEFORE_KERNELS),
    (the_statements_differ, 1, BEFORE_KERNELS),
    (dependencies_cannot_be_had, 1, BEFORE_KERNELS[:1]),
    (there_is_no_manifest, 2, []),
]


@pytest.mark.parametrize(("scenario", "status", "calls"), SCENARIOS, ids=lambda value: getattr(value, "__name__", ""))
def test_the_verdict_and_all_that_is_printed_stay_and_every_call_is_told_apart(
    bench: Bench, scenario: object, status: int, calls: list[tuple[str, str | None]]
) -> None:
    assert callable(scenario)
    scenario(bench)
    bare = bench.call("lake", "comparator")
    assert bare.status == status, bare
    assert bench.run("lake", "comparator") == bare
    assert bench.calls() == calls
    whole, *made = sorted(bench.records(), key=lambda one: one.phase != "whole")
    assert whole.phase == "whole"
    assert {one.started["session_known_by"] for one in made} <= {"baked"}
    assert {one.session for one in made} <= {whole.session}
    assert all(one.finished is not None and one.finished["faults"] == [] for one in (whole, *made))


def test_sides_are_known_by_the_configuration_that_lake_reads_unasked(bench: Bench) -> None:
    assert bench.run("lake", "comparator").status == 0
    known = {one.phase: one.side_known_by for one in bench.records() if one.module is not None}
    assert known == dict.fromkeys(("challenge-build", "challenge-export", "build", "export"), "config")
    [kernel] = [one for one in bench.records() if one.kernel == "nanoda"]
    assert kernel.kernel_known_by == "config"
    assert kernel.started["kernel"]["name"] == "nanoda_bin"
    assert json.loads(kernel.started["kernel"]["config_text"])["num_threads"] == 4


@pytest.mark.parametrize("how", ["-d", "--dir="])
def test_it_is_found_in_the_folder_that_lake_is_sent_to(bench: Bench, how: str) -> None:
    from proofcost.run import judge_config

    project = str(bench.project)
    where = ["-d", project] if how == "-d" else [f"--dir={project}"]
    assert judge_config(["/x/lake", *where, "comparator"]) == f"{project}/comparator.json"
    assert judge_config(["/x/lake", *where, "check"]) is None
    assert judge_config(["/x/lake", "-f", "comparator", *where, "env"]) is None


def test_a_named_configuration_and_all_bundled_kernels(bench: Bench) -> None:
    (bench.project / "c.json").write_text(json.dumps(CONFIG))
    bare = bench.call("lake", "comparator", "--config", "c.json", "--paranoid")
    assert bench.run("lake", "comparator", "--config", "c.json", "--paranoid") == bare
    kernels = ["leanchecker-paranoid", "con-leche", "con-ron", "lean4lean", "nanoda_bin", "leanchecker"]
    assert bench.calls() == [*BEFORE_KERNELS, *(("checker", name) for name in kernels)]
    checkers = [one for one in bench.records() if one.phase == "checker"]
    for one in checkers:
        sizes = {entry["size_bytes"] for entry in one.started["inputs"]}
        assert len(b'{"meta":"Solution"}\n') in sizes, one.started["inputs"]
        assert len(one.started["inputs"]) == 2, "the export and the configuration, not the kernel itself"


def test_from_exports_only_the_kernels_are_run(bench: Bench) -> None:
    exports = [f"--{side.lower()}-from-export={bench.project}/{side}.ndjson" for side in ("Challenge", "Solution")]
    assert bench.run("lake", "comparator", *exports).status == 0
    assert bench.calls() == KERNELS
    assert {one.side for one in bench.records() if one.phase == "checker"} == {"solution"}


@pytest.mark.parametrize("paranoid", [False, True])
def test_check_is_build_and_export_in_one(bench: Bench, paranoid: bool) -> None:
    words = ["check", *(["--paranoid"] if paranoid else [])]
    bare = bench.call("lake", *words)
    assert (bare.status, bench.run("lake", *words)) == (0, bare)
    kernels = ["leanchecker-paranoid", "con-leche", "con-ron", "lean4lean", "nanoda_bin"] if paranoid else []
    expected = [("resolve", None), ("check", None), *(("checker", name) for name in (*kernels, "leanchecker"))]
    assert bench.calls() == expected
    assert {one.phase: one.side for one in bench.records()}["check"] == "solution"


# By installed launchers, without `run`.


def test_an_installed_launcher_works_in_lake_s_empty_environment(bench: Bench) -> None:
    bare = bench.call("lake", "comparator")
    launchers = bench.installed()
    assert bench.call("lake", "comparator", COMPARATOR_BWRAP=f"{launchers}/bwrap") == bare
    assert bench.calls() == [*BEFORE_KERNELS, ("checker", "nanoda_bin"), ("checker", "con-ron"), KERNELS[-1]]
    assert len({one.session for one in bench.records()}) == 1
    assert {one.side_known_by for one in bench.records() if one.module is not None} == {"order"}
    assert {one.started["meter"]["entrance"] for one in bench.records()} == {"bwrap"}
    # Switched off it passes on, and measures again.
    for word, more in (("--off", 0), ("--on", 8)):
        before = len(bench.records())
        assert bench.call(PROOFCOST, "install", launchers, word).status == 0
        assert bench.call("lake", "comparator", COMPARATOR_BWRAP=f"{launchers}/bwrap") == bare
        assert len(bench.records()) == before + more


def test_two_runs_of_lake_are_two_sessions(bench: Bench) -> None:
    launcher = f"{bench.installed()}/bwrap"
    for _ in range(2):
        bench.call("lake", "check", COMPARATOR_BWRAP=launcher)
    sessions = [one.session for one in bench.records()]
    assert sorted(sessions.count(one) for one in set(sessions)) == [3, 3]


def script_around(bench: Bench, body: str) -> Path:
    path = bench.folder / "around-bwrap"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("ends", ['exec BWRAP "$@"', 'BWRAP "$@"; exit $?'])
def test_the_real_bwrap_may_be_a_script_that_adds_to_it(bench: Bench, working_bwrap: Path, ends: str) -> None:
    bare = bench.call("lake", "comparator")
    around = script_around(bench, f'set -- --ro-bind /usr /usr "$@"\n{ends.replace("BWRAP", str(working_bwrap))}')
    launcher = f"{bench.installed('--bwrap', around)}/bwrap"
    assert bench.call("lake", "comparator", COMPARATOR_BWRAP=launcher) == bare
    assert len(bench.calls()) == 8
    for one in bench.records():
        assert one.started["sandbox"]["path"] == str(around)
        program = one.measurement("wall_program")
        assert program is not None
        assert program.value is not None, program


@pytest.mark.parametrize("ends", ['exec BWRAP "$@"', 'BWRAP "$@"; exit $?'])
def test_or_stand_in_front_of_us(bench: Bench, ends: str) -> None:
    """A script that changes the options is no judge, even where it stays in between: one run, one session."""
    bare = bench.call("lake", "comparator")
    launcher = f"{bench.installed()}/bwrap"
    around = script_around(bench, f'set -- --ro-bind /usr /usr "$@"\n{ends.replace("BWRAP", launcher)}')
    assert bench.call("lake", "comparator", COMPARATOR_BWRAP=str(around)) == bare
    assert len(bench.calls()) == 8
    assert [phase for phase, _ in bench.calls()] == [phase for phase, _ in (*BEFORE_KERNELS, *KERNELS)]
    assert len({one.session for one in bench.records()}) == 1


def test_run_takes_a_variable_that_is_set_for_the_real_one(bench: Bench, working_bwrap: Path) -> None:
    around = script_around(bench, f'exec {working_bwrap} "$@"')
    assert bench.run("lake", "comparator", COMPARATOR_BWRAP=str(around)).status == 0
    assert {one.started["sandbox"]["path"] for one in bench.records() if one.phase == "resolve"} == {str(around)}


def test_run_and_an_installed_launcher_record_a_call_once(bench: Bench) -> None:
    launcher = f"{bench.installed()}/bwrap"
    assert bench.run("lake", "comparator", COMPARATOR_BWRAP=launcher).status == 0
    assert bench.calls() == [*BEFORE_KERNELS, *KERNELS]


# Bad input.


def test_without_a_bwrap_lake_says_so_itself(bench: Bench) -> None:
    (bench.prefix / "bin/which").write_text('#!/bin/sh\n[ "$1" != bwrap ] && exec /usr/bin/which "$@"\nexit 1\n')
    (bench.prefix / "bin/which").chmod(0o755)
    missing = {"COMPARATOR_BWRAP": "/nonexistent/bwrap"}
    bare = bench.call("lake", "comparator", **missing)
    assert (bare.status, "was not found" in bare.stderr) == (2, True)
    assert bench.run("lake", "comparator", **missing) == bare


@pytest.mark.parametrize(
    ("make", "status"),
    [("#!/bin/sh\nexit 1\n", 1), ("#!/nonexistent/interpreter\n", 127)],
    ids=["refuses", "no interpreter"],
)
def test_a_wrong_bwrap_is_no_rejection_in_the_record(bench: Bench, make: str, status: int) -> None:
    wrong = bench.folder / "wrong"
    wrong.write_text(make)
    wrong.chmod(0o755)
    ended = bench.run("lake", "comparator", COMPARATOR_BWRAP=str(wrong))
    assert (ended.status, ended.stderr) == (1, f"error: Child exited with {status}\n")
    [call] = [one for one in bench.records() if one.phase == "resolve"]
    cause = (call.outcome or {}).get("cause")
    assert cause == ("sandbox_setup_failed" if status == 1 else "not_started")


def test_a_bwrap_that_went_away_after_the_installation(bench: Bench, working_bwrap: Path) -> None:
    real = bench.folder / "bwrap-of-ours"
    real.write_bytes(working_bwrap.read_bytes())
    real.chmod(0o755)
    launcher = f"{bench.installed('--bwrap', real)}/bwrap"
    real.unlink()
    ended = bench.call("lake", "comparator", COMPARATOR_BWRAP=launcher)
    assert (ended.status, ended.stderr) == (1, "error: Child exited with 127\n")
    [call] = bench.records()
    assert (call.outcome or {})["kind"] == "not_started"


def test_a_store_that_the_build_could_write_to_costs_its_record_alone(bench: Bench) -> None:
    """The store in .lake: calls that bind it writable run unmeasured, the others are recorded."""
    (bench.project / ".lake").mkdir()
    store = bench.project / ".lake/store"
    bare = bench.call("lake", "comparator")
    where = bench.folder / "launchers"
    assert bench.call(PROOFCOST, "install", where, "--store", store).status == 0
    ended = bench.call("lake", "comparator", COMPARATOR_BWRAP=f"{where}/bwrap")
    assert (ended.status, ended.stdout) == (bare.status, bare.stdout)
    phases = [one.phase for one in read_store(store).records]
    assert sorted(phases) == ["challenge-export", *["checker"] * 3, "export"]
    marks = [json.loads(path.read_text())["fault"] for path in store.glob("marks/*.json")]
    assert len(marks) == 3
    assert all("lets the command write" in str(mark) for mark in marks)


# lean-exercise.


@pytest.fixture
def students(bench: Bench) -> list[Path]:
    """Two students: one whose file is right, one whose file does not compile."""
    made = []
    for name in ("ada", "ben"):
        folder = bench.folder / "students" / name
        write_project(folder)
        made.append(folder)
    (made[1] / "Solution.build-status").write_text("1")
    (bench.folder / "base/packages").mkdir(parents=True)
    write_project(bench.folder / "challenge")
    (bench.folder / "challenge/Solution.lean").unlink()
    return made


def exercise(bench: Bench, students: list[Path], *more: object) -> list[object]:
    command: list[object] = ["/usr/bin/python3", EXERCISE, "batch", "--challenge", bench.folder / "challenge"]
    return [*command, "--theorem", "one", "--theorem", "two", *more, *students]


ONE_RUN = [*BEFORE_KERNELS, KERNELS[-1]]


@pytest.mark.parametrize("project", [False, True])
@pytest.mark.parametrize("shims", ["env", "path"])
def test_a_batch_is_recorded_theorem_by_theorem(bench: Bench, students: list[Path], shims: str, project: bool) -> None:
    """Its own script hides COMPARATOR_BWRAP; a launcher on PATH is reached inside it."""
    command = exercise(bench, students, *(["--project", bench.folder / "base"] if project else []))
    bare = bench.call(*command)
    assert bare.status == 1
    verdicts = {one["file"]: list(one["verdicts"].values()) for one in json.loads(bare.stdout)["files"]}
    assert verdicts == {"ada": ["accepted", "accepted"], "ben": ["build_error", "build_error"]}
    assert bench.run(*command, shims=shims) == bare
    seen = bench.calls()
    if project and shims == "env":
        assert seen == [], "told by the variable alone we are not asked"
        return
    assert seen == [*ONE_RUN, *ONE_RUN, *ONE_RUN[:4]], "ada twice, ben once: his other theorem was not run"
    records = [one for one in bench.records() if one.phase != "whole"]
    assert {one.side_known_by for one in records if one.module is not None} == {"order"}
    network = [one for one in records if "--share-net" in one.started["argv"]["head"]]
    assert len(network) == (0 if project else 3)
    bound = [one for one in records if f"{bench.folder}/base/packages" in one.started["sandbox"]["readable"]]
    assert len(bound) == (len(records) if project else 0)


def test_a_script_of_its_own_that_stays_in_between(bench: Bench, students: list[Path]) -> None:
    command = exercise(bench, students, "--project", bench.folder / "base", "--no-exec")
    bare = bench.call(*command)
    assert bench.run(*command, shims="path") == bare
    assert bench.calls() == [*ONE_RUN, *ONE_RUN, *ONE_RUN[:4]]


def test_its_script_refuses_another_shape_with_us_as_without(bench: Bench, students: list[Path]) -> None:
    """125 is a tool error there: nothing of ours may bring it about or hide it."""
    (bench.prefix / "bin/lake").write_text(
        (bench.prefix / "bin/lake").read_text().replace("*) exec", "*) export ODD=1; exec")
    )
    standin = bench.prefix / "lib/standin_lake.py"
    standin.write_text(standin.read_text().replace('["--ro-bind", "/", "/"]', '["--ro-bind", "/.", "/"]'))
    command = exercise(bench, students, "--project", bench.folder / "base")
    bare = bench.call(*command)
    assert {v for one in json.loads(bare.stdout)["files"] for v in one["verdicts"].values()} == {"tool_error"}
    assert bench.run(*command, shims="path") == bare


def test_the_table_names_every_phase(bench: Bench) -> None:
    assert bench.run("lake", "comparator").status == 0
    shown = bench.call(PROOFCOST, "show", "--store", str(bench.store), "last")
    assert shown.status == 0, shown.stderr
    for word in ("resolve", "challenge-build", "challenge-export", "build", "export", "leanchecker", "solution total"):
        assert word in shown.stdout, shown.stdout
    assert "unknown" not in shown.stdout
    assert "resolve: in no total" in shown.stdout
