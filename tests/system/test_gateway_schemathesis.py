"""
``schemathesis``, which is not ours, reads the gateway's OpenAPI document and sends what follows it and what does not.

All of its checks run, and no finding is excused. What its expectation of HTTP is wrong about is in three places, each
no wider than its reason: the statuses of SETTINGS, ``unprobed``, and ``schemathesis_hooks.py``.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests import forking
from tests.programmes import length, seed_of_chance
from tests.system.gateways import TOKEN, ask, with_gateway
from tests.system.hosting import BIN, Host, running
from tests.system.test_openapi_called import import_document, service
from tests.system.test_openapi_checked import body, document, operation, path_parameter, query_parameter
from tests.system.test_tool_paths import READER, SERVER, call
from tests.system.test_tool_paths import SETTINGS as TOOLS

EXAMPLES = length(4, 100)
"""Of each operation."""

SEEDS = length(1, 3)

PHASES = length("fuzzing", "examples,coverage,fuzzing,stateful")
"""The whole run has the bounds of every value of the schemas, too."""

HOOKS = Path(__file__).with_name("schemathesis_hooks.py")

SETTINGS = f"""
hooks = {json.dumps(str(HOOKS))}

# 459 and 460 are AGTP's: an unknown method, and a path outside of its grammar.
[checks.negative_data_rejection]
expected-statuses = [400, 401, 403, 404, 405, 406, 415, 422, 459, 460]

# The tool's own list and 422, where the check valid_requests_fail_as_declared decides.
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "3xx", 401, 403, 404, 409, 422, 429, "5xx"]
"""

OPEN = ("timeout = 30\n", 'timeout = 30\nmin_assurance = "gateway"\n')
"""The tools of the sample are for certificates alone, unless it says otherwise."""

PROBES = ("get", "put", "post", "delete", "options", "patch", "trace", "query")
"""HTTP methods that ``schemathesis`` expects to be 405 where the document lacks them."""

AGENTS = "/agents"
"""A path at which the host itself has QUERY."""


def unprobed(path: str, item: Mapping[str, Any]) -> set[str]:
    """
    Return the HTTP methods that work at a path though the document lacks them.

    POST carries the method that ``X-AGIS-Method`` names, as AGIS v01 section 10.2 has it, where GET does; the document
    has one operation for an endpoint, because each is one function of a generated client. AGTP's QUERY is also sent as
    HTTP's QUERY, which OpenAPI 3.1 cannot describe.
    """
    fields = [each["name"] for each in item.get("get", {}).get("parameters", ()) if each["required"]]
    found = {"post"} if "X-AGIS-Method" in fields else set()
    methods = [each["x-agtp"] for each in item.values()]
    queried = any(one["method"] == "QUERY" for each in methods for one in (each if isinstance(each, list) else [each]))
    return found | ({"query"} if queried or path == AGENTS else set())


def settings_of(published: Any) -> str:
    """Return the configuration of ``schemathesis`` for a document."""
    lines = [SETTINGS]
    for path, item in published["paths"].items():
        left_out = unprobed(path, item) - item.keys()
        if left_out:
            probes = json.dumps([each for each in PROBES if each not in left_out])
            lines.append(f"[[operations]]\ninclude-path = {json.dumps(path)}")
            lines.append(f"phases.coverage.unexpected-methods = {probes}\n")
    return "\n".join(lines)


def examined(folder: Path, document: Any, base: str, seed: int) -> subprocess.CompletedProcess[str]:
    """Run it with a document that a gateway published."""
    (folder / "openapi.json").write_text(json.dumps(document))
    settings = folder / "schemathesis.toml"
    settings.write_text(settings_of(document))
    words = ["--config-file", str(settings), "run", "openapi.json", "--url", base, "--seed", str(seed), "--no-color"]
    words += ["--header", f"Authorization: Bearer {TOKEN}", "--checks", "all", "--continue-on-failure"]
    words += ["--max-examples", str(EXAMPLES), "--generation-database", "none", "--phases", PHASES]
    command = [str(BIN / "schemathesis"), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False, cwd=folder)


def search(folder: Path, host: Host, port: int, operations: int) -> Any:
    """Run it with each seed, without a finding; return the document."""
    base = f"http://127.0.0.1:{port}"
    document = ask(port, "GET", "/.well-known/openapi.json").value
    first = seed_of_chance()
    for seed in range(first, first + SEEDS):
        done = examined(folder, document, base, seed)
        print(done.stdout[-6000:], done.stderr[-2000:])
        assert done.returncode == 0 and f"Tested: {operations}" in done.stdout, f"seed {seed}"
        # A tool that fails on purpose writes one to its server's stderr.
        faults = [line for line in host.lines if "Traceback" in line and "stderr:" not in line]
        assert not faults, "\n".join(host.lines)
    return document


@pytest.mark.programme
def test_what_the_document_says_is_so(tmp_path: Path) -> None:
    """No finding; the controls are documents that promise something else."""
    config, port = with_gateway(tmp_path, eager=True, edit=[OPEN])
    with running(config) as host:
        document = search(tmp_path, host, port, 12)
        if length(False, True):
            refute(tmp_path, document, port)


def refute(folder: Path, document: Any, port: int) -> None:
    """Show that what is expected beside the tool's own list hides no other fault of its kind."""
    paths, schemas = document["paths"], document["components"]["schemas"]
    reason = paths["/room"]["post"]["responses"]["422"]["content"]["application/vnd.agtp+json"]["schema"]["properties"]
    reason["reason"]["examples"] = ["room_unavailable"]
    schemas["ECHO_text_output"]["required"] = ["never"]
    schemas["BOOK_reading_input"]["properties"]["room"]["enum"] = ["cellar"]
    schemas["JsonValue"]["maximum"] = 2**60
    document["paths"] = {path: paths[path] for path in ("/room", "/reading", "/text", "/tools/files/read_file")}
    done = examined(folder, document, f"http://127.0.0.1:{port}", 1)
    assert done.returncode == 1
    for found in ("invalid_dates", "never", "'invalid-input' is none of the errors", "an integer is beyond 2**53"):
        assert found in done.stdout, done.stdout[-6000:]


