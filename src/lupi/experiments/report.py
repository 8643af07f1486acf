"""Self-contained HTML reports: words, tables, figures as SVG, and every setting.

One file without external addresses, light or dark as the reader's device is, for a phone and for
paper. Figures take their colours from the page, so that they follow it.
"""

from __future__ import annotations

import html
import io
import platform
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

__all__ = [
    "Curve",
    "Details",
    "Figure",
    "Prose",
    "Report",
    "Section",
    "Table",
    "drawing",
    "learning_curves",
    "series",
    "versions",
]

# Ink, faint ink and grid of a figure; then its series: (light, dark). The light value is what
# matplotlib draws with, and what a figure's own file has; in the page each becomes a variable.
# Series are told apart by markers and dashes too.
_COLOURS = {
    "ink": ("#1c2330", "#e6e9ef"),
    "faint": ("#5b6472", "#a3adbb"),
    "grid": ("#d5dae1", "#38404d"),
    "s0": ("#44506a", "#b9c3d6"),
    "s1": ("#0b62c4", "#6db3ff"),
    "s2": ("#b34d00", "#ffab66"),
    "s3": ("#00754f", "#54d3a4"),
    "s4": ("#8a3c9b", "#dca0ea"),
    "s5": ("#b3261e", "#ff8a80"),
    "s6": ("#7a6200", "#e3c558"),
    "s7": ("#006d7a", "#5fd0df"),
}
_MARKERS = "osD^vPX*"
_DASHES: tuple[Any, ...] = ("-", "-", "-", "-", "--", ":", "-.", (0, (5, 1, 1, 1)))
_N_SERIES = len(_COLOURS) - 3


def series(number: int) -> dict[str, Any]:
    """Colour, marker and dashes of a series, as arguments of ``Axes.plot``.

    Parameters
    ----------
    number : int
        From 0; after the eighth they come round again.

    Returns
    -------
    dict
    """
    k = number % _N_SERIES
    return {"color": _COLOURS[f"s{k}"][0], "marker": _MARKERS[k], "linestyle": _DASHES[k]}


# ---- Blocks -------------------------------------------------------------------------------------


def _inline(text: str) -> str:
    """Escaped text; `code` and **strong** are the only marks."""
    text = html.escape(text, quote=False)
    text = re.sub(r"`([^`]+)`", r"<code>\1</code>", text)
    return re.sub(r"\*\*(.+?)\*\*(?!\*)", r"<strong>\1</strong>", text)


@dataclass(frozen=True)
class Prose:
    """Paragraphs, separated by empty lines; lines that start with "- " are a list.

    Attributes
    ----------
    text : str
        Backquotes mark code, double asterisks what is strong; nothing else is markup.
    """

    text: str

    def html(self) -> str:
        """As HTML."""
        out = []
        for block in re.split(r"\n\s*\n", self.text.strip()):
            items = [" ".join(item.split()) for item in re.split(r"^- ", block, flags=re.M)]
            if not items[0] and len(items) > 1:
                shown = "".join(f"<li>{_inline(item)}</li>" for item in items[1:])
                out.append(f"<ul>{shown}</ul>")
            else:
                out.append(f"<p>{_inline(' '.join(block.split()))}</p>")
        return "\n".join(out)


