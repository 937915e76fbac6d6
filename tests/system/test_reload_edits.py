"""An author edits a handler, again and again, with mistakes: ``agtp reload`` and never a restart."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.system.hosting import Host, running, sample
from tests.system.raw_link import RawLink

ENDPOINT = """
[[endpoint]]
method = "QUERY"
path = "/edited"
description = "Says which edit of its handler answers."
errors = []
handler = { type = "registered_function", function = "handlers.edited.answer" }
semantic.intent = "Ask for the edit."
semantic.actor = "agent"
semantic.outcome = "The caller knows the edit."
semantic.capability = "retrieval"
semantic.confidence = 0.9
semantic.impact = "informational"
semantic.is_idempotent = true
input_schema = { type = "object", additionalProperties = false, properties = {} }
output_schema = { type = "object" }
"""

GOOD = "from handlers import edited_words\n\ndef answer(context):\n    return {{'edit': edited_words.EDIT + {0}}}\n"
MISTAKES = (
    "def anwser(context):\n    return {}\n",
    "def answer(context)\n    return {}\n",
    "import no_such_module\n\ndef answer(context):\n    return {}\n",
    "from handlers.edited_words import MISSING\n\ndef answer(context):\n    return {}\n",
    "answer = 5\n",
)


@pytest.fixture(scope="module", params=["development", "reload = true"])
def host(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Host]:
    said = [] if request.param == "development" else [('python_path = ["."]', f'python_path = ["."]\n{request.param}')]
    with running(sample(tmp_path_factory.mktemp("edits"), edit=said)) as host:
        yield host


def edit(host: Host, text: str, words: str = "EDIT = 0\n") -> tuple[int, str]:
    """Write the handler's modules; the status of ``agtp reload``, and what it says."""
    folder = host.config.parent
    (folder / "handlers" / "edited_words.py").write_text(words)
    (folder / "handlers" / "edited.py").write_text(text)
    done = host.agtp("reload", "--json")
    return done.returncode, done.stdout


def asked(host: Host) -> int:
    with RawLink(host) as link:
        return int(link.ask("QUERY", "/edited", {}).json()["result"]["edit"])


def test_ten_edits_with_five_mistakes_need_no_restart(host: Host) -> None:
    """Each mistake is refused and changes nothing; the edit after it is taken, in a module that it imports too."""
    (host.config.parent / "endpoints" / "edited.toml").write_text(ENDPOINT)
    process = host.process.pid
    for number, mistake in enumerate(MISTAKES):
        status, said = edit(host, mistake)
        problems = json.loads(said)["problems"]
        assert status == 1 and any("edited" in each["message"] + each["file"] for each in problems), said
        if number:
            assert asked(host) == number - 1, "a refused reload changed what answers"
        # Of the same length as the one before, in the same second: a compiled module would pass for it.
        status, said = edit(host, GOOD.format(0), f"EDIT = {number}\n")
        assert status == 0, said
        assert asked(host) == number
    assert host.process.pid == process and host.process.poll() is None


def test_a_check_leaves_nothing_imported(host: Host) -> None:
    """``agtp reload --check`` of a module that is new, then the module corrected: what is taken is the correction."""
    folder = host.config.parent
    endpoint = ENDPOINT.replace("/edited", "/checked").replace("handlers.edited.", "handlers.checked.")
    (folder / "endpoints" / "checked.toml").write_text(endpoint)
    module = folder / "handlers" / "checked.py"
    module.write_text("def answer(context):\n    return {'edit': 1}\n")
    assert host.agtp("reload", "--check").returncode == 0
    module.write_text("def answer(context):\n    return {'edit': 2}\n")
    assert host.agtp("reload").returncode == 0
    with RawLink(host) as link:
        assert link.ask("QUERY", "/checked", {}).json()["result"] == {"edit": 2}


LAZY = """
def answer(context):
    {0}
    return {{'edit': lazy_words.EDIT}}
"""
IMPORTS = {
    "a statement": "from handlers import lazy_words",
    "importlib": "import importlib; lazy_words = importlib.import_module('handlers.lazy_words')",
}


@pytest.mark.parametrize("how", IMPORTS)
def test_a_module_that_only_calls_import_is_taken_too(host: Host, how: str) -> None:
    """Its edits are changes of handlers, also where no other file changed; without an edit nothing is taken."""
    folder = host.config.parent
    (folder / "endpoints" / "edited.toml").write_text(ENDPOINT)
    words = folder / "handlers" / "lazy_words.py"
    words.write_text("EDIT = 1\n")
    assert edit(host, LAZY.format(IMPORTS[how]))[0] == 0
    for number in (1, 2, 3):
        words.write_text(f"EDIT = {number}\n")
        assert host.agtp("reload").returncode == 0
        assert asked(host) == number
    if how == "a statement":
        assert json.loads(host.agtp("reload", "--json").stdout)["taken"] == []


@pytest.mark.parametrize("error", ["KeyboardInterrupt", "SystemExit(3)", "GeneratorExit", "asyncio.CancelledError"])
def test_a_module_that_raises_what_is_no_exception_is_refused(host: Host, error: str) -> None:
    """With the line of the module, as any mistake; the correction is taken."""
    (host.config.parent / "endpoints" / "edited.toml").write_text(ENDPOINT)
    assert edit(host, GOOD.format(1), "EDIT = 1\n")[0] == 0
    status, said = edit(host, f"import asyncio\n\nraise {error}\n", "EDIT = 2\n")
    assert status == 1 and "edited.py" in said and error.rpartition(".")[2].partition("(")[0] in said, said
    assert asked(host) == 2
    assert edit(host, GOOD.format(1), "EDIT = 2\n")[0] == 0
    assert asked(host) == 3
