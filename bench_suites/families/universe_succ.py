"""One universe, n stories up, in two spellings.

    same.{u,v} : Sort (succ (max (succ^n u) (succ^n v))) := Sort (succ^n (max u v))

To see that the type is right, a kernel has to bring two towers of successors over each other's maximum into one form.
"""

from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families.family import Family, Order


def write(out: Writer, order: Order) -> None:
    u, v = out.name("u"), out.name("v")
    level_u, level_v = out.param(u), out.param(v)

    def tower(level: int, stories: int) -> int:
        for _ in range(stories):
            level = out.succ(level, once=True)
        return level

    apart = out.max(tower(level_u, order.n), tower(level_v, order.n + order.fault))
    together = tower(out.max(level_u, level_v), order.n)
    out.definition(out.name("same"), out.sort(out.succ(apart)), out.sort(together), height=1, parameters=(u, v))


FAMILY = Family(
    name="universe-succ",
    stresses="universe levels: towers of successors, and maxima of them",
    growth="bytes linear in n; time linear to n^2, by how levels are normalised; n frames of stack",
    fault="one side's tower over v is a story higher",
    write=write,
    n_min=1,
    small=200,
    ladder=(3_000, 9_000, 27_000, 81_000),
)
