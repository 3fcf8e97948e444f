"""The ways of README to have another user judge, each with its surroundings as far as they can be had here.

A disposable machine, a unit, a grader in Python, a container without rights.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from kept import CALL, PRELUDE, PYTHON, Judged
from standin_comparator import make_toolchain
from wrapped import NOBODY, PROOFCOST, REPO

from proofcost.cli import build_parser
from proofcost.run import find_command

UID = "10001"
CONTAINER = ["setpriv", "--bounding-set", "-all,+setuid,+setgid,+kill", "--inh-caps", "-all", "--no-new-privs", "--"]
"""Root as `docker run --cap-drop ALL --cap-add SETUID --cap-add SETGID --cap-add KILL` makes it."""


def comparator(judged: Judged, landrun: Path) -> list[str]:
    """A project with two kernels, and the stand-in comparator's command line for it."""
    project = judged.work
    standin = judged.folder / "standin_comparator.py"
    shutil.copyfile(Path(__file__).with_name("standin_comparator.py"), standin)
    tools = judged.folder / "tools"
    make_toolchain(tools)
    # A kernel's sandbox lets nothing else be executed, no shell either.
    kernels = {"yes": "true", "no": "false"}
    for name, program in kernels.items():
        shutil.copyfile(f"/usr/bin/{program}", tools / name)
    for path in (tools, *tools.iterdir()):
        path.chmod(0o755)
    for module in ("Challenge", "Solution"):
        (project / f"{module}.lean").write_text(f"-- {module}\n")
        (project / f"{module}.ndjson").write_text('{"meta":{}}\n' * 100)
    config = {
        "challenge_module": "Challenge",
        "solution_module": "Solution",
        "theorem_names": ["main_theorem"],
        "permitted_axioms": [],
        "external_kernels": {name: [str(tools / name)] for name in kernels},
    }
    (project / "config.json").write_text(json.dumps(config))
    judged.environment.update({"PATH": f"{tools}:/usr/bin:/bin", "COMPARATOR_LANDRUN": str(landrun)})
    return [PYTHON, "-I", "-S", str(standin), "config.json"]


@pytest.mark.real
def test_a_disposable_machine_whose_root_keeps_what_another_user_judges(judged: Judged, open_landrun: Path) -> None:
    """The comparator's own calls through a real landrun; without us the same verdict and the same lines."""
    argv = comparator(judged, open_landrun)
    as_nobody = ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "--"]
    bare = subprocess.run([*map(str, as_nobody), *argv], cwd=judged.work, env=judged.env({"HOME": "/nonexistent"}),
                          capture_output=True, check=False)  # fmt: skip
    assert bare.returncode == 1, bare.stderr
    assert b"yes kernel accepts the solution" in bare.stdout
    ended = judged(argv)
    assert (ended.status, ended.stdout, ended.stderr) == (1, bare.stdout, bare.stderr)
    phases = [(one.started["phase"]["understood"], one.outcome["code"]) for one in judged.calls()]
    assert phases == [("build", 0), ("export", 0), ("build", 0), ("export", 0), ("checker", 1), ("checker", 0)]
    for one in judged.calls():
        assert one.started["sandbox"]["kind"] == "landrun"
        assert one.started["trust"] == "collected"
        assert one.faults == []
    assert judged.whole().started["judge_config"]["sha256"] is not None
    assert judged.seal()["complete"] is True


