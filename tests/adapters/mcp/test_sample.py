"""The sample server of etc/: works, and stays in its folder."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
import pytest_twisted

from tests import forking
from tests.adapters.mcp.hosting import hosted

SAMPLE = Path(__file__).parents[3] / "etc" / "mcp"


def text_of(result: dict[str, Any]) -> str:
    return "\n".join(item["text"] for item in result["content"])


@pytest_twisted.ensureDeferred
async def test_the_sample_server_reads_searches_and_takes_notes(tmp_path: Path) -> None:
    """Every tool of the sample does what it says, on a copy of the sample folder."""
    folder = tmp_path / "files"
    shutil.copytree(SAMPLE / "files", folder)
    async with hosted(tuple(forking.mcp_server(SAMPLE / "files_server.py", folder))) as server:
        assert list(server.catalogue.bindings) == [
            "delete_note",
            "list_files",
            "read_file",
            "search_text",
            "write_note",
        ]
        call = server.call_tool
        assert "welcome.txt" in text_of(await call("list_files", {}, {}, 10))
        assert "Welcome" in text_of(await call("read_file", {"path": "welcome.txt"}, {}, 10))
        found = (await call("search_text", {"query": "COMPASS"}, {}, 10))["structuredContent"]["result"]
        assert {match["path"] for match in found} == {"inventory.csv", "reports/october.txt"}
        assert text_of(await call("write_note", {"name": "n", "text": "remember"}, {}, 10)) == "notes/n.txt"
        assert (folder / "notes" / "n.txt").read_text() == "remember"
        assert (await call("write_note", {"name": "n", "text": "again"}, {}, 10))["isError"] is True
        assert text_of(await call("delete_note", {"name": "n"}, {}, 10)) == "notes/n.txt"
        impacts = {name: b.details["semantic"]["impact"] for name, b in server.catalogue.bindings.items()}
        assert impacts == {
            "delete_note": "irreversible", "list_files": "informational", "read_file": "informational",
            "search_text": "informational", "write_note": "reversible",
        }  # fmt: skip


@pytest.mark.parametrize(
    "path", ["../secret.txt", "/etc/passwd", "link.txt", "folder/secret.txt", "reports/../../secret.txt"]
)
@pytest_twisted.ensureDeferred
async def test_the_sample_server_stays_in_its_folder(path: str, tmp_path: Path) -> None:
    """
    Parents, absolute paths, and links to files and folders outside are refused; nothing of them is found.
    """
    folder = tmp_path / "files"
    shutil.copytree(SAMPLE / "files", folder)
    (tmp_path / "secret.txt").write_text("canary")
    os.symlink(tmp_path / "secret.txt", folder / "link.txt")
    os.symlink(tmp_path, folder / "folder")
    async with hosted(tuple(forking.mcp_server(SAMPLE / "files_server.py", folder))) as server:
        result = await server.call_tool("read_file", {"path": path}, {}, 10)
        assert result["isError"] is True
        assert "outside" in text_of(result)
        found = await server.call_tool("search_text", {"query": "canary"}, {}, 10)
        assert found["structuredContent"]["result"] == []
        for name in ("../x", "a/b", "", ".hidden"):
            assert (await server.call_tool("write_note", {"name": name, "text": ""}, {}, 10))["isError"] is True


@pytest_twisted.ensureDeferred
async def test_the_sample_server_says_why_it_refuses_a_name(tmp_path: Path) -> None:
    """What the file system refuses is an answer for the caller, and no failure of the server."""
    folder = tmp_path / "files"
    shutil.copytree(SAMPLE / "files", folder)
    (folder / "picture").write_bytes(b"\xff\xfe\x00")
    async with hosted(tuple(forking.mcp_server(SAMPLE / "files_server.py", folder))) as server:
        for tool, given, reason in (
            ("write_note", {"name": "n" * 300, "text": ""}, "File name too long"),
            ("write_note", {"name": "a\0b", "text": ""}, "null byte"),
            ("delete_note", {"name": "n" * 300}, "File name too long"),
            ("read_file", {"path": "a\0b"}, "null byte"),
            ("read_file", {"path": "n" * 300}, "File name too long"),
            ("read_file", {"path": "picture"}, "can't decode"),
        ):
            result = await server.call_tool(tool, given, {}, 10)
            assert result["isError"] is True and reason in text_of(result), (tool, result)
        await server.call_tool("write_note", {"name": "n", "text": ""}, {}, 10)
        result = await server.call_tool("write_note", {"name": "n", "text": ""}, {}, 10)
        assert "'n' exists already" in text_of(result)
