"""R3: multiplicity. Known answer: Benjamini & Hochberg 1995, the myocardial infarction example."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proofcost.reports.statistics.multiplicity import Dependence, judge_family
from proofcost.reports.statistics.sample import BadSampleError

P = [0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1]


def test_the_published_example_rejects_4() -> None:
    family = judge_family(P)
    assert family.m == 15
    assert family.rejected == (True,) * 4 + (False,) * 11
    assert sum(p <= 0.05 / 15 for p in P) == 3  # Bonferroni
    assert family.adjusted[3] == pytest.approx(0.0356, abs=5e-5)
    assert family.adjusted[4] == pytest.approx(0.0603, abs=5e-5)


def test_any_dependence_costs_the_harmonic_sum() -> None:
    positive, any_kind = judge_family(P), judge_family(P, dependence=Dependence.ANY)
    harmonic = sum(1 / i for i in range(1, 16))
    assert any_kind.adjusted[0] == pytest.approx(positive.adjusted[0] * harmonic)
    assert any_kind.method == "Benjamini-Yekutieli"


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=30), st.randoms())
def test_the_order_of_the_family_does_not_matter(p: list[float], random: object) -> None:
    order = list(range(len(p)))
    random.shuffle(order)  # type: ignore[attr-defined]
    family, shuffled = judge_family(p), judge_family([p[i] for i in order])
    assert [family.rejected[i] for i in order] == list(shuffled.rejected)


def test_with_nothing_changed_one_family_in_twenty_says_otherwise() -> None:
    random = np.random.default_rng(0)
    alarms = sum(any(judge_family(random.uniform(size=40)).rejected) for _ in range(1000))
    assert alarms / 1000 == pytest.approx(0.05, abs=0.02)


def test_no_tests_are_a_family_of_none() -> None:
    assert judge_family([]).m == 0


@pytest.mark.parametrize("p", [[1.1], [-0.1], [math.nan], [0.5, math.inf]])
def test_what_is_no_p_is_refused(p: list[float]) -> None:
    with pytest.raises(BadSampleError, match="p_values"):
        judge_family(p)
