"""The fake comparator's own behaviour, without any meter: the tests that use it are worth what these are."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from standin_comparator import make_toolchain

STANDIN = Path(__file__).with_name("standin_comparator.py")

FAKE_LANDRUN = """\
#!{python} -ISWignore
# Writes down how it was called, then does what landrun does but for the sandbox: passes the named variables, execs.
import json, os, sys
here = os.path.dirname(os.path.abspath(__file__))
call = {{
    "argv": sys.argv[1:],
    "cwd": os.getcwd(),
    "env": {{key: value for key, value in os.environ.items()}},
    "stdio": [os.readlink("/proc/self/fd/%d" % fd) for fd in (0, 1, 2)],
    "files": {{a: open(a, errors="replace").read() for a in sys.argv[1:] if a.startswith("/") and os.path.isfile(a)}},
}}
with open(os.path.join(here, "calls.jsonl"), "a") as log:
    log.write(json.dumps(call) + "\\n")
args = sys.argv[1:]
cut = args.index("--")
passed = [args[i + 1] for i in range(cut) if args[i] == "--env"]
environment = {{key: os.environ[key] for key in passed if key in os.environ}}
command = args[cut + 1:]
try:
    os.execvpe(command[0], command, {{**environment, "PATH": os.environ["PATH"]}})
except OSError as error:
    print("[landrun:error]", error, file=sys.stderr)
    sys.exit(1)
