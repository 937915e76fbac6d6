"""A function is added to a module that exists, and every line of the module stays."""

from __future__ import annotations

import ast

import pytest

from agtphost.cli.endpoint.module_edit import ModuleEditError, add_function

ADDITION = "class Answer(TypedDict):\n    a: str\n\n\n@endpoint\ndef find(a: str) -> Answer:\n    return {'a': a}\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        '"""A docstring."""\n',
        "from __future__ import annotations\nimport os\n\nx = os.name",
        "from typing import TypedDict\nfrom agtphost import endpoint\n\n\ndef other():\n    pass\n\n\n# the end\n",
        "from agtphost import EndpointError\nif True:\n    import json\n",
        "# a\u2028b\x0b\nimport os\nfrom os import (\n    path,\n)\n",
        '"""Two\n\x0c\npages."""\nimport os\n\n__all__ = ["os"]',
        "\ufeffimport os\n",
        "try:\n    from typing import TypedDict\nexcept ImportError:\n    from typing_extensions import TypedDict\n",
    ],
)
def test_all_lines_stay_and_the_names_are_imported(text: str) -> None:
    """The old lines are there in their order, and each name that the addition uses is imported once."""
    edited = add_function(text, ADDITION, "find")
    rest = iter(edited.split("\n"))
    assert all(line in rest for line in text.split("\n") if line)
    assert edited.endswith(ADDITION)
    body = ast.parse(edited.removeprefix("\ufeff")).body
    imported = [name.name for node in body if isinstance(node, ast.ImportFrom) for name in node.names]
    assert imported.count("TypedDict") == imported.count("endpoint") == 1


def test_line_ends_stay_as_they_are() -> None:
    """A module with CR LF has no line with another end afterwards."""
    edited = add_function("import os\r\n\r\nx = os\r\n", ADDITION, "find")
    assert edited.count("\n") == edited.count("\r\n") and edited.replace("\r\n", "\n").endswith(ADDITION)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def find(): pass\n", "has find already"),
        ("for find in (): pass\n", "has find already"),
        ("endpoint = 3\n", "uses the name endpoint for something else"),
        ("from elsewhere import endpoint\n", "uses the name endpoint for something else"),
        ("def (:\n", "is not Python"),
        ("if True:\n    from elsewhere import find\n", "has find already"),
        ("match 1:\n    case find: pass\n", "has find already"),
    ],
)
def test_a_module_that_cannot_take_it_is_left_alone(text: str, said: str) -> None:
    """The reason is named."""
    with pytest.raises(ModuleEditError, match=said):
        add_function(text, ADDITION, "find")
