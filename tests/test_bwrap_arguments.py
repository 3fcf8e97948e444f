"""bwrap's command line: every option with its number of words, and what a call of Lake's is for."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofcost.adapters import bwrap, entrance, phase
from proofcost.harness import store
from proofcost.harness.plan import HIDDEN, Plan

FIRST = [
    *["--ro-bind", "/", "/", "--tmpfs", "/home", "--tmpfs", "/root", "--tmpfs", "/run/user", "--tmpfs", "/tmp"],
    *["--dir", "/tmp/home", "--dev", "/dev", "--proc", "/proc", "--clearenv"],
]
LAST = ["--setenv", "HOME", "/tmp/home", "--unshare-all", "--die-with-parent", "--new-session"]


def lake(*command: str, options: tuple[str, ...] = (), chdir: str = "/project", network: bool = False) -> list[str]:
    """bwrap's arguments as Lake writes them around a command; `options` are the paths and variables of this call."""
    return [*FIRST, *options, *LAST, *(["--share-net"] if network else []), "--chdir", chdir, "--", *command]


def understood(arguments: list[str]) -> Plan:
    plan = Plan(["/usr/bin/bwrap", *arguments], "bwrap")
    entrance.try_to(plan, bwrap.understand)
    return plan


# What a call is for.

BIND = ("--tmpfs", "/run", "--tmpfs", "/var", "--ro-bind", "/project", "/project", "--bind", "/project/.lake", "/.lake")


@pytest.mark.parametrize(
    ("arguments", "phase", "module"),
    [
        (lake("/lean/bin/lake", "env", options=BIND, network=True), "resolve", None),
        (lake("/lean/bin/lake", "env", options=BIND), "resolve", None),  # lean-exercise takes the network away
        (lake("/lean/bin/lake", "resolve-deps", options=BIND, network=True), "resolve", None),
        (lake("/lean/bin/lake", "build", "Challenge", options=BIND), "build", "Challenge"),
        (lake("/lean/bin/lake", "build", "A.B.Solution", options=BIND), "build", "A.B.Solution"),
        (lake("/lean/bin/leanexport", "Solution", "--", "Nat", "main"), "export", "Solution"),
        (lake("/lean/bin/leanexport", "Solution", "--"), "export", "Solution"),
        (lake("/lean/bin/lake", "check", options=("--setenv", "LAKE_CHECK_EXPORT", "1")), "check", None),
    ],
)
def test_each_call_of_lake_is_told_by_its_command(arguments: list[str], phase: str, module: str | None) -> None:
    plan = understood(arguments)
    assert (plan.phase_understood, plan.subject_module, plan.notes) == (phase, module, [])
    assert plan.sandbox.kind == "bwrap"
    assert plan.target[:2] == arguments[arguments.index("--") + 1 :][:2]


@pytest.mark.parametrize(
    ("command", "name", "is_config"),
    [
        (["/lean/bin/leanchecker", "--silent", "--from-export", "@export"], "leanchecker", False),
        (["/lean/bin/lean4lean", "--import", "@export"], "lean4lean", False),
        (["/opt/nanoda_bin", "@config"], "nanoda_bin", True),
        (["/opt/con-ron", "--verified", "--jobs=4", "@export"], "con-ron", False),
        (["/usr/bin/python3", "-I", "/opt/rpylean.py", "@export"], "rpylean", False),
    ],
)
def test_a_kernel_is_told_by_the_file_that_was_granted_to_it(
    tmp_path: Path, command: list[str], name: str, is_config: bool
) -> None:
    files = {"@export": tmp_path / "solution.ndjson", "@config": tmp_path / "config.json"}
    files["@export"].write_text('{"meta":{}}\n')
    files["@config"].write_text('{"use_stdin":false,"export_file_path":"/tmp/x"}')
    options = [word for path in files.values() for word in ("--ro-bind", str(path), str(path))]
    said = [str(files.get(word, word)) for word in command]
    plan = understood(lake(*said, options=("--tmpfs", "/run", *options), chdir="/tmp"))
    assert (plan.phase_understood, plan.kernel_name) == ("checker", name)
    assert plan.kernel_config == (str(files["@config"]) if is_config else None)


