"""Two terms whose parts are used twice below a binder, definitionally equal, compared.

    left.0 = fun y => y       right.0 = fun y => (fun z => z) y
    left.(i+1) = fun y => imp (left.i y) (left.i y)            and right alike
    same : (q : (Prop -> Prop) -> Prop) -> q left.n -> q right.n := fun q h => h

The two share nothing, so that every part has to be compared, after instantiation under the binder. With what was found
equal remembered that is n comparisons, else 2^n.
"""

from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families import prelude
from proofcost.bench_suites.families.family import Family, Order


def write(out: Writer, order: Order) -> None:
    prop, y, b0 = out.sort(0), out.name("y"), out.bvar(0)
    imp = prelude.implication(out)
    identity = out.lam(y, prop, b0)
    other = out.lam(y, prop, out.app(imp, b0, b0))

    def tower(term: int) -> int:
        for _ in range(order.n):
            part = out.app(term, b0, once=True)
            term = out.lam(y, prop, out.app(imp, part, part, once=True), once=True)
        return term

    left = tower(identity)
    right = tower(out.lam(y, prop, out.app(other if order.fault else out.lam(out.name("z"), prop, b0), b0)))
    prelude.same(out, out.name("same"), out.pi(y, prop, prop), left, right)


FAMILY = Family(
    name="dag-compare",
    stresses="definitional equality of shared terms under a binder",
    growth="bytes linear in n; time linear where equalities are remembered, 2^n where they are not; the twin costs n^2",
    fault="the right side's innermost function is another",
    write=write,
    n_min=1,
    small=12,
    ladder=(300, 900, 2_700, 8_100),
)
