"""Two towers of definitions that use the one below twice, compared at the top.

    left.0 : Type := Prop            right.0 : Type := Prop
    left.i : Type := left.(i-1) -> left.(i-1)            and right alike
    same   : (q : Type -> Prop) -> q left.n -> q right.n := fun q h => h

n counts the stories. A kernel that remembers what it found equal compares n pairs; one that does not, 2^n.
"""

from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families import prelude
from proofcost.bench_suites.families.family import Family, Order


def write(out: Writer, order: Order) -> None:
    level_1, prop, x = out.succ(0), out.sort(0), out.name("x")
    type_0 = out.sort(level_1)

    def tower(prefix: int, ground: int) -> int:
        story = ground
        for i in range(order.n + 1):
            name = out.numbered(prefix, i)
            out.definition(name, type_0, story, height=i + 1)
            below = out.const(name, once=True)
            story = out.pi(x, below, below, once=True) if i < order.n else below
        return story

    left = tower(out.name("left"), prop)
    right = tower(out.name("right"), out.pi(x, prop, prop) if order.fault else prop)
    prelude.same(out, out.name("same"), type_0, left, right)


FAMILY = Family(
    name="def-doubling",
    stresses="remembering equalities while definitions are unfolded on both sides",
    growth="bytes linear in n; time linear where equalities are remembered, 2^n where they are not",
    fault="the right tower stands on another ground",
    write=write,
    n_min=1,
    small=16,
    ladder=(300, 1_000, 3_000, 9_000),
)
