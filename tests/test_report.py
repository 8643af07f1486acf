"""Pages: in one file, without addresses, readable by a browser that complains of nothing."""

import json
import os
import re
import shutil
import statistics
import subprocess
from html.parser import HTMLParser

import numpy as np
import pytest

from lupi.experiments.report import (
    Curve,
    Details,
    Prose,
    Report,
    Section,
    Table,
    drawing,
    learning_curves,
    series,
    versions,
)

VOID = {"meta", "link", "br", "img", "input", "hr"}


def curves(name="curves"):
    x = [10, 20, 40]
    return learning_curves(
        [
            Curve("first & <best>", x, [0.3, 0.2, 0.1], [0.05, 0.04, 0.03]),
            Curve("x*", x, [0.4] * 3),
        ],
        name=name,
        caption="Errors <of> both.",
    )


def page():
    table = Table(["method", "errors"], [["SVM", "1.5 %"], ["**SVM+**", None]], "Which?", strong=1)
    return Report(
        "Title & <more>",
        "First **strong (x*)** sentence with `code`.\n\n- one\n- two\n  goes on",
        (
            Section("One part", [Prose("Words."), curves(), table]),
            Section("Another", [Details("Folded", [curves("inside")])]),
        ),
        {"sizes": (10, 20), "seed": 0, "path": "<b>", **versions()},
        "good",
    )


