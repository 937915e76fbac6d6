"""
What a client of the gateway knows beside its OpenAPI document, for ``schemathesis``, which loads this file.

JSON Schema compares numbers by value, so no document can tell 1e300 from the integer of 301 digits. The host reads the
first as a fraction and refuses the second, which few readers hold exactly. The document has bounds for both, and the
client here writes integers as integers, so that what the document forbids is refused.
"""

from __future__ import annotations

from typing import Any

import schemathesis

EXACT = 2**53

DECLARED = 422
"""The status of an error that an endpoint declares."""


def spell(value: Any) -> Any:
    """Return a JSON value whose integers beyond 2**53 are written without a fraction and an exponent."""
    if isinstance(value, dict):
        return {name: spell(each) for name, each in value.items()}
    if isinstance(value, list):
        return [spell(each) for each in value]
    return int(value) if isinstance(value, float) and abs(value) > EXACT else value


@schemathesis.hook
def before_call(context: Any, case: schemathesis.Case, kwargs: dict[str, Any]) -> None:
    """Write the numbers of a body; all values are sent."""
    if isinstance(case.body, (dict, list, float)):
        case.body = spell(case.body)


def undeclared(responses: Any, reason: object) -> str:
    """
    Return what is wrong with an answer 422 to a request that follows the schema, or an empty text.

    :param responses: the responses of the operation, as the document has them.
    """
    for content in responses.get(str(DECLARED), {}).get("content", {}).values():
        if reason in content["schema"]["properties"]["reason"]["examples"]:
            return ""
    return f"422 with the reason {reason!r} is none of the errors that the operation declares"


@schemathesis.check
def valid_requests_fail_as_declared(
    ctx: schemathesis.CheckContext, response: schemathesis.Response, case: schemathesis.Case
) -> None:
    """
    Find a 422 that the endpoint does not declare, as an answer to a request that follows the schema.

    A schema cannot say that a book exists, or that one date is after another: the endpoint does, by an error that the
    document names. It is 422, because the content is understood (RFC 9110 section 15.5.21); ``schemathesis`` expects
    403, 404 or 409 in its place.
    """
    if case.meta is not None and case.meta.generation.mode.is_positive and response.status_code == DECLARED:
        fault = undeclared(case.operation.definition.raw["responses"], response.json().get("reason"))
        assert not fault, fault
