"""What a plan is asked: every absurd or contradictory wish is one line that says where and how to mend it."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proofcost.harness.described import DescriptionError
from proofcost.reports.plan import amounts
from proofcost.reports.plan.asked import Asked, read

ONE_LINE = (
    ("--host", "host.size", "64c/256G"),
    ("--price", "host.price", "2.50/h"),
    ("--rate", "fleet.rate", "400/h"),
    ("--wait", "fleet.wait", "p95=10m"),
    ("--oom", "limits.oom", "2%"),
    ("--timeouts", "limits.timeouts", "0.05"),
)


def asked(*pairs: tuple[str, str]) -> Asked:
    return read(None, [(f"--set {key}", key, value) for key, value in pairs])


def test_a_plan_in_one_line() -> None:
    plan = read(None, ONE_LINE)
    assert plan.host is not None
    assert plan.load is not None
    assert (plan.host.cores, plan.host.memory_bytes) == (64, 256 * 10**9)
    assert plan.host.price == amounts.Price(2.5, "")
    assert plan.load.rate_per_s == pytest.approx(400 / 3600)
    assert (plan.load.quantile, plan.load.wait_s) == (0.95, 600)
    assert (plan.limits.oom, plan.limits.timeouts) == (0.02, 0.05)


def test_a_file_says_the_same_and_flags_win(tmp_path: Path) -> None:
    file = tmp_path / "PLAN.toml"
    file.write_text(
        """
