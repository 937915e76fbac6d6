"""Hosts that several tests of this folder look at."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.generated import generate
from tests.system.hosting import Host, running, sample

DEFECTIVE = Path(__file__).with_name("defective_host.py")
GENERATED = 1000
QUIC = "\n[quic]\nenabled = true\n"


@pytest.fixture(scope="session")
def sample_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The sample host."""
    with running(sample(tmp_path_factory.mktemp("sample"), eager=True)) as host:
        yield host


@pytest.fixture(scope="session")
def generated_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The sample host with a thousand endpoints more."""
    config = sample(tmp_path_factory.mktemp("generated"))
    generate(config, GENERATED)
    with running(config) as host:
        yield host


@pytest.fixture(scope="session")
def defective_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host whose defect is the one that ``state/defect`` names; it listens for QUIC, too."""
    config = sample(tmp_path_factory.mktemp("defective"), eager=True, append=QUIC)
    chosen = config.parent / "state" / "defect"
    chosen.parent.mkdir()
    chosen.write_text("none")
    environ = {"AGTPHOST_DEFECT": str(chosen)}
    with running(config, environ=environ, prefix=(sys.executable, str(DEFECTIVE))) as host:
        yield host
