"""A term whose parts are used twice: n parts when shared, 2^n when written out.

    dag : (Prop -> Prop -> Prop) -> Prop -> Prop := fun p x => t.n      where t.0 = x, t.(i+1) = p t.i t.i

A kernel that keeps what it inferred (and instantiated) by the part's identity does n steps. One that forgets does 2^n.
"""

from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families.family import Family, Order


def write(out: Writer, order: Order) -> None:
    prop, p, x, b0, b1 = out.sort(0), out.name("p"), out.name("x"), out.bvar(0), out.bvar(1)
    endo = out.pi(x, prop, prop)
    binary = out.pi(x, prop, endo)
    term = out.app(b1, b0, b1 if order.fault else b0, once=True)
    for _ in range(order.n - 1):
        term = out.app(b1, term, term, once=True)
    out.definition(out.name("dag"), out.pi(p, binary, endo), out.lam(p, binary, out.lam(x, prop, term)), height=1)


FAMILY = Family(
    name="term-dag",
    stresses="keeping inferred types and substitutions of shared parts",
    growth="bytes linear in n; time linear where parts are remembered, 2^n where they are not; n frames of stack",
    fault="the innermost part's second argument is a function",
    write=write,
    n_min=1,
    small=20,
    ladder=(1_000, 3_000, 9_000, 27_000),
)
