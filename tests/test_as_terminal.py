"""A report on a terminal and in a pipe: folded or whole, plain, and harmless."""

import io
import re

import pytest
from documents import COLUMNS, hostile, large, small
from rich.console import Console

from proofcost.reports.document import Column, Document, Section, Table
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


def test_heads_are_folded_at_blanks_and_figures_nowhere() -> None:
    names = [Column(f"c{at}", f"case{at}") for at in range(3)]
    columns = [*names, Column("w", "counterrevolutionary changes", "ns")]
    document = small(sections=(Section("s", (Table("t", "t", columns, [(*["a" * 30] * 3, 1_230_000_000)]),)),))
    lines = printed(document, 74).splitlines()
    at = lines.index("t")
    assert lines[at + 1].split() == ["counterrevolutionary"]
    assert lines[at + 2].split() == ["case0", "case1", "case2", "changes"]
    assert lines[at + 4].endswith("  1.23 s")


def test_a_table_that_cannot_be_narrowed_is_a_block_a_row() -> None:
    columns = [Column("kernel", "kernel"), *(Column(f"n{at}", f"heading{at}", "count") for at in range(9))]
    rows = [("nanoda", *range(9)), ("soko", *range(10, 19))]
    document = small(sections=(Section("s", (Table("t", "t", columns, rows),)),))
    lines = printed(document, 60).splitlines()
    at = lines.index("kernel: nanoda")
    assert lines[at + 1 : at + 3] == ["  heading0: 0", "  heading1: 1"]
    assert lines[at + 10] == "kernel: soko"
    assert "heading0" in next(line for line in printed(document, 200).splitlines() if line.startswith("kernel"))
    assert not any(line.startswith("kernel: ") for line in printed(document).splitlines()), "a pipe has room"


def test_a_column_that_is_empty_in_all_rows_is_left_out_of_a_terminal() -> None:
    columns = [Column("case", "case"), Column("level", "where the noise is")]
    document = small(sections=(Section("s", (Table("t", "t", columns, [("a", ""), ("b", "")]),)),))
    assert "where the noise is" not in printed(document, 200)
    assert "where the noise is" in printed(document), "whoever reads columns by number finds them all"


def test_texts_are_neither_emoji_nor_markup() -> None:
    columns = [Column("case", ":100: [bold]case[/bold]")]
    table = Table("t", ":100: title", columns, [("church:100:0 [red]x[/red]",)])
    document = small(title="church:100:0", answer=":warning: [red]", sections=(Section("s:100:", (table,)),))
    for width in (None, 20, 200):
        text = printed(document, width)
        assert text.count(":100:") == 5
        assert ":warning: [red]" in text
        assert "[bold]case[/bold]" in text


def test_counts_that_people_count_stand_in_full() -> None:
    from proofcost.reports.entries import figure_text

    shown = {value: figure_text(value, "count") for value in (0, 7, 4000, 4000.0, 99_999, 100_000, 12.5)}
    assert shown == {0: "0", 7: "7", 4000: "4,000", 99_999: "99,999", 100_000: "100 k", 12.5: "12.5"}
