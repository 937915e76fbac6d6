"""The ceiling of negotiation: only declared data is negotiated (AGIS v01 section 8.3, core v08 section 7.5)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from agtphost.config.policies import Policies
from agtphost.config.published import DataClass
from agtphost.contract.declaration import Rules
from agtphost.contract.endpoint_loading import read_endpoints
from agtphost.contract.negotiable import is_negotiable
from agtphost.vocabulary.catalog import Catalog
from tests.contract.declarations import SOUND
from tests.memory import body_of
from tests.negotiation.hosts import BOOK_ROOM, BOOKING, CUSTOMER, OPEN, NegotiatingHost, room, schema, semantic
from tests.negotiation.test_rcns import CONFIRM

OPEN_ROOMS = DataClass(name="rooms")
SECRETS = DataClass(name="secrets", sensitivity="high", requires_authorization=True)


def host(*names: str, policies: Policies = OPEN, unclassified: bool = False, **more: Any) -> NegotiatingHost:
    """A host whose step declares these classes."""
    given = {"data_classes": [OPEN_ROOMS, SECRETS], **more}
    return NegotiatingHost(
        policies, endpoints=(replace(BOOKING, data_classes=names),), unclassified=unclassified, **given
    )


def refused(answer: Any, reason: str = "out-of-scope") -> dict[str, Any]:
    body: dict[str, Any] = body_of(answer)
    assert (answer.status, body["reason"]) == (463, reason), body
    return body


def test_what_declares_no_data_is_not_negotiated() -> None:
    """A host without data classes approves nothing, with a data class named or without."""
    bare = host(data_classes=[])
    assert refused(bare.propose(BOOK_ROOM))["data_classes"] == []
    refused(bare.propose(BOOK_ROOM, beside={"data_class": "rooms"}))
    assert refused(host().propose(BOOK_ROOM))["data_classes"] == ["rooms", "secrets"]


def test_the_operator_may_negotiate_what_declares_no_data() -> None:
    """``unclassified = true`` admits it, for callers whose identity is established."""
    free = host(unclassified=True)
    assert free.propose(BOOK_ROOM).status == 263
    answer = free.propose(BOOK_ROOM, beside={"data_class": "rooms"}, who=None)
    assert (answer.status, body_of(answer)["reason"]) == (262, "credentials-missing")


@pytest.mark.parametrize("unclassified", [False, True])
def test_the_remedy_for_an_undeclared_class_is_to_declare_it(unclassified: bool) -> None:
    """``unclassified = true`` does not admit data of a class that the host lacks, so no refusal proposes it."""
    remedy = refused(host("rooms", data_classes=[], unclassified=unclassified).propose(BOOK_ROOM))["remedy"]
    assert "[[data_class]]" in remedy and "unclassified" not in remedy
    assert "unclassified" in refused(host(data_classes=[]).propose(BOOK_ROOM))["remedy"]


def test_the_classes_of_steps_decide_and_not_those_of_the_proposal() -> None:
    """A proposal that calls sensitive data by the name of open data is no way around credentials."""
    sensitive = host("secrets")
    for names in ("rooms", ["rooms", "secrets"], "secrets"):
        answer = sensitive.propose(BOOK_ROOM, beside={"data_class": names}, who=None)
        assert (answer.status, body_of(answer)["reason"]) == (262, "credentials-missing"), names
        assert sensitive.propose(BOOK_ROOM, beside={"data_class": names}).status == 263


def test_declared_data_is_negotiated_with_its_name_or_without() -> None:
    """The class is that of the steps, so the proposal may leave it out."""
    assert host("rooms").propose(BOOK_ROOM).status == 263
    assert host("rooms").propose(BOOK_ROOM, beside={"data_class": "rooms"}).status == 263


TWO_STEPS = room().replace(
    "[[recipe.step]]",
    """[[recipe.step]]
method = "FETCH"
path = "/customers/{customer_id}"
parameters = { customer_id = "=input.guest" }
capture = "who"