class Tree(HTMLParser):
    """Every tag is closed in order; ids, addresses and text are kept."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.targets, self.text = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if "id" in attrs:
            self.ids.append(attrs["id"])
        self.targets += [attrs[name] for name in ("href", "src") if name in attrs]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def test_the_page_stands_alone():
    text = page().html()
    assert "http" not in text
    assert "url(" not in re.sub(r"url\(#", "", text)
    tree = Tree(text)
    assert all(target.startswith(("#", "data:,")) for target in tree.targets)
    # What is referred to is there, once.
    assert len(tree.ids) == len(set(tree.ids))
    wanted = re.findall(r'(?:href="|url\()#([^")]+)', text)
    assert wanted
    assert set(wanted) <= set(tree.ids)


def test_text_is_escaped_and_marked():
    text = page().html()
    assert "Title &amp; &lt;more&gt;" in text
    assert "<b>" not in text
    assert "first &amp; &lt;best&gt;" in text
    assert "<strong>strong (x*)</strong> sentence with <code>code</code>" in text
    assert "<ul><li>one</li><li>two goes on</li></ul>" in text
    assert '<tr class="strong"><th scope="row"><strong>SVM+</strong></th>' in text
    assert '<td class="number">1.5 %</td>' in text


def test_every_setting_and_version_is_there():
    shown = "".join(Tree(page().html()).text)
    assert "sizes10, 20" in shown
    assert f"numpy{np.__version__}" in shown
    assert {"lupi", "numpy", "scipy", "scikit-learn", "python", "machine"} <= set(versions())


def test_figures_take_the_colours_of_the_page():
    figure = curves()
    inline = figure.html()
    assert "var(--s0)" in inline
    assert "var(--ink)" in inline
    # Nothing is left that would be dark on dark.
    assert not re.findall(r"#[0-9a-f]{6}\b", re.sub(r"(href=\"|url\()#\w+", "", inline), re.I)
    assert series(1)["color"] in figure.svg
    assert 'role="img" aria-label="test error over training rows of first' in inline


def test_figures_are_the_same_every_time():
    assert curves().svg == curves().svg


def test_drawing_leaves_no_trace():
    import matplotlib as mpl
    from matplotlib import pyplot as plt

    before, open_before = dict(mpl.rcParams), plt.get_fignums()
    with drawing() as given:
        assert given is plt
    curves()
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == open_before


def test_write(tmp_path):
    path = page().write(tmp_path / "deep" / "report")
    assert path.name == "index.html"
    assert sorted(p.name for p in path.parent.iterdir()) == ["figures", "index.html"]
    assert (path.parent / "figures" / "curves.svg").read_text().startswith("<?xml")
    assert (path.parent / "figures" / "inside.svg").is_file()


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="different names"):
        Report("t", "a", [Section("s", [curves(), curves()])]).html()
    with pytest.raises(ValueError, match="row 1 has 1 cells"):
        Table(["a", "b"], [[1, 2], [1]]).html()


# ---- In a browser -------------------------------------------------------------------------------

BROWSER = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
# Written into the page: what went wrong, and how wide it is in a window of this width.
PROBE = """<script>
const wrong = [];
addEventListener("error", e => wrong.push(String(e.message || e.target.tagName)), true);
for (const name of ["error", "warn"]) console[name] = (...all) => wrong.push(all.join(" "));
addEventListener("load", () => {
  const out = document.createElement("pre");
  out.id = "probe";
  out.textContent = JSON.stringify({
    wrong, width: document.documentElement.scrollWidth, window: innerWidth,
    figures: [...document.querySelectorAll("figure svg")].map(s => s.getBoundingClientRect().width),
    ink: getComputedStyle(document.body).color,
    page: getComputedStyle(document.body).backgroundColor,
    line: getComputedStyle(document.querySelector("svg [style*='--s0']")).stroke
      + getComputedStyle(document.querySelector("svg [style*='--s0']")).fill,
  });
  document.body.append(out);
});
</script>"""


def browse(tmp_path, *options, width=1000):
    """What a headless browser finds in the page, shown in a frame of this width."""
    (tmp_path / "page.html").write_text(
        page().html().replace("<head>", "<head>" + PROBE), encoding="utf-8"
    )
    # Windows of a headless browser are at least 500 pixels wide; frames are not.
    (tmp_path / "frame.html").write_text(
        f'<iframe src="page.html" style="width:{width}px;height:2000px;border:0"></iframe>'
        "<script>addEventListener('load', () => document.body.append(document.querySelector("
        "'iframe').contentDocument.getElementById('probe').textContent))</script>"
    )
    done = subprocess.run(
        [
            BROWSER,
            "--headless=new",
            "--disable-gpu",
            "--allow-file-access-from-files",
            f"--user-data-dir={tmp_path / 'profile'}",
            *(["--no-sandbox"] if os.geteuid() == 0 else []),
            *options,
            "--window-size=1200,1000",
            "--virtual-time-budget=5000",
            "--dump-dom",
            (tmp_path / "frame.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found = re.search(r"\{&quot;wrong.*\}|\{\"wrong.*\}", done.stdout)
    assert found, done.stdout[-2000:] + done.stderr[-2000:]
    return json.loads(found[0].replace("&quot;", '"'))


@pytest.mark.skipif(not BROWSER, reason="no chromium is installed")
@pytest.mark.parametrize("width", [1000, 390])
def test_a_browser_complains_of_nothing(tmp_path, width):
    found = browse(tmp_path, width=width)
    assert found["wrong"] == []
    assert found["window"] == width
    assert found["width"] <= width  # nothing sticks out
    assert all(0.5 * min(width, 640) < w <= width for w in found["figures"] if w)
    assert found["figures"][0] > 0


@pytest.mark.skipif(not BROWSER, reason="no chromium is installed")
def test_light_and_dark(tmp_path):
    light = browse(tmp_path)
    dark = browse(tmp_path, "--blink-settings=preferredColorScheme=0")
    assert light["page"] == "rgb(255, 255, 255)"

    def brightness(colour):
        return statistics.mean([int(number) for number in re.findall(r"\d+", colour)[:3]])

    for found, on_paper in ((light, True), (dark, False)):
        assert (brightness(found["page"]) > brightness(found["ink"])) is on_paper
        lines = [brightness(c) for c in re.findall(r"rgb\([^)]*\)", found["line"])]
        assert lines
        assert all(abs(brightness(found["page"]) - line) > 60 for line in lines)
