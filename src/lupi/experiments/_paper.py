"""The paper's experiments: what is drawn, which methods run on it, and what the paper says of it.

Sizes are ours where the paper prints none: it shows its curves as pictures only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.preprocessing import MinMaxScaler

from ..datasets import (
    PAPER_SIZES,
    fetch_breast_cancer_wisconsin,
    fetch_mammographic_mass,
    fetch_mnist_5v8,
    fetch_spambase,
    make_w_mixture,
    paper_split,
)
from ._annotators import N_RANKINGS, read_rankings, simulated_rankings
from ._engine import Experiment, Row, paired
from ._methods import (
    SVM,
    AnnotatorWeights,
    LearnedWeights,
    Method,
    ProbabilityWeights,
    Replay,
    SVMBoth,
    SVMPlus,
    SVMValidation,
)
from ._parts import DataSet, FixedValidation, Split

FETCH = {
    "breast_cancer_wisconsin": fetch_breast_cancer_wisconsin,
    "mammographic_mass": fetch_mammographic_mass,
    "spambase": fetch_spambase,
}
TITLES = {
    "breast_cancer_wisconsin": "Breast Cancer Wisconsin",
    "mammographic_mass": "Mammographic Mass",
    "spambase": "Spambase",
}
# Every baseline that sees the validation rows stands beside the methods that do.
BASELINES = (SVMBoth(), SVMValidation())
REPLAY = (Replay(), Replay("wsvm_b", "WSVM-b", "svm_plus"))


@dataclass(frozen=True)
class Setting:
    """What the user asked for.

    Attributes
    ----------
    quick : bool
        A small protocol: fewer sizes and repeats, everything else the same.
    repeats : int or None
        In place of the protocol's.
    data_home : path or None
    rankings : path or None
        A file with the annotators' rankings; simulated without.
    seed : int
    """

    quick: bool = False
    repeats: int | None = None
    data_home: Any = None
    rankings: Any = None
    seed: int = 0

    def sizes(self, full: Sequence[int], quick: Sequence[int]) -> tuple[int, ...]:
        """Those of the protocol."""
        return tuple(quick if self.quick else full)

    def count(self, full: int, quick: int) -> int:
        """Number of repeats."""
        return self.repeats or (quick if self.quick else full)


@dataclass(frozen=True)
class Finding:
    """A sentence of the paper, what came out here, and whether they agree (None: open).

    Attributes
    ----------
    claim, found : str
    agrees : bool or None
    """

    claim: str
    found: str
    agrees: bool | None


@dataclass(frozen=True)
class Panel:
    """One picture of curves.

    Attributes
    ----------
    name : str
        Of its file.
    title, caption, xlabel : str
    experiments : callable
        From a :class:`Setting` to the experiments that it needs.
    curves : tuple of (str, str, str)
        Experiment, method, and label.
    findings : callable
        From all rows to :class:`Finding`.
    """

    name: str
    title: str
    caption: str
    xlabel: str
    experiments: Callable[[Setting], list[Experiment]]
    curves: tuple[tuple[str, str, str], ...]
    findings: Callable[[Sequence[Row]], list[Finding]]


# ---- Data ---------------------------------------------------------------------------------------


def digits(setting: Setting, *, translated: bool = False) -> DataSet:
    """The 5-vs-8 digits with poetic descriptions, and the annotators' scores.

    Parameters
    ----------
    setting : Setting
    translated : bool, default=False
        Nine copies of every training digit.

    Returns
    -------
    DataSet
        Pixels and descriptions in [0, 1].
    """
    home = setting.data_home
    one = fetch_mnist_5v8(data_home=home)
    train = fetch_mnist_5v8(data_home=home, translated=True) if translated else one
    val = fetch_mnist_5v8(subset="validation", data_home=home)
    test = fetch_mnist_5v8(subset="test", data_home=home)
    if setting.rankings is None:
        known = np.vstack([one.data, val.data, test.data])
        scores = simulated_rankings(one.data, known, data_home=home, seed=setting.seed)
    else:
        scores = read_rankings(setting.rankings, len(one.data))
    return DataSet(
        "mnist_5v8_translated" if translated else "mnist_5v8",
        train.data / 255.0,
        train.target,
        test.data / 255.0,
        test.target,
        val.data / 255.0,
        val.target,
        train.privileged / np.maximum(one.privileged.max(axis=0), 1.0),
        groups=train.groups if translated else None,
        # Descriptions and rankings are unaffected by a translation (sec:exp:5_vs_8).
        extra={"scores": scores[train.groups]},
    )


def w_shape(setting: Setting) -> DataSet:
    """The W: a pool of 400, 4000 validation and 2000 test rows.

    Parameters
    ----------
    setting : Setting

    Returns
    -------
    DataSet
    """
    samples = [make_w_mixture(n, random_state=[setting.seed, n]) for n in (400, 4_000, 2_000)]
    (X, y), (X_val, y_val), (X_test, y_test) = samples
    scale = MinMaxScaler().fit(X)
    return DataSet(
        "w_mixture", scale.transform(X), y, scale.transform(X_test), y_test,
        scale.transform(X_val), y_val,
    )  # fmt: skip


def uci(name: str, setting: Setting) -> DataSet:
    """A data set of ``tab:uci_stats``: a pool and a test set, features in [0, 1].

    Parameters
    ----------
    name : str
    setting : Setting

    Returns
    -------
    DataSet
    """
    X, y = FETCH[name](data_home=setting.data_home, return_X_y=True)
    train, test = paper_split(name, y, random_state=setting.seed)
    scale = MinMaxScaler().fit(X[train])
    return DataSet(name, scale.transform(X[train]), y[train], scale.transform(X[test]), y[test])


def uci_table(setting: Setting) -> list[tuple[str, int, int, int]]:
    """``tab:uci_stats``: name, features, training and test rows, from the data themselves.

    Parameters
    ----------
    setting : Setting

    Returns
    -------
    list of tuple
    """
    out = []
    for name in PAPER_SIZES:
        data = uci(name, setting)
        out.append((TITLES[name], data.X.shape[1], len(data.y), len(data.y_test)))
    return out


# ---- Experiments --------------------------------------------------------------------------------

_DIGIT_SIZES = (40, 50, 60, 70, 80, 90)


def _digits_experiment(setting: Setting, methods: Sequence[Method]) -> Experiment:
    protocol = FixedValidation(
        setting.sizes(_DIGIT_SIZES, (40, 60, 90)), setting.count(100, 4), setting.seed
    )
    return Experiment("digits", digits(setting), protocol, tuple(methods))


def _replay(setting: Setting) -> list[Experiment]:
    return [_digits_experiment(setting, (SVM(), SVMPlus(), *REPLAY))]


def _rankings(setting: Setting) -> list[Experiment]:
    methods = (SVM(), SVMPlus(), AnnotatorWeights(), LearnedWeights(), *BASELINES)
    return [_digits_experiment(setting, methods)]


def _translated(setting: Setting) -> list[Experiment]:
    # The paper does not say how often it repeated this one, which takes more time than all others
    # together.
    protocol = FixedValidation(
        setting.sizes(_DIGIT_SIZES, (40, 90)), setting.count(50, 2), setting.seed
    )
    methods = (SVM(), SVMPlus(), AnnotatorWeights(), LearnedWeights(), *BASELINES)
    return [Experiment("digits translated", digits(setting, translated=True), protocol, methods)]


def _toy(setting: Setting) -> list[Experiment]:
    protocol = FixedValidation(
        setting.sizes((20, 40, 60, 80, 100, 150, 200), (40, 100)),
        setting.count(50, 5),
        setting.seed,
    )
    methods = (SVM(), ProbabilityWeights(), LearnedWeights(), *BASELINES)
    return [Experiment("toy", w_shape(setting), protocol, methods)]


def _two_splits(
    name: str, data: DataSet, sizes: Sequence[int], repeats: int, seed: int, extra: Sequence[Method]
) -> list[Experiment]:
    """1-to-2 with every method, 2-to-1 with the SVM and what the paper shows of it."""
    small = Split(sizes, repeats, 1, 2, seed)
    large = Split(sizes, repeats, 2, 1, seed)
    return [
        Experiment(f"{name} 1-to-2", data, small, (SVM(), *extra, LearnedWeights(), *BASELINES)),
        Experiment(f"{name} 2-to-1", data, large, (SVM(), *extra)),
    ]


def _toy_splits(setting: Setting) -> list[Experiment]:
    sizes = setting.sizes((30, 60, 90, 120, 180, 240, 300), (60, 150))
    experiments = _two_splits(
        "toy", w_shape(setting), sizes, setting.count(50, 5), setting.seed, (ProbabilityWeights(),)
    )
    # The paper shows the overfitting of learned weights on 2-to-1 splits here, and omits it later.
    last = experiments[1]
    experiments[1] = Experiment(
        last.name, last.data, last.protocol, (*last.methods, LearnedWeights())
    )
    return experiments


_UCI_SIZES = {
    "breast_cancer_wisconsin": ((30, 60, 90, 150, 240, 351), (60, 240), 50),
    "mammographic_mass": ((30, 60, 120, 180, 300, 420), (60, 240), 50),
    "spambase": ((90, 180, 360, 720, 1200, 2430), (180, 720), 20),
}


def _uci(name: str) -> Callable[[Setting], list[Experiment]]:
    def experiments(setting: Setting) -> list[Experiment]:
        full, quick, repeats = _UCI_SIZES[name]
        sizes = setting.sizes(full, quick)
        count = setting.count(repeats, 2)
        return _two_splits(name, uci(name, setting), sizes, count, setting.seed, ())

    return experiments


# ---- What the paper says, and what came out -----------------------------------------------------


def _sizes(rows: Sequence[Row], experiment: str) -> list[int]:
    return sorted({row["size"] for row in rows if row["experiment"] == experiment})


@dataclass(frozen=True)
class Comparison:
    """Paired differences of two methods, size by size, in percentage points.

    Attributes
    ----------
    sizes : list of int
    mean, error : list of float
        error(method) - error(other), and its standard error.
    overall, overall_error : float
        Over all sizes.
    """

    sizes: list[int]
    mean: list[float]
    error: list[float]
    overall: float
    overall_error: float

    def words(self) -> str:
        """The differences in a sentence."""
        each = ", ".join(
            f"{size}: {mean:+.2f} ± {error:.2f}"
            for size, mean, error in zip(self.sizes, self.mean, self.error, strict=True)
        )
        return (
            f"Differences in points by size: {each}; over all sizes {self.overall:+.2f} ± "
            f"{self.overall_error:.2f}."
        )

    @property
    def clearly_below(self) -> bool:
        """Lower over all sizes by more than two standard errors."""
        return self.overall < -2 * self.overall_error

    @property
    def never_clearly_above(self) -> bool:
        """At no size higher by more than two standard errors."""
        return all(not mean > 2 * error for mean, error in zip(self.mean, self.error, strict=True))


def compared(
    rows: Sequence[Row],
    experiment: str,
    method: str,
    other: str,
    other_experiment: str | None = None,
) -> Comparison | None:
    """Two methods on the same rows; None where nothing is there to compare.

    Parameters
    ----------
    rows : sequence of dict
    experiment, method, other : str
    other_experiment : str, default=None
        Where the other one ran, if that is elsewhere.

    Returns
    -------
    Comparison or None
    """
    if other_experiment is not None:
        moved = [
            {**row, "experiment": experiment, "method": "other"}
            for row in rows
            if row["experiment"] == other_experiment and row["method"] == other
        ]
        rows, other = [*rows, *moved], "other"
    sizes, mean, error = [], [], []
    for size in _sizes(rows, experiment):
        difference, standard, n = paired(rows, experiment, size, method, other)
        if n > 1:
            sizes.append(size)
            mean.append(100 * difference)
            error.append(100 * standard)
    if not sizes:
        return None
    overall = float(np.mean(mean))
    # The repeats of different sizes are drawn independently.
    overall_error = float(np.sqrt(np.sum(np.square(error))) / len(error))
    return Comparison(sizes, mean, error, overall, overall_error)


def _finding(
    claim: str, found: Comparison | None, judge: Callable[[Comparison], bool | None]
) -> list[Finding]:
    if found is None:
        return []
    return [Finding(claim, found.words(), judge(found))]


def _below(found: Comparison) -> bool:
    return found.clearly_below


def _on_par_or_better(found: Comparison) -> bool:
    return found.overall < 2 * found.overall_error


def _on_par(found: Comparison) -> bool:
    return abs(found.overall) <= max(2 * found.overall_error, 0.5)


def _replay_findings(rows: Sequence[Row]) -> list[Finding]:
    out = _finding(
        "SVM+ has at most the error of the SVM.",
        compared(rows, "digits", "svm_plus", "svm"),
        lambda found: found.overall <= 0 and found.never_clearly_above,
    )
    exact = [row for row in rows if row["method"] == "wsvm_b"]
    if exact:
        differing = sum(row["info"]["differs_from_svm_plus"] for row in exact)
        largest = max(row["info"]["largest_difference"] for row in exact)
        out.append(
            Finding(
                "With b of SVM+ (WSVM-b) the two classifiers are identical.",
                f"{differing} test predictions of {len(exact)} models differ; largest difference "
                f"of decision values {largest:.1e}.",
                differing == 0,
            )
        )
    out += _finding(
        "With b tuned within the constraints of the KKT conditions minor differences appear.",
        compared(rows, "digits", "wsvm", "svm_plus"),
        lambda found: abs(found.overall) < 0.5,
    )
    return out


def _toy_findings(rows: Sequence[Row]) -> list[Finding]:
    return [
        *_finding(
            "Weights from P(Y|X) are below the SVM with a large validation set.",
            compared(rows, "toy", "wsvm_probability", "svm"),
            _below,
        ),
        *_finding(
            "Learned weights lead to significant performance improvement.",
            compared(rows, "toy", "weight_learning", "svm"),
            _below,
        ),
        *_beside(rows, "toy"),
    ]


def _beside(rows: Sequence[Row], experiment: str) -> list[Finding]:
    """The question that the paper leaves out: is it better than training on all rows."""
    return _finding(
        "(not in the paper) Learned weights against the SVM on training and validation rows.",
        compared(rows, experiment, "weight_learning", "svm_both"),
        lambda found: None,
    )


def _toy_split_findings(rows: Sequence[Row]) -> list[Finding]:
    one, two = "toy 1-to-2", "toy 2-to-1"
    return [
        *_finding(
            "P(Y|X) from few validation rows: on par with the SVM (1-to-2).",
            compared(rows, one, "wsvm_probability", "svm"),
            _on_par,
        ),
        *_finding(
            "Learned weights still improve on 1-to-2 splits.",
            compared(rows, one, "weight_learning", "svm"),
            _below,
        ),
        *_finding(
            "They reach a similar error as the SVM trained on twice as much data (2-to-1).",
            compared(rows, one, "weight_learning", "svm", two),
            _on_par_or_better,
        ),
        *_finding(
            "On 2-to-1 splits weight learning overfits: no improvement on the SVM there.",
            compared(rows, two, "weight_learning", "svm"),
            lambda found: not found.clearly_below,
        ),
        *_beside(rows, one),
    ]


def _uci_findings(name: str) -> Callable[[Sequence[Row]], list[Finding]]:
    one, two = f"{name} 1-to-2", f"{name} 2-to-1"

    def findings(rows: Sequence[Row]) -> list[Finding]:
        with_own = compared(rows, one, "weight_learning", "svm")
        with_large = compared(rows, one, "weight_learning", "svm", two)
        if name == "spambase":
            return [
                *_finding("Learned weights are below the SVM.", with_own, _below),
                *_finding(
                    "About the improvement of twice as much data for the SVM (2-to-1).",
                    with_large,
                    _on_par_or_better,
                ),
                *_beside(rows, one),
            ]
        out = [
            *_finding(
                "Learned weights on 1-to-2 are on par or better than the SVM on 1-to-2.",
                with_own,
                _on_par_or_better,
            ),
            *_finding("... and than the SVM on 2-to-1.", with_large, _on_par_or_better),
        ]
        if name == "breast_cancer_wisconsin":
            worse = compared([
                {**row, "experiment": one, "method": "large"}
                if row["experiment"] == two and row["method"] == "svm" else row
                for row in rows
            ], one, "large", "svm")  # fmt: skip
            out += _finding(
                "The SVM performs worse on 2-to-1 than on 1-to-2.",
                worse,
                lambda found: found.overall > 0,
            )
        return [*out, *_beside(rows, one)]

    return findings


def _ranking_findings(rows: Sequence[Row]) -> list[Finding]:
    found = compared(rows, "digits", "wsvm_annotators", "svm")
    return [
        *_finding(
            "Rankings help on small subsets, and less on larger ones.",
            found,
            lambda found: found.mean[0] < 0 and found.mean[0] < found.mean[-1],
        ),
        *_beside(rows, "digits"),
    ]


def _translated_findings(rows: Sequence[Row]) -> list[Finding]:
    name = "digits translated"
    return [
        *_finding(
            "Rankings are now consistently on par or better than the SVM.",
            compared(rows, name, "wsvm_annotators", "svm"),
            lambda found: found.never_clearly_above,
        ),
        *_finding(
            "... and somewhat comparable to SVM+.",
            compared(rows, name, "wsvm_annotators", "svm_plus"),
            lambda found: abs(found.overall) < 1.0,
        ),
        *_finding(
            "Learned weights give a significant performance boost.",
            compared(rows, name, "weight_learning", "svm"),
            _below,
        ),
        *_beside(rows, name),
    ]


# ---- Figures ------------------------------------------------------------------------------------


def _digit_curves(experiment: str) -> tuple[tuple[str, str, str], ...]:
    return (
        (experiment, "svm", "SVM"),
        (experiment, "svm_plus", "SVM+"),
        (experiment, "wsvm_annotators", "WSVM, annotators"),
        (experiment, "weight_learning", "WSVM, learned weights"),
        (experiment, "svm_both", "SVM on both samples"),
        (experiment, "svm_validation", "SVM on the validation sample"),
    )


def _split_curves(name: str, extra: bool = False) -> tuple[tuple[str, str, str], ...]:
    one, two = f"{name} 1-to-2", f"{name} 2-to-1"
    shown = [
        (one, "svm", "SVM, 1-to-2"),
        (two, "svm", "SVM, 2-to-1"),
        (one, "weight_learning", "learned weights, 1-to-2"),
    ]
    if extra:
        shown += [
            (two, "weight_learning", "learned weights, 2-to-1"),
            (one, "wsvm_probability", "P(Y|X), 1-to-2"),
            (two, "wsvm_probability", "P(Y|X), 2-to-1"),
        ]
    return (
        *shown,
        (one, "svm_both", "SVM on both samples"),
        (one, "svm_validation", "SVM on the validation sample"),
    )


_SIMULATED = (
    f"The annotators are simulated: {N_RANKINGS} SVMs, each trained on 200 other digits of MNIST, "
    "rank every digit; the paper's rankings were never published."
)
_READ = "The annotators' rankings are those of the file that was given."


def annotators_note(setting: Setting) -> str:
    """Where the rankings are from.

    Parameters
    ----------
    setting : Setting

    Returns
    -------
    str
    """
    return _SIMULATED if setting.rankings is None else _READ


_TOTAL = "rows in all, training and validation"
PANELS: dict[str, tuple[Panel, ...]] = {
    "mnist_svmw_eq_svmp_toy_w": (
        Panel(
            "mnist_svmw_eq_svmp",
            "WSVM replicates SVM+ (5 against 8)",
            "Left panel of fig:mnist_svmw_eq_svmp_toy_w: mean test error over random training "
            "subsets, bands of one standard error.",
            "training digits",
            _replay,
            (
                ("digits", "svm", "SVM"),
                ("digits", "svm_plus", "SVM+"),
                ("digits", "wsvm", "WSVM"),
                ("digits", "wsvm_b", "WSVM-b"),
            ),
            _replay_findings,
        ),
        Panel(
            "toy_w",
            "Toy data with a large validation set",
            "Middle panel: 4,000 validation rows, which also give P(Y|X) and the learned weights.",
            "training rows",
            _toy,
            (
                ("toy", "svm", "SVM"),
                ("toy", "wsvm_probability", "WSVM, P(Y|X)"),
                ("toy", "weight_learning", "WSVM, learned weights"),
                ("toy", "svm_both", "SVM on both samples"),
                ("toy", "svm_validation", "SVM on the validation sample"),
            ),
            _toy_findings,
        ),
        Panel(
            "toy_w_splits",
            "Toy data, 1-to-2 and 2-to-1",
            "Right panel: the rows are split into training and validation rows.",
            _TOTAL,
            _toy_splits,
            _split_curves("toy", extra=True),
            _toy_split_findings,
        ),
    ),
    "uci_datasets": tuple(
        Panel(
            f"uci_{name}",
            TITLES[name],
            "fig:uci_datasets: mean test error over random subsets, bands of one standard error.",
            _TOTAL,
            _uci(name),
            _split_curves(name),
            _uci_findings(name),
        )
        for name in PAPER_SIZES
    ),
    "mnist_all": (
        Panel(
            "mnist_rankings",
            "5 against 8 with rankings",
            "Left panel of fig:mnist_all.",
            "training digits",
            _rankings,
            _digit_curves("digits"),
            _ranking_findings,
        ),
        Panel(
            "mnist_translated",
            "5 against 8, translated",
            "Right panel of fig:mnist_all: nine copies of every training digit.",
            "training digits, each in 9 copies",
            _translated,
            _digit_curves("digits translated"),
            _translated_findings,
        ),
    ),
}
