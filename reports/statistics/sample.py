"""Numbers as they come in, checked once: what the methods may then take for granted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]

Numbers: TypeAlias = Sequence[int | float] | Floats | Ints
"""One-dimensional."""


LARGEST = 1e60
"""Beyond it (or below its inverse) no cost lies in any unit, and squares of ratios would leave what floats can hold."""


class BadSampleError(ValueError):
    """Numbers that cannot be what they are said to be. One line: which, where, what value, what would do."""


def finite(values: ArrayLike, name: str) -> Floats:
    """`values` as one-dimensional floats; may be empty. Raises BadSampleError for what is no finite number."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadSampleError(f"{name}: not numbers that a float can hold: {error}") from None
    if array.ndim != 1:
        raise BadSampleError(f"{name}: expected a plain list of numbers, got {array.ndim} dimensions")
    wrong = np.flatnonzero(~np.isfinite(array))
    if wrong.size:
        raise BadSampleError(
            f"{name}[{wrong[0]}] is {array[wrong[0]]}: leave out what was not measured, with its reason"
        )
    wrong = np.flatnonzero(np.abs(array) > LARGEST)
    if wrong.size:
        raise BadSampleError(f"{name}[{wrong[0]}] is {array[wrong[0]]:g}: no cost is so large; look at its unit")
    return array


def positive(values: ArrayLike, name: str) -> Floats:
    """`values` as floats above 0; may be empty. A cost of 0 has no ratio to anything, and a negative one is no cost."""
    array = finite(values, name)
    wrong = np.flatnonzero(array <= 0)
    if wrong.size:
        raise BadSampleError(f"{name}[{wrong[0]}] is {array[wrong[0]]:g}: a cost that is compared must be above 0")
    wrong = np.flatnonzero(array < 1 / LARGEST)
    if wrong.size:
        raise BadSampleError(f"{name}[{wrong[0]}] is {array[wrong[0]]:g}: no cost is so small; look at its unit")
    return array


def not_negative(values: ArrayLike, name: str) -> Floats:
    """`values` as floats of at least 0; may be empty."""
    array = finite(values, name)
    wrong = np.flatnonzero(array < 0)
    if wrong.size:
        raise BadSampleError(f"{name}[{wrong[0]}] is {array[wrong[0]]:g}: it cannot be negative")
    return array


def share(value: float, name: str) -> float:
    """`value` if it lies strictly between 0 and 1; raises BadSampleError otherwise."""
    if not 0 < value < 1:  # NaN is neither
        raise BadSampleError(f"{name} is {value}: it must lie between 0 and 1, both excluded")
    return float(value)


def above_zero(value: float, name: str) -> float:
    """`value` if it is finite and above 0; raises BadSampleError otherwise."""
    if not 0 < value <= LARGEST:
        raise BadSampleError(f"{name} is {value}: it must be a number above 0, and no larger than any cost")
    return float(value)


def whole(value: int, name: str, least: int = 1) -> int:
    """`value` if it is a whole number of at least `least`; raises BadSampleError otherwise."""
    if isinstance(value, bool) or int(value) != value or value < least:
        raise BadSampleError(f"{name} is {value}: it must be a whole number of at least {least}")
    return int(value)