ATTACK = r"""
import ctypes, os, socket, sys, time
libc = ctypes.CDLL(None, use_errno=True)
store, launchers, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
meter = os.getppid()
run = int(open("/proc/%d/stat" % int(open("/proc/%d/stat" % meter).read().split()[3])).read().split()[3])
children = [int(p) for p in open("/proc/%d/task/%d/children" % (run, run)).read().split()]
roots = [pid for pid in (run, *children) if os.stat("/proc/%d" % pid).st_uid == 0]
assert len(roots) >= 2, "run and its collector"
def attempt(what, do):
    try: do()
    except (OSError, ValueError) as error: print("refused", what)
    else: print("DONE", what)
def check(result):
    if result == -1: raise OSError(ctypes.get_errno(), "")
attempt("list store", lambda: os.listdir(store))
attempt("read store", lambda: open(store + "/sessions"))
attempt("chmod store", lambda: os.chmod(store, 0o777))
attempt("rename store", lambda: os.rename(store, store + "2"))
attempt("make in store", lambda: os.mkdir(store + "/x"))
for path in [launchers + part for part in ("", "/landrun", "/meter", "/digests", "/meter/bundle")]:
    attempt("write " + path, lambda: os.open(path + "/x" if os.path.isdir(path) else path, os.O_WRONLY | os.O_CREAT))
    attempt("rename " + path, lambda: os.rename(path, path + "2"))
attempt("door", lambda: os.fstat(number))
for pid in roots:
    attempt("signal", lambda: os.kill(pid, 0))
    attempt("limit", lambda: __import__("resource").prlimit(pid, 7, (0, 0)))
    attempt("nice", lambda: os.setpriority(0, pid, 19))
    attempt("memory", lambda: open("/proc/%d/mem" % pid, "rb"))
    attempt("descriptors", lambda: os.listdir("/proc/%d/fd" % pid))
    attempt("trace", lambda: check(libc.ptrace(0x4206, pid, None, None)))
    attempt("pin", lambda: os.sched_setaffinity(pid, {0}))
attempt("meter's memory", lambda: open("/proc/%d/mem" % meter, "rb").read(1))
attempt("trace meter", lambda: check(libc.ptrace(0x4206, meter, None, None)))
for line in open("/proc/self/cgroup"):
    place = line.strip().split(":")[2]
    if "proofcost-" not in place: continue
    for mount in ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory"):
        here = mount + place
        if not os.path.isdir(here): continue
        above = os.path.dirname(here)
        attempt("leave", lambda: open(os.path.dirname(above) + "/cgroup.procs", "w").write("0"))
        attempt("move", lambda: open(here + "/cgroup.procs", "w").write("0"))
        attempt("move up", lambda: open(above + "/cgroup.procs", "w").write("0"))
        attempt("to the judge", lambda: open(above + "/whole/cgroup.procs", "w").write("0"))
        attempt("make", lambda: os.mkdir(here + "/x"))
        attempt("make beside", lambda: os.mkdir(above + "/x"))
        for name in ("cgroup.kill", "memory.max", "memory.limit_in_bytes", "cgroup.freeze"):
            if os.path.exists(above + "/" + name):
                attempt(name, lambda: open(above + "/" + name, "w").write("1"))
sys.exit(5)
"""


@pytest.mark.real
def test_confined_code_of_another_user_can_do_nothing_to_what_is_kept(judged: Judged, open_landrun: Path) -> None:
    """Another uid as well as Landlock: everything of measuring.md 5 that the same uid could still do is refused."""
    script = judged.folder / "attack.py"
    script.write_text(ATTACK)
    judged.environment["COMPARATOR_LANDRUN"] = str(open_landrun)
    call = (
        f'"$COMPARATOR_LANDRUN" --best-effort --ro / --rox /usr --rox /lib --rox /lib64 --rw /dev -- {PYTHON} -I '
        f'{script} {judged.store} "$(dirname "$COMPARATOR_LANDRUN")" $PROOFCOST_FD; exit $?'
    )
    ended = judged.shell(call)
    assert ended.status == 5, ended
    said = ended.stdout.decode().splitlines()
    assert len(said) > 30
    assert [line for line in said if line.startswith("DONE")] == []
    [one] = judged.calls()
    assert one.outcome["code"] == 5
    assert judged.seal()["complete"] is True


UNCONFINED = ATTACK.replace("meter = os.getppid()", "meter = os.getpid()").replace(
    'int(open("/proc/%d/stat" % meter).read().split()[3])', "meter"
)


