"""Launchers: their text, whom they join, when they step aside, and that they never start themselves."""

import dis
import marshal
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType
from typing import Any

import pytest
from calling import ENTRANCES, LANDRUN, PHASE, PLAIN, PROOFCOST, RUN, Wrap, call, running, shared_tree
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from proofcost.adapters import launchers
from proofcost.harness import session
from proofcost.meter_copy import copy_meter


@pytest.fixture(scope="module")
def tree() -> Path:
    return shared_tree()


@pytest.fixture
def wrap(tmp_path: Path, tree: Path) -> Wrap:
    return Wrap(tmp_path / "w", tree)


def fake_landrun(folder: Path) -> Path:
    """A sandbox that only starts what it is given."""
    path = folder / "real-landrun"
    path.write_text('#!/bin/sh\nwhile [ "$1" != -- ]; do shift; done; shift; exec "$@"\n')
    path.chmod(0o755)
    return path


# Their text.

ODD_TEXT = st.text(st.characters(codec=None, exclude_characters="\0", exclude_categories=()), max_size=30).map(
    lambda text: os.fsdecode(text.encode("utf-8", "surrogatepass"))
)


@given(store=ODD_TEXT, tree=ODD_TEXT, real=ODD_TEXT)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_launcher_is_always_python_whatever_its_paths(store: str, tree: str, real: str) -> None:
    """One that Python cannot read would end with 1, which a judge takes for a rejection."""
    options = launchers.Options(store, tree, "/usr/bin/python3")
    for name in launchers.LAUNCHERS:
        text = launchers.text_of(name, real, options)
        raw = text.encode("utf-8", "surrogateescape")
        compile(raw, name, "exec", dont_inherit=True)
        constants: dict[str, object] = {}
        exec(raw[raw.index(b"NAME, VERSION") : raw.index(b"OPTIONS =")], constants)
        assert (constants["STORE"], constants["TREE"], constants["REAL"]) == (store, tree, real)


@pytest.mark.parametrize(
    "folder", ["it's", 'a "b"', "new\nline", "é😀", "back\\slash", "blank here", b"\xff\xfe", "{0!r}", "'''"]
)
def test_a_launcher_works_from_any_folder(tmp_path: Path, tree: Path, folder: str | bytes) -> None:
    wrap = Wrap(tmp_path / os.fsdecode(folder), tmp_path / os.fsdecode(folder) / "meter")
    wrap.folder.mkdir()
    shutil.copytree(tree, wrap.tree)
    for way in ENTRANCES:
        ended = call(wrap.argv(way, ["/bin/sh", "-c", "exit 5"]), tmp_path / "s")
        assert (ended.code, ended.stderr) == (5, b"")
    assert [one["finished"]["outcome"]["code"] for one in wrap.records()] == [5] * len(ENTRANCES)


def test_an_interpreter_that_no_first_line_can_name_is_refused() -> None:
    assert launchers.fits_first_line("/usr/bin/python3")
    assert launchers.fits_first_line("/" + "x" * 240)
    assert not launchers.fits_first_line("/" + "x" * 250)
    assert not launchers.fits_first_line("/opt/my python/bin/python3")
    assert not launchers.fits_first_line("/opt/new\nline/python3")


@pytest.mark.parametrize("way", ENTRANCES)
def test_a_launcher_works_in_an_empty_environment_and_any_folder(tmp_path: Path, wrap: Wrap, way: str) -> None:
    argv = wrap.argv(way, ["/bin/sh", "-c", "exit 5"])
    assert call(argv, tmp_path / "s", (), as_child=lambda: os.chdir("/proc")).code == 5
    assert len(wrap.records()) == 1


@pytest.mark.parametrize("name", launchers.LAUNCHERS)
def test_switched_off_it_is_a_plain_exec(tmp_path: Path, name: str) -> None:
    script = tmp_path / "it's a real one"
    script.write_text('#!/bin/sh\nprintf "%s|" "$@"\nexit 9\n')
    script.chmod(0o755)
    off = tmp_path / name
    launchers.write(str(off), launchers.off_text(name, "" if name == "phase" else str(script)))
    words = [b"--phase", b"--", b"a b", b"", b"\xff", b"new\nline", b"-x"]
    before = [b"--phase", b"build", b"--", os.fsencode(script)] if name == "phase" else []
    ended = call([str(off), *before, *words], tmp_path / "s")
    assert (ended.code, ended.stdout, ended.stderr) == (9, b"".join(word + b"|" for word in words), b"")