[[recipe.step]]""",
    1,
)
"""The recipe of BOOK /room, which looks the guest up first."""


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        (("rooms",), ("rooms",), 263),
        (("rooms",), ("salaries",), 463),
        (("salaries",), ("rooms",), 463),
        (("rooms", "salaries"), ("rooms",), 463),
        ((), ("rooms",), 463),
        (("rooms",), (), 463),
    ],
)
def test_each_step_works_with_declared_data(first: tuple[str, ...], second: tuple[str, ...], status: int) -> None:
    """AGIS-037: one step of an undeclared class is 463, whatever the other steps and the proposal say."""
    steps = (replace(CUSTOMER, data_classes=first), replace(BOOKING, data_classes=second))
    table = NegotiatingHost(recipes=TWO_STEPS, endpoints=steps, data_classes=[OPEN_ROOMS], unclassified=False)
    for beside in ({}, {"data_class": "rooms"}):
        answer = table.propose(BOOK_ROOM, beside=beside)
        assert answer.status == status, body_of(answer)
        if status == 463:
            assert refused(answer)["data_classes"] == ["rooms"]
            assert "synthesis_id" not in body_of(answer)


def test_endpoints_that_are_found_by_the_graph_are_bound_as_recipes_are() -> None:
    """A pipeline of endpoints without a recipe has their classes."""
    wanted = {
        "method": "LOCATE",
        "path": "/client",
        "semantic": semantic(CUSTOMER.semantic.intent),
        "input_schema": CUSTOMER.input_schema.schema,
        "output_schema": CUSTOMER.output_schema.schema,
    }

    def status(*names: str) -> int:
        found = replace(CUSTOMER, data_classes=names)
        table = NegotiatingHost(endpoints=(found, BOOKING), data_classes=[OPEN_ROOMS], unclassified=False)
        return table.propose(wanted).status

    assert (status("rooms"), status()) == (263, 463)


def test_a_counter_proposal_is_something_that_the_host_would_accept() -> None:
    """What is refused for its schema, and has no declared data either, has no counter-proposal."""
    wanted = {**BOOK_ROOM, "input_schema": schema({"pets": "string"})}
    assert "counter_proposal" in body_of(host("rooms").propose(wanted))
    assert "counter_proposal" not in refused(host().propose(wanted))


def test_the_gate_for_unregistered_requests_has_the_same_ceiling() -> None:
    """RCNS: 461 with a preview for declared data, 464 for any other; DISCOVER /patterns lists what is offered."""
    closed, declared = host(policies=CONFIRM), host("rooms", policies=CONFIRM)
    assert (closed.opted().status, declared.opted().status) == (464, 461)
    patterns = [body_of(each.ask("DISCOVER", "/patterns"))["patterns"] for each in (closed, declared)]
    assert [len(each) for each in patterns] == [0, 1]


@pytest.mark.parametrize(
    ("names", "unclassified", "negotiable"),
    [
        *(((), False, False), ((), True, True), (("rooms",), False, True), (("room",), False, False)),
        (("rooms", "room"), False, False),
    ],
)
def test_documents_state_what_may_be_negotiated(names: tuple[str, ...], unclassified: bool, negotiable: bool) -> None:
    """``negotiable`` is true exactly where a proposal can be approved; a class that is not declared counts for none."""
    made = host(*names, unclassified=unclassified)
    assert is_negotiable(made.config, [replace(BOOKING, data_classes=names)]) is negotiable
    off = host(*names, policies=Policies(), unclassified=unclassified)
    assert is_negotiable(off.config, [replace(BOOKING, data_classes=names)]) is False
    assert made.propose(BOOK_ROOM).status == (263 if negotiable else 463)


def test_data_classes_are_read_from_the_file_of_an_endpoint() -> None:
    """A list of names; anything else is a start error."""
    text = SOUND.replace('method = "', 'data_classes = ["rooms"]\nmethod = "', 1)
    found, problems = read_endpoints(text, "rooms.toml", Rules(catalog=Catalog.load()))
    assert not problems and found[0].data_classes == ("rooms",)
    for wrong in ('"rooms"', '[""]', "[7]", '["rooms", "rooms"]'):
        assert read_endpoints(text.replace('["rooms"]', wrong), "rooms.toml", Rules(catalog=Catalog.load()))[1]
