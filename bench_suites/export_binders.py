"""Names for bound variables over the writer's de Bruijn indices.

The format numbers a variable by the binders between its use and its binder, so the same variable is another expression
at another depth. A `Scope` keeps the depth: `scope.pi("x", type_, lambda x: ...)` builds the body one binder deeper,
and `x()` in it is the variable as it has to be written right there. An expression that holds a variable is therefore
good only at the depth it was built at: build it anew (nothing is written twice for it), never keep it.
"""

from collections.abc import Callable, Sequence

from proofcost.bench_suites.export_writer import Writer

Variable = Callable[[], int]
Binder = tuple[str, Callable[[], int]]
"""Name, and the type as built at the depth where the binder stands."""
Head = tuple[int, int]
"""The same, written: numbers of name and type."""


class Scope:
    def __init__(self, out: Writer) -> None:
        self.out = out
        self.depth = 0

    def variable(self, level: int) -> Variable:
        """The variable of the binder that `level` others stand around."""
        return lambda: self.out.bvar(self.depth - level - 1)

    def _bound(self, body: Callable[[Variable], int]) -> int:
        variable = self.variable(self.depth)
        self.depth += 1
        built = body(variable)
        self.depth -= 1
        return built

    def pi(self, name: str, type_: int, body: Callable[[Variable], int], *, info: str = "default") -> int:
        return self.out.pi(self.out.name(name), type_, self._bound(body), info=info)

    def lam(self, name: str, type_: int, body: Callable[[Variable], int], *, info: str = "default") -> int:
        return self.out.lam(self.out.name(name), type_, self._bound(body), info=info)

    def arrow(self, from_: int, to: Callable[[], int]) -> int:
        """`from_ -> to`; `to` is built below the binder, as every body is."""
        return self.pi("a", from_, lambda _: to())

    def enter(self, binders: Sequence[Binder]) -> list[Head]:
        """Go below `binders`; what comes back is for `leave`."""
        heads = []
        for name, type_ in binders:
            heads.append((self.out.name(name), type_()))
            self.depth += 1
        return heads

    def leave(self, kind: str, heads: Sequence[Head], body: int, *, once: bool = False) -> int:
        """Put `heads` around `body` and come up again. No recursion: any number will do. `kind`: pi or lam.

        `once`: as for the writer, said of the binders themselves and not of their types.
        """
        wrap = self.out.pi if kind == "pi" else self.out.lam
        for name, type_ in reversed(heads):
            body = wrap(name, type_, body, once=once)
        self.depth -= len(heads)
        return body

    def telescope(self, kind: str, binders: Sequence[Binder], body: Callable[[], int], *, once: bool = False) -> int:
        heads = self.enter(binders)
        return self.leave(kind, heads, body(), once=once)
