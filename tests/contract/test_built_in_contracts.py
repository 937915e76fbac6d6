"""The host's own endpoints keep the rules that operators' are held to (API-160, AGTP-251)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import agtphost
from agtphost.contract import reserved
from agtphost.contract.built_in_contracts import CONTRACTS, contract_of
from agtphost.contract.manifest import project_binding
from agtphost.contract.manifest_validation import examine
from agtphost.methods.discovery.description import FORMATS
from agtphost.methods.standard.orchestration import monitor_methods, workflow_queries
from agtphost.methods.standard.table import STANDARD
from agtphost.vocabulary.catalog import Catalog
from tests.methods.floor_hosts import FloorHost
from tests.rows import each_row

CATALOG = Catalog.load()
OLD: dict[str, Any] = json.loads((Path(__file__).parent / "manifests" / "before_contracts.json").read_text())
"""The manifest of the sample host as it was before the built-ins had contracts."""

READ = re.compile(
    r"parameters\.[a-z_]+\((?:context\.input|given|exchange\.parameters), *\"([A-Za-z_]+)\""
    r"|(?:context\.input|exchange\.parameters|\bgiven)(?:\.get\(|\[)\"([A-Za-z_]+)\""
    r"|\"([A-Za-z_]+)\" (?:not )?in (?:context\.input|given)\b"
)
"""How handlers read parameters."""

INNER = {"kinds", "type", "properties", "items", "call", "formulas", "function", "most"}
"""Members of parameters that are objects themselves, and of what a computation is given, which the same words read."""


def projections() -> list[Mapping[str, Any]]:
    on = FloorHost()
    own = [binding for binding in on.core.services.registry.all_bindings() if binding.tier == "A"]
    return [project_binding(binding, CATALOG) for binding in own]


def manifest(endpoints: list[Any]) -> dict[str, Any]:
    return {**OLD, "endpoints": endpoints}


def found(document: Mapping[str, Any]) -> set[tuple[str, str]]:
    """Faults in endpoints: whose, and at which member."""
    faults = set()
    for finding in examine(document, CATALOG):
        if finding.fault and finding.pointer.startswith("/endpoints/"):
            _, _, index, *rest = finding.pointer.split("/")
            endpoint = document["endpoints"][int(index)]
            faults.add((f"{endpoint['method']} {endpoint['path']}", "/".join(rest)))
    return faults


def test_the_built_ins_are_sound_endpoints() -> None:
    """API-160: by the very rules that any server's endpoints are examined with."""
    assert found(manifest(list(projections()))) == set()


def test_the_manifest_as_it_was_is_refused() -> None:
    """API-160, the control: every rule that the old manifest broke is told where it was broken."""
    faults = found(OLD)
    assert ("REVOKE /", "semantic/impact") in faults
    assert ("REVOKE /", "semantic/is_idempotent") in faults
    assert ("DESCRIBE /agents/{name}", "input_schema/properties/name") in faults
    assert ("QUERY /", "semantic/outcome") in faults
    for name in ("DISCOVER /methods", "INSPECT /", "EXECUTE /mcp/{server}"):
        assert {(name, "input_schema/additionalProperties"), (name, "handler/type")} <= faults


@each_row("pair", reserved.RESERVED, ids=" ".join)
def test_every_built_in_has_a_contract_of_its_own(pair: tuple[str, str]) -> None:
    """API-160: closed, with the path's parameters, and with an outcome that no other method has."""
    contract = contract_of(*pair)
    schema = contract.input_schema(pair[1])
    assert schema["additionalProperties"] is False
    assert set(re.findall(r"\{(\w+)\}", pair[1])) <= set(schema["required"]) <= set(schema["properties"])
    others = {each.outcome for other, each in CONTRACTS.items() if other[0] != pair[0]}
    assert contract.outcome not in others
    assert pair in CONTRACTS or pair[0] == "EXECUTE", "carried payloads share one"


def test_no_contract_is_of_nothing() -> None:
    """Every contract is of a built-in that there can be; lists of workflows are where such methods are on."""
    listed = {("QUERY", monitor_methods.PATH), ("QUERY", workflow_queries.PATH)}
    assert set(CONTRACTS) <= {*reserved.RESERVED, *reserved.OPEN, *listed}


def test_what_handlers_read_is_declared() -> None:
    """API-160, against drift: a parameter that a handler reads by name stands in a contract."""
    declared = {name for contract in CONTRACTS.values() for name in contract.takes} | {"proposal_id", "name", "server"}
    declared |= {name for row in STANDARD.values() for name in row.parameters}
    home = Path(agtphost.__file__).parent
    files = [*(home / "methods").rglob("*.py"), *(home / "negotiation").glob("*.py")]
    read = {"".join(match): file.name for file in files for match in READ.findall(file.read_text(encoding="utf-8"))}
    assert len(read) > 50, "the pattern finds them"
    assert {name: file for name, file in read.items() if name not in declared | INNER} == {}


def test_repeating_is_said_as_the_drafts_table_has_it() -> None:
    """AGTP-251: the table of core v08 section 7.2.20, method by method; REVOKE is final, reading is harmless."""
    for shown in projections():
        entry = CATALOG.entry(shown["method"])
        if entry is not None and entry.floor is not None and isinstance(entry.floor["idempotent"], bool):
            assert shown["semantic"]["is_idempotent"] is entry.floor["idempotent"], shown["method"]
    impacts = {f"{shown['method']} {shown['path']}": shown["semantic"]["impact"] for shown in projections()}
    assert impacts["REVOKE /"] == impacts["NOTIFY /"] == impacts["EXECUTE /"] == "irreversible"
    assert impacts["DEACTIVATE /"] == "reversible"
    assert impacts["INSPECT /"] == impacts["QUERY /"] == "informational"


def test_the_formats_of_an_identity_document_are_declared() -> None:
    """What generated clients may send as ``format`` is what the host answers; another text is 422."""
    host = FloorHost()
    for method in ("FETCH", "DESCRIBE"):
        declared = contract_of(method, "/agents/{name}").takes["format"]["enum"]
        assert declared == list(FORMATS)
        for format_ in (*declared, "", "xml"):
            status = host.ask(method, "/agents/desk", {"format": format_}).status
            assert (status == 200) is (format_ in declared), (method, format_, status)
    for path in ("/agents", "/agents/desk", "/agents/desk/status"):
        assert host.ask("DESCRIBE", path, {"format": {}}).status == 422, "a format is a text, as all of them declare"
