"""The comparison: who gets which rows, what the errors say, and that neither is an accident."""

import itertools
import math
import warnings

import numpy as np
import pandas as pd
import pytest
import skops.io
from scipy import stats
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lupi.experiments import (
    Parts,
    Shared,
    compare,
    demo_problem,
    difference,
    load_model,
    make_problem,
    predict_table,
    problem_of,
    save_model,
)
from lupi.experiments._answer import Errors, answer, monotone, rows_for, size_of
from lupi.experiments._compare import METHODS, Nested, parts_of, plan

# The limit is for a machine that is busy with other things; alone this takes a few seconds.
pytestmark = pytest.mark.within(400)

# ---- The interval -------------------------------------------------------------------------------


def test_difference_by_hand():
    """Four repeats, a quarter of the rows tested: variance times 1/4 + 1/3."""
    found = difference([0.3, 0.4, 0.3, 0.2], [0.1, 0.3, 0.3, 0.1], test_share=0.25, n_rows=10**6)
    d = np.array([0.2, 0.1, 0.0, 0.1])
    half = stats.t.ppf(0.975, 3) * math.sqrt((1 / 4 + 1 / 3) * d.var(ddof=1))
    assert found.mean == pytest.approx(0.1)
    assert found.low == pytest.approx(0.1 - half)
    assert found.high == pytest.approx(0.1 + half)
    assert found.half_width == pytest.approx(half)
    assert not found.distinguishable
    three = difference(
        [0.3, 0.4, 0.3, 0.2], [0.1, 0.3, 0.3, 0.1], test_share=0.25, n_rows=10**6, comparisons=3
    )
    assert three.half_width / half == pytest.approx(
        stats.t.ppf(1 - 0.025 / 3, 3) / stats.t.ppf(0.975, 3)
    )


def test_differences_without_spread_are_not_certain():
    """Twenty rows, one of five test rows better in every repeat: no spread, and yet chance."""
    found = difference([0.4] * 10, [0.2] * 10, test_share=0.25, n_rows=20)
    assert found.half_width == pytest.approx(stats.t.ppf(0.975, 9) * math.sqrt(0.2 * 0.8 / 20))
    same = difference([0.4] * 10, [0.4] * 10, test_share=0.25, n_rows=20)
    assert same.half_width == pytest.approx(stats.t.ppf(0.975, 9) * math.sqrt(0.05 * 0.95 / 20))
    assert not same.distinguishable


def test_one_repeat_has_no_interval():
    with pytest.raises(ValueError, match="at least two repeats; got 1"):
        difference([0.1], [0.2], test_share=0.25, n_rows=10)


def test_false_alarms_where_nothing_differs():
    """Two fixed classifiers, equally good: each row is judged better by either at random.

    s / sqrt(J) finds a difference in a third of the tables; the corrected interval in at most 7 %.
    """
    rng = np.random.default_rng(0)
    tables, n, J, m = 1000, 120, 20, 30
    alarms = naive = 0
    for _ in range(tables):
        v = rng.choice([-1.0, 0.0, 1.0], p=[0.1, 0.8, 0.1], size=n)
        d = np.array([v[rng.permutation(n)[:m]].mean() for _ in range(J)])
        alarms += difference(d, np.zeros(J), test_share=m / n, n_rows=n).distinguishable
        naive += abs(d.mean()) > stats.t.ppf(0.975, J - 1) * d.std(ddof=1) / math.sqrt(J)
    assert naive > 0.3 * tables
    assert 0.005 * tables < alarms < 0.07 * tables


# ---- Worth in rows ------------------------------------------------------------------------------


def test_monotone_pools_what_rises():
    log_sizes, curve = monotone([40, 10, 20, 80], [0.25, 0.3, 0.15, 0.1])
    np.testing.assert_allclose(np.exp(log_sizes), [10, 20, 40, 80])
    np.testing.assert_allclose(curve, [0.3, 0.2, 0.2, 0.1])
    np.testing.assert_allclose(monotone([1, 2, 3], [0.1, 0.2, 0.6])[1], [0.3, 0.3, 0.3])


