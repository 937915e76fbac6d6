"""
The sample MCP server ``files``: looks after one folder of text files, on the official MCP SDK.

Run it as ``python files_server.py FOLDER``; it speaks MCP on its standard
input and output. Every path is relative to FOLDER and stays inside it,
whatever ``..``, absolute paths or symbolic links say.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

MAX_READ = 256 * 1024
"""Octets that read_file returns at most, and that write_note takes."""

MAX_MATCHES = 100
"""Lines that search_text returns at most."""

READS = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
APPENDS = ToolAnnotations(read_only_hint=False, destructive_hint=False, idempotent_hint=False, open_world_hint=False)
DELETES = ToolAnnotations(read_only_hint=False, destructive_hint=True, idempotent_hint=False, open_world_hint=False)


@contextmanager
def explain(name: str) -> Iterator[None]:
    """Tell the caller what the file system refuses: a name that is too long or has a NUL, a file that is no text."""
    try:
        yield
    except FileExistsError:
        raise ToolError(f"{name!r} exists already") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ToolError(f"{name!r} cannot be used: {reason}") from None


class Folder:
    """The folder that every tool is confined to."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve(strict=True)

    def inside(self, path: str) -> Path:
        """The file that ``path`` names; refuses what lies outside of the folder once links are followed."""
        with explain(path):
            place = (self.root / path).resolve()
        if not place.is_relative_to(self.root):
            raise ToolError(f"{path!r} is outside of the folder")
        return place

    def existing(self, path: str) -> Path:
        """The same, of a file that exists."""
        place = self.inside(path)
        with explain(path):
            found = place.is_file()
        if not found:
            raise ToolError(f"there is no file {path!r}")
        return place

    def names(self) -> list[str]:
        """Every file in the folder, sorted."""
        found = []
        for place, folders, files in os.walk(self.root):
            folders.sort()
            found += [str((Path(place) / name).relative_to(self.root)) for name in files]
        return sorted(found)

    def lines(self, name: str) -> list[str]:
        """The lines of a file; none where it is no text, too large, or a link out of the folder."""
        try:
            place = self.existing(name)
            if place.stat().st_size > MAX_READ:
                return []
            return place.read_text(encoding="utf-8").splitlines()
        except (OSError, ValueError, ToolError):
            return []


def make_server(folder: Folder) -> MCPServer:
    """The server of one folder."""
    server = MCPServer("files", version="1.0.0", instructions="Reads, searches and annotates one folder of text files.")

    @server.tool(title="File names", annotations=READS)
    def list_files() -> list[str]:
        """List the names of all files in the folder."""
        return folder.names()

    @server.tool(title="File content", annotations=READS)
    def read_file(path: str) -> str:
        """Read one text file of at most 256 KiB."""
        place = folder.existing(path)
        if place.stat().st_size > MAX_READ:
            raise ToolError(f"{path!r} is larger than {MAX_READ} octets")
        with explain(path):
            return place.read_text(encoding="utf-8")

    @server.tool(title="Matching lines", annotations=READS)
    def search_text(query: str, limit: int = 20) -> list[dict[str, str | int]]:
        """Find the lines that contain a text, whatever its case, in all files."""
        wanted = query.casefold()
        matches: list[dict[str, str | int]] = [
            {"path": name, "line": number, "text": line}
            for name in folder.names()
            for number, line in enumerate(folder.lines(name), start=1)
            if wanted in line.casefold()
        ]
        return matches[: max(0, min(limit, MAX_MATCHES))]

    @server.tool(title="Note written", annotations=APPENDS)
    def write_note(name: str, text: str) -> str:
        """Write a new note into notes/NAME.txt; never replaces one."""
        with explain(name):
            content = text.encode()
        if len(content) > MAX_READ:
            raise ToolError(f"a note has at most {MAX_READ} octets")
        if not name or name != Path(name).name or name.startswith("."):
            raise ToolError(f"{name!r} is not the name of a note")
        place = folder.inside(f"notes/{name}.txt")
        place.parent.mkdir(exist_ok=True)
        with explain(name), place.open("xb") as note:
            note.write(content)
        return str(place.relative_to(folder.root))

    @server.tool(title="Note deleted", annotations=DELETES)
    def delete_note(name: str) -> str:
        """Delete the note notes/NAME.txt."""
        if name != Path(name).name:
            raise ToolError(f"{name!r} is not the name of a note")
        place = folder.existing(f"notes/{name}.txt")
        place.unlink()
        return str(place.relative_to(folder.root))

    @server.resource("folder:///", title="Folder", mime_type="text/plain")
    def contents() -> str:
        """The names of all files in the folder, one a line."""
        return "\n".join(folder.names())

    @server.resource("folder:///{name}", title="File", mime_type="text/plain")
    def content(name: str) -> str:
        """One text file at the top of the folder."""
        return read_file(name)

    @server.prompt(title="Summary of a file")
    def summarize_file(path: str) -> str:
        """Ask for a summary of one file."""
        return f"Read the file {path} with the tool read_file, and summarize it in three sentences."

    return server


def main(arguments: list[str]) -> int:
    """Serve the folder named by the only argument."""
    if len(arguments) != 1:
        print("usage: files_server.py FOLDER", file=sys.stderr)
        return 2
    try:
        folder = Folder(Path(arguments[0]))
    except OSError as error:
        print(f"files_server.py: {error}", file=sys.stderr)
        return 1
    make_server(folder).run("stdio")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
