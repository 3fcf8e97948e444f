"""A function of n arguments against itself written out.

    eta : (f : Prop -> ... -> Prop) -> (q : ... -> Prop) -> q f -> q (fun x1 ... xn => f x1 ... xn)

Function eta, n binders deep: a kernel that expands one binder at a time builds n ever longer applications.
"""

from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families.family import Family, Order


def write(out: Writer, order: Order) -> None:
    prop, f, q, h, x = out.sort(0), out.name("f"), out.name("q"), out.name("h"), out.name("x")
    curried = prop
    for _ in range(order.n):
        curried = out.pi(x, prop, curried, once=True)
    predicate = out.pi(x, curried, prop, once=True)
    # Below f, q, h and n more binders, f is n + 2 up and the arguments are n - 1, ..., 0.
    arguments = list(range(order.n - 1, -1, -1))
    if order.fault:
        arguments[-1], arguments[-2] = arguments[-2], arguments[-1]
    written_out = out.bvar(order.n + 2)
    for argument in arguments:
        written_out = out.app(written_out, out.bvar(argument), once=True)
    for _ in range(order.n):
        written_out = out.lam(x, prop, written_out, once=True)
    b0, b1 = out.bvar(0), out.bvar(1)
    premise = out.app(b0, b1)
    claim = out.app(b1, written_out, once=True)
    statement = out.pi(f, curried, out.pi(q, predicate, out.pi(h, premise, claim, once=True), once=True), once=True)
    proof = out.lam(f, curried, out.lam(q, predicate, out.lam(h, premise, b0)), once=True)
    out.theorem(out.name("eta"), statement, proof)


FAMILY = Family(
    name="function-eta",
    stresses="eta for functions of many arguments",
    growth="bytes linear in n; time linear to n^2, by how many binders are expanded at once",
    fault="the last two arguments are exchanged",
    write=write,
    n_min=2,
    small=50,
    ladder=(100, 200, 400, 800),
    n_max=65_000,
)