def test_rows_for():
    sizes, errors = [10, 20, 40], [0.3, 0.2, 0.1]
    for size, error in zip(sizes, errors, strict=True):
        assert rows_for(sizes, errors, error) == (pytest.approx(size), "")
    assert rows_for(sizes, errors, 0.15) == (pytest.approx(10 * 2**1.5), "")
    assert rows_for(sizes, errors, 0.05) == (pytest.approx(40), "more")
    assert rows_for(sizes, errors, 0.4) == (pytest.approx(10), "less")
    # A flat piece: the fewest rows with this error.
    assert rows_for([10, 20, 40], [0.2, 0.2, 0.1], 0.2) == (pytest.approx(10), "")


# ---- The answer in words ------------------------------------------------------------------------


def judged(gain, spread, n_rows=400, oracle=0.0):
    """The answer for methods that differ from an SVM by a gain, with a spread over 20 repeats."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(3, 20))
    noise -= noise.mean(axis=1, keepdims=True)
    base = np.array([[0.3], [0.25], [0.2]]) + 0.01 * noise

    def errors(name, role, gain):
        own = np.roll(noise, 7, axis=1)
        return Errors(name, name.upper(), role, base - gain - spread * own)

    methods = [
        Errors("svm", "SVM", "reference", base),
        errors("plus", "privileged", gain),
        errors("weights", "privileged", gain - 0.01),
        errors("learned", "other", 0.0),
        errors("oracle", "oracle", oracle),
    ]
    return answer(methods, [50, 100, 200], test_share=0.25, n_rows=n_rows)


def test_it_helps():
    found = judged(0.05, 0.02)
    assert found.verdict == "helps"
    assert found.best == "plus"
    assert "with 200 training rows PLUS makes 15.0 % errors, the SVM 20.0 %" in found.headline
    assert "5.0 points fewer" in found.headline
    assert "for all 3 methods together" in found.headline
    # PLUS has 20 % at 100 rows, where the SVM needs 200.
    assert "needs about 100 rows to do what the SVM does with 200" in found.worth
    assert "worth about 100 training rows." in found.worth
    assert "use PLUS" in found.advice
    assert "With fewer rows" in str(found)
    assert found.rows_needed["plus"][0] == (pytest.approx(100), "")
    assert found.rows_needed["plus"][2][1] == "more"


def test_it_harms():
    found = judged(-0.05, 0.02)
    assert found.verdict == "harms"
    assert found.best == "svm"
    assert found.headline.startswith("No, the extra information does harm")
    assert "5.0 points more" in found.headline
    assert found.worth == ""


def test_nothing_was_gained():
    found = judged(0.0, 0.005, n_rows=40_000)
    assert found.verdict == "nothing"
    assert found.best == "svm"
    assert "no difference" in found.headline
    assert "nothing was gained" in found.headline
    assert "ruled out" in found.advice


def test_it_stays_open():
    found = judged(0.02, 0.1, oracle=0.1)
    assert found.verdict == "open"
    assert found.best == "svm"
    assert "nothing was gained that could not be chance" in found.headline
    assert "if the difference is real" in found.worth
    gain = found.differences["plus"][-1]
    assert f"Gains up to {100 * gain.high:.1f} points" in found.advice
    rows = 400 * (gain.half_width / 0.02) ** 2
    assert f"takes about {size_of(rows)} rows" in found.advice
    assert size_of(12345.0) == "12000"
    assert size_of(87.4) == "87"


def test_intervals_hold_together():
    found = judged(0.02, 0.1)
    assert {d[-1].comparisons for name, d in found.differences.items() if name != "oracle"} == {3}
    assert {d[0].comparisons for name, d in found.differences.items() if name != "oracle"} == {6}
    assert found.differences["oracle"][-1].comparisons == 1


# ---- Rows ---------------------------------------------------------------------------------------


def score_problem(n=60, seed=0, **more):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    X = np.c_[z + rng.normal(size=n), rng.normal(size=n)]
    return make_problem(X, z + 0.3 * rng.normal(size=n) > 0, z[:, None], **more)


def test_sizes_are_nested_and_tests_apart():
    data = score_problem(90)
    protocol, share = plan(data, None, 5, 0)
    assert share == pytest.approx(22 / 90)
    assert protocol.sizes == (8, 17, 34, 68)
    for repeat in range(5):
        drawn = [protocol.parts(data, size, repeat) for size in protocol.sizes]
        for small, large in itertools.pairwise(drawn):
            np.testing.assert_array_equal(small.X, large.X[: len(small.X)])
            np.testing.assert_array_equal(small.X_test, large.X_test)
        largest = drawn[-1]
        every = np.vstack([largest.X, largest.X_test])
        assert len(np.unique(every, axis=0)) == data.n == len(every)
        for one in drawn:
            # The share of a class is that of the whole table, to a row.
            assert abs(np.mean(one.y) - np.mean(data.y)) <= 1.5 / len(one.y)
    again = plan(data, None, 5, 0)[0].parts(data, 34, 3)
    np.testing.assert_array_equal(again.X, protocol.parts(data, 34, 3).X)
    assert not np.array_equal(again.X, protocol.parts(data, 34, 2).X)


def test_groups_stay_together():
    groups = np.repeat(np.arange(15), 6)
    data = score_problem(90, groups=groups)
    protocol, share = plan(data, None, 6, 0)
    assert 0.1 < share <= 0.25
    whole = {tuple(row): g for row, g in zip(data.X, data.groups, strict=True)}
    for repeat in range(6):
        for size in protocol.sizes:
            parts = protocol.parts(data, size, repeat)
            train = {whole[tuple(row)] for row in parts.X}
            test = {whole[tuple(row)] for row in parts.X_test}
            assert not train & test
            assert len(parts.X) == size
            np.testing.assert_array_equal(
                parts.extra["groups"], [whole[tuple(row)] for row in parts.X]
            )
            assert len(np.unique(parts.y_test)) == 2


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ([3], "sizes must be at least"),
        ([60], "sizes must leave rows to test on: the largest is 60 of 60 rows; at most 54"),
        ([], "at least one number"),
    ],
)
def test_sizes_that_cannot_be(sizes, words):
    with pytest.raises(ValueError, match=words):
        plan(score_problem(), sizes, 5, 0)


def test_repeats_that_cannot_be():
    with pytest.raises(ValueError, match="repeats must be at least 2"):
        plan(score_problem(), None, 1, 0)


# ---- Methods ------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS, ids=lambda one: one.name)
def test_test_rows_choose_nothing(method):
    """A method is the same without test rows; and but for the oracle without their extra values."""
    data = score_problem()
    parts = Nested((40,), 2, 15).parts(data, 40, 0)
    blind = Parts(parts.X, parts.y, None, None, X_priv=parts.X_priv, extra=parts.extra)
    fitted = method.fit(blind, 0, Shared())
    outcome = method.run(parts, 0, Shared())
    assert fitted.params == outcome.params
    X_test = parts.X_test
    if method.role == "oracle":
        X_test = np.c_[X_test, parts.X_priv_test]
    assert outcome.error == np.mean(fitted.model.predict(X_test) != parts.y_test)
    if method.role != "oracle":
        without = Parts(parts.X, parts.y, parts.X_test, parts.y_test, X_priv=parts.X_priv)
        assert method.run(without, 0, Shared()).error == outcome.error


@pytest.mark.parametrize("method", METHODS[:1] + METHODS[3:4], ids=lambda one: one.name)
def test_who_sees_no_extra_information(method):
    data = score_problem()
    parts = Nested((40,), 2, 15).parts(data, 40, 0)
    without = Parts(parts.X, parts.y, parts.X_test, parts.y_test)
    assert method.run(parts, 0, Shared()).error == method.run(without, 0, Shared()).error


def test_weights_follow_the_extra_information():
    """Labels are drawn from a score that is privileged: doubtful rows get little weight."""
    rng = np.random.default_rng(3)
    n = 160
    X = rng.normal(size=(n, 4))
    score = 2 * X[:, 0] + X[:, 1] * X[:, 2]
    y = rng.random(n) < 1 / (1 + np.exp(-2 * score))
    data = make_problem(X, y, score[:, None])
    fitted = METHODS[2].fit(parts_of(data, np.arange(n), np.arange(0)), 0, Shared())
    assert fitted.params["tau"] > 0
    against = (score > 0) != y
    assert fitted.weight[against].mean() < 0.5 * fitted.weight[~against].mean()


def mixed(n=70, seed=0):
    """Numbers, words, missing values of either, a row without extra information."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    age = z + rng.normal(size=n)
    age[::7] = np.nan
    colour = np.where(rng.random(n) < 0.7, np.where(z > 0, "red", "blue"), "green").astype(object)
    colour[3::11] = None
    note = z + 0.2 * rng.normal(size=n)
    note[5] = np.nan
    state = np.where(z > 0, "good", "poor").astype(object)
    state[5] = None
    return pd.DataFrame(
        {
            "age": age,
            "colour": colour,
            "visits": rng.integers(0, 9, size=n),
            "smokes": rng.random(n) < 0.5,
            "clinic": rng.integers(0, 12, size=n),
            "trust": rng.random(n),
            "report_note": note,
            "report_state": state,
            "outcome": np.where(z + 0.3 * rng.normal(size=n) > 0, "ill", "well"),
        }
    )


