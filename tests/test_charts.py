"""Charts: what stands where, for whom it can be read, and that nothing in the data can spoil a picture."""

from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import pytest
from documents import HOSTILE
from matplotlib.figure import Figure

from proofcost.reports import as_pictures, chart_style, charts
from proofcost.reports.document import Estimate, Picture

PAPERS = ("#ffffff", "#15181c")


def axes() -> Any:
    return Figure().add_subplot()


def luminance(colour: str) -> float:
    """WCAG 2.2, relative luminance."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    bright, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize(("colour", "paper"), list(product((*chart_style.COLOURS, chart_style.GREY), PAPERS)))
def test_every_colour_can_be_seen_on_white_and_in_the_dark(colour: str, paper: str) -> None:
    assert contrast(colour, paper) >= 3


def test_black_on_white_has_the_contrast_that_the_standard_says() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


def test_no_two_of_two_hundred_look_alike_nor_neighbours_in_grey() -> None:
    looks = [chart_style.look(at) for at in range(210)]
    assert len(set(looks)) == 210
    for one, other in pairwise(looks):
        assert one.mark != other.mark
        assert one.line != other.line


def test_twice_and_half_stand_equally_far_from_the_same() -> None:
    made = axes()
    chart_style.ratio_axis(made, "x", [0.5, 2.0])
    place = made.transData.transform
    half, same, twice = (place((ratio, 0))[0] for ratio in (0.5, 1.0, 2.0))
    assert twice - same == pytest.approx(same - half)
    assert [text.get_text() for text in made.get_xticklabels()] == ["0.5", "0.7", "1", "1.5", "2"]


def test_a_forest_shows_values_intervals_band_and_open_ends() -> None:
    made = axes()
    effects = [
        charts.Effect("a", Estimate(1.1, 1.05, 1.16, 0.95), "bad"),
        charts.Effect("b", Estimate(1.0, None, 1.04, 0.95)),
        charts.Effect("never", Estimate(0.0, 0.0, 0.0, 0.95)),
    ]
    charts.forest(made, effects, 0.02)
    lines = [(list(line.get_xdata()), list(line.get_ydata())) for line in made.lines]
    assert ([1.05, 1.16], [0, 0]) in lines
    assert ([1.1], [0]) in lines
    left = made.get_xlim()[0]
    assert ([left, 1.04], [1, 1]) in lines
    assert ([left], [1]) in lines, "the arrow at the open end"
    (band,) = made.patches
    assert (band.get_x(), band.get_x() + band.get_width()) == (pytest.approx(1 / 1.02), pytest.approx(1.02))
    assert [text.get_text() for text in made.get_yticklabels()] == ["a", "b"]
    assert "1.100 (1.050 .. 1.160)" in [text.get_text() for text in made.texts]


def test_a_cactus_counts_what_was_solved_and_says_of_how_many() -> None:
    made = axes()
    charts.cactus(made, [charts.Solved("k", [3e9, 1e9, 2e9], 5)], limit=10e9)
    line = made.lines[0]
    assert (list(line.get_xdata()), list(line.get_ydata())) == ([1, 2, 3], [1e9, 2e9, 3e9])
    assert made.get_legend().get_texts()[0].get_text() == "k: 3 of 5"
    assert made.get_ylim()[1] > 10e9


def test_a_profile_at_1_is_how_often_a_kernel_is_best() -> None:
    made = axes()
    charts.profile(made, [charts.Factors("k", [1.0, 4.0, 1.0], 4)])
    xs, ys = made.lines[0].get_data()
    assert max(y for x, y in zip(xs, ys, strict=True) if x == 1) == 0.5
    assert ys[-1] == 0.75


def test_what_did_not_end_stands_on_the_rail_beyond_all_values() -> None:
    made = axes()
    charts.scatter(made, [(1e9, 2e9), (5e9, None), (None, 3e9), (None, None)], ("a", "b"), limit=10e9)
    rail = made.get_xlim()[1]
    assert rail > 10e9
    assert [5e9] in [list(line.get_xdata()) for line in made.lines if list(line.get_ydata()) == [rail]]
    assert "1 solved by neither" in [text.get_text() for text in made.texts]


def test_a_change_is_marked_between_its_points_with_its_ratio() -> None:
    made = axes()
    found = [charts.Segment(0, 2, 100.0, 99.0, 101.0), charts.Segment(3, 4, 110.0)]
    charts.segments(made, [100, 101, 99, 110, None], found, list("abcde"), "count")
    assert "1.100" in [text.get_text() for text in made.texts]
    assert [2.5, 2.5] in [list(line.get_xdata()) for line in made.lines]


def test_ticks_say_their_unit_without_noughts() -> None:
    assert [chart_style.tick_text(value, "ns") for value in (1e9, 1.5e9, 2e8, 0)] == ["1 s", "1.5 s", "200 ms", "0 s"]
    assert chart_style.tick_text(1e9, "bytes") == "1 GB"
    assert chart_style.tick_text(2e13, "ns") == "20,000 s"
    assert chart_style.tick_text(100.0, "count") == "100"


DRAWN: dict[str, Callable[[Any], None]] = {
    "forest": lambda made: charts.forest(made, [charts.Effect(HOSTILE, Estimate(1.1, 1.0, 1.2, 0.95))], 0.02),
    "cactus": lambda made: charts.cactus(made, [charts.Solved(HOSTILE, [1e9, 2e9], 3)]),
    "profile": lambda made: charts.profile(made, [charts.Factors(HOSTILE, [1.0, 3.0], 3)]),
    "scatter": lambda made: charts.scatter(made, [(1e9, 2e9), (None, 1e9)], (HOSTILE, HOSTILE)),
    "ranks": lambda made: charts.ranks(made, [charts.Rank(HOSTILE, 1, 2, HOSTILE)]),
    "segments": lambda made: charts.segments(made, [1.0, 2.0], [charts.Segment(0, 1, 1.5)], [HOSTILE, "$x$"]),
    "exceedance": lambda made: charts.exceedance(
        made,
        [charts.Curve(HOSTILE, [1e9, 2e9], [0.5, 0.0], [0.4, 0.0], [0.6, 0.1])],
        target=0.01,
        limits=[(1e9, HOSTILE)],
    ),
    "rates": lambda made: charts.rates(made, [charts.Rate(HOSTILE, 1, 20, 0.001, 0.25)], 0.05),
}


@pytest.mark.parametrize("name", DRAWN)
def test_a_chart_is_the_same_bytes_each_time_and_holds_no_control(name: str) -> None:
    picture = Picture(name, "?", "", lambda canvas: DRAWN[name](canvas.add_subplot()))
    svg = as_pictures.render(picture, "svg")
    assert svg == as_pictures.render(picture, "svg")
    assert b"\x1b" not in svg
    assert b"\xe2\x80\xae" not in svg
    assert b"<img" not in svg


def test_a_file_tells_its_question_and_its_words() -> None:
    picture = Picture("k", "Who <wins>?", "Nobody \x1b does.", lambda canvas: DRAWN["ranks"](canvas.add_subplot()))
    svg = as_pictures.render(picture, "svg").decode()
    assert "<title>Who &lt;wins&gt;?</title>" in svg
    assert "Nobody \\x1b does." in svg
    assert b"Who <wins>?" in as_pictures.render(picture, "pdf")
    assert b"Nobody \\x1b does." in as_pictures.render(picture, "png")


EMPTY: tuple[Callable[[Any], None], ...] = (
    lambda made: charts.forest(made, []),
    lambda made: charts.cactus(made, [charts.Solved("k", [], 3)]),
    lambda made: charts.profile(made, [charts.Factors("k", [], 0)]),
    lambda made: charts.scatter(made, [(None, None)], ("a", "b")),
    lambda made: charts.ranks(made, []),
    lambda made: charts.segments(made, [None], [], ["a"]),
    lambda made: charts.exceedance(made, []),
    lambda made: charts.rates(made, []),
)


@pytest.mark.parametrize("draw", EMPTY)
def test_a_chart_of_nothing_says_so(draw: Callable[[Any], None]) -> None:
    assert as_pictures.render(Picture("k", "?", "", lambda canvas: draw(canvas.add_subplot())), "svg")


@pytest.mark.parametrize(
    "draw",
    [
        lambda made: charts.forest(made, [charts.Effect("a", Estimate(1e300, 1e-300, 1e305, 0.95))]),
        lambda made: charts.cactus(made, [charts.Solved("a", [0, 1e-9, 1e18], 3)]),
        lambda made: charts.segments(
            made, [0.0, 0.0], [charts.Segment(0, 0, 0.0), charts.Segment(1, 1, 0.0)], ["a", "b"]
        ),
        lambda made: charts.forest(made, [charts.Effect(str(at), Estimate(1.0, 1.0, 1.0, 0.95)) for at in range(500)]),
    ],
)
def test_extreme_values_draw_too(draw: Callable[[Any], None]) -> None:
    assert as_pictures.render(Picture("k", "?", "", lambda canvas: draw(canvas.add_subplot())), "png")


def test_a_users_own_settings_change_nothing() -> None:
    import matplotlib

    picture = Picture("k", "?", "", lambda canvas: DRAWN["forest"](canvas.add_subplot()))
    before = as_pictures.render(picture, "svg")
    with matplotlib.rc_context({"font.size": 20, "axes.facecolor": "red"}):
        assert as_pictures.render(picture, "svg") == before


@pytest.mark.parametrize(
    ("values", "unit", "texts"),
    [
        ([99.5e6, 100e6, 100.5e6], "ns", ["99.5 ms", "100 ms", "100.5 ms"]),
        ([0.0, 999.6e6, 1e9], "ns", ["0 s", "999.6 ms", "1 s"]),
        ([0.0, 0.05, 1.0], "share", ["0 %", "5 %", "100 %"]),
        ([1.0001e6, 1.0002e6], "", ["1,000,100", "1,000,200"]),
    ],
)
def test_marks_on_an_axis_are_told_apart(values: list[float], unit: str, texts: list[str]) -> None:
    assert chart_style.tick_texts(values, unit) == texts


def test_a_level_that_never_moved_is_no_mountain() -> None:
    made = axes()
    charts.segments(made, [1e8, 1e8 + 1], [charts.Segment(0, 1, 1e8)], ["a", "b"])
    low, high = made.get_ylim()
    assert (low, high) == (pytest.approx(0.98e8), pytest.approx(1.02e8))
