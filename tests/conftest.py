"""A limit on the time of every test: a solver that never ends is a failure, not a long wait."""

import signal
from contextlib import contextmanager

import pytest

LIMIT = 60.0  # seconds; no test takes more than a few


@contextmanager
def _limit(seconds):
    if not hasattr(signal, "setitimer"):  # not on Windows: the limit is a convenience
        yield
        return

    def give_up(signum, frame):
        raise TimeoutError(f"still running after {seconds:g} s")

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture(autouse=True)
def time_limit(request):
    """``@pytest.mark.within(seconds)`` changes the limit of a test."""
    mark = request.node.get_closest_marker("within")
    with _limit((mark.args[0] if mark else LIMIT) * request.config.getoption("--patience")):
        yield


def pytest_addoption(parser):
    parser.addoption(
        "--patience", type=float, default=1.0, help="factor on the time that a test may take"
    )


def pytest_configure(config):
    config.addinivalue_line("markers", "within(seconds): the time this test may take")
