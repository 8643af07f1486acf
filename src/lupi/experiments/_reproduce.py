"""``lupi reproduce``: the paper's figures and tables, run, drawn, and held against its words."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from ..datasets import PAPER_SIZES
from ._engine import Experiment, Journal, Row, run, summary, write_csv
from ._illustrations import ILLUSTRATIONS
from ._paper import PANELS, TITLES, Finding, Panel, Setting, annotators_note, uci_table
from .report import Curve, Figure, Prose, Report, Section, Table, drawing, learning_curves, versions

FIGURES = (*(one.name for one in ILLUSTRATIONS), *PANELS, "uci_stats")


@dataclass(frozen=True)
class Reproduction:
    """What :func:`reproduce` leaves.

    Attributes
    ----------
    page : Path
        The report.
    rows : list of dict
        One for each data set, size, repeat and method.
    findings : dict
        Figure or panel -> list of :class:`Finding`.
    seconds : dict
        Experiment -> seconds of one core.
    """

    page: Path
    rows: list[Row]
    findings: dict[str, list[Finding]]
    seconds: dict[str, float]


def reproduce(
    figures: Sequence[str] = (),
    *,
    out: str | Path = "report",
    quick: bool = False,
    repeats: int | None = None,
    n_jobs: int | None = None,
    data_home: Any = None,
    rankings: Any = None,
    seed: int = 0,
    progress: bool = True,
) -> Reproduction:
    """Run the paper's experiments and write a report; goes on where it stopped.

    Parameters
    ----------
    figures : sequence of str, default=()
        Some of ``FIGURES``; all of them if none is named.
    out : path, default="report"
        Directory of ``index.html``, ``results.csv``, ``figures`` and ``journal.jsonl``.
    quick : bool, default=False
        Fewer sizes and repeats; a full run in the same directory takes them over.
    repeats : int, default=None
        In place of the paper's 100, 50 or 20.
    n_jobs : int, default=None
        Workers of joblib.
    data_home : path, default=None
        See :func:`lupi.datasets.get_data_home`.
    rankings : path, default=None
        File with the annotators' rankings, see the user guide; simulated without.
    seed : int, default=0
    progress : bool, default=True

    Returns
    -------
    Reproduction
    """
    unknown = [name for name in figures if name not in FIGURES]
    if unknown:
        raise ValueError(f"there is no figure {unknown[0]!r}; there are {', '.join(FIGURES)}.")
    if repeats is not None and repeats < 1:
        raise ValueError(f"repeats must be at least 1; got {repeats}.")
    wanted = [name for name in FIGURES if name in figures or not figures]
    setting = Setting(quick, repeats, data_home, rankings, seed)
    with drawing("lupi reproduce"):
        pass  # says at once, not after hours, that matplotlib is missing
    panels = [panel for name in wanted for panel in PANELS.get(name, ())]
    experiments = _merged([e for panel in panels for e in panel.experiments(setting)])
    out = Path(out)
    journal = Journal(out / "journal.jsonl", _fingerprint(setting))
    try:
        run(experiments, journal, seed=seed, n_jobs=n_jobs, progress=progress)
    finally:
        rows = _asked(journal, experiments)
        write_csv(rows, out / "results.csv")
    sections, findings = [], {}
    for name in wanted:
        blocks, found = _blocks(name, setting, rows)
        findings.update(found)
        sections.append(Section(name, blocks))
    seconds = _seconds(journal, experiments)
    page = Report(
        "The experiments of the paper",
        _answer(findings),
        [*sections, _times(seconds)],
        {
            "figures": wanted,
            "protocol": "quick" if quick else "the paper's",
            "repeats": "of the protocol" if repeats is None else repeats,
            "seed": seed,
            "annotators": annotators_note(setting),
            **versions(),
        },
    ).write(out)
    return Reproduction(page, rows, findings, seconds)


def _fingerprint(setting: Setting) -> dict[str, Any]:
    """What the rows depend on; sizes and repeats are not of it, for each cell stands alone."""
    rankings = "simulated"
    if setting.rankings is not None:
        rankings = hashlib.sha256(Path(setting.rankings).read_bytes()).hexdigest()
    return {
        "command": "reproduce",
        "seed": setting.seed,
        "rankings": rankings,
        "lupi": version("lupi"),
    }


def _merged(experiments: Sequence[Experiment]) -> list[Experiment]:
    """Experiments of the same name made one, with the methods of all: panels share their cells."""
    out: dict[str, Experiment] = {}
    for one in experiments:
        if one.name in out:
            known = {method.name for method in out[one.name].methods}
            more = [method for method in one.methods if method.name not in known]
            out[one.name] = replace(out[one.name], methods=(*out[one.name].methods, *more))
        else:
            out[one.name] = one
    return list(out.values())


def _asked(journal: Journal, experiments: Sequence[Experiment]) -> list[Row]:
    """The rows of these experiments; the journal may have more from other runs."""
    names = {one.name: one for one in experiments}

    def asked(row: Row) -> bool:
        one = names.get(row["experiment"])
        return (
            one is not None
            and row["size"] in one.protocol.sizes
            and row["repeat"] < one.protocol.repeats
        )

    return [row for row in journal.table() if asked(row)]


def _seconds(journal: Journal, experiments: Sequence[Experiment]) -> dict[str, float]:
    names = {one.name for one in experiments}
    out: dict[str, float] = {}
    for row in journal.rows.values():
        if row["experiment"] in names:
            out[row["experiment"]] = out.get(row["experiment"], 0.0) + row["seconds"]
    return out


# ---- The report ---------------------------------------------------------------------------------


def _blocks(
    name: str, setting: Setting, rows: Sequence[Row]
) -> tuple[list[Any], dict[str, list[Finding]]]:
    """What stands in a figure's section."""
    if name == "uci_stats":
        return _table_blocks(setting)
    for one in ILLUSTRATIONS:
        if one.name == name:
            with drawing() as plt:
                figure, sentences = one.draw(plt)
                block = Figure.from_matplotlib(figure, name, f"{one.title}. {one.caption}")
            found = [Finding(*sentence) for sentence in sentences]
            return [block, _findings_table(found)], {name: found}
    blocks: list[Any] = []
    findings = {}
    for panel in PANELS[name]:
        note = f" {annotators_note(setting)}" if name == "mnist_all" else ""
        blocks.append(_panel_figure(panel, rows, note))
        blocks.append(_panel_table(panel, rows))
        findings[panel.name] = panel.findings(rows)
        if findings[panel.name]:
            blocks.append(_findings_table(findings[panel.name]))
    return blocks, findings


