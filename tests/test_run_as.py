"""Who the judge becomes, what of its surroundings changes with that, and every wrong way to ask for it."""

import hashlib
import os
import pwd
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from kept import CALL, PRELUDE, PYTHON, Judged
from wrapped import NOBODY, PROOFCOST, REPO

from proofcost.harness import run_folder, session, store
from proofcost.harness.user import User
from proofcost.harness.whole import new_session
from proofcost.run import UsageError
from proofcost.run_as import find_user, read_key

NUMBER = "10001"


@pytest.fixture
def numbered() -> str:
    """A uid without an entry in the user database."""
    try:
        pwd.getpwuid(int(NUMBER))
    except KeyError:
        return NUMBER
    pytest.skip(f"uid {NUMBER} has a name here")


# Who that is.


def test_a_user_by_name_or_number(as_root: None) -> None:
    by_name, by_number = find_user("nobody"), find_user(str(NOBODY))
    for one in (by_name, by_number):
        assert (one.name, one.uid, one.gid, one.groups, one.home) == (
            "nobody",
            NOBODY,
            NOBODY,
            [NOBODY],
            "/nonexistent",
        )
    assert find_user("nobody:0").gid == find_user("nobody:root").gid == 0
    assert sorted(find_user("nobody:0").groups) == [0]


