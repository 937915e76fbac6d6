"""Handle conditional requests (RFC 9110 section 13.1.2)."""

from __future__ import annotations


def is_unchanged(tag: str, header: str | None) -> bool:
    """
    Return whether ``If-None-Match`` names the present content.

    :param tag: the ``ETag`` of the answer.
    :param header: the field of the request; None if absent.
    """
    if header is None or not tag:
        return False
    if header.strip() == "*":
        return True
    strong = tag.removeprefix("W/")
    return any(each.strip().removeprefix("W/") == strong for each in header.split(","))
