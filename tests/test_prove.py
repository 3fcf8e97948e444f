"""`doctor --prove`: launchers that do no harm are all equal, and whoever meddles is found out and named exactly."""

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from calling import PROOFCOST
from hypothesis import given
from hypothesis import strategies as st

from proofcost import prove, prove_call
from proofcost.adapters import launchers
from proofcost.prove import Entrance, compare, compare_one, differing_bytes, differing_lists, differing_streams
from proofcost.prove_call import Seen
from proofcost.prove_cases import STATES, VERDICTS, Case, Sandbox, for_sandbox

Hostile = Callable[[str], Path]
Differences = dict[str, list[str]]

READ, EMPTY, ODD, CLOSED = STATES


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "streams"
    made.mkdir()
    return made


@pytest.fixture
def meddler(hostile: Hostile, tmp_path: Path) -> Callable[[str], Path]:
    """A launcher that meddles in the named way."""

    def make(mode: str) -> Path:
        path = tmp_path / mode
        shutil.copy(hostile("meddle"), path)
        return path

    return make


@pytest.fixture
def found_with(
    meddler: Callable[[str], Path], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Differences]:
    """What the cases without a sandbox find in a launcher, by case; without those that found nothing."""
    monkeypatch.setattr(prove_call, "PATIENCE_S", 5)

    def compare_all(mode: str, *names: str) -> Differences:
        entrance = Entrance("phase", str(meddler(mode)))
        cases = [case for case in for_sandbox(Sandbox("none")) if not names or case.name in names]
        assert len(cases) == (len(names) or 18)
        results = {case.name: compare_one(entrance, case, folder).differences for case in cases}
        return {name: differences for name, differences in results.items() if differences}

    return compare_all


def test_a_launcher_that_only_execs_is_equal_in_every_case(found_with: Callable[..., Differences]) -> None:
    assert found_with("honest") == {}


MEDDLING: dict[str, tuple[str, list[str]]] = {
    "adds-a-variable": (READ, ["variable 'MEDDLED=1' was added"]),
    "drops-a-duplicate": (ODD, ["variable 'A=2' is missing"]),
    "adds-an-argument": (READ, ["argument '--meddled' was added"]),
    "opens-nine": (READ, ["descriptor 9 was added: /dev/null flags 0100000"]),
    "closes-nine": (ODD, ["descriptor 9 is missing: /dev/null flags 0100002"]),
    "is-nice": (READ, ["priority: 20 bare, 23 wrapped", "nice: 0 bare, 3 wrapped"]),
    "changes-folder": (READ, [f"cwd: {os.getcwd()} bare, /usr wrapped"]),
    "ignores-pipe": (READ, ["signals ignored: 0000000000000000 bare, 0000000000001000 wrapped"]),
    "blocks-term": (READ, ["signals blocked: 0000000000000000 bare, 0000000000004000 wrapped"]),
    "makes-a-group": (READ, ["process group: the caller's bare, the call's own wrapped"]),
    "gives-up-privileges": (READ, ["no new privileges: 0 bare, 1 wrapped"]),
    "speaks": (
        "accept",
        ["stderr: 0 bytes bare, 18 wrapped, from byte 0 on '' bare, 'meddler: measured\\n' wrapped"],
    ),
    "swallows-a-byte": (
        "accept",
        [
            "stdout: 38 bytes bare, 37 wrapped, from byte 0 on 'Checked 3 declarations w' bare, "
            "'hecked 3 declarations wi' wrapped"
        ],
    ),
    "killed-is-success": ("killed", ["status: 137 bare, 0 wrapped"]),
    "reject-is-125": ("reject", ["status: 1 bare, 125 wrapped"]),
}


@pytest.mark.parametrize("mode", MEDDLING)
def test_a_launcher_that_meddles_is_named_for_what_it_does(mode: str, found_with: Callable[..., Differences]) -> None:
    case, expected = MEDDLING[mode]
    assert found_with(mode, case) == {case: expected}


