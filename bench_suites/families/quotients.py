"""Lifts out of quotients, one within another.

    t.0 = x      t.(i+1) = Quot.lift (fun y => y) respects (Quot.mk r t.i)
    lifted : (r : Prop -> Prop -> Prop) -> (respects : (a b : Prop) -> r a b -> a = b) -> (x : Prop) -> x -> t.n

To see that a proof of `x` proves `t.n`, a kernel computes n lifts.
"""

from collections.abc import Callable

from proofcost.bench_suites.export_binders import Scope, Variable
from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families import prelude_quotient
from proofcost.bench_suites.families.family import Family, Order


def write(out: Writer, order: Order) -> None:
    scope = Scope(out)
    prelude_quotient.equality(scope)
    prelude_quotient.quotient(scope)
    prop, level_1 = out.sort(0), out.succ(0)
    eq = out.app(out.const(out.name("Eq"), (level_1,)), prop)
    mk = out.app(out.const(out.name("Quot.mk"), (level_1,)), prop)
    lift = out.app(out.const(out.name("Quot.lift"), (level_1, level_1)), prop)
    identity = scope.lam("y", prop, lambda y: y())
    relation = scope.arrow(prop, lambda: scope.arrow(prop, lambda: prop))

    def respects_type(r: Variable) -> int:
        def on(a: Variable, b: Variable) -> int:
            return scope.arrow(out.app(r(), a(), b()), lambda: out.app(eq, a(), b()))

        return scope.pi("a", prop, lambda a: scope.pi("b", prop, lambda b: on(a, b)))

    def tower(r: Variable, respects: Variable, x: Variable) -> int:
        lifted = out.app(lift, r(), prop, identity, respects())
        made = out.app(mk, r())
        term = scope.arrow(x(), lambda: x()) if order.fault else x()
        for _ in range(order.n):
            term = out.app(lifted, out.app(made, term, once=True), once=True)
        return term

    def claim(r: Variable, respects: Variable, x: Variable) -> int:
        return scope.pi("h", x(), lambda _: tower(r, respects, x))

    def over(kind: str, body: Callable[[Variable, Variable, Variable], int]) -> int:
        bind = scope.pi if kind == "pi" else scope.lam

        def on_r(r: Variable) -> int:
            return bind("respects", respects_type(r), lambda s: bind("x", prop, lambda x: body(r, s, x)))

        return bind("r", relation, on_r)

    proof = over("lam", lambda r, respects, x: scope.lam("h", x(), lambda h: h()))
    out.theorem(out.name("lifted"), over("pi", claim), proof)


FAMILY = Family(
    name="quotients",
    stresses="reduction of Quot.lift on Quot.mk, and inference of their large applications",
    growth="bytes and time linear in n; n frames of stack",
    fault="what the tower reduces to is another proposition",
    write=write,
    n_min=1,
    small=100,
    ladder=(300, 900, 2_700, 8_100),
)