"""

FAKE_HOOK = """\
#!/bin/sh
# Writes down its own arguments up to --, then runs what it was given.
log=$(dirname "$0")/hook.log
while [ "$1" != -- ]; do printf '%s ' "$1" >> "$log"; shift; done
echo >> "$log"
shift
exec "$@"
"""


@dataclass(frozen=True)
class Bench:
    """A project with stand-in tools and a landrun that writes down its calls."""

    project: Path
    tools: Path

    def write_config(self, **keys: object) -> Path:
        config: dict[str, object] = {
            "challenge_module": "Challenge",
            "solution_module": "Solution",
            "theorem_names": ["main_theorem"],
            "permitted_axioms": ["propext", "Quot.sound"],
            **keys,
        }
        path = self.project / "config.json"
        path.write_text(json.dumps(config))
        return path

    def kernel(self, name: str, body: str) -> str:
        path = self.tools / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)
        return str(path)

    def judge(
        self, config: Path | None, *, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        variables = {
            "PATH": f"{self.tools}:/usr/bin:/bin",
            "HOME": str(self.project),
            "COMPARATOR_LANDRUN": str(self.tools / "landrun"),
            "CANARY": "sings",
            **(environment or {}),
        }
        return subprocess.run(
            [sys.executable, "-I", "-S", str(STANDIN), *([] if config is None else [str(config)])],
            cwd=self.project,
            env=variables,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )

    def calls(self) -> list[dict[str, Any]]:
        log = self.tools / "calls.jsonl"
        return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []

    def hooks(self) -> list[str]:
        log = self.tools / "hook.log"
        return [line.strip() for line in log.read_text().splitlines()] if log.exists() else []


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    tools = make_toolchain(tmp_path / "tools")
    for name, text in (("landrun", FAKE_LANDRUN.format(python=sys.executable)), ("hook", FAKE_HOOK)):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    project = tmp_path / "project"
    project.mkdir()
    for module in ("Challenge", "Solution"):
        (project / f"{module}.lean").write_text(f"-- {module}\n")
        (project / f"{module}.ndjson").write_text(f'{{"meta":"{module}"}}\n')
    return Bench(project, tools)


def command_of(call: Mapping[str, Any]) -> list[str]:
    argv: list[str] = call["argv"]
    return argv[argv.index("--") + 1 :]


def flags_of(call: Mapping[str, Any], flag: str) -> list[str]:
    argv: list[str] = call["argv"]
    cut = argv.index("--")
    return [argv[i + 1] for i in range(cut) if argv[i] == flag]


def kernels_said(stdout: str) -> list[str]:
    return [line for line in stdout.splitlines() if " kernel " in line and "stand-in" not in line]


def test_calls_come_in_the_comparators_order(bench: Bench) -> None:
    config = bench.write_config(external_kernels={"b": [bench.kernel("kb", "exit 0")], "a": [bench.kernel("ka", "")]})
    done = bench.judge(config)
    assert done.returncode == 0, done
    assert [" ".join(Path(word).name for word in command_of(call)[:2]) for call in bench.calls()][:4] == [
        "lake build",
        "lean4export Challenge",
        "lake build",
        "lean4export Solution",
    ]
    assert [Path(command_of(call)[0]).name for call in bench.calls()][4:] == ["ka", "kb"]
    assert done.stdout.splitlines()[-1] == "Your solution is okay!"


def test_landrun_arguments_of_a_build(bench: Bench) -> None:
    bench.judge(bench.write_config())
    build = bench.calls()[0]
    assert build["argv"] == [
        *["--best-effort", "--ro", "/", "--rw", "/dev", "-ldd", "-add-exec"],
        *["--env", "PATH", "--env", "HOME", "--env", "LEAN_ABORT_ON_PANIC"],
        *["--ro", str(bench.project), "--rwx", str(bench.project / ".lake")],
        *["--rox", "/usr", "--rox", str(bench.tools / "git")],
        *["--", "lake", "build", "Challenge"],
    ]


def test_landrun_arguments_of_an_export(bench: Bench) -> None:
    bench.judge(bench.write_config(definition_names=["helper"]))
    export = bench.calls()[1]
    assert flags_of(export, "--env") == ["PATH", "HOME", "LEAN_PATH", "LEAN_ABORT_ON_PANIC"]
    assert flags_of(export, "--ro") == ["/", str(bench.project), str(bench.project / ".lake")]
    assert flags_of(export, "--rwx") == []
    assert flags_of(export, "--rox") == ["/usr"]
    assert command_of(export)[:3] == ["lean4export", "Challenge", "--"]
    assert command_of(export)[-4:] == ["main_theorem", "propext", "Quot.sound", "helper"]


def test_landrun_arguments_of_a_kernel(bench: Bench) -> None:
    bench.judge(bench.write_config(external_kernels={"k": [bench.kernel("k", "exit 0"), "--jobs=4"]}))
    kernel = bench.calls()[-1]
    assert flags_of(kernel, "--env") == flags_of(kernel, "--rwx") == flags_of(kernel, "--rox") == []
    root, _config_path, export_path = flags_of(kernel, "--ro")
    assert root == "/"
    assert command_of(kernel) == [str(bench.tools / "k"), "--jobs=4", export_path]


def test_environment_is_handed_on_whole(bench: Bench) -> None:
    bench.judge(bench.write_config(external_kernels={"k": [bench.kernel("k", "exit 0")]}))
    expected = {
        "PATH": f"{bench.tools}:/usr/bin:/bin",
        "HOME": str(bench.project),
        "COMPARATOR_LANDRUN": str(bench.tools / "landrun"),
        "CANARY": "sings",
    }
    *lean_calls, kernel = bench.calls()
    for call in (*lean_calls, kernel):
        call["env"].pop("LC_CTYPE", None)  # the fake landrun's own Python may add it
    assert all(call["env"] == {**expected, "LEAN_ABORT_ON_PANIC": "1"} for call in lean_calls)
    assert kernel["env"] == expected


def test_every_child_starts_in_the_project(bench: Bench) -> None:
    bench.judge(bench.write_config(external_kernels={"k": [bench.kernel("k", "exit 0")]}))
    assert {call["cwd"] for call in bench.calls()} == {str(bench.project)}


def test_only_exports_write_into_pipes(bench: Bench) -> None:
    # The judge's own stdout and stderr are files here, so that what is a pipe was made by the judge.
    config = bench.write_config(external_kernels={"k": [bench.kernel("k", "exit 0")]})
    with (bench.project / "out").open("w") as out, (bench.project / "err").open("w") as err:
        subprocess.run(
            [sys.executable, "-I", "-S", str(STANDIN), str(config)],
            cwd=bench.project,
            env={"PATH": f"{bench.tools}:/usr/bin:/bin", "COMPARATOR_LANDRUN": str(bench.tools / "landrun")},
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            check=True,
        )
    inherited = ["/dev/null", str(bench.project / "out"), str(bench.project / "err")]
    for position, call in enumerate(bench.calls()):
        if position in (1, 3):
            assert call["stdio"][0] == "/dev/null"
            assert all(end.startswith("pipe:") for end in call["stdio"][1:]), call
        else:
            assert call["stdio"] == inherited


def test_sigpipe_is_ignored_as_under_lean(bench: Bench) -> None:
    log = bench.project / "signals"
    # A shell script, since Python ignores SIGPIPE by itself.
    landrun = bench.kernel("sh-landrun", f"grep SigIgn /proc/self/status > {log}; exit 1")
    bench.judge(bench.write_config(), environment={"COMPARATOR_LANDRUN": landrun})
    ignored = int(log.read_text().split()[1], 16)
    # 32 and 33 are libc's own: whoever started us by posix_spawn may have left them ignored.
    assert ignored & ((1 << 31) - 1) == 1 << (signal.SIGPIPE - 1)


def test_export_stderr_is_printed_afterwards(bench: Bench) -> None:
    (bench.project / "Solution.export-stderr").write_text("a warning of the exporter\n")
    done = bench.judge(bench.write_config())
    assert done.returncode == 0
    assert "a warning of the exporter\n" in done.stderr
    assert '"meta"' not in done.stdout


def test_name_with_noda_gets_a_config_and_others_the_export(bench: Bench) -> None:
    config = bench.write_config(
        external_kernels={"sokonoda-2": [bench.kernel("s", "exit 0")], "other": [bench.kernel("o", "exit 0")]}
    )
    bench.judge(config)
    other, noda = bench.calls()[-2:]
    assert other["files"][command_of(other)[-1]] == '{"meta":"Solution"}\n'
    given = json.loads(noda["files"][command_of(noda)[-1]])
    export_path = given.pop("export_file_path")
    assert export_path == flags_of(noda, "--ro")[2]
    assert noda["files"][export_path] == '{"meta":"Solution"}\n'
    assert given == {
        "use_stdin": False,
        "permitted_axioms": ["propext", "Quot.sound"],
        "unpermitted_axiom_hard_error": True,
        "nat_extension": True,
        "string_extension": True,
    }


def test_permit_all_axioms_leaves_the_list_out(bench: Bench) -> None:
    bench.judge(
        bench.write_config(
            external_kernels={"nanoda": [bench.kernel("n", "exit 0")]}, standin={"kernel_config": "permit-all-axioms"}
        )
    )
    call = bench.calls()[-1]
    given = json.loads(call["files"][command_of(call)[-1]])
    assert "permitted_axioms" not in given
    assert given["unsafe_permit_all_axioms"] is True
    assert given["unpermitted_axiom_hard_error"] is False


def test_temporary_files_are_gone_afterwards(bench: Bench) -> None:
    bench.judge(bench.write_config(external_kernels={"k": [bench.kernel("k", "exit 0")]}))
    assert not any(os.path.exists(path) for path in flags_of(bench.calls()[-1], "--ro")[1:])


def test_failed_challenge_build_ends_everything(bench: Bench) -> None:
    (bench.project / "Challenge.build-status").write_text("7")
    done = bench.judge(bench.write_config())
    assert done.returncode == 1
    assert "Child exited with 7" in done.stderr
    assert len(bench.calls()) == 1


def test_failed_solution_build_means_no_export(bench: Bench) -> None:
    (bench.project / "Solution.build-status").write_text("1")
    done = bench.judge(bench.write_config(external_kernels={"k": [bench.kernel("k", "exit 0")]}))
    assert done.returncode == 1
    assert "Child exited with 1" in done.stderr
    assert len(bench.calls()) == 3
    assert kernels_said(done.stdout) == []


def test_failed_export_means_no_kernel(bench: Bench) -> None:
    (bench.project / "Solution.export-status").write_text("3")
    (bench.project / "Solution.export-stderr").write_text("unknown constant\n")
    done = bench.judge(bench.write_config(external_kernels={"k": [bench.kernel("k", "exit 0")]}))
    assert done.returncode == 1
    assert done.stderr.index("unknown constant") < done.stderr.index("Child exited with 3")
    assert len(bench.calls()) == 4


def test_mismatch_means_no_kernel(bench: Bench) -> None:
    done = bench.judge(
        bench.write_config(external_kernels={"k": [bench.kernel("k", "exit 0")]}, standin={"mismatch": True})
    )
    assert done.returncode == 1
    assert len(bench.calls()) == 4


def test_rejection_does_not_stop_the_other_kernels(bench: Bench) -> None:
    result = bench.project / "result.json"
    done = bench.judge(
        bench.write_config(
            external_kernels={
                "a": [bench.kernel("ka", "exit 2")],
                "b": [bench.kernel("kb", "kill -SEGV $$")],
                "c": [bench.kernel("kc", "exit 0")],
            },
            standin={"result": str(result)},
        )
    )
    assert done.returncode == 1
    assert json.loads(result.read_text()) == {"kernels": {"a": 2, "b": 139, "c": 0}}
    assert kernels_said(done.stdout) == [
        "Running a kernel on solution",
        "a kernel rejected the solution",
        "Running b kernel on solution",
        "b kernel rejected the solution",
        "Running c kernel on solution",
        "c kernel accepts the solution",
    ]
    assert "a exited with 2" in done.stderr
    assert "okay" not in done.stdout


def test_build_killed_by_a_signal_is_128_and_the_signal(bench: Bench) -> None:
    bench.kernel("lake", "kill -KILL $$")
    done = bench.judge(bench.write_config())
    assert done.returncode == 1
    assert "Child exited with 137" in done.stderr


def test_hook_wraps_the_solution_and_the_kernels_only(bench: Bench) -> None:
    config = bench.write_config(
        measurement_command=[str(bench.tools / "hook"), "--own-option"],
        external_kernels={"a": [bench.kernel("ka", "exit 1")], "b": [bench.kernel("kb", "exit 0")]},
    )
    done = bench.judge(config)
    assert done.returncode == 1
    assert bench.hooks() == [
        "--own-option --phase build",
        "--own-option --phase build",
        "--own-option --phase checker",
        "--own-option --phase checker",
    ]
    # What landrun was asked is the same with the hook as without: six calls, two of them the challenge's.
    assert len(bench.calls()) == 6


def test_without_the_hook_nothing_is_wrapped(bench: Bench) -> None:
    bench.judge(bench.write_config())
    assert bench.hooks() == []


@pytest.mark.parametrize(
    ("keys", "says"),
    [
        ({"measurement_command": []}, "must not be empty"),
        ({"external_kernels": {"k": []}}, "k has an empty command"),
        ({"enable_nanoda": True, "external_kernels": {"k": ["true"]}}, "exclude each other"),
        ({"standin": {"kernel_config": "nonsense"}}, "nonsense"),
        ({"theorem_names": None}, "config"),
    ],
)
def test_bad_config_runs_nothing(bench: Bench, keys: dict[str, object], says: str) -> None:
    done = bench.judge(bench.write_config(**keys))
    assert done.returncode == 1
    assert says in done.stderr
    assert bench.calls() == []


def test_no_config_runs_nothing(bench: Bench) -> None:
    done = bench.judge(None)
    assert done.returncode == 1
    assert bench.calls() == []


@pytest.mark.parametrize(
    ("keys", "variable", "expected"),
    [
        ({"enable_nanoda": True}, {"COMPARATOR_NANODA": "{tools}/mine"}, ["{tools}/mine"]),
        (
            {"external_kernels": {"nanoda": ["{tools}/listed", "-x"]}},
            {"COMPARATOR_NANODA": "{tools}/mine"},
            ["{tools}/mine", "-x"],
        ),
        ({"enable_nanoda": True}, {}, ["nanoda_bin"]),
    ],
)
def test_nanoda_is_found_where_the_comparator_finds_it(
    bench: Bench, keys: dict[str, object], variable: dict[str, str], expected: Sequence[str]
) -> None:
    for name in ("mine", "listed", "nanoda_bin"):
        bench.kernel(name, "exit 0")

    def fill(text: str) -> str:
        return text.replace("{tools}", str(bench.tools))

    config = bench.write_config(**json.loads(fill(json.dumps(keys))))
    done = bench.judge(config, environment={key: fill(value) for key, value in variable.items()})
    assert done.returncode == 0, done
    assert command_of(bench.calls()[-1])[:-1] == [fill(word) for word in expected]


def test_exporter_named_in_the_environment_is_used(bench: Bench) -> None:
    mine = bench.kernel("my-exporter", 'exec cat "$1.ndjson"')
    done = bench.judge(bench.write_config(), environment={"COMPARATOR_LEAN4EXPORT": mine})
    assert done.returncode == 0
    assert [command_of(call)[0] for call in bench.calls()] == ["lake", mine, "lake", mine]


def test_missing_landrun_fails_like_lean(bench: Bench) -> None:
    done = bench.judge(bench.write_config(), environment={"COMPARATOR_LANDRUN": "/nonexistent/landrun"})
    assert done.returncode == 1
    assert "Child exited with 255" in done.stderr


def test_lines_of_the_judge_stand_before_those_of_its_children(bench: Bench) -> None:
    done = bench.judge(bench.write_config())
    lines = done.stdout.splitlines()
    assert lines.index("Building Solution") < lines.index("stand-in lake built Solution")
