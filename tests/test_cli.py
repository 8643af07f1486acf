"""The command: what it prints, what it writes, and what it leaves alone."""

import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest

from lupi.cli import main

# The limit is for a machine that is busy with other things; alone this takes a few seconds.
pytestmark = pytest.mark.within(400)

ROW = ["--sizes", "20", "40", "--repeats", "2", "--jobs", "1"]


def people(n=60, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=n)
    return pd.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, z + rng.normal(size=n)).round(3),
            "colour": np.where(rng.random(n) < 0.8, np.where(z > 0, "red", "blue"), ""),
            "report_a": z.round(3),
            "report_b": rng.normal(size=n).round(3),
            "clinic": rng.integers(0, 12, size=n),
            "outcome": np.where(z + 0.3 * rng.normal(size=n) > 0, "ill", "well"),
        }
    )


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """A finished comparison: folder of the table, the report and the model."""
    folder = tmp_path_factory.mktemp("cli")
    people().to_csv(folder / "people.csv", index=False)
    command = ["compare", str(folder / "people.csv"), "--target", "outcome"]
    command += ["--privileged", "report_*", "--drop", "clinic", *ROW]
    command += ["--out", str(folder / "report"), "--model", str(folder / "out.skops")]
    assert main(command) == 0
    return folder, command


def test_compare(done, capsys):
    folder, command = done
    assert main(command) == 0
    out, err = capsys.readouterr()
    assert err == ""
    # The answer comes first, in words.
    assert re.match(r"(Yes|No|Not that one could tell)[,:]", out)
    assert "What to do next:" in out
    assert "training rows: 40" in out
    assert re.search(r"model: +.*out.skops \(.*, trained on all 60 rows\)", out)
    assert out.rstrip().endswith("index.html")
    assert {p.name for p in (folder / "report").iterdir()} == {
        "figures",
        "index.html",
        "journal.jsonl",
        "results.csv",
    }
    # It has run before, so that nothing was left to do.
    journal = (folder / "report" / "journal.jsonl").read_bytes()
    assert main(command) == 0
    assert capsys.readouterr().out == out
    assert (folder / "report" / "journal.jsonl").read_bytes() == journal


def test_predict(done, capsys, tmp_path):
    folder, _ = done
    new = people(30, seed=1)[["colour", "age"]]
    new.to_parquet(tmp_path / "new.parquet")
    new.to_csv(tmp_path / "new.csv", index=False, sep=";")
    model = str(folder / "out.skops")
    assert main(["predict", model, str(tmp_path / "new.csv")]) == 0
    out = capsys.readouterr().out
    lines = out.splitlines()
    assert lines[0] == "prediction,decision_value"
    assert len(lines) == 31
    target = tmp_path / "labels.csv"
    assert main(["predict", model, str(tmp_path / "new.parquet"), "--out", str(target)]) == 0
    assert target.read_text() == out
    found = pd.read_csv(target)
    assert set(found["prediction"]) <= {"ill", "well"}
    np.testing.assert_array_equal(found["prediction"] == "well", found["decision_value"] > 0)
    assert np.mean(found["prediction"] == people(30, seed=1)["outcome"]) > 0.6


