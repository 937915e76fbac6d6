"""Methods on the items of a collection: ``collection:orders`` in place of data."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from agtphost.compute import functions
from agtphost.handlers import parameters
from agtphost.vocabulary import jsontext

if TYPE_CHECKING:
    from agtphost.audit.state_item import StateItem

FUNCTION: Final = "held-items"
"""The registered function that reads items and calls another one."""

CALLED: Final = ("analyze", "filter", "merge")
"""What it calls."""

MAX_OCTETS: Final = 4_194_304
"""Of the items of one call, as they are stored."""


def build_call(
    function: str, call: Mapping[str, Any], name: str, held: Mapping[int, Iterable[StateItem]]
) -> Generator[None, None, dict[str, Any]]:
    """
    Build the input of :func:`compute` in steps: stored items are passed on encoded, and decoded by the worker.

    :param function: what is done with the data.
    :param name: the parameter that named the collections.
    :param held: items in the place of the parameter (-1), or of its members by number.
    :raises agtphost.errors.Refusal: 422 for items of more than :data:`MAX_OCTETS`.
    """
    texts: dict[str, list[str]] = {}
    octets = 0
    for number, items in held.items():
        own = texts[str(number)] = []
        for item in items:
            octets += item.octets
            if octets > MAX_OCTETS:
                raise parameters.invalid(
                    name,
                    f"The items have more than {MAX_OCTETS} octets.",
                    "SEARCH or SCAN the collection, and send the items that matter.",
                )
            own.append((item.kept if isinstance(item.kept, bytes) else jsontext.encode(item.kept)).decode())
            yield
    return {"function": function, "call": {each: call[each] for each in call if each != name or -1 not in held}} | {
        "name": name,
        "items": texts,
    }


def compute(given: Mapping[str, Any]) -> Any:
    """Call a function with the data of items in place of the collections' names."""
    call, name = dict(given["call"]), given["name"]
    for number, texts in given["items"].items():
        data = [jsontext.decode_kept(text.encode())["data"] for text in texts]
        if number == "-1":
            call[name] = data
        else:
            call[name][int(number)] = data
    assert given["function"] in CALLED
    return functions.call(given["function"], call)


def prepare() -> None:
    """Import what is called."""
    for name in CALLED:
        functions.resolve(functions.FUNCTIONS[name].path)
