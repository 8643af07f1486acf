"""Runs methods on the cells of an experiment, and never loses or repeats a row of results.

A cell is (data set, size, repeat); its rows, one for each method, are appended to a journal as soon
as the cell is done. Who starts again with the same settings goes on where it stopped: killed in
whatever place, the final table is the same to the last bit, because a cell depends on its own
seed alone and runs on one thread, however many workers there are.
"""

from __future__ import annotations

import csv
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from joblib.parallel import get_active_backend

try:
    import fcntl
except ModuleNotFoundError:  # pragma: no cover - Windows: two runs at once are not noticed
    fcntl = None  # type: ignore[assignment]

from ..threads import limited, one_blas_thread
from ._methods import Method, Shared
from ._parts import Drawing

Row = dict[str, Any]

# What a row is known by, and sorted by.
KEY = ("experiment", "data", "size", "repeat", "method")
# Columns of results.csv. Seconds are kept in the journal only: they are never twice the same.
COLUMNS = (*KEY, "error", "params", "info")


@dataclass(frozen=True, eq=False)
class Experiment:
    """One set of curves: methods over sizes on a data set.

    Attributes
    ----------
    name : str
        Stands in the results.
    data : DataSet
    protocol : Drawing
    methods : sequence of Method
    """

    name: str
    data: Any
    protocol: Drawing
    methods: Sequence[Method]

    def __post_init__(self) -> None:
        names = [method.name for method in self.methods]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise ValueError(
                f"methods of an experiment need different names; {twice[0]!r} occurs "
                f"{names.count(twice[0])} times."
            )


@dataclass(frozen=True, eq=False)
class _Cell:
    experiment: Experiment
    size: int
    repeat: int
    methods: tuple[Method, ...]


class OtherRunError(ValueError):
    """The directory holds the results of another run."""


