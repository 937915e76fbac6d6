"""What holds for the whole suite."""

from __future__ import annotations

import atexit
import compileall
import gc
import os
import shlex
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from pathlib import Path

import psutil
import pytest
from _pytest import unittest
from execnet import XSpec
from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

import agtphost
from tests import collection, forking, npm, postgres, sources, workers
from tests.programmes import CHOSEN
from tests.requirements import pytest_runtest_logreport as pytest_runtest_logreport
from tests.requirements import pytest_sessionfinish as pytest_sessionfinish

# A machine that is busy is no fault of a strategy, and no example has a time of its own to keep.
settings.register_profile("drawn", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("suite", settings.get_profile("drawn"), derandomize=True, max_examples=40)
# The same examples in every run of the suite, as with every other random material: see ``seed_of_chance``. As they are
# the same, a later run finds nothing new in more of them: ``--programmes`` and ``AGTP_SEED`` draw a hundred.
settings.load_profile("drawn" if os.environ.get("AGTP_SEED") else "suite")

# Images often set this. Hundreds of hosts and commands would compile every module anew, half of what a start costs.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# What Node has compiled of a package is there for the next of dozens of processes.
os.environ.setdefault("NODE_COMPILE_CACHE", str(npm.cache() / "compiled"))

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background by a shell that has no jobs: commands that tests interrupt would not notice.
    signal.signal(signal.SIGINT, signal.default_int_handler)

THRESHOLDS = (20_000, 10, 10)
"""
Of the garbage collector, while tests run. With Python's own (700, 10, 10) a seventh of the processor time of tests that
make hosts in this process was spent on it.
"""

_unfrozen = False
"""Whether collections look at all objects again."""

OPERATORS = "handlers"
"""The package of operators' modules in every sample."""

FIRST = (
    "attacks",
    "models",
    "page",
    "stores",
    "cluster",
    "crash",
    "bench",
    "system",
    "conformance",
    "supply",
    "test_collection",
    "test_static",
    "adapters",
    "methods",
)
"""What a worker begins with, as it takes longest: small modules fill up what time is left at the end."""


IN_MEMORY = Path("/dev/shm")
"""Where temporary files of a whole run are, if there is room for them."""

ROOM = 4 << 30
"""Octets that a whole run needs there, and twice as many of memory; 1.3 GB were seen at a time."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--programmes", action="store_true", help="run the tests marked programme, and no others, at full length"
    )


def choose_length(config: pytest.Config) -> None:
    """Choose the long runs where they are asked for: modules look at it when they are imported."""
    if config.getoption("programmes"):
        CHOSEN.whole = True
        settings.load_profile("drawn")


def pytest_configure(config: pytest.Config) -> None:
    gc.disable()  # Until everything is collected: see below.
    choose_length(config)
    if hasattr(config, "workerinput"):
        workers.send_fewer_events(config)
    if config.getoption("programmes"):
        # Minutes are what they are for; a mark on a test says otherwise.
        config.option.timeout = config.option.timeout or 3600
    elif not os.environ.get("AGTP_SEED"):
        # Hypothesis tries the constants of each imported module of the package. Which modules these are depends on what
        # the worker ran before, so examples would differ; and each worker would parse a thousand files, in 1 to 4 s.
        providers.is_local_module_file = lambda path: False  # type: ignore[assignment]


def is_chosen(config: pytest.Config, item: pytest.Item) -> bool:
    """
    Return whether a test runs: with ``--programmes`` those marked ``programme`` or ``release``, otherwise all others.

    A test marked ``release`` also runs when the command line names its file.
    """
    release = item.get_closest_marker("release") is not None
    if config.getoption("programmes"):
        return release or item.get_closest_marker("programme") is not None
    return not release or str(item.path) in {os.path.abspath(name.partition("::")[0]) for name in config.args}


def pytest_collection(session: pytest.Session) -> bool | None:
    """Take the tests that were collected before this worker was forked."""
    return collection.adopt(session) or None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left = [item for item in items if not is_chosen(config, item)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if is_chosen(config, item)]
    if hasattr(config, "workerinput"):
        here = Path(__file__).parent

        def place(item: pytest.Item) -> int:
            room = item.path.relative_to(here).parts[0].removesuffix(".py")
            return FIRST.index(room) if room in FIRST else len(FIRST)

        items.sort(key=place)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Modules and items stay to the end: looking through all of them for garbage, again and again, finds none."""
    settle_collector()


def settle_collector() -> None:
    """Keep what is there now out of all later collections."""
    global _unfrozen
    gc.freeze()
    gc.set_threshold(*THRESHOLDS)
    gc.enable()
    _unfrozen = False


def unfreeze_collector(unfreeze: Callable[[], None] = gc.unfreeze) -> None:
    """Unfreeze all objects, and note it, because to count those that are frozen takes 0.2 s."""
    global _unfrozen
    unfreeze()
    _unfrozen = True


gc.unfreeze = unfreeze_collector


_twisted_installed = cache(unittest._get_twisted_version)


def find_twisted() -> unittest.TwistedVersion:
    """Return Twisted's release, which pytest would read from the disk before each test, in 0.5 ms."""
    absent = unittest.TwistedVersion.NotInstalled
    return _twisted_installed() if "twisted.trial.unittest" in sys.modules else absent


unittest._get_twisted_version = find_twisted


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """As ``--dist loadfile``, but that modules which share a browser, or a host, count as one."""
    return _Modules(config, log) if config.getvalue("dist") == "loadfile" else None


class _Modules(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        if nodeid.startswith("tests/page/test_browser_"):
            return "a browser"
        if nodeid.startswith(("tests/system/test_gateway_page.py", "tests/system/test_openapi_page.py")):
            return "the gateway's own port"
        if nodeid.startswith(("tests/stores/test_postgres", "tests/models/test_store_machine")):
            return "a PostgreSQL server"
        if nodeid.partition("::")[0] in sources.READERS:
            return "the package as trees"
        return "a host" if nodeid.startswith("tests/system/standard/") else super()._split_scope(nodeid)


def has_room(folder: Path, room: int = ROOM) -> bool:
    """Return whether temporary files can be in a folder of memory, where programs that tests write can run, too."""
    if not os.access(folder, os.W_OK):
        return False
    of_folder = os.statvfs(folder)
    available = psutil.virtual_memory().available
    noexec = of_folder.f_flag & os.ST_NOEXEC
    return not noexec and of_folder.f_bavail * of_folder.f_frsize >= room and available >= 2 * room


def keep_files_in_memory() -> None:
    """
    Have the temporary files of this process and its workers in memory, unless ``TMPDIR`` says where.

    No test is about the disk below them: a kill leaves the same behind, and flushes and power cuts are shown by calls
    that a test replaces. Waiting for the disk was a sixteenth of a run's processor time, and more of its time.
    ``--programmes`` and parts of the suite use the disk.
    """
    if "TMPDIR" not in os.environ and has_room(IN_MEMORY):
        # Those of tests are pytest's to remove; all others go with this process, after the processes that fork.
        folder = tempfile.mkdtemp(prefix="t-", dir=IN_MEMORY)
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.chmod(folder, 0o711)  # PostgreSQL runs as another user.
        os.environ.update(TMPDIR=folder, PYTEST_DEBUG_TEMPROOT=str(IN_MEMORY))
        os.environ[postgres.TEMPLATE] = f"{folder}/postgresql"
        tempfile.tempdir = None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes(config: pytest.Config, specs: Sequence[XSpec]) -> None:
    """
    Workers are forked from one process, and in a whole run they share those that fork hosts and servers for them.

    The package is compiled before: in a new checkout all of these would compile the same thousand modules.
    """
    if config.args_source is not pytest.Config.ArgsSource.ARGS:
        compileall.compile_dir(Path(agtphost.__file__).parent, quiet=2)
        if not config.getoption("programmes"):
            keep_files_in_memory()
        forking.share()
    command = shlex.join(workers.python(config.args, ["--programmes"] * config.getoption("programmes")))
    for spec in specs:
        spec.python = command


@pytest.fixture(scope="session", autouse=True)
def postgresql_stopped() -> Iterator[None]:
    """Stop the PostgreSQL server of this worker at the end, if a test started it."""
    yield
    postgres.stop()


@pytest.fixture(scope="module", autouse=True)
def of_no_other_operator(request: pytest.FixtureRequest) -> Iterator[None]:
    """
    Hosts in this process import an operator's modules, all of one name, from directories of their own.

    What one test module has imported is not there for the next one, whichever that is in this worker.
    """
    places = list(sys.path)
    yield
    if request.node.nodeid not in sources.READERS:
        sources.forget()
    sys.path[:] = places
    for name in [each for each in list(sys.modules) if each.partition(".")[0] == OPERATORS]:
        del sys.modules[name]


@pytest.fixture(scope="module", autouse=True)
def length_as_chosen(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail the module that changes the length of runs: all later ones of this worker would be long."""
    yield
    assert CHOSEN.whole is request.config.getoption("programmes"), "CHOSEN.whole was set by a test"


@pytest.fixture(scope="module", autouse=True)
def collector_as_before() -> Iterator[None]:
    """
    Keep modules and items out of collections again, after a test that froze its own objects and let go of all.

    Otherwise each full collection in the rest of the run looks through all of them, which takes 0.5 s.
    """
    yield
    if _unfrozen:
        gc.collect()
        settle_collector()
    elif gc.get_threshold() != THRESHOLDS:
        gc.set_threshold(*THRESHOLDS)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """
    Workers for ``-n auto``, which pyproject.toml gives: three to a core, as many tests mostly wait.

    None where they would cost more than they save: for single files and tests, for ``-k``, and to collect. ``-n 2``
    on the command line wins.
    """
    narrow = config.option.collectonly or config.option.keyword
    if narrow or not all(Path(named).is_dir() for named in config.known_args_namespace.file_or_dir):
        return 0
    return 3 * len(os.sched_getaffinity(0))
