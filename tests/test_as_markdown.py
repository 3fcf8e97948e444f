"""Markdown for a job's summary: never too long, the answer first, nobody's name is markup."""

import re
from collections.abc import Sequence

import pytest
from documents import COLUMNS, HOSTILE, hostile, large, small
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from proofcost.reports.as_markdown import MAX_BYTES, render, safe
from proofcost.reports.document import Column, Document, Entry, Estimate, Missing, Section, Table

PLAIN = {"heading_open", "heading_close", "paragraph_open", "paragraph_close", "inline", "bullet_list_open",
         "bullet_list_close", "list_item_open", "list_item_close", "table_open", "table_close", "thead_open",
         "thead_close", "tbody_open", "tbody_close", "tr_open", "tr_close", "th_open", "th_close", "td_open",
         "td_close"}  # fmt: skip
WORDS = {"text", "text_special", "strong_open", "strong_close", "softbreak"}


def kinds(markdown: str) -> tuple[set[str], set[str]]:
    """Kinds of blocks, and of what stands within them."""
    parsed = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(markdown)
    inner = {child.type for token in parsed for child in token.children or ()}
    return {token.type for token in parsed}, inner


def text_of(document: Document) -> str:
    return render(document).decode()


def test_the_answer_comes_first_and_marked_rows_before_others() -> None:
    rows = [(f"case {at}", at, at, Estimate(1.0, 0.9, 1.1, 0.95), "equivalent") for at in range(1, 40)]
    table = Table("cases", "Each case", COLUMNS, rows, lead=5, marked={20: "bad"})
    lines = text_of(small(sections=(Section("Cases", (table,)),))).splitlines()
    assert lines[:3] == ["## base against head", "", "**1 of 4 cases regressed.**"]
    body = [line.split("|")[1].strip() for line in lines if line.startswith("| case ")]
    assert body == ["case", "case 21", "case 1", "case 2", "case 3", "case 4"]
    assert "34 more rows of this table, not shown here." in lines


def test_every_kind_of_entry_is_shown_with_its_reason() -> None:
    text = text_of(small())
    assert "| a | 1.50 s | 20.0 MB | 1.100 (1.050 .. 1.160) | regressed |" in text
    assert "| c | ≥ 10.0 s | 1.23 MB | not measured: n too small | inconclusive |" in text
    assert kinds(text) == (PLAIN, {"text", "strong_open", "strong_close"})


@pytest.mark.parametrize(
    "document",
    [
        large(20_000),
        small(notes=["note " * 200] * 500),
        small(answer="x" * 200_000, title="<" * 100_000),
        small(sections=[Section("\U0001f600" * 500, (), ("\U0001f600" * 5000,))] * 300),
        small(
            sections=[Section("s", [Table("t", "&" * 900, [Column("a", "&" * 900)] * 30, [["&" * 900] * 30] * 9)] * 40)]
        ),
        small(
            sections=[
                Section("s", [Table("t", "t", COLUMNS, [("x",) * 5] * 3000, marked=dict.fromkeys(range(3000), "bad"))])
            ]
        ),
    ],
)
def test_it_is_never_too_long_and_says_what_it_leaves_out(document: Document) -> None:
    made = render(document)
    assert len(made) <= MAX_BYTES
    text = made.decode()
    assert text.startswith("## ")
    assert "**" in text
    shown = len(re.findall(r"^\| (?!---)", text, re.MULTILINE)) - text.count("| --- |") // max(1, text.count("| --- |"))
    left = [int(found) for found in re.findall(r"(\d+) more (?:row|line)", text)]
    assert left or shown >= 0
    assert kinds(text)[0] <= PLAIN


def test_all_rows_are_either_there_or_counted() -> None:
    rows: list[Sequence[Entry]] = [(f"case {at} " + "long " * 20, 1, 1, 1.0, "x") for at in range(3000)]
    text = text_of(small(sections=(Section("s", (Table("t", "t", COLUMNS, rows),)),)))
    shown = len(re.findall(r"^\| case \d", text, re.MULTILINE))
    (left,) = re.findall(r"(\d+) more rows of this table", text)
    assert shown > 300
    assert shown + int(left) == 3000


def test_a_hostile_name_is_only_text() -> None:
    blocks, inner = kinds(text_of(hostile()))
    assert blocks <= PLAIN
    assert inner <= WORDS
    text = text_of(hostile())
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "https://" not in text
    assert "@team" not in text


@given(st.text(max_size=40))
def test_no_text_leaves_its_cell(text: str) -> None:
    table = Table("t", "t", (Column("a", "a"), Column("b", "b")), ((text, "z"), (Missing(text), text)))
    blocks, inner = kinds(
        text_of(small(title=text, answer="a" + text, sections=(Section("s", (table,)),), notes=(text,)))
    )
    assert blocks <= PLAIN
    assert inner <= WORDS
    parsed = MarkdownIt("commonmark").enable("table").parse(text_of(small(sections=(Section("s", (table,)),))))
    assert sum(token.type == "td_open" for token in parsed) == 4


@pytest.mark.parametrize(
    "text",
    ["- item", "+ item", "= title", "# head", "> quote", "1. one", "```", "~~~", "* * *", "<!--", "[a]: b", "$x$"],
)
def test_no_note_begins_something(text: str) -> None:
    blocks, inner = kinds(f"{safe(text, None)}\n")
    assert blocks == {"paragraph_open", "inline", "paragraph_close"}
    assert inner <= WORDS


def test_hostile_is_hostile() -> None:
    assert {"html_inline", "code_inline"} & kinds("x " + HOSTILE)[1]
