"""The maximum of n universes, in two orders.

    same.{u1,...,un} : Sort (succ (max u1 (max u2 ...))) := Sort (max (... (max ua ub) ...) uz)

The seed shuffles the second order. A kernel that sorts needs n log n steps, one that looks for each in the other n^2.
"""

import random

from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families.family import Family, Order


def write(out: Writer, order: Order) -> None:
    prefix = out.name("u")
    names = [out.numbered(prefix, i) for i in range(order.n)]
    levels = [out.param(name, once=True) for name in names]
    # The innermost maximum may be the same in both; the others cannot, as they nest the other way.
    right = out.max(levels[-2], levels[-1])
    for level in reversed(levels[:-2]):
        right = out.max(level, right, once=True)
    shuffled = levels.copy()
    random.Random(order.seed).shuffle(shuffled)
    if order.fault:
        shuffled[-1] = shuffled[0]
    left = out.max(shuffled[0], shuffled[1])
    for level in shuffled[2:]:
        left = out.max(left, level, once=True)
    out.definition(out.name("same"), out.sort(out.succ(right)), out.sort(left), height=1, parameters=tuple(names))


FAMILY = Family(
    name="universe-max",
    stresses="universe levels: equality of large maxima, many universe parameters",
    growth="bytes linear in n; time n log n to n^2",
    fault="the second maximum lacks one universe",
    write=write,
    n_min=2,
    small=50,
    ladder=(300, 900, 2_700, 8_100),
    seeded=True,
)