def test_a_number_without_a_name_needs_its_group(as_root: None, numbered: str) -> None:
    with pytest.raises(UsageError, match=r"no user has this number here.*UID:GID"):
        find_user(numbered)
    one = find_user(f"{numbered}:{numbered}")
    assert (one.name, one.uid, one.gid, one.groups, one.home) == (numbered, 10001, 10001, [10001], "/")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("no-such-user-here", "no such user here"),
        ("", "no such user here"),
        (":5", "no such user here"),
        ("no\0body", "no such user here"),
        ("-1", "no such user here"),
        ("4294967295:5", "no such user here"),
        ("٣:5", "no such user here"),
        ("nobody:no-such-group", "no group 'no-such-group'"),
        ("nobody:", "no group ''"),
        ("root", "root itself"),
        ("0", "root itself"),
        ("0:5", "root itself"),
    ],
)
def test_a_wrong_user_is_told_in_one_line_and_starts_nothing(judged: Judged, word: str, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        find_user(word)
    if "\0" in word:
        return
    ended = judged.shell("touch started", user=word)
    assert (ended.status, ended.stdout) == (2, b"")
    assert ended.stderr.startswith(b"proofcost: --as ")
    assert ended.stderr.count(b"\n") == 1
    assert said in ended.stderr.decode()
    assert not list(judged.work.iterdir())
    assert not judged.store.exists()


def test_only_root_can(judged: Judged) -> None:
    ended = judged.shell("touch started", via=["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups"])
    assert ended.status == 2
    assert b"only root can run a judge as another user" in ended.stderr
    assert not list(judged.work.iterdir())


@pytest.mark.parametrize("capability", ["setuid", "setgid", "kill"])
def test_a_root_without_the_capabilities_is_told(judged: Judged, capability: str) -> None:
    ended = judged.shell("touch started", via=["setpriv", "--bounding-set", f"-{capability}", "--"])
    assert ended.status == 2, ended
    assert f"this root lacks CAP_{capability.upper()}" in ended.stderr.decode()
    assert not list(judged.work.iterdir())


def test_a_user_that_cannot_be_become_is_never_root_instead(judged: Judged, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever refuses it in the last moment: nothing runs, measured or not."""
    for strict in ([], ["--strict"]):
        code = (
            "import os, sys\n"
            "def no(*ids): raise PermissionError(1, 'Operation not permitted')\n"
            "os.setresuid = no\n"
            "from proofcost.cli import main\n"
            f"sys.exit(main({[*judged.argv(['/bin/sh', '-c', 'touch started'], *strict)[1:]]!r}))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=False, cwd=judged.work
        )
        assert done.returncode == 126
        assert done.stderr == "proofcost: the judge's user cannot be become: Operation not permitted\n"
    assert not list(judged.work.iterdir())


def test_capabilities_that_would_be_kept_are_refused(judged: Judged) -> None:
    """The securebit NO_SETUID_FIXUP lets a former root keep them."""
    via = ["setpriv", "--securebits", "+no_setuid_fixup", "--"]
    assert subprocess.run([*via, "true"], check=False).returncode == 0
    ended = judged.shell("touch started", via=via)
    assert ended.status == 126
    assert not list(judged.work.iterdir())


# What changes with it.


def test_the_judge_has_the_ids_and_nothing_of_roots(judged: Judged) -> None:
    ended = judged.shell("cat /proc/self/status")
    fields = dict(line.split(":\t", 1) for line in ended.stdout.decode().splitlines() if ":\t" in line)
    assert fields["Uid"].split() == fields["Gid"].split() == ["65534"] * 4
    assert fields["Groups"].split() == ["65534"]
    for name in ("CapInh", "CapPrm", "CapEff", "CapAmb"):
        assert int(fields[name], 16) == 0, name


def test_supplementary_groups_are_the_users_and_not_roots(judged: Judged) -> None:
    ended = judged.shell("id -G", user="nobody:4", via=["setpriv", "--groups", "0,5,6", "--"])
    assert ended.stdout == b"4\n"


def test_of_the_environment_only_what_names_the_user_changes(judged: Judged) -> None:
    """As runuser does it; what else a user must not see, the operator takes out before (`env -i`)."""
    given = {"HOME": "/root", "USER": "root", "LOGNAME": "root", "SHELL": "/bin/zsh", "ODD": "a\tb", "EMPTY": ""}
    shown = {}
    for shims in ("env", "path", "none"):
        ended = judged(["/bin/cat", "/proc/self/environ"], "--shims", shims, env=given)
        shown[shims] = dict(entry.split("=", 1) for entry in ended.stdout.decode().split("\0") if entry)
        assert shown[shims].pop("LC_CTYPE", None) is None
    expected = {**judged.env(given), "HOME": "/nonexistent", "USER": "nobody", "LOGNAME": "nobody"}
    assert shown["none"] == expected
    changed = {key for key, value in shown["env"].items() if expected.get(key) != value}
    assert changed - {"COMPARATOR_BWRAP"} == {"COMPARATOR_LANDRUN", "PROOFCOST_FD"}
    assert shown["env"]["PROOFCOST_FD"] == "198"
    assert shown["path"]["PATH"].partition(":")[2] == expected["PATH"]


def test_the_launchers_belong_to_root_and_are_gone_afterwards(judged: Judged) -> None:
    script = (
        "echo $COMPARATOR_LANDRUN; d=$(dirname $COMPARATOR_LANDRUN); find $d -writable ! -type l; "
        "find $d ! -uid 0; touch $d/x $d/meter/x $d/digests/x; mkdir $d/digests/d; mv $d $d.old; "
        "rm -f $COMPARATOR_LANDRUN; "
        f"{CALL} /bin/sh -c 'exit 3'; exit $?"
    )
    ended = judged.shell(script)
    assert ended.status == 3
    path, *writable = ended.stdout.decode().splitlines()
    assert writable == []
    assert not Path(path).parent.exists()
    [one] = judged.calls()
    assert one.outcome["code"] == 3


def test_digests_are_kept_for_the_session_by_root_alone(judged: Judged) -> None:
    """Whatever a sandbox may write: to root's folder the judge's user cannot."""
    script = (
        f"d=$(dirname $COMPARATOR_LANDRUN); {CALL} /bin/true; stat -c '%u %a' $d/digests/*; rm -f $d/digests/*; "
        'echo forged > $d/digests/x; "$COMPARATOR_LANDRUN" --rox / --rw $d/digests -- /bin/true; ls $d/digests | wc -l'
    )
    ended = judged.shell(script)
    *kept, count = ended.stdout.decode().splitlines()
    assert kept == ["0 644"] * int(count)
    assert int(count) >= 1
    digests = [one.started["target"]["sha256"] for one in judged.calls()]
    assert len(digests) == 2
    assert digests == [hashlib.sha256(Path("/bin/true").read_bytes()).hexdigest()] * 2
    assert all("digests" not in one.started for one in judged.records()), "what is handed over is no part of a record"


def test_a_digest_that_is_kept_is_not_computed_again(judged: Judged) -> None:
    """A hundred megabytes take our own SHA-256 a third of a second."""
    big = judged.work / "big"
    with big.open("wb") as file:
        file.truncate(100 << 20)
    big.chmod(0o755)
    os.utime(big, (1, 1))
    time.sleep(2.1)  # a file that has just changed is not believed
    judged.shell(f"for n in 1 2 3; do {CALL} ./big; done")
    costs = [one.finished["meter_cost"]["cpu_ns"] for one in judged.calls() if one.finished]
    assert len(costs) == 3
    assert len({one.started["target"]["sha256"] for one in judged.calls()} - {None}) == 1
    assert max(sorted(costs)[:2]) * 2 < max(costs), costs


def test_a_root_that_may_not_list_others_folders_leaves_nothing(judged: Judged) -> None:
    """README's capabilities: no CAP_DAC_OVERRIDE among them."""
    few = "-all,+setuid,+setgid,+kill,+chown"
    ended = judged.shell(
        f"echo $COMPARATOR_LANDRUN; {CALL} /bin/true; exit 3",
        via=["setpriv", f"--bounding-set={few}", f"--inh-caps={few}", "--"],
    )
    assert ended.status == 3, ended.stderr
    assert ended.stdout.startswith(b"/")
    assert not Path(os.fsdecode(ended.stdout).strip()).parent.exists()
    assert len(judged.calls()) == 1


def dying(judged: Judged, where: str, judge: str = "true") -> int:
    """A `run` of its own that gets SIGKILL at a place in it; its pid."""
    code = (
        f"import os, sys\n{where}\n"
        "from proofcost.cli import main\n"
        f"sys.exit(main({judged.argv(['/bin/sh', '-c', judge])[1:]!r}))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], env=judged.env({"TMPDIR": place(judged)}), cwd=judged.work)
    assert process.wait(60) == -9
    return process.pid


def place(judged: Judged) -> str:
    at = judged.folder / "launchers"
    at.mkdir(exist_ok=True)
    at.chmod(0o755)
    return str(at)


def test_what_a_run_leaves_that_is_killed_early_goes_with_the_next(judged: Judged) -> None:
    killed = "def kill(*a, **k): os.kill(os.getpid(), 9)\n"
    for where in (
        "import proofcost.harness.collector as module\n" + killed + "module.start = kill",
        "import proofcost.run_as as module\n" + killed + "module.copy_meter = kill",
    ):
        pid = dying(judged, where)
        assert [path.name.split("-")[4] for path in Path(place(judged)).iterdir()] == [str(pid)]
    at = Path(place(judged))
    ended = judged.shell("ls $TMPDIR; exit 3", env={"TMPDIR": str(at)})
    assert ended.status == 3
    assert len(ended.stdout.split()) == 1, "its own"
    assert list(at.iterdir()) == []


@pytest.mark.parametrize("limit", [5, 6, 7, 8, 9, 10, 12])
def test_few_descriptors_leave_no_folder_for_long(judged: Judged, limit: int) -> None:
    at = Path(place(judged))
    ended = judged.shell("exit 3", via=["prlimit", f"--nofile={limit}"], env={"TMPDIR": str(at)})
    assert ended.status in (1, 3), "1 is the interpreter's that could not start"
    run_folder.sweep(str(at))
    assert list(at.iterdir()) == []


def test_nothing_that_goes_wrong_in_removing_keeps_from_sealing(judged: Judged) -> None:
    code = (
        "import sys, proofcost.harness.run_folder as module\n"
        "def no(*a, **k): raise RecursionError('odd')\n"
        "module.remove = no\n"
        "from proofcost.cli import main\n"
        f"sys.exit(main({judged.argv(['/bin/sh', '-c', 'touch ready; sleep 60'])[1:]!r}))\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code], env=judged.env(), cwd=judged.work)
    judged.wait_for((judged.work / "ready").exists, "ready")
    process.kill()
    process.wait(60)
    judged.wait_for(lambda: (judged.session() / "sealed.json").exists(), "the collector seals")
    assert judged.seal()["incomplete"][0] == "run was killed before the session's end"
    judged.wait_for(lambda: judged.left() == [], "nothing is left")


def test_strict_without_a_cgroup_is_a_wrong_call(judged: Judged) -> None:
    """What outlives the judge could not be stopped, which `--strict` is to refuse; the two contradict each other."""
    ended = judged.shell("touch started", "--strict", "--cgroup", "off")
    assert (ended.status, ended.stdout) == (2, b"")
    assert ended.stderr.startswith(b"proofcost: --as with --strict needs a cgroup")
    assert ended.stderr.count(b"\n") == 1
    assert not list(judged.work.iterdir())
    assert judged.shell("exit 5", "--cgroup", "off").status == 5


def test_the_package_may_stand_where_only_root_can_read(judged: Judged) -> None:
    """The meter is copied, so an upgrade under a running judge changes nothing either."""
    from shutil import copytree, rmtree

    package = judged.folder / "roots" / "proofcost"
    copytree(REPO / "proofcost", package, symlinks=False)
    package.parent.chmod(0o700)
    script = PRELUDE + (
        "assert call('/bin/sh', '-c', 'exit 3') == 3\nopen('ready', 'w').close()\n"
        "while not os.path.exists('go'): time.sleep(0.01)\nprint(call('/bin/sh', '-c', 'exit 4'))\n"
    )
    argv = judged.argv([PYTHON, "-c", script])[1:]
    code = (
        f"import sys; sys.path.insert(0, {str(package.parent)!r})\n"
        f"from proofcost.cli import main; sys.exit(main({argv!r}))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], cwd=judged.work, env=judged.env(), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    judged.wait_for((judged.work / "ready").exists, "ready")
    for file in package.rglob("*.py"):
        file.write_text("raise SystemExit(1)\n")
    rmtree(package)
    (judged.work / "go").touch()
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b"4\n"), err
    assert sorted(one.outcome["code"] for one in judged.calls()) == [3, 4]
    assert judged.seal()["complete"] is True
    assert len({one.started["meter"]["digest"] for one in judged.calls()}) == 1


# Where the store may be, and what happens where it may not.


@pytest.mark.parametrize(
    ("why", "make"),
    [
        ("belongs to user 65534", lambda at: os.chown(at, NOBODY, NOBODY)),
        ("not a store (mode 0777", lambda at: ((at / "x").touch(), at.chmod(0o777))),
        ("who could replace it", lambda at: os.chown(at.parent, NOBODY, NOBODY)),
        ("may be written by others (mode 0777)", lambda at: at.parent.chmod(0o777)),
        ("may be written by others (mode 0775)", lambda at: at.parent.chmod(0o775)),
    ],
)  # fmt: skip
def test_a_store_that_the_user_could_write_is_not_used(
    judged: Judged, why: str, make: Callable[[Path], object]
) -> None:
    """The judge runs all the same, as that user and unmeasured; with --strict it does not."""
    at = judged.folder / "above" / "store"
    at.mkdir(parents=True, mode=0o700)
    at.parent.chmod(0o755)
    make(at)
    judge = ["/bin/sh", "-c", "id -u; echo ${PROOFCOST_FD-no} $HOME; exit 3"]
    ended = judged(judge, "--store", at)
    assert (ended.status, ended.stdout) == (3, b"65534\nno /nonexistent\n")
    refused = judged(judge, "--store", at, "--strict")
    assert (refused.status, refused.stdout) == (125, b"")
    assert why in refused.stderr.decode()
    assert not list(at.rglob("*.jsonl"))
    os.chown(at.parent, 0, 0)
    at.parent.chmod(0o755)


def test_a_store_that_somebody_made_in_between_is_not_used(judged: Judged, monkeypatch: pytest.MonkeyPatch) -> None:
    from proofcost.harness import collected_whole
    from proofcost.harness.plan import Plan
    from proofcost.harness.signals import Inherited

    plan = Plan(["/bin/true"], "run")
    plan.store, plan.session, plan.user = str(judged.store), "0123456789abcdef", User("nobody", NOBODY, NOBODY, [], "/")
    real = store.make_folder

    def slow(path: str) -> None:
        judged.store.mkdir()
        os.chown(judged.store, NOBODY, NOBODY)
        real(path)

    monkeypatch.setattr(store, "make_folder", slow)
    one = collected_whole.CollectedWhole(plan, Inherited())
    with pytest.raises(store.StoreError, match="belongs to user 65534"):
        one.prepare()
    one.abandon()


def test_a_session_that_was_kept_before_is_not_added_to(judged: Judged) -> None:
    """A process that executes `run` again has the same pid and start time, so the same session."""
    script = (
        "import os, sys\n"
        f"sys.path.insert(0, {str(REPO)!r})\n"
        "from proofcost.harness.whole import new_session\n"
        f"folder = {str(judged.store)!r} + '/sessions/' + new_session()\n"
        "os.makedirs(folder, 0o700)\n"
        f"os.chmod({str(judged.store)!r}, 0o700)\n"
        f"open(folder + '/{session.SESSION_FILE}', 'w').write('{{}}')\n"
        f"os.execv({PROOFCOST!r}, {judged.argv(['/bin/sh', '-c', 'id -u; exit 3'])!r})\n"
    )
    assert new_session() == new_session()
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, env=judged.env(), check=False)
    assert (done.returncode, done.stdout) == (3, b"65534\n")
    [mark] = judged.marks()
    assert "was kept before" in mark["fault"]
    assert judged.records() == []


def test_an_odd_fault_before_the_start_runs_the_judge_as_its_user(judged: Judged) -> None:
    """Of all things the verdict rule must not do: run it as root."""
    for module, name in (
        ("proofcost.harness.whole", "Whole.__init__"),
        ("proofcost.harness.collector", "start"),
        ("proofcost.run_as", "copy_meter"),
        ("proofcost.harness.spawn", "keep_standard_descriptors_closed"),
    ):
        code = (
            f"import sys, {module} as module\n"
            "def no(*a, **k): raise RuntimeError('odd')\n"
            f"module.{name} = no\n"
            "from proofcost.cli import main\n"
            f"sys.exit(main({judged.argv(['/bin/sh', '-c', 'id -u; exit 3'])[1:]!r}))\n"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=judged.env(), check=False)
        assert (done.returncode, done.stdout) == (3, b"65534\n"), (module, done.stderr)
    assert [mark["fault"] for mark in judged.marks()] == ["RuntimeError: odd"] * 3
    assert b"RuntimeError: odd; the command runs unmeasured" in done.stderr or os.path.exists("/dev/log"), (
        "no store yet"
    )
    assert [path for path in judged.folder.iterdir() if path.name.startswith("proofcost-")] == []


def test_no_place_for_launchers_runs_the_judge_as_its_user(judged: Judged) -> None:
    code = (
        "import sys, proofcost.harness.run_folder as module\n"
        "def no(*a, **k): raise OSError(28, 'No space left on device')\n"
        "module.make = no\n"
        "from proofcost.cli import main\n"
        f"sys.exit(main({judged.argv(['/bin/sh', '-c', 'id -u; exit 3'])[1:]!r}))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, env=judged.env(), check=False)
    assert (done.returncode, done.stdout) == (3, b"65534\n")
    [mark] = judged.marks()
    assert "no place for launchers that user nobody can execute" in mark["fault"]


def test_a_place_that_the_user_cannot_reach_is_passed_over(judged: Judged) -> None:
    private = judged.folder / "private"
    private.mkdir(mode=0o700)
    shared = judged.folder / "shared"
    shared.mkdir(mode=0o777)
    shared.chmod(0o777)
    for place in (private, shared):
        ended = judged.shell(f"echo $COMPARATOR_LANDRUN; {CALL} /bin/true", env={"TMPDIR": str(place)})
        assert ended.status == 0
        assert not ended.stdout.decode().startswith(str(place))
        assert list(place.iterdir()) == []
    assert len(judged.calls()) == 2


# Keys to seal with.


def test_a_key_that_others_could_know_is_refused(judged: Judged, as_root: None) -> None:
    user = find_user("nobody")
    path = judged.folder / "key"
    path.write_bytes(b"k" * 32)
    path.chmod(0o600)
    assert read_key(str(path), user) == b"k" * 32
    assert read_key(None, None) is None
    for mode in (0o640, 0o604, 0o620, 0o602):
        path.chmod(mode)
        with pytest.raises(UsageError, match=f"mode {mode:04o}"):
            read_key(str(path), user)
    path.chmod(0o600)
    os.chown(path, NOBODY, 0)
    with pytest.raises(UsageError, match="owner 65534"):
        read_key(str(path), user)
    os.chown(path, 0, 0)
    for content, said in ((b"", "0 bytes"), (b"k" * 15, "15 bytes"), (b"k" * 5000, "4097 bytes")):
        path.write_bytes(content)
        with pytest.raises(UsageError, match=said):
            read_key(str(path), user)
    with pytest.raises(UsageError, match="use it with --as"):
        read_key(str(path), None)
    fifo = judged.folder / "fifo"
    os.mkfifo(fifo, 0o600)
    for wrong, said in (
        ("/nonexistent/key", "No such file"),
        (str(judged.work), "not a file"),
        (str(fifo), "not a file"),
        ("", "No such file"),
    ):
        with pytest.raises(UsageError, match=said):
            read_key(wrong, user)


def test_a_wrong_key_starts_nothing(judged: Judged) -> None:
    for options in (["--seal-key", "/nonexistent/key"], ["--seal-key", ""]):
        ended = judged.shell("touch started", *options)
        assert (ended.status, ended.stdout) == (2, b"")
        assert ended.stderr.startswith(b"proofcost: --seal-key")
    done = subprocess.run(
        [PROOFCOST, "run", "--seal-key", "/etc/passwd", "--", "/bin/true"], capture_output=True, check=False
    )
    assert done.returncode == 2
    assert b"use it with --as" in done.stderr
    assert not list(judged.work.iterdir())
    assert stat.S_ISDIR(judged.work.stat().st_mode)
