"""A wrapped command finds exactly what it would have found without us: a dump of all it can see, bare and wrapped."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from calling import BARE, ENTRANCES, PHASE, RUN, WAYS, Wrap, call

from transparency.states import CONTEXTS, IN_GUEST, NOT_FOR_RUN, OWN_NUMBERS, as_nobody


def found_by(out: Path) -> list[str]:
    """What the dump found."""
    lines = out.read_text().splitlines()
    out.unlink()
    return lines


def cases() -> Iterator[object]:
    for name in CONTEXTS:
        for way in WAYS:
            if not (way == RUN and name in NOT_FOR_RUN):
                marks = [pytest.mark.guest_all] if name in IN_GUEST and way == PHASE else []
                yield pytest.param(name, way, marks=marks, id=f"{name}-{way}")


@pytest.mark.parametrize(("name", "way"), list(cases()))
def test_the_command_finds_what_it_would_have_found(
    tmp_path: Path, wrap: Wrap, dump: Path, name: str, way: str
) -> None:
    context = CONTEXTS[name]
    out = tmp_path / "found"
    command = [os.fsencode(dump), os.fsencode(out), *context.arguments]
    seen = {}
    for one in (BARE, way):
        out.touch()  # whatever the umask
        ended = call(wrap.argv(one, command), tmp_path / "s", context.env, context.as_caller, context.as_child)
        assert (ended.code, ended.stdout, ended.stderr) == (7, b"", b""), ended
        seen[one] = found_by(out)
        seen[one] = [line for line in seen[one] if not line.startswith(OWN_NUMBERS.get(name, ("never",)))]
    # The one wanted difference: the command dies with its meter.
    assert "pdeathsig 0" in seen[BARE]
    assert "pdeathsig 9" in seen[way]
    assert [line for line in seen[way] if line != "pdeathsig 9"] == [
        line for line in seen[BARE] if line != "pdeathsig 0"
    ]
    assert [one["finished"]["outcome"]["code"] for one in wrap.records()] == [7], "and it was measured"
    assert wrap.marks() == []


@pytest.mark.parametrize("way", ENTRANCES)
def test_another_user_finds_what_it_would_have_found(
    as_root: None, public: Path, tree: Path, dump: Path, way: str
) -> None:
    """Without a store: root's is not its own. That is said on stderr, before the start."""
    folder = Path(tempfile.mkdtemp(dir=public))
    folder.chmod(0o777)
    wrap = Wrap(folder / "w", tree)
    wrap.folder.mkdir()
    wrap.folder.chmod(0o777)
    out = folder / "found"
    seen = {}
    for one in (BARE, way):
        ended = call(wrap.argv(one, [str(dump), str(out)]), folder / "s", as_child=as_nobody)
        assert (ended.code, ended.stdout) == (7, b""), ended
        told = b"; the command runs unmeasured\n" if one == way else b""
        assert ended.stderr.endswith(told)
        seen[one] = [
            line.replace(f" offset {len(ended.stderr)} ", " offset 0 ")
            for line in found_by(out)
            if line != "pdeathsig 9"
        ]
    assert seen[way] == seen[BARE]