def test_a_reader_that_has_seen_enough(done, tmp_path):
    folder, _ = done
    people(8000).to_csv(tmp_path / "many.csv", index=False)
    process = subprocess.Popen(
        [sys.executable, "-m", "lupi", "predict", folder / "out.skops", tmp_path / "many.csv"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "prediction,decision_value\n"
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait() == 0
    process.stderr.close()


def files_of(folder):
    return {p: p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}


def refused(arguments, capsys, folder):
    """One sentence on stderr, exit code 2, no file written or changed."""
    before = files_of(folder)
    assert main([str(a) for a in arguments]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("lupi: ")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert files_of(folder) == before
    return err


@pytest.mark.parametrize(
    ("change", "options", "words"),
    [
        ({}, {"--target": "sick"}, "target column 'sick' is not in the table"),
        ({}, {"--privileged": "rep"}, "no column matches 'rep'"),
        ({}, {"--privileged": "out*"}, "matches the target column"),
        ({"outcome": "ill"}, {}, "has one class only"),
        ({"outcome": ["odd"] * 2 + ["ill", "well"] * 29}, {}, "class odd of the target has 2 rows"),
        ({"age": np.inf}, {}, "column 'age' has an infinite value"),
        ({}, {"--sizes": "59"}, "sizes must leave rows to test on"),
        ({}, {"--sizes": "2"}, "sizes must be at least"),
        ({}, {"--repeats": "1"}, "repeats must be at least 2"),
        ({}, {"--jobs": "0"}, "--jobs must be at least 1"),
        ({}, {"--group": "ward"}, "group column 'ward'"),
        ({}, {"--weights": "colour"}, "weights must be numbers"),
        ({}, {"--drop": "wing"}, "no column matches 'wing'"),
        ({}, {"--model": "nowhere/out.skops"}, "--model nowhere/out.skops must be a file"),
    ],
)
def test_bad_tables(change, options, words, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    people().assign(**change).to_csv(tmp_path / "people.csv", index=False)
    settings = {"--target": "outcome", "--privileged": "report_*", **options}
    arguments = ["compare", "people.csv", *(x for pair in settings.items() for x in pair)]
    assert words in refused(arguments, capsys, tmp_path)


def test_bad_files(tmp_path, capsys):
    rest = ["--target", "outcome", "--privileged", "report_*", "--out", tmp_path / "out"]

    def compare(name):
        return refused(["compare", tmp_path / name, *rest], capsys, tmp_path)

    assert "there is no file" in compare("missing.csv")
    (tmp_path / "folder.csv").mkdir()
    assert "there is only a folder" in compare("folder.csv")
    (tmp_path / "empty.csv").write_text("")
    assert "cannot read" in compare("empty.csv")
    (tmp_path / "head.csv").write_text("a,report_b,outcome\n")
    assert "has no rows" in compare("head.csv")
    (tmp_path / "twice.csv").write_text("a,a,report_b,outcome\n1,2,3,x\n")
    assert "several columns of the name 'a'" in compare("twice.csv")
    (tmp_path / "ragged.csv").write_text("a,report_b,outcome\n1,2,x\n1,2,3,4,5,x\n")
    assert "cannot read" in compare("ragged.csv")
    (tmp_path / "binary.csv").write_bytes(bytes(range(128, 256)) * 9)
    assert "cannot read" in compare("binary.csv")
    (tmp_path / "broken.parquet").write_bytes(b"PAR1nothing")
    assert "cannot read" in compare("broken.parquet")


def test_what_is_missing_on_the_line(capsys, tmp_path):
    assert "needs a file and --target COL and --priv" in refused(["compare"], capsys, tmp_path)
    assert "brings its own data" in refused(["compare", "x.csv", "--demo"], capsys, tmp_path)
    for wrong in (["compare", "x.csv", "--sizes", "many"], ["frobnicate"], []):
        with pytest.raises(SystemExit) as stopped:
            main(wrong)
        assert stopped.value.code == 2
        capsys.readouterr()


def test_folders_of_others_are_left_alone(done, tmp_path, capsys):
    folder, command = done
    # Results of another run,
    words = refused([*command, "--repeats", "3"], capsys, folder)
    assert "results of a run with other settings (repeats: 2 there, 3 here)" in words
    # a page that is not of this command,
    (tmp_path / "index.html").write_text("mine")
    elsewhere = [*command, "--out", tmp_path]
    assert "is not of this command" in refused(elsewhere, capsys, tmp_path)
    # and a file.
    elsewhere = [*command, "--out", tmp_path / "index.html"]
    assert "is a file; name a folder" in refused(elsewhere, capsys, tmp_path)


def test_bad_predictions(done, tmp_path, capsys):
    folder, _ = done
    model = folder / "out.skops"
    people()[["age"]].to_csv(tmp_path / "few.csv", index=False)
    people().assign(age="old").to_csv(tmp_path / "words.csv", index=False)
    people().to_csv(tmp_path / "good.csv", index=False)
    (tmp_path / "no.skops").write_text("no")

    def predict(*arguments):
        return refused(["predict", *arguments], capsys, tmp_path)

    assert "lacks columns that the model was trained on: 'colour'" in predict(
        model, tmp_path / "few.csv"
    )
    assert "column 'age' must hold numbers" in predict(model, tmp_path / "words.csv")
    assert "there is no file" in predict(tmp_path / "none.skops", tmp_path / "good.csv")
    assert "is not a model" in predict(tmp_path / "no.skops", tmp_path / "good.csv")
    assert "one of the files that are read" in predict(
        model, tmp_path / "good.csv", "--out", tmp_path / "good.csv"
    )


# ---- Stopped in the middle ----------------------------------------------------------------------


def started(command, journal):
    """The command in a process group of its own, once it has added results to those there are."""
    before = journal.read_bytes().count(b"\n") if journal.is_file() else 1
    process = subprocess.Popen(
        [sys.executable, "-m", "lupi", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # A shell that runs the tests in the background has them ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    while not (journal.is_file() and journal.read_bytes().count(b"\n") > before):
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    return process


def test_stopped_and_continued(tmp_path, capsys, monkeypatch):
    """Ctrl-C, then kill -9, then to the end: the table of a run that was never stopped."""
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)
    command = ["compare", "people.csv", "--target", "outcome", "--privileged", "report_*"]
    command += ["--sizes", "20", "40", "--repeats", "3", "--jobs", "2"]
    stopped, journal = [*command, "--out", "stopped"], tmp_path / "stopped" / "journal.jsonl"

    process = started(stopped, journal)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130
    assert out == ""
    assert "Traceback" not in err
    assert "lupi: stopped; what is done is kept in stopped: the same command goes on" in err

    process = started(stopped, journal)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not (tmp_path / "stopped" / "index.html").exists()
    assert journal.read_bytes().count(b"\n") < 1 + 2 * 3 * 5

    for name in ("stopped", "whole"):
        assert main([*command, "--out", name]) == 0
    capsys.readouterr()
    tables = [(tmp_path / name / "results.csv").read_bytes() for name in ("stopped", "whole")]
    assert tables[0] == tables[1]
    assert tables[0].count(b"\n") == 1 + 2 * 3 * 5
