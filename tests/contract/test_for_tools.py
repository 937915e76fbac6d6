"""What an endpoint says of its tool among those of MCP: declared, and kept wherever the endpoint goes (AGIS v01)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import agtphost
from agtphost.client.mcp.endpoints import tools_of
from agtphost.contract.declaration import Rules
from agtphost.contract.endpoint import Endpoint
from agtphost.contract.endpoint_loading import load_endpoints, read_endpoints
from agtphost.contract.handler_hints import Hints
from agtphost.contract.manifest_validation import examine
from agtphost.contract.openapi.export import export_openapi
from agtphost.contract.openapi.importer import import_openapi
from agtphost.contract.tool_names import hint_faults, is_tool_name
from agtphost.handlers.endpoint import hints_of
from agtphost.vocabulary.catalog import Catalog
from agtphost.vocabulary.tomltext import write_toml
from tests.contract.declarations import SOUND, changed
from tests.rows import each_row

RULES = Rules(catalog=Catalog.load())
HINTS = {"nights": ["for N nights", "N Nächte"], "room_id": ["the room's number"]}
BLOCK = f'mcp_tool_name = "make_reservation"\nparameter_hints = {{ nights = {json.dumps(HINTS["nights"])}, ' + (
    f"room_id = {json.dumps(HINTS['room_id'])} }}\n"
)


def declared(more: str) -> str:
    """The sound declaration with more in its semantic block."""
    return SOUND.replace("[semantic]\n", f"[semantic]\n{more}")


def one(text: str) -> Endpoint:
    """The endpoint of a declaration in which nothing is wrong."""
    (found,), problems = read_endpoints(text, "rooms.toml", RULES)
    assert not problems, problems
    return found


def test_both_reach_the_manifest_and_the_tool() -> None:
    """AGIS-025, AGIS-068, AGIS-069: what the file says is in the manifest, and names and describes the tool."""
    entry = one(declared(BLOCK)).projection()
    assert entry["semantic"]["mcp_tool_name"] == "make_reservation"
    assert entry["semantic"]["parameter_hints"] == HINTS
    (tool,) = tools_of([entry])
    assert tool.name == "make_reservation"
    said = "nights = ['for N nights', 'N Nächte']; room_id = ['the room\\'s number']"
    assert tool.definition["description"] == f"Book a room. Hints: {said}"


def test_what_is_not_said_is_not_there() -> None:
    """A block without the two is as it was, and its tool is called by method and path."""
    entry = one(SOUND).projection()
    assert not {"mcp_tool_name", "parameter_hints"} & entry["semantic"].keys()
    assert tools_of([entry])[0].name == "book_rooms"


def test_openapi_keeps_them() -> None:
    """AGIS-025: exported, imported and loaded again, an endpoint says of its tool what it said."""
    entry = one(declared(BLOCK)).projection()
    exported = export_openapi(manifest(entry), link="agtp://h.example/", server_url="https://h.example")
    (imported,) = import_openapi(json.loads(json.dumps(exported.document)), RULES.catalog).endpoints
    found = one(write_toml(imported.table))
    assert found.semantic.mcp_tool_name == "make_reservation"
    assert {name: list(phrases) for name, phrases in found.semantic.parameter_hints.items()} == HINTS


def test_openapi_is_believed_as_far_as_it_is_sound() -> None:
    """A foreign document's names and hints that are none are lost, and said to be."""
    entry = one(declared(BLOCK)).projection()
    exported = export_openapi(manifest(entry), link="agtp://h.example/", server_url="https://h.example")
    document: Any = json.loads(json.dumps(exported.document))
    (item,) = document["paths"].values()
    (operation,) = item.values()
    operation["x-agtp"]["semantic"] |= {"mcp_tool_name": "Make It", "parameter_hints": {"nights": "two"}}
    (imported,) = import_openapi(document, RULES.catalog).endpoints
    assert not {"mcp_tool_name", "parameter_hints"} & imported.table["semantic"].keys()
    assert {loss for loss in imported.losses if "x-agtp" in loss} == {
        "x-agtp: an invalid mcp_tool_name",
        "x-agtp: invalid parameter_hints",
    }


def manifest(entry: dict[str, Any]) -> dict[str, Any]:
    """As much of a manifest as the export reads."""
    about = {"agtp_api_version": "1.0", "catalog_version": "1", "document_version": "1"}
    return {**about, "server": {"server_id": "h.example", "issued": "", "updated": ""}, "endpoints": [entry]}


