"""The kernel author's recipe from end to end: a repository, a build command, two commits, a gate, a summary."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from benching import export
from calling import PROOFCOST

SOURCE = """
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv) {
    FILE *file = argc > 1 ? fopen(argv[argc - 1], "r") : NULL;
    volatile long sum = 0;
    if (file == NULL) return 2;
    for (long at = 0; at < WORK; at++) sum += at;
    return 0;
}
"""
BUILD = "gcc -O1 -o kernel kernel.c"


@dataclass(frozen=True)
class Repository:
    folder: Path
    script: Path

    def git(self, *words: str) -> str:
        identity = ("-c", "user.name=n", "-c", "user.email=e@example.org", "-c", "commit.gpgsign=false")
        argv = ["git", *identity, *words]
        return subprocess.run(argv, cwd=self.folder, check=True, capture_output=True, text=True).stdout.strip()

    def commit(self, work: int | None, note: str) -> str:
        """A commit after which the kernel does so much work; None: it does not build."""
        text = SOURCE.replace("WORK", str(work)) if work is not None else "no C"
        (self.folder / "kernel.c").write_text(text)
        (self.folder / "README").write_text(note)
        self.git("add", "kernel.c", "README")
        self.git("commit", "-q", "-m", note)
        return self.git("rev-parse", "HEAD")

    def check(self, base: str, *words: str, **settings: str) -> subprocess.CompletedProcess[str]:
        settings = {"BUILD": BUILD, "PROGRAM": "kernel", "COUNTER": "callgrind", **settings}
        env = {**os.environ, **settings, "PATH": f"{Path(PROOFCOST).parent}:{os.environ['PATH']}"}
        return subprocess.run(
            ["sh", self.script, base, *words], cwd=self.folder, env=env, capture_output=True, text=True, timeout=300,
            check=False,
        )  # fmt: skip


@pytest.fixture
def repository(tmp_path: Path, repo: Path, valgrind: Path, gcc: Path) -> Repository:
    made = Repository(tmp_path / "kernel", repo / "docs" / "kernel-author-ci.sh")
    made.folder.mkdir()
    made.git("init", "-q", "-b", "main")
    (made.folder / ".gitignore").write_text("proofcost-out\nexports\n")
    export(made.folder / "exports" / "a.ndjson", "church:8")
    return made


def test_a_dearer_commit_fails_the_gate_and_one_that_changes_words_passes(repository: Repository) -> None:
    first = repository.commit(2_000_000, "first")
    words = repository.commit(2_000_000, "words only")
    done = repository.check(first, "exports")
    assert done.returncode == 0, done.stderr
    summary = (repository.folder / "proofcost-out" / "summary.md").read_text()
    assert f"## {first[:12]} → {words[:12]}\n" in summary
    assert "regressed" not in summary.splitlines()[2]

    dearer = repository.commit(2_200_000, "10 % more")
    steps = repository.folder / "steps.md"
    done = repository.check(words, "exports", GITHUB_STEP_SUMMARY=str(steps))
    assert done.returncode == 1, done.stderr
    assert "1 regressed" in steps.read_text().splitlines()[2]
    compared = json.loads((repository.folder / "proofcost-out" / "compare.json").read_text())
    (case,) = compared["cases"]
    assert (case["metric"], case["finding"]) == ("instructions (callgrind)", "regressed")
    assert 1.08 < case["ratio"] < 1.1
    assert repository.git("worktree", "list").count("\n") == 0, "no checkout of ours is left behind"

    # Records of both jobs add up to a history; it names the commit, and is silent on the other.
    out = repository.folder / "proofcost-out"
    argv = [PROOFCOST, "report", "history", str(out / "store"), "--along", "kernel", "--order", str(out / "order")]
    told = subprocess.run([*argv, "-o", str(out / "h.json")], check=True, capture_output=True, text=True).stdout
    assert told.replace("\n", " ").startswith(f"1 of 1 series changed, at 1 place: {words[:12]} -> {dearer[:12]}.")


def test_only_what_differs_from_the_merge_base_is_compared(repository: Repository) -> None:
    """Whoever made main dearer since is not blamed on this branch."""
    repository.commit(2_000_000, "first")
    repository.git("checkout", "-q", "-b", "branch")
    repository.commit(2_000_000, "words on the branch")
    repository.git("checkout", "-q", "main")
    repository.commit(1_000_000, "main became cheaper")
    repository.git("checkout", "-q", "branch")
    done = repository.check("main", "exports")
    assert done.returncode == 0, done.stderr


def test_a_mistake_is_one_clear_line(repository: Repository) -> None:
    first = repository.commit(1000, "first")
    assert "there is nothing to compare" in repository.check(first, "exports").stderr
    repository.commit(None, "does not build")
    for words, settings, said in (
        ((first,), {}, "give BASE and at least one EXPORT"),
        ((first, "exports"), {"BUILD": ""}, "BUILD is not set"),
        ((first, "exports"), {"PROGRAM": ""}, "PROGRAM is not set"),
        (("nowhere", "exports"), {}, "nowhere: no commit"),
        ((first, "exports"), {"PROGRAM": "other"}, "the build made no program other"),
        ((first, "exports"), {}, "the build failed"),
    ):
        done = repository.check(*words, **settings)
        assert done.returncode == 2
        assert said in done.stderr
