"""The engine of the experiments, its methods, and the paper's figures."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from data import data_home, needs
from joblib import parallel_config
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, PredefinedSplit

from lupi import SVMPlusClassifier, WeightedSVC
from lupi.experiments import (
    FIGURES,
    SVM,
    AnnotatorWeights,
    DataSet,
    EstimatorMethod,
    Experiment,
    FixedValidation,
    Journal,
    LearnedUnion,
    LearnedWeights,
    OtherRunError,
    Outcome,
    ProbabilityWeights,
    Replay,
    Shared,
    Split,
    SVMBoth,
    SVMPlus,
    SVMValidation,
    generator,
    paired,
    reproduce,
    run,
    stratified,
    summary,
    tuned,
    write_csv,
)
from lupi.experiments._annotators import read_rankings
from lupi.experiments._methods import _offset_by_errors
from lupi.experiments._paper import compared


def two_moons(n, rng):
    """Two classes that overlap, and a privileged feature that says how hard a row is."""
    y = rng.choice([-1, 1], n)
    X = rng.normal(size=(n, 3))
    X[:, 0] += 1.2 * y
    X[:, 1] += X[:, 0] ** 2 * 0.3
    return X, y, np.c_[y * X[:, 0], rng.normal(size=n)]


def data_set(seed=0, name="moons"):
    rng = np.random.default_rng(seed)
    (X, y, X_priv), (X_val, y_val, _), (X_test, y_test, _) = (
        two_moons(n, rng) for n in (120, 150, 300)
    )
    scores = np.clip(y * 0.5 + 0.3 * rng.normal(size=120), -1, 1)
    return DataSet(name, X, y, X_test, y_test, X_val, y_val, X_priv, extra={"scores": scores})


ALL = (
    SVM(),
    SVMPlus(),
    Replay(),
    Replay("wsvm_b", "WSVM-b", "svm_plus"),
    ProbabilityWeights(),
    AnnotatorWeights(),
    LearnedWeights(deltas=(0.3, 1.0)),
    SVMBoth(),
    SVMValidation(),
    EstimatorMethod("logistic", LogisticRegression()),
    EstimatorMethod("tuned logistic", LogisticRegression(), {"C": [0.1, 1.0]}),
)


# ---- Drawing rows -------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [2, 3, 10, 57, 100])
def test_subsets_keep_the_proportions_of_the_classes(size):
    y = np.repeat([3, 7], [70, 30])
    rows = stratified(y, size, np.random.default_rng(0))
    assert len(np.unique(rows)) == size
    count = np.sum(y[rows] == 7)
    assert count >= 1
    assert abs(count - 0.3 * size) <= 1


def test_groups_are_drawn_whole():
    y = np.tile([0, 1, 0, 1, 1], 3)
    groups = np.tile(np.arange(5), 3)
    rows = stratified(y, 4, np.random.default_rng(1), groups)
    assert len(rows) == 12
    assert np.all(np.unique(groups[rows], return_counts=True)[1] == 3)


@pytest.mark.parametrize("size", [1, 101])
def test_subsets_that_cannot_be_drawn(size):
    with pytest.raises(ValueError, match=f"{size} rows cannot be drawn: there are 100 rows"):
        stratified(np.repeat([0, 1], 50), size, np.random.default_rng(0))


def test_both_splits_have_the_same_rows():
    data = data_set()
    one = Split((30,), 2, 1, 2).parts(data, 30, 1)
    two = Split((30,), 2, 2, 1).parts(data, 30, 1)
    assert [len(p.y) for p in (one, two)] == [10, 20]
    assert [len(p.y_val) for p in (one, two)] == [20, 10]

    def rows(parts):
        return sorted(map(tuple, np.vstack([parts.X, parts.X_val])))

    assert rows(one) == rows(two)
    assert len(set(rows(one))) == 30
    assert rows(one) != rows(Split((30,), 2).parts(data, 30, 0))


def test_a_cell_is_drawn_from_its_own_seed():
    data = data_set()
    few, many = FixedValidation((20,), 1), FixedValidation((10, 20, 40), 50)
    many.parts(data, 40, 3)
    np.testing.assert_array_equal(few.parts(data, 20, 0).X, many.parts(data, 20, 0).X)
    assert not np.array_equal(
        few.parts(data, 20, 0).X, FixedValidation((20,), 1, seed=1).parts(data, 20, 0).X
    )
    assert generator(0, "a", 1).random() != generator(0, "b", 1).random()


# ---- Choosing hyper-parameters ------------------------------------------------------------------


def test_the_best_of_a_grid_is_that_of_scikit_learn():
    parts = FixedValidation((40,), 1).parts(data_set(), 40, 0)
    grid = {"gamma": [0.03, 0.1, 0.3, 1.0], "C": [0.1, 1.0, 10.0, 100.0]}
    found = tuned(WeightedSVC(), grid, parts)
    fold = PredefinedSplit(np.r_[np.full(40, -1), np.zeros(150, dtype=int)])
    search = GridSearchCV(
        WeightedSVC(), grid, cv=fold, refit=False, scoring=["accuracy", "roc_auc"]
    ).fit(np.vstack([parts.X, parts.X_val]), np.r_[parts.y, parts.y_val])
    results = search.cv_results_
    keys = list(zip(results["mean_test_accuracy"], results["mean_test_roc_auc"], strict=True))
    assert found.score == pytest.approx(max(keys)[0] + 1e-6 * max(keys)[1], abs=1e-11)
    assert found.params == results["params"][keys.index(max(keys))]
    # On the training rows, and on nothing else.
    assert len(found.model.alpha_) == 40


def test_folds_where_there_are_no_validation_rows():
    data = data_set()
    parts = FixedValidation((40,), 1).parts(data, 40, 0)
    alone = type(parts)(parts.X, parts.y, None, np.zeros(0))
    found = tuned(WeightedSVC(gamma=0.3), {"C": [1e-3, 1.0]}, alone, folds=4)
    search = GridSearchCV(
        WeightedSVC(gamma=0.3), {"C": [1e-3, 1.0]}, cv=_folds_of(alone.y), scoring="accuracy"
    ).fit(alone.X, alone.y)
    assert found.score == pytest.approx(search.best_score_, abs=2e-6)
    assert len(found.model.alpha_) == 40


def _folds_of(y):
    from sklearn.model_selection import StratifiedKFold

    return StratifiedKFold(4, shuffle=True, random_state=0)


def test_folds_keep_groups_together():
    rng = np.random.default_rng(0)
    X, y, _ = two_moons(60, rng)
    X, y, groups = np.vstack([X, X]), np.r_[y, y], np.tile(np.arange(60), 2)
    parts = type(FixedValidation((4,), 1).parts(data_set(), 4, 0))(X, y, None, np.zeros(0))
    grid = {"C": [1e3], "gamma": [50.0]}  # remembers rows: perfect if a copy is in training
    together = tuned(WeightedSVC(), grid, parts, groups=groups).score
    apart = tuned(WeightedSVC(), grid, parts).score
    assert apart > 0.9
    assert together < apart - 0.1


def test_refining_looks_between_the_values_and_is_never_worse():
    parts = FixedValidation((60,), 1).parts(data_set(), 60, 0)
    grid = {"C": (0.01, 1.0, 100.0), "gamma": (0.01, 1.0)}
    coarse, fine = (tuned(WeightedSVC(), grid, parts, refine=k) for k in (0, 2))
    assert fine.score >= coarse.score
    assert {name: type(value) for name, value in fine.params.items()} == {
        "C": float,
        "gamma": float,
    }


def test_one_row_of_a_class_is_too_few_for_folds():
    parts = FixedValidation((4,), 1).parts(data_set(), 4, 0)
    parts = type(parts)(parts.X[:3], np.array([1, 1, -1]), None, np.zeros(0))
    with pytest.raises(ValueError, match=r"every class needs two rows .* has 1"):
        tuned(WeightedSVC(), {"C": [1.0]}, parts)


# ---- Methods ------------------------------------------------------------------------------------


def test_test_rows_change_nothing_but_the_score():
    """Methods see other test rows, and choose and learn the same."""
    data = data_set()
    other = data_set(seed=5)
    parts = FixedValidation((40,), 1).parts(data, 40, 0)
    changed = type(parts)(
        parts.X, parts.y, other.X_test, -other.y_test, parts.X_val, parts.y_val, parts.X_priv,
        None, parts.extra,
    )  # fmt: skip
    here, there = Shared(), Shared()
    for method in ALL:
        one, two = method.run(parts, 0, here), method.run(changed, 0, there)
        assert one.params == two.params, method.name
        np.testing.assert_array_equal(
            one.model.predict(parts.X_val), two.model.predict(parts.X_val), err_msg=method.name
        )
        assert 0 <= one.error < 0.4, method.name


def test_the_replayed_svm_plus_is_the_same_classifier():
    data = data_set()
    for repeat in range(5):
        parts, shared = FixedValidation((30,), 5).parts(data, 30, repeat), Shared()
        plus = SVMPlus().run(parts, 0, shared)
        same = Replay("wsvm_b", "", "svm_plus").run(parts, 0, shared)
        assert same.info["differs_from_svm_plus"] == 0
        assert same.info["largest_difference"] < 1e-6
        assert same.error == plus.error
        assert isinstance(plus.model, SVMPlusClassifier)
        assert plus.info["relative_gap"] < 1e-3


def test_the_offset_with_the_fewest_validation_errors():
    rng = np.random.default_rng(0)

    @dataclass
    class Model:
        intercept_ = np.array([0.2])
        classes_ = np.array([-1, 1])

        def decision_function(self, X):
            return X[:, 0] + 0.2

    parts = FixedValidation((4,), 1).parts(data_set(), 4, 0)
    for _ in range(20):
        X_val = rng.normal(size=(31, 1))
        y_val = rng.choice([-1, 1], 31)
        parts = type(parts)(parts.X, parts.y, None, None, X_val, y_val)
        found = _offset_by_errors(Model(), parts, -0.5, 1.0)
        assert -0.5 <= found <= 1.0

        def wrong(b, X_val=X_val, y_val=y_val):
            return np.sum(y_val * (X_val[:, 0] + b) <= 0)

        assert wrong(found) == min(wrong(b) for b in np.linspace(-0.5, 1.0, 5_001))
        assert wrong(found) <= wrong(0.2)


def test_weights_that_the_annotators_gave():
    data = data_set()
    parts = FixedValidation((40,), 1).parts(data, 40, 0)
    outcome = AnnotatorWeights().run(parts, 0, Shared())
    assert outcome.params["tau"] in (0.0, 0.5, 1.0, 2.0, 4.0)
    bare = type(parts)(parts.X, parts.y, parts.X_test, parts.y_test, parts.X_val, parts.y_val)
    with pytest.raises(ValueError, match="no scores of annotators"):
        AnnotatorWeights().run(bare, 0, Shared())
    with pytest.raises(ValueError, match="needs privileged features"):
        SVMPlus().run(bare, 0, Shared())


def test_learned_weights_do_not_lose_on_the_validation_rows():
    data = data_set()
    parts = FixedValidation((40,), 1).parts(data, 40, 0)
    shared = Shared()
    svm = SVM().run(parts, 0, shared)
    learned = LearnedWeights().run(parts, 0, shared)
    assert learned.info["tuning_score"] >= svm.info["tuning_score"] - 0.02
    assert learned.model.validation_loss_ <= learned.model.initial_
    assert LearnedUnion().run(parts, 0, shared).error < 0.35


# ---- The engine ---------------------------------------------------------------------------------

FAST = (SVM(), EstimatorMethod("logistic", LogisticRegression()))


def experiment(methods=FAST, repeats=3, name="moons"):
    return Experiment(name, data_set(), FixedValidation((20, 40), repeats), methods)


def test_results_do_not_depend_on_the_workers(tmp_path):
    tables = []
    for k, (backend, jobs) in enumerate((("loky", 1), ("loky", 2), ("threading", 2))):
        journal = Journal(tmp_path / str(k) / "journal.jsonl", {})
        with parallel_config(backend=backend):
            tables.append(run(experiment(ALL[:6], 2), journal, n_jobs=jobs, progress=False))
    assert len(tables[0]) == 2 * 2 * 6
    assert json.dumps(tables[0]) == json.dumps(tables[1]) == json.dumps(tables[2])


def test_a_backend_that_gives_everything_at_its_end(tmp_path, monkeypatch):
    from joblib._parallel_backends import ThreadingBackend

    monkeypatch.setattr(ThreadingBackend, "supports_return_generator", False)
    with parallel_config(backend="threading"):
        rows = run(experiment(), Journal(tmp_path / "j.jsonl", {}), n_jobs=2, progress=False)
    assert len(rows) == 12
    assert rows == run(experiment(), Journal(tmp_path / "k.jsonl", {}), progress=False)


KILLED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from dataclasses import dataclass
from lupi.experiments import Journal, Outcome, run
from test_experiments import experiment, FAST

@dataclass(frozen=True)
class Deadly:
    name: str = "deadly"
    label: str = ""
    def run(self, parts, seed, shared):
        if {where} == (len(parts.y), round(float(parts.X[0, 0]), 6)):
            os.kill(os.getpid(), signal.SIGKILL)
        return Outcome(float(parts.X[0, 0]), {{}}, {{"n": len(parts.y)}})

run(experiment((*FAST, Deadly())), Journal({path!r}, {{"a": 1}}), progress=False)
"""


