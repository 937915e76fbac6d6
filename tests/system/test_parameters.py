"""Every built-in of a real host against the schema in its own manifest."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from agtphost.client.sync import Client
from tests.system.hosting import running, sample

PATHS = {"name": "librarian", "server": "files", "proposal_id": "prop-1", "task_id": "task-1"}


def test_built_ins_hold_to_the_schemas_that_they_publish(tmp_path: Path) -> None:
    """An unknown parameter is 422 by name; none that the manifest declares is."""
    with running(sample(tmp_path)) as host:
        demo = host.state / "agents" / "demo"
        with Client(trust=host.state / "ca.pem", cert=demo / "agent.pem", key=demo / "agent.key") as client:
            manifest = client.call(host.uri, "DISCOVER", "/", anonymous=True).json()
            shown = [each for each in manifest["endpoints"] if each["tier"] == "A"]
            assert len(shown) > 30
            for each in shown:
                method = each["method"]
                path = re.sub(r"\{(\w+)\}", lambda found: PATHS[found[1]], each["path"])

                def ask(given: dict[str, Any], method: str = method, path: str = path) -> tuple[int, dict[str, Any]]:
                    reply = client.call(host.uri, method, path, given)
                    return reply.status, reply.json()

                status, said = ask({"reasn": "x"})
                assert (status, said["reason"], said["parameter"]) == (422, "unknown-parameter", "reasn"), each["path"]
                assert each["input_schema"]["additionalProperties"] is False
                own = dict.fromkeys(each["input_schema"]["properties"], "x")
                assert ask(own)[1].get("reason") != "unknown-parameter", (method, path)
