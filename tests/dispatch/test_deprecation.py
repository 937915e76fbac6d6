"""The signal that every response of a deprecated agent carries: core v08 section 7.2.18."""

from __future__ import annotations

import pytest

from tests.dispatch.hosts import CALLER, HOSTED, STRANGER, DispatchHost

HEADER = "agtp-agent-warning"
DEADLINE = "2027-01-01T00:00:00Z"


@pytest.mark.parametrize(
    ("successor", "deadline", "said"),
    [
        (STRANGER, DEADLINE, f"deprecated; successor={STRANGER}; migration_deadline={DEADLINE}"),
        (None, DEADLINE, f"deprecated; migration_deadline={DEADLINE}"),
        (None, None, "deprecated"),
    ],
)
def test_a_deprecated_agent_says_so(successor: str | None, deadline: str | None, said: str) -> None:
    """AGTP-244: it serves on with its posture, and answers and refusals alike say that it will go, and who follows."""
    host = DispatchHost()
    host.put(HOSTED, "deprecated", successor=successor, deadline=deadline)
    served, refused = host.ask("QUERY", "/words"), host.ask("RESERVE", "/desk", {"text": 1})
    assert (served.status, refused.status) == (200, 422)
    assert served.headers.get("trust-tier") == "2"
    assert [answer.headers.get(HEADER) for answer in (served, refused)] == [said, said]


def test_others_say_nothing() -> None:
    """AGTP-244, AGTP-075: neither an active agent nor one whose caller is deprecated, which is served as before."""
    host = DispatchHost()
    host.put(CALLER, "deprecated", successor=STRANGER)
    answer = host.ask("QUERY", "/words")
    assert (answer.status, answer.headers.get(HEADER)) == (200, None)
