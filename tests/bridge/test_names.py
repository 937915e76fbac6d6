"""Names at the host and at MCP clients."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from agtphost.client.mcp.names import Names, shown_name

SERVERS = st.from_regex(r"[a-z0-9][a-z0-9_-]{0,31}", fullmatch=True)
NAMES = st.builds(lambda server, tool: f"{server}.{tool}", SERVERS, st.text(min_size=1, max_size=80))


def test_a_plain_name_stays_readable() -> None:
    """``files.read_file`` is ``files__read_file``."""
    assert shown_name("files.read_file") == "files__read_file"


@given(NAMES)
def test_every_name_fits_every_client(name: str) -> None:
    """Whatever a server calls its tools, clients see 64 of their characters at most."""
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", shown_name(name))


@given(NAMES, NAMES)
def test_two_names_never_share_one(one: str, other: str) -> None:
    """What differs at the host differs at the client."""
    assert (one == other) == (shown_name(one) == shown_name(other))


def test_names_that_would_meet_are_kept_apart() -> None:
    """The control: joined by ``__`` alone, these would be the same."""
    assert "__".join(["a__b", "c"]) == "__".join(["a", "b__c"])
    assert shown_name("a__b.c") != shown_name("a.b__c")
    assert shown_name("a_._b") != shown_name("a.__b")


def test_a_listing_teaches_the_way_back() -> None:
    """A name is certain once it was listed; until then there is a guess, which the host judges."""
    names = Names()
    assert names.find_host_name("files__read_file") is None
    assert names.guess("files__read_file") == "files.read_file"
    shown = names.show("files.read all/files")
    assert names.find_host_name(shown) == "files.read all/files"


def test_the_hosts_own_name_of_a_listed_thing_is_certain() -> None:
    """A client that says ``files.read_file`` needs no listing for each call."""
    names = Names()
    assert names.find_host_name("files.read_file") is None
    names.show("files.read_file")
    assert names.find_host_name("files.read_file") == "files.read_file"
    assert names.find_host_name("files.write_file") is None


def test_a_bridge_of_one_server_keeps_its_names() -> None:
    """``--server files``: names are the server's own."""
    names = Names("files")
    assert names.show("files.read.file") == "read.file"
    assert names.find_host_name("read.file") == "files.read.file"
