"""URI templates (RFC 6570) as far as it takes to see whose a URI may be."""

from __future__ import annotations

import re

_EXPRESSION = re.compile(r"\{[^{}]*\}")


def fits(template: str, uri: str) -> bool:
    """Return whether a URI may be of a template: its fixed parts are there, in order."""
    parts = _EXPRESSION.split(template)
    if not uri.startswith(parts[0]) or not uri.endswith(parts[-1]):
        return False
    at = 0
    for part in parts:
        at = uri.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return len(parts) > 1 or uri == template
