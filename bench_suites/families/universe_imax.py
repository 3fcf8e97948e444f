"""Nested impredicative maxima, in two orders.

    same.{u1,...,un,v} : Sort (succ (imax u1 (imax u2 ... (imax un v)))) := Sort (imax ua (... (imax uz v)))

Both are 0 where v is 0, else the maximum of all: a kernel has to tell those cases apart. One that splits on every
parameter instead of on v alone looks at 2^n cases. The seed shuffles the second order.
"""

import random

from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families.family import Family, Order


def write(out: Writer, order: Order) -> None:
    prefix = out.name("u")
    names = [out.numbered(prefix, i) for i in range(order.n)]
    levels = [out.param(name, once=True) for name in names]
    last_name = out.name("v")
    last = out.param(last_name)

    shuffled = levels.copy()
    random.Random(order.seed).shuffle(shuffled)
    if order.fault:
        shuffled[-1] = shuffled[0]
    ends_alike = next((i for i in range(order.n) if levels[-1 - i] != shuffled[-1 - i]), order.n)

    def nested(outer: list[int]) -> int:
        level = last
        for i, one in enumerate(reversed(outer)):
            level = out.imax(one, level, once=i >= ends_alike)
        return level

    type_ = out.sort(out.succ(nested(levels)))
    out.definition(out.name("same"), type_, out.sort(nested(shuffled)), height=1, parameters=(*names, last_name))


FAMILY = Family(
    name="universe-imax",
    stresses="universe levels: case distinctions that impredicative maxima force",
    growth="bytes linear in n; time n to n^2, or 2^n where every parameter is split on",
    fault="the second level lacks one universe",
    write=write,
    n_min=2,
    small=6,
    ladder=(8, 10, 12, 14),
    seeded=True,
)