@each_row(
    ("more", "said"),
    [
        ('mcp_tool_name = "Make"\n', "semantic.mcp_tool_name must be lower-case words"),
        ('mcp_tool_name = "make__it"\n', "semantic.mcp_tool_name must be lower-case words"),
        ("mcp_tool_name = 3\n", "semantic.mcp_tool_name must be lower-case words"),
        (f'mcp_tool_name = "{"m" * 65}"\n', "semantic.mcp_tool_name must be lower-case words"),
        ('parameter_hints = ["x"]\n', "semantic.parameter_hints must be a table"),
        ('parameter_hints = { nights = "two" }\n', "semantic.parameter_hints.nights must be a list of 1 to 32"),
        ("parameter_hints = { nights = [] }\n", "semantic.parameter_hints.nights must be a list of 1 to 32"),
        ('parameter_hints = { nights = ["a\\nb"] }\n', "semantic.parameter_hints.nights must be a list of 1 to 32"),
        ('parameter_hints = { beds = ["two"] }\n', "semantic.parameter_hints.beds is not a parameter of input_schema"),
    ],
)
def test_what_is_wrong_is_told_with_its_line(more: str, said: str) -> None:
    """AGIS-027: each fault names the member, on the line where it stands."""
    found, problems = read_endpoints(declared(more), "rooms.toml", RULES)
    (problem,) = problems
    assert not found and said in problem.message
    assert problem.line == declared(more).splitlines().index(more.strip()) + 1


def test_a_tool_s_name_is_declared_once(tmp_path: Path) -> None:
    """AGIS-027: unique in the service; the second is refused, and told where the first is."""
    (tmp_path / "a.toml").write_text(declared(BLOCK))
    (tmp_path / "b.toml").write_text(declared(BLOCK).replace('"/rooms/{room_id}"', '"/suites/{room_id}"'))
    endpoints, (problem,) = load_endpoints(tmp_path, RULES)
    assert [endpoint.path for endpoint in endpoints] == ["/rooms/{room_id}"]
    assert problem.message == "BOOK /suites/{room_id}: the mcp_tool_name make_reservation is declared twice"
    assert problem.hint.endswith("a.toml:1")


def test_a_foreign_manifest_is_not_believed() -> None:
    """What a host says of a tool's name and hints counts where it may be one, and is found by validation elsewhere."""
    entry = one(SOUND).projection()
    entry["semantic"] |= {"mcp_tool_name": "files__read", "parameter_hints": {"nights": ["a\x1bb"]}}
    (tool,) = tools_of([entry])
    assert (tool.name, tool.definition["description"]) == ("book_rooms", "Book a room.")
    rules = {finding.rule for finding in examine(manifest(entry))}
    assert {"semantic-block.mcp-tool-name", "semantic-block.parameter-hints"} <= rules


def test_a_function_says_them() -> None:
    """``@agtphost.endpoint`` declares both; what the file says counts."""

    @agtphost.endpoint(mcp_tool_name="find_order", parameter_hints={"id": ["the number on the invoice"]})
    def find(id: str) -> dict[str, str]:
        """Finds an order."""
        return {"id": id}

    hints = hints_of("handlers.find", lambda dotted: find)
    assert isinstance(hints, Hints)
    rules = Rules(catalog=RULES.catalog, hints=lambda dotted: hints)
    text = changed("path", 'path = "/rooms"')
    bare = text[: text.index("[input_schema]")] + text[text.index("[deprecated]") :]
    (found,), problems = read_endpoints(bare, "rooms.toml", rules)
    assert not problems and found.semantic.mcp_tool_name == "find_order"
    assert found.semantic.parameter_hints == {"id": ("the number on the invoice",)}
    (found,), _ = read_endpoints(bare.replace("[semantic]\n", '[semantic]\nmcp_tool_name = "mine"\n'), "", rules)
    assert found.semantic.mcp_tool_name == "mine"


def test_what_may_be_declared() -> None:
    """Names and hints at their bounds."""
    assert is_tool_name("m" * 64) and is_tool_name("a_1") and not is_tool_name("_a") and not is_tool_name("")
    assert not list(hint_faults({"a": ["x" * 200] * 32}))
    assert list(hint_faults({"a": ["x" * 201]})) and list(hint_faults({"a": ["x"] * 33}))