def test_switched_off_without_a_command_it_is_125(tmp_path: Path) -> None:
    off = tmp_path / "phase"
    launchers.write(str(off), launchers.off_text("phase", ""))
    for words in ([], ["--phase", "build"], ["--phase", "build", "--"]):
        assert call([str(off), *words], tmp_path / "s").code == 125


# Whom they join.


def session_of(one: dict[str, dict[str, Any]]) -> tuple[str, str]:
    return one["started"]["session"], one["started"]["session_known_by"]


def test_calls_of_one_judge_are_one_session_and_of_two_judges_two(tmp_path: Path, wrap: Wrap) -> None:
    phase = wrap.launcher("phase")
    judge = f"'{phase}' --phase build -- /bin/true; '{phase}' --phase checker -- /bin/true; :"
    for _ in range(2):
        subprocess.run(["/bin/sh", "-c", judge], check=True)
    sessions = [session_of(one) for one in wrap.records()]
    assert sessions[0] == sessions[1]
    assert sessions[2] == sessions[3]
    assert sessions[0] != sessions[2]
    assert {known_by for _, known_by in sessions} == {"ancestor"}


def test_a_wrapper_script_is_not_the_judge(tmp_path: Path, wrap: Wrap) -> None:
    """Each call comes through a script of its own; the session is the judge's all the same."""
    phase = wrap.launcher("phase")
    wrapper = tmp_path / "wrapper"
    wrapper.write_text(f"#!/bin/sh\n'{phase}' \"$@\"\nexit $?\n")
    wrapper.chmod(0o755)
    judge = f"'{wrapper}' --phase build -- /bin/true A; timeout 20 '{wrapper}' --phase build -- /bin/true B; :"
    subprocess.run(["/bin/sh", "-c", judge], check=True)
    one, other = wrap.records()
    assert session_of(one) == session_of(other)


@pytest.mark.guest
def test_an_installed_launcher_joins_the_nearest_run_of_its_store(tmp_path: Path, wrap: Wrap) -> None:
    other = Wrap(tmp_path / "other", wrap.tree)
    command = ["/bin/sh", "-c", f"'{wrap.launcher('phase')}' --phase build -- /bin/true; :"]
    subprocess.run(wrap.argv(RUN, other.argv(RUN, command)), check=True)
    [outer, inner] = wrap.records()
    assert session_of(outer)[0] == session_of(inner)[0]
    assert [one["started"]["session_known_by"] for one in (outer, inner)] == ["run", "run"]
    [elsewhere] = other.records()
    assert session_of(elsewhere)[0] != session_of(outer)[0]


def test_nested_runs_of_one_store_are_two_sessions(tmp_path: Path, wrap: Wrap) -> None:
    command = ["/bin/sh", "-c", f"'{wrap.launcher('phase')}' --phase build -- /bin/sh -c 'exit 3'"]
    ended = call(wrap.argv(RUN, wrap.argv(RUN, command)), tmp_path / "s")
    assert (ended.code, ended.stdout, ended.stderr) == (3, b"", b"")
    outer, inner, build = wrap.records()
    assert session_of(outer)[0] != session_of(inner)[0]
    assert session_of(build) == (session_of(inner)[0], "run")
    assert {one["finished"]["outcome"]["code"] for one in (outer, inner, build)} == {3}


# When they step aside.


def entrances(wrap: Wrap) -> list[object]:
    return [one["started"]["meter"]["entrance"] for one in wrap.records()]


@pytest.mark.guest
def test_hook_and_shim_together_record_a_call_once(tmp_path: Path, wrap: Wrap) -> None:
    shim = wrap.launcher("landrun", str(fake_landrun(tmp_path)))
    argv = [wrap.launcher("phase"), "--phase", "build", "--", shim, "--ro", "/", "--", "/bin/sh", "-c", "exit 4"]
    ended = call(argv, tmp_path / "s")
    assert (ended.code, ended.stdout, ended.stderr) == (4, b"", b"")
    assert entrances(wrap) == ["phase"]


