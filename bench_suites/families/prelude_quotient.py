"""Lean's equality and quotients, declared by name and in the shape that kernels look for."""

from collections.abc import Callable

from proofcost.bench_suites.export_binders import Scope, Variable


def equality(scope: Scope) -> None:
    """inductive Eq : A -> A -> Prop | refl (a : A) : Eq a a, for A : Sort u_1"""
    out = scope.out
    u, into = out.name("u_1"), out.name("u")
    level, prop = out.param(u), out.sort(0)
    sort, motive_sort = out.sort(level), out.sort(out.param(into))
    name, refl, rec = out.name("Eq"), out.name("Eq.refl"), out.name("Eq.rec")
    eq, eq_refl = out.const(name, (level,)), out.const(refl, (level,))

    def of(kind: str, body: Callable[[Variable, Variable, Variable, Variable], int]) -> int:
        """{A} {a} {motive : (b : A) -> Eq a b -> Sort u} (refl : motive a (Eq.refl a)) around `body`."""
        bind = scope.pi if kind == "pi" else scope.lam

        def motive_type(alpha: Variable, a: Variable) -> int:
            def on(b: Variable) -> int:
                return scope.pi("t", out.app(eq, alpha(), a(), b()), lambda _: motive_sort)

            return scope.pi("b", alpha(), on)

        def with_motive(alpha: Variable, a: Variable, motive: Variable) -> int:
            minor = out.app(motive(), a(), out.app(eq_refl, alpha(), a()))
            return bind("refl", minor, lambda given: body(alpha, a, motive, given))

        def with_a(alpha: Variable, a: Variable) -> int:
            return bind("motive", motive_type(alpha, a), lambda motive: with_motive(alpha, a, motive), info="implicit")

        def with_alpha(alpha: Variable) -> int:
            return bind("a", alpha(), lambda a: with_a(alpha, a), info="implicit")

        return bind("A", sort, with_alpha, info="implicit")

    def goal(alpha: Variable, a: Variable, motive: Variable, _: Variable) -> int:
        def on(b: Variable) -> int:
            return scope.pi("t", out.app(eq, alpha(), a(), b()), lambda t: out.app(motive(), b(), t()))

        return scope.pi("b", alpha(), on, info="implicit")

    type_ = scope.pi(
        "A", sort, lambda alpha: scope.arrow(alpha(), lambda: scope.arrow(alpha(), lambda: prop)), info="implicit"
    )
    refl_type = scope.pi(
        "A",
        sort,
        lambda alpha: scope.pi("a", alpha(), lambda a: out.app(eq, alpha(), a(), a())),
        info="implicit",
    )
    common: dict[str, object] = {"isUnsafe": False, "numParams": 2}
    one: dict[str, object] = {"name": name, "type": type_, "all": [name], "ctors": [refl], "levelParams": [u]}
    constructor = {"name": refl, "type": refl_type, "induct": name, "cidx": 0, "numFields": 0, "levelParams": [u]}
    rule = {"ctor": refl, "nfields": 0, "rhs": of("lam", lambda alpha, a, motive, given: given())}
    counts = {"numIndices": 1, "numMotives": 1, "numMinors": 1}
    recursor = {
        "name": rec,
        "type": of("pi", goal),
        "all": [name],
        "rules": [rule],
        "k": True,
        "levelParams": [into, u],
    }
    block = {
        "types": [{**common, **one, "isRec": False, "isReflexive": False, "numIndices": 1, "numNested": 0}],
        "ctors": [{**common, **constructor}],
        "recs": [{**common, **counts, **recursor}],
    }
    out.inductive(block)


def quotient(scope: Scope) -> None:
    """The four declarations of Quot; Eq has to be there."""
    out = scope.out
    u, v = out.name("u"), out.name("v")
    level_u, level_v, prop = out.param(u), out.param(v), out.sort(0)
    sort_u, sort_v = out.sort(level_u), out.sort(level_v)
    quot_name, mk_name = out.name("Quot"), out.name("Quot.mk")
    quot, mk = out.const(quot_name, (level_u,)), out.const(mk_name, (level_u,))
    eq = out.const(out.name("Eq"), (level_v,))

    def over(body: Callable[[Variable, Variable], int], info: str) -> int:
        """{A : Sort u} (r : A -> A -> Prop) -> body"""

        def relation(alpha: Variable) -> int:
            return scope.arrow(alpha(), lambda: scope.arrow(alpha(), lambda: prop))

        def on(alpha: Variable) -> int:
            return scope.pi("r", relation(alpha), lambda r: body(alpha, r), info=info)

        return scope.pi("A", sort_u, on, info="implicit")

    def respects(alpha: Variable, r: Variable, beta: Variable, f: Variable) -> int:
        """(a b : A) -> r a b -> f a = f b"""

        def equal(a: Variable, b: Variable) -> int:
            return out.app(eq, beta(), out.app(f(), a()), out.app(f(), b()))

        def on(a: Variable, b: Variable) -> int:
            return scope.arrow(out.app(r(), a(), b()), lambda: equal(a, b))

        return scope.pi("a", alpha(), lambda a: scope.pi("b", alpha(), lambda b: on(a, b)))

    def lift(alpha: Variable, r: Variable) -> int:
        def last(beta: Variable) -> int:
            return scope.arrow(out.app(quot, alpha(), r()), lambda: beta())

        def on_f(beta: Variable, f: Variable) -> int:
            return scope.arrow(respects(alpha, r, beta, f), lambda: last(beta))

        def on_beta(beta: Variable) -> int:
            return scope.pi("f", scope.arrow(alpha(), lambda: beta()), lambda f: on_f(beta, f))

        return scope.pi("B", sort_v, on_beta, info="implicit")

    def ind(alpha: Variable, r: Variable) -> int:
        def of_mk(beta: Variable) -> int:
            return scope.pi("a", alpha(), lambda a: out.app(beta(), out.app(mk, alpha(), r(), a())))

        def of_all(beta: Variable) -> int:
            return scope.pi("q", out.app(quot, alpha(), r()), lambda q: out.app(beta(), q()))

        def on_beta(beta: Variable) -> int:
            return scope.arrow(of_mk(beta), lambda: of_all(beta))

        predicate = scope.arrow(out.app(quot, alpha(), r()), lambda: prop)
        return scope.pi("B", predicate, on_beta, info="implicit")

    def made(alpha: Variable, r: Variable) -> int:
        return scope.arrow(alpha(), lambda: out.app(quot, alpha(), r()))

    out.quotient("type", quot_name, over(lambda alpha, r: sort_u, "default"), (u,))
    out.quotient("ctor", mk_name, over(made, "default"), (u,))
    out.quotient("lift", out.name("Quot.lift"), over(lift, "implicit"), (u, v))
    out.quotient("ind", out.name("Quot.ind"), over(ind, "implicit"), (u,))
