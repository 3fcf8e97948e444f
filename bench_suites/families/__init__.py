"""Generated families: exports of our own making that grow with n, for a kernel's author to run at once.

Each family is one file beside this one. A name with `-reject` behind it is the family's twin: the same export but for
one deliberate fault, which every sound kernel must reject. The same name, n and seed give the same bytes everywhere.
Standard library only: the demo generates its export in a sandbox that has little more than an interpreter.
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass

from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families import (
    app_deep,
    app_wide,
    beta_tower,
    binders,
    church,
    dag_compare,
    def_chain,
    def_doubling,
    function_eta,
    inductive_mutual,
    inductive_wide,
    let_tower,
    many,
    nat_digits,
    nat_literals,
    nat_unary,
    nat_unfold,
    proof_irrelevance,
    quotients,
    strings,
    structure_eta,
    term_dag,
    universe_imax,
    universe_max,
    universe_succ,
)
from proofcost.bench_suites.families.family import Family, Order

REJECT = "-reject"
"""What a twin's name ends in."""
FAMILIES: tuple[Family, ...] = tuple(
    module.FAMILY
    for module in (
        church,
        many,
        def_chain,
        def_doubling,
        app_deep,
        app_wide,
        binders,
        term_dag,
        dag_compare,
        beta_tower,
        let_tower,
        universe_succ,
        universe_max,
        universe_imax,
        nat_unary,
        nat_literals,
        nat_digits,
        nat_unfold,
        inductive_wide,
        inductive_mutual,
        structure_eta,
        function_eta,
        proof_irrelevance,
        quotients,
        strings,
    )
)
"""In the order in which they are told."""


class FamilyError(ValueError):
    """A family, size or seed that cannot be had: what it is, and what to give instead."""

    def __init__(self, what: str, cure: str) -> None:
        super().__init__(f"{what}; {cure}")
        self.what = what
        self.cure = cure


@dataclass(frozen=True)
class Chosen:
    """One export of one family, ready to be written. `order.fault`: the rejecting twin is meant."""

    family: Family
    order: Order

    @property
    def name(self) -> str:
        return self.family.name + (REJECT if self.order.fault else "")

    @property
    def spec(self) -> str:
        """As `choose` takes it: the seed is named where it matters."""
        seed = f":{self.order.seed}" if self.family.seeded else ""
        return f"{self.name}:{self.order.n}{seed}"

    @property
    def expected(self) -> str:
        """`accept` or `reject`: what a sound kernel says."""
        return "reject" if self.order.fault else "accept"

    def write(self, sink: Callable[[bytes], object]) -> None:
        """Give the export to `sink`, some 100 KiB at a time. Raises only what `sink` raises."""
        out = Writer(sink)
        out.meta(f"proofcost {self.spec}")
        self.family.write(out, self.order)
        out.flush()


def names() -> tuple[str, ...]:
    """Every name that can be asked for: each family, then its twin."""
    return tuple(name for family in FAMILIES for name in (family.name, family.name + REJECT))


def get(name: str) -> Family:
    """The family of that name; a twin's name gives the family it is the twin of. Raises FamilyError."""
    for family in FAMILIES:
        if name in (family.name, family.name + REJECT):
            return family
    close = difflib.get_close_matches(name, names(), n=1)
    meant = f"did you mean {close[0]}?" if close else f"there are {', '.join(family.name for family in FAMILIES)}"
    raise FamilyError(f"no family {name!r}", meant)


def choose(name: str, n: int, seed: int = 0) -> Chosen:
    """Raises FamilyError where there is no such family or `n` or `seed` is out of its range."""
    family = get(name)
    if n < family.n_min:
        raise FamilyError(f"n is {n}, and {name} begins with {family.n_min}", f"give {name}:{family.small}, say")
    if family.n_max is not None and n > family.n_max:
        raise FamilyError(f"n is {n}, and {name} ends with {family.n_max}", f"give {name}:{family.ladder[-1]}, say")
    if not 0 <= seed < 1 << 64:
        raise FamilyError(f"seed is {seed}", "give a whole number from 0 to 2^64 - 1")
    return Chosen(family, Order(n, seed, fault=name.endswith(REJECT)))


def parse(spec: str) -> Chosen:
    """`FAMILY:n[:seed]`. Raises FamilyError."""
    name, *numbers = spec.split(":")
    if not numbers:
        raise FamilyError(f"{spec} has no size", f"give {spec}:{get(name).small}, say")
    if len(numbers) > 2 or not all(number.isascii() and number.isdigit() for number in numbers):
        raise FamilyError(f"{spec} is not FAMILY:n or FAMILY:n:seed", "give whole numbers for n and seed")
    return choose(name, *map(int, numbers))


def is_spec(text: str) -> bool:
    """Whether `text` has a generated export's shape, so that a wrong one is refused as such and not as a path."""
    name, colon, rest = text.partition(":")
    return bool(colon) and "/" not in name and rest.replace(":", "").isdigit()


def generate(name: str, n: int, seed: int, sink: Callable[[bytes], object]) -> None:
    """Write one export to `sink` (a binary file's `write`, say). Raises FamilyError, and what `sink` raises."""
    choose(name, n, seed).write(sink)
