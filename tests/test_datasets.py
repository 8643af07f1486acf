"""The generators, the files and their checks, and the published data where it is at hand."""

import http.client
import io
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request

import numpy as np
import pytest
from data import data_home, needs
from sklearn.datasets import load_digits

from lupi import datasets
from lupi.cli import main
from lupi.datasets import _files

# ---- Toy problems -------------------------------------------------------------------------------


def test_the_probability_is_that_of_the_sample():
    """Calibrated in every bin: the mean label of rows with a probability near p is p."""
    X, y, p = datasets.make_w_mixture(200_000, random_state=0, return_probability=True)
    assert set(np.unique(y)) == {-1, 1}
    np.testing.assert_array_equal(p, datasets.w_mixture_probability(X))
    for low in np.arange(0.0, 1.0, 0.1):
        rows = (p >= low) & (p < low + 0.1)
        assert rows.sum() > 1000
        # Five standard deviations of a mean of Bernoulli variables.
        bound = 5 * np.sqrt(np.mean(p[rows] * (1 - p[rows])) / rows.sum())
        assert abs(np.mean(y[rows] == 1) - p[rows].mean()) < bound
    # The documented smallest error rate, and that the Bayes classifier has it.
    assert abs(np.minimum(p, 1 - p).mean() - 0.115) < 0.001
    assert abs(np.mean((p > 0.5) != (y == 1)) - 0.115) < 5 * np.sqrt(0.115 * 0.885 / len(y))


def test_the_probability_by_the_definition():
    """Bayes' rule with scipy's densities, centres written out again."""
    from scipy.stats import multivariate_normal

    points = np.random.default_rng(1).uniform([-0.2, -0.4], [1.2, 1.0], (40, 2))
    knots, heights = [0, 0.25, 0.5, 0.75, 1], [0.6, 0, 0.6, 0, 0.6]
    t = np.linspace(0, 1, 17)
    density = {
        label: sum(
            multivariate_normal([x, np.interp(x, knots, heights) + 0.2 * label], 0.1**2).pdf(points)
            for x in t
        )
        for label in (-1, 1)
    }
    expected = density[1] / (density[1] + density[-1])
    found = datasets.w_mixture_probability(points, spread=0.1)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_the_probability_far_away_is_a_number():
    p = datasets.w_mixture_probability([[0.5, 1e3], [0.5, -1e3], [1e6, 0.0]])
    assert np.isfinite(p).all()
    assert p[0] == 1.0
    assert p[1] == 0.0


