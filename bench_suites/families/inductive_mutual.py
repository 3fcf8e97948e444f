"""n types that are defined in terms of one another, in a ring.

    mutual inductive T.i : Type | leaf | step (x : T.j)

Each of the n recursors takes n motives and 2n minor premises; each of the 2n rules is a function of all of them. The
seed says in which order the ring goes round.
"""

import random

from proofcost.bench_suites.export_binders import Scope
from proofcost.bench_suites.export_inductive import Block, Constructor, Field, Inductive
from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families.family import Family, Order


def write(out: Writer, order: Order) -> None:
    scope = Scope(out)
    ring = list(range(order.n))
    random.Random(order.seed).shuffle(ring)
    following = {ring[at - 1]: ring[at] for at in range(order.n)}

    def against(_: object) -> int:
        """T.0 -> T.0: a field of this type makes T.0 occur where it must not."""
        first = out.const(out.name("T0"))
        return scope.arrow(first, lambda: first)

    types = []
    for i in range(order.n):
        field = Field("x", against) if order.fault and i == order.n - 1 else Field("x", recursive=following[i])
        types.append(Inductive(f"T{i}", (Constructor("leaf"), Constructor("step", (field,)))))
    Block(scope, types, level=out.succ(0), once=True).write()


FAMILY = Family(
    name="inductive-mutual",
    stresses="large mutual blocks: many recursors over many motives",
    growth="bytes n^2; time n^2 to n^3",
    fault="one constructor takes a function from T0 to T0, so that T0 occurs negatively",
    write=write,
    n_min=1,
    small=8,
    ladder=(6, 10, 16, 24),
    size_exponent=2,
    seeded=True,
)
