#!/bin/sh
# Is everything here that lupi is built with?  Prints the Python to use, or says in one sentence
# on standard error what is missing and exits 1.
#
# PYTHON=  the interpreter to use; without it, the first of python3, python3.14, ... that will do
# CXX=     the C++ compiler to use; without it, the first of c++, g++, clang++ that works
#
# cmake and ninja are not looked for: pip installs them into the virtual environment.

oldest="3.11"

fail() {
    echo "lupi: $1" >&2
    exit 1
}

is_recent() {
    "$1" -c "import sys; sys.exit(sys.version_info < (${oldest%.*}, ${oldest#*.}))" 2>/dev/null
}

# --- Python ---------------------------------------------------------------------------------------
if [ -n "${PYTHON:-}" ]; then
    command -v "$PYTHON" >/dev/null 2>&1 ||
        fail "PYTHON=$PYTHON is not a program; name a Python >= $oldest or leave PYTHON out."
    version=$("$PYTHON" -c "import platform; print(platform.python_version())" 2>/dev/null)
    [ -n "$version" ] ||
        fail "PYTHON=$PYTHON does not run as Python; name a Python >= $oldest or leave PYTHON out."
    is_recent "$PYTHON" || fail "PYTHON=$PYTHON is Python $version, and lupi needs Python >= $oldest."
    python=$PYTHON
else
    python=
    for candidate in python3 python3.14 python3.13 python3.12 python3.11 python; do
        if command -v "$candidate" >/dev/null 2>&1 && is_recent "$candidate"; then
            python=$candidate
            break
        fi
    done
    [ -n "$python" ] ||
        fail "no Python >= $oldest was found; install one, or name one with PYTHON=/path/to/python."
fi

"$python" -c "import venv, ensurepip" 2>/dev/null ||
    fail "$python has no venv module; install it (on Debian and Ubuntu: apt install python3-venv)."

header=$("$python" -c "import sysconfig; print(sysconfig.get_config_var('INCLUDEPY') + '/Python.h')")
[ -f "$header" ] ||
    fail "$python has no C headers ($header); install them (on Debian and Ubuntu: apt install python3-dev)."

# --- C++ ------------------------------------------------------------------------------------------
# Syntax only: enough to notice a missing standard library or a stub that asks to be installed.
compiles() {
    printf '#include <thread>\n#include <vector>\nint main() { return std::vector<int>(1)[0]; }\n' |
        $1 -std=c++17 -x c++ -fsyntax-only - 2>/dev/null    # unquoted: CXX="ccache g++" is two words
}

if [ -n "${CXX:-}" ]; then
    compiles "$CXX" || fail "CXX=$CXX does not compile C++17; name one that does or leave CXX out."
else
    found=
    for candidate in c++ g++ clang++; do
        if compiles "$candidate"; then
            found=$candidate
            break
        fi
    done
    [ -n "$found" ] ||
        fail "no C++ compiler was found; install g++ or clang++, or name one with CXX=/path/to/compiler."
fi

echo "$python"