@pytest.mark.parametrize(
    "before",
    [
        ["/usr/bin/timeout", "30"],
        ["/usr/bin/env", "-i"],
        ["/bin/sh", "-c", '"$@"; exit $?', "sh"],
        [sys.executable, "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"],
        [sys.executable, "-I", "-c", "import subprocess, sys; sys.exit(subprocess.call(sys.argv[1:]))"],
        ["/usr/bin/nice"],
    ],
    ids=lambda words: Path(words[0]).name,
)
def test_a_wrapper_that_has_a_launcher_among_its_arguments_is_no_meter(
    tmp_path: Path, wrap: Wrap, before: list[str]
) -> None:
    """Taken for one, every call behind it would run unmeasured, and nobody would say so."""
    for way in ENTRANCES:
        shutil.rmtree(wrap.store, ignore_errors=True)
        ended = call([*before, *wrap.argv(way, ["/bin/sh", "-c", "exit 4"])], tmp_path / "s")
        assert ended.code == 4
        assert entrances(wrap) == [way]


def test_a_judge_that_is_told_of_a_launcher_is_measured(tmp_path: Path, wrap: Wrap) -> None:
    """`judge config LAUNCHER`: the third word of its command line is a launcher, as a meter's is."""
    phase = wrap.launcher("phase")
    judge = tmp_path / "judge"
    judge.write_text("#!/bin/sh\n\"$2\" --phase build -- /bin/sh -c 'exit 4'; exit $?\n")
    judge.chmod(0o755)
    assert call([str(judge), "-IS", phase], tmp_path / "s").code == 4
    assert call(["/bin/sh", str(judge), phase, phase], tmp_path / "s").code == 4
    assert entrances(wrap)[-1] == "phase"


def test_run_never_makes_a_launcher_step_aside(tmp_path: Path, wrap: Wrap) -> None:
    subprocess.run(wrap.argv(RUN, wrap.argv(PHASE, ["/bin/true"])), check=True)
    assert entrances(wrap) == ["run", "phase"]


def test_a_parent_whose_arguments_name_a_pipe_holds_nobody_up(tmp_path: Path, wrap: Wrap) -> None:
    """The checked project may hold a pipe of any name: what a parent's arguments name is not opened to wait for."""
    project = tmp_path / "project"
    project.mkdir()
    os.mkfifo(project / "run")
    script = tmp_path / "script"
    script.write_text(f"#!/bin/sh\n'{wrap.launcher('phase')}' --phase build -- /bin/sh -c 'exit 4'; exit $?\n")
    script.chmod(0o755)
    ended = call(
        ["/bin/bash", "-c", f"exec -a judge '{script}' -IS run"], tmp_path / "s", as_child=lambda: os.chdir(project)
    )
    assert ended.code == 4


@pytest.mark.parametrize("make", ["pipe", "terminal", "zero", "link to itself", "folder", "socket"])
def test_odd_things_where_the_source_should_be(tmp_path: Path, wrap: Wrap, make: str) -> None:
    """The checked party chooses what stands at M.lean."""
    project = tmp_path / "project"
    project.mkdir()
    source = project / "M.lean"
    made: dict[str, Callable[[], object]] = {
        "pipe": lambda: os.mkfifo(source),
        "terminal": lambda: source.symlink_to("/dev/tty"),
        "zero": lambda: source.symlink_to("/dev/zero"),
        "link to itself": lambda: source.symlink_to(source),
        "folder": source.mkdir,
        "socket": lambda: os.mknod(source, 0o140600),
    }
    made[make]()
    lake = project / "lake"
    lake.write_text("#!/bin/sh\nexit 6\n")
    lake.chmod(0o755)
    argv = wrap.argv(LANDRUN, [str(fake_landrun(tmp_path)), "--ro", "/", "--", str(lake), "build", "M"])
    assert call(argv, tmp_path / "s", as_child=lambda: os.chdir(project)).code == 6
    [one] = wrap.records()
    assert one["started"]["subject"]["module"] == "M"
    assert one["started"]["subject"]["source_sha256"] is None


# Themselves.


def test_a_landrun_that_is_looked_for_by_name_is_never_the_launcher_itself(tmp_path: Path, wrap: Wrap) -> None:
    """None was found when it was written, and its own folder stands on the PATH: it would start itself for ever."""
    folder = Path(wrap.launcher("landrun", "landrun")).parent
    empty, real = tmp_path / "empty", tmp_path / "real"
    empty.mkdir()
    real.mkdir()
    ended = call(
        [str(folder / "landrun"), "--ro", "/", "--", "/bin/true"], tmp_path / "s", (b"PATH=%b:/bin" % bytes(folder),)
    )
    assert ended.code == 127
    fake_landrun(tmp_path).rename(real / "landrun")
    path = b"PATH=%b:%b:%b:/bin" % (bytes(folder), bytes(empty), bytes(real))
    ended = call([str(folder / "landrun"), "--ro", "/", "--", "/bin/sh", "-c", "exit 8"], tmp_path / "s", (path,))
    assert (ended.code, ended.stderr) == (8, b"")


