"""The order of the house: who may import whom, and that what the documents name exists."""

import ast
import doctest
import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lupi

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "lupi"
TESTS = ROOT / "tests"
MODULES = sorted(SOURCE.rglob("*.py"))
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAPER_MAP = ROOT / "docs" / "paper_map.md"


def name_of(path):
    parts = ("lupi", *path.relative_to(SOURCE).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports_of(path):
    """Absolute names of all modules that a module imports, anywhere in it."""
    package = name_of(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*base, *([node.module] if node.module else [])])
            found.add(base)
            # `from . import x` imports the module x, if it is one.
            for alias in node.names:
                as_path = SOURCE.joinpath(*f"{base}.{alias.name}".split(".")[1:])
                if as_path.with_suffix(".py").exists() or as_path.is_dir():
                    found.add(f"{base}.{alias.name}")
    return found


def inside(module, package):
    return module == package or module.startswith(package + ".")


IMPORTS = {name_of(path): imports_of(path) for path in MODULES}

# Package -> what it may import of lupi. Its own modules come with it.
ALLOWED = {
    "lupi": {"lupi.estimators"},
    "lupi.model_selection": {
        "lupi.estimators",
        "lupi.kernels",
        "lupi.problems",
        "lupi.solution",
        "lupi.solvers",
        "lupi.threads",
    },
    "lupi.estimators": {
        "lupi.bilevel",
        "lupi.certificates",
        "lupi.kernels",
        "lupi.losses",
        "lupi.problems",
        "lupi.solution",
        "lupi.solvers",
        "lupi.threads",
    },
    "lupi.bilevel": {
        "lupi.losses",
        "lupi.problems",
        "lupi.solution",
        "lupi.solvers",
        "lupi.threads",
    },
    "lupi.weighting": set(),
    "lupi.losses": set(),
    "lupi.solvers": {
        "lupi._core",
        "lupi.certificates",
        "lupi.kernels",
        "lupi.losses",
        "lupi.problems",
        "lupi.solution",
        "lupi.threads",
    },
    "lupi.equivalence": {"lupi._theory", "lupi.kernels", "lupi.problems"},
    "lupi.inspection": {"lupi._theory", "lupi.problems"},
    "lupi.plotting": {"lupi.inspection", "lupi.uniqueness", "lupi._theory"},
    "lupi.uniqueness": {"lupi._theory", "lupi.certificates", "lupi.problems"},
    "lupi._theory": {"lupi.problems", "lupi.solution"},
    "lupi.certificates": {"lupi.problems"},
    "lupi.problems": {"lupi.kernels", "lupi.losses"},
    "lupi.kernels": {"lupi._core", "lupi.threads"},
    "lupi.datasets": set(),
    "lupi.experiments": {
        "lupi.datasets",
        "lupi.equivalence",
        "lupi.estimators",
        "lupi.kernels",
        "lupi.losses",
        "lupi.model_selection",
        "lupi.threads",
        "lupi.weighting",
    },
    "lupi.cli": {"lupi.datasets", "lupi.experiments"},
    "lupi.__main__": {"lupi.cli"},
    "lupi.solution": set(),
    "lupi.threads": set(),
    "lupi._core": set(),
}


def test_the_rules_see_the_imports():
    """The rules below hold trivially for a parser that finds nothing."""
    assert {"lupi.problems", "lupi.certificates"} <= IMPORTS["lupi.solvers.wsvm"]
    assert "lupi._core" in IMPORTS["lupi.kernels"]
    assert {"lupi.solvers", "lupi.solvers.wsvm", "lupi.estimators._base"} <= IMPORTS[
        "lupi.estimators._weighted_svc"
    ]
    assert "sklearn.base" in IMPORTS["lupi.estimators._base"]


@pytest.mark.parametrize("module", sorted(IMPORTS))
def test_imports_point_one_way(module):
    """estimators -> solvers -> problems, certificates, kernels -> _core."""
    room = max((room for room in ALLOWED if inside(module, room)), key=len)
    assert module == "lupi" or room != "lupi", f"{module} has no room: add it to ALLOWED"
    for imported in IMPORTS[module]:
        if not inside(imported, "lupi") or (room != "lupi" and inside(imported, room)):
            continue
        assert any(inside(imported, other) for other in ALLOWED[room]), (
            f"{module} imports {imported}"
        )