@pytest.mark.parametrize("make", [datasets.make_w_mixture, datasets.make_blobs_with_outliers])
def test_seeds(make):
    one, same = make(50, random_state=3), make(50, random_state=3)
    for a, b in zip(one, same, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(one[0], make(50, random_state=4)[0])
    assert not np.array_equal(make(50)[0], make(50)[0])
    rng = np.random.default_rng(0)
    assert not np.array_equal(make(50, random_state=rng)[0], make(50, random_state=rng)[0])
    old = [make(50, random_state=np.random.RandomState(0))[0] for _ in range(2)]
    np.testing.assert_array_equal(*old)


def test_blobs():
    X, y = datasets.make_blobs_with_outliers(41, random_state=0)
    assert X.shape == (43, 2)
    assert (y[:-2] == 1).sum() == 21
    assert (np.sign(X[:-2, 0]) == y[:-2]).mean() > 0.95
    assert (np.sign(X[-2:, 0]) == -y[-2:]).all()
    clean, labels = datasets.make_blobs_with_outliers(41, outliers=False, random_state=0)
    np.testing.assert_array_equal(clean, X[:-2])
    np.testing.assert_array_equal(labels, y[:-2])


@pytest.mark.parametrize("n", [0, -3, 2.5, "many", True])
@pytest.mark.parametrize("make", [datasets.make_w_mixture, datasets.make_blobs_with_outliers])
def test_wrong_sizes(make, n):
    with pytest.raises(ValueError, match="n_samples must be an integer"):
        make(n)


def test_wrong_mixtures():
    for spread in (0, -1.0, np.nan, np.inf, "wide"):
        with pytest.raises(ValueError, match="spread must be a positive number"):
            datasets.make_w_mixture(3, spread=spread)
    with pytest.raises(ValueError, match=r"shape \(n_samples, 2\)"):
        datasets.w_mixture_probability([1.0, 2.0])
    with pytest.raises(ValueError, match="finite"):
        datasets.w_mixture_probability([[np.nan, 2.0]])


# ---- Translated images --------------------------------------------------------------------------


def test_translation():
    """Copy k is the image moved: every pixel is its neighbour's, and zero where that is outside."""
    images = load_digits().data[:5]
    moved, groups = datasets.translate_digits(images)
    assert moved.shape == (45, 64)
    np.testing.assert_array_equal(moved[:5], images)
    np.testing.assert_array_equal(groups, list(range(5)) * 9)
    seen = set()
    for k in range(9):
        for down in (-1, 0, 1):
            for right in (-1, 0, 1):
                expected = np.zeros((5, 8, 8))
                for r in range(8):
                    for c in range(8):
                        if 0 <= r - down < 8 and 0 <= c - right < 8:
                            expected[:, r, c] = images.reshape(5, 8, 8)[:, r - down, c - right]
                if np.array_equal(moved[5 * k : 5 * k + 5].reshape(5, 8, 8), expected):
                    seen.add((k, down, right))
    assert len(seen) == 9
    assert len({move[1:] for move in seen}) == 9
    for wrong in (np.zeros(4), np.zeros((2, 5)), np.zeros((2, 0))):
        with pytest.raises(ValueError, match="square images"):
            datasets.translate_digits(wrong)


# ---- Files --------------------------------------------------------------------------------------

CONTENT = b"1,2,3\n4,5,6\n"
FILE = _files.DataFile(
    "numbers",
    "numbers.data",
    "https://example.org/numbers.data",
    "",
)


class Answer(io.BytesIO):
    """What urlopen returns."""


@pytest.fixture
def web(monkeypatch):
    """A web of one file; ``web.answer`` is its bytes, or an error to raise."""
    import dataclasses
    import hashlib

    class Web:
        answer = CONTENT
        asked = 0
        file = dataclasses.replace(FILE, sha256=hashlib.sha256(CONTENT).hexdigest())

    def urlopen(url, timeout):
        Web.asked += 1
        assert url == FILE.url
        assert timeout > 0
        if isinstance(Web.answer, BaseException):
            raise Web.answer
        return Answer(Web.answer)

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    monkeypatch.delenv("LUPI_DATA", raising=False)
    monkeypatch.setitem(_files.FILES, "numbers", (Web.file,))
    return Web


def contents(folder):
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_download_once(web, tmp_path):
    for _ in range(3):
        assert _files.read(web.file, tmp_path) == CONTENT
    assert web.asked == 1
    assert contents(tmp_path) == [os.path.join("numbers", "numbers.data")]


def test_line_ends_are_not_content(web, tmp_path):
    web.answer = CONTENT.replace(b"\n", b"\r\n")
    assert _files.read(web.file, tmp_path).split() == CONTENT.split()
    assert datasets.fetch_files(["numbers"], data_home=tmp_path)[0].is_file()


@pytest.mark.parametrize(
    "answer",
    [CONTENT[:-3], CONTENT.replace(b"5", b"6"), b"", b"<html>not found</html>"],
    ids=["partial", "corrupted", "empty", "page"],
)
def test_wrong_bytes_leave_nothing(web, tmp_path, answer):
    web.answer = answer
    with pytest.raises(OSError, match="SHA-256") as raised:
        _files.read(web.file, tmp_path)
    for words in (str(tmp_path / "numbers" / "numbers.data"), FILE.url, "LUPI_DATA"):
        assert words in str(raised.value)
    assert contents(tmp_path) == []


@pytest.mark.parametrize(
    "error",
    [
        urllib.error.URLError("no route"),
        urllib.error.HTTPError(FILE.url, 404, "Not Found", {}, None),
        TimeoutError("timed out"),
        http.client.IncompleteRead(b"12"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_offline_without_a_copy(web, tmp_path, error):
    web.answer = error
    with pytest.raises(OSError, match="does not exist") as raised:
        _files.read(web.file, tmp_path)
    for words in (str(tmp_path / "numbers" / "numbers.data"), FILE.url, "LUPI_DATA", "data_home="):
        assert words in str(raised.value)
    assert contents(tmp_path) == []
    if isinstance(error, urllib.error.HTTPError):
        error.close()


def test_no_download_when_not_wished(web, tmp_path):
    with pytest.raises(OSError, match="download_if_missing is False") as raised:
        datasets.fetch_files(["numbers"], data_home=tmp_path, download_if_missing=False)
    for words in ("numbers.data", FILE.url, "LUPI_DATA"):
        assert words in str(raised.value)
    assert web.asked == 0


def test_a_damaged_copy_is_refused_and_kept(web, tmp_path):
    path = tmp_path / "numbers" / "numbers.data"
    path.parent.mkdir()
    path.write_bytes(b"mine")
    with pytest.raises(OSError, match="is not the published file") as raised:
        _files.read(web.file, tmp_path)
    assert FILE.url in str(raised.value)
    assert path.read_bytes() == b"mine"
    assert web.asked == 0


def test_an_interrupted_write_leaves_nothing(web, tmp_path, monkeypatch):
    def replace(source, target):
        assert os.path.exists(source)
        raise KeyboardInterrupt

    monkeypatch.setattr(_files.os, "replace", replace)
    with pytest.raises(KeyboardInterrupt):
        _files.read(web.file, tmp_path)
    assert contents(tmp_path) == []


def test_a_folder_that_cannot_be_made(web, tmp_path):
    (tmp_path / "numbers").write_text("a file where the folder should be")
    with pytest.raises(OSError, match=r"cannot be (read|written)"):
        _files.read(web.file, tmp_path)


def test_several_at_once(web, tmp_path, monkeypatch):
    """All begin before any has ended; each gets the file, and one file is left."""
    barrier = threading.Barrier(8, timeout=20)

    def urlopen(url, timeout):
        barrier.wait()
        return Answer(CONTENT)

    monkeypatch.setattr(urllib.request, "urlopen", urlopen)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(_files.read(web.file, tmp_path)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [CONTENT] * 8
    assert contents(tmp_path) == [os.path.join("numbers", "numbers.data")]


def test_archives_by_their_arrays(tmp_path):
    """Packed another way it is the same file; damaged, truncated or altered it is not."""
    import dataclasses

    arrays = {name: np.arange(200, dtype=np.uint8) for name in _files._MNIST_ARRAYS}

    def pack(save, **changed):
        stream = io.BytesIO()
        save(stream, **{**arrays, **changed})
        return stream.getvalue()

    plain, packed = pack(np.savez), pack(np.savez_compressed)
    assert plain != packed
    mnist = _files.FILES["mnist"][0]
    file = dataclasses.replace(mnist, sha256=mnist.digest(plain))
    assert file.complaint(packed) is None
    assert "SHA-256" in file.complaint(pack(np.savez, y_test=np.zeros(200, dtype=np.uint8)))
    assert "SHA-256" in file.complaint(pack(np.savez, y_test=np.arange(200, dtype=np.int8)))
    assert "archive" in file.complaint(packed[:-20])
    assert "archive" in file.complaint(b"no archive")
    assert "archive" in file.complaint(b"")
    # Objects could run code when they are loaded.
    assert "archive" in file.complaint(pack(np.savez, y_test=np.array([{}], dtype=object)))
    middle = bytearray(packed)
    middle[60:70] = bytes(10)
    assert "archive" in file.complaint(bytes(middle))


def test_where_the_files_are(monkeypatch, tmp_path):
    monkeypatch.setenv("LUPI_DATA", str(tmp_path))
    assert datasets.get_data_home() == tmp_path
    assert datasets.get_data_home(tmp_path / "other") == tmp_path / "other"
    monkeypatch.setenv("LUPI_DATA", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    assert datasets.get_data_home() == tmp_path / "lupi_data"
    assert contents(tmp_path) == []


def test_unknown_name(tmp_path):
    with pytest.raises(ValueError, match="there is no data set 'iris'; there are breast"):
        datasets.fetch_files(["spambase", "iris"], data_home=tmp_path)
    assert contents(tmp_path) == []


# ---- The command --------------------------------------------------------------------------------


def test_command(web, tmp_path, capsys):
    assert main(["fetch", "numbers", "numbers", "--data-home", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [str(tmp_path / "numbers" / "numbers.data")]
    web.answer = urllib.error.URLError("no route")
    assert main(["fetch", "numbers", "--data-home", str(tmp_path / "empty")]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("lupi: ")
    assert len(captured.err.splitlines()) == 1
    assert main(["fetch", "iris"]) == 2
    assert "there is no data set 'iris'" in capsys.readouterr().err
    for wrong in ([], ["fatch"], ["fetch", "--there"]):
        with pytest.raises(SystemExit) as raised:
            main(wrong)
        assert raised.value.code == 2


def test_command_as_a_process():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "lupi", "fetch", "iris"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("lupi: there is no data set 'iris'")
    assert len(done.stderr.splitlines()) == 1


# ---- The published data -------------------------------------------------------------------------

UCI = {
    "breast_cancer_wisconsin": (datasets.fetch_breast_cancer_wisconsin, [444, 239]),
    "mammographic_mass": (datasets.fetch_mammographic_mass, [427, 403]),
    "spambase": (datasets.fetch_spambase, [2788, 1813]),
}


@pytest.mark.parametrize("name", UCI)
def test_uci(name):
    needs(name)
    fetch, counts = UCI[name]
    bunch = fetch(data_home=data_home())
    n_features, n_train, n_test = datasets.PAPER_SIZES[name]
    assert bunch.data.shape == (n_train + n_test, n_features)
    assert np.isfinite(bunch.data).all()
    assert np.bincount(bunch.target).tolist() == counts
    assert len(bunch.target_names) == 2
    assert len(set(bunch.feature_names)) == n_features
    assert bunch.frame is None
    assert bunch.DESCR.startswith(name.replace("_", " ").title()[:8])
    X, y = fetch(data_home=data_home(), return_X_y=True)
    np.testing.assert_array_equal(X, bunch.data)
    np.testing.assert_array_equal(y, bunch.target)
    framed = fetch(data_home=data_home(), as_frame=True)
    assert list(framed.data.columns) == bunch.feature_names
    np.testing.assert_array_equal(framed.frame.to_numpy(), np.c_[X, y])
    assert framed.target.name == "target"


def test_columns_are_the_ones_named():
    """Ranges of the documentation, which differ between the columns."""
    needs("mammographic_mass")
    X = datasets.fetch_mammographic_mass(data_home=data_home(), as_frame=True).data
    assert X.min().to_dict() == {"age": 18, "shape": 1, "margin": 1, "density": 1}
    assert X.max().to_dict() == {"age": 96, "shape": 4, "margin": 5, "density": 4}
    needs("spambase")
    X = datasets.fetch_spambase(data_home=data_home(), as_frame=True).data
    # Means of spambase.DOCUMENTATION.
    assert round(X["word_freq_george"].mean(), 2) == 0.77
    assert round(X["char_freq_!"].mean(), 2) == 0.27
    assert round(X["capital_run_length_total"].mean(), 1) == 283.3
    needs("breast_cancer_wisconsin")
    X = datasets.fetch_breast_cancer_wisconsin(data_home=data_home(), as_frame=True).data
    assert (X.min().to_numpy() == 1).all()
    assert (X.max().to_numpy() == 10).all()


def test_fives_and_eights():
    needs("mnist_5v8")
    home = {"data_home": data_home()}
    for subset, fives, eights in [
        ("train", 50, 50),
        ("validation", 2001, 2001),
        ("test", 892, 974),
    ]:
        bunch = datasets.fetch_mnist_5v8(subset=subset, **home)
        assert bunch.data.shape == (fives + eights, 100)
        assert bunch.data.max() == 255
        assert (bunch.target == 5).sum() == fives
        assert (bunch.target == 8).sum() == eights
        assert (bunch.privileged is None) == (subset != "train")
    poetic = datasets.fetch_mnist_5v8(**home).privileged
    holistic = datasets.fetch_mnist_5v8(privileged="holistic", **home).privileged
    # The largest value of every column, from the description of the data.
    largest = [4, 1, 3, 1, 4, 3, 3, 1, 1, 3, 2, 3, 3, 2, 2, 2, 5, 1, 3, 4, 3]
    assert poetic.max(axis=0).tolist() == largest
    assert holistic.max(axis=0).tolist() == [5] * 6 + [3] * 22 + [2] * 2 + [3]
    both = datasets.fetch_mnist_5v8(privileged="both", as_frame=True, **home)
    np.testing.assert_array_equal(both.privileged.to_numpy(), np.hstack([poetic, holistic]))
    assert list(both.privileged.columns) == both.privileged_feature_names
    X, y, X_priv = datasets.fetch_mnist_5v8(return_X_y_priv=True, **home)
    assert (X.shape, y.shape, X_priv.shape) == ((100, 100), (100,), (100, 21))
    assert len(datasets.fetch_mnist_5v8(return_X_y=True, **home)) == 2


def test_translated_fives_and_eights():
    needs("mnist_5v8")
    plain = datasets.fetch_mnist_5v8(data_home=data_home())
    bunch = datasets.fetch_mnist_5v8(translated=True, data_home=data_home())
    assert bunch.data.shape == (900, 100)
    assert np.bincount(bunch.groups).tolist() == [9] * 100
    np.testing.assert_array_equal(bunch.target, plain.target[bunch.groups])
    np.testing.assert_array_equal(bunch.privileged, plain.privileged[bunch.groups])
    np.testing.assert_array_equal(bunch.data[:100], plain.data)
    assert len(np.unique(bunch.data, axis=0)) == 900


def test_mnist():
    needs("mnist")
    bunch = datasets.fetch_mnist(data_home=data_home())
    assert bunch.data.shape == (70_000, 784)
    assert bunch.data.dtype == np.uint8
    train = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert np.bincount(bunch.target[:60_000]).tolist() == train
    assert bunch.index[[0, 59_999, 60_000, -1]].tolist() == [0, 59_999, 0, 9_999]


def test_mnist_in_small_is_fives_and_eights():
    """The pixels are picked as in the published 10 x 10 digits, all of them, and in their order."""
    needs("mnist")
    needs("mnist_5v8")
    home = {"data_home": data_home()}
    small = datasets.fetch_mnist(subset="test", digits=[5, 8], side=10, **home)
    test = datasets.fetch_mnist_5v8(subset="test", **home)
    by_digit = np.argsort(small.target, kind="stable")
    np.testing.assert_array_equal(small.data[by_digit], test.data)
    np.testing.assert_array_equal(small.target[by_digit], test.target)
    known = datasets.fetch_mnist(subset="train", digits=[8, 5], side=10, **home)
    train = datasets.fetch_mnist_5v8(**home)
    first = np.r_[np.flatnonzero(known.target == 5)[:50], np.flatnonzero(known.target == 8)[:50]]
    np.testing.assert_array_equal(known.data[first], train.data)


def test_wrong_choices(tmp_path):
    for call in (
        lambda: datasets.fetch_mnist_5v8(subset="all", data_home=tmp_path),
        lambda: datasets.fetch_mnist_5v8(privileged="prose", data_home=tmp_path),
        lambda: datasets.fetch_mnist(subset=["train"], data_home=tmp_path),
        lambda: datasets.paper_split("mnist", [0, 1]),
    ):
        with pytest.raises(ValueError, match="must be one of"):
            call()
    with pytest.raises(ValueError, match="translated=True is for subset='train'"):
        datasets.fetch_mnist_5v8(subset="test", translated=True, data_home=tmp_path)
    with pytest.raises(ValueError, match="choose one"):
        datasets.fetch_mnist_5v8(return_X_y=True, return_X_y_priv=True, data_home=tmp_path)
    with pytest.raises(ValueError, match="side must be 28 or 10"):
        datasets.fetch_mnist(side=14, data_home=tmp_path)
    for digits in ([], [10], ["five"]):
        with pytest.raises(ValueError, match="digits must be integers of 0 to 9"):
            datasets.fetch_mnist(digits=digits, data_home=tmp_path)


def test_split_of_the_wrong_data():
    with pytest.raises(ValueError, match=r"y of spambase must have shape \(4601,\)"):
        datasets.paper_split("spambase", [0, 1, 0])


def test_frames_without_pandas(monkeypatch):
    needs("breast_cancer_wisconsin")
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="as_frame=True needs pandas"):
        datasets.fetch_breast_cancer_wisconsin(data_home=data_home(), as_frame=True)
