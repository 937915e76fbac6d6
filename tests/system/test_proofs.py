"""The log of a real host, proven from outside; and a host whose database was set back does not start."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.system.hosting import running, sample
from tests.system.test_start_errors import refuses


def test_a_call_is_proven_offline_and_a_rollback_is_noticed(tmp_path: Path) -> None:
    """A record's proof is fetched, kept and believed; a checkpoint is continued; a restored copy is refused."""
    config = sample(tmp_path)
    proof, monday, wrong = (str(tmp_path / name) for name in ("proof.json", "monday.txt", "wrong.json"))
    with running(config) as host:
        key = str(host.state / "signing.pub")
        audit_id = host.agtp_json("call", host.uri, "DISCOVER", "/methods")["audit_id"]
        shown = host.agtp_json("audit", "prove", audit_id, "-o", proof)
        assert shown["audit_id"] == audit_id and shown["index"] < shown["size"]
        assert host.agtp("audit", "checkpoint", "-o", monday).returncode == 0
        host.agtp_json("call", host.uri, "DISCOVER", "/methods")
        assert host.agtp_json("audit", "checkpoint", "--continues", monday)["size"] >= shown["size"]
        assert host.agtp("audit", "prove", "--file", proof, "--signing-key", key).returncode == 0
        # A proof of one record does not prove another, and a changed past is not continued.
        Path(wrong).write_text(json.dumps({**json.loads(Path(proof).read_text()), "index": shown["index"] ^ 1}))
        assert host.agtp("audit", "prove", "--file", wrong, "--signing-key", key).returncode == 4
        Path(wrong).write_text(Path(monday).read_text().replace("\n", "\n1", 1))
        assert host.agtp("audit", "checkpoint", "--continues", wrong).returncode == 4
    state = config.parent / "state"
    shutil.copy(state / "agtphost.sqlite3", tmp_path / "backup")
    with running(config) as host:
        host.agtp_json("call", host.uri, "DISCOVER", "/methods")
    shutil.copy(tmp_path / "backup", state / "agtphost.sqlite3")
    refuses(config, [r"older copy was restored", r"checkpoint\.txt"])