SHARED = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "more": {}}}
THING = {
    "type": "object",
    "required": ["price", "kind"],
    "properties": {
        "price": {"type": "number", "minimum": 0},
        "kind": {"enum": ["book", "map"]},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        "owner": SHARED,
        "size": {"type": ["integer", "null"]},
        "labels": {"type": "object", "additionalProperties": {"type": "integer"}},
    },
}


def store(port: int) -> dict[str, Any]:
    """A document whose bodies are open, in a path and without one."""
    count = {"name": "count", "in": "query", "schema": {"type": "integer", "minimum": 1}}
    price = {"name": "price", "in": "query", "schema": {"type": "number"}}
    paths = {
        "/things": {"get": operation(parameters=[count, price]), "post": operation(requestBody=body(THING))},
        "/things/{id}": {
            "get": operation(parameters=[path_parameter("id"), query_parameter("view")]),
            "put": operation(parameters=[path_parameter("id")], requestBody=body(THING)),
            "delete": operation(parameters=[path_parameter("id")]),
        },
    }
    return document(paths) | {"servers": [{"url": f"https://localhost:{port}/v1"}]}


@pytest.mark.release
def test_what_the_document_of_imported_services_says_is_so(tmp_path: Path) -> None:
    """No finding with endpoints of another OpenAPI document, and with an MCP server whose tools have odd names."""
    command = json.dumps(forking.mcp_server(str(SERVER)))
    with service(tmp_path) as (upstream, _):
        config, port = with_gateway(tmp_path, append=TOOLS.format(command=command), eager=True, edit=[OPEN])
        token = config.parent / "reader.token"
        token.write_text(READER)
        token.chmod(0o600)
        import_document(tmp_path, config.parent / "endpoints", store(upstream))
        with running(config) as host:
            assert call(port, "query").status == 200  # What a server offers is listed once it is up.
            count = sum(map(len, ask(port, "GET", "/.well-known/openapi.json").value["paths"].values()))
            assert count > 25
            search(tmp_path, host, port, count)
