"""A picture as SVG, PDF or PNG: the same data give the same bytes, whatever the user has set for matplotlib.

No date and no random id stands in the file, letters are outlines (SVG) or come with it (PDF), so that it looks the
same on every machine and in print.
"""

from __future__ import annotations

import io
import re
import warnings
from typing import Any

from proofcost.reports.document import Picture
from proofcost.reports.inert import inert_outside

EXTRA = "reports"
"""The extra that brings `matplotlib`."""

FORMATS = ("svg", "pdf", "png")

PNG_DOTS_PER_INCH = 200

SETTINGS: dict[str, Any] = {
    "svg.hashsalt": "proofcost",
    "svg.fonttype": "path",
    "pdf.fonttype": 42,
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans"],  # comes with matplotlib
    "font.size": 9.0,
    "axes.titlesize": 10.0,
    "legend.fontsize": 8.0,
    "legend.frameon": False,
    "text.parse_math": False,  # names come from whoever was measured
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
}

# Black of matplotlib's own is told as `no colour`, which a page in the dark could not turn.
INK = "#1a1a1a"
_INKED = (
    "text.color", "axes.edgecolor", "axes.labelcolor", "axes.titlecolor", "xtick.color", "ytick.color", "lines.color",
)  # fmt: skip

_METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": "proofcost"},
    "pdf": {"CreationDate": None, "Creator": "proofcost", "Producer": "proofcost"},
    "png": {"Software": None},
}

_TOLD = {"svg": ("Title", "Description"), "pdf": ("Title", "Subject"), "png": ("Title", "Description")}
"""Where each format keeps the question and the words, for who cannot see the picture."""

TEXT = 2000
"""Longest text in a file, in characters."""

_NOT_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(picture: Picture, suffix: str) -> bytes:
    """The file, `suffix` without its dot. Raises ImportError without matplotlib."""
    import matplotlib
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    out = io.BytesIO()
    with matplotlib.rc_context(), warnings.catch_warnings():
        # A name in letters that the font lacks, or labels that leave no room, make a poor picture, not none.
        warnings.simplefilter("ignore", UserWarning)
        matplotlib.rcdefaults()
        settings: Any = SETTINGS | dict.fromkeys(_INKED, INK)
        matplotlib.rcParams.update(settings)
        figure = Figure(figsize=(picture.width, picture.height), layout="constrained")
        FigureCanvasAgg(figure)
        picture.draw(figure)
        told = dict(zip(_TOLD[suffix], map(_inert, (picture.question, picture.text)), strict=True))
        figure.savefig(out, format=suffix, metadata=_METADATA[suffix] | told, dpi=PNG_DOTS_PER_INCH)
    if suffix == "svg":
        return _NOT_XML.sub("", out.getvalue().decode("utf-8", "replace")).encode("utf-8")
    return out.getvalue()


def _inert(text: str) -> str:
    return inert_outside(text, TEXT)
