"""``[search]`` of a running host: one engine after the other over ``agtp reload``, and sections that are refused."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.rows import each_row
from tests.search.embeddings_server import Service, serving
from tests.system.hosting import Host, running, sample, until
from tests.system.reload_host import reload
from tests.system.test_check_agrees import hidden
from tests.system.test_start_errors import refuses


def section(config: Path, text: str) -> None:
    """Have the host's configuration say this of searches."""
    rest = config.read_text().partition("\n[search]")[0]
    config.write_text(f"{rest}\n[search]\n{text}\n" if text else rest)


def asked(host: Host) -> tuple[str, list[str]]:
    """The engine that ranked, and what it found."""
    answer = host.agtp_json("call", "-", "DISCOVER", "/", "criteria=borrow a novel", "max_results:=1")
    result: dict[str, Any] = answer["body"]["result"] if "body" in answer else answer["result"]
    return result["engine"], [each["name"] for each in result["results"]]


def of(service: Service, model: str) -> str:
    """The section of a service."""
    return f'engine = "http"\nurl = "{service.url}"\nmodel = "{model}"'


@pytest.fixture(scope="module")
def services() -> Iterator[tuple[Service, Service]]:
    """Two services."""
    with serving() as one, serving() as two:
        yield one, two


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, services: tuple[Service, Service]) -> Iterator[Host]:
    """A host without the packages of static vectors, that asks the first service."""
    config = sample(tmp_path_factory.mktemp("search"))
    section(config, of(services[0], "small"))
    with running(config, environ=hidden("wordllama")(config)) as started:
        yield started


def broken(folder: Path) -> str:
    """A model's directory with files that are none."""
    (folder / "broken").mkdir(exist_ok=True)
    (folder / "broken" / "model.onnx").write_bytes(b"no model")
    (folder / "broken" / "tokenizer.json").write_text("{}")
    return "broken"


REFUSED = {
    "a package that is missing": (
        'engine = "static"',
        "engine needs the package wordllama, which is not installed",
        "agtphost[semantic]",
    ),
    "a directory that is not there": (
        'engine = "onnx"\nmodel = "nowhere"',
        "model has no model.onnx",
        "export the model to ONNX",
    ),
    "a model that is none": (
        'engine = "onnx"\nmodel = "broken"',
        "model: the model in ",
        "a sentence transformer in ONNX",
    ),
}
"""Sections, what is said of them, and what to do; in the order of their lines: the key is in the last one."""


@pytest.mark.release
@each_row("name", REFUSED)
def test_a_section_that_cannot_be_is_refused(host: Host, name: str) -> None:
    """With file and line of the key and what to do, on a reload; the host searches on as before."""
    text, what, remedy = REFUSED[name]
    before = host.config.read_text()
    broken(host.config.parent)
    section(host.config, text)
    try:
        place = host.config.read_text().splitlines().index(text.splitlines()[-1]) + 1
        done = host.agtp("reload", "--json")
        # 2 where the command sees it by itself, 1 where the host does.
        assert done.returncode in (1, 2), done.stdout + done.stderr
        told = json.loads(done.stdout)["problems"]
        assert {(each["file"], each["line"]) for each in told} == {(str(host.config), place)}, told
        assert what in told[0]["message"] and remedy in told[0]["hint"], told
    finally:
        host.config.write_text(before)
    assert asked(host)[0] == "http"


def test_a_start_says_what_a_reload_says(tmp_path: Path) -> None:
    """A host that is to begin with a model that is none does not start."""
    config = sample(tmp_path)
    broken(config.parent)
    text, what, remedy = REFUSED["a model that is none"]
    section(config, text)
    number = len(config.read_text().splitlines())
    refuses(config, [rf"host\.toml:{number}\b.*{re.escape(what)}.*{remedy}"])


def test_one_engine_follows_another(host: Host, services: tuple[Service, Service]) -> None:
    """What was asked before is asked until the reload and never after; its connections are closed."""
    one, two = services
    assert asked(host) == ("http", ["QUERY /library/{isbn}"])
    assert one.connected and not two.asked
    section(host.config, of(two, "large"))
    assert asked(host)[0] == "http" and not two.asked
    reload(host)
    seen = len(one.asked)
    assert asked(host) == ("http", ["QUERY /library/{isbn}"])
    assert {request["model"] for request in two.asked} == {"large"} and len(one.asked) == seen
    # Without that they would be kept for a minute.
    until(lambda: not one.connected)
    section(host.config, "")
    reload(host)
    assert asked(host) == ("bm25", [])
    until(lambda: not two.connected)
