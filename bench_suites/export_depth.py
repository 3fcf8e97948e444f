"""How deep and how shared an export's expressions are: every line parsed, each expression's figures from its parts'."""

from array import array
from dataclasses import asdict, dataclass
from typing import Any

import orjson

from proofcost.bench_suites import parse_only
from proofcost.bench_suites.parse_only import BODIES, DECLARATIONS, MalformedError

TREE_MAX = (1 << 63) - 1
"""Tree sizes stop here, the largest integer a record holds: more than this is told as this."""
NUMBER_GAP_MAX = 1 << 24
"""Running numbers may be sparse. One that leaves out more than this would cost memory, not tell anything."""


@dataclass(frozen=True)
class Depth:
    """Largest of each over the whole export.

    `expression_depth_count`: parts within parts, a leaf is 1. `expression_tree_count`: nodes of one expression when it
    is written out with nothing shared, at most 2^63 - 1. `references_most_count`: how often one expression is a direct
    part of others or of a declaration. `spine_longest_count`: arguments of one application. `level_depth_count`: as for
    expressions, level 0 is 1. `nat_digits_longest_count`: decimal digits of a literal. `text_longest_bytes`: UTF-8.
    """

    expression_depth_count: int
    expression_tree_count: int
    references_most_count: int
    spine_longest_count: int
    level_depth_count: int
    nat_digits_longest_count: int
    text_longest_bytes: int

    def as_record(self) -> dict[str, int]:
        return asdict(self)


_PARTS = {
    "lam": ("type", "body"),
    "forallE": ("type", "body"),
    "letE": ("type", "value", "body"),
    "proj": ("struct",),
    "mdata": ("expr",),
}
_LEAVES = frozenset(("const", "bvar", "sort", "natVal", "strVal"))


class DepthReader:
    """Takes whole lines, in order, then tells. References must point to expressions and levels already seen."""

    def __init__(self) -> None:
        # By running number; depth 0 means that there is no such expression (yet).
        self._depths = array("I")
        self._trees = array("q")
        self._spines = array("I")
        self._references = array("I")
        self._levels = {0: 1}
        self._digits = 0
        self._text = 0

    def end(self) -> Depth:
        return Depth(
            expression_depth_count=max(self._depths, default=0),
            expression_tree_count=max(self._trees, default=0),
            references_most_count=max(self._references, default=0),
            spine_longest_count=max(self._spines, default=0),
            level_depth_count=max(self._levels.values()),
            nat_digits_longest_count=self._digits,
            text_longest_bytes=self._text,
        )

    def take(self, text: bytes, first: int) -> None:
        """`text` ends in a newline; its first line is number `first` of the export. Raises MalformedError."""
        depths, trees, spines, references = self._depths, self._trees, self._spines, self._references
        loads = orjson.loads
        for number, line in enumerate(text[:-1].split(b"\n"), first):
            try:
                record = loads(line)
                if "app" not in record:
                    self._other(record)
                    continue
                # Two lines of three are applications: spelled out here, for speed.
                body, own = record["app"], record["ie"]
                function, argument = body["fn"], body["arg"]
                below, beside = depths[function], depths[argument]
                if function < 0 or argument < 0 or not below or not beside:
                    raise IndexError
                references[function] += 1
                references[argument] += 1
                depth = (below if below > beside else beside) + 1
                tree = trees[function] + trees[argument] + 1
                if own == len(depths):
                    depths.append(depth)
                    trees.append(tree if tree < TREE_MAX else TREE_MAX)
                    spines.append(spines[function] + 1)
                    references.append(0)
                else:
                    self._store(own, depth, tree, spines[function] + 1)
            except orjson.JSONDecodeError:
                # One place has the words for it; json and orjson differ about nothing that the format has.
                self._other(parse_only.parse_line(line + b"\n", number))
            except IndexError:
                what = "refers to an expression or level that no line before it holds"
                raise MalformedError(number, what, "export again") from None
            except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as error:
                raise MalformedError(number, f"not as the format has it ({error!r})", "export again") from None

    def _store(self, own: int, depth: int, tree: int, spine: int = 0) -> None:
        """Keep expression number `own`, which need not be the next one."""
        gap = own + 1 - len(self._depths)
        if gap > NUMBER_GAP_MAX:
            raise ValueError(f"expression {own} comes after {len(self._depths)} others")
        for column in (self._depths, self._trees, self._spines, self._references):
            if gap > 0:
                column.frombytes(bytes(gap * column.itemsize))
        self._depths[own] = depth
        self._trees[own] = min(tree, TREE_MAX)
        self._spines[own] = spine

    def _refer(self, to: int) -> tuple[int, int]:
        """Depth and tree of expression `to`, counted as a reference. Raises IndexError where there is none such."""
        depth = self._depths[to]
        if to < 0 or not depth:
            raise IndexError
        self._references[to] += 1
        return depth, self._trees[to]

    def _other(self, record: dict[str, Any]) -> None:
        """Any record. Raises IndexError, KeyError, TypeError, ValueError where it is not as the format has it."""
        for key, body in record.items():
            if key in _PARTS:
                parts = [self._refer(body[part]) for part in _PARTS[key]]
                self._store(record["ie"], 1 + max(depth for depth, _ in parts), 1 + sum(tree for _, tree in parts))
            elif key == "app":
                (below, tree), (beside, more) = self._refer(body["fn"]), self._refer(body["arg"])
                self._store(record["ie"], 1 + max(below, beside), 1 + tree + more, self._spines[body["fn"]] + 1)
            elif key in _LEAVES:
                self._store(record["ie"], 1, 1)
                if key == "natVal":
                    self._digits = max(self._digits, len(body))
                elif key == "strVal":
                    self._text = max(self._text, len(body.encode("utf-8", "surrogatepass")))
            elif key in BODIES["il"]:
                of = [] if key == "param" else body if isinstance(body, list) else [body]
                if any(level not in self._levels for level in of):
                    raise IndexError
                self._levels[record["il"]] = 1 + max((self._levels[level] for level in of), default=0)
            elif key in DECLARATIONS:
                self._refer_within(body)

    def _refer_within(self, body: object) -> None:
        """Whatever a declaration refers to, at any depth: 3.0 nests otherwise than 3.1."""
        if isinstance(body, list):
            for one in body:
                self._refer_within(one)
        elif isinstance(body, dict):
            for key, value in body.items():
                if key in ("type", "value", "rhs"):
                    self._refer(value)
                else:
                    self._refer_within(value)
