"""Copies of what a call brought, for code that is not the host's: handlers and gates of operators and plugins."""

from __future__ import annotations

import marshal
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, TypeVar

V = TypeVar("V")


def copy_given(given: Mapping[str, V]) -> dict[str, V]:
    """
    Return a copy of a call's input, path parameters or forwarded fields, nested values included.

    Code that gets them may change them. The host reads them again after it: for the record, for RETRY, for further
    calls inside the same one, and path parameters for the next request of the same head
    (:mod:`agtphost.dispatch.gate_cache`). Copying takes as long as decoding at most.
    """
    if not given:
        return {}
    values: Any = given
    try:
        copied: dict[str, V] = marshal.loads(marshal.dumps(values))
    except ValueError:  # The host's own code may call with another mapping than a plain dict.
        copied = deepcopy(dict(given))
    return copied
