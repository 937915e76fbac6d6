"""QUOTE of what the operator prices: built-ins, tools, actions and endpoints, with a range (METH-068)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agtphost.config import Config
from agtphost.errors import ConfigurationError, Refusal
from agtphost.identity.peer import Assurance
from agtphost.vocabulary.reasons import Reason
from tests.host.hosts import configured
from tests.identity.issued import CALLER, of_agent
from tests.memory import body_of
from tests.methods.hosts import MCP, MethodHost, Toolbox
from tests.methods.test_agis_face import own
from tests.methods.test_discovery import RECORDER, tool
from tests.rows import each_row

ALL = of_agent(CALLER.agent_id, commitment=("*:*",))
READ = replace(tool("files.read", (), Assurance.CERTIFICATE), extra={"mcp_server": "files", "mcp_tool": "read"})
GONE = replace(
    tool("files.gone", (), Assurance.CERTIFICATE),
    extra={"mcp_server": "files", "mcp_tool": "gone"},
    missing=lambda admits: Refusal(Reason.UNKNOWN_TOOL),
)
"""As an adapter answers a name that no tool has: it refuses like one, behind the same gates."""

PRICES: list[dict[str, Any]] = [
    {
        "call": "SUMMARIZE",
        "expected": "tokens=8500, compute-seconds=2.3",
        "min": "tokens=7200, compute-seconds=1.8",
        "max": "tokens=11000, compute-seconds=4.0",
        "confidence": 0.82,
    },
    {"call": "files.*", "expected": "tokens=10", "max": "tokens=20"},
    {"call": "BOOK /room", "expected": "USD=80.00", "min": "USD=60.00"},
    {"call": "EXECUTE /actions/*", "expected": "calls=1"},
]


def host() -> MethodHost:
    action = own("EXECUTE", "/actions/reserve", "Reserve.")
    return MethodHost(
        {"methods": {"price": PRICES}},
        endpoints=[
            own("BOOK", "/room", "Book a room.", required_scopes=()),
            own("BOOK", "/suite", "Book a suite."),
            own("BOOK", "/vault", "Open it.", required_scopes=("vault:open",)),
            replace(action, details={**action.details, "action": "reserve"}),
        ],
        adapter=Toolbox(READ, GONE),
    )


def quote(made: MethodHost, method: str, parameters: Any = None, path: str = "/", **options: Any) -> Any:
    asked = {"method": method, "path": path, "parameters": parameters or {}}
    return made.ask("QUOTE", "/", asked, **{"certificate": ALL, **options})


def tool_payload(name: str = "files.read") -> dict[str, Any]:
    return {"action": "mcp.tools.call", "payload_type": MCP, "payload": {"tool": name, "arguments": {"a": 1}}}


def test_a_built_in_method_is_quoted_with_a_range() -> None:
    """The draft's example: SUMMARIZE, with header, range and confidence."""
    response = quote(host(), "SUMMARIZE", {"source": "text"})
    assert response.status == 200, response.body
    assert response.headers.get("cost-estimate") == "tokens=8500, compute-seconds=2.3"
    result = body_of(response)["result"]
    assert result["estimated_cost"] == {
        "tokens": {"min": 7200, "expected": 8500, "max": 11000},
        "compute_seconds": {"min": 1.8, "expected": 2.3, "max": 4},
    }
    assert result["confidence"] == 0.82


def test_a_tool_an_action_and_an_endpoint_are_quoted_and_not_called() -> None:
    """Units that a bound leaves out are as expected; money is text."""
    made, before = host(), len(RECORDER.calls)
    costs = {
        name: body_of(answer)["result"]["estimated_cost"]
        for name, answer in {
            "tool": quote(made, "EXECUTE", tool_payload()),
            "endpoint": quote(made, "BOOK", path="/room"),
            "action": quote(made, "EXECUTE", {"action": "reserve", "parameters": {}}),
        }.items()
    }
    assert costs == {
        "tool": {"tokens": {"min": 10, "expected": 10, "max": 20}},
        "endpoint": {"USD": {"min": "60.00", "expected": "80.00", "max": "80.00"}},
        "action": {"calls": {"min": 1, "expected": 1, "max": 1}},
    }
    assert len(RECORDER.calls) == before


@each_row(
    ("method", "path", "parameters", "reason"),
    [
        ("BOOK", "/suite", {}, "cost-not-declared"),
        ("BOOK", "/vault", {}, "not-found"),
        ("EXECUTE", "/", tool_payload("files.none"), "not-found"),
        ("EXECUTE", "/", tool_payload("files.gone"), "not-found"),
        ("EXECUTE", "/", {"action": "steal", "parameters": {}}, "not-found"),
        ("EXECUTE", "/", {"action": "mcp.tools.call", "payload_type": "text/x"}, "not-found"),
        ("EXECUTE", "/", {}, "not-found"),
    ],
)
def test_what_is_not_priced_or_not_callable_is_404(method: str, path: str, parameters: Any, reason: str) -> None:
    """What the caller may not call is as unknown as what there is not."""
    response = quote(host(), method, parameters, path)
    assert (response.status, body_of(response)["reason"]) == (404, reason)


def test_a_budget_is_held_to_the_most_that_a_call_takes() -> None:
    """456 for what may take more than Budget-Limit allows: a built-in, a tool, an endpoint; and what fits is done."""
    made = host()

    def status(method: str, body: Any, limit: str, path: str = "/") -> int:
        return made.ask(method, path, body, certificate=ALL, headers={"Budget-Limit": limit}).status

    for allowed, limit in ((200, "USD=80.00"), (456, "USD=79.99")):
        assert status("BOOK", {}, limit, "/room") == allowed
    for allowed, limit in ((200, "tokens=20"), (456, "tokens=19")):
        assert status("EXECUTE", tool_payload(), limit) == allowed
    assert status("SUMMARIZE", {"source": "Tea is a drink."}, "tokens=10999") == 456


def test_answers_state_what_was_expected() -> None:
    """Cost-Estimate on the answer of a priced call."""
    response = host().ask("BOOK", "/room", {}, certificate=ALL)
    assert (response.status, response.headers.get("cost-estimate")) == (200, "USD=80.00")


FAULTS = {
    'call = "files"\nexpected = "tokens=1"': "names no call",
    'call = "SUMMARIZE"\nexpected = "gold=1"': "is not what a call takes",
    'call = "SUMMARIZE"\nexpected = "tokens=5"\nmin = "tokens=6"': "is more than expected in tokens",
    'call = "SUMMARIZE"\nexpected = "tokens=5"\nmax = "tokens=4"': "is less than expected in tokens",
    'call = "SUMMARIZE"\nexpected = "tokens=5"\nmax = "USD=4.00"': "has USD, which expected lacks",
    'call = "SUMMARIZE"\nexpected = ""': "expected",
    'call = "SUMMARIZE"': "names no amount",
    'call = "SUMMARIZE"\nexpected = "tokens=5"\nconfidence = 2': "at most 1",
}


@pytest.mark.parametrize("text", FAULTS)
def test_a_price_that_is_none_is_a_start_error(tmp_path: Path, text: str) -> None:
    """Each names its key."""
    with pytest.raises(ConfigurationError, match=FAULTS[text]):
        configured(tmp_path, append=f"\n[[methods.price]]\n{text}\n")


def test_the_sample_has_no_prices(tmp_path: Path) -> None:
    """Its answers state no cost; docs/standard-methods.rst shows how calls are priced."""
    config: Config = configured(tmp_path)
    assert config.methods.price == ()