def test_only_kernels_and_solvers_know_the_core():
    users = {m for m, names in IMPORTS.items() if any(inside(n, "lupi._core") for n in names)}
    assert {m for m in users if not inside(m, "lupi._core")} == {
        "lupi.kernels",
        "lupi.solvers.batch",
        "lupi.solvers.svmplus",
        "lupi.solvers.validation",
        "lupi.solvers.wsvm",
    }


def test_certificates_and_problems_know_no_solver():
    for module in (
        "lupi.certificates",
        "lupi.problems",
        "lupi._theory",
        "lupi.equivalence",
        "lupi.uniqueness",
        "lupi.inspection",
        "lupi.plotting",
    ):
        for imported in IMPORTS[module]:
            assert not inside(imported, "lupi.solvers")
            assert not inside(imported, "lupi.estimators")
            assert not inside(imported, "lupi._core")


def test_scikit_learn_is_known_upstairs_only():
    users = {m for m, names in IMPORTS.items() if any(inside(n, "sklearn") for n in names)}
    assert users
    upstairs = (
        "lupi.datasets",
        "lupi.estimators",
        "lupi.experiments",
        "lupi.model_selection",
        "lupi.weighting",
    )
    assert all(any(inside(module, room) for room in upstairs) for module in users), users


def test_every_module_says_what_it_is():
    for path in MODULES:
        assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path


def test_public_names():
    assert set(lupi.__all__) == {
        "PrivilegedInformationWarning",
        "SVMPlusClassifier",
        "WeightLearningClassifier",
        "WeightedSVC",
        "__version__",
    }
    for name in lupi.__all__:
        assert getattr(lupi, name)
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", lupi.__version__)


def test_types_are_for_others_too():
    """PEP 561: without this file type checkers ignore the annotations of an installed package."""
    assert (Path(lupi.__file__).parent / "py.typed").is_file()
    assert (SOURCE / "_core" / "_core_ext.pyi").is_file()


def test_import_is_light():
    """`import lupi` brings no plotting and nothing of the tests, beyond scikit-learn's imports."""
    script = (
        "import sys, sklearn.svm; before = set(sys.modules); import lupi;"
        "print(*sorted({m.split('.')[0] for m in set(sys.modules) - before}))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = set(done.stdout.split())
    assert "lupi" in loaded
    assert not loaded & {"matplotlib", "pandas", "polars", "clarabel", "pytest", "IPython"}
    assert done.stderr == ""


def test_stub_names_what_the_core_has():
    """_core_ext.pyi is written by hand."""
    from lupi._core import core

    tree = ast.parse((SOURCE / "_core" / "_core_ext.pyi").read_text(encoding="utf-8"))
    named = {n.name for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)}
    present = {name for name in dir(core) if not name.startswith("_")}
    assert named == present
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            members = {m.name if isinstance(m, ast.FunctionDef) else m.target.id for m in node.body}
            got = {name for name in dir(getattr(core, node.name)) if not name.startswith("_")}
            assert members == got, node.name


# ---- Documents ----------------------------------------------------------------------------------


def rows_of_the_map():
    """(label, function cell, test cell) of every row of the tables."""
    for line in PAPER_MAP.read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 5 and cells[0].startswith("`"):
            yield cells[0].strip("`"), cells[3], cells[4]


def resolve(dotted):
    """The object of a dotted name: the longest module, then attributes."""
    parts = dotted.split(".")
    for end in range(len(parts), 0, -1):
        try:
            thing = importlib.import_module(".".join(parts[:end]))
        except ModuleNotFoundError:
            continue
        for part in parts[end:]:
            thing = getattr(thing, part)
        return thing
    raise ModuleNotFoundError(dotted)