def test_a_file_granted_under_another_name_is_found_on_the_host(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text('{"export_file_path":"/in/export"}')
    plan = understood(["--ro-bind", str(config), "/in/config", "--", "/bin/nanoda_bin", "/in/config"])
    assert (plan.phase_understood, plan.kernel_config) == ("checker", str(config))


def test_an_export_in_a_granted_folder_is_told_by_the_option_before_it(tmp_path: Path) -> None:
    (tmp_path / "e").write_text("")
    options = ("--ro-bind", str(tmp_path), str(tmp_path))
    assert understood(lake("leanchecker", "--from-export", f"{tmp_path}/e", options=options)).kernel_name
    assert understood(lake("cat", f"{tmp_path}/e", options=options)).phase_understood == "unknown"


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--"],
        ["--help"],
        ["--version"],
        ["-"],
        ["--", ""],
        ["--bind"],
        ["--bind", "/a"],
        lake("/lean/bin/lake", "check"),  # a judge inside a sandbox of somebody else's
        lake("/lean/bin/lake", "env", "printenv"),
        lake("/lean/bin/lake"),
        lake("/lean/bin/lake", "build"),
        lake("/bin/sh", "-c", "lake build Solution"),
        ["--args", "9", "lake", "build", "Solution"],
        ["--args", "9", "--", "/lean/bin/lake", "build", "Solution"],
        ["--not-yet-known", "1", "--", "/lean/bin/lake", "build", "Solution"],
        ["--unshare-all", "--not-yet-known", "/lean/bin/lake", "build", "Solution"],
    ],
)
def test_any_other_shape_is_unknown(arguments: list[str]) -> None:
    plan = understood(arguments)
    assert (plan.phase_understood, plan.kernel_name, plan.subject_module) == ("unknown", None, None)


@pytest.mark.parametrize(
    ("arguments", "note"),
    [
        (["--args", "9", "--", "true"], "reads more options from descriptor 9"),
        (["--new-thing", "--", "true"], "'--new-thing' is not known"),
        (["--bind", "/a"], "--bind lacks 1 of its 2 words"),
    ],
)
def test_what_was_not_understood_is_noted(arguments: list[str], note: str) -> None:
    assert note in understood(arguments).notes[0]


def test_the_phase_entrance_reads_the_same(tmp_path: Path) -> None:
    plan = Plan(["/usr/bin/bwrap", *lake("/lean/bin/leanexport", "Solution", "--", "Nat")], "phase")
    plan.phase_given = "build"
    phase.understand(plan)
    assert (plan.phase_understood, plan.phase_known_by, plan.subject_module) == ("export", "hook", "Solution")


# Options and their words.


def test_the_real_bwrap_has_no_option_that_is_not_known_here(bwrap: Path) -> None:
    said = subprocess.run([bwrap, "--help"], capture_output=True, text=True, check=True).stdout
    lines = re.findall(r"^ +(--[a-z0-9-]+)((?: [A-Z]+)*)", said, re.M)
    assert len(lines) > 50
    real = {option: len(words.split()) for option, words in lines}
    assert real == {option: count for option, count in bwrap_words().items() if option in real}


def bwrap_words() -> dict[str, int]:
    return bwrap._WORDS


words = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=6)


@st.composite
def options(draw: st.DrawFn) -> list[list[str]]:
    """Options with as many words as they take, which may look like options themselves."""
    known = {option: count for option, count in bwrap_words().items() if option != "--args"}
    chosen = draw(st.lists(st.sampled_from(sorted(known)), max_size=8))
    word = st.one_of(words, st.sampled_from(["--", "--bind", "--bogus", "/a"]))
    return [[option, *(draw(word) for _ in range(known[option]))] for option in chosen]


WRITE = ("--bind", "--bind-try", "--dev-bind", "--dev-bind-try")


@given(options(), st.lists(words, min_size=1), st.booleans())
def test_options_end_where_bwrap_ends_them(given_options: list[list[str]], command: list[str], dashes: bool) -> None:
    if not dashes:
        command = ["program", *command]
    flat = [word for option in given_options for word in option]
    seen = bwrap.read([*flat, *(["--"] if dashes else []), *command])
    assert (seen.command, seen.odd) == (command, None)
    expected: list[str] = []
    for option in given_options:
        if option[0] in WRITE:
            expected.append(option[1])
        elif option[0] == "--overlay":
            expected += option[1:3]
        elif option[0] == "--bind-fd":
            expected.append(f"/proc/self/fd/{option[1]}")
    assert seen.sandbox.writable == expected
    assert seen.sandbox.readable == [one[1] for one in given_options if one[0] in ("--ro-bind", "--ro-bind-try")]


@given(st.lists(st.one_of(words, st.sampled_from([*sorted(bwrap_words()), "--", "--bogus"]))))
def test_any_words_at_all_are_read(arguments: list[str]) -> None:
    plan = understood(arguments)
    assert plan.phase_understood in ("unknown", "resolve", "build", "export", "check", "checker")
    assert all("Error" not in note for note in plan.notes), plan.notes


