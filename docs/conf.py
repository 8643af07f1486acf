"""How Sphinx builds these pages.  `make docs` makes warnings errors and needs no network."""

import re
from importlib.metadata import version as installed_version

project = "lupi"
author = "The lupi developers"
copyright = "2026, The lupi developers"
release = installed_version("lupi")
version = ".".join(release.split(".")[:2])

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "myst_parser",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "auto_examples/GALLERY_HEADER.rst"]
templates_path = ["_templates"]

# --- Text -----------------------------------------------------------------------------------------
myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 3

# --- API pages ------------------------------------------------------------------------------------
autosummary_generate = True
autodoc_typehints = "none"  # numpydoc's Parameters section says it in words
numpydoc_show_class_members = False  # docs/_templates/autosummary/class.rst lists them

# --- Gallery --------------------------------------------------------------------------------------
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/plot_",
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("lupi",),
    "abort_on_example_error": True,
    "show_memory": False,
    "write_computation_times": False,
}

# --- Pages ----------------------------------------------------------------------------------------
html_theme = "pydata_sphinx_theme"
html_title = "lupi"
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "secondary_sidebar_items": ["page-toc"],
}


def plain_scikit_learn_references(app, what, name, obj, options, lines):
    """Turn references into scikit-learn's own manual, in inherited docstrings, into plain words.

    They resolve there and not here; intersphinx would need the network at every build.
    """
    obj = getattr(obj, "fget", obj)  # of a property
    if (getattr(obj, "__module__", None) or "").startswith("sklearn."):
        text = "\n".join(lines)
        text = re.sub(r":ref:`([^`<]+?)(?:\s*<[^`>]+>)?`", r"\1", text)
        # A term may be a name such as classes_, which would read as a link.
        text = re.sub(r":term:`([^`<]+?)(?:\s*<[^`>]+>)?`", r"``\1``", text)
        lines[:] = text.split("\n")


def setup(app):
    """Connect the hook above."""
    app.connect("autodoc-process-docstring", plain_scikit_learn_references)
