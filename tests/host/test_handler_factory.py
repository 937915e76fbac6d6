"""From declarations to handlers: secrets, authorities, recipes, functions; all that is missing is said at start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agtphost.config import load
from agtphost.errors import ConfigurationError
from agtphost.handlers.composition import Composition
from agtphost.handlers.function import BlockingFunction, RegisteredFunction
from agtphost.handlers.turn_executor import TurnExecutor
from agtphost.host.handler_factory import HandlerFactory
from agtphost.host.host_loader import LoadedHost, load_host
from agtphost.upstream.external import ExternalService
from tests.handlers.upstreams import Authority
from tests.system.hosting import sample

ENDPOINT = """
method = "QUERY"
path = "/weather"
description = "Asks an upstream."
errors = ["upstream_timeout", "upstream_connection_error", "upstream_malformed_response",
  "upstream_authentication_failed", "upstream_error"]
[handler]
type = "external_service"
url = "https://weather.example/now"
method = "GET"
timeout_seconds = 3
ca = "upstream-ca.pem"
headers = { Authorization = "Bearer ${WEATHER_TOKEN}", X-Key = "file:weather.key" }
[semantic]
intent = "Ask."
actor = "agent"
outcome = "Known."
capability = "discovery"
confidence = 0.9
impact = "informational"
is_idempotent = true
[input_schema]
type = "object"
additionalProperties = false
[output_schema]
type = "object"
"""

ENVIRONMENT = {"WEATHER_TOKEN": "canary-1"}


def load_sample_host(folder: Path, environ: dict[str, str], **edits: str) -> LoadedHost:
    """The sample host with the endpoint above."""
    file = sample(folder)
    endpoints = file.parent / "endpoints"
    (endpoints / "weather.toml").write_text(edits.get("endpoint", ENDPOINT))
    if "key" not in edits:
        (endpoints / "weather.key").write_text("canary-2\n")
    if "ca" not in edits:
        Authority().save(endpoints)
    for name in ("reading.toml",):
        if name in edits:
            (endpoints / name).write_text(edits[name])
    return load_host(load(file, environ), environ)


def problems(folder: Path, environ: dict[str, str], **edits: str) -> list[str]:
    """Why the host does not start."""
    with pytest.raises(ConfigurationError) as caught:
        load_sample_host(folder, environ, **edits)
    return [str(problem) for problem in caught.value.problems]


def test_every_kind_of_handler_is_made(tmp_path: Path) -> None:
    """Functions, blocking functions, compositions, services; an endpoint outlives its upstream's time."""
    text = (Path(__file__).parents[2] / "etc/endpoints/text.toml").read_text()
    slow = text.replace('"/text"', '"/slow"')
    slow = slow.replace('handlers.text.echo"', 'handlers.library.look_up"\nblocking = true')
    loaded = load_sample_host(
        tmp_path,
        ENVIRONMENT,
        **{"reading.toml": slow},
    )
    from twisted.internet import reactor

    factory = HandlerFactory(reactor, 2, TurnExecutor(reactor))
    bindings = {prepared.endpoint.path: prepared.bind(factory) for prepared in loaded.bound}
    assert isinstance(bindings["/weather"].handler, ExternalService)
    assert bindings["/weather"].timeout == 8.0
    assert isinstance(bindings["/slow"].handler, BlockingFunction)
    assert isinstance(bindings["/text"].handler, RegisteredFunction)
    assert "canary" not in repr(loaded), "secrets are not shown"
    factory.startService()  # type: ignore[no-untyped-call]
    done: list[Any] = []
    factory.stopService().addCallback(done.append)
    assert done


def test_a_composition_carries_the_union_and_its_lineage(tmp_path: Path) -> None:
    """API-128: the sample's endpoint; its records name the recipe's version (AGTP-API section 10.5)."""
    loaded = load_sample_host(tmp_path, ENVIRONMENT)
    from twisted.internet import reactor

    (prepared,) = [one for one in loaded.bound if one.endpoint.path == "/reading"]
    binding = prepared.bind(HandlerFactory(reactor, 1, TurnExecutor(reactor)))
    assert isinstance(binding.handler, Composition)
    assert set(binding.required_scopes) == {"documents:query", "booking:room"}
    assert binding.extra == {"recipe": "reading-stay", "recipe_version": "1.0"}
    assert [recipe.identifier for recipe in loaded.recipes.all()] == ["reading-stay@1.0"]
    assert binding.details["handler"] == {"type": "composition"}