def test_unconfined_code_of_another_user_cannot_reach_store_run_or_collector(judged: Judged) -> None:
    """The judge itself, say. What it can do to its own meters is in docs/security.md."""
    script = judged.folder / "attack.py"
    script.write_text(UNCONFINED)
    ended = judged.shell(f'exec {PYTHON} -I {script} {judged.store} "$(dirname "$COMPARATOR_LANDRUN")" $PROOFCOST_FD')
    assert ended.status == 5, ended
    done = {line for line in ended.stdout.decode().splitlines() if line.startswith("DONE")}
    own = {"DONE door", "DONE meter's memory", "DONE trace meter"}
    digests = {line for line in done if "/digests" in line}
    assert all(line.startswith("DONE write") for line in digests), "its own folder, in one of root's"
    assert done - own - digests <= {"DONE move up"}, "on v2, where no controller is on: still in the session"
    assert judged.whole().outcome["code"] == 5


@pytest.mark.real
def test_lakes_sandbox_with_an_empty_environment(judged: Judged, bwrap: Path) -> None:
    """`lake comparator` calls bwrap through `env -i`; what runs in it has another pid namespace, and no door."""
    judged.environment["COMPARATOR_BWRAP"] = str(bwrap)
    sandbox = "--ro-bind / / --dev /dev --proc /proc --unshare-all --die-with-parent --new-session --"
    listing = f"{PYTHON} -c 'import os; print(os.getpid(), 198 in map(int, os.listdir(\"/proc/self/fd\")))'"
    ended = judged.shell(f'exec env -i "$COMPARATOR_BWRAP" {sandbox} /bin/sh -c {shlex.quote(listing + "; exit 3")}')
    assert (ended.status, ended.stderr) == (3, b"")
    assert ended.stdout.split()[1:] == [b"False"]
    [one] = judged.calls()
    assert (one.started["sandbox"]["kind"], one.outcome["code"]) == ("bwrap", 3)
    assert one.started["process"]["collector"]["from_judge"] is True


# A unit of systemd: there is none here, so the order of words is all that can be looked at.


def recipes(start: str) -> list[list[str]]:
    """The README's lines that begin so."""
    text = (REPO / "README.md").read_text("utf-8")
    lines = re.findall(rf"^{start}.*$", text, re.M)
    assert lines, start
    return [shlex.split(line, comments=True) for line in lines]


@pytest.mark.parametrize("start", ["systemd-run", "sudo proofcost", "docker run"])
def test_a_recipe_puts_run_inside_and_means_what_it_says(start: str) -> None:
    for words in recipes(start):
        at = words.index("proofcost")
        args = build_parser("run").parse_args(words[at + 1 :])
        assert args.as_user
        assert find_command(args.command)[0] in ("lake", "judge")


def test_the_other_order_is_refused_with_the_right_one(judged: Judged) -> None:
    """Around a client it would measure a client, and root would keep its records."""
    ended = judged(["systemd-run", "--wait", "--", "lake"])
    assert ended.status == 2
    assert b"systemd-run [OPTIONS] proofcost run -- JUDGE" in ended.stderr


# A grader in Python, as FineEnvs has: a user of its own, subprocess, limits of its own, and a kill by uid at the end.

GRADER = """
import resource
def build(statement, seconds, code):
    process = subprocess.Popen(
        [SHIM, "--best-effort", "--rox", "/", "--", "/bin/sh", "-c", code],
        pass_fds=[int(os.environ["PROOFCOST_FD"])], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        start_new_session=True, cwd=os.getcwd(), env={"PATH": "/usr/bin:/bin", "LANG": "C"},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20)),
    )
    try:
        out, _ = process.communicate(timeout=seconds)
        return process.returncode, out.decode()
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return "timeout", ""
results = [
    build("good", 20, "echo proof; exit 0"), build("bad", 20, "echo no >&2; exit 1"),
    build("crash", 20, "kill -SEGV $$"), build("slow", 1, "sleep 60"),
    build("leaves a daemon", 20, "setsid sleep 60 </dev/null >/dev/null 2>&1 & exit 0"),
]
print(json.dumps(results))
sys.stdout.flush()
os.kill(-1, signal.SIGKILL)  # everything of this user but itself
sys.exit(0 if results[0][0] == 0 else 1)
"""


