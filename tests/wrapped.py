"""Real calls through real launchers, and what they left in the store."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from proofcost.adapters import launchers
from proofcost.harness import hierarchy

if TYPE_CHECKING:
    import jsonschema

REPO = Path(__file__).resolve().parent.parent
PROOFCOST = str(Path(sys.executable).with_name("proofcost"))
NOBODY = 65534
IN_GUEST = os.environ.get("PROOFCOST_HOST_KIND") == "v2"
"""Software emulation: ten to twenty times slower, so that no length of time there means anything."""
PATIENCE_S = 240 if IN_GUEST else 60

Event = dict[str, Any]
Figure = dict[str, Any]


@cache
def _validator() -> "jsonschema.Draft202012Validator":
    import jsonschema  # a second in the guest, and more

    schema = json.loads((REPO / "harness" / "record_v1.schema.json").read_text("ascii"))
    return jsonschema.Draft202012Validator(schema)


def problems(event: Event) -> list[str]:
    """What the schema says against an event."""
    return [f"{error.json_path}: {error.message}" for error in _validator().iter_errors(event)]


@dataclass
class Recorded:
    """One invocation as its files have it."""

    started: Event
    finished: Event | None = None
    settled: Event | None = None

    @property
    def outcome(self) -> Event:
        assert self.finished is not None, f"incomplete: {self.started}"
        found: Event = self.finished["outcome"]
        return found

    @property
    def figures(self) -> dict[str, Figure]:
        assert self.finished is not None, f"incomplete: {self.started}"
        found: dict[str, Figure] = self.finished["measurements"]
        return found

    @property
    def faults(self) -> list[Event]:
        assert self.finished is not None, f"incomplete: {self.started}"
        found: list[Event] = self.finished["faults"]
        return found

    def value(self, name: str) -> int:
        """A figure's value, whatever its status; fails with the whole figure where there is none."""
        figure = self.figures[name]
        assert isinstance(figure["value"], int), f"{name}: {figure}"
        return figure["value"]

    def status(self, name: str) -> str:
        found: str = self.figures[name]["status"]
        return found


@dataclass
class Call:
    """How a wrapped command looked from outside."""

    status: int
    stdout: bytes
    stderr: bytes
    wall_s: float


@dataclass
class Wrapper:
    """Launchers of one's own around one store. Called with a command it runs the command through `phase`."""

    folder: Path
    tree: Path
    interpreter: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def store(self) -> Path:
        return self.folder / "store"

    def launcher(self, name: str = "phase", real: str = "") -> Path:
        path = self.folder / name
        if not path.exists():
            made = launchers.Options(str(self.store), str(self.tree), self.interpreter)
            for option, value in self.options.items():
                setattr(made, option, value)
            launchers.write(str(path), launchers.text_of(name, real, made))
        return path

    def command(self, command: Sequence[object], phase: str = "build") -> list[str]:
        return [str(self.launcher()), "--phase", phase, "--", *map(str, command)]

    def __call__(
        self,
        *command: object,
        phase: str = "build",
        via: Sequence[object] = (),
        env: Mapping[str, str] | None = None,
        timeout: float = PATIENCE_S,
        preexec: Callable[[], object] | None = None,
    ) -> Call:
        """Run it through the `phase` launcher, started by `via` where that is given."""
        return self._call([*map(str, via), *self.command(command, phase)], env, timeout, preexec)

    def run(self, *arguments: object, timeout: float = PATIENCE_S) -> Call:
        """`proofcost run ARGUMENTS` into the same store."""
        return self._call([PROOFCOST, "run", "--store", str(self.store), *map(str, arguments)], None, timeout, None)

    def _call(
        self,
        command: list[str],
        env: Mapping[str, str] | None,
        timeout: float,
        preexec: Callable[[], object] | None,
    ) -> Call:
        began = time.monotonic()
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
            cwd=self.folder,
            env=env,
            preexec_fn=preexec,
        )
        return Call(done.returncode, done.stdout, done.stderr, time.monotonic() - began)

    def records(self, valid: bool = True) -> list[Recorded]:
        """Everything in the store, in order of start; each event is held to the schema."""
        found: dict[str, Recorded] = {}
        events: list[Event] = []
        for path in sorted(self.store.glob("sessions/*/*.jsonl")):
            events += [json.loads(line) for line in path.read_text("ascii").splitlines()]
        for event in events:
            assert not valid or problems(event) == [], f"{problems(event)}\n{json.dumps(event, indent=1)}"
            if event["event"] == "started":
                found[event["invocation"]] = Recorded(event)
        for event in events:
            if event["event"] == "finished":
                found[event["invocation"]].finished = event
            elif event["event"] == "settled":
                found[event["invocation"]].settled = event
        return sorted(found.values(), key=lambda one: int(one.started["clocks"]["monotonic_ns"]))

    def last(self) -> Recorded:
        records = self.records()
        assert records, f"no record in {self.store}; marks: {self.marks()}"
        return records[-1]

    def marks(self) -> list[str]:
        return [path.read_text("ascii") for path in self.store.glob("marks/*.json")]

    def left_cgroups(self) -> list[Path]:
        """Cgroups that calls of this store made and that are still there. (Others' tests may run beside ours.)"""
        records = self.records(valid=False)
        ours = {one.started["invocation"] for one in records}
        ours |= {f"proofcost-{one.started['session']}" for one in records}
        mounts = {
            line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines() if " - cgroup" in line
        }
        # os.walk passes over what vanishes meanwhile.
        found = [Path(at, name) for mount in sorted(mounts) for at, names, _ in os.walk(mount) for name in names]
        return [path for path in found if any(name in path.name for name in ours)]

    def with_options(self, **options: Any) -> "Wrapper":
        """Launchers with these options, in a folder and a store of their own below ours."""
        folder = self.folder / "-".join(f"{key}-{value}" for key, value in sorted(options.items()))
        folder.mkdir()
        os.chown(folder, self.folder.stat().st_uid, -1)
        return Wrapper(folder, self.tree, self.interpreter, {**self.options, **options})


def own_cgroups() -> dict[str, Path]:
    """{hierarchy: directory} of the cgroups that this process lives in, for those that the meter uses."""
    return {name: Path(path) for name, path in hierarchy.find_own().dirs.items()}
