"""Write a small, valid export in lean4export's NDJSON format 3.1.0, from nothing: a workload that we own.

No Lean is needed, nothing is copied: the declarations are Church numerals over `Type`, so that there is no axiom, no
inductive type and no literal, and any kernel that reads the format can take it.

    Num : Type 1 := (a : Type) -> (a -> a) -> a -> a
    value.i : Num := mul j k            or   add j value.(i-1)         (blocks of 8, so that depth stays bounded)
    agrees.i : (p : Num -> Prop) -> p value.i -> p (numeral m) := fun p h => h

To accept `agrees.i` a kernel has to find that `value.i` and the numeral `m` are definitionally equal.

What it stresses: definition unfolding, beta reduction under binders, comparison of application chains up to some
`work * (work + 7)` deep, universe instantiation (every value goes through a polymorphic identity), and the parser, at
about 6 short lines a declaration. What it does not: inductive types, recursors, literals, quotients, large terms,
proofs by congruence. So it is a load and a control, not a model of Mathlib.

Cost grows linearly with the number of declarations and, for a fixed number, a little less than linearly with `work`
(nanoda 0.4.10-beta, 20,000 declarations, one run each on a small cloud VM: 0.5, 1.0, 1.8 s for work 3, 7, 12).
Output depends on the arguments alone and is streamed: memory does not grow with `n`.

The twin with `fault=True` differs in the last declaration only: the numeral it names is one too large, so its proof has
the wrong type and every sound kernel must reject it.

This file runs as a module and as a plain script (`python3 -I -S .../generate_export.py`), hence no import of ours.
"""

import argparse
import json
import os
import sys
from collections.abc import Iterable, Iterator

FORMAT_VERSION = "3.1.0"
PRELUDE_COUNT = 6
"""Declarations before the first pair: identity, Num, zero, succ, add, mul."""
N_MIN = PRELUDE_COUNT + 2
"""Smallest useful export: the prelude, one value and one theorem about it."""
WORK_DEFAULT = 7
BLOCK = 8
"""A value refers to the one before it, but for every eighth: unfolding depth is bounded by this."""

Key = tuple[str | int | tuple[int, ...], ...]


class _Lines:
    """Hands out the format's running numbers (names and levels from 1, expressions from 0) and the lines to write.

    An expression that may occur again is written once and remembered, as an exporter does; one that mentions a name of
    its own pair cannot occur again and is not remembered, which is what keeps memory flat.
    """

    def __init__(self) -> None:
        self.pending: list[str] = []
        self._names = 0
        self._levels = 0
        self._expressions = 0
        self._known: dict[Key, int] = {}

    def _put(self, record: dict[str, object]) -> None:
        self.pending.append(json.dumps(record, separators=(",", ":"), sort_keys=True, ensure_ascii=False) + "\n")

    def meta(self) -> None:
        self._put(
            {
                "meta": {
                    "exporter": {"name": "proofcost generate_export", "version": "1"},
                    "format": {"version": FORMAT_VERSION},
                    "lean": {"githash": "0" * 40, "version": "0.0.0"},
                }
            }
        )

    def name(self, text: str, prefix: int = 0) -> int:
        self._names += 1
        self._put({"in": self._names, "str": {"pre": prefix, "str": text}})
        return self._names

    def numbered_name(self, prefix: int, number: int) -> int:
        self._names += 1
        self._put({"in": self._names, "num": {"i": number, "pre": prefix}})
        return self._names

    def level(self, kind: str, of: int) -> int:
        """`kind` is `succ` (of a level) or `param` (of a name)."""
        self._levels += 1
        self._put({"il": self._levels, kind: of})
        return self._levels

    def _expression(self, body: dict[str, object], key: Key | None) -> int:
        if key is not None and key in self._known:
            return self._known[key]
        number = self._expressions
        self._expressions += 1
        self._put({"ie": number, **body})
        if key is not None:
            self._known[key] = number
        return number

    def bvar(self, index: int) -> int:
        return self._expression({"bvar": index}, ("bvar", index))

    def sort(self, level: int) -> int:
        return self._expression({"sort": level}, ("sort", level))

    def const(self, name: int, levels: tuple[int, ...] = (), *, once: bool = False) -> int:
        return self._expression(
            {"const": {"name": name, "us": list(levels)}}, None if once else ("const", name, levels)
        )

    def app(self, function: int, *arguments: int, once: bool = False) -> int:
        for argument in arguments:
            function = self._expression(
                {"app": {"fn": function, "arg": argument}}, None if once else ("app", function, argument)
            )
        return function

    def binder(self, kind: str, name: int, type_: int, body: int, *, once: bool = False) -> int:
        """`kind` is `lam` or `forallE`."""
        return self._expression(
            {kind: {"binderInfo": "default", "name": name, "type": type_, "body": body}},
            None if once else (kind, name, type_, body),
        )

    def definition(self, name: int, type_: int, value: int, *, height: int, parameters: tuple[int, ...] = ()) -> None:
        """`height` is the format's unfolding hint: one more than the largest of the definitions used."""
        self._put(
            {
                "def": {
                    "all": [name],
                    "hints": {"regular": height},
                    "levelParams": list(parameters),
                    "name": name,
                    "safety": "safe",
                    "type": type_,
                    "value": value,
                }
            }
        )

    def theorem(self, name: int, type_: int, value: int) -> None:
        self._put({"thm": {"all": [name], "levelParams": [], "name": name, "type": type_, "value": value}})

    def take(self) -> list[str]:
        lines, self.pending = self.pending, []
        return lines


