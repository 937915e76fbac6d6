"""How surely a caller must be known, where the operator wrote nothing (design decision 4)."""

from __future__ import annotations

from agtphost.contract.binding import Binding
from agtphost.identity.peer import Assurance
from agtphost.identity.required_assurance import (
    BELIEVED,
    default_assurance,
    explanation_of,
    is_believed,
    is_unseen,
)
from tests.dispatch.hosts import Recorder
from tests.rows import each_row

NONE, HEADER, GATEWAY, CERTIFICATE = Assurance


@each_row(
    ("floor", "changes", "expected"),
    [
        (CERTIFICATE, False, GATEWAY),
        (CERTIFICATE, True, CERTIFICATE),
        (HEADER, False, HEADER),
        (HEADER, True, HEADER),
    ],
)
def test_default_assurance_by_profile(floor: Assurance, changes: bool, expected: Assurance) -> None:
    """Production takes a proof for reading and a certificate for changes; development takes a header for both."""
    assert default_assurance(floor, changes=changes) is expected


def test_a_header_is_not_believed() -> None:
    """A front's word and a certificate are."""
    assert [each for each in Assurance if is_believed(each)] == [GATEWAY, CERTIFICATE]


@each_row(
    ("assurance", "least", "expected"),
    [
        (HEADER, GATEWAY, "by its Agent-ID header only; this call needs a client certificate or a token."),
        (HEADER, CERTIFICATE, "by its Agent-ID header only; this call needs a client certificate."),
        (GATEWAY, CERTIFICATE, "by a token only; this call needs a client certificate."),
    ],
)
def test_explanation_names_the_proofs_that_would_do(assurance: Assurance, least: Assurance, expected: str) -> None:
    """A refusal says what the caller showed and what it must show, not the words of the configuration."""
    assert explanation_of(assurance, least).endswith(expected)


@each_row("assurance", list(Assurance))
@each_row("least", list(Assurance))
def test_only_a_header_is_unseen_and_only_where_everybody_is_answered(assurance: Assurance, least: Assurance) -> None:
    """In production of every binding that asks for nothing; in development of those that change nothing."""
    applies = assurance is HEADER and least is NONE
    for changes in (False, True):
        assert is_unseen(assurance, least, CERTIFICATE, changes=changes) is applies
    assert is_unseen(assurance, least, HEADER, changes=False) is applies
    assert not is_unseen(assurance, least, HEADER, changes=True)


def test_a_binding_that_says_nothing_is_closed_to_headers() -> None:
    """Adapters of an operator's package that forget to say it are as closed as the host's own bindings."""
    plain = Binding(method="QUERY", path="/x", handler=Recorder(), tier="B")
    assert plain.min_assurance is BELIEVED is GATEWAY
    assert Binding.native("QUERY", "/x", Recorder(), "x").min_assurance is BELIEVED
