"""A report's SQL (DuckDB's) -> the same question in another engine's SQL.

Reports write each query once. sqlglot reads it and writes it anew; what the engines do differently stands here as
rules, each with its reason. No text of anybody gets into a query by pasting: texts in the query and its parameters are
taken out before it is read, and put back as literals, which sqlglot spells as the engine wants them.

What has no rule is refused, never guessed: `KNOWN` lists the constructs whose answers were held against DuckDB's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from enum import Enum

import sqlglot
from sqlglot import TokenType, exp
from sqlglot.errors import SqlglotError

from proofcost.reports.dataset import VIEW


class Dialect(Enum):
    """SQL that a query can be put into; the value is sqlglot's name."""

    SPARK = "spark"
    CLICKHOUSE = "clickhouse"


class TranslationError(Exception):
    """A query that cannot be put into an engine's SQL with the same meaning. One line."""


KNOWN = {
    "Add Alias And Array ArrayAgg Boolean CTE Case Cast Coalesce Column Contains Count DPipe DataType Distinct Div",
    "EQ Filter Floor From GT GTE Greatest Group Grouping GroupingSets Having Identifier If In Is JSONExtractScalar",
    "Join LT LTE Lag Like Limit Literal Ln Log Max Min Mul Neg Not Null NullSafeEQ NullSafeNEQ Nullif NEQ Or Order",
    "Ordered Paren Placeholder Pow RegexpExtract RowNumber Select Star Sub Subquery Sum Table TableAlias TryCast",
    "Tuple Union Where Window With",
}
_KNOWN = {name for names in KNOWN for name in names.split()}
_PLAIN_PATH = re.compile(r"\$\.([A-Za-z_][A-Za-z0-9_]*)")
_QUOTED_PATH = re.compile(r'\$\."((?:[^"\\]|\\.)*)"', re.DOTALL)
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EXACT_SUM = "DECIMAL(38, 0)"


def translated(query: str, parameters: Sequence[object], dialect: Dialect, view: str = VIEW) -> str:
    """The query in another dialect, parameters in their places, asked of `view` instead of `records`.

    Raises TranslationError.
    """
    text, values = _without_texts(query, parameters)
    try:
        tree = sqlglot.parse_one(text, read="duckdb")
    except SqlglotError as error:
        raise TranslationError(f"a query cannot be read: {str(error).splitlines()[0][:200]}") from None
    nodes = list(tree.walk())
    for node in nodes:
        _refuse_unknown(node)
    parts = {node.alias for node in nodes if isinstance(node, exp.CTE)}
    for table in (node for node in nodes if isinstance(node, exp.Table)):
        if table.name != VIEW and table.name not in parts:
            raise TranslationError(f"{table.name} is no table of an engine's: it is kept here")
    for node in reversed(nodes):  # what stands below a node comes before it
        made = _changed(node, values, dialect, view)
        if made is not node:
            node.replace(made)
    return tree.sql(dialect=dialect.value)


def _without_texts(query: str, parameters: Sequence[object]) -> tuple[str, list[object]]:
    """The query with `$1`, `$2` for each of its texts and of its parameters, in the order in which they stand; and
    what those are."""
    parts: list[str] = []
    values: list[object] = []
    given = iter(parameters)
    end = 0
    for token in sqlglot.tokenize(query, read="duckdb"):
        if token.token_type not in (TokenType.STRING, TokenType.PLACEHOLDER):
            continue
        try:
            values.append(token.text if token.token_type is TokenType.STRING else next(given))
        except StopIteration:
            raise TranslationError("a query has more places than parameters") from None
        parts += [query[end : token.start], f"${len(values)}"]
        end = token.end + 1
    if next(given, None) is not None:
        raise TranslationError("a query has more parameters than places")
    return "".join(parts) + query[end:], values


def _refuse_unknown(node: exp.Expr) -> None:
    name = type(node).__name__
    if isinstance(node, exp.Anonymous):
        raise TranslationError(f"no rule for the function {node.name}")
    if name not in _KNOWN:
        raise TranslationError(f"no rule for {name} in {node.sql('duckdb')[:80]}")