def test_nor_when_the_meter_is_gone(tmp_path: Path, wrap: Wrap) -> None:
    wrap.tree = tmp_path / "no-tree"
    folder = Path(wrap.launcher("landrun", "landrun")).parent
    ended = call([str(folder / "landrun"), "--ro", "/"], tmp_path / "s", (b"PATH=%b:/bin" % bytes(folder),))
    assert ended.code == 127


def test_what_a_launcher_is_can_be_told_from_its_file(tmp_path: Path, wrap: Wrap) -> None:
    assert session.is_launcher_file(wrap.launcher("phase"))
    note = tmp_path / "note"
    note.write_text("see # proofcost launcher")
    assert not session.is_launcher_file(str(note))
    assert not session.is_launcher_file(str(tmp_path / "none"))
    assert not session.is_launcher_file("/proc/self/mem")


# The launchers that `run` makes.


def judge_script(folder: Path, line: str) -> str:
    path = folder / "judge.sh"
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
    return str(path)


def run(wrap: Wrap, *words: str) -> list[str | bytes]:
    return [PROOFCOST, "run", "--store", str(wrap.store), *words]


def test_run_shows_the_judge_its_launcher_by_environment(tmp_path: Path, wrap: Wrap) -> None:
    judge = judge_script(tmp_path, '"$COMPARATOR_LANDRUN" --ro / -- /bin/sh -c "exit 3"')
    real = fake_landrun(tmp_path)
    env = (*PLAIN, b"COMPARATOR_LANDRUN=" + bytes(real))
    ended = call(run(wrap, "--", judge), tmp_path / "s", env)
    assert (ended.code, ended.stdout, ended.stderr) == (3, b"", b"")
    whole, inner = wrap.records()
    assert (whole["started"]["phase"]["understood"], inner["started"]["session_known_by"]) == ("whole", "baked")
    assert session_of(whole)[0] == session_of(inner)[0]
    assert inner["started"]["argv"]["head"][0] == str(real), "a value already set is the real binary"


def test_run_shows_the_judge_its_launcher_by_path(tmp_path: Path, wrap: Wrap) -> None:
    real = tmp_path / "bin"
    real.mkdir()
    fake_landrun(tmp_path).rename(real / "landrun")
    judge = judge_script(tmp_path, 'landrun --ro / -- /bin/sh -c "exit 3"')
    path = b"PATH=%b:/usr/bin:/bin" % bytes(real)
    ended = call(run(wrap, "--shims", "path", "--", judge), tmp_path / "s", (path,))
    assert (ended.code, ended.stdout, ended.stderr) == (3, b"", b"")
    assert entrances(wrap) == ["run", "landrun"]


def test_run_by_path_without_a_landrun_finds_none(tmp_path: Path, wrap: Wrap) -> None:
    judge = judge_script(tmp_path, "landrun --ro / -- /bin/true")
    assert call(run(wrap, "--shims", "path", "--", judge), tmp_path / "s").code == 127


def test_run_by_none_changes_no_variable(tmp_path: Path, wrap: Wrap) -> None:
    env = (b"A=1", b"A=2", b"no-equals", b"LC_CTYPE=C")
    ended = call(run(wrap, "--shims", "none", "--", "/bin/cat", "/proc/self/environ"), tmp_path / "s", env)
    assert ended.stdout == b"".join(entry + b"\0" for entry in env)


@pytest.mark.parametrize("shims", ["env", "path"])
def test_run_changes_its_own_variables_and_no_other(tmp_path: Path, wrap: Wrap, shims: str) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("landrun", "bwrap"):
        (tmp_path / "bin" / name).symlink_to("/bin/true")
    path = b"PATH=%s:/usr/bin:/bin" % bytes(tmp_path / "bin")
    env = (path, b"A=1", b"A=2", b"no-equals", b"LC_CTYPE=C", b"Z=1")
    ended = call(run(wrap, "--shims", shims, "--", "/bin/cat", "/proc/self/environ"), tmp_path / "s", env)
    seen = ended.stdout.split(b"\0")[:-1]
    changed = (b"COMPARATOR_LANDRUN=", b"COMPARATOR_BWRAP=") if shims == "env" else (b"PATH=",)
    assert [entry for entry in seen if not entry.startswith(changed)] == [e for e in env if not e.startswith(changed)]
    assert len([entry for entry in seen if entry.startswith(changed)]) == len(changed)


