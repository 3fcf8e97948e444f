"""`proofcost kernels`: which are known, which are here, with version, digest and the meaning of their exits."""

import hashlib
import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from benching import PROOFCOST, script

from proofcost.bench_suites import kernel, registry


def kernels(*words: object, **env: str) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PROOFCOST_")}
    return subprocess.run(
        [PROOFCOST, "kernels", *map(str, words)],
        env={**environment, **env},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def listed(*words: object, **env: str) -> dict[str, dict[str, Any]]:
    done = kernels("--json", *words, **env)
    assert done.returncode == 0, done.stderr
    return {one["name"]: one for one in json.loads(done.stdout)["kernels"]}


def test_an_installed_kernel_has_version_digest_and_exit_codes(tmp_path: Path) -> None:
    program = script(tmp_path / "nanoda_bin", "#!/bin/sh\necho 'nanoda_bin 0.4.10-beta'\necho more\nexit 101\n")
    found = listed(PATH=f"{tmp_path}:/usr/bin:/bin")["nanoda"]
    assert found["program"] == str(program)
    assert found["version"] == "0.4.10-beta"
    assert found["sha256"] == hashlib.sha256(program.read_bytes()).hexdigest()
    assert found["exit_codes"] == {"0": "accepted", "1": "error", "2": "declined", "101": "rejected"}
    assert found["exit_codes_known_by"] == "tried with nanoda 0.4.10-beta"
    shown = kernels(PATH=f"{tmp_path}:/usr/bin:/bin").stdout
    (row,) = [line for line in shown.splitlines() if line.startswith("nanoda ")]
    assert found["sha256"][:12] in row
    assert "101 rejected (tried)" in row


def test_a_variable_goes_before_path_and_a_missing_one_says_where_it_was_looked_for(tmp_path: Path) -> None:
    script(tmp_path / "nanoda_bin", "#!/bin/sh\n")
    other = script(tmp_path / "other", "#!/bin/sh\n")
    found = listed(PATH=f"{tmp_path}:/usr/bin:/bin", PROOFCOST_NANODA=str(other))
    assert found["nanoda"]["program"] == str(other)
    assert found["nanoda"]["version"] is None
    gone = listed(PATH="/usr/bin:/bin", PROOFCOST_NANODA="/nonexistent/nanoda")["nanoda"]
    assert gone["program"] is None
    assert gone["not_found"] == "looked for nanoda_bin on PATH; name it by PROOFCOST_NANODA"
    assert "nanoda: " in kernels(PATH="/usr/bin:/bin").stdout.partition("not installed:")[2]


def test_our_controls_are_always_here() -> None:
    found = listed(PATH="/usr/bin:/bin")
    assert (found["null"]["program"], found["null"]["control"]) == ("/bin/true", True)
    parse_only = Path(registry.HERE) / "parse_only.py"
    assert found["parse-only"]["sha256"] == hashlib.sha256(parse_only.read_bytes()).hexdigest(), "not the interpreter's"


def test_a_file_of_ones_own_is_listed_and_a_wrong_one_is_one_line(tmp_path: Path) -> None:
    script(tmp_path / "mine", "#!/bin/sh\n")
    (tmp_path / "mine.toml").write_text('[mine]\nprograms = ["mine"]\nexit = { 0 = "accepted" }\n')
    assert listed("--kernels", tmp_path / "mine.toml", PATH=f"{tmp_path}:/usr/bin")["mine"]["program"]
    assert listed(PATH=f"{tmp_path}:/usr/bin", PROOFCOST_KERNELS=str(tmp_path / "mine.toml"))["mine"]["program"]
    (tmp_path / "mine.toml").write_text('[mine]\nprogram = ["mine"]\n')
    done = kernels("--kernels", tmp_path / "mine.toml")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        done.stderr
        == f"proofcost: kernels: {tmp_path}/mine.toml:2: mine.program: unknown key; did you mean programs?\n"
    )


@pytest.mark.parametrize("text", ["sleep 100 & sleep 100", "yes", "exec sleep 100", ":"])
def test_asking_for_a_version_never_hangs_or_floods(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(kernel, "VERSION_PATIENCE_S", 0.5)
    program = script(tmp_path / "k", f"#!/bin/sh\n{text}\n")
    entry = registry.Convention("k", version=("--version",), version_pattern="^k (.*)")
    began = time.monotonic()
    assert kernel.version_of(entry, [str(program)]) is None
    assert time.monotonic() - began < 60


def test_a_version_is_the_first_line_where_no_pattern_says_otherwise(tmp_path: Path) -> None:
    program = script(tmp_path / "k", "#!/bin/sh\necho\necho ' v1.2 ' >&2\n")
    assert kernel.version_of(registry.Convention("k", version=("-V",)), [str(program)]) == "v1.2"
    assert kernel.version_of(registry.Convention("k"), [str(program)]) is None
    assert kernel.version_of(registry.Convention("k", version=("-V",)), ["/nonexistent"]) is None


@pytest.mark.real
def test_the_real_kernels_say_the_versions_that_were_tried(nanoda: Path, sokonanoda: Path) -> None:
    found = listed(PATH=os.environ["PATH"], PROOFCOST_NANODA=str(nanoda), PROOFCOST_SOKONANODA=str(sokonanoda))
    assert found["nanoda"]["version"] == "0.4.10-beta"
    assert found["sokonanoda"]["version"] == "0.5.0"
    assert all(found[name]["exit_codes_known_by"].startswith("tried") for name in ("nanoda", "sokonanoda"))
