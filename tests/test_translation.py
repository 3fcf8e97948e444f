"""A report's SQL in another engine's words: every question that reports ask has a translation, and texts stay texts."""

from typing import Any

import many_hosts
import pytest
import sqlglot
from asking import CALLS, make, recorded
from hypothesis import example, given
from hypothesis import strategies as st
from sqlglot import exp

from proofcost.reports.translation import Dialect, TranslationError, translated

DIALECTS = pytest.mark.parametrize("dialect", list(Dialect), ids=lambda dialect: dialect.value)
TEXTS = st.text(st.characters(blacklist_categories=["Cs"]), max_size=30)


@pytest.fixture(scope="module")
def questions(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, tuple[Any, ...]]]:
    folder = tmp_path_factory.mktemp("asked")
    many_hosts.write(folder / "data", 4_000, subjects=8)
    with recorded() as seen:
        for name in CALLS:
            make(name, folder / "data", folder)
    return list(seen)


@pytest.mark.slow
@DIALECTS
def test_every_question_of_every_report_is_translated(
    questions: list[tuple[str, tuple[Any, ...]]], dialect: Dialect
) -> None:
    assert len(questions) > 40
    for query, parameters in questions:
        text = translated(query, parameters, dialect, "view_7")
        if dialect is Dialect.SPARK or "WITH" not in query:  # sqlglot's ClickHouse cannot read `WITH x AS (SELECT *`
            tree = sqlglot.parse_one(text, read=dialect.value)
            tables = {table.name for table in tree.find_all(exp.Table)}
            assert tables - {cte.alias for cte in tree.find_all(exp.CTE)} == {"view_7"}
            assert not list(tree.find_all(exp.Placeholder, exp.Parameter))


@pytest.mark.slow
def test_the_questions_hold_lists_fractions_json_and_conditions(
    questions: list[tuple[str, tuple[Any, ...]]],
) -> None:
    """So that what is tested is what must be translated."""
    together = "\n".join(query for query, _ in questions)
    for word in ("list(", "json_extract_string(", "IS DISTINCT FROM", "contains(", "lag(", "regexp_extract", "log10"):
        assert word in together, word


@DIALECTS
@given(TEXTS)
@example("it's")
@example("back\\slash'")
@example("two\nlines\t\r")
@example("'; DROP TABLE records; --")
@example("$1 ? ?")
@example("\\")
def test_a_parameter_arrives_as_it_was(dialect: Dialect, text: str) -> None:
    made = translated("SELECT 'a?b', x FROM records WHERE x = ? AND y > ?", (text, -7), dialect)
    tree = sqlglot.parse_one(made, read=dialect.value)
    strings = [one.this for one in tree.find_all(exp.Literal) if one.is_string]
    assert sorted(strings) == sorted(["a?b", text])
    assert [one.sql() for one in tree.find_all(exp.Neg)] == ["-7"]


@DIALECTS
@given(st.text(st.characters(blacklist_categories=["Cs"]), min_size=1, max_size=20))
@example('say "so"')
@example("a.b'c\\d?")
def test_a_label_is_reached_whatever_its_name(dialect: Dialect, key: str) -> None:
    path = '$."' + key.replace("\\", "\\\\").replace('"', '\\"') + '"'
    made = translated("SELECT json_extract_string(labels, ?) FROM records", (path,), dialect)
    strings = [
        one.text for one in sqlglot.tokenize(made, read=dialect.value) if one.token_type is sqlglot.TokenType.STRING
    ]
    assert key in strings or f"$.{key}" in strings


def test_constructs_become_what_the_engines_have() -> None:
    def spark(query: str, *parameters: object) -> str:
        return translated(query, parameters, Dialect.SPARK)

    def clickhouse(query: str, *parameters: object) -> str:
        return translated(query, parameters, Dialect.CLICKHOUSE)

    of = "FROM records"
    lists = f"SELECT CASE WHEN a THEN m ELSE [] END FROM (SELECT a, list(b) FILTER (WHERE b > 0) AS m {of} GROUP BY a)"
    assert "COLLECT_LIST(b) FILTER(WHERE b > 0)" in spark(lists)
    assert "ELSE ARRAY()" in spark(lists)
    assert "ELSE []" in clickhouse(lists)
    assert "SUM(CAST(a AS DECIMAL(38, 0)))" in spark(f"SELECT sum(a) {of}")
    assert "SUM(CAST(a AS Nullable(Decimal(38, 0))))" in clickhouse(f"SELECT sum(a) {of}")
    assert "JSONExtract(weak, 'wall', 'Nullable(String)')" in clickhouse(
        f"SELECT json_extract_string(weak, '$.wall') {of}"
    )
    assert "GET_JSON_OBJECT(weak, '$.wall')" in spark(f"SELECT json_extract_string(weak, '$.wall') {of}")
    assert "accurateCastOrNull(a, 'Nullable(Int64)')" in clickhouse(f"SELECT try_cast(a AS BIGINT) {of}")
    assert "toDecimal128('0.99', 2) * a" in clickhouse(f"SELECT 0.99 * a {of}")
    assert "9.95e-03" in clickhouse(f"SELECT a / 9.95e-03 {of}")
    assert "NULLS LAST" in spark(f"SELECT a {of} ORDER BY a")
    assert "LOG10(a)" in spark(f"SELECT log10(a) {of}")
    assert "log10(a)" in clickhouse(f"SELECT log10(a) {of}")
    assert spark(f"SELECT a {of} WHERE (a)").endswith("WHERE a")
    assert "accurateCastOrNull(FLOOR(LN(a)), 'Nullable(Int32)')" in clickhouse(
        f"SELECT CAST(floor(ln(a)) AS INTEGER) {of}"
    )


@pytest.mark.parametrize(
    ("query", "parameters", "said"),
    [
        ("SELECT list_sort(a) FROM records", (), "no rule for"),
        ("SELECT hash(a) FROM records", (), "no rule for the function hash"),
        ("SELECT quantile_disc(a, 0.5) FROM records", (), "no rule for"),
        ("SELECT a FROM records QUALIFY row_number() OVER (PARTITION BY a ORDER BY a) = 1", (), "no rule for Qualify"),
        ("SELECT json_extract_string(a, '$.b.c') FROM records", (), "no rule for the JSON path"),
        ("SELECT a FROM records WHERE a = ?", (), "more places than parameters"),
        ("SELECT a FROM records WHERE a = ?", (1, 2), "more parameters than places"),
        ("SELECT a FROM records WHERE a = ?", (1.5,), "no rule for a parameter of float"),
        ("SELECT a FROM plan_runs", (), "plan_runs"),
        ("SELECT FROM WHERE", (), "cannot be read"),
    ],
)
@DIALECTS
def test_what_has_no_rule_is_refused_not_guessed(
    dialect: Dialect, query: str, parameters: tuple[object, ...], said: str
) -> None:
    with pytest.raises(TranslationError, match=said):
        translated(query, parameters, dialect)