@pytest.mark.parametrize("labels", [2, 3])
def test_tables_of_words_and_gaps(labels, tmp_path):
    """Every method, weights and groups, two and three classes; and its model from a file."""
    frame = mixed()
    if labels == 3:
        frame["outcome"] = np.where(frame["visits"] > 5, "gone", frame["outcome"])
    data = problem_of(frame, "outcome", ["report_*"], group="clinic", weights="trust")
    assert list(data.X.columns) == ["age", "colour", "visits", "smokes"]
    parts = parts_of(data, np.arange(50), np.arange(50, 70))
    for method in METHODS:
        fitted = method.fit(parts, 0, Shared())
        error = method.run(parts, 0, Shared()).error
        assert 0 <= error < 0.6
        save_model(fitted.model, tmp_path / "model.skops")
        copy = load_model(tmp_path / "model.skops")
        if method.role == "oracle":
            continue
        # Columns in another order, others beside them, numbers as the file has them.
        new = frame.drop(columns=["outcome", "report_note", "report_state"]).iloc[:, ::-1]
        found = predict_table(copy, new)
        np.testing.assert_array_equal(found["prediction"], fitted.model.predict(data.X))
        assert ("decision_value" in found) is (labels == 2)


def test_nothing_is_learned_from_other_rows():
    """Filling in and scaling see the training rows alone: what is in the others changes nothing."""
    data = problem_of(mixed(), "outcome", ["report_*"])
    other = mixed()
    other.loc[50:, "age"] = 1e6
    other.loc[50:, "colour"] = "violet"
    changed = problem_of(other, "outcome", ["report_*"])
    train, test = np.arange(50), np.arange(50, 70)
    for method in METHODS:
        a = method.fit(parts_of(data, train, test), 0, Shared())
        b = method.fit(parts_of(changed, train, test), 0, Shared())
        assert a.params == b.params
        if method.role != "oracle":
            np.testing.assert_array_equal(
                a.model.decision_function(data.X), b.model.decision_function(data.X)
            )


