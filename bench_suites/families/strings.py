"""A string literal of n characters against the list of its characters.

    spelled : (q : String -> Prop) -> q "..." -> q (String.ofList [Char.ofNat 104, ...]) := fun q h => h

The extension for strings makes the list out of the literal, and n list cells with as many Nat literals are compared.
The seed draws the characters: ASCII with quotes and backslashes, and anything else of one to four bytes.

String and Char are declared by their constructors alone: what their fields are in Lean changes between versions, and no
kernel looks.
"""

import random

from proofcost.bench_suites.export_binders import Scope
from proofcost.bench_suites.export_inductive import Block, Constructor, Field, Inductive
from proofcost.bench_suites.export_writer import Writer
from proofcost.bench_suites.families import prelude
from proofcost.bench_suites.families.family import NAT, TEXT, Family, Order

ALPHABETS = (range(0x20, 0x7F), range(0x20, 0x7F), range(0xA1, 0x180), range(0x4E00, 0x4F00), range(0x1F300, 0x1F400))
"""Few enough that each character's literal is remembered."""


def write(out: Writer, order: Order) -> None:
    scope = Scope(out)
    nat = prelude.nat(scope)
    prelude.list_type(scope)
    level_1 = out.succ(0)
    of_nat = Constructor("ofNat", (Field("n", lambda _: nat),))
    Block(scope, [Inductive("Char", (of_nat,))], level=level_1).write()
    char = out.const(out.name("Char"))
    chars = out.app(out.const(out.name("List"), (0,)), char)
    of_list = Constructor("ofList", (Field("data", lambda _: chars),))
    Block(scope, [Inductive("String", (of_list,))], level=level_1).write()

    draw = random.Random(order.seed)
    codes = [draw.choice(draw.choice(ALPHABETS)) for _ in range(order.n)]
    literal = out.text("".join(map(chr, codes)))
    if order.fault:
        codes[-1] += 1
    make = out.const(out.name("Char.ofNat"))
    cons = out.app(out.const(out.name("List.cons"), (0,)), char)
    spelled = out.app(out.const(out.name("List.nil"), (0,)), char)
    for code in reversed(codes):
        spelled = out.app(out.app(cons, out.app(make, out.nat(code))), spelled, once=True)
    spelled = out.app(out.const(out.name("String.ofList")), spelled)
    prelude.same(out, out.name("spelled"), out.const(out.name("String")), literal, spelled)


FAMILY = Family(
    name="strings",
    stresses="string literals turned into lists of characters",
    growth="bytes and time linear in n; n frames of stack",
    fault="the last character is another",
    write=write,
    n_min=1,
    small=100,
    ladder=(300, 900, 2_700, 8_100),
    needs=(NAT, TEXT),
    seeded=True,
)