@given(options(), options())
def test_behind_an_unknown_option_every_bind_counts(before: list[list[str]], after: list[list[str]]) -> None:
    flat = [word for option in after for word in option if word != "--"]
    seen = bwrap.read([*(word for option in before for word in option), "--bogus", *flat, "--", "program"])
    binds = [flat[at + 1] for at in range(len(flat) - 1) if flat[at] in (*WRITE, "--overlay")]
    assert seen.odd is not None
    assert seen.command == ["program"]
    assert seen.sandbox.writable[len(seen.sandbox.writable) - len(binds) :] == binds


@pytest.mark.parametrize(
    "option",
    [
        ["--bind", "@", "/x"],
        ["--bind-try", "@", "/x"],
        ["--dev-bind", "@", "/x"],
        ["--overlay-src", "/a", "--overlay", "@", "/work", "/x"],
        ["--overlay-src", "/a", "--overlay", "/upper", "@", "/x"],
        ["--bogus", "--bind", "@", "/x"],
    ],
)
@pytest.mark.parametrize("what", ["store", ".", "store/sessions", "link"])
def test_a_store_below_anything_writable_is_refused(tmp_path: Path, option: list[str], what: str) -> None:
    place = tmp_path / "store"
    (place / "sessions").mkdir(parents=True, mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path)
    words = [str(tmp_path / what) if word == "@" else word for word in option]
    granted = understood([*words, "--", "/bin/true"]).sandbox.writable
    with pytest.raises(store.StoreError, match="the sandbox lets the command write to"):
        store.check_place(str(place), granted)


def test_a_folder_that_is_bound_by_descriptor_counts_too(tmp_path: Path) -> None:
    fd = os.open(tmp_path, os.O_PATH)
    try:
        granted = understood(["--bind-fd", str(fd), "/x", "--", "/bin/true"]).sandbox.writable
        with pytest.raises(store.StoreError, match="the sandbox lets the command write to"):
            store.check_place(str(tmp_path / "store"), granted)
    finally:
        os.close(fd)


def test_a_store_that_is_only_readable_is_fine(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir(mode=0o700)
    granted = understood(lake("/bin/true", options=("--bind", str(tmp_path / "work"), "/w"))).sandbox.writable
    assert store.check_place(str(tmp_path / "store"), granted) == []


@pytest.mark.parametrize(
    ("options", "waits"),
    [
        (["--unshare-all"], False),
        (["--unshare-pid"], False),
        (["--unshare-all", "--as-pid-1"], True),
        (["--unshare-net"], True),
        ([], True),
    ],
)
def test_whether_bwrap_waits_for_what_ran_in_it(options: list[str], waits: bool) -> None:
    assert understood([*options, "--", "true"]).sandbox.waits is waits


# Which file the program is.


def file_of(arguments: list[str]) -> str | None:
    return understood(arguments).target_file


def test_the_program_is_the_file_that_the_sandbox_shows_under_its_name(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel"
    kernel.write_text("#!/bin/sh\n")
    kernel.chmod(0o755)
    root = ["--ro-bind", "/", "/"]
    assert file_of([*root, "--", str(kernel)]) == str(kernel)
    assert file_of([*root, "--ro-bind", str(tmp_path), "/bin", "--", "/bin/kernel"]) == str(kernel)
    assert file_of([*root, "--ro-bind", str(kernel), "/usr/bin/env", "--", "/usr/bin/env"]) == str(kernel)
    assert file_of([*root, "--chdir", str(tmp_path), "--", "./kernel"]) == str(kernel)
    assert file_of([*root, "--setenv", "PATH", f"/none:{tmp_path}", "--", "kernel"]) == str(kernel)
    assert file_of([*root, "--clearenv", "--", "sh"]) == "/bin/sh"
    # Hidden, empty, or not to be known from outside.
    assert file_of([*root, "--tmpfs", str(tmp_path), "--", str(kernel)]) == HIDDEN
    assert file_of(["--ro-bind", "/usr", "/usr", "--", str(kernel)]) == HIDDEN
    assert file_of([*root, "--symlink", "/x", str(kernel), "--", str(kernel)]) == HIDDEN
    assert file_of([*root, "--args", "3", "--", str(kernel)]) == HIDDEN
    # A link of the host is followed inside, where it leads elsewhere.
    (tmp_path / "link").symlink_to("/usr/bin/env")
    assert file_of([*root, "--", f"{tmp_path}/link"]) == f"{tmp_path}/link"
    assert file_of([*root, "--tmpfs", "/usr", "--", f"{tmp_path}/link"]) == HIDDEN