def test_one_that_turns_a_kill_into_success_is_found_wherever_something_is_killed(
    found_with: Callable[..., Differences],
) -> None:
    found = found_with("killed-is-success", "killed", "exit 137, as one that was killed", "accept", "reject")
    assert set(found) == {"killed", "exit 137, as one that was killed"}


def test_one_that_lowers_a_limit(found_with: Callable[..., Differences]) -> None:
    found = found_with("lowers-a-limit", READ)
    assert len(found[READ]) == 1
    assert found[READ][0].startswith("limit open files: ")
    assert found[READ][0].endswith(" bare, 50 50 files wrapped")


def test_one_that_changes_the_umask(found_with: Callable[..., Differences]) -> None:
    before = f"{os.umask(0o022):04o}"
    os.umask(int(before, 8))
    assert found_with("changes-umask", READ) == {READ: [f"umask: {before} bare, 0077 wrapped"]}


def test_one_that_reads_ahead(found_with: Callable[..., Differences]) -> None:
    name = "odd bytes in, odd bytes out"
    [told] = found_with("reads-ahead", name)[name]
    assert told.startswith("stdout: 307221 bytes bare, 307220 wrapped, from byte 0 on ")


def test_one_that_fills_closed_streams(found_with: Callable[..., Differences]) -> None:
    found = found_with("opens-closed-streams", CLOSED)[CLOSED]
    assert [told.partition(" was added")[0] for told in found] == ["descriptor 0", "descriptor 1", "descriptor 2"]


def test_one_that_lets_the_program_live_on(found_with: Callable[..., Differences]) -> None:
    """As a wrapper does that forks and forwards nothing: its caller's SIGKILL ends the wrapper alone."""
    name = "ended by its caller with SIGKILL"
    assert "processes that lived on: 0 bare, 1 wrapped" in found_with("leaves-orphans", name)[name]


def test_one_that_takes_the_program_out_of_the_session(found_with: Callable[..., Differences]) -> None:
    found = found_with("makes-a-session", READ)[READ]
    assert "session: the caller's bare, another one wrapped" in found


def test_one_that_pins_to_a_processor(found_with: Callable[..., Differences]) -> None:
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one processor alone: nothing to pin to")
    [told] = found_with("pins", READ)[READ]
    assert told.startswith("processors: ")
    assert told.endswith(" bare, 0 wrapped")


