"""What families declare before they begin: Lean's own basic types, by their own names, and the one form of claim.

Kernels know Nat, its arithmetic and String by name. Nat and List are written just as Lean has them, the arithmetic is
Lean's up to the way its recursion is compiled.
"""

from collections.abc import Callable

from proofcost.bench_suites.export_binders import Scope, Variable
from proofcost.bench_suites.export_inductive import Block, Constructor, Field, Inductive, Parameter
from proofcost.bench_suites.export_writer import Writer


def same(out: Writer, name: int, type_: int, left: int, right: int) -> None:
    """theorem name : (q : type -> Prop) -> q left -> q right := fun q h => h

    A kernel accepts it when `left` and `right` (closed, of `type_`) are definitionally equal, and only then. Nothing of
    it but the predicate is remembered: a family may claim any number of things.
    """
    q, h, b0 = out.name("q"), out.name("h"), out.bvar(0)
    predicate = out.pi(out.name("x"), type_, out.sort(0))
    premise = out.app(b0, left, once=True)
    claim = out.app(out.bvar(1), right, once=True)
    statement = out.pi(q, predicate, out.pi(h, premise, claim, once=True), once=True)
    out.theorem(name, statement, out.lam(q, predicate, out.lam(h, premise, b0, once=True), once=True))


def implication(out: Writer) -> int:
    """def imp : Prop -> Prop -> Prop := fun a b => a -> b; the constant."""
    prop, a, b, h = out.sort(0), out.name("a"), out.name("b"), out.name("h")
    name = out.name("imp")
    value = out.lam(a, prop, out.lam(b, prop, out.pi(h, out.bvar(1), out.bvar(1))))
    out.definition(name, out.pi(a, prop, out.pi(b, prop, prop)), value, height=1)
    return out.const(name)


def nat(scope: Scope) -> int:
    """inductive Nat : Type | zero | succ (n : Nat); the type."""
    zero, succ = Constructor("zero"), Constructor("succ", (Field("n", recursive=0),))
    Block(scope, [Inductive("Nat", (zero, succ))], level=scope.out.succ(0)).write()
    return scope.out.const(scope.out.name("Nat"))


def nat_operation(
    scope: Scope,
    name: str,
    at_zero: Callable[[Variable], int],
    at_succ: Callable[[Variable, Variable], int],
    height: int,
) -> int:
    """def name : Nat -> Nat -> Nat, by recursion on its second argument; the constant.

    `at_zero` is given the first argument, `at_succ` the first argument and the value one below.
    """
    out = scope.out
    nat_type = out.const(out.name("Nat"))
    motive = scope.lam("x", nat_type, lambda _: nat_type)
    rec = out.const(out.name("Nat.rec"), (out.succ(0),))

    def body(n: Variable, m: Variable) -> int:
        step = scope.lam("k", nat_type, lambda _: scope.lam("ih", nat_type, lambda below: at_succ(n, below)))
        return out.app(rec, motive, at_zero(n), step, m())

    type_ = scope.arrow(nat_type, lambda: scope.arrow(nat_type, lambda: nat_type))
    value = scope.lam("n", nat_type, lambda n: scope.lam("m", nat_type, lambda m: body(n, m)))
    out.definition(out.name(name), type_, value, height=height)
    return out.const(out.name(name))


def addition(scope: Scope, name: str = "Nat.add") -> int:
    """Under another name than Lean's, no kernel computes it with big numbers."""
    succ = scope.out.const(scope.out.name("Nat.succ"))
    return nat_operation(scope, name, lambda n: n(), lambda _, below: scope.out.app(succ, below()), 1)


def multiplication(scope: Scope) -> int:
    out = scope.out
    zero, add = out.const(out.name("Nat.zero")), out.const(out.name("Nat.add"))
    return nat_operation(scope, "Nat.mul", lambda _: zero, lambda n, below: out.app(add, below(), n()), 2)


def power(scope: Scope) -> int:
    out = scope.out
    one = out.app(out.const(out.name("Nat.succ")), out.const(out.name("Nat.zero")))
    mul = out.const(out.name("Nat.mul"))
    return nat_operation(scope, "Nat.pow", lambda _: one, lambda n, below: out.app(mul, below(), n()), 3)


def list_type(scope: Scope) -> None:
    """inductive List (A : Type u) : Type u | nil | cons (head : A) (tail : List A)"""
    out = scope.out
    level = out.succ(out.param(out.name("u")))
    cons = Constructor("cons", (Field("head", lambda arguments: arguments[0]()), Field("tail", recursive=0)))
    parameters = [Parameter("A", lambda _: out.sort(level))]
    block = Inductive("List", (Constructor("nil"), cons))
    Block(scope, [block], level=level, universes=("u",), parameters=parameters).write()
