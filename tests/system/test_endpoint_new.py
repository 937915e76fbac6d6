"""``agtp endpoint new``: what it writes passes its own test and ``agtp check``, and is answered after a start."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import forking
from tests.system.hosting import Host, agtp, running, sample
from tests.system.up_host import module, without_others

WRITTEN = (
    (("QUERY", "/orders/{id}", "--function", "handlers.orders.find"), "/orders/17", {}, {"id": "17"}),
    (("BOOK", "/desk", "--function", "desks.book"), "/desk", {"text": "by the window"}, {"text": "by the window"}),
    # Into the module that the one before wrote.
    (("RESERVE", "/desk", "--function", "desks.reserve_one"), "/desk", {"text": "a"}, {"text": "a"}),
    (
        ("RUN", "/jobs", "--function", "jobs.night.run"),
        "/jobs",
        {"procedure_id": "first"},
        {"procedure_id": "first"},
    ),
)
"""Words of the command, and a call with its result."""


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sample with three more endpoints, and one whose declaration says all that its function does."""
    file = sample(tmp_path_factory.mktemp("new"))
    for words, *_ in WRITTEN:
        done = agtp("endpoint", "new", *words, "--config", str(file), "--json")
        assert done.returncode == 0, done.stderr
        assert set(json.loads(done.stdout)["files"]) == {"function", "declaration", "test"}
    return file


def test_its_tests_pass(config: Path) -> None:
    """As written, with nothing else set up."""
    done = forking.run(
        module("pytest", "-q", *without_others(), "-p", "no:cacheprovider", "--rootdir", config.parent, "tests"),
        timeout=90,
        cwd=config.parent,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
    )
    assert done.returncode == 0 and "12 passed" in done.stdout, done.stdout + done.stderr


@pytest.fixture(scope="module")
def host(config: Path) -> Iterator[Host]:
    """It, running."""
    with running(config) as started:
        started.agtp_json("agent", "new", "runner", "--scope", "activation:run")
        assert started.agtp("reload").returncode == 0
        yield started


def test_it_is_sound_and_called(host: Host) -> None:
    """check finds nothing; a host answers each, and lists what the hints say."""
    assert host.agtp_json("check", str(host.config))["problems"] == []
    for (method, template, *_), path, given, expected in WRITTEN:
        words = [f"{name}={value}" for name, value in given.items()]
        # Every RUN needs a scope that the sample's agent has not.
        caller = "runner" if method == "RUN" else "demo"
        answer = host.agtp_json("call", host.uri, method, path, *words, "--as", caller)
        assert answer["status"] == 200 and answer["body"]["result"] == expected, answer
        place = ("target=endpoint", f"method={method}", f"path={template}")
        defined = host.agtp_json("call", host.uri, "INSPECT", *place, "--as", caller)
        assert set(defined["body"]["input_schema"]["properties"]) == set(expected)
        assert defined["body"]["errors"] == ["not_known"]
    unknown = host.agtp("call", host.uri, "QUERY", "/orders/nothing", "--as", "demo")
    assert unknown.returncode == 1 and "not_known" in unknown.stdout + unknown.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("QUERY", "/orders/{id}", "--function", "handlers.orders.find"), "has find already"),
        (("GET", "/orders", "--function", "a.b"), "is an HTTP verb"),
        (("QEURY", "/orders", "--function", "a.b"), "QUERY"),
        (("QUERY", "orders", "--function", "a.b"), "orders"),
        (("QUERY", "/orders", "--function", "find"), "has no module"),
        (("QUERY", "/orders", "--function", "a.class"), "is not a Python identifier"),
    ],
)
def test_what_cannot_be_written_is_said(config: Path, words: tuple[str, ...], said: str) -> None:
    """Exit status 2, and nothing is changed."""
    before = {path: path.read_bytes() for path in (config.parent / "endpoints").iterdir()}
    done = agtp("endpoint", "new", *words, "--config", str(config))
    assert done.returncode == 2 and said in done.stderr, done.stderr
    assert {path: path.read_bytes() for path in (config.parent / "endpoints").iterdir()} == before