@dataclass(frozen=True)
class Harmless:
    name: str = "deadly"
    label: str = ""

    def run(self, parts, seed, shared):
        return Outcome(float(parts.X[0, 0]), {}, {"n": len(parts.y)})


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")
@pytest.mark.parametrize("cut", [0, 1, 17])
def test_killed_in_the_middle_and_started_again(tmp_path, cut):
    """The same table, bit for bit, also where the last line was torn."""
    methods = (*FAST, Harmless())
    whole = run(experiment(methods), Journal(tmp_path / "whole.jsonl", {"a": 1}), progress=False)
    path = tmp_path / "killed.jsonl"
    drawn = FixedValidation((20, 40), 3).parts(data_set(), 20, 1)
    script = KILLED.format(
        tests=os.path.dirname(__file__),
        where=(20, round(float(drawn.X[0, 0]), 6)),
        path=str(path),
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    kept = path.read_bytes()
    assert 1 < kept.count(b"\n") < len(whole)
    path.write_bytes(kept[: len(kept) - cut])
    again = run(experiment(methods), Journal(path, {"a": 1}), progress=False)
    write_csv(whole, tmp_path / "whole.csv")
    write_csv(again, tmp_path / "again.csv")
    assert (tmp_path / "whole.csv").read_bytes() == (tmp_path / "again.csv").read_bytes()
    lines = path.read_text().splitlines()
    keys = [tuple(json.loads(line)[k] for k in ("size", "repeat", "method")) for line in lines[1:]]
    assert len(keys) == len(set(keys)) == len(whole)


def test_nothing_runs_twice(tmp_path):
    journal = Journal(tmp_path / "journal.jsonl", {})
    first = run(experiment(FAST[:1]), journal, progress=False)
    before = (tmp_path / "journal.jsonl").read_text()
    assert run(experiment(FAST[:1]), journal, progress=False) == first
    assert (tmp_path / "journal.jsonl").read_text() == before
    # More methods, more repeats: only what is new.
    more = run(experiment(FAST, 4), Journal(tmp_path / "journal.jsonl", {}), progress=False)
    assert (tmp_path / "journal.jsonl").read_text().startswith(before)
    assert [row for row in more if row["method"] == "svm" and row["repeat"] < 3] == first
    assert len(more) == 16


def test_the_results_of_another_run_are_never_touched(tmp_path):
    path = tmp_path / "journal.jsonl"
    run(experiment(), Journal(path, {"seed": 0}), progress=False)
    before = path.read_bytes()
    with pytest.raises(OtherRunError, match=r"other settings \(seed: 0 there, 1 here\)"):
        Journal(path, {"seed": 1})
    path.with_name("other.jsonl").write_text("something else\n")
    with pytest.raises(OtherRunError, match="does not begin like a journal"):
        Journal(path.with_name("other.jsonl"), {"seed": 1})
    assert path.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="needs flock")
