"""A host whose configuration changes while it runs, and an endpoint that says by which one it answers."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import Any

from tests import forking
from tests.system.hosting import Host, sample, until

DECLARED = """
method = "FETCH"
path = "/generation"
description = "Says which configuration answers: {number}."
namespace = "samples"
errors = []
[handler]
type = "registered_function"
function = "handlers.generation.told"
[semantic]
intent = "Know the configuration."
actor = "agent"
outcome = "The caller knows it."
capability = "retrieval"
confidence = 1.0
impact = "informational"
is_idempotent = true
[input_schema]
type = "object"
additionalProperties = false
[output_schema]
type = "object"
required = ["number"]
[output_schema.properties]
number = {{ type = "integer", enum = [{number}] }}
"""

HANDLER = '''
from handlers import numbering

def told(context):
    """The number of this module, and of the one that it imports."""
    return {"number": NUMBER if NUMBER == numbering.NUMBER else -1}

NUMBER = %d
'''

WAITING = '''
from pathlib import Path
from twisted.internet import reactor
from twisted.internet.task import deferLater

async def wait(context):
    """Until there is a file."""
    Path(context.input["begun"]).touch()
    while not Path(context.input["file"]).exists():
        await deferLater(reactor, 0.01)
    return {"done": True}
'''

WAIT = (
    (
        DECLARED.replace("/generation", "/wait")
        .replace("generation.told", "waiting.wait")
        .replace("additionalProperties = false", "additionalProperties = false\n[input_schema.properties]\n%s")
        .replace('required = ["number"]', "additionalProperties = true")
        .partition("[output_schema.properties]")[0]
    )
    % 'begun = {{ type = "string", maxLength = 500 }}\nfile = {{ type = "string", maxLength = 500 }}'
)


def generation(folder: Path, number: int) -> None:
    """The endpoint of a number: its declaration, and two modules."""
    (folder / "handlers" / "numbering.py").write_text(f"NUMBER = {number}\n")
    (folder / "handlers" / "generation.py").write_text(HANDLER % number)
    (folder / "endpoints" / "generation.toml").write_text(DECLARED.format(number=number))


def changing(directory: Path, **options: Any) -> Path:
    """Its ``host.toml``."""
    edit = [('python_path = ["."]', 'python_path = ["."]\nreload = true'), *options.pop("edit", ())]
    config = sample(directory, edit=edit, **options)
    generation(config.parent, 1)
    (config.parent / "handlers" / "waiting.py").write_text(WAITING)
    (config.parent / "endpoints" / "wait.toml").write_text(WAIT.format(number=0))
    return config


def server(name: str, *more: str) -> str:
    """The entry of a real MCP server."""
    command = json.dumps([*forking.mcp_server("mcp/files_server.py"), "mcp/files"])
    return "\n".join(("", "[[mcp.server]]", f'name = "{name}"', f"command = {command}", *more, ""))


def reload(host: Host, *words: str) -> dict[str, Any]:
    """``agtp reload``, which must not be refused."""
    told: dict[str, Any] = host.agtp_json("reload", *words)
    return told


def refused(host: Host, *, by_signal: bool = False) -> list[dict[str, Any]]:
    """
    The problems of one that must be.

    :param by_signal: the command would find them by itself, where it looks for the host.
    """
    if by_signal:
        seen = len(host.lines)
        host.process.send_signal(signal.SIGHUP)
        until(lambda: any("; failed: " in line for line in host.lines[seen:]))
        (line,) = (line for line in host.lines[seen:] if "SIGHUP: nothing changed: " in line)
        found = re.findall(r"(/[^:; ]+):(\d+): ([^;]+)", line)
        return [{"file": file, "line": int(number), "message": message} for file, number, message in found]
    done = host.agtp("reload", "--json")
    assert done.returncode == 1, done.stdout + done.stderr
    problems: list[dict[str, Any]] = json.loads(done.stdout)["problems"]
    return problems


def upstreams(host: Host) -> dict[str, dict[str, Any]]:
    """Every server behind it, by name, as operators see it."""
    listed = host.agtp_json("upstreams", "ls", "--as", "auditor")
    found = listed if isinstance(listed, list) else listed["upstreams"]
    return {each["name"]: each for each in found}
