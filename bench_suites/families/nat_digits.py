"""Arithmetic on two Nat literals of n digits.

    sum     : (q : Nat -> Prop) -> q (Nat.add a b) -> q c          a, b random, no digit carries
    product : (q : Nat -> Prop) -> q (Nat.mul d d) -> q e          d = 10^n - 1

Decimal text has to become numbers (n^2, or n log^2 n in good libraries), then one product is computed.
"""

import random

from proofcost.bench_suites.export_binders import Scope
from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families import prelude
from proofcost.bench_suites.families.family import NAT, Family, Order

DIGITS = b"1234" * 64
"""What each of 256 byte values becomes."""


def write(out: Writer, order: Order) -> None:
    scope = Scope(out)
    nat = prelude.nat(scope)
    add, mul = prelude.addition(scope), prelude.multiplication(scope)
    # Digit by digit and never as numbers: Python refuses, and would take n^2, to convert long ones.
    left, right, total = _without_carries(order.n, random.Random(order.seed))
    nines = "9" * order.n
    square = "9" * (order.n - 1) + "8" + "0" * (order.n - 1) + ("2" if order.fault else "1")
    term = out.app(add, out.nat(left), out.nat(right))
    prelude.same(out, out.name("sum"), nat, term, out.nat(total))
    term = out.app(mul, out.nat(nines), out.nat(nines))
    prelude.same(out, out.name("product"), nat, term, out.nat(square))


def _without_carries(n: int, random_: random.Random) -> tuple[str, str, str]:
    """Two numbers of n digits from 1 to 4, not the same, and their sum."""
    left, right = (random_.randbytes(n).translate(DIGITS) for _ in range(2))
    if left == right:
        right = b"5" + right[1:]
    # Bytes that are digits, added as one large number: no byte carries either.
    total = int.from_bytes(left, "big") + int.from_bytes(right, "big") - int.from_bytes(b"0" * n, "big")
    return left.decode(), right.decode(), total.to_bytes(n, "big").decode()


FAMILY = Family(
    name="nat-digits",
    stresses="reading and multiplying long Nat literals",
    growth="bytes linear in n; time n log^2 n to n^2, by the big-number library",
    fault="the product's last digit is wrong",
    write=write,
    n_min=2,
    small=1_000,
    ladder=(10_000, 30_000, 100_000, 300_000),
    needs=(NAT,),
    seeded=True,
)
