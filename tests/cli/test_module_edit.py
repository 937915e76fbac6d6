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
    ],
)
def test_all_lines_stay_and_the_names_are_imported(text: str) -> None:
    """The old lines are there in their order, and each name that the addition uses is imported once."""
    edited = add_function(text, ADDITION, "find")
    rest = iter(edited.splitlines())
    assert all(line in rest for line in text.splitlines() if line)
    assert edited.endswith(ADDITION)
    imported = [name.name for node in ast.parse(edited).body if isinstance(node, ast.ImportFrom) for name in node.names]
    assert imported.count("TypedDict") == imported.count("endpoint") == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def find(): pass\n", "has find already"),
        ("for find in (): pass\n", "has find already"),
        ("endpoint = 3\n", "uses the name endpoint for something else"),
        ("from elsewhere import endpoint\n", "uses the name endpoint for something else"),
        ("def (:\n", "is not Python"),
    ],
)
def test_a_module_that_cannot_take_it_is_left_alone(text: str, said: str) -> None:
    """The reason is named."""
    with pytest.raises(ModuleEditError, match=said):
        add_function(text, ADDITION, "find")
