"""Callers who invent names by the thousand: no search has to read these names, and each one can still be found."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from agtphost.stores.settings import locate_url
from agtphost.vocabulary import media_types
from tests import postgres
from tests.programmes import length
from tests.system.hosting import Host, running, sample
from tests.system.raw_link import RawLink, client_context, request
from tests.system.trail import database

REQUESTS = length(600, 5_000)
LINKS = 4
PIPELINED = 25

SETTINGS = """
[limits]
anonymous_requests_per_minute = 1000000

[audit]
refusal_records_per_address = 1000000
refusal_records_of_strangers = 1000000
refusal_records_per_agent = 1000000
read_records_per_address = 1000000
read_records_of_strangers = 1000000
"""


def letters(number: int) -> str:
    """Return a number as letters, of which names of methods are made."""
    return "".join(chr(ord("A") + int(digit)) for digit in str(number))


def invent(first: int) -> Iterator[bytes]:
    """Yield requests with names of every kind, each of them new."""
    number = first
    while True:
        name = f"made-up-{number}"
        told = {"Session_ID": name, "Task_ID": name, "Request_ID": name, "Principal_ID": f"{name}@example.com"}
        stranger = f"{number:064x}"
        tool = {"tool": f"files.{name}", "arguments": {"person": name, "reason": name}}
        execute = {"parameters": {"action": "mcp.tools.call", "payload_type": media_types.MCP_TOOLS}}
        yield request(f"MADE{letters(number)}", "/", **told)
        yield request("QUERY", f"/{name}", {"reason": name}, **told)
        yield request(name.upper().replace("-", ""), f"/{name}", **told)
        yield request("EXECUTE", "/", {"parameters": {"action": name, "payload": {"tool": name}}}, **told)
        yield request("EXECUTE", "/", {"parameters": {**execute["parameters"], "payload": tool}}, **told)
        yield request("EXECUTE", "/", {"parameters": {"action": name, "payload_type": name, "payload": {}}}, **told)
        yield request("EXECUTE", f"/mcp/{name}", {"parameters": {**execute["parameters"], "payload": tool}}, **told)
        yield request("QUERY", "/", {"modality": "mcp.resource", "mcp_resource_uri": f"file:///{name}"}, **told)
        if number < 8:
            # The sample's server takes more than a second to refuse one.
            yield request("QUERY", "/", {"modality": "mcp.prompt", "mcp_prompt_name": f"files.{name}"}, **told)
        yield request("DISCOVER", f"/agents/{name}", **told)
        yield request("DISCOVER", "/methods", Agent_ID=stranger, **told)
        yield request("QUERY", "/library/978", Agent_ID=stranger, **told)
        number += LINKS


def attack(host: Host, *, identified: bool) -> None:
    """Send half of the requests, over several connections."""
    context, failures = client_context(host, identified=identified), []

    def send(first: int) -> None:
        try:
            requests = islice(invent(first), REQUESTS // 2 // LINKS)
            with RawLink(host, context=context) as link:
                while batch := list(islice(requests, PIPELINED)):
                    link.send(b"".join(batch))
                    assert all(link.answer() is not None for _ in batch)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=send, args=(first,)) for first in range(LINKS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    assert not failures


def configured(folder: Path, store: str) -> tuple[Path, str]:
    """Return the configuration of a sample host and the URL of its store."""
    if store == "sqlite":
        config = sample(folder, append=SETTINGS)
        return config, ""
    server = postgres.server()
    url = server.url(server.schema(folder))
    locate_url(url).create("localhost")
    return sample(folder, append=f'{SETTINGS}\n[store]\nurl = "{url}"\n'), url


@pytest.mark.programme
@pytest.mark.parametrize("store", ["sqlite", pytest.param("postgresql", marks=(postgres.needed, pytest.mark.release))])
def test_invented_names_are_no_facets(tmp_path: Path, store: str) -> None:
    """
    Of 5,000 requests with new names of every kind, no facet has one; methods and texts of records find each.

    Shortened, of 600: 26 names of each kind. There are 18 facets without them, and may be 29.
    """
    config, url = configured(tmp_path, store)
    with running(config) as host:
        host.agtp("tools", "call", "files.list_files")
        for identified in (True, False):
            attack(host, identified=identified)
        known = host.agtp_json("audit", "search", "--tool", "files.list_files")
        assert len(known) == 1
        for words, expected in (
            (("--method", f"MADE{letters(1)}"), {f"MADE{letters(1)}"}),
            (("--text", "made-up-2"), None),
            (("--method", "EXECUTE", "--text", "made-up-3"), {"EXECUTE"}),
            (("--session", "made-up-4"), None),
        ):
            found = host.agtp_json("audit", "search", *words, "--all")
            assert len(found) >= 2, words
            assert expected is None or {each["payload"]["method"] for each in found} == expected
        counts = host.agtp_json("audit", "search", "--count", "tool")["counts"]
        by_value = {each["value"]: each["records"] for each in counts}
        assert by_value["(unknown)"] > REQUESTS / 12 and len(by_value) < 30, by_value
        one = host.agtp_json("audit", "search", "--method", f"MADE{letters(1)}", "--count", "status")["counts"]
        assert sum(each["records"] for each in one) == 2
        verified = host.agtp("audit", "verify")
        assert verified.returncode == 0, verified.stdout
    facets = read_facets(url or f"sqlite:{database(host)}")
    assert len(facets) < 30, len(facets)
    assert not [facet for facet in facets if any("made" in str(value).lower() for value in facet)]


def read_facets(url: str) -> list[tuple[Any, ...]]:
    """Return the values of all facets of a store."""
    reader: Any = locate_url(url).open_reader()
    try:
        with reader.tables() as rows:
            return [tuple(row[2:]) for row in rows.facets(None)]
    finally:
        reader.close()
