"""Arithmetic on Nat literals: many sums, products and powers of numbers of some 40 digits.

    fact.i : (q : Nat -> Prop) -> q (Nat.add a b) -> q c := fun q h => h            and Nat.mul, Nat.pow in turn

n counts the facts; the seed draws the numbers. With its extension for Nat a kernel computes each with big numbers. A
kernel without it cannot read a literal at all (nanoda), or would have to count to 10^40.
"""

import random

from proofcost.bench_suites.export_binders import Scope
from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families import prelude
from proofcost.bench_suites.families.family import NAT, Family, Order

TO = 10**42
POWER = 2


def write(out: Writer, order: Order) -> None:
    scope = Scope(out)
    nat = prelude.nat(scope)
    operations = prelude.addition(scope), prelude.multiplication(scope), prelude.power(scope)
    draw = random.Random(order.seed).randrange
    prefix = out.name("fact")
    for i in range(order.n):
        which, left = i % 3, draw(TO)
        right = 2 + i % 2 if which == POWER else draw(TO)
        result = left**right if which == POWER else (left + right, left * right)[which]
        if order.fault and i == order.n - 1:
            result += 1
        # Drawn from so many, no number comes twice; the exponents do.
        term = out.app(operations[which], out.nat(left, once=True), out.nat(right, once=which != POWER), once=True)
        prelude.same(out, out.numbered(prefix, i), nat, term, out.nat(result, once=True))


FAMILY = Family(
    name="nat-literals",
    stresses="big-number arithmetic on Nat literals, as the extension does it",
    growth="bytes and time linear in n",
    fault="the last result is one too large",
    write=write,
    n_min=1,
    small=300,
    ladder=(3_000, 10_000, 30_000, 100_000),
    needs=(NAT,),
    seeded=True,
)