def functions_of(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def test_paper_map_is_read():
    labels = [label for label, _, _ in rows_of_the_map()]
    assert {"eq:svmw_primal", "eq:svmw_dual", "eq:svmw_kkt", "thm:svmw_unique"} <= set(labels)
    assert len(labels) == len(set(labels))


@pytest.mark.parametrize("label", [label for label, _, _ in rows_of_the_map()])
def test_paper_map_names_what_exists(label):
    ((_, function, test),) = [row for row in rows_of_the_map() if row[0] == label]
    names = re.findall(r"`([^`]+)`", function)
    assert names, function
    for name in names:
        if "/" in name:
            assert (ROOT / name).is_file(), name
        else:
            try:
                resolve(name)
            except (AttributeError, ModuleNotFoundError):
                pytest.fail(f"docs/paper_map.md: {label} names {name}, which does not exist")
    tests = re.findall(r"`(test_\w+)`", test)
    if test.startswith("run by"):
        return
    assert tests, test
    known = functions_of(TESTS / "test_paper.py")
    for name in tests:
        assert name in known, f"docs/paper_map.md: {label} names {name}, not in test_paper.py"


def test_every_test_of_the_paper_names_a_label():
    source = (TESTS / "test_paper.py").read_text(encoding="utf-8")
    labels = {re.sub(r"\W", "_", label) for label, _, _ in rows_of_the_map()}
    for name in functions_of(TESTS / "test_paper.py"):
        if name.startswith("test_"):
            stem = name.removeprefix("test_")
            assert stem == "counterexample" or any(stem.startswith(x) for x in labels), name
    assert "sec:example_svmw_not_svmp" in source


def test_labels_cited_in_the_code_are_on_the_map():
    """A label that is cited in the sources has a row, so that a reader finds its statement."""
    on_the_map = {label for label, _, _ in rows_of_the_map()}
    for path in [*MODULES, *sorted((SOURCE / "_core").glob("*.[ch]pp"))]:
        text = path.read_text(encoding="utf-8")
        for label in re.findall(r"\b(?:eq|thm|sec|lem|cor|prop|def):[a-z_0-9:]*[a-z_0-9]", text):
            assert label in on_the_map, f"{path.relative_to(ROOT)} cites {label}"


def test_readme_example_runs():
    """Every Python block of the README, one after the other, in a process of its own."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.S)
    assert blocks
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(blocks)],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "MPLBACKEND": "Agg"},
    )
    assert done.returncode == 0, done.stderr
    assert "objective" in done.stdout
    assert done.stderr == ""


WITH_DOCTESTS = [path for path in DOCUMENTS if ">>> " in path.read_text(encoding="utf-8")]


@pytest.mark.parametrize("path", WITH_DOCTESTS, ids=lambda p: p.name)
def test_doctests_of_the_documents(path):
    result = doctest.testfile(
        str(path), module_relative=False, optionflags=doctest.NORMALIZE_WHITESPACE
    )
    assert result.attempted > 0
    assert result.failed == 0


def test_the_user_guide_has_doctests():
    assert any(path.name == "weighted_svm.md" for path in WITH_DOCTESTS)


@pytest.mark.parametrize("module", sorted(m for m in IMPORTS if not inside(m, "lupi._core")))
def test_doctests_of_the_docstrings(module):
    result = doctest.testmod(importlib.import_module(module))
    assert result.failed == 0


@pytest.mark.parametrize(
    "estimator", [lupi.WeightedSVC, lupi.SVMPlusClassifier, lupi.WeightLearningClassifier]
)
def test_the_class_has_a_doctest(estimator):
    finder = doctest.DocTestFinder(recurse=False)
    assert any(test.examples for test in finder.find(estimator))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_between_files_lead_somewhere(path):
    text = path.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target) or target.startswith("#"):
            continue
        goal = path.parent / target.split("#")[0]
        assert goal.exists(), f"{path.name} links to {target}"


@pytest.mark.parametrize("name", ["WeightedSVC", "SVMPlusClassifier", "WeightLearningClassifier"])
def test_parameters_and_attributes_are_documented(name):
    """numpydoc sections name every parameter of the constructor and every fitted attribute."""
    import numpy as np

    estimator = getattr(lupi, name)
    parameters, attributes = estimator.__doc__.split("Attributes\n")
    for parameter in estimator().get_params():
        assert re.search(rf"^    (\w+, )*{parameter}(, \w+)*( : |$)", parameters, re.M), parameter
    X = np.random.default_rng(0).normal(size=(30, 2))
    privileged = {"X_priv": X} if name == "SVMPlusClassifier" else {}
    for y in (np.arange(30) % 2, np.arange(30) % 3):
        model = estimator().fit(X, y, **privileged)
        for attribute in vars(model):
            if attribute.endswith("_") and not attribute.startswith("_"):
                pattern = rf"^    (\w+, )*{attribute}(, \w+)* : "
                assert re.search(pattern, attributes, re.M), attribute
