"""Addition of Nat literals by a function that no kernel computes with big numbers.

    sum : (q : Nat -> Prop) -> q (plus n n) -> q 2n := fun q h => h          plus is Nat.add by another name

The recursor has to look at the literal n as succ (n-1), n times over: between literal and constructor and back.
"""

from proofcost.bench_suites.export_binders import Scope
from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families import prelude
from proofcost.bench_suites.families.family import NAT, Family, Order


def write(out: Writer, order: Order) -> None:
    scope = Scope(out)
    nat = prelude.nat(scope)
    plus = prelude.addition(scope, "plus")
    literal = out.nat(order.n)
    term = out.app(plus, literal, literal)
    prelude.same(out, out.name("sum"), nat, term, out.nat(2 * order.n + order.fault))


FAMILY = Family(
    name="nat-unfold",
    stresses="recursor reduction on Nat literals, one conversion to a constructor per step",
    growth="bytes constant but for the digits; time linear in n; n frames of stack",
    fault="the sum is one too large",
    write=write,
    n_min=1,
    small=100,
    ladder=(900, 2_700, 8_100, 24_300),
    size_exponent=0,
    needs=(NAT,),
)
