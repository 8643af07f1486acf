"""Print requirements that pyproject.toml states, as in `requirements.py test`.

`build` is what the compiled core is built with; any other word is an extra. The Makefile installs
these itself, so that the compiler runs again only when a source file has changed.
"""

import sys
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def requirements(group: str) -> list[str]:
    """Return the requirements of the build or of an extra."""
    pyproject = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    if group == "build":
        # scikit-build-core asks for these two only when pip isolates the build, and we do not.
        return [*pyproject["build-system"]["requires"], "cmake>=3.15", "ninja>=1.5"]
    extras = pyproject["project"]["optional-dependencies"]
    if group not in extras:
        raise SystemExit(f"expected 'build' or one of {sorted(extras)}, got {group!r}")
    return extras[group]


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit("usage: requirements.py build | EXTRA")
    print(*requirements(sys.argv[1]), sep="\n")