def export_lines(n: int, *, work: int = WORK_DEFAULT, fault: bool = False) -> Iterator[str]:
    """The lines of an export of exactly `n` declarations, each ending in a newline.

    `work` bounds the numerals multiplied (see the top of this file). With `fault` the last declaration is a theorem
    with a proof of the wrong type. Raises ValueError where an argument is out of range.
    """
    if n < N_MIN:
        raise ValueError(f"n is {n}: an export needs at least {N_MIN} declarations; give --n {N_MIN} or more")
    if work < 1:
        raise ValueError(f"work is {work}: the numerals multiplied go from 1 to it; give --work 1 or more")
    out = _Lines()
    out.meta()

    parameter_u = out.name("u")
    level_u = out.level("param", parameter_u)
    level_1 = out.level("succ", 0)
    level_2 = out.level("succ", level_1)
    prop, type_0, type_1 = out.sort(0), out.sort(level_1), out.sort(level_2)
    a, f, x, m, k, p, h = (out.name(text) for text in ("a", "f", "x", "m", "k", "p", "h"))
    space = out.name("Church")
    b0, b1, b2 = out.bvar(0), out.bvar(1), out.bvar(2)
    b3, b4 = out.bvar(3), out.bvar(4)

    # identity.{u} : (a : Sort u) -> a -> a
    identity = out.name("identity", space)
    sort_u = out.sort(level_u)
    out.definition(
        identity,
        out.binder("forallE", a, sort_u, out.binder("forallE", x, b0, b1)),
        out.binder("lam", a, sort_u, out.binder("lam", x, b0, b0)),
        height=1,
        parameters=(parameter_u,),
    )

    # Num : Type 1 := (a : Type) -> (a -> a) -> a -> a
    num_name = out.name("Num", space)
    endo_under_a = out.binder("forallE", x, b0, b1)
    out.definition(
        num_name,
        type_1,
        out.binder("forallE", a, type_0, out.binder("forallE", f, endo_under_a, out.binder("forallE", x, b1, b2))),
        height=1,
    )
    num = out.const(num_name)

    def abstract(body: int) -> int:
        """fun (a : Type) (f : a -> a) (x : a) => body"""
        return out.binder("lam", a, type_0, out.binder("lam", f, endo_under_a, out.binder("lam", x, b1, body)))

    num_to_num = out.binder("forallE", m, num, num)
    num_to_num_to_num = out.binder("forallE", k, num, num_to_num)

    zero_name = out.name("zero", space)
    out.definition(zero_name, num, abstract(b0), height=2)

    # succ m := fun a f x => f (m a f x)
    succ_name = out.name("succ", space)
    step = out.app(b1, out.app(b3, b2, b1, b0))
    out.definition(succ_name, num_to_num, out.binder("lam", m, num, abstract(step)), height=2)

    # add k m := fun a f x => k a f (m a f x)
    add_name = out.name("add", space)
    both = out.app(b4, b2, b1, out.app(b3, b2, b1, b0))
    add_body = out.binder("lam", k, num, out.binder("lam", m, num, abstract(both)))
    out.definition(add_name, num_to_num_to_num, add_body, height=2)

    # mul k m := fun a f x => k a (m a f) x
    mul_name = out.name("mul", space)
    times = out.app(b4, b2, out.app(b3, b2, b1), b0)
    mul_body = out.binder("lam", k, num, out.binder("lam", m, num, abstract(times)))
    out.definition(mul_name, num_to_num_to_num, mul_body, height=2)

    identity_at_num = out.app(out.const(identity, (level_2,)), num)
    succ, add, mul, zero = out.const(succ_name), out.const(add_name), out.const(mul_name), out.const(zero_name)
    predicate = out.binder("forallE", x, num, prop)
    value_prefix, agrees_prefix = out.name("value", space), out.name("agrees", space)
    yield from out.take()

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

    pairs, left_over = divmod(n - PRELUDE_COUNT, 2)
    if left_over:
        # One declaration more than pairs fill: a plain alias, so that the count asked for is the count written.
        out.definition(out.name("one", space), num, counted(1), height=3)
    previous, previous_value, height = zero, 0, 2
    for i in range(pairs):
        block, place = divmod(i, BLOCK)
        if place == 0:
            # Every pair of numerals comes up before any comes up twice.
            left, right = 1 + block % work, 1 + block // work % work
            body, value, height = out.app(mul, counted(left), counted(right)), left * right, 3
        else:
            left = 1 + i % work
            body = out.app(out.app(add, counted(left)), previous, once=True)
            value, height = left + previous_value, height + 1
        name = out.numbered_name(value_prefix, i)
        out.definition(name, num, out.app(identity_at_num, body, once=place != 0), height=height)
        constant = out.const(name, once=True)
        claimed = value + 1 if fault and i == pairs - 1 else value
        # (p : Num -> Prop) -> (h : p value) -> p numeral
        premise = out.app(b0, constant, once=True)
        claim = out.app(b1, literal(claimed))
        statement = out.binder("forallE", p, predicate, out.binder("forallE", h, premise, claim, once=True), once=True)
        proof = out.binder("lam", p, predicate, out.binder("lam", h, premise, b0, once=True), once=True)
        out.theorem(out.numbered_name(agrees_prefix, i), statement, proof)
        previous, previous_value = constant, value
        yield from out.take()