# ---- All together -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    folder = tmp_path_factory.mktemp("small")
    data = score_problem(70)
    settings = {"sizes": [20, 40], "repeats": 2}
    own = {"dummy": DummyClassifier(), "logistic": LogisticRegression()}
    found = compare(data.X, data.y, data.X_priv, estimators=own, out=folder, **settings)
    return data, {**settings, "estimators": own}, folder, found


def test_results(small):
    data, _, _, found = small
    assert len(found.rows) == 2 * 2 * 7
    assert [one.name for one in found.errors][-2:] == ["dummy", "logistic"]
    assert found.errors[0].errors.shape == (2, 2)
    # One cell by hand.
    order, test = found.protocol.draw(data, 1, 20)
    own = make_pipeline(StandardScaler(), LogisticRegression())
    own.fit(data.X[order[:40]], data.y[order[:40]])
    assert found.errors[-1].errors[1, 1] == 1 - own.score(data.X[test], data.y[test])
    assert str(found) == str(found.answer)
    assert "SVM that sees everything" in found.table()


def test_a_stopped_run_goes_on(small, tmp_path):
    """Whatever part of the journal is left, the table is the same to the last bit."""
    data, settings, folder, found = small
    whole = (folder / "journal.jsonl").read_bytes()
    for kept in (len(whole), len(whole) * 2 // 3):
        (tmp_path / "journal.jsonl").write_bytes(whole[:kept])
        again = compare(data.X, data.y, data.X_priv, out=tmp_path, **settings)
        assert again.rows == found.rows


def test_workers_change_nothing(small):
    data, settings, _, found = small
    again = compare(data.X, data.y, data.X_priv, n_jobs=2, **settings)
    assert again.rows == found.rows


def test_another_run_is_left_alone(small):
    data, settings, folder, _ = small
    before = (folder / "journal.jsonl").read_bytes()
    with pytest.raises(ValueError, match="settings"):
        compare(data.X + 1.0, data.y, data.X_priv, out=folder, **settings)
    assert (folder / "journal.jsonl").read_bytes() == before


def test_report(small, tmp_path):
    _, _, _, found = small
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        path = found.write(tmp_path / "report")
    text = path.read_text(encoding="utf-8")
    assert "http" not in text
    for one in found.errors:
        assert one.label.replace("*", "") in text.replace("*", "")
    assert sorted(p.name for p in path.parent.iterdir()) == [
        "figures",
        "index.html",
        "results.csv",
    ]
    table = pd.read_csv(path.parent / "results.csv")
    assert len(table) == len(found.rows)
    np.testing.assert_array_equal(table["error"], [row["error"] for row in found.rows])


def test_fit_names_its_methods(small):
    with pytest.raises(ValueError, match="no method 'magic'"):
        small[3].fit("magic")


def test_twenty_rows():
    data = score_problem(20)
    found = compare(data.X, data.y, data.X_priv, repeats=2)
    assert found.protocol.sizes[-1] == 15
    assert found.answer.verdict == "open"
    assert "20 rows are too few" in found.answer.advice


@pytest.mark.slow
@pytest.mark.within(900)
def test_a_gain_is_found():
    """Three of ten labels are wrong, and the extra column says what each should be.

    The labels of test rows are as wrong, so that a perfect classifier makes 30 % errors.
    """
    rng = np.random.default_rng(1)
    X = rng.normal(size=(3000, 10))
    truth = X[:, 0] + X[:, 1] > 0
    y = truth ^ (rng.random(3000) < 0.3)
    found = compare(X, y, np.where(truth, 1.0, -1.0)[:, None], sizes=[150], n_jobs=2)
    assert found.answer.verdict == "helps"
    assert found.answer.best == "wsvm_probability"
    assert found.answer.differences["wsvm_probability"][-1].mean > 0.03


@pytest.mark.slow
@pytest.mark.within(900)
def test_noise_is_not_found_to_help():
    """Twenty tables whose extra columns are noise; benchmarks/compare_alarms.py has a hundred."""
    alarms = 0
    for seed in range(20):
        data = score_problem(40, seed)
        noise = np.random.default_rng([seed, 1]).normal(size=(40, 3))
        found = compare(data.X, data.y, noise, sizes=[30], repeats=5, random_state=seed)
        alarms += found.answer.verdict == "helps"
    assert alarms <= 2


# ---- Bad input ----------------------------------------------------------------------------------

GOOD = mixed()


def changed(**columns):
    return GOOD.assign(**columns)


@pytest.mark.parametrize(
    ("frame", "settings", "words"),
    [
        (GOOD, {"target": "outcom"}, "'outcom' is not in the table; did you mean 'outcome'"),
        (GOOD, {"privileged": ["note_*"]}, "no column matches 'note_"),
        (GOOD, {"privileged": ["*"]}, "matches the target column 'outcome'"),
        (GOOD, {"privileged": []}, "name at least one column"),
        (GOOD, {"drop": ["report_*"]}, "no privileged column is left"),
        (GOOD, {"privileged": ["[!o]*"]}, "no ordinary column is left"),
        (GOOD, {"drop": ["outcome"]}, "among those to drop"),
        (GOOD, {"group": "ward"}, "group column 'ward' is not"),
        (GOOD, {"weights": "colour"}, "weights must be numbers"),
        (GOOD, {"privileged": ["trust"], "weights": "trust"}, "matches the weights column"),
        (changed(trust=-1.0), {"weights": "trust"}, "not negative; row 0"),
        (changed(outcome="ill"), {}, "one class only"),
        (changed(outcome=["rare"] * 3 + ["ill"] * 67), {}, "class rare of the target has 3 rows"),
        (changed(outcome=np.arange(70) / 7), {}, "look like measurements"),
        (changed(outcome=[None] * 2 + ["a", "b"] * 34), {}, "2 missing values, the first in row 0"),
        (changed(age=np.inf), {}, "column 'age' has an infinite value in row 0"),
        (changed(age=pd.Timestamp("2020-01-01")), {}, "dates"),
        (changed(clinic=0), {"group": "clinic"}, "in 1 groups only"),
    ],
)
def test_tables_that_cannot_be_compared(frame, settings, words):
    arguments = {"target": "outcome", "privileged": ["report_*"], **settings}
    with pytest.raises(ValueError, match=words.replace("*", r"\*")) as caught:
        problem_of(frame, **arguments)
    assert "\n" not in str(caught.value)


def test_arrays_that_cannot_be_compared():
    X, y = np.zeros((20, 2)), np.arange(20) % 2
    with pytest.raises(ValueError, match="X_priv must have one row for each label: 20, got 19"):
        make_problem(X, y, np.zeros((19, 1)))
    with pytest.raises(ValueError, match="for words pass a pandas DataFrame"):
        make_problem([["a"]] * 20, y, X)
    with pytest.raises(ValueError, match="X has an infinite value: column 1"):
        make_problem(np.c_[X[:, 0], np.full(20, np.inf)], y, X)
    with pytest.raises(ValueError, match="level must be"):
        compare(X, y, X, level=2)


def test_columns_worth_a_word():
    frame = mixed().assign(id=np.arange(70), name=[f"person {k}" for k in range(70)])
    notes = problem_of(frame, "outcome", ["report_*"]).notes
    assert any("`id` counts the rows" in note for note in notes)
    assert any("`name` has 70 different words" in note for note in notes)


def test_models_of_others_are_not_opened(tmp_path):
    path = tmp_path / "model.skops"
    skops.io.dump(DummyClassifier(strategy=print), path)
    with pytest.raises(ValueError, match=r"not opened: it holds|not a model"):
        load_model(path)
    skops.io.dump(LogisticRegression(), path)
    with pytest.raises(ValueError, match="not a model of lupi compare"):
        load_model(path)
    path.write_bytes(b"nothing")
    with pytest.raises(ValueError, match="is not a model"):
        load_model(path)


def test_demo_data():
    data = demo_problem()
    assert (data.X.shape, data.X_priv.shape) == ((356, 16), (356, 64))
    np.testing.assert_allclose(data.X.sum(axis=1), data.X_priv.sum(axis=1) / 4)
