"""Many small theorems, all alike.

    tiny.i : (p : Prop) -> p -> p := fun p h => h

n counts declarations, two lines each. What is left of a kernel's cost is what each declaration costs it in itself:
reading two lines, making an entry, starting and ending a check. A control beside the heavier families.
"""

from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families.family import Family, Order


def write(out: Writer, order: Order) -> None:
    prop, p, h, b0, b1 = out.sort(0), out.name("p"), out.name("h"), out.bvar(0), out.bvar(1)
    statement = out.pi(p, prop, out.pi(h, b0, b1))
    proof = out.lam(p, prop, out.lam(h, b0, b0))
    wrong = out.lam(p, prop, out.lam(h, b0, b1))
    prefix = out.name("tiny")
    for i in range(order.n):
        last = i == order.n - 1
        out.theorem(out.numbered(prefix, i), statement, wrong if order.fault and last else proof)


FAMILY = Family(
    name="many",
    stresses="what every declaration costs by itself: reading, entering, starting and ending a check",
    growth="bytes, time and memory linear in n",
    fault="the last theorem's proof returns the proposition instead of the proof of it",
    write=write,
    n_min=1,
    small=500,
    ladder=(10_000, 30_000, 100_000, 300_000),
)