def _write(lines: Iterable[str], path: str) -> None:
    """Write `lines` to `path`, or to stdout for `-`; a file appears under its name only when it is whole."""
    if path == "-":
        sys.stdout.reconfigure(encoding="utf-8", newline="\n")  # type: ignore[union-attr]  # a TextIOWrapper in a script
        sys.stdout.writelines(lines)
        sys.stdout.flush()
        return
    partial = f"{path}.partial-{os.getpid()}"
    try:
        with open(partial, "x", encoding="utf-8", newline="\n") as file:
            file.writelines(lines)
        os.replace(partial, path)
    except BaseException:
        if os.path.exists(partial):
            os.unlink(partial)
        raise


def main(arguments: list[str] | None = None) -> int:
    """Exit 0 when written, 1 when the output could not be written, 2 on wrong usage."""
    parser = argparse.ArgumentParser(
        prog="generate_export", description="Write a valid lean4export NDJSON 3.1.0 export of our own making."
    )
    parser.add_argument("--n", type=int, default=2000, help=f"declarations, at least {N_MIN} (default 2000)")
    parser.add_argument(
        "--work", type=int, default=WORK_DEFAULT, help=f"largest numeral multiplied (default {WORK_DEFAULT})"
    )
    parser.add_argument("--fault", action="store_true", help="make the last declaration wrong: kernels must reject it")
    parser.add_argument("--out", default="-", help="a path, or - for stdout (default)")
    options = parser.parse_args(arguments)
    lines = export_lines(options.n, work=options.work, fault=options.fault)
    try:
        _write(lines, options.out)
    except ValueError as error:
        parser.error(str(error))
    except BrokenPipeError:
        # The reader went away; give the interpreter's own flush at exit somewhere to write to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        print(f"generate_export: cannot write {options.out}: {error.strerror}; name a writable path", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
