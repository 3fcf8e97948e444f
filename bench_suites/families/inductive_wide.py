"""An enumeration of n constructors.

    inductive Wide : Type | c.0 | ... | c.(n-1)

Its recursor takes n minor premises, and each of its n rules is a function of all of them: the export grows with n^2,
and a kernel builds the same again to compare.
"""

from proofcost.bench_suites.export_binders import Scope
from proofcost.bench_suites.export_inductive import Block, Constructor, Inductive
from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families.family import Family, Order


def write(out: Writer, order: Order) -> None:
    scope = Scope(out)
    constructors = tuple(Constructor(f"c{i}") for i in range(order.n))
    block = Block(scope, [Inductive("Wide", constructors)], level=out.succ(0), once=True)
    block.write(misfit=order.n // 2 if order.fault else None)


FAMILY = Family(
    name="inductive-wide",
    stresses="large enumerations: recursors with many minor premises and rules",
    growth="bytes n^2; time n^2 to n^3",
    fault="the constructor in the middle makes a Prop",
    write=write,
    n_min=1,
    small=20,
    ladder=(30, 60, 120, 240),
    size_exponent=2,
)
