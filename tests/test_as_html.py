"""The page as a file: it needs nothing else, lets nothing else in, and no name in it is markup."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest
from documents import hostile, large, small

from proofcost.reports import as_html
from proofcost.reports.as_pictures import INK, render
from proofcost.reports.document import Column, Document, Estimate, Section, Table
from proofcost.reports.inline_svg import inline
from proofcost.reports.whisker import WIDTH, span_of, whisker

VOID = {"meta", "link", "input", "br", "img"}


class Reader(HTMLParser):
    """Every element with its attributes, and the text of styles and scripts; complains of what is not closed."""

    def __init__(self, page: bytes) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, str] = {}
        self.open: list[str] = []
        self.feed(page.decode())
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] in ("style", "script"):
            self.raw[self.open[-1]] = self.raw.get(self.open[-1], "") + data


def page_of(document: Document) -> Reader:
    read = Reader(as_html.render(document))
    assert read.open == []
    return read


@pytest.mark.parametrize("document", [small(), hostile()], ids=["small", "hostile"])
def test_a_page_refers_to_nothing_outside(document: Document) -> None:
    read = page_of(document)
    for tag, attributes in read.elements:
        for name, value in attributes.items():
            assert name not in ("src", "srcset", "style", "action", "formaction", "ping"), (tag, attributes)
            assert not name.startswith("on"), (tag, attributes)
            if name in ("href", "xlink:href"):
                assert value is not None
                assert value.startswith(("#", "data:,")), (tag, attributes)
            elif value is not None and "url(" in value:
                assert re.fullmatch(r"url\(#[\w-]+\)", value), (tag, attributes)
    assert "//" not in re.sub(r"//.*", "", read.raw["style"])
    assert "@import" not in read.raw["style"]
    assert "url(" not in read.raw["style"]
    assert not re.search(r"fetch\(|XMLHttpRequest|import\(|innerHTML|eval\(|insertAdjacentHTML", read.raw["script"])
    tags = {tag for tag, _ in read.elements}
    assert not tags & {"img", "iframe", "object", "embed", "base", "form", "audio", "video", "foreignobject"}


def test_the_policy_knows_style_and_script_by_their_digests() -> None:
    read = page_of(small())
    (policy,) = [of["content"] for tag, of in read.elements if tag == "meta" and of.get("http-equiv")]
    assert policy is not None
    parts = dict(part.split(" ", 1) for part in policy.split("; "))
    assert parts["default-src"] == parts["base-uri"] == parts["form-action"] == "'none'"
    for name in ("style", "script"):
        digest = base64.b64encode(hashlib.sha256(read.raw[name].encode()).digest()).decode()
        assert parts[f"{name}-src"] == f"'sha256-{digest}'"
    assert "unsafe" not in policy


def test_the_policy_stands_before_all_that_it_rules() -> None:
    tags = [tag for tag, _ in page_of(small()).elements]
    assert tags.index("meta") < tags.index("style")
    assert tags[:4] == ["html", "head", "meta", "meta"]


def test_a_table_says_what_it_is_to_who_cannot_see_it() -> None:
    read = page_of(small())
    assert [of["scope"] for tag, of in read.elements if tag == "th"] == ["col"] * 7
    assert sum(tag == "caption" for tag, _ in read.elements) == 2
    assert dict(read.elements)["html"] == {"lang": "en"}
    assert all("alt" not in of for _, of in read.elements)
    (picture,) = [of for tag, of in read.elements if tag == "svg" and of.get("role") == "img"]
    ids = [of["id"] for _, of in read.elements if "id" in of]
    assert len(ids) == len(set(ids))
    assert {picture["aria-labelledby"], picture["aria-describedby"]} <= set(ids)


def test_the_same_picture_twice_has_ids_of_its_own_each_time() -> None:
    picture = small().pictures()[0]
    read = page_of(small(sections=(Section("s", (picture, picture)),)))
    ids = [of["id"] for _, of in read.elements if "id" in of]
    assert len(ids) == len(set(ids))
    used = {str(of[name])[1:] for tag, of in read.elements for name in ("href",) if tag == "use"}
    assert used
    assert used <= set(ids)


def test_a_chart_takes_the_pages_ink_and_has_no_style_of_its_own() -> None:
    svg = inline(render(small().pictures()[0], "svg"), "p", "a < b", "words & more")
    assert "style=" not in svg
    assert INK not in svg
    assert 'stroke="currentColor"' in svg
    assert '<title id="p-title">a &lt; b</title><desc id="p-desc">words &amp; more</desc>' in svg
    assert "<metadata" not in svg
    assert "xmlns:xlink" not in svg
    assert "#0072b2" in svg, "its own colours stay"


@pytest.mark.parametrize("count", [0, 1, 5000])
def test_a_page_has_every_row(count: int) -> None:
    assert as_html.render(large(count)).count(b"<tr><td") == count


def circle(svg: str) -> float:
    found = re.search(r'<circle cx="([\d.]+)"', svg)
    assert found
    return float(found.group(1))


def test_a_whisker_stands_on_a_logarithmic_axis_with_1_in_its_middle() -> None:
    same, twice, half = (circle(whisker(Estimate(ratio, ratio, ratio, 0.95), 4.0)) for ratio in (1.0, 2.0, 0.5))
    assert same == WIDTH / 2
    assert twice - same == same - half > 20
    assert whisker(Estimate(1.0, 0.9, 1.1, 0.95), 4.0).count("<path") == 0
    assert whisker(Estimate(1.0, None, 1.1, 0.95), 4.0).count("<path") == 1, "an open end is an arrow"
    assert whisker(Estimate(1.0, 0.01, 1e9, 0.95), 4.0).count("<path") == 2, "and so is one beyond the axis"
    assert whisker(Estimate(1.0, None, None, 0.95), 4.0) == ""
    assert whisker(Estimate(-1.0, -2.0, 1.0, 0.95), 4.0) == ""


def test_the_axis_of_a_column_reaches_as_far_as_its_intervals() -> None:
    assert span_of([Estimate(1.1, 1.0, 1.5, 0.95), Estimate(0.5, 0.25, 0.8, 0.95), "x", 3]) == 4.0
    assert span_of([]) == 1.05
    assert span_of([Estimate(1.0, 1e-9, 1e9, 0.95)]) == 16.0


def test_only_ratios_with_intervals_have_whiskers() -> None:
    columns = (Column("a", "a", "ns"), Column("b", "b", "ratio"), Column("c", "c", "ratio"))
    estimate = Estimate(1.2, 1.1, 1.3, 0.95)
    table = Table("t", "t", columns, ((estimate, estimate, 1.2),))
    html = as_html.render(small(sections=(Section("s", (table,)),))).decode()
    assert html.count('<svg class="whisker"') == 1
    assert '1.200 <small>(1.100 .. 1.300)</small><svg class="whisker"' in html


def test_names_in_our_own_texts_are_set_as_code_and_nothing_else_is_markup() -> None:
    assert as_html.marked("a `b < c` & d") == "a <code>b &lt; c</code> &amp; d"
