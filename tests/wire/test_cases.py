"""Every case of the table, in every delivery; and variants of the parser that the table must catch."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from agtphost.errors import RemoteProtocolError
from agtphost.vocabulary.reasons import Reason
from agtphost.wire import grammar
from tests.rows import each_row
from tests.wire.cases import CASES, Case, Message
from tests.wire.deliveries import (
    GOOD,
    GOOD_MESSAGE,
    GOOD_RESPONSE,
    GOOD_RESPONSE_MESSAGE,
    Outcome,
    boundaries,
    connect,
    deliver,
    expected,
    octetwise,
)

ALL = each_row("case", CASES, ids=lambda case: case.id)
ENDED = each_row("case", [case for case in CASES if not case.waiting], ids=lambda case: case.id)


def run(case: Case, *portions: bytes) -> Outcome:
    """Deliver portions to a connection of the case's kind; an explanation must be there, and is left out."""
    outcome = deliver(connect(case.role, strict=case.strict), portions)
    assert bool(outcome.explanation) == bool(outcome.refusal)
    return replace(outcome, explanation="")


def test_the_table_is_large_and_its_ids_are_unique() -> None:
    """The table holds at least the 320 cases that were promised, each with an id of its own and a source."""
    assert len(CASES) >= 320
    assert [id for id, count in Counter(case.id for case in CASES).items() if count > 1] == []
    assert all(case.source for case in CASES)
    families = {
        family: sum(case.id.startswith(family) for case in CASES) for family in ("T-RL", "T-WF", "T-HI", "T-LM", "T-RS")
    }
    assert min(families.values()) >= 20, families
    assert families["T-WF"] >= 150


@ALL
def test_whole(case: Case) -> None:
    """T-WF, T-RL, T-HI, T-LM, T-RS: delivered in one portion."""
    assert run(case, case.octets) == expected(case)


@ALL
def test_one_octet_at_a_time(case: Case) -> None:
    """The same outcome from a sender that writes single octets."""
    assert run(case, *octetwise(case.octets)) == expected(case)


@ALL
def test_cut_at_every_boundary(case: Case) -> None:
    """The same outcome, the explanation included, wherever the octets are cut in two."""
    whole = deliver(connect(case.role, strict=case.strict), [case.octets])
    for cut in boundaries(case.octets):
        portions = [case.octets[:cut], case.octets[cut:]]
        assert deliver(connect(case.role, strict=case.strict), portions) == whole, cut


@ALL
def test_behind_a_good_message(case: Case) -> None:
    """The same outcome behind a good message in the same portion, which is answered first."""
    octets, message = (GOOD, GOOD_MESSAGE) if case.role == "server" else (GOOD_RESPONSE, GOOD_RESPONSE_MESSAGE)
    behind = expected(case)
    assert run(case, octets + case.octets) == replace(behind, messages=(message, *behind.messages))


@ENDED
def test_before_a_good_message(case: Case) -> None:
    """A complete message takes no octet of the next one (AGTP-013); a refusal hides whatever follows."""
    octets, message = (GOOD, GOOD_MESSAGE) if case.role == "server" else (GOOD_RESPONSE, GOOD_RESPONSE_MESSAGE)
    before = expected(case)
    if not case.refusal:
        before = replace(before, messages=(*before.messages, message))
    assert run(case, case.octets + octets) == before


# --- controls: parsers that are broken in a known way ------------------------------------------------------


def failing(monkeypatch: pytest.MonkeyPatch, **broken: object) -> set[str]:
    """The ids of the cases that fail when functions of the grammar are replaced."""
    for name, function in broken.items():
        monkeypatch.setattr(grammar, name, function)
    found = set()
    for case in CASES:
        try:
            right = run(case, case.octets) == expected(case)
        except (ValueError, AssertionError):
            right = False
        if not right:
            found.add(case.id)
    return found


def test_control_int_for_content_length_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser that takes what int() takes fails the cases of signs, zeros, underscores and blanks."""
    caught = failing(monkeypatch, parse_content_length=int)
    assert {f"T-WF-length-{id}" for id in ("plus", "minus", "leading-zero", "two-zeros", "underscore")} <= caught


def test_control_stripped_names_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser that strips field names fails the cases of folding and of space before the colon."""
    monkeypatch.setattr(grammar, "_known_names", {})
    strict = grammar.field_key
    caught = failing(monkeypatch, field_key=lambda name: strict(name.strip()))
    assert {
        "T-HI-space-before-colon",
        "T-HI-tab-before-colon",
        "T-HI-fold-field",
        "T-HI-fold-first",
    } <= caught
    assert {"T-WF-encoding-hidden-space-before-colon", "T-WF-encoding-hidden-leading-space"} <= caught


def test_control_prefix_match_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser that matches the beginning of the request line instead of the whole fails."""

    def lenient(line: str, *, strict: bool) -> tuple[str, str, str | None]:
        match = grammar._REQUEST_LINE.match(line)
        if match is None:
            raise grammar.invalid_request_line(line)
        return match[1], match[2] or "/", match[3]

    from agtphost.wire import readers

    form = replace(readers.LENIENT_REQUEST, parse=lambda line: lenient(line, strict=False))
    monkeypatch.setattr("agtphost.wire.connection.LENIENT_REQUEST", form)
    caught = failing(monkeypatch)
    assert {
        "T-RL-fragment-in-path",
        "T-RL-four-tokens",
        "T-RL-trailing-space",
        "T-RL-escape-percent-alone",
    } <= caught


def test_control_obs_text_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A parser that lets octets beyond ASCII into values fails."""
    caught = failing(monkeypatch, FIELD_OCTETS=grammar.FIELD_OCTETS + bytes(range(0x80, 0x100)))
    assert {"T-HI-value-never-holds-bidi", "T-HI-value-never-holds-xff"} <= caught


def test_control_lenient_line_ends_are_caught() -> None:
    """Turning bare LF into CRLF before parsing changes what cases mean."""
    caught = set()
    for case in CASES:
        lenient = case.octets.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        if run(case, lenient) != expected(case):
            caught.add(case.id)
    assert {"T-WF-ending-lf-everywhere", "T-WF-ending-lf-hides-a-field"} <= caught


def test_the_table_is_plain_data() -> None:
    """A black-box runner needs nothing but octets, strings and numbers from the table."""
    for case in CASES:
        assert isinstance(case.octets, bytes)
        assert case.refusal == "" or case.waiting == ""
        assert case.role in ("server", "client")
        for message in case.messages:
            assert isinstance(message, Message)
            assert all(isinstance(part, str | int | None) for part in message.first)


def test_every_reason_occurs() -> None:
    """Each reason token of the readers is the outcome of some case."""
    assert {case.refusal for case in CASES} - {""} == {
        "invalid-request-line", "invalid-response-line", "invalid-line-ending", "invalid-header-field",
        "invalid-content-length", "content-length-missing", "transfer-encoding-refused",
        "request-line-too-large", "header-line-too-large", "header-block-too-large", "too-many-headers",
        "body-too-large",
    }  # fmt: skip


def test_refusals_explain_themselves() -> None:
    """Every refusal names the rule that was broken in one sentence."""
    for case in CASES:
        if case.refusal:
            explanation = deliver(connect(case.role, strict=case.strict), [case.octets]).explanation
            assert explanation.endswith("."), case.id


def test_an_error_says_its_reason() -> None:
    """A RemoteProtocolError reads as reason and explanation and carries 400 by default."""
    error = RemoteProtocolError(Reason.INVALID_REQUEST_LINE, "Why.")
    assert str(error) == "invalid-request-line: Why."
