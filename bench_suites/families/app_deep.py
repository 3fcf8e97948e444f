"""One application within another, n deep.

    deep : (Prop -> Prop) -> Prop -> Prop := fun f x => f (f (... (f x)))

Whatever goes through a term by recursion needs n frames of stack.
"""

from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families.family import Family, Order


def write(out: Writer, order: Order) -> None:
    prop, f, x, b0, b1 = out.sort(0), out.name("f"), out.name("x"), out.bvar(0), out.bvar(1)
    endo = out.pi(x, prop, prop)
    term = b1 if order.fault else b0
    for _ in range(order.n):
        term = out.app(b1, term, once=True)
    out.definition(out.name("deep"), out.pi(f, endo, endo), out.lam(f, endo, out.lam(x, prop, term)), height=1)


FAMILY = Family(
    name="app-deep",
    stresses="depth of recursion over terms: parsing aside, every pass needs n frames of stack",
    growth="bytes and time linear in n, and the stack too: kernels that recurse overflow it somewhere",
    fault="the innermost argument is a function",
    write=write,
    n_min=1,
    small=500,
    ladder=(1_000, 3_000, 9_000, 27_000),
)