name = "judge"
[limits]
oom = "1%"
rule = "3h + 15m/MB up to 6h"
[sandbox]
size = "4c/8G/10G"
[host]
cores = 64
memory = "256G"
price = "EUR 900/month"
[fleet]
batch = 2000
deadline = "8h"
[[alternative]]
name = "small hosts"
size = "32c/128G"
price = "1.20/h"
""",
        encoding="utf-8",
    )
    plan = read(str(file), [("--batch", "fleet.batch", "4000")])
    assert plan.load is not None
    assert plan.host is not None
    assert plan.limits.rule is not None
    assert (plan.load.batch, plan.load.deadline_s) == (4000, 8 * 3600)
    assert plan.limits.rule.limit_ns(4e6) == 4 * 3600 * 10**9
    assert plan.limits.rule.limit_ns(100e6) == 6 * 3600 * 10**9
    assert (plan.sandbox.cores, plan.sandbox.memory_bytes, plan.sandbox.disk_bytes) == (4, 8 * 10**9, 10**10)
    assert plan.host.price == amounts.Price(1.25, "EUR")
    assert plan.alternatives[0].size == amounts.Size(32, 128 * 10**9, None)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("[limits]\nom = '1%'", 2, ["unknown key", "did you mean oom?"]),
        ("[limits]\noom = '-1%'", 2, ["not a share"]),
        ("[limits]\noom = '80%'", 2, ["80%", "may fail"]),
        ("[limits]\noom = 5", 2, ["below 100%", "1%"]),
        ("[limits]\nrule = '3h + 15m/MB up to 1h'", 2, ["contradicts itself"]),
        ("[limits]\nladder = 3\n[sandbox]\nmemory = '8G'", 2, ["contradicts sandbox.memory"]),
        ("[host]\nsize = '64c/256G'\nprice = '-3/h'", 3, ["not a price"]),
        ("[host]\nsize = '64c/256G'\nprice = '3'", 3, ["of what time"]),
        ("[host]\nsize = '0c/256G'", 2, ["0 cores"]),
        ("[host]\nsize = '64c/-256G'", 2, ["-256G"]),
        ("[host]\nsize = '64c/256G'\ncores = 3", 3, ["contradicts size"]),
        ("[host]\nsize = '64c/256G'\nreserve = '300G'", 3, ["leaves nothing"]),
        ("[host]\nsize = '64c/4000T'", 2, ["no host has so much memory"]),
        ("[sandbox]\nsize = '8c/8G'\n[host]\nsize = '4c/16G'", 2, ["more cores than a whole host"]),
        ("[sandbox]\nmemory = '8G'\n[host]\nsize = '4c/6G'", 2, ["more memory than a whole host"]),
        ("[sandbox]\nmemory = 8", 2, ["8 of what?"]),
        ("[host]\nsize = '4c/6G'\n[fleet]\nrate = '-4/h'", 4, ["not a rate"]),
        ("[host]\nsize = '4c/6G'\n[fleet]\nrate = '4'", 4, ["not a rate", "400/h"]),
        ("[host]\nsize = '4c/6G'\n[fleet]\nrate = '4/h'\nbatch = 3\ndeadline = '1h'", 5, ["contradicts rate"]),
        ("[host]\nsize = '4c/6G'\n[fleet]\nbatch = 3", 4, ["by when?"]),
        ("[host]\nsize = '4c/6G'\n[fleet]\nrate = '4/h'\ndeadline = '1h'", 5, ["of which batch?"]),
        ("[host]\nsize = '4c/6G'\n[fleet]\nrate = '4/h'\nwait = '10m'", 5, ["p95=10m"]),
        ("[host]\nsize = '4c/6G'\n[fleet]\nprofile = [1, 2]", 4, ["24 numbers"]),
        ("[host]\nsize = '4c/6G'\n[fleet]\nhosts = 2000\nrate = '4/h'", 4, ["contradicts hosts_most"]),
        ("[host]\nsize = '4c/6G'\n[fleet]\nwait = 'p95=1m'", 3, ["no load"]),
        ("[fleet]\nrate = '4/h'", 1, ["hosts of what size?"]),
        ("[sandbox]\ntime = '6h'\n[host]\nsize = '4c/6G'\n[fleet]\nbatch = 3\ndeadline = '1h'", 7, ["21600 s"]),
    ],
)
def test_each_absurd_wish_names_its_line(text: str, line: int, words: list[str], tmp_path: Path) -> None:
    file = tmp_path / "PLAN.toml"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(DescriptionError) as caught:
        read(str(file))
    said = str(caught.value)
    assert said.startswith(f"{file}:{line}: "), said
    assert "\n" not in said
    for word in words:
        assert word in said


def test_a_flag_is_named_where_it_is_wrong() -> None:
    with pytest.raises(DescriptionError, match=r"^--oom: limits\.oom: '-1%': not a share"):
        read(None, [("--oom", "limits.oom", "-1%")])
    with pytest.raises(DescriptionError, match=r"^--set fleet\.rat: fleet\.rat: unknown key; did you mean rate\?"):
        asked(("host.size", "4c/8G"), ("fleet.rate", "4/h"), ("fleet.rat", "3/h"))
    with pytest.raises(DescriptionError, match=r"is no key"):
        asked(("fleet..rate", "4/h"))
    with pytest.raises(DescriptionError, match=r"is no table"):
        asked(("name", "x"), ("name.rate", "4/h"))


@given(st.text(max_size=30))
def test_any_text_is_an_amount_or_one_line(text: str) -> None:
    for parse in (amounts.share, amounts.rate_per_s, amounts.price, amounts.wait, amounts.size, amounts.time_rule):
        said = "well"
        try:
            parse(text)
        except ValueError as error:
            said = str(error)
        assert said
        assert "\n" not in said


@given(st.floats(1e-6, 0.999), st.booleans())
def test_a_share_reads_back(value: float, percent: bool) -> None:
    text = f"{100 * value:.10f}%" if percent else f"{value:.12f}"
    assert amounts.share(text) == pytest.approx(value, abs=1e-9)


def test_rates_prices_and_waits() -> None:
    assert amounts.rate_per_s("86400/d") == pytest.approx(1)
    assert amounts.price("$0.001/s").per_hour == pytest.approx(3.6)
    assert amounts.wait("p99.9=0s") == pytest.approx((0.999, 0))
    for wrong in ("p100=1m", "p0=1m", "95=1m", "p95=-1m"):
        with pytest.raises(ValueError, match=r"p95=10m|quantile"):
            amounts.wait(wrong)
