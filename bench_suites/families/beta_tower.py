"""Identity functions applied to one another, n high, that have to be reduced away.

    t.0 = x      t.(i+1) = (fun y => y) t.i
    tower : (x : Prop) -> x -> t.n := fun x h => h

To see that `h` proves `t.n`, a kernel beta-reduces n times at the head.
"""

from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families.family import Family, Order


def write(out: Writer, order: Order) -> None:
    prop, x, y, h = out.sort(0), out.name("x"), out.name("y"), out.name("h")
    b0, b1 = out.bvar(0), out.bvar(1)
    identity = out.lam(y, prop, b0)
    term = out.pi(h, b1, out.bvar(2)) if order.fault else b1
    for _ in range(order.n):
        term = out.app(identity, term, once=True)
    statement = out.pi(x, prop, out.pi(h, b0, term, once=True), once=True)
    out.theorem(out.name("tower"), statement, out.lam(x, prop, out.lam(h, b0, b0)))


FAMILY = Family(
    name="beta-tower",
    stresses="beta reduction at the head, n times in a row, and type inference n applications deep",
    growth="bytes and time linear in n; n frames of stack for inference",
    fault="what the tower reduces to is another proposition",
    write=write,
    n_min=1,
    small=500,
    ladder=(300, 900, 2_700, 8_100),
)