@dataclass(frozen=True)
class Table:
    """A table; cells that are numbers, or look like them, stand to the right.

    Attributes
    ----------
    columns : sequence of str
    rows : sequence of sequences
    caption : str
    strong : int or None
        Row to stress.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Any]]
    caption: str = ""
    strong: int | None = None

    def html(self) -> str:
        """As HTML."""
        body = []
        for k, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise ValueError(f"row {k} has {len(row)} cells, and there are {len(self.columns)}")
            cells = [
                f'<th scope="row">{_inline(_shown(cell))}</th>'
                if number == 0
                else f"<td{_numeric(cell)}>{_inline(_shown(cell))}</td>"
                for number, cell in enumerate(row)
            ]
            mark = ' class="strong"' if k == self.strong else ""
            body.append(f"<tr{mark}>{''.join(cells)}</tr>")
        aligned = [
            _numeric(*(row[number] for row in self.rows)) if number else ""
            for number in range(len(self.columns))
        ]
        head = "".join(
            f'<th scope="col"{align}>{_inline(name)}</th>'
            for name, align in zip(self.columns, aligned, strict=True)
        )
        caption = f"<caption>{_inline(self.caption)}</caption>" if self.caption else ""
        short = ' class="short"' if len(body) <= 12 else ""  # not cut between pages of paper
        return (
            f'<div class="wide"><table{short}>{caption}<thead><tr>{head}</tr></thead>'
            f"<tbody>{''.join(body)}</tbody></table></div>"
        )


def _shown(cell: Any) -> str:
    if cell is None:
        return "–"
    if isinstance(cell, bool) or not isinstance(cell, float):
        return str(cell)
    return f"{cell:.4g}"


def _numeric(*cells: Any) -> str:
    """The class of cells that are all numbers or dashes."""
    numbers = [re.fullmatch(r"[-−+±<>≥≤~/ \d.,%eE–to]*", _shown(cell)) for cell in cells]
    return ' class="number"' if all(numbers) else ""


@dataclass(frozen=True)
class Figure:
    """A drawing.

    Attributes
    ----------
    name : str
        Of its file, without ending; unique in a report.
    svg : str
        The drawing, a whole SVG file.
    caption : str
    alt : str
        What is to be seen, for those who do not see it.
    """

    name: str
    svg: str
    caption: str = ""
    alt: str = ""

    @classmethod
    def from_matplotlib(cls, figure: Any, name: str, caption: str = "", alt: str = "") -> Figure:
        """From a figure drawn within :func:`drawing`; closes it.

        Parameters
        ----------
        figure : matplotlib Figure
        name, caption, alt : str

        Returns
        -------
        Figure
        """
        import matplotlib as mpl
        from matplotlib import pyplot as plt

        text = io.StringIO()
        # The names of clip paths and markers come from this salt: the same every time.
        with mpl.rc_context({"svg.hashsalt": name}):
            figure.savefig(text, format="svg", metadata={"Date": None})
        plt.close(figure)
        return cls(name, text.getvalue(), caption, alt)

    def html(self) -> str:
        """As HTML."""
        svg = self.svg[self.svg.index("<svg") :]
        svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
        svg = re.sub(r'\s+xmlns(:\w+)?="[^"]*"', "", svg)
        svg = svg.replace("xlink:href", "href")
        # matplotlib counts the parts of each figure from 1; in a page their names must differ.
        svg = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{html.escape(self.name)}-", svg)
        svg = re.sub(r'(<svg[^>]*?)\s+width="[^"]*"', r"\1", svg, count=1)
        svg = re.sub(r'(<svg[^>]*?)\s+height="[^"]*"', r"\1", svg, count=1)
        label = html.escape(self.alt or self.caption or self.name)
        svg = svg.replace("<svg", f'<svg role="img" aria-label="{label}"', 1)
        for variable, (light, _) in _COLOURS.items():
            svg = re.sub(light, f"var(--{variable})", svg, flags=re.I)
        caption = f"<figcaption>{_inline(self.caption)}</figcaption>" if self.caption else ""
        return f'<figure id="figure-{html.escape(self.name)}">{svg}{caption}</figure>'


@dataclass(frozen=True)
class Details:
    """Blocks that are folded away under a title; open on paper.

    Attributes
    ----------
    title : str
    blocks : sequence of blocks
    """

    title: str
    blocks: Sequence[Any]

    def html(self) -> str:
        """As HTML."""
        inner = "\n".join(block.html() for block in self.blocks)
        return f"<details><summary>{_inline(self.title)}</summary>{inner}</details>"


@dataclass(frozen=True)
class Section:
    """A heading and what stands below it.

    Attributes
    ----------
    title : str
    blocks : sequence of Prose, Table, Figure or Details
    """

    title: str
    blocks: Sequence[Any]

    @property
    def anchor(self) -> str:
        """Its name in addresses."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")

    def html(self) -> str:
        """As HTML."""
        inner = "\n".join(block.html() for block in self.blocks)
        return f'<section id="{self.anchor}"><h2>{_inline(self.title)}</h2>\n{inner}\n</section>'


