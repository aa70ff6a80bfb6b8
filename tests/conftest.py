"""Fixtures shared by all tests: the hypothesis profiles, and a memory store on every backend."""

from __future__ import annotations

import gc
import os
import shutil
import signal
from collections import Counter
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings

import retentive
from retentive import MemoryStore
from support.places import LASTING, LOCAL, OpenPlace, place_of
from support.profiles import FULL, LONG, PROFILE
from support.servers import MotoServer

_QUIET = (HealthCheck.too_slow, HealthCheck.data_too_large)
_ALWAYS = settings(deadline=None, suppress_health_check=_QUIET, print_blob=True, derandomize=not FULL)
settings.register_profile("quick", _ALWAYS, max_examples=15, stateful_step_count=20)
settings.register_profile("long", _ALWAYS, max_examples=150, stateful_step_count=50)
settings.register_profile("full", _ALWAYS, max_examples=500, stateful_step_count=60)
settings.load_profile(PROFILE)


_IN_MEMORY = Path("/dev/shm")  # a file system in memory, on Linux
_END_OF_CERTIFICATE = "-----END CERTIFICATE-----\n"
_ROOM = 2 << 30  # bytes; the tests of one worker need a tenth of it at a time


# Their frameworks need older versions of packages that others here need, so they have an environment of their own, and
# `make check NAME=frameworks` runs them by their path. Here they would all be skipped.
collect_ignore = ["frameworks"]


# What CI runs in both profiles, since the long one differs most here: stronger faults, longer histories, all backends.
_IN_BOTH = tuple(
    f"tests/{name}/" for name in ("contract/concurrency", "contract/linearizability", "contract/machine", "faults")
)
_SLOW = ("tests/features/packages/", "tests/features/platforms/")  # single tests take up to 3 minutes


def pytest_addoption(parser: pytest.Parser) -> None:
    said = "run a third of the cases of each parametrized test (`make test`)"
    parser.addoption("--third", action="store_true", help=said)
    said = "run the listed cases that --third leaves out, and a third of all others, with faults and histories "
    said += "(`make check NAME=sample`)"
    parser.addoption("--after", metavar="FILE", type=Path, help=said)


def pytest_configure(config: pytest.Config) -> None:
    _keep_files_in_memory()
    said = "long: runs in the long and the full profile only; a shorter test shows the same of its neighbour"
    config.addinivalue_line("markers", said)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what it runs in the background
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _keep_files_in_memory() -> None:
    """In the quick profile, put temporary directories in memory if it has room. Then no test waits for a disk.

    The long profile uses the disk. The tests of power cuts always have a disk of their own.
    """
    if LONG or not hasattr(os, "ST_NOEXEC") or not _IN_MEMORY.is_dir() or not os.access(_IN_MEMORY, os.W_OK):
        return
    runs_programs = not os.statvfs(_IN_MEMORY).f_flag & os.ST_NOEXEC
    if runs_programs and shutil.disk_usage(_IN_MEMORY).free > _ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(_IN_MEMORY))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect without garbage collection: imports create no garbage, and looking for it takes 1 s in each worker."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Exempt the collected tests and the imported modules from garbage collection: a pass over them takes 0.3 s."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests marked `long` in the quick profile, and what `--third` and `--after` leave out.

    The slowest tests come first, so that no process works long after the others have ended.
    """
    kept = {item.nodeid for item in items if LONG or not item.get_closest_marker("long")}
    if config.getoption("third"):
        kept = _third(kept)
    if config.getoption("after") is not None:
        quick = set(config.getoption("after").read_text("utf-8").splitlines())
        quick = {name for name in quick if not name.startswith(_IN_BOTH)}
        kept = (kept & quick) - _third(quick) | _third(kept - quick)
    left_out = [item for item in items if item.nodeid not in kept]
    items[:] = [item for item in items if item.nodeid in kept]
    items.sort(key=lambda item: not item.nodeid.startswith(_SLOW))
    config.hook.pytest_deselected(items=left_out)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print a line for each reason for which tests were skipped."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped)
    for reason, count in reasons.most_common():
        terminalreporter.line(f"SKIPPED {count}: {reason}")


def _third(names: set[str]) -> set[str]:
    """Return a third of the cases of each test, always the same ones, and at least one."""
    tests: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda name: (crc32(name.encode()), name)):
        tests.setdefault(name.partition("[")[0], []).append(name)
    return {name for cases in tests.values() for name in cases[: (len(cases) + 2) // 3]}


@pytest.fixture(scope="session", autouse=True)
def _own_environment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep conversations of tests out of the home directory, and let clients of HTTP and MariaDB load one authority.

    All servers of tests are on this machine. To load the 140 authorities that a client trusts takes 30 ms, for each
    client.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        # Without a key, a client of S3 looks for one on the network, so an error would depend on the tests before.
        patch.setenv("AWS_ACCESS_KEY_ID", MotoServer.access_key)
        patch.setenv("AWS_SECRET_ACCESS_KEY", MotoServer.secret_key)
        if find_spec("certifi") is not None:  # comes with most clients
            bundle = Path(str(resources.files("certifi") / "cacert.pem")).read_text("utf-8")
            authority = tmp_path_factory.mktemp("trusted") / "authority.pem"
            authority.write_text(bundle.partition(_END_OF_CERTIFICATE)[0] + _END_OF_CERTIFICATE)
            patch.setenv("SSL_CERT_FILE", str(authority))
            patch.setenv("SSL_CERT_DIR", str(authority.parent))
        yield


@pytest.fixture(params=LOCAL)
def backend(request: pytest.FixtureRequest) -> str:
    """Name of a local backend. A test with this fixture runs for each of them; the quick profile has SQLite only."""
    return str(request.param)


@pytest.fixture(params=LASTING)
def lasting_place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Location whose contents survive closing and reopening."""
    return place_of(str(request.param), tmp_path)


@pytest.fixture
def place(backend: str, tmp_path: Path) -> str:
    """Location that does not exist yet."""
    return place_of(backend, tmp_path)


@pytest.fixture
def open_place() -> Iterator[OpenPlace]:
    """Function that works like `retentive.open` and closes the location when the test ends."""
    with ExitStack() as stack:
        yield lambda place, **options: stack.enter_context(retentive.open(place, **options))


@pytest.fixture
def store(place: str, open_place: OpenPlace) -> MemoryStore:
    """Default memory store of a new location."""
    return open_place(place).store()