def test_two_runs_at_once(tmp_path):
    path = tmp_path / "journal.jsonl"
    with (
        Journal(path, {}).writing(),
        pytest.raises(OtherRunError, match=r"another run is writing to .* now"),
    ):
        run(experiment(), Journal(path, {}), progress=False)
    assert len(run(experiment(), Journal(path, {}), progress=False)) == 12


def test_a_journal_that_was_killed_in_its_first_line(tmp_path):
    path = tmp_path / "journal.jsonl"
    path.write_text('{"settings": {"se')
    assert Journal(path, {"seed": 1}).rows == {}
    assert Journal(path, {"seed": 1}).rows == {}
    assert path.read_text() == '{"settings": {"seed": 1}}\n'


def test_methods_with_the_same_name():
    with pytest.raises(ValueError, match=r"different names; 'svm' occurs 2 times"):
        experiment((SVM(), SVM(label="again")))


def test_summaries_by_hand():
    rows = [
        {"experiment": "e", "data": "d", "size": 4, "repeat": r, "method": m, "error": e}
        for m, errors in (("a", (0.1, 0.3)), ("b", (0.2, 0.6)))
        for r, e in enumerate(errors)
    ]
    a, b = summary(rows)
    assert (a["mean"], a["repeats"]) == (pytest.approx(0.2), 2)
    assert a["std"] == pytest.approx(0.2 / np.sqrt(2))
    assert b["standard_error"] == pytest.approx(0.2)
    mean, error, n = paired(rows, "e", 4, "a", "b")
    assert (mean, error, n) == (pytest.approx(-0.2), pytest.approx(0.1), 2)
    assert np.isnan(paired(rows, "e", 5, "a", "b")[0])
    found = compared(rows, "e", "a", "b")
    assert (found.overall, found.overall_error) == (pytest.approx(-20), pytest.approx(10))
    assert not found.clearly_below
    assert compared(rows, "f", "a", "b") is None