def test_a_grader_in_python_with_limits_and_kills_of_its_own(judged: Judged) -> None:
    os.chown(judged.work, 54322, 54322)
    ended = judged([PYTHON, "-c", PRELUDE + GRADER], user="54322:54322")
    assert ended.status == 0, ended
    assert json.loads(ended.stdout) == [[0, "proof\n"], [1, "no\n"], [139, ""], ["timeout", ""], [0, ""]]
    ends = [(one.outcome["code"], one.outcome["signal"]) if one.finished else "incomplete" for one in judged.calls()]
    assert ends == [(0, None), (1, None), (None, 11), "incomplete", (0, None)]
    seal = judged.seal()
    assert seal["incomplete"] == ["1 without `finished`"], "the call that the grader killed with its meter"


# A container: uid 10001 and no capabilities (the Lean Kernel Challenge's), root with as few as will do.


def test_a_container_whose_root_has_three_capabilities(judged: Judged) -> None:
    os.chown(judged.work, int(UID), int(UID))
    ended = judged.shell(f"id -u; {CALL} /bin/sh -c 'exit 3'; exit $?", user=f"{UID}:{UID}", via=CONTAINER)
    assert (ended.status, ended.stdout, ended.stderr) == (3, b"10001\n", b"")
    [one] = judged.calls()
    assert one.outcome["code"] == 3
    assert one.started["process"]["collector"]["uid"] == int(UID)
    if not one.started["cgroup"]["paths"]:
        assert "Operation not permitted" in one.started["cgroup"]["reason"], "no CAP_CHOWN: said"
    assert judged.seal()["complete"] is True


def test_a_container_where_nobody_has_any(judged: Judged) -> None:
    """Everything as uid 10001: nobody can keep anything from anybody, and `run` alone measures."""
    none = [
        "setpriv",
        "--reuid",
        UID,
        "--regid",
        UID,
        "--clear-groups",
        "--bounding-set",
        "-all",
        "--no-new-privs",
        "--",
    ]
    os.chown(judged.work, int(UID), int(UID))
    store = judged.work / "store"
    judge = ["/bin/sh", "-c", f"{CALL} /bin/sh -c 'exit 3'; exit $?"]
    done = subprocess.run(
        [*none, PROOFCOST, "run", "--store", store, "--", *judge], cwd=judged.work, check=False, capture_output=True,
        env=judged.env(),
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (3, b"")
    events = [json.loads(line) for path in store.glob("sessions/*/*.jsonl") for line in path.read_text().splitlines()]
    assert {event["trust"] for event in events if event["event"] == "started"} == {"user"}
    assert sorted(event["outcome"]["code"] for event in events if event["event"] == "finished") == [3, 3]
    refused = subprocess.run(
        [*none, PROOFCOST, "run", "--as", UID, "--", "/bin/true"], check=False, capture_output=True, env=judged.env()
    )
    assert refused.returncode == 2
    assert b"only root can run a judge as another user" in refused.stderr
    shutil.rmtree(store)


def test_a_judge_that_hands_on_a_list_of_variables_finds_us_by_path(judged: Judged) -> None:
    """The Lean Kernel Challenge's: a whitelist of the environment, so COMPARATOR_LANDRUN is lost; PATH is on it."""
    tools = judged.folder / "tools"
    tools.mkdir()
    shutil.copyfile(judged.sandbox, tools / "landrun")
    (tools / "landrun").chmod(0o755)
    tools.chmod(0o755)
    ended = judged.shell(
        "env -i PATH=\"$PATH\" HOME=\"$HOME\" LANG=C landrun --rox / -- /bin/sh -c 'exit 3'; exit $?",
        "--shims", "path", env={"PATH": f"{tools}:/usr/bin:/bin"}, user=f"{UID}:{UID}",
    )  # fmt: skip
    assert ended.status == 3
    assert [one.outcome["code"] for one in judged.calls()] == [3]
