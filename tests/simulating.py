"""Full simulations run with `make long` only; the quick suite has smaller ones with the same claims."""

import os
from collections.abc import Callable
from typing import TypeVar

import pytest

Test = TypeVar("Test", bound=Callable[..., None])


def full_simulation(test: Test) -> Test:
    skip = pytest.mark.skipif(not os.environ.get("PROOFCOST_LONG"), reason="a full simulation: make long")
    marked: Test = pytest.mark.slow(skip(test))
    return marked
