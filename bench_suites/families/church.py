"""Church numerals: sums and products that have to come out as the numeral named.

    Num : Type 1 := (a : Type) -> (a -> a) -> a -> a
    value.i : Num := mul j k            or   add j value.(i-1)         (blocks of 8, so that depth stays bounded)
    agrees.i : (p : Num -> Prop) -> p value.i -> p (numeral m) := fun p h => h

To accept `agrees.i` a kernel has to find that `value.i` and the numeral `m` are definitionally equal. There is no
axiom, no inductive type and no literal, so any kernel that reads the format can take it: this is the demo's export.

n counts declarations. Not stressed: recursors, large terms, proofs by congruence. So it is a load and a control, not a
model of Mathlib.
"""

from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families.family import Family, Order

PRELUDE_COUNT = 6
"""Declarations before the first pair: identity, Num, zero, succ, add, mul."""
WORK = 7
"""Largest numeral multiplied, so chains are up to WORK * (WORK + 7) deep."""
BLOCK = 8
"""A value refers to the one before it, but for every eighth: unfolding depth is bounded by this."""


def write(out: Writer, order: Order) -> None:
    parameter_u = out.name("u")
    level_u = out.param(parameter_u)
    level_1 = out.succ(0)
    level_2 = out.succ(level_1)
    prop, type_0, type_1 = out.sort(0), out.sort(level_1), out.sort(level_2)
    a, f, x, m, k, p, h = (out.name(text) for text in ("a", "f", "x", "m", "k", "p", "h"))
    b0, b1, b2, b3, b4 = (out.bvar(index) for index in range(5))

    # identity.{u} : (a : Sort u) -> a -> a
    identity = out.name("Church.identity")
    sort_u = out.sort(level_u)
    out.definition(
        identity,
        out.pi(a, sort_u, out.pi(x, b0, b1)),
        out.lam(a, sort_u, out.lam(x, b0, b0)),
        height=1,
        parameters=(parameter_u,),
    )

    # Num : Type 1 := (a : Type) -> (a -> a) -> a -> a
    num_name = out.name("Church.Num")
    endo_under_a = out.pi(x, b0, b1)
    out.definition(num_name, type_1, out.pi(a, type_0, out.pi(f, endo_under_a, out.pi(x, b1, b2))), height=1)
    num = out.const(num_name)

    def abstract(body: int) -> int:
        """fun (a : Type) (f : a -> a) (x : a) => body"""
        return out.lam(a, type_0, out.lam(f, endo_under_a, out.lam(x, b1, body)))

    num_to_num = out.pi(m, num, num)
    num_to_num_to_num = out.pi(k, num, num_to_num)

    zero_name = out.name("Church.zero")
    out.definition(zero_name, num, abstract(b0), height=2)

    # succ m := fun a f x => f (m a f x)
    succ_name = out.name("Church.succ")
    step = out.app(b1, out.app(b3, b2, b1, b0))
    out.definition(succ_name, num_to_num, out.lam(m, num, abstract(step)), height=2)

    # add k m := fun a f x => k a f (m a f x)
    add_name = out.name("Church.add")
    both = out.app(b4, b2, b1, out.app(b3, b2, b1, b0))
    out.definition(add_name, num_to_num_to_num, out.lam(k, num, out.lam(m, num, abstract(both))), height=2)

    # mul k m := fun a f x => k a (m a f) x
    mul_name = out.name("Church.mul")
    times = out.app(b4, b2, out.app(b3, b2, b1), b0)
    out.definition(mul_name, num_to_num_to_num, out.lam(k, num, out.lam(m, num, abstract(times))), height=2)

    identity_at_num = out.app(out.const(identity, (level_2,)), num)
    succ, add, mul, zero = out.const(succ_name), out.const(add_name), out.const(mul_name), out.const(zero_name)
    predicate = out.pi(x, num, prop)
    value_prefix, agrees_prefix = out.name("Church.value"), out.name("Church.agrees")

    def counted(value: int) -> int:
        """The numeral as a tower of succ over zero, by name: an argument that has to be unfolded."""
        tower = zero
        for _ in range(value):
            tower = out.app(succ, tower)
        return tower

    def literal(value: int) -> int:
        """The numeral in normal form: fun a f x => f (f ... x)."""
        tower = b0
        for _ in range(value):
            tower = out.app(b1, tower)
        return abstract(tower)

    pairs, left_over = divmod(order.n - PRELUDE_COUNT, 2)
    if left_over:
        # One declaration more than pairs fill: a plain alias, so that the count asked for is the count written.
        out.definition(out.name("Church.one"), num, counted(1), height=3)
    previous, previous_value, height = zero, 0, 2
    for i in range(pairs):
        block, place = divmod(i, BLOCK)
        if place == 0:
            # Every pair of numerals comes up before any comes up twice; the seed says where to begin.
            left, right = 1 + (block + order.seed) % WORK, 1 + (block + order.seed) // WORK % WORK
            body, value, height = out.app(mul, counted(left), counted(right)), left * right, 3
        else:
            left = 1 + i % WORK
            body = out.app(out.app(add, counted(left)), previous, once=True)
            value, height = left + previous_value, height + 1
        name = out.numbered(value_prefix, i)
        out.definition(name, num, out.app(identity_at_num, body, once=place != 0), height=height)
        constant = out.const(name, once=True)
        claimed = value + 1 if order.fault and i == pairs - 1 else value
        # (p : Num -> Prop) -> (h : p value) -> p numeral
        premise = out.app(b0, constant, once=True)
        claim = out.app(b1, literal(claimed))
        statement = out.pi(p, predicate, out.pi(h, premise, claim, once=True), once=True)
        proof = out.lam(p, predicate, out.lam(h, premise, b0, once=True), once=True)
        out.theorem(out.numbered(agrees_prefix, i), statement, proof)
        previous, previous_value = constant, value


FAMILY = Family(
    name="church",
    stresses="definition unfolding, beta under binders, comparison of application chains, universe instantiation",
    growth="bytes and time linear in n; depth bounded",
    fault="the last theorem names a numeral that is one too large",
    write=write,
    n_min=PRELUDE_COUNT + 2,
    small=500,
    ladder=(2_000, 5_000, 10_000, 20_000, 50_000),
    seeded=True,
)
