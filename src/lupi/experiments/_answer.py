r"""From paired errors to an answer: by how much, is it chance, what is it worth, what next.

Repeats draw training and test rows from the same table, so their differences are correlated, and
their standard error is not s / sqrt(J). With J repeats that test on a share q of the rows, two
repeats have q of their test rows in common, and the correlation of their differences is about q
(Nadeau and Bengio, Inference for the Generalization Error, Machine Learning 52, 2003):

.. math::

    \widehat{\operatorname{var}}(\bar d) = \Bigl(\frac1J + \frac{q}{1-q}\Bigr) s^2,

compared with a t distribution of J - 1 degrees of freedom. q / (1 - q) is n_test / n_train where
training takes all rows that are not tested.

That is blind where s is zero or nearly so, as it often is for twenty rows. Whatever the repeats,
the rows are a sample of n: a difference of means d in errors of 0 and 1 comes from at least n |d|
rows that the two methods judge differently, so that its variance is at least |d| (1 - |d|) / n, as
in McNemar's test; d is taken as at least 1 / n. The larger of both is used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import stats

Vector = NDArray[np.float64]


@dataclass(frozen=True)
class Difference:
    """A mean of paired differences, and an interval for it.

    Attributes
    ----------
    mean : float
        Positive: the second method makes fewer errors.
    low, high : float
        Ends of the interval.
    level : float
        Its level, for all `comparisons` together.
    comparisons : int
    repeats : int
    """

    mean: float
    low: float
    high: float
    level: float
    comparisons: int
    repeats: int

    @property
    def distinguishable(self) -> bool:
        """Whether zero is outside."""
        return self.low > 0 or self.high < 0

    @property
    def half_width(self) -> float:
        """Half the length of the interval."""
        return 0.5 * (self.high - self.low)


def difference(
    reference: Sequence[float] | Vector,
    method: Sequence[float] | Vector,
    *,
    test_share: float,
    n_rows: int,
    level: float = 0.95,
    comparisons: int = 1,
) -> Difference:
    """By how much the errors of a method are below those of the reference.

    Parameters
    ----------
    reference, method : array-like of shape (n_repeats,)
        Errors on the same repeats, as shares.
    test_share : float
        Test rows of a repeat, as a share of all rows.
    n_rows : int
        Rows in all.
    level : float, default=0.95
    comparisons : int, default=1
        Intervals that are to hold together (Bonferroni).

    Returns
    -------
    Difference
    """
    d = np.asarray(reference, dtype=np.float64) - np.asarray(method, dtype=np.float64)
    J = len(d)
    if J < 2:
        raise ValueError(f"an interval needs at least two repeats; got {J}.")
    mean = float(d.mean())
    resampled = (1.0 / J + test_share / (1.0 - test_share)) * float(d.var(ddof=1))
    size = min(max(abs(mean), 1.0 / n_rows), 0.5)
    sampled = size * (1.0 - size) / n_rows
    tail = (1.0 - level) / (2.0 * comparisons)
    half = float(stats.t.ppf(1.0 - tail, J - 1)) * math.sqrt(max(resampled, sampled))
    return Difference(mean, mean - half, mean + half, level, comparisons, J)


def monotone(sizes: Sequence[float], errors: Sequence[float] | Vector) -> tuple[Vector, Vector]:
    """The learning curve that never rises, nearest to the given one: logarithms of sizes, errors.

    Parameters
    ----------
    sizes, errors : sequence of float

    Returns
    -------
    log_sizes, errors : ndarray
    """
    order = np.argsort(sizes)
    log_sizes = np.log(np.asarray(sizes, dtype=np.float64)[order])
    # Pool adjacent violators.
    pools: list[list[float]] = []
    for value in np.asarray(errors, dtype=np.float64)[order]:
        pools.append([float(value), 1.0])
        while len(pools) > 1 and pools[-2][0] < pools[-1][0]:
            value, count = pools.pop()
            before, many = pools[-1]
            pools[-1] = [(before * many + value * count) / (many + count), many + count]
    return log_sizes, np.concatenate([np.full(int(count), value) for value, count in pools])


def rows_for(
    sizes: Sequence[float], errors: Sequence[float] | Vector, error: float
) -> tuple[float, str]:
    """How many rows a learning curve needs for this error; straight between points, in log(rows).

    Parameters
    ----------
    sizes, errors : sequence of float
        The learning curve.
    error : float

    Returns
    -------
    rows : float
    side : {"", "more", "less"}
        ``"more"``: the curve does not come down to the error, and `rows` is its largest size;
        ``"less"``: it is below everywhere, and `rows` is its smallest.
    """
    log_sizes, curve = monotone(sizes, errors)
    if curve[-1] > error:
        return float(np.exp(log_sizes[-1])), "more"
    if curve[0] < error:
        return float(np.exp(log_sizes[0])), "less"
    k = int(np.argmax(curve <= error))
    if k == 0 or curve[k - 1] == curve[k]:
        return float(np.exp(log_sizes[k])), ""
    t = (curve[k - 1] - error) / (curve[k - 1] - curve[k])
    return float(np.exp(log_sizes[k - 1] + t * (log_sizes[k] - log_sizes[k - 1]))), ""


# ---- In words -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Errors:
    """Test errors of one method.

    Attributes
    ----------
    name, label : str
    role : {"reference", "privileged", "other", "oracle"}
        What it may see: nothing extra, the extra information in training, nothing extra again, or
        the extra information at test time too.
    errors : ndarray of shape (n_sizes, n_repeats)
    """

    name: str
    label: str
    role: str
    errors: Vector

    @property
    def means(self) -> Vector:
        """Mean error of each size."""
        mean: Vector = self.errors.mean(axis=1)
        return mean


@dataclass(frozen=True)
class Answer:
    """Whether the extra information helps.

    Attributes
    ----------
    verdict : {"helps", "open", "nothing", "harms"}
        ``"nothing"``: a gain worth having is ruled out; ``"open"``: neither it nor zero is.
    headline, worth, advice : str
        Sentences.
    remarks : tuple of str
        More of them.
    best : str
        Name of the method to use: the one with the fewest errors where the gain is
        distinguishable from zero, otherwise the reference.
    differences : dict
        For each method but the reference, its :class:`Difference` for each size. Those of the
        largest size hold together; and so do all the others.
    rows_needed : dict
        For each method and size: rows with which the reference is as good, and the side as in
        :func:`rows_for`.
    """

    verdict: str
    headline: str
    worth: str
    advice: str
    remarks: tuple[str, ...]
    best: str
    differences: dict[str, list[Difference]]
    rows_needed: dict[str, list[tuple[float, str]]]

    def __str__(self) -> str:
        parts = [self.headline, self.worth, self.advice, *self.remarks]
        return "\n\n".join(part for part in parts if part)


def points(share: float, signed: bool = False) -> str:
    """A difference of errors in percentage points, as a number.

    Parameters
    ----------
    share : float
    signed : bool, default=False

    Returns
    -------
    str
    """
    text = f"{100.0 * share:{'+' if signed else ''}.1f}"
    return text.replace("-0.0", "0.0").replace("+0.0", "0.0").replace("-", "−")


def percent(share: float) -> str:
    """A share in percent.

    Parameters
    ----------
    share : float

    Returns
    -------
    str
    """
    return f"{100.0 * share:.1f} %"


def answer(
    methods: Sequence[Errors],
    sizes: Sequence[int],
    *,
    test_share: float,
    n_rows: int,
    level: float = 0.95,
) -> Answer:
    """What the errors say.

    The answer is about the largest size, which is fixed before anything is seen, and its intervals
    hold for all methods together, so that the best of several is not taken for more than it is.

    Parameters
    ----------
    methods : sequence of Errors
        The reference first.
    sizes : sequence of int
        Training rows, ascending.
    test_share, n_rows, level
        As in :func:`difference`.

    Returns
    -------
    Answer
    """
    reference, *others = methods
    candidates = [one for one in others if one.role != "oracle"]
    n_sizes = len(sizes)
    differences: dict[str, list[Difference]] = {}
    rows_needed: dict[str, list[tuple[float, str]]] = {}
    for one in others:
        together = 1 if one.role == "oracle" else len(candidates)
        differences[one.name] = [
            difference(
                reference.errors[k],
                one.errors[k],
                test_share=test_share,
                n_rows=n_rows,
                level=level,
                comparisons=together * (1 if k == n_sizes - 1 else n_sizes - 1),
            )
            for k in range(n_sizes)
        ]
        rows_needed[one.name] = [
            rows_for(sizes, reference.means, float(error)) for error in one.means
        ]
    privileged = [one for one in candidates if one.role == "privileged"]
    best = min(privileged, key=lambda one: one.means[-1])
    found = differences[best.name][-1]
    interval = (
        f"{100 * level:g} % interval {points(found.low, True)} to {points(found.high, True)}"
        + (f", for all {len(candidates)} methods together" if len(candidates) > 1 else "")
    )
    size, base = sizes[-1], float(reference.means[-1])
    both = (
        f"with {size} training rows {best.label} makes {percent(best.means[-1])} errors, the "
        f"{reference.label} {percent(base)}"
    )
    # A gain below this is not worth a second look: half a point, or a twentieth of the errors.
    small = max(0.005, 0.05 * base)
    if found.low > 0:
        verdict = "helps"
        headline = (
            f"Yes, the extra information helps: {both}. That is {points(found.mean)} points fewer "
            f"({interval}): the gain is distinguishable from zero."
        )
    elif found.high < 0:
        verdict = "harms"
        headline = (
            f"No, the extra information does harm as it is used here: {both}. That is "
            f"{points(-found.mean)} points more ({interval})."
        )
    else:
        verdict = "nothing" if found.high < small else "open"
        change = (
            f"{points(abs(found.mean))} points {'fewer' if found.mean > 0 else 'more'}"
            if points(found.mean) != "0.0"
            else "no difference"
        )
        headline = (
            f"{'No' if verdict == 'nothing' else 'Not that one could tell'}: {both}. That is "
            f"{change} ({interval}), which is not distinguishable from zero: nothing was gained "
            "that could not be chance."
        )
    return Answer(
        verdict,
        headline,
        _worth(best, reference, sizes, found),
        _advice(verdict, best, reference, found, small, n_rows),
        tuple(_remarks(best, candidates, others, differences, sizes, small)),
        best.name if verdict == "helps" else reference.name,
        differences,
        rows_needed,
    )


def _worth(best: Errors, reference: Errors, sizes: Sequence[int], found: Difference) -> str:
    """The gain in training rows."""
    size = sizes[-1]
    if found.mean <= 0:
        return ""
    rows, side = rows_for(sizes, best.means, float(reference.means[-1]))
    if side == "less":
        text = (
            f"{best.label} with {size_of(rows)} rows is already better than the {reference.label} "
            f"with {size}: the extra information is worth more than {size_of(size - rows)} "
            "training rows."
        )
    elif size - rows < 1:
        return ""
    else:
        text = (
            f"{best.label} needs about {size_of(rows)} rows to do what the {reference.label} does "
            f"with {size}: the extra information is worth about {size_of(size - rows)} training "
            "rows."
        )
    if not found.distinguishable:
        text = text[:-1] + ", if the difference is real."
    return text


def size_of(rows: float) -> str:
    """A number of rows to two digits.

    Parameters
    ----------
    rows : float

    Returns
    -------
    str
    """
    if rows < 100:
        return f"{rows:.0f}"
    step = 10 ** (math.floor(math.log10(rows)) - 1)
    return f"{step * round(rows / step):.0f}"


def _advice(
    verdict: str,
    best: Errors,
    reference: Errors,
    found: Difference,
    small: float,
    n_rows: int,
) -> str:
    """What to do next."""
    if verdict == "helps":
        return (
            f"What to do next: use {best.label}. It needs the extra columns for training only; "
            "`--model out.skops` writes it, trained on all rows. Keep collecting the extra columns "
            "for new training rows."
        )
    if verdict == "harms":
        return (
            f"What to do next: use the {reference.label}. If the extra columns should say which "
            "rows are difficult or doubtful, look at whether they do: columns that say nothing "
            "only cost accuracy."
        )
    if verdict == "nothing":
        return (
            f"What to do next: use the {reference.label}, and do not pay for the extra columns. A "
            f"gain above {points(max(found.high, 0.0))} points is ruled out."
        )
    wanted = max(found.mean, small)
    # Half-widths shrink as 1 / sqrt(rows), more repeats hardly shrink them.
    rows = n_rows * (found.half_width / wanted) ** 2
    text = (
        f"What to do next: the question is open, because {n_rows} rows are too few to answer it. "
        f"Gains up to {points(max(found.high, 0.0))} points are not ruled out. Until then use the "
        f"{reference.label}. "
    )
    if rows > 100 * n_rows:
        return text + (
            f"A gain of {points(wanted)} points could not be told from chance with a hundred times "
            "as many rows: it is hardly worth looking for."
        )
    if rows > 1.3 * n_rows:
        return text + (
            f"To tell a gain of {points(wanted)} points from chance takes about {size_of(rows)} "
            "rows like these; more repeats help little."
        )
    return text + "Some more rows like these would decide it; more repeats help little."


def _remarks(
    best: Errors,
    candidates: Sequence[Errors],
    others: Sequence[Errors],
    differences: dict[str, list[Difference]],
    sizes: Sequence[int],
    small: float,
) -> list[str]:
    """What else is worth a sentence."""
    out = []
    smaller = [
        (sizes[k], one, differences[one.name][k])
        for one in candidates
        if one.role == "privileged"
        for k in range(len(sizes) - 1)
        if differences[one.name][k].low > 0
    ]
    if smaller:
        size, one, found = max(smaller, key=lambda item: item[2].mean)
        out.append(
            f"With fewer rows: at {size} training rows {one.label} makes {points(found.mean)} "
            f"points fewer errors ({points(found.low, True)} to {points(found.high, True)}, for "
            "all smaller sizes and methods together)."
        )
    for one in candidates:
        found = differences[one.name][-1]
        if one.role == "other" and found.distinguishable:
            out.append(
                f"{one.label}, which do not look at the extra columns, make "
                f"{points(abs(found.mean))} points {'fewer' if found.mean > 0 else 'more'} errors "
                f"than the SVM ({points(found.low, True)} to {points(found.high, True)})."
            )
    for one in others:
        if one.role != "oracle":
            continue
        found = differences[one.name][-1]
        seen = (
            "A classifier that sees the extra columns at test time too makes "
            f"{percent(one.means[-1])} errors"
        )
        if found.low > 0:
            more = (
                "the columns do say something about the label. Having them at test time is worth "
                f"{points(found.mean)} points"
            )
            out.append(f"{seen}: {more}.")
        elif found.high < max(small, 0.01):
            out.append(
                f"{seen}, no fewer than the SVM: beyond the ordinary columns, the extra ones say "
                "little about the label that an SVM could use."
            )
        else:
            out.append(f"{seen}, which cannot be told from the SVM's either.")
    return out