def test_without_a_landrun_the_judge_finds_none_in_its_own_words(tmp_path: Path, wrap: Wrap) -> None:
    """A launcher around nothing would end with a silent 127, which a judge reads as a rejection."""
    judge = '"${COMPARATOR_LANDRUN:-landrun}" --version'
    bare = call(["/bin/sh", "-c", judge], tmp_path / "bare", PLAIN)
    assert call(run(wrap, "--", "/bin/sh", "-c", judge), tmp_path / "s", PLAIN) == bare
    assert bare.code == 127
    assert b"landrun" in bare.stderr


def test_by_path_a_variable_that_is_set_leads_to_us_too(tmp_path: Path, wrap: Wrap) -> None:
    judge = judge_script(tmp_path, '"$COMPARATOR_LANDRUN" --ro / -- /bin/sh -c "exit 3"')
    env = (*PLAIN, b"COMPARATOR_LANDRUN=" + bytes(fake_landrun(tmp_path)))
    ended = call(run(wrap, "--shims", "path", "--", judge), tmp_path / "s", env)
    assert (ended.code, entrances(wrap).count("landrun")) == (3, 1)


def test_run_inside_run_uses_the_first_one_s_launcher_as_its_real_one(tmp_path: Path, wrap: Wrap) -> None:
    judge = judge_script(tmp_path, '"$COMPARATOR_LANDRUN" --ro / -- /bin/sh -c "exit 3"')
    env = (*PLAIN, b"COMPARATOR_LANDRUN=" + bytes(fake_landrun(tmp_path)))
    ended = call(run(wrap, "--", *map(str, run(wrap, "--", judge))), tmp_path / "s", env)
    assert (ended.code, ended.stderr) == (3, b"")
    assert entrances(wrap).count("landrun") == 1, "one call, one record"


def test_run_leaves_no_launchers_behind(tmp_path: Path, wrap: Wrap) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    env = (*PLAIN, b"TMPDIR=" + bytes(temporary))
    for script in ("exit 0", "exit 1", "kill -9 $$", "kill -TERM $PPID; sleep 0.2"):
        call(run(wrap, "--", "/bin/sh", "-c", script), tmp_path / "s", env)
        assert list(temporary.iterdir()) == []
    with running(run(wrap, "--timeout", "100ms", "--", "/bin/sleep", "9"), env={"TMPDIR": str(temporary)}) as started:
        assert started.wait(timeout=10) == -9
    assert list(temporary.iterdir()) == []


def test_who_could_change_what_a_path_leads_to(as_root: None, tmp_path: Path) -> None:
    """Below a sticky folder root's own stays root's; below one that all may change it does not, nor in it itself."""
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        outer = Path(folder)
        inner = outer / "inner"
        inner.mkdir()
        seen = {}
        for mode in (0o755, 0o1777, 0o777, 0o775):
            outer.chmod(mode)
            seen[mode] = (launchers.is_root_owned(str(inner)), launchers.is_root_owned(str(outer)))
        assert seen == {0o755: (True, True), 0o1777: (True, False), 0o777: (False, False), 0o775: (False, False)}
        outer.chmod(0o1777)
        os.chown(inner, 10001, 10001)
        assert not launchers.is_root_owned(str(inner))


ANNOTATED = 4
"""Of MAKE_FUNCTION: annotations are among what a function is made of."""


def codes_in(found: object) -> Iterator[CodeType]:
    """Every code object, however deep."""
    if isinstance(found, tuple):
        for one in found:
            yield from codes_in(one)
    elif isinstance(found, CodeType):
        yield found
        yield from codes_in(found.co_consts)


def test_what_is_compiled_for_calls_has_no_annotations_and_does_not_import_os(tmp_path: Path) -> None:
    """Each would cost every call at its start; the one module that stands for `os` is the exception."""
    copy_meter(tmp_path / "meter", tmp_path / "meter", sys.executable)
    _, entries = marshal.loads((tmp_path / "meter" / launchers.BUNDLE).read_bytes()[len(MAGIC_NUMBER) :])
    assert len(entries) > 20
    for name, _, code in entries:
        for one in codes_in(code):
            assert "__annotations__" not in one.co_names, (name, one.co_name)
            for step in dis.get_instructions(one):
                made = (step.opname, step.arg or 0)
                assert made[0] != "MAKE_FUNCTION" or not made[1] & ANNOTATED, (name, one.co_name, step.offset)
                assert made[0] != "IMPORT_NAME" or step.argval != "os" or name.endswith(".lean_os"), (name, one.co_name)