def test_one_that_does_not_end_is_ended_and_told(folder: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(prove_call, "PATIENCE_S", 0.5)
    script = tmp_path / "phase"
    script.write_text("#!/bin/sh\nsleep 60\n")
    script.chmod(0o755)
    found = compare_one(Entrance("phase", str(script)), Case("accept", VERDICTS["accept"]), folder).differences
    assert found[0] == "status: 0 bare, no end wrapped"


def test_a_difference_that_does_not_come_again_is_told_and_none(folder: Path, tmp_path: Path) -> None:
    script = tmp_path / "phase"
    script.write_text('#!/bin/sh\n[ -e "$0.once" ] || { >"$0.once"; exit 9; }\nwhile [ "$1" != -- ]; do shift; done\n'
                      'shift\nexec "$@"\n')  # fmt: skip
    script.chmod(0o755)
    found = compare_one(Entrance("phase", str(script)), Case("reject", VERDICTS["reject"]), folder)
    assert found.differences == []
    assert (
        "; differed in one of 2 attempts: status: 1 bare, 9 wrapped; stderr: 25 bytes bare, 0 wrapped"
        in found.looked_at
    )


# The whole command.


def prove_here(*words: object, path: str = "/usr/bin:/bin", **more: str) -> subprocess.CompletedProcess[str]:
    """`proofcost doctor --prove` with the parts on this PATH."""
    kept = {name: os.environ[name] for name in ("HOME", "TMPDIR", "PROOFCOST_STORE") if name in os.environ}
    return subprocess.run(
        [PROOFCOST, "doctor", "--prove", *map(str, words)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600, check=False,
        env={**kept, "PATH": path, **more},
    )  # fmt: skip


@pytest.fixture
def bare_path(tmp_path: Path) -> str:
    """A PATH with what shell scripts need and no sandbox or kernel."""
    made = tmp_path / "bin"
    made.mkdir()
    for name in ("true", "sh"):
        (made / name).symlink_to(f"/bin/{name}")
    return str(made)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_whatever_ends_it_nothing_is_left(bare_path: str, tmp_path: Path, number: int) -> None:
    place = tmp_path / "place"
    place.mkdir()
    process = subprocess.Popen(
        [PROOFCOST, "doctor", "--prove"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={"PATH": bare_path, "TMPDIR": str(place)},
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline().startswith(b"equal"), "it is at work"
    assert len(list(place.iterdir())) == 1
    process.send_signal(number)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (-number, b"")
    assert list(place.iterdir()) == []


def test_fresh_launchers_are_equal_with_stand_ins(bare_path: str) -> None:
    done = prove_here(path=bare_path)
    assert (done.returncode, done.stderr) == (0, "")
    *lines, last = done.stdout.splitlines()
    assert all(line.startswith("equal   ") and ", recorded" in line for line in lines), done.stdout
    assert last == f"{len(lines)} comparisons, all equal (what no comparison can remove: docs/transparency.md)"
    assert f"{'equal':8}{'landrun':9}landrun (stand-in; none found): reject: status 1, " in done.stdout
    assert "reject by a kernel (stand-in): status 1, " in done.stdout
    assert "\x1b" not in done.stdout


@pytest.mark.real
def test_fresh_launchers_are_equal_with_what_is_installed(landrun: Path, bwrap: Path) -> None:
    kernels = {name: os.environ[name] for name in ("PROOFCOST_NANODA", "PROOFCOST_SOKONANODA") if name in os.environ}
    done = prove_here(COMPARATOR_LANDRUN=str(landrun), **kernels)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "equal   landrun  landrun 0" in done.stdout
    assert "landrun (stand-in" not in done.stdout
    if "PROOFCOST_NANODA" in kernels:
        assert "reject by nanoda_bin: status 101, " in done.stdout
    if "PROOFCOST_SOKONANODA" in kernels:
        assert "reject by sokonanoda: status 1, " in done.stdout


@pytest.fixture
def installed(tmp_path: Path, bare_path: str) -> Path:
    """Launchers around a script that stands in for a landrun."""
    real = tmp_path / "real-landrun"
    real.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done\nshift\nexec "$@"\n')
    real.chmod(0o755)
    directory = tmp_path / "launchers"
    subprocess.run(
        [PROOFCOST, "install", directory, "--store", tmp_path / "store", "--landrun", real],
        check=True, capture_output=True, env={"PATH": bare_path, "HOME": "/nonexistent"},
    )  # fmt: skip
    return directory


def test_installed_launchers_are_equal_and_leave_no_record(installed: Path, tmp_path: Path, bare_path: str) -> None:
    done = prove_here("--launchers", installed, path=bare_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"landrun  landrun ({tmp_path / 'real-landrun'}): reject: status 1, " in done.stdout
    assert list((tmp_path / "store").glob("sessions/*")) == []


def test_a_launcher_that_leads_nobody_knows_where_is_not_compared(installed: Path, bare_path: str) -> None:
    """No bwrap was there when it was written."""
    done = prove_here("--launchers", installed, path=bare_path)
    told = "skipped bwrap    not compared: no bwrap was found when this launcher was written; install again"
    assert told in done.stdout.splitlines()
    assert done.returncode == 0


def test_a_planted_launcher_among_the_installed_is_found(
    installed: Path, meddler: Callable[[str], Path], bare_path: str
) -> None:
    source = meddler("adds-a-variable")
    script = f'#!/bin/sh\nexec {source} "$@"\n'
    (installed / "phase").write_text(script)
    done = prove_here("--launchers", installed, path=bare_path)
    assert done.returncode == 1
    lines = done.stdout.splitlines()
    wrong = [line for line in lines if line.startswith("DIFFERS ")]
    assert any("variable 'MEDDLED=1' was added" in line for line in wrong)
    assert all(line.startswith("DIFFERS phase ") for line in wrong)
    assert any(line.startswith("equal   landrun ") for line in lines), "only one of the two meddles"
    assert lines[-1].endswith(" with a difference: these launchers may harm a judge")


def test_launchers_that_do_not_measure_are_told(installed: Path, tmp_path: Path, bare_path: str) -> None:
    shutil.rmtree(tmp_path / "store")
    (tmp_path / "store").write_text("no store")
    done = prove_here("--launchers", installed, path=bare_path)
    assert done.returncode == 1
    assert "not measured: " in done.stdout


def test_the_answer_can_be_read_by_a_program(bare_path: str) -> None:
    done = prove_here("--json", path=bare_path)
    answer = json.loads(done.stdout)
    assert (done.returncode, answer["schema"]) == (0, 1)
    assert {one["entrance"] for one in answer["comparisons"]} >= {"phase", "landrun"}
    assert [one for one in answer["comparisons"] if one["differences"]] == []


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--launchers", "/nonexistent"], "proofcost: --launchers /nonexistent: holds none of phase, landrun"),
        (["--store", "/tmp/x"], "proofcost: --store: not with --prove, which keeps what it records in a folder"),
    ],
)
def test_a_wrong_call_is_usage(words: list[str], told: str) -> None:
    done = prove_here(*words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(told)
    assert done.stderr.count("\n") == 1


# The comparison itself.


@given(st.binary(max_size=60), st.binary(max_size=60))
def test_two_streams_are_equal_only_when_every_byte_is(one: bytes, other: bytes) -> None:
    found = differing_bytes("stdout", one, other)
    assert (found == []) is (one == other)
    if found:
        at = int(found[0].partition("from byte ")[2].partition(" ")[0])
        assert one[:at] == other[:at]
        assert one[at : at + 1] != other[at : at + 1]


def test_what_two_bare_calls_do_not_agree_on_is_compared_without_its_numbers() -> None:
    assert differing_streams("stderr", b"pid 17: no\n", b"pid 18: no\n", b"pid 20: no\n") == []
    assert differing_streams("stderr", b"pid 17: no\n", b"pid 18: no\n", b"pid 20: yes\n") != []
    assert differing_streams("stderr", b"red", b"blue", b"green") == []


def test_the_order_of_the_environment_counts() -> None:
    one, other = {"variable 0": "A=1", "variable 1": "A=2"}, {"variable 0": "A=2", "variable 1": "A=1"}
    assert differing_lists("variable", one, other) == ["variables stand in another order"]


@given(st.integers(0, 255), st.integers(0, 255))
def test_every_change_of_an_exit_code_is_a_difference(bare: int, wrapped: int) -> None:
    one, other = Seen(bare << 8, b"", b""), Seen(wrapped << 8, b"", b"")
    assert (compare(one, one, other) == []) is (bare == wrapped)


@pytest.mark.parametrize("number", [6, 9, 11, 15, 31])
def test_a_death_by_signal_and_its_exit_code_are_alike(number: int) -> None:
    died, said = Seen(number, b"", b""), Seen((128 + number) << 8, b"", b"")
    assert compare(died, died, said) == []
    assert compare(died, died, Seen(0, b"", b"")) == [f"status: {128 + number} bare, 0 wrapped"]


def test_every_launcher_is_an_adapter_or_named_after_a_sandbox() -> None:
    """A new one has to be planted for."""
    assert set(launchers.LAUNCHERS) - set(prove.ADAPTERS) <= {"landrun", "bwrap"}
