"""Conditional requests: whether who asks again has the octets already (RFC 9110 section 13.1.2)."""

from __future__ import annotations


def unchanged(tag: str, said: str | None) -> bool:
    """
    Whether ``If-None-Match`` names what there is.

    :param tag: the ``ETag`` of the answer.
    :param said: the field of the request; None where it has none.
    """
    if said is None or not tag:
        return False
    if said.strip() == "*":
        return True
    strong = tag.removeprefix("W/")
    return any(each.strip().removeprefix("W/") == strong for each in said.split(","))
