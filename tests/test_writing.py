"""Which file a name makes, that it is whole or not there, and that all formats carry the same numbers."""

import json
from pathlib import Path

import pytest
from documents import hostile, small
from small_files import room_for

from proofcost.reports import as_json, writing
from proofcost.reports.document import Section
from proofcost.reports.writing import OutputError, check_path, write, write_folder


def test_the_suffix_chooses_the_format(tmp_path: Path) -> None:
    begins = {
        ".html": b"<!doctype html>", ".md": b"## base", ".json": b"{", ".csv": b"case,wall,", ".parquet": b"PAR1",
        ".svg": b"<?xml", ".pdf": b"%PDF", ".png": b"\x89PNG",
    }  # fmt: skip
    assert set(begins) == set(writing.SUFFIXES)
    for suffix, begin in begins.items():
        path = tmp_path / f"out{suffix}"
        assert write(small(), path).paths == (path,)
        assert path.read_bytes().startswith(begin), suffix
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(f"out{suffix}" for suffix in begins)


@pytest.mark.parametrize("name", ["out.txt", "out.HTML", "out.html.gz", "out.svgz"])
def test_another_suffix_is_one_line_that_names_those_there_are(name: str, tmp_path: Path) -> None:
    with pytest.raises(OutputError) as refused:
        check_path(tmp_path / name)
    assert str(refused.value) == (
        f"-o {tmp_path / name}: give a folder, or a name that ends in "
        ".html, .md, .json, .csv, .parquet, .svg, .pdf or .png"
    )


def test_a_folder_that_is_not_there_is_named_before_anything_is_computed(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"there is no folder .*/none; make it first"):
        check_path(tmp_path / "none" / "out.html")


def test_a_name_with_escapes_is_harmless_in_the_message(tmp_path: Path) -> None:
    with pytest.raises(OutputError) as refused:
        check_path(tmp_path / "\x1b[31m\n.txt")
    assert "\\x1b[31m\\x0a.txt" in str(refused.value)


def test_the_first_of_several_tables_is_said_to_be_that(tmp_path: Path) -> None:
    said = write(small(), tmp_path / "out.csv").said
    assert said == (f"{tmp_path / 'out.csv'} holds the first of 2 tables, “Each case”; all of them: -o FOLDER",)


def test_several_pictures_are_a_file_each_and_said(tmp_path: Path) -> None:
    (section, *_) = small().sections
    table, picture = section.blocks
    made = write(small(sections=(Section("s", (picture, table, picture)),)), tmp_path / "out.svg")
    assert [path.name for path in made.paths] == ["out-forest.svg", "out-forest-2.svg"]
    assert made.said[0].startswith("2 pictures, a file each: ")
    assert not (tmp_path / "out.svg").exists()


@pytest.mark.parametrize(("suffix", "what"), [(".csv", "table"), (".parquet", "table"), (".svg", "picture")])
def test_what_a_report_does_not_have_is_said(suffix: str, what: str, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=f"this report has no {what}; write "):
        write(small(sections=()), tmp_path / f"out{suffix}")
    assert list(tmp_path.iterdir()) == []


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")
    with room_for(10), pytest.raises(OSError, match="File too large") as caught:
        write(small(), path)
    assert caught.value.filename == str(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_report_that_cannot_be_drawn_leaves_nothing(tmp_path: Path) -> None:
    table = small().tables()[0]
    broken = small(sections=(Section("s", (type(table)("k", "t", table.columns, [("one entry",)]),)),))
    with pytest.raises(ValueError, match="table k: row 0 has 1 entries for 5 columns"):
        write(broken, tmp_path / "folder")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_has_a_home_page_and_everything_beside_it(tmp_path: Path) -> None:
    made = write_folder([small(), hostile(), small()], tmp_path / "out")
    names = [path.name for path in made.paths]
    assert sorted(names) == sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names[-1] == "index.html"
    assert names[:5] == [
        "compare.json", "compare--cases.csv", "compare--ends.csv", "compare--forest.svg", "compare.html",
    ]  # fmt: skip
    assert {"compare-2.html", "kernels.html", "kernels--t-x.csv", "kernels--p.svg"} <= set(names)
    home = (tmp_path / "out/index.html").read_text()
    assert all(f'href="{name}"' in home for name in names[:-1])
    assert '<a href="index.html">all reports</a>' in (tmp_path / "out/kernels.html").read_text()


def test_no_report_takes_the_home_page_s_place_or_another_s_file(tmp_path: Path) -> None:
    table = small().tables()[0]
    odd = small(kind="INDEX", sections=(Section("s", (table, table, small().pictures()[0])),))
    names = [path.name for path in write_folder([odd, odd], tmp_path / "out").paths]
    assert len(names) == len(set(names)) == 11
    assert "index-2--cases-2.csv" in names
    assert "2 reports" in (tmp_path / "out/index.html").read_text()


def test_a_folder_is_written_again_over_itself_but_never_over_anything_else(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    write(small(), folder)
    (folder / "mine.txt").write_text("kept")
    write(small(answer="another"), folder)
    assert "another" in (folder / "index.html").read_text()
    assert (folder / "mine.txt").read_text() == "kept"
    (folder / "index.html").write_text("<p>somebody's</p>")
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(OutputError, match="is there, and no report wrote it"):
        write(small(), folder)
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


def test_every_format_of_the_same_document_is_the_same_bytes(tmp_path: Path) -> None:
    for suffix in writing.SUFFIXES:
        one, other = tmp_path / f"one{suffix}", tmp_path / f"other{suffix}"
        write(small(), one)
        write(small(), other)
        assert one.read_bytes() == other.read_bytes(), suffix


def test_json_tells_a_value_from_a_bound_and_from_nothing() -> None:
    rows = json.loads(as_json.render(small()))["sections"][0]["blocks"][0]["rows"]
    assert rows[0]["wall"] == 1_500_000_000
    assert rows[0]["ratio"] == {"value": 1.1, "low": 1.05, "high": 1.16, "confidence": 0.95}
    assert rows[1]["memory"] == {"missing": "no cgroup"}
    assert rows[2]["wall"] == {"at_least": 10_000_000_000}
    assert rows[3]["ratio"] == {"value": 1.0, "low": None, "high": None, "confidence": 0.95}


def test_a_dash_is_no_folder() -> None:
    with pytest.raises(OutputError, match="leave -o out for stdout"):
        check_path("-")