class Journal:
    """Results on disk: a line of settings, then a line for each row, appended as it is known.

    Parameters
    ----------
    path : path
        ``journal.jsonl``; its directory is made where it is missing.
    settings : dict
        What determines the results. A journal with other settings is never touched.
    """

    def __init__(self, path: str | os.PathLike[str], settings: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self.rows: dict[tuple[Any, ...], Row] = {}
        self._header = json.dumps({"settings": settings}, sort_keys=True, default=_plain)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.is_file() and self.path.stat().st_size:
            self._read()
        else:
            self._write(self._header + "\n")

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Nobody else may run experiments into this journal meanwhile."""
        with open(self.path, "rb") as file:
            if fcntl is not None:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    raise OtherRunError(
                        f"another run is writing to {self.path.parent} now. Wait until it ends, or "
                        "choose another output directory."
                    ) from None
            self._read()  # what others wrote until now
            yield

    def _read(self) -> None:
        header = self._header
        raw = self.path.read_bytes()
        whole = raw[: raw.rfind(b"\n") + 1]
        lines = whole.decode("utf-8").splitlines()
        if not lines:  # killed while the first line was written
            os.truncate(self.path, 0)
            self._write(header + "\n")
            return
        if lines[0] != header:
            raise OtherRunError(
                f"{self.path.parent} holds the results of a run with other settings "
                f"({_difference(lines[0], header)}). Choose another output directory, or remove "
                "this one."
            )
        if len(whole) < len(raw):  # killed in the middle of a line: that row is not there
            os.truncate(self.path, len(whole))
        for line in lines[1:]:
            row = json.loads(line)
            self.rows[tuple(row[name] for name in KEY)] = row

    def _write(self, text: str) -> None:
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())

    def append(self, rows: Iterable[Row]) -> None:
        """Rows that were not there before.

        Parameters
        ----------
        rows : iterable of dict
        """
        new = {tuple(row[name] for name in KEY): row for row in rows}
        new = {key: row for key, row in new.items() if key not in self.rows}
        self._write("".join(json.dumps(row, default=_plain) + "\n" for row in new.values()))
        self.rows.update(new)

    def table(self) -> list[Row]:
        """All rows in the order of their keys, without what changes from run to run.

        Returns
        -------
        list of dict
        """
        return [{name: self.rows[key][name] for name in COLUMNS} for key in sorted(self.rows)]


def _plain(value: Any) -> Any:
    """NumPy's numbers and arrays as JSON knows them."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray | tuple):
        return list(value)
    raise TypeError(f"{type(value).__name__} cannot be stored in the results.")


def _difference(old: str, new: str) -> str:
    """The first setting that differs, in words."""
    try:
        before, after = json.loads(old)["settings"], json.loads(new)["settings"]
    except (json.JSONDecodeError, KeyError, TypeError):
        return "it does not begin like a journal"
    for name in sorted(set(before) | set(after)):
        if before.get(name) != after.get(name):
            return f"{name}: {before.get(name)!r} there, {after.get(name)!r} here"
    return "written by another version"


def _run_cell(cell: _Cell, seed: int) -> list[Row]:
    """All missing methods of one cell, on one thread; seconds are those of the processor."""
    experiment = cell.experiment
    with limited(1), one_blas_thread():
        parts = experiment.protocol.parts(experiment.data, cell.size, cell.repeat)
        shared, rows = Shared(), []
        for method in cell.methods:
            start = time.thread_time()
            outcome = method.run(parts, seed, shared)
            rows.append(
                {
                    "experiment": experiment.name,
                    "data": experiment.data.name,
                    "size": cell.size,
                    "repeat": cell.repeat,
                    "method": method.name,
                    "error": outcome.error,
                    "params": outcome.params,
                    "info": outcome.info,
                    "seconds": round(time.thread_time() - start, 4),
                }
            )
    return rows


def _cells(experiments: Sequence[Experiment], journal: Journal) -> list[_Cell]:
    """Cells with methods that have no row yet, the largest first within a repeat."""
    cells = []
    for experiment in experiments:
        for size in experiment.protocol.sizes:
            for repeat in range(experiment.protocol.repeats):
                key = (experiment.name, experiment.data.name, size, repeat)
                missing = tuple(m for m in experiment.methods if (*key, m.name) not in journal.rows)
                if missing:
                    cells.append(_Cell(experiment, size, repeat, missing))
    # Repeat by repeat, so that a run that is stopped has something of every curve.
    return sorted(cells, key=lambda cell: (cell.repeat, -cell.size))


def run(
    experiments: Experiment | Sequence[Experiment],
    journal: Journal,
    *,
    seed: int = 0,
    n_jobs: int | None = None,
    progress: bool = True,
) -> list[Row]:
    """Run what is missing, and return the table of all rows.

    Parameters
    ----------
    experiments : Experiment or sequence of Experiment
    journal : Journal
        Where the rows are, and where they go.
    seed : int, default=0
        For methods that draw at random.
    n_jobs : int, default=None
        Workers of joblib, of whatever backend is active. The results do not depend on it.
    progress : bool, default=True
        A progress bar with the time left, on stderr if that is a terminal.

    Returns
    -------
    list of dict
        Sorted rows with the columns of ``COLUMNS``.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from lupi.experiments import DataSet, Experiment, FixedValidation, Journal, SVM, run
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 2))
    >>> y = np.sign(X[:, 0])
    >>> data = DataSet("half", X[:100], y[:100], X[200:], y[200:], X[100:200], y[100:200])
    >>> experiment = Experiment("example", data, FixedValidation((20, 40), repeats=2), (SVM(),))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     rows = run(experiment, Journal(f"{folder}/journal.jsonl", {}), progress=False)
    >>> [(row["size"], row["repeat"], row["error"] < 0.2) for row in rows]
    [(20, 0, True), (20, 1, True), (40, 0, True), (40, 1, True)]
    """
    if isinstance(experiments, Experiment):
        experiments = [experiments]
    with journal.writing():
        cells = _cells(experiments, journal)
        # One BLAS thread here too: workers that are threads share the setting of the process.
        with one_blas_thread(), _bar(len(cells), progress) as advance:
            for rows in _results(cells, seed, n_jobs):
                journal.append(rows)
                advance()
    return journal.table()


def _results(cells: list[_Cell], seed: int, n_jobs: int | None) -> Iterator[list[Row]]:
    """The rows of each cell as they get ready, from joblib's workers of whatever backend."""
    backend, _ = get_active_backend()
    tasks = [delayed(_run_cell)(cell, seed) for cell in cells]
    if getattr(backend, "supports_return_generator", False):
        yield from Parallel(n_jobs=n_jobs, return_as="generator_unordered")(tasks)
        return
    parallel = Parallel(n_jobs=n_jobs)
    # Such a backend gives nothing before all is done: so not all at once.
    step = 4 * parallel.n_jobs if parallel.n_jobs > 0 else 16
    for start in range(0, len(tasks), step):
        yield from parallel(tasks[start : start + step])


@contextmanager
def _bar(total: int, wanted: bool) -> Iterator[Callable[[], None]]:
    """A progress bar, where rich is installed and stderr is a terminal."""
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
    except ModuleNotFoundError:
        wanted = False
    if not wanted or not total:
        yield lambda: None
        return
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task("cells", total=total)
        yield lambda: bar.advance(task)


def summary(rows: Sequence[Row]) -> list[Row]:
    """Mean errors over the repeats, with standard deviations and standard errors.

    Parameters
    ----------
    rows : sequence of dict
        Of :func:`run`.

    Returns
    -------
    list of dict
        Keys ``experiment``, ``data``, ``size``, ``method``, ``repeats``, ``mean``, ``std`` and
        ``standard_error``; errors as shares.
    """
    groups: dict[tuple[Any, ...], list[float]] = {}
    for row in rows:
        key = (row["experiment"], row["data"], row["size"], row["method"])
        groups.setdefault(key, []).append(row["error"])
    out = []
    for (experiment, data, size, method), errors in groups.items():
        std = float(np.std(errors, ddof=1)) if len(errors) > 1 else float("nan")
        out.append(
            {
                "experiment": experiment,
                "data": data,
                "size": size,
                "method": method,
                "repeats": len(errors),
                "mean": float(np.mean(errors)),
                "std": std,
                "standard_error": std / np.sqrt(len(errors)),
            }
        )
    return out


def paired(
    rows: Sequence[Row], experiment: str, size: int, method: str, other: str
) -> tuple[float, float, int]:
    """Mean and standard error of the difference in error of two methods on the same cells.

    Parameters
    ----------
    rows : sequence of dict
    experiment : str
    size : int
    method, other : str

    Returns
    -------
    mean : float
        error(method) - error(other)
    standard_error : float
    n : int
        Cells.
    """
    errors: dict[str, dict[int, float]] = {method: {}, other: {}}
    for row in rows:
        if row["experiment"] == experiment and row["size"] == size and row["method"] in errors:
            errors[row["method"]][row["repeat"]] = row["error"]
    common = sorted(set(errors[method]) & set(errors[other]))
    if not common:
        return float("nan"), float("nan"), 0
    difference = np.array([errors[method][r] - errors[other][r] for r in common])
    n = len(difference)
    error = float(difference.std(ddof=1) / np.sqrt(n)) if n > 1 else float("nan")
    return float(difference.mean()), error, n


def write_csv(rows: Sequence[Row], path: str | os.PathLike[str]) -> None:
    """Rows as a CSV file, parameters and the rest as JSON; replaces the file at once.

    Parameters
    ----------
    rows : sequence of dict
    path : path
    """
    temporary = Path(path).with_suffix(".csv.part")
    with open(temporary, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        names = list(rows[0]) if rows else list(COLUMNS)
        writer.writerow(names)
        for row in rows:
            writer.writerow(
                [
                    json.dumps(value, sort_keys=True, default=_plain)
                    if isinstance(value, dict)
                    else repr(value)
                    if isinstance(value, float)
                    else value
                    for value in (row[name] for name in names)
                ]
            )
    os.replace(temporary, path)
