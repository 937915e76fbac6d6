"""INSPECT target=endpoint: one definition under its own media type, to those who could call it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.identity.issued import CALLER, of_agent
from tests.memory import body_of
from tests.methods.hosts import MethodHost
from tests.methods.test_candidates import BOATS, PAPERS

ME = of_agent(CALLER.agent_id)


class Telling(MethodHost):
    """A host with two endpoints to tell of."""

    def __init__(self, *, anonymous: bool = True) -> None:
        super().__init__({"policies": {"anonymous_discovery": anonymous}}, endpoints=[PAPERS, BOATS])

    def definition(self, method: str, path: str, **options: Any) -> Any:
        return self.ask("INSPECT", "/", {"target": "endpoint", "method": method, "path": path}, **options)


@pytest.mark.parametrize("named", [("QUERY", "/papers"), ("DISCOVER", "/methods"), ("DESCRIBE", "/agents/{name}")])
def test_one_endpoint_has_its_own_media_type(named: tuple[str, str]) -> None:
    """API-155, AGTP-320: the definition is the body, as the manifest has it; built-ins and the operator's."""
    response = Telling().definition(*named, certificate=ME)
    assert (response.status, response.headers.get("content-type")) == (200, "application/vnd.agtp.endpoint+json")
    found = body_of(response)
    assert (found["method"], found["path"]) == named
    assert {"semantic", "input_schema", "output_schema", "errors", "required_scopes"} <= found.keys()


def test_who_may_not_call_it_is_not_told_of_it() -> None:
    """As in every list: 404 for what is missing and for what needs a scope that the caller lacks."""
    on = Telling()
    for named in (("BOOK", "/boat"), ("BOOK", "/nothing"), ("QUERY", "/PAPERS"), ("query", "/papers")):
        response = on.definition(*named, certificate=ME)
        assert (response.status, body_of(response)["reason"]) == (404, "endpoint-unknown")
    hidden = Telling(anonymous=False).definition("DISCOVER", "/methods")
    assert hidden.status == 262, "where nobody discovers anonymously"
    assert on.definition("DISCOVER", "/methods").status == 200


def test_method_and_path_are_required() -> None:
    """422 names the parameter that is missing."""
    for given in ({}, {"method": "QUERY"}, {"path": "/papers"}):
        response = Telling().ask("INSPECT", "/", {"target": "endpoint", **given})
        assert response.status == 422 and body_of(response)["parameter"] in ("method", "path")