# ---- The paper ----------------------------------------------------------------------------------


def test_the_figures_that_show_one_data_set(tmp_path):
    names = FIGURES[:5]
    found = reproduce(names, out=tmp_path, progress=False)
    assert found.page == tmp_path / "index.html"
    for name in names:
        assert (tmp_path / "figures" / f"{name}.svg").is_file()
        assert found.findings[name]
        assert all(one.agrees is not False for one in found.findings[name]), found.findings[name]
    assert sum(one.agrees is True for f in found.findings.values() for one in f) >= 11
    assert (tmp_path / "results.csv").read_text().startswith("experiment,data,size,repeat,method")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"figures": ["nothing"]}, r"there is no figure 'nothing'; there are equiv_example, "),
        ({"repeats": 0}, r"repeats must be at least 1; got 0"),
    ],
)
def test_what_cannot_be_reproduced(tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        reproduce(out=tmp_path / "new", progress=False, **arguments)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0.5,1\n", "must have 2 lines, one for each training digit; there are 1"),
        ("0.5,1\n0,1.5\n", r"must lie in \[-1, 1\]; in line 2 there is 1.5"),
        ("0.5,1\n0,x\n", "are not numbers"),
    ],
)
def test_rankings_that_are_none(tmp_path, text, message):
    (tmp_path / "rankings.csv").write_text(text)
    with pytest.raises(ValueError, match=message):
        read_rankings(tmp_path / "rankings.csv", 2)


