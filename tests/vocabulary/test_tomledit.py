"""Elements of lists in TOML texts are added and removed, and nothing else changes."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agtphost.vocabulary.tomledit import TomlEditError, append_element, remove_element

SERVERS = ("mcp", "server")
SECTION = '[[mcp.server]]\nname = "new"\n'

TEXT = '''\
# top
[host]
a = 1

# about files
[[mcp.server]]
name = "files"  # here
[mcp.server.env]
B = "1"

# about the second, one
# about the second, two
[[mcp.server]]
name = "second"
command = [
  "a",
  # inside
]
# behind its last key

# about audit
[audit]
x = """
[[mcp.server]]
"""
'''


def test_an_element_goes_with_the_comment_above_it_alone() -> None:
    """The comments about what comes before and after stay."""
    assert remove_element(TEXT, SERVERS, 1) == TEXT.replace(
        TEXT[TEXT.index("# about the second, one") : TEXT.index("# behind")], ""
    )
    assert remove_element(TEXT, SERVERS, 0) == TEXT.replace(
        TEXT[TEXT.index("# about files") : TEXT.index("# about the second, one")], ""
    )


@pytest.mark.parametrize("text", ["", "[host]\na = 1", TEXT, TEXT.replace("\n", "\r\n")])
def test_removing_undoes_adding(text: str) -> None:
    """What was added last is removed without a trace, but for a line's end at the end of the text."""
    added = append_element(text, SERVERS, SECTION)
    assert added.startswith(text)
    servers = tomllib.loads(added)["mcp"]["server"]
    assert servers[-1] == {"name": "new"}
    assert remove_element(added, SERVERS, len(servers) - 1).rstrip("\r\n") == text.rstrip("\r\n")


@pytest.mark.parametrize(
    "text",
    [
        'mcp = { server = [ { name = "a" }, { name = "b" } ] }\n',
        '[mcp]\nserver = [ { name = "a" }, { name = "b" } ]\n',
        "[mcp]\nserver = 3\n",
        "mcp = 1\n",
    ],
)
def test_a_list_in_another_form_is_refused(text: str) -> None:
    """A text that cannot be edited line by line is not damaged."""
    with pytest.raises(TomlEditError):
        append_element(text, SERVERS, SECTION)
    with pytest.raises(TomlEditError):
        remove_element(text, SERVERS, 0)


def test_tables_of_an_element_elsewhere_are_refused() -> None:
    """An element that is continued behind another table is not removed in part."""
    with pytest.raises(TomlEditError, match="only a person"):
        remove_element('[[mcp.server]]\nname="a"\n[audit]\nx=1\n[mcp.server.env]\nA="1"\n', SERVERS, 0)


PIECES = st.sampled_from(
    [
        "# a comment\n",
        "\n",
        "[host]\nserver_id = 'x'\n",
        "[audit]\ny = [1,\n 2, # two\n]\n",
        "[[other.list]]\nz = 1\n",
        "[[mcp.server]]\nname = 's'\n",
        "[[mcp.server]]\nname = 's'\n[mcp.server.tools.read]\napproval = 'required'\n# behind\n",
        "[[mcp.server]]\nname = '''\n[[mcp.server]]\n# not a comment\n'''\nenv = { A = 'b' }\n",
    ]
)


@given(st.lists(PIECES, max_size=12), st.integers(0, 12))
def test_what_is_left_says_the_same(pieces: list[str], index: int) -> None:
    """Every removal leaves the tree without the element, and every comment that is not directly above it."""
    text = "".join(pieces)
    try:
        tree = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return  # A table that occurs twice.
    servers = tree.get("mcp", {}).get("server", [])
    if index >= len(servers):
        return
    after = remove_element(text, SERVERS, index)
    assert tomllib.loads(after).get("mcp", {}).get("server", []) == servers[:index] + servers[index + 1 :]
    assert after.count("# behind") == text.count("# behind")
