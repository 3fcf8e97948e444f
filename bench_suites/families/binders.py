"""A function of n arguments that returns its first.

    first : Prop -> ... -> Prop := fun x1 ... xn => x1

Every binder is opened (a free variable put in for the bound one) and closed again. Done one binder at a time over the
whole rest, that is n^2 work; the body is small and the types are closed, so that nothing else is.
"""

from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families.family import Family, Order


def write(out: Writer, order: Order) -> None:
    prop, x = out.sort(0), out.name("x")
    type_, term = prop, prop if order.fault else out.bvar(order.n - 1)
    for _ in range(order.n):
        type_ = out.pi(x, prop, type_, once=True)
    for _ in range(order.n):
        term = out.lam(x, prop, term, once=True)
    out.definition(out.name("first"), type_, term, height=1)


FAMILY = Family(
    name="binders",
    stresses="opening and closing many binders around a small body",
    growth="bytes linear in n; time linear, or n^2 where each binder is opened by itself",
    fault="the body is Prop, which is no proposition",
    write=write,
    n_min=1,
    small=500,
    ladder=(3_000, 9_000, 27_000, 60_000),
    n_max=65_000,
)
