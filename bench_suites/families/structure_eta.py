"""A structure of n fields, and a value of it taken apart and put together again.

    structure S : Type 1 := (f1 ... fn : Prop)
    eta : (q : S -> Prop) -> (s : S) -> q s -> q (S.mk s.1 ... s.n) := fun q s h => h

Eta for structures says the two are equal: n projections are compared, and each one's type is found by going through the
fields before it.
"""

from proofcost.bench_suites.export_binders import Scope, Variable
from proofcost.bench_suites.export_inductive import Block, Constructor, Field, Inductive
from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families.family import Family, Order


def write(out: Writer, order: Order) -> None:
    scope = Scope(out)
    prop = out.sort(0)
    fields = tuple(Field(f"f{i}", lambda _: prop) for i in range(order.n))
    # Prop is in Type, so values of it fit into a structure in Type.
    Block(scope, [Inductive("S", (Constructor("mk", fields),))], level=out.succ(0), once=True).write()
    name = out.name("S")
    s_type, make = out.const(name), out.const(out.name("S.mk"))
    places = list(range(order.n))
    if order.fault:
        places[-1], places[-2] = places[-2], places[-1]

    def rebuilt(s: Variable) -> int:
        value = s()
        return out.app(make, *(out.proj(name, at, value, once=True) for at in places), once=True)

    predicate = scope.arrow(s_type, lambda: prop)

    def claim(q: Variable, s: Variable) -> int:
        return scope.pi("h", out.app(q(), s()), lambda _: out.app(q(), rebuilt(s), once=True))

    def proof(q: Variable, s: Variable) -> int:
        return scope.lam("h", out.app(q(), s()), lambda h: h())

    statement = scope.pi("q", predicate, lambda q: scope.pi("s", s_type, lambda s: claim(q, s)))
    value = scope.lam("q", predicate, lambda q: scope.lam("s", s_type, lambda s: proof(q, s)))
    out.theorem(out.name("eta"), statement, value)


FAMILY = Family(
    name="structure-eta",
    stresses="structures of many fields: projections, and eta that compares them all",
    growth="bytes linear in n; time linear to n^2, as a projection's type is found by passing the fields before it",
    fault="the last two projections are exchanged",
    write=write,
    n_min=2,
    small=50,
    ladder=(100, 200, 400, 800),
)
