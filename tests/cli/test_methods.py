"""``agtp methods``: the drafts' tables, compared with the tables as the drafts print them, and a live host's list."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.cli.conftest import Run
from tests.cli.server import AgtpServer, Answer

FLOOR = """\
QUERY Cognitive Acquire No Yes 404,422
DISCOVER Cognitive Acquire No Yes 422
DESCRIBE Cognitive Acquire No Yes 404,422
INSPECT Cognitive Acquire No Yes 400,401,403,404,422
SUMMARIZE Cognitive Compute No Yes 400,422
PLAN Cognitive Compute No Yes 422,503
PROPOSE Cognitive Orchestrate No No 261,262,263,400,459,460,463
EXECUTE Mechanics Transact Yes per_action 262,403,422,455,456,503
DELEGATE Mechanics Orchestrate Yes No 262,403,551
ESCALATE Mechanics Orchestrate Yes Yes 404
CONFIRM Mechanics Transact Yes Yes 404,400
SUSPEND Mechanics Orchestrate Yes No 404,408
NOTIFY Mechanics Communicate No No 400,404
ACTIVATE Lifecycle Lifecycle Yes No 400,401,403,404,422
DEACTIVATE Lifecycle Lifecycle Yes No 400,401,403,404,422
REINSTATE Lifecycle Lifecycle Yes No 400,401,403,404,422
REVOKE Lifecycle Lifecycle Yes No 400,401,403,404,422
DEPRECATE Lifecycle Lifecycle Yes No 400,401,403,404,422
"""
"""Core v08 section 7.2.20, with the categories of core v08 section 7.4."""

STANDARD = """\
FETCH Acquire No Yes|SEARCH Acquire No Yes|SCAN Acquire No Yes|PULL Acquire Yes No|FIND Acquire No Yes
ANALYZE Acquire No Yes|EXTRACT Compute No Yes|FILTER Compute No Yes|VALIDATE Compute No Yes
TRANSFORM Compute No Yes|TRANSLATE Compute No Yes|NORMALIZE Compute No Yes|PREDICT Compute No Yes
RANK Compute No Yes|CLASSIFY Compute No Yes|CALCULATE Compute No Yes|EVALUATE Compute No Yes
GENERATE Compute No Yes|RECOMMEND Compute No Yes|QUOTE Transact No Yes|REGISTER Transact Yes No
SUBMIT Transact Yes No|AUTHORIZE Transact Yes No|CANCEL Transact Yes No|TRANSFER Transact Yes No
PURCHASE Transact Yes No|SIGN Transact Yes No|LOG Transact Yes No|PUBLISH Transact Yes No
MERGE Integrate Yes No|LINK Integrate Yes No|SYNC Integrate Yes No|IMPORT Integrate Yes No
MAP Integrate No Yes|CONNECT Integrate Yes No|EMBED Integrate Yes No|ALERT Communicate No No
BROADCAST Communicate No No|REPLY Communicate No No|SEND Communicate No No|REPORT Communicate Yes No
CHAIN Orchestrate Yes No|BATCH Orchestrate Yes conditional|MONITOR Orchestrate Yes No|ROUTE Orchestrate Yes No
RETRY Orchestrate Yes conditional|PAUSE Orchestrate Yes No|RESUME Orchestrate Yes No|RUN Orchestrate Yes No
CHECK Orchestrate No Yes
"""
"""Standard methods v01 Table 51."""

FLAGS: dict[str, object] = {"Yes": True, "No": False}


def test_the_floor_is_the_summary_table(run: Run) -> None:
    """AGTP-251, AGTP-257: eighteen rows in its order, with group, category, flags and primary error codes."""
    rows = json.loads(run("methods", "--json").stdout)["methods"]
    expected = []
    for line in FLOOR.splitlines():
        method, group, category, changes, idempotent, errors = line.split()
        codes = [int(code) for code in errors.split(",")]
        flag = FLAGS.get(idempotent, idempotent)
        expected.append((method, group.lower(), category.lower(), FLAGS[changes], flag, codes))
    assert len(rows) == 18
    listed = {row["method"]: row for row in rows}
    for method, group, category, changes, idempotent, codes in expected:
        row = listed[method]
        assert (row["group"], row["category"]) == (group, category)
        assert (row["state_modifying"], row["idempotent"]) == (changes, idempotent)
        assert row["errors"] == codes
        assert (row["tier"], bool(row["categories"])) == (1, True)


def test_the_standard_methods_are_those_of_table_51(run: Run) -> None:
    """METH-052, METH-066: fifty rows with the draft's category and both flags, beside the catalog's categories."""
    rows = json.loads(run("methods", "--tier", "2", "--json").stdout)["methods"]
    assert [row["method"] for row in rows] == sorted(row["method"] for row in rows)
    found = {
        (row["method"], row["category"], row["state_modifying"], row["idempotent"])
        for row in rows
        if row["categories"] and row["tier"] == 2
    }
    expected = set()
    for line in STANDARD.replace("|", "\n").splitlines():
        method, category, changes, idempotent = line.split()
        expected.add((method, category.lower(), FLAGS[changes], FLAGS.get(idempotent, idempotent)))
    assert (len(rows), found) == (50, expected)


@pytest.mark.parametrize(("tier", "rows"), [("1", 18), ("2", 50), ("all", 68)])
def test_the_table_for_people_has_a_line_each(run: Run, tier: str, rows: int) -> None:
    """And a heading."""
    assert len(run("methods", "--tier", tier).stdout.splitlines()) == rows + 1


def test_a_live_host_is_asked_for_its_list(run: Run, server: AgtpServer) -> None:
    """``agtp methods URI`` is DISCOVER /methods; - is the configured host."""
    entry = {"method": "BOOK", "path": "/room", "tier": "B", "description": "Books a room."}
    server.answers["DISCOVER", "/methods"] = Answer([entry])
    assert json.loads(run("methods", "-", "--json").stdout)["methods"] == [entry]
    assert "Books a room." in run("methods", "-").stdout
    assert run("methods", "-", "--tier", "1").exit_code == 2
    server.answers["DISCOVER", "/methods"] = Answer({"result": "nothing"})
    assert run("methods", "-").exit_code == 3


OTHER_FORMS: dict[str, Any] = {
    "wrapped": {"methods": [{"method": "QUERY", "path": "/catalog", "tier": "B"}], "count": 1},
    "named": {"methods": [{"name": "QUERY", "path": "/catalog", "tier": "B"}]},
    "by-name": {"methods": {"QUERY": {"path": "/catalog", "tier": "B"}}},
}


@pytest.mark.parametrize("form", OTHER_FORMS)
def test_lists_of_other_servers_are_read(run: Run, server: AgtpServer, form: str) -> None:
    """A list inside an object, and members by other names, are shown as one of our own."""
    server.answers["DISCOVER", "/methods"] = Answer(OTHER_FORMS[form])
    shown = json.loads(run("methods", "-", "--json").stdout)["methods"]
    assert shown == [{"method": "QUERY", "path": "/catalog", "tier": "B"}]


def test_the_list_of_the_reference_server_is_read(run: Run, server: AgtpServer) -> None:
    """Its answer has the protocol's own methods and the operator's in two lists, each entry with a ``name``."""
    entry = {"category": "cognitive", "semantic_class": "action-intent", "idempotent": True, "error_codes": [400, 422]}
    server.answers["DISCOVER", "/methods"] = Answer(
        {
            "method": "DISCOVER",
            "agent_id": "a" * 64,
            "target": "methods",
            "embedded": [{"name": "PLAN", **entry}, {"name": "QUERY", "description": "Ask.", **entry}],
            "custom": [{"name": "RECONCILE", "namespace": "acme", **entry}],
            "summary": {"embedded_count": 2, "custom_count": 1, "total": 3, "wildcards": False},
            "issued_at": "2026-06-01T00:00:00Z",
        }
    )
    shown = json.loads(run("methods", "-", "--json").stdout)["methods"]
    assert [each["method"] for each in shown] == ["PLAN", "QUERY", "RECONCILE"]
    assert (shown[2]["namespace"], shown[1]["description"]) == ("acme", "Ask.")
    lines = run("methods", "-").stdout.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["PLAN", "QUERY", "RECONCILE"]


def test_a_list_of_names_alone_is_read(run: Run, server: AgtpServer) -> None:
    """Servers may name their methods and say nothing else of them."""
    server.answers["DISCOVER", "/methods"] = Answer({"methods": ["QUERY", "PLAN"]})
    shown = json.loads(run("methods", "-", "--json").stdout)["methods"]
    assert shown == [{"method": "QUERY"}, {"method": "PLAN"}]
    server.answers["DISCOVER", "/methods"] = Answer({"methods": [1]})
    assert run("methods", "-").exit_code == 3
