"""What holds for the whole suite."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# A machine that is busy is no fault of a strategy, and no example has a time of its own to keep.
settings.register_profile("suite", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("suite")

# Images often set this. Hundreds of hosts and commands would compile every module anew, half of what a start costs.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """
    Workers for ``-n auto``, which pyproject.toml gives: one for each core, two at least.

    None where they would cost more than they save: for single files and tests, for ``-k``, and to collect. ``-n 2``
    on the command line wins.
    """
    narrow = config.option.collectonly or config.option.keyword
    if narrow or not all(Path(named).is_dir() for named in config.known_args_namespace.file_or_dir):
        return 0
    return max(2, len(os.sched_getaffinity(0)))
