"""Handle conditional requests (RFC 9110 section 13.1.2)."""

from __future__ import annotations


def is_unchanged(tag: str, said: str | None) -> bool:
    """
    Return whether ``If-None-Match`` names the present content.

    :param tag: the ``ETag`` of the answer.
    :param said: the field of the request; None if absent.
    """
    if said is None or not tag:
        return False
    if said.strip() == "*":
        return True
    strong = tag.removeprefix("W/")
    return any(each.strip().removeprefix("W/") == strong for each in said.split(","))
