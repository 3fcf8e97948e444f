"""Documents for the tests of formats: small, hostile, and large."""

from typing import Any

from proofcost.reports.document import Bound, Column, Document, Estimate, Missing, Picture, Section, Table

HOSTILE = (
    "<img src=x onerror=alert(1)>|`a`\n\x1b[31mred\x1b[0m\u202egnp.exe\x00 ../../etc @team https://evil.example #1"
)

COLUMNS = (
    Column("case", "case"),
    Column("wall", "wall", "ns", "wall_program"),
    Column("memory", "memory", "bytes"),
    Column("ratio", "ratio", "ratio", "ratio"),
    Column("finding", "finding"),
)


def draw_line(canvas: Any) -> None:
    axes = canvas.add_subplot()
    axes.plot([1, 2, 3], [1.0, 1.1, 1.05], marker="o", color="#0072b2", label=HOSTILE)
    axes.set_xlabel("points")
    axes.legend()


def small(**changed: Any) -> Document:
    """Each kind of entry once, and a picture."""
    rows = (
        ("a", 1_500_000_000, 20_000_000, Estimate(1.1, 1.05, 1.16, 0.95), "regressed"),
        ("b", 900_000_000, Missing("no cgroup"), Estimate(0.99, 0.97, 1.01, 0.95), "equivalent"),
        ("c", Bound(10_000_000_000), 1_234_567, Missing("n too small"), "inconclusive"),
        ("d", Missing("timed out"), "", Estimate(1.0, None, None, 0.95), "inconclusive"),
    )
    cases = Table("cases", "Each case", COLUMNS, rows, notes=("head over base",), marked={0: "bad"})
    ends = Table("ends", "How runs ended", (Column("end", "end"), Column("runs", "runs", "count")), (("accepted", 12),))
    picture = Picture("forest", "Is head slower?", "One case of four is 10 % slower.", draw_line)
    made: dict[str, Any] = {
        "kind": "compare",
        "title": "base against head",
        "answer": "1 of 4 cases regressed.",
        "sections": (Section("Cases", (cases, picture), ("What changed.",)), Section("Ends", (ends,))),
        "notes": ("a note",),
        "data": ("store: 8 records",),
    }
    return Document(**(made | changed))


def hostile() -> Document:
    """Somebody else's texts wherever a document has text."""
    column = Column("name", HOSTILE)
    table = Table(
        "t/../x", HOSTILE, (column,), ((HOSTILE,), ("=cmd()",), (Missing(HOSTILE),)), (HOSTILE,), marked={0: "bad"}
    )
    picture = Picture("../p", HOSTILE, HOSTILE, draw_line)
    return Document(
        "kernels", HOSTILE, HOSTILE, (Section(HOSTILE, (table, picture), (HOSTILE,)),), (HOSTILE,), (HOSTILE,)
    )


def large(count: int = 5000) -> Document:
    """Many rows; wall grows with the number of the row, in another order than they stand in."""
    rows = []
    for at in range(count):
        place = at * 7919 % count
        ratio = 0.8 + 0.4 * place / count
        estimate = Estimate(ratio, ratio * 0.98, ratio * 1.02, 0.95)
        wall = Missing("timed out") if place % 50 == 49 else 1_000_000 * (place + 1)
        finding = ("regressed", "equivalent", "improved")[place % 3]
        rows.append((f"case {place:04}", wall, 1_000_000 + place, estimate, finding))
    table = Table("cases", "Each case", COLUMNS, rows, lead=20)
    return Document("kernels", "Many cases", f"{count} cases.", (Section("Cases", (table,)),))