def test_unset_variables_keep_the_host_from_starting(tmp_path: Path) -> None:
    """API-132: naming the variable, the endpoint, the file and the line."""
    (problem,) = problems(tmp_path, {})
    assert "QUERY /weather" in problem and "WEATHER_TOKEN, which is not set" in problem
    assert "weather.toml:" in problem


def test_missing_files_keep_the_host_from_starting(tmp_path: Path) -> None:
    """A secret's file, and the upstream's authority."""
    (first,) = problems(tmp_path / "a", ENVIRONMENT, key="no")
    assert "weather.key, which cannot be read" in first
    (second,) = problems(tmp_path / "b", ENVIRONMENT, ca="no")
    assert "handler.ca" in second and "cannot be read" in second


def test_secrets_that_would_break_a_header_are_refused(tmp_path: Path) -> None:
    """T-HI: a value with a line break never becomes a header; it is not shown either."""
    (problem,) = problems(tmp_path, {"WEATHER_TOKEN": "canary\r\nX-Evil: 1"})
    assert "not one line of ASCII text" in problem and "canary" not in problem


def test_an_unknown_recipe_keeps_the_host_from_starting(tmp_path: Path) -> None:
    """API-125: registration fails, with file and line."""
    text = (Path(__file__).parents[2] / "etc/endpoints/reading.toml").read_text()
    (problem,) = problems(tmp_path, ENVIRONMENT, **{"reading.toml": text.replace('"reading-stay"', '"unknown"')})
    assert "BOOK /reading: its recipe unknown is not registered" in problem and "reading.toml:" in problem


def test_a_step_that_nothing_answers_keeps_the_host_from_starting(tmp_path: Path) -> None:
    """With the recipe file's name and the step's line."""
    file = sample(tmp_path)
    recipes = file.parent / "recipes.toml"
    recipes.write_text(recipes.read_text().replace('path = "/room"', 'path = "/rooms"'))
    with pytest.raises(ConfigurationError) as caught:
        load_host(load(file, {}), {})
    first = str(caught.value.problems[0])
    line = recipes.read_text().split("\n").index('path = "/rooms"')
    assert "step 2 calls BOOK /rooms, which no endpoint answers" in first
    assert f"recipes.toml:{line + 1}:" in first and '(write path = "/room")' in first, "the line of the path"


def test_what_many_endpoints_lack_is_told_once(tmp_path: Path) -> None:
    """One problem for each variable, with the first place and how many lack it."""
    file = sample(tmp_path)
    endpoints = file.parent / "endpoints"
    Authority().save(endpoints)
    plain = ENDPOINT.replace(', X-Key = "file:weather.key"', "")
    for number in range(30):
        (endpoints / f"w{number:02}.toml").write_text(plain.replace("/weather", f"/weather{number}"))
    for name in ("x1", "x2"):
        (endpoints / f"{name}.toml").write_text(
            plain.replace("/weather", f"/{name}").replace("WEATHER", name[0].upper())
        )
    (endpoints / "y.toml").write_text(plain.replace("/weather", "/y").replace("WEATHER_TOKEN", "Y"))
    with pytest.raises(ConfigurationError) as caught:
        load_host(load(file, {}), {})
    said = [problem.message for problem in caught.value.problems]
    lacks = "handler.headers.Authorization names the environment variable"
    assert said == [
        f"QUERY /weather0: {lacks} WEATHER_TOKEN, which is not set; 29 other endpoints name it too",
        f"QUERY /x1: {lacks} X_TOKEN, which is not set; 1 other endpoint names it too",
        f"QUERY /y: {lacks} Y, which is not set",
    ]
    assert [Path(problem.file).name for problem in caught.value.problems] == ["w00.toml", "x1.toml", "y.toml"]
    assert all(problem.line and problem.hint for problem in caught.value.problems)