def _changed(node: exp.Expr, values: Sequence[object], dialect: Dialect, view: str) -> exp.Expr:
    """One node, by the rules. Those below it are changed already."""
    if isinstance(node, exp.Placeholder):
        return literal(values[int(node.name) - 1])
    if isinstance(node, exp.Table) and node.name == VIEW:
        return exp.Table(this=exp.to_identifier(view), alias=node.args.get("alias"))
    # Spark takes `FROM x WHERE (y)` for a table x that is called "where", and its column y.
    if isinstance(node, exp.Where) and isinstance(node.this, exp.Paren):
        return exp.Where(this=node.this.unnest())
    # A sum of 64-bit integers may need more, and engines then wrap around or fail: DuckDB adds in 128 bits.
    if isinstance(node, exp.Sum) and not isinstance(node.this, exp.Cast):
        return exp.Sum(this=exp.cast(node.this, _EXACT_SUM, dialect="duckdb"))
    # log(10, 1000) is a quotient of logarithms, and 2.9999999999999996.
    if isinstance(node, exp.Log):
        if node.this.name != "10" or node.expression is None:
            raise TranslationError(f"no rule for {node.sql('duckdb')[:80]}")
        return exp.Anonymous(this="log10", expressions=[node.expression])
    if isinstance(node, exp.JSONExtractScalar):
        return _member(node.this, _key(node.expression), dialect)
    return _CLICKHOUSE.get(type(node), _same)(node) if dialect is Dialect.CLICKHOUSE else node


def literal(value: object) -> exp.Expr:
    """A value as it stands in a query."""
    if value is None:
        return exp.Null()
    if isinstance(value, bool):
        return exp.Boolean(this=value)
    if isinstance(value, int):
        number = exp.Literal.number(abs(value))
        return exp.Paren(this=exp.Neg(this=number)) if value < 0 else number
    if isinstance(value, str):
        return exp.Literal.string(value)
    raise TranslationError(f"no rule for a parameter of {type(value).__name__}")


def _key(path: exp.Expr) -> str:
    """The one key that a JSON path names, which is `$.key` or `$."any key"`."""
    if path.is_string:
        plain, quoted = _PLAIN_PATH.fullmatch(path.name), _QUOTED_PATH.fullmatch(path.name)
        if plain is not None:
            return plain[1]
        if quoted is not None:
            return re.sub(r"\\(.)", r"\1", quoted[1], flags=re.DOTALL)
    raise TranslationError(f"no rule for the JSON path {path.sql('duckdb')[:80]}")


def _member(text: exp.Expr, key: str, dialect: Dialect) -> exp.Expr:
    """A member of a JSON object as text; null where there is none, or where it is null."""
    if dialect is Dialect.CLICKHOUSE:  # takes keys as they are; JSONExtractString says '' for what is not there
        arguments = [text, literal(key), literal("Nullable(String)")]
        return exp.Anonymous(this="JSONExtract", expressions=arguments)
    if _PLAIN_KEY.fullmatch(key):
        return exp.Anonymous(this="get_json_object", expressions=[text, literal(f"$.{key}")])
    # Spark's paths have no way to write a key with a quote in it. A map has.
    whole = exp.Anonymous(this="from_json", expressions=[text, literal("map<string, string>")])
    return exp.Anonymous(this="try_element_at", expressions=[whole, literal(key)])


def _same(node: exp.Expr) -> exp.Expr:
    return node


def _try_cast(node: exp.Expr) -> exp.Expr:
    """sqlglot writes a cast that fails."""
    kind = node.args["to"].sql("clickhouse")
    return exp.Anonymous(this="accurateCastOrNull", expressions=[node.this, literal(kind)])


def _cast(node: exp.Expr) -> exp.Expr:
    """Functions are worked out where their argument is null as well, of whatever stands there instead: a logarithm of 0
    is no integer, and a cast of it fails for a row that has none."""
    return _try_cast(node) if isinstance(node.this, (exp.Floor, exp.Pow)) else node


def _fraction(node: exp.Expr) -> exp.Expr:
    """0.99 is a decimal elsewhere, exact times an integer; here it would be binary."""
    if node.args.get("is_string") or not re.fullmatch(r"\d*\.\d+", node.name):
        return node
    places = len(node.name.partition(".")[2])
    return exp.Anonymous(this="toDecimal128", expressions=[literal(node.name), exp.Literal.number(places)])


_CLICKHOUSE: dict[type, Callable[[exp.Expr], exp.Expr]] = {
    exp.TryCast: _try_cast,
    exp.Cast: _cast,
    exp.Literal: _fraction,
}
