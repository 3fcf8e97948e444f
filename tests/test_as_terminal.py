"""A report on a terminal and in a pipe: folded or whole, plain, and harmless."""

import io
import re

import pytest
from documents import COLUMNS, hostile, large, small
from rich.console import Console

from proofcost.reports.document import Document, Section, Table
from proofcost.reports.writing import print_document


class Ascii(io.StringIO):
    encoding = "ascii"


def printed(document: Document, width: int | None = None, ascii_only: bool = False) -> str:
    """`width`: of a terminal; without it the output is a pipe."""
    file = Ascii() if ascii_only else io.StringIO()
    print_document(document, Console(file=file, width=width, force_terminal=width is not None, color_system=None))
    return file.getvalue()


def test_a_pipe_gets_every_row_whole_and_no_controls() -> None:
    text = printed(large(3000))
    assert text.count("\ncase 0") == 1000
    assert {char for char in text if not char.isprintable()} == {"\n"}
    assert all(line == line.rstrip() for line in text.splitlines())


def test_an_ascii_pipe_gets_ascii() -> None:
    text = printed(small(), ascii_only=True)
    assert text.isascii()
    assert ">= 10.0 s" in text
    assert printed(hostile(), ascii_only=True).isascii()


def test_a_terminal_gets_the_lead_and_is_told_of_the_rest() -> None:
    text = printed(large(3000), 100)
    assert len(re.findall(r"(?m)^case \d", text)) == 20
    assert "2980 more rows: -o FILE.html shows all" in text


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for document in (small(), hostile(), large(50)):
        lines = printed(document, width).splitlines()
        assert max(map(len, lines)) <= width, max(lines, key=len)


def test_a_reason_is_told_once_below_its_table() -> None:
    text = printed(small())
    assert "not measured [1]" in text
    assert "[1] no cgroup" in text
    assert "intervals: 95 % confidence" in text


def test_the_answer_stands_above_the_tables_and_a_marked_row_on_top_of_them() -> None:
    rows = [(f"c{at}", 1, 1, 1.0, "x") for at in range(30)]
    table = Table("t", "t", COLUMNS, rows, lead=2, marked={17: "bad"})
    lines = printed(small(sections=(Section("s", (table,)),)), 100).splitlines()
    assert lines[1].endswith("1 of 4 cases regressed.")
    assert [line.split()[0] for line in lines if line.startswith(("c1", "c0"))] == ["c17", "c0"]


def test_a_hostile_name_sends_nothing_to_the_terminal() -> None:
    text = printed(hostile(), 100)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "\x00" not in text
    assert "\\x1b[31m" in text


def test_a_table_without_rows_says_so() -> None:
    assert "no rows" in printed(small(sections=(Section("s", (Table("t", "t", COLUMNS, ()),)),)))
