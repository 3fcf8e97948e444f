"""What a family of generated exports is: what it stresses, how it grows, how its twin is wrong, and who writes it."""

from collections.abc import Callable
from dataclasses import dataclass

from proofcost.bench_suites.export_writer import Writer

NAT = "nat-extension"
TEXT = "string-extension"
"""What a kernel must have switched on to read a family's exports."""


@dataclass(frozen=True)
class Order:
    """One export to be written: the size, the seed of whatever is chosen, and whether to make the deliberate fault."""

    n: int
    seed: int = 0
    fault: bool = False


@dataclass(frozen=True)
class Family:
    """One generated family.

    `stresses`, `growth` and `fault` are sentences for people. `growth` says how size, time and memory go with n for a
    kernel that does well, and what happens to one that does not. `fault` says how the rejecting twin differs.
    `size_exponent`: bytes grow as n to this power (a test holds it). `small` is quick for every kernel; `ladder` are
    sizes for a growth measurement, each within some seconds and a GB on the kernels tried.
    `n_max`, where there is one: beyond it the format or a kernel's own limits are met, not its speed.
    `seeded`: another seed gives another export.
    """

    name: str
    stresses: str
    growth: str
    fault: str
    write: Callable[[Writer, Order], None]
    n_min: int
    small: int
    ladder: tuple[int, ...]
    size_exponent: int = 1
    n_max: int | None = None
    needs: tuple[str, ...] = ()
    seeded: bool = False