def test_rankings_of_a_file(tmp_path):
    (tmp_path / "rankings.csv").write_text("0.5,1,-1,0\n1,1,1,1\n")
    np.testing.assert_allclose(read_rankings(tmp_path / "rankings.csv", 2), [0.125, 1.0])


def test_sizes_of_the_uci_sets(tmp_path):
    for name in ("breast_cancer_wisconsin", "mammographic_mass", "spambase"):
        needs(name)
    found = reproduce(["uci_stats"], out=tmp_path, data_home=data_home(), progress=False)
    assert [one.found for one in found.findings["uci_stats"]] == [
        "9 / 351 / 332",
        "4 / 420 / 410",
        "57 / 2430 / 2171",
    ]
    assert all(one.agrees for one in found.findings["uci_stats"])


def test_the_page_of_results_is_that_of_its_files():
    root = Path(__file__).resolve().parent.parent
    tool = root / "tools" / "reproduction_page.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.within(600)
def test_all_of_it_with_one_repeat(tmp_path):
    for name in ("mnist", "mnist_5v8", "breast_cancer_wisconsin", "mammographic_mass", "spambase"):
        needs(name)
    found = reproduce(
        quick=True, repeats=1, out=tmp_path, data_home=data_home(), n_jobs=2, progress=False
    )
    assert set(found.findings) >= {"mnist_svmw_eq_svmp", "toy_w", "uci_spambase", "mnist_rankings"}
    assert {row["experiment"] for row in found.rows} >= {"digits", "digits translated", "toy"}
    replayed = [row for row in found.rows if row["method"] == "wsvm_b"]
    assert replayed
    assert all(row["info"]["differs_from_svm_plus"] == 0 for row in replayed)