def _figures(blocks: Sequence[Any]) -> Iterator[Figure]:
    for block in blocks:
        if isinstance(block, Figure):
            yield block
        elif isinstance(block, Details | Section):
            yield from _figures(block.blocks)


# ---- The page -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Report:
    """A page.

    Attributes
    ----------
    title : str
    answer : str
        What is to be known first, as in :class:`Prose`.
    sections : sequence of Section
    settings : mapping
        Every setting, version and seed, by name.
    tone : {"good", "open", "bad"}
        Colour of the answer's edge.
    """

    title: str
    answer: str
    sections: Sequence[Section] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    tone: str = "open"

    def html(self) -> str:
        """The page, one HTML file.

        Returns
        -------
        str
        """
        names = [figure.name for figure in _figures(self.sections)]
        if len(set(names)) < len(names):
            raise ValueError(f"figures must have different names; got {names}")
        sections = list(self.sections)
        if self.settings:
            rows = [(name, _setting(value)) for name, value in self.settings.items()]
            sections.append(Section("Settings", [Table(["setting", "value"], rows)]))
        links = "".join(
            f'<a href="#{section.anchor}">{_inline(section.title)}</a>' for section in sections
        )
        body = "\n".join(section.html() for section in sections)
        written = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
        title = html.escape(self.title)
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n'
            f'<title>{title}</title>\n<link rel="icon" href="data:,">\n'
            f"<style>{_style()}</style>\n</head>\n<body>\n"
            f'<main>\n<header><h1>{title}</h1></header>\n<div class="answer {self.tone}">'
            f"{Prose(self.answer).html()}</div>\n"
            f"<nav>{links}</nav>\n"
            f"{body}\n<footer>Written by lupi {versions()['lupi']} on {written}.</footer>\n"
            f"</main>\n<script>{_SCRIPT}</script>\n</body>\n</html>\n"
        )

    def write(self, folder: str | Path) -> Path:
        """Write ``index.html``, and each figure under ``figures``.

        Parameters
        ----------
        folder : path-like

        Returns
        -------
        Path
            Of the page.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        page = folder / "index.html"
        text = self.html()
        for figure in _figures(self.sections):
            (folder / "figures").mkdir(exist_ok=True)
            target = folder / "figures" / f"{figure.name}.svg"
            target.write_text(figure.svg, encoding="utf-8")
        # A page that is being read is replaced whole.
        part = folder / "index.html.part"
        part.write_text(text, encoding="utf-8")
        part.replace(page)
        return page


def _setting(value: Any) -> str:
    if isinstance(value, str) or not isinstance(value, Sequence):
        return str(value)
    return ", ".join(str(one) for one in value)


def versions() -> dict[str, str]:
    """Versions of lupi, of what it builds on, and of Python; and the machine.

    Returns
    -------
    dict
    """
    found = {}
    for name in ("lupi", "numpy", "scipy", "scikit-learn", "joblib", "pandas", "matplotlib"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return {**found, "python": platform.python_version(), "machine": platform.platform()}


# Folded parts open for printing, and close again.
_SCRIPT = (
    'addEventListener("beforeprint",()=>document.querySelectorAll("details").forEach('
    'd=>{d.dataset.was=d.open?"1":"";d.open=true}));'
    'addEventListener("afterprint",()=>document.querySelectorAll("details").forEach('
    'd=>{d.open=d.dataset.was==="1"}));'
)


def _style() -> str:
    light = "".join(f"--{name}:{pair[0]};" for name, pair in _COLOURS.items())
    dark = "".join(f"--{name}:{pair[1]};" for name, pair in _COLOURS.items())
    return (
        f":root{{color-scheme:light;{light}{_PAGE_LIGHT}}}"
        "@media screen and (prefers-color-scheme:dark)"
        f"{{:root{{color-scheme:dark;{dark}{_PAGE_DARK}}}}}{_CSS}"
    )


_PAGE_LIGHT = "--page:#ffffff;--panel:#f5f7fa;--good:#00754f;--open:#0b62c4;--bad:#b34d00;"
_PAGE_DARK = "--page:#14181f;--panel:#1e242e;--good:#54d3a4;--open:#6db3ff;--bad:#ffab66;"
_CSS = """
*{box-sizing:border-box}
html{-webkit-text-size-adjust:100%;scroll-behavior:smooth}
body{margin:0;background:var(--page);color:var(--ink);
font:1rem/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",sans-serif}
main{max-width:54rem;margin:0 auto;padding:1.5rem 1.25rem 3rem}
h1{font-size:1.7rem;line-height:1.2;margin:.2rem 0 1.1rem;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:2.4rem 0 .6rem;padding-top:.9rem;border-top:1px solid var(--grid)}
p,ul{margin:.55rem 0;overflow-wrap:anywhere}
ul{padding-left:1.3rem}
code{font:.9em ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
background:var(--panel);padding:.05em .3em;border-radius:.25em;overflow-wrap:anywhere}
.answer{background:var(--panel);border-left:.3rem solid var(--open);border-radius:.3rem;
padding:.6rem 1.1rem;font-size:1.06rem}
.answer p:first-child{font-size:1.2rem;line-height:1.4;margin-top:.4rem}
.answer.good{border-color:var(--good)}
.answer.bad{border-color:var(--bad)}
nav{display:flex;flex-wrap:wrap;gap:.3rem 1.1rem;margin:1.1rem 0 0;font-size:.93rem}
nav a{color:var(--open);text-decoration:none}
nav a:hover{text-decoration:underline}
.wide{overflow-x:auto;margin:.8rem 0}
table{border-collapse:collapse;font-size:.93rem;min-width:min(100%,20rem)}
caption{text-align:left;color:var(--faint);padding-bottom:.35rem}
th code,td code{overflow-wrap:normal;white-space:nowrap}
th,td{text-align:left;vertical-align:top;padding:.32rem .9rem .32rem 0;
border-bottom:1px solid var(--grid)}
thead th{color:var(--faint);font-weight:600;border-bottom:2px solid var(--grid)}
tbody th{font-weight:400;min-width:7rem}
.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
thead .number{white-space:normal}
.strong th,.strong td{font-weight:650}
figure{margin:1rem 0;break-inside:avoid}
figure svg{display:block;width:100%;height:auto;max-width:40rem}
figure svg text{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Noto Sans",
sans-serif!important}
figcaption{color:var(--faint);font-size:.93rem;margin-top:.4rem}
details{margin:.8rem 0;border:1px solid var(--grid);border-radius:.3rem;padding:.1rem .9rem}
summary{cursor:pointer;padding:.45rem 0;font-weight:600}
footer{margin-top:3rem;color:var(--faint);font-size:.87rem}
#settings td{overflow-wrap:anywhere}
@media (max-width:36rem){
main{padding:1rem .9rem 2rem}
h1{font-size:1.4rem}
.answer{padding:.5rem .8rem;font-size:1rem}
.answer p:first-child{font-size:1.1rem}
th,td{padding-right:.7rem}
}
@media print{
@page{margin:16mm}
body{font-size:10pt}
main{max-width:none;padding:0}
nav{display:none}
h2{break-after:avoid}
tr,table.short,.answer{break-inside:avoid}
figure svg{max-width:13cm}
.wide{overflow:visible}
.answer{border:1px solid var(--grid);border-left:.3rem solid var(--open)}
details{border:0;padding:0}
}
"""


# ---- Drawing ------------------------------------------------------------------------------------


@contextmanager
def drawing(purpose: str = "A report") -> Iterator[Any]:
    """Draw figures in the colours of the page; gives ``matplotlib.pyplot``.

    Parameters
    ----------
    purpose : str
        What needs matplotlib, for the error where it is missing.

    Yields
    ------
    module

    Examples
    --------
    >>> from lupi.experiments.report import Figure, drawing, series
    >>> with drawing() as plt:  # doctest: +SKIP
    ...     figure, ax = plt.subplots()
    ...     ax.plot([1, 2], [2, 1], **series(0))
    ...     block = Figure.from_matplotlib(figure, "line")
    """
    try:
        import matplotlib as mpl
        from matplotlib import pyplot as plt
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{purpose} needs matplotlib, which is not installed: pip install 'lupi[experiments]'."
        ) from error
    ink, faint, grid = (_COLOURS[name][0] for name in ("ink", "faint", "grid"))
    settings: Any = {
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        # At this size and width letters are read on a phone, where a figure is as wide as the page.
        "font.size": 11,
        "text.color": ink,
        "axes.labelcolor": ink,
        "axes.titlecolor": ink,
        "axes.edgecolor": faint,
        "axes.facecolor": "none",
        "axes.titlesize": "medium",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": grid,
        "grid.linewidth": 0.8,
        "xtick.color": faint,
        "ytick.color": faint,
        "xtick.labelcolor": ink,
        "ytick.labelcolor": ink,
        "legend.frameon": False,
        "lines.linewidth": 1.9,
        "lines.markersize": 5.5,
        "figure.facecolor": "none",
        "savefig.facecolor": "none",
        "figure.figsize": (5.6, 4.0),
        "figure.constrained_layout.use": True,
    }
    # No window is ever opened, whatever the backend of the process: a figure is only saved.
    with plt.ioff(), mpl.rc_context(settings):
        yield plt


@dataclass(frozen=True)
class Curve:
    """One line of a learning curve.

    Attributes
    ----------
    label : str
    x, y : array-like of float
    spread : array-like of float or None
        Half the height of the band around it.
    number : int or None
        Its colour, see :func:`series`; None: its place.
    """

    label: str
    x: Any
    y: Any
    spread: Any = None
    number: int | None = None


def learning_curves(
    curves: Sequence[Curve],
    *,
    name: str,
    xlabel: str = "training rows",
    ylabel: str = "test error",
    title: str = "",
    caption: str = "",
    log: bool = True,
    percent: bool = True,
) -> Figure:
    """Curves over training sizes, with bands.

    Parameters
    ----------
    curves : sequence of Curve
    name : str
        Of the figure.
    xlabel, ylabel, title, caption : str
    log : bool, default=True
        Whether sizes are shown on a logarithmic scale.
    percent : bool, default=True
        Whether values are shares, shown in percent.

    Returns
    -------
    Figure
    """
    with drawing() as plt:
        from matplotlib.ticker import NullFormatter, NullLocator, PercentFormatter

        figure, ax = plt.subplots()
        for place, curve in enumerate(curves):
            style = series(place if curve.number is None else curve.number)
            ax.plot(curve.x, curve.y, label=curve.label, **style)
            if curve.spread is not None:
                low = [y - s for y, s in zip(curve.y, curve.spread, strict=True)]
                high = [y + s for y, s in zip(curve.y, curve.spread, strict=True)]
                ax.fill_between(curve.x, low, high, color=style["color"], alpha=0.13, linewidth=0)
        sizes = sorted({x for curve in curves for x in curve.x})
        if log and sizes and sizes[0] > 0:
            ax.set_xscale("log")
            ax.xaxis.set_minor_locator(NullLocator())
            ax.xaxis.set_minor_formatter(NullFormatter())
        if len(sizes) <= 12:
            ax.set_xticks(sizes, [f"{size:g}" for size in sizes])
        if percent:
            ax.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=" %"))
        ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
        figure.legend(loc="outside lower center", ncols=2)
        best = min(curves, key=lambda curve: curve.y[-1]) if curves else None
        alt = f"{ylabel} over {xlabel} of " + ", ".join(curve.label for curve in curves)
        if best is not None:
            alt += f"; lowest at the end: {best.label}"
        return Figure.from_matplotlib(figure, name, caption, alt)
