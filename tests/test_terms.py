"""What a report's words mean: explained once, in the page, in docs/reading.md, and wherever a column names them."""

import ast
from pathlib import Path

import pytest
from documents import small

from proofcost.reports import as_html
from proofcost.reports.document import Column, Section, Table
from proofcost.reports.endings import Ending
from proofcost.reports.terms import key_of, page, terms, terms_of


def test_docs_reading_is_made_from_the_terms(repo: Path) -> None:
    assert (repo / "docs/reading.md").read_text("utf-8") == page(), (
        "python -m proofcost.reports.terms > docs/reading.md"
    )


def test_every_term_is_explained_and_leads_to_others_that_are() -> None:
    for key, term in terms().items():
        assert term.title, key
        assert term.group, key
        assert term.meaning.endswith((".", '"')), key
        assert key.isidentifier(), "it is an id in a page"
        assert set(term.see) <= set(terms()), key


def named_terms(path: Path) -> list[tuple[int, str]]:
    """(line, term) of each `Column(...)` that names one by a constant."""
    found = []
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Column":
            given = [*node.args[3:4], *(one.value for one in node.keywords if one.arg == "term")]
            found += [
                (one.lineno, one.value) for one in given if isinstance(one, ast.Constant) and isinstance(one.value, str)
            ]
    return found


def test_no_column_names_a_term_that_nobody_explains(repo: Path) -> None:
    files = [path for path in sorted((repo / "reports").rglob("*.py")) if "reports.document import" in path.read_text()]
    wrong = [f"{path}:{line}: {term}" for path in files for line, term in named_terms(path) if key_of(term) is None]
    assert wrong == []
    assert [f"ending_{one.name.lower()}" for one in Ending if key_of(f"ending_{one.name.lower()}") is None] == []


def test_the_check_sees_both_ways_to_name_a_term(tmp_path: Path) -> None:
    (tmp_path / "x.py").write_text("Column('a', 'b', 'ns', 'one')\nColumn('a', 'b', term='two')\nColumn('a', 'b')\n")
    assert named_terms(tmp_path / "x.py") == [(1, "one"), (2, "two")]


def test_a_page_explains_what_occurs_in_it_and_nothing_else() -> None:
    keys = {term.key for term in terms_of(small())}
    assert {"wall_program", "ratio", "missing", "bound", "interval", "forest"} <= keys
    assert "verdict" in keys, "one cannot read a ratio without it"
    assert not keys & {"plan_limit", "change_point", "rank_interval"}
    html = as_html.render(small()).decode()
    assert '<a class="what" href="#term-ratio"' in html
    assert html.count('<article id="term-ratio">') == 1
    assert "term-plan_limit" not in html


def test_a_page_without_anything_to_explain_has_no_such_section() -> None:
    table = Table("t", "t", (Column("a", "a"),), (("x",),))
    assert b'id="reading"' not in as_html.render(small(sections=(Section("s", (table,)),)))


@pytest.mark.parametrize(
    ("term", "key"), [("host class", "host_class"), ("ratio", "ratio"), ("never heard of", None), (None, None)]
)
def test_a_column_says_a_term_with_blanks_too(term: str | None, key: str | None) -> None:
    assert key_of(term) == key
