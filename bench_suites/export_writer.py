"""Writes lean4export's NDJSON format 3.1.0, a line a record, to a sink that takes bytes.

The writer hands out the format's running numbers (names and levels from 1, expressions from 0) and puts keys in the
exporter's own order. What may occur again is written once and remembered, as an exporter does and as kernels rely on
(nanoda dies of a second copy). What cannot occur again is written with `once=True` and forgotten at once: that, and a
buffer that is emptied as it fills, keeps memory flat however long the export gets.

Nothing here knows Lean's rules: `terms.py` and the families do. Standard library only, and no import of ours, because
the demo runs it in a sandbox that has little more than an interpreter.
"""

import json
from collections.abc import Callable

FORMAT_VERSION = "3.1.0"
BUFFER_LINES = 2048
"""Lines held before they go to the sink: some 100 KiB."""

Sink = Callable[[bytes], object]


class Writer:
    """Names, levels and expressions are the format's numbers: `int`. Name 0 is the anonymous one, level 0 is zero."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._lines: list[str] = []
        self._names = 0
        self._levels = 0
        self._expressions = 0
        self._known_names: dict[tuple[int, str], int] = {}
        self._known_levels: dict[tuple[str, int, int], int] = {}
        self._known_leaves: dict[tuple[str, int | str], int] = {}
        self._known_constants: dict[tuple[int, tuple[int, ...]], int] = {}
        self._known_apps: dict[tuple[int, int], int] = {}
        self._known_binders: dict[tuple[str, int, int, int], int] = {}
        self._known_others: dict[tuple[int, ...], int] = {}
        self.declarations = 0
        """Declarations written so far, as a reader of the file counts its lines: an inductive block is one."""

    def _put(self, line: str) -> None:
        lines = self._lines
        lines.append(line)
        if len(lines) >= BUFFER_LINES:
            self.flush()

    def flush(self) -> None:
        """Give the sink what is buffered. Whoever made the writer calls this at the end."""
        if self._lines:
            self._sink("".join(self._lines).encode("utf-8"))
            self._lines.clear()

    def meta(self, exporter: str) -> None:
        """The first line; `exporter` names the program (and family) that writes."""
        self._put(
            f'{{"meta":{{"exporter":{{"name":{json.dumps(exporter)},"version":"1"}},'
            f'"format":{{"version":"{FORMAT_VERSION}"}},"lean":{{"githash":"{"0" * 40}","version":"0.0.0"}}}}}}\n'
        )

    # Names.

    def name(self, dotted: str) -> int:
        """The name with these dotted parts, each written once."""
        number = 0
        for part in dotted.split("."):
            key = (number, part)
            known = self._known_names.get(key)
            if known is None:
                self._names += 1
                known = self._known_names[key] = self._names
                text = json.dumps(part, ensure_ascii=False)
                self._put(f'{{"in":{known},"str":{{"pre":{number},"str":{text}}}}}\n')
            number = known
        return number

    def numbered(self, prefix: int, number: int) -> int:
        """A new name `prefix.number`; the caller asks for each once."""
        self._names += 1
        self._put(f'{{"in":{self._names},"num":{{"i":{number},"pre":{prefix}}}}}\n')
        return self._names

    # Levels.

    def _level(self, key: tuple[str, int, int], line: str, once: bool) -> int:
        if not once:
            known = self._known_levels.get(key)
            if known is not None:
                return known
            self._known_levels[key] = self._levels + 1
        self._levels += 1
        self._put(f'{{"il":{self._levels},{line}}}\n')
        return self._levels

    def succ(self, level: int, *, once: bool = False) -> int:
        return self._level(("succ", level, 0), f'"succ":{level}', once)

    def max(self, left: int, right: int, *, once: bool = False) -> int:
        return self._level(("max", left, right), f'"max":[{left},{right}]', once)

    def imax(self, left: int, right: int, *, once: bool = False) -> int:
        return self._level(("imax", left, right), f'"imax":[{left},{right}]', once)

    def param(self, name: int, *, once: bool = False) -> int:
        return self._level(("param", name, 0), f'"param":{name}', once)

    # Expressions. The hot ones are spelled out: a call more for each line would cost a third of the speed.

    def _leaf(self, key: tuple[str, int | str], line: str, once: bool = False) -> int:
        if not once:
            known = self._known_leaves.get(key)
            if known is not None:
                return known
            self._known_leaves[key] = self._expressions
        number = self._expressions
        self._expressions = number + 1
        self._put(line % number)
        return number

    def bvar(self, index: int) -> int:
        return self._leaf(("bvar", index), f'{{"bvar":{index},"ie":%d}}\n')

    def sort(self, level: int) -> int:
        return self._leaf(("sort", level), f'{{"ie":%d,"sort":{level}}}\n')

    def const(self, name: int, levels: tuple[int, ...] = (), *, once: bool = False) -> int:
        number = self._expressions
        if not once:
            known = self._known_constants.get((name, levels))
            if known is not None:
                return known
            self._known_constants[name, levels] = number
        self._expressions = number + 1
        self._put(f'{{"const":{{"name":{name},"us":{_array(levels)}}},"ie":{number}}}\n')
        return number

    def nat(self, value: int | str, *, once: bool = False) -> int:
        """A Nat literal, given as a number or (long ones) as decimal digits; a kernel needs its extension for them."""
        return self._leaf(("nat", str(value)), f'{{"ie":%d,"natVal":"{value}"}}\n', once)

    def text(self, value: str, *, once: bool = False) -> int:
        """A string literal; a kernel needs its extension for them."""
        escaped = json.dumps(value, ensure_ascii=False).replace("%", "%%")
        return self._leaf(("text", value), f'{{"ie":%d,"strVal":{escaped}}}\n', once)

    def app(self, function: int, *arguments: int, once: bool = False) -> int:
        """`function` applied to one argument after the other."""
        for argument in arguments:
            number = self._expressions
            if not once:
                key = (function, argument)
                known = self._known_apps.get(key)
                if known is not None:
                    function = known
                    continue
                self._known_apps[key] = number
            self._expressions = number + 1
            lines = self._lines
            lines.append(f'{{"app":{{"arg":{argument},"fn":{function}}},"ie":{number}}}\n')
            if len(lines) >= BUFFER_LINES:
                self.flush()
            function = number
        return function

    def lam(self, name: int, type_: int, body: int, *, once: bool = False, info: str = "default") -> int:
        number = self._expressions
        if not once:
            key = ("lam" + info, name, type_, body)
            known = self._known_binders.get(key)
            if known is not None:
                return known
            self._known_binders[key] = number
        self._expressions = number + 1
        lines = self._lines
        lines.append(f'{{"ie":{number},"lam":{{"binderInfo":"{info}","body":{body},"name":{name},"type":{type_}}}}}\n')
        if len(lines) >= BUFFER_LINES:
            self.flush()
        return number

    def pi(self, name: int, type_: int, body: int, *, once: bool = False, info: str = "default") -> int:
        number = self._expressions
        if not once:
            key = ("pi" + info, name, type_, body)
            known = self._known_binders.get(key)
            if known is not None:
                return known
            self._known_binders[key] = number
        self._expressions = number + 1
        lines = self._lines
        lines.append(
            f'{{"forallE":{{"binderInfo":"{info}","body":{body},"name":{name},"type":{type_}}},"ie":{number}}}\n'
        )
        if len(lines) >= BUFFER_LINES:
            self.flush()
        return number

    def _other(self, key: tuple[int, ...], line: str, once: bool) -> int:
        if not once:
            known = self._known_others.get(key)
            if known is not None:
                return known
            self._known_others[key] = self._expressions
        number = self._expressions
        self._expressions = number + 1
        self._put(line % number)
        return number

    def let(self, name: int, type_: int, value: int, body: int, *, once: bool = False) -> int:
        line = f'{{"ie":%d,"letE":{{"body":{body},"name":{name},"nondep":false,"type":{type_},"value":{value}}}}}\n'
        return self._other((name, type_, value, body), line, once)

    def proj(self, type_name: int, index: int, structure: int, *, once: bool = False) -> int:
        line = f'{{"ie":%d,"proj":{{"idx":{index},"struct":{structure},"typeName":{type_name}}}}}\n'
        return self._other((type_name, index, structure), line, once)

    # Declarations.

    def definition(
        self, name: int, type_: int, value: int, *, height: int = 0, parameters: tuple[int, ...] = ()
    ) -> None:
        """`height` is the unfolding hint: one more than the largest of the definitions used; 0 means `abbrev`."""
        hints = f'{{"regular":{min(height, HEIGHT_MAX)}}}' if height else '"abbrev"'
        self._declare(
            f'{{"def":{{"all":[{name}],"hints":{hints},"levelParams":{_array(parameters)},"name":{name},'
            f'"safety":"safe","type":{type_},"value":{value}}}}}\n'
        )

    def theorem(self, name: int, type_: int, value: int, *, parameters: tuple[int, ...] = ()) -> None:
        self._declare(
            f'{{"thm":{{"all":[{name}],"levelParams":{_array(parameters)},"name":{name},'
            f'"type":{type_},"value":{value}}}}}\n'
        )

    def quotient(self, kind: str, name: int, type_: int, parameters: tuple[int, ...]) -> None:
        """`kind`: type, ctor, lift or ind."""
        self._declare(
            f'{{"quot":{{"kind":"{kind}","levelParams":{_array(parameters)},"name":{name},"type":{type_}}}}}\n'
        )

    def inductive(self, block: dict[str, list[dict[str, object]]]) -> None:
        """A whole block with the format's keys: types, ctors, recs."""
        self._declare(json.dumps({"inductive": block}, separators=(",", ":"), sort_keys=True) + "\n")

    def _declare(self, line: str) -> None:
        self.declarations += 1
        self._put(line)


HEIGHT_MAX = 65535
"""Largest unfolding hint written. It is only a hint, and nanoda holds it in 16 bits."""


def _array(numbers: tuple[int, ...]) -> str:
    return f"[{','.join(map(str, numbers))}]"
