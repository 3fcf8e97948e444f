"""Two proofs of one proposition that nobody should look at.

    Choice  : Prop := (p : Prop) -> p -> p -> p     left.0 : Choice := fun p h k => h
    Also    : Prop := (p : Prop) -> p -> p -> p     right.0 : Also := fun p h k => k
    left.i  : Choice := fun p h k => left.(i-1) p (left.(i-1) p h k) k
    right.i : Also := fun p h k => right.(i-1) p h (right.(i-1) p h k)
    same    : (q : Choice -> Prop) -> q left.n -> q right.n := fun q h => h

Proofs of one proposition are equal whatever they are: done at once. A kernel that unfolds first and asks later has 2^n
steps before it. In the twin `h` is a function in Also: another proposition, whose proofs are no proofs of Choice.
"""

from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families import prelude
from proofcost.bench_suites.families.family import Family, Order


def write(out: Writer, order: Order) -> None:
    prop, p, h, k = out.sort(0), out.name("p"), out.name("h"), out.name("k")
    b0, b1, b2 = (out.bvar(index) for index in range(3))
    other = out.pi(h, b0, b1) if order.fault else b0

    def proposition(name: int, of_h: int) -> int:
        out.definition(name, prop, out.pi(p, prop, out.pi(h, of_h, out.pi(k, b1, b2))), height=1)
        return out.const(name)

    def proof(of_h: int, body: int) -> int:
        return out.lam(p, prop, out.lam(h, of_h, out.lam(k, b1, body, once=True), once=True), once=True)

    def chain(name: str, type_: int, of_h: int, first: int) -> int:
        prefix, body = out.name(name), first
        for i in range(order.n):
            number = out.numbered(prefix, i)
            out.definition(number, type_, proof(of_h, body), height=i + 2)
            at_p = out.app(out.const(number, once=True), b2, once=True)
            at_h = out.app(at_p, b1, once=True)
            below = out.app(at_h, b0, once=True)
            body = out.app(at_p, below, b0, once=True) if first == b1 else out.app(at_h, below, once=True)
        number = out.numbered(prefix, order.n)
        out.definition(number, type_, proof(of_h, body), height=order.n + 2)
        return out.const(number, once=True)

    choice = proposition(out.name("Choice"), b0)
    also = proposition(out.name("Also"), other)
    left, right = chain("left", choice, b0, b1), chain("right", also, other, b0)
    prelude.same(out, out.name("same"), choice, left, right)


FAMILY = Family(
    name="proof-irrelevance",
    stresses="seeing that two proofs of one proposition are equal, before unfolding them",
    growth="bytes and time linear in n; 2^n where proofs are unfolded first",
    fault="the second chain proves another proposition",
    write=write,
    n_min=1,
    small=10,
    ladder=(1_000, 3_000, 10_000, 30_000),
)
