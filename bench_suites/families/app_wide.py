"""One application of n arguments.

    wide : (Prop -> ... -> Prop) -> Prop -> Prop := fun g x => g x ... x

A kernel that infers an application from the whole spine goes through n arguments once; one that takes the function's
type apart and substitutes anew at every argument does n^2 work.
"""

from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families.family import Family, Order


def write(out: Writer, order: Order) -> None:
    prop, g, x, b0, b1 = out.sort(0), out.name("g"), out.name("x"), out.bvar(0), out.bvar(1)
    curried = endo = out.pi(x, prop, prop)
    for _ in range(order.n - 1):
        curried = out.pi(x, prop, curried, once=True)
    term = b1
    for i in range(order.n):
        term = out.app(term, b1 if order.fault and i == order.n - 1 else b0, once=True)
    type_ = out.pi(g, curried, endo)
    out.definition(out.name("wide"), type_, out.lam(g, curried, out.lam(x, prop, term)), height=1)


FAMILY = Family(
    name="app-wide",
    stresses="long application spines and long function types",
    growth="bytes linear in n; time linear, or n^2 where types are substituted into at every argument",
    fault="the last argument is a function",
    write=write,
    n_min=1,
    small=500,
    ladder=(3_000, 9_000, 27_000, 60_000),
    n_max=65_000,
)
