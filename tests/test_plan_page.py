"""docs/plan.md is true: every key of a plan stands in it, and its example is what the command says."""

import re
from pathlib import Path

import pytest
from planning import command, fleet

from proofcost.harness.described import DescriptionError
from proofcost.reports.plan.asked import read


def known_keys() -> set[str]:
    """What a plan takes, from what it says of a key that it does not take."""
    found: set[str] = set()
    for table in ("", "limits", "sandbox", "host", "fleet"):
        pairs = [("x", "host.size", "4c/8G"), ("x", "fleet.rate", "4/h"), ("x", f"{table}.qqqqqqqq".lstrip("."), "1")]
        with pytest.raises(DescriptionError) as caught:
            read(None, pairs)
        names = str(caught.value).partition("known: ")[2].split(", ")
        found |= {f"{table}.{name}".lstrip(".") for name in names}
    return found - {"limits", "sandbox", "host", "fleet", "alternative"}


def test_every_key_is_explained(repo: Path) -> None:
    page = (repo / "docs/plan.md").read_text(encoding="utf-8")
    keys = known_keys()
    assert {"name", "limits.oom", "sandbox.boot", "host.overcommit", "fleet.hosts_most"} <= keys
    assert sorted(key for key in keys if f"`{key}`" not in page) == []
    told = set(re.findall(r"`((?:limits|sandbox|host|fleet)\.\w+)`", page))
    assert sorted(told - keys) == []


@pytest.mark.long
def test_the_example_is_what_the_command_says(repo: Path, tmp_path: Path) -> None:
    fleet(tmp_path / "fleet", "heavy", 50_000)
    done = command(repo / "docs/plan/PLAN.toml", "--data", tmp_path / "fleet", "-o", tmp_path / "plan.json")
    assert (done.returncode, done.stderr) == (0, "")
    page = (repo / "docs/plan.md").read_text(encoding="utf-8")
    shown = page.split("<!-- answer -->\n```\n")[1].split("\n```")[0]
    assert shown.replace(";\n", "; ") == done.stdout.strip(), "docs/plan/example.py makes it anew"