def _panel_figure(panel: Panel, rows: Sequence[Row], note: str) -> Figure:
    known = summary(rows)
    curves = []
    for number, (experiment, method, label) in enumerate(panel.curves):
        line = [s for s in known if s["experiment"] == experiment and s["method"] == method]
        if line:
            curves.append(
                Curve(
                    label,
                    [s["size"] for s in line],
                    [s["mean"] for s in line],
                    [s["standard_error"] if s["repeats"] > 1 else 0.0 for s in line],
                    number,
                )
            )
    return learning_curves(
        curves,
        name=panel.name,
        xlabel=panel.xlabel,
        title=panel.title,
        caption=panel.caption + note,
    )


def _panel_table(panel: Panel, rows: Sequence[Row]) -> Table:
    """Mean test errors in percent with standard errors."""
    known = {(s["experiment"], s["method"], s["size"]): s for s in summary(rows)}
    shown = {experiment for experiment, *_ in panel.curves}
    sizes = sorted({size for experiment, _, size in known if experiment in shown})
    lines = []
    for experiment, method, label in panel.curves:
        cells = []
        for size in sizes:
            one = known.get((experiment, method, size))
            cells.append("" if one is None else _percent(one["mean"], one["standard_error"]))
        lines.append([label, *cells])
    repeats = max((s["repeats"] for (e, *_), s in known.items() if e in shown), default=0)
    return Table(
        ["test error in %", *(str(size) for size in sizes)],
        lines,
        f"Means and standard errors over at most {repeats} repeats, by {panel.xlabel}.",
    )


def _percent(mean: float, standard_error: float) -> str:
    return f"{100 * mean:.2f} ± {100 * standard_error:.2f}"


def _findings_table(findings: Sequence[Finding]) -> Table:
    words = {True: "confirmed", False: "not confirmed", None: "–"}
    return Table(
        ["the paper", "here", ""],
        [(one.claim, one.found, words[one.agrees]) for one in findings],
    )


def _table_blocks(setting: Setting) -> tuple[list[Any], dict[str, list[Finding]]]:
    rows = uci_table(setting)
    found = [
        Finding(
            f"{TITLES[name]}: {' / '.join(map(str, PAPER_SIZES[name]))}",
            " / ".join(map(str, row[1:])),
            tuple(row[1:]) == PAPER_SIZES[name],
        )
        for name, row in zip(PAPER_SIZES, rows, strict=True)
    ]
    table = Table(["data set", "features", "training", "test"], rows, "tab:uci_stats")
    return [table, _findings_table(found)], {"uci_stats": found}


def _times(seconds: dict[str, float]) -> Section:
    lines = [
        (name, f"{value:.0f}", f"{value / 3600:.2f}") for name, value in sorted(seconds.items())
    ]
    total = sum(seconds.values())
    lines.append(("together", f"{total:.0f}", f"{total / 3600:.2f}"))
    return Section(
        "Time",
        [
            Prose("Seconds of one core, all runs in this directory together."),
            Table(["experiment", "seconds", "core hours"], lines),
        ],
    )


def _answer(findings: dict[str, list[Finding]]) -> str:
    every = [one for found in findings.values() for one in found]
    yes = sum(one.agrees is True for one in every)
    no = [one for one in every if one.agrees is False]
    text = f"**{yes} of {yes + len(no)}** statements of the paper are confirmed."
    if no:
        text += "\n\nNot confirmed:\n\n" + "\n".join(f"- {one.claim}" for one in no)
    return text
