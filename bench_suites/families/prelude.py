"""What the families declare before they begin: Lean's own basic types, by their own names, in their own shape.

Kernels know Nat, String, Quot and Eq by name and look whether they are the real ones, so each is written as Lean has
it. Every function writes its declarations and returns the numbers that a family goes on with.
"""

from proofcost.bench_suites.export_binders import Scope
from proofcost.bench_suites.export_inductive import Block, Constructor, Field, Inductive
from proofcost.bench_suites.export_writer import Writer


def nat(scope: Scope) -> None:
    """inductive Nat : Type | zero | succ (n : Nat)"""
    zero, succ = Constructor("zero"), Constructor("succ", (Field("n", recursive=0),))
    Block(scope, [Inductive("Nat", (zero, succ))], level=scope.out.succ(0)).write()


def boolean(scope: Scope) -> None:
    """inductive Bool : Type | false | true"""
    Block(scope, [Inductive("Bool", (Constructor("false"), Constructor("true")))], level=scope.out.succ(0)).write()


def constant(out: Writer, name: str, *levels: int) -> int:
    return out.const(out.name(name), levels)
