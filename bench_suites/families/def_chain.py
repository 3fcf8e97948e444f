"""A chain of definitions, unfolded to its bottom at the end.

    alias.0 : Prop := (p : Prop) -> p -> p
    alias.i : Prop := alias.(i-1)
    end     : alias.(n-1) := fun p h => h

n counts the aliases. Each is checked by itself at once; `end` needs all of them unfolded, one after the other.
"""

from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families.family import Family, Order


def write(out: Writer, order: Order) -> None:
    prop, p, h, b0, b1 = out.sort(0), out.name("p"), out.name("h"), out.bvar(0), out.bvar(1)
    truth = out.pi(p, prop, out.pi(h, b0, b1))
    falsity = out.pi(p, prop, b0)
    prefix = out.name("alias")
    alias = falsity if order.fault else truth
    for i in range(order.n):
        name = out.numbered(prefix, i)
        out.definition(name, prop, alias, height=i + 1)
        alias = out.const(name, once=True)
    out.theorem(out.name("end"), alias, out.lam(p, prop, out.lam(h, b0, b0)))


FAMILY = Family(
    name="def-chain",
    stresses="unfolding definitions one by one, with ever larger unfolding heights",
    growth="bytes and time linear in n",
    fault="the chain's bottom is false, so that the proof at its other end proves nothing",
    write=write,
    n_min=1,
    small=500,
    ladder=(10_000, 30_000, 100_000, 300_000),
)
