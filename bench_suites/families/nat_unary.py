"""Addition of unary numbers: constructors and a recursor, no literal.

    sum : (q : Nat -> Prop) -> q (Nat.add (succ^n zero) (succ^n zero)) -> q (succ^(2n) zero) := fun q h => h

n recursor steps, then a comparison 2n deep. No extension is needed; that of Nat literals finds nothing to do until a
kernel turns the towers into literals by itself.
"""

from proofcost.bench_suites.export_binders import Scope
from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families import prelude
from proofcost.bench_suites.families.family import Family, Order


def write(out: Writer, order: Order) -> None:
    scope = Scope(out)
    nat = prelude.nat(scope)
    add = prelude.addition(scope)
    succ = out.const(out.name("Nat.succ"))

    def above(number: int, by: int) -> int:
        for _ in range(by):
            number = out.app(succ, number, once=True)
        return number

    half = above(out.const(out.name("Nat.zero")), order.n)
    whole = above(half, order.n + order.fault)
    prelude.same(out, out.name("sum"), nat, out.app(add, half, half), whole)


FAMILY = Family(
    name="nat-unary",
    stresses="recursor reduction, and comparison of deep constructor towers",
    growth="bytes and time linear in n (n^2 where a step goes through the tower again); n frames of stack",
    fault="the sum is one too large",
    write=write,
    n_min=1,
    small=100,
    ladder=(300, 900, 2_700, 8_100),
)
