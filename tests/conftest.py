"""Settings of all tests: no network, no display, real recordings if available, and no silent skip in CI."""

from __future__ import annotations

import gc
import os
import socket
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from tests import elsewhere, unsynced
from tests.dealing import dealt

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as the command line does
os.environ.setdefault("MPLBACKEND", "Agg")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["DEVMIND_CACHE"] = os.path.join(tempfile.gettempdir(), f"devmind-tests-{os.getuid()}")  # not the user's

USUAL_TIMEOUT_S = 300.0
"""The timeout of every test by pytest's options; a test marked with more counts as long."""
SLOW_S = 15.0
"""Approximate duration of other slow tests."""
Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)
ROOT = Path(__file__).parent.parent
DATA = Path(os.environ.get("DEVMIND_DATA", ROOT.parent / "shared" / "data"))
ALLOWED_SKIPS = ("DEVMIND_DATA", "GPU", "right to mount")
"""Reasons that a skip may have in CI: recordings, a graphics card or rights cannot be installed there."""


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Real recordings beside the checkout (or in DEVMIND_DATA); the test is skipped without them."""
    if not DATA.is_dir():
        pytest.skip(f"no recordings: set DEVMIND_DATA to a folder like {DATA.name}/")
    return DATA


@pytest.fixture(autouse=True, scope="session")
def own_data(tmp_path_factory: pytest.TempPathFactory) -> Generator[None, None, None]:
    """No test writes to the user's own data."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("own")))
        yield


@pytest.fixture(autouse=True, scope="session")
def no_waiting_for_disks() -> Generator[None, None, None]:
    """Nothing waits for the disk, SQLite included; `tests.unsynced` explains why no fault is missed."""
    with pytest.MonkeyPatch.context() as patch:
        unsynced.patched(patch)
        yield


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only loopback can be reached: a test that uses the network fails with a clear error."""
    monkeypatch.setattr(socket.socket, "connect", _loopback_only(socket.socket.connect))
    monkeypatch.setattr(socket.socket, "connect_ex", _loopback_only(socket.socket.connect_ex))


def pytest_configure() -> None:
    """Other seeds and kernels, if the environment asks for them, also for data that a test file makes at import."""
    elsewhere.patched(pytest.MonkeyPatch())


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempt the modules imported in collection from garbage collection, then and in all tests.

    They are 750,000 objects, and each full collection would take half a second.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)  # after the selection by -m, so that the remaining tests are dealt evenly
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Each process starts with tests that take long, so that none is left over at the end."""
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    if processes > 1:
        items[:] = dealt(items, [item.nodeid.partition("::")[0] for item in items], [*map(_long_s, items)], processes)


def _long_s(item: pytest.Item) -> float:
    """Estimated duration: a third of the timeout if that is above the default, SLOW_S if slow, else 0."""
    marker = item.get_closest_marker("timeout")
    timeout_s = float(marker.args[0]) if marker and marker.args else 0.0
    if timeout_s > USUAL_TIMEOUT_S:
        return timeout_s / 3
    return SLOW_S if item.get_closest_marker("slow") else 0.0


def _loopback_only(connect: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(self: socket.socket, address: Any) -> Any:
        outside = self.family in (socket.AF_INET, socket.AF_INET6)
        if outside and str(address[0]) not in ("127.0.0.1", "::1", "localhost"):
            raise OSError(f"A test tried to reach {address[0]}; tests use no network but loopback.")
        return connect(self, address)

    return guarded


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With CI=true everything can be installed (`make test-system`), so a skipped test counts as failed."""
    return _no_skip_in_ci((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """The same for whole files (`pytest.importorskip` at their top)."""
    return _no_skip_in_ci((yield))


def _no_skip_in_ci(report: Report) -> Report:
    if os.environ.get("CI") == "true" and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        if not any(word in reason for word in ALLOWED_SKIPS):
            report.outcome = "failed"
            report.longrepr = f"{report.nodeid} was skipped, and with CI=true a skip is a failure. {reason}"
    return report
