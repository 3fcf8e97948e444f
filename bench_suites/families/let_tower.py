"""Nested lets, each using the one before twice.

    def tower (x : Prop) : Prop := let y1 := imp x x; let y2 := imp y1 y1; ... yn
    same : (q : (Prop -> Prop) -> Prop) -> q tower -> q (fun x => t.n) := fun q h => h      where t.(i+1) = imp t.i t.i

The definition alone needs n lets inferred: linear where a let's variable is kept as one, n^2 where its value is put
into the whole rest at every let, 2^n where that is done without sharing. The theorem compares what is left when all the
lets are gone.
"""

from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families import prelude
from proofcost.bench_suites.families.family import Family, Order


def write(out: Writer, order: Order) -> None:
    prop, x, y, b0 = out.sort(0), out.name("x"), out.name("y"), out.bvar(0)
    imp = prelude.implication(out)
    endo = out.pi(x, prop, prop)
    value = out.app(imp, b0, b0)
    wrong = out.app(imp, b0)
    body = b0
    for i in range(order.n):
        innermost = i == 0
        body = out.let(y, prop, wrong if order.fault and innermost else value, body, once=True)
    tower_name = out.name("tower")
    out.definition(tower_name, endo, out.lam(x, prop, body), height=2)
    term = b0
    for _ in range(order.n):
        term = out.app(imp, term, term, once=True) if term != b0 else value
    plain = out.lam(x, prop, term, once=True)
    prelude.same(out, out.name("same"), endo, out.const(tower_name), plain)


FAMILY = Family(
    name="let-tower",
    stresses="let variables: inferring below them, reducing them away, sharing what replaces them",
    growth="bytes linear in n; time linear, n^2 where values are substituted let by let, 2^n without sharing",
    fault="the innermost let's value is a function",
    write=write,
    n_min=1,
    small=20,
    ladder=(300, 900, 2_700, 8_100),
)
