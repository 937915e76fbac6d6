"""Endpoints from TOML: what is read, and everything that is refused, with file and line."""

from __future__ import annotations

import dataclasses
import textwrap
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agtphost.contract.declaration import Rules
from agtphost.contract.endpoint import Endpoint
from agtphost.contract.endpoint_loading import load_endpoints, read_endpoints
from agtphost.contract.semantic import MEMBERS, Impact
from agtphost.errors import Problem
from agtphost.identity.peer import Assurance
from agtphost.vocabulary.catalog import Catalog
from tests.contract.declarations import SOUND, changed, without_table
from tests.contract.test_endpoint_table import Silent
from tests.rows import each_row

REQUIRED = ("method", "path", "description", "semantic", "input_schema", "output_schema", "errors", "handler")
"""The members that AGTP-API section 6.3 requires."""

RULES = Rules(catalog=Catalog.load(), custom={"PRESCRIBE"}, reserved={("EXECUTE", "/")})


def read(text: str, rules: Rules = RULES) -> tuple[list[Endpoint], list[Problem]]:
    return read_endpoints(text, "rooms.toml", rules)


def sound(text: str, rules: Rules = RULES) -> Endpoint:
    (endpoint,), problems = read(text, rules)
    assert problems == []
    return endpoint


def line_of(start: str) -> int:
    return next(number for number, line in enumerate(SOUND.splitlines(), 1) if line.startswith(start))


def test_every_field_is_read() -> None:
    """API-061, API-062, API-064: the endpoint of AGTP-API section 6.2, and our own members."""
    endpoint = sound(SOUND)
    assert endpoint.name == "BOOK /rooms/{room_id}"
    assert endpoint.namespace == "reservations"
    assert endpoint.errors == ("room_unavailable",)
    assert endpoint.required_scopes == ("booking:room", "calendar:write")
    assert endpoint.semantic.impact is Impact.IRREVERSIBLE
    assert endpoint.semantic.actor == "patient"
    assert endpoint.handler.function == "handlers.rooms.book"
    assert (endpoint.min_assurance, endpoint.timeout) == (Assurance.CERTIFICATE, 5.0)
    assert endpoint.agents == ("librarian",)
    assert (endpoint.file, endpoint.line) == ("rooms.toml", 1)
    assert endpoint.warning == "deprecated; successor=RESERVE /rooms; removed_in=3.0.0"
    assert not endpoint.output_schema.is_valid({"reservation_id": "1", "more": 1})


def test_the_binding_needs_what_the_endpoint_says() -> None:
    """What the gates decide by is what was declared."""
    binding = sound(SOUND).bind(Silent(), ["a" * 64])
    assert (binding.method, binding.path, binding.tier) == ("BOOK", "/rooms/{room_id}", "B")
    assert binding.required_scopes == ("booking:room", "calendar:write")
    assert binding.state_changing and not binding.idempotent
    assert binding.agents == {"a" * 64}
    assert binding.input_schema is not None
    assert not binding.input_schema.is_valid({"typo": 1})


def test_the_projection_hides_the_handler() -> None:
    """API-083: of the handler the kind alone, and no host-side settings."""
    shown = sound(SOUND).projection()
    assert shown["handler"] == {"type": "registered_function"}
    assert "handlers.rooms" not in repr(shown)
    assert shown["deprecated"]["successor"] == {"method": "RESERVE", "path": "/rooms"}
    assert set(REQUIRED) <= shown.keys()


@pytest.mark.parametrize(
    ("successor", "warning"),
    [
        ('{ method = "RESERVE" }', "deprecated; successor=RESERVE; removed_in=3.0.0"),
        ('{ path = "/rooms" }', "deprecated; successor=/rooms; removed_in=3.0.0"),
        ("{}", "deprecated; removed_in=3.0.0"),
    ],
)
def test_the_deprecation_warning(successor: str, warning: str) -> None:
    """AGTP-API section 6.5: only what is declared is in it."""
    endpoint = sound(changed("successor", f"successor = {successor}"))
    assert endpoint.warning == warning
    assert sound(without_table("deprecated")).warning is None


@each_row("name", REQUIRED)
def test_a_missing_field_is_named(name: str) -> None:
    """API-061: each of the eight."""
    tables = {"semantic", "input_schema", "output_schema", "handler"}
    text = without_table(name) if name in tables else changed(name, "")
    endpoints, problems = read(text)
    assert endpoints == []
    assert any(problem.message.endswith(f"{name} is missing") for problem in problems)


@each_row("name", MEMBERS)
def test_a_missing_semantic_member_is_named(name: str) -> None:
    """API-067: each of the seven, at the block's line."""
    endpoints, (problem,) = read(changed(name, ""))
    assert endpoints == []
    assert f"semantic.{name} is missing" in problem.message
    assert problem.line == line_of("[semantic]")


@each_row("name", ["namespace", "required_scopes", "min_assurance", "timeout", "strict_output", "agents"])
def test_optional_fields_may_be_left_out(name: str) -> None:
    """API-062, API-064."""
    assert sound(changed(name, "")).method == "BOOK"


@each_row(
    ("old", "new", "message"),
    [
        ("method", 'method = "FROB"', "method FROB is not in catalog 1.1.0"),
        ("method", 'method = "book"', "'book' is not a method name"),
        ("method", 'method = "DO_IT"', "'DO_IT' is not a method name"),
        ("method", "method = 1", "'1' is not a method name"),
        ("method", 'method = "GET"', "GET is an HTTP verb"),
        ("path", 'path = "rooms"', "does not begin with a slash"),
        ("path", 'path = "/rooms/"', "empty segment"),
        ("path", 'path = "/order/{room_id}"', "the method name ORDER"),
        ("path", 'path = "/x/prefix-{room_id}"', "mixes"),
        ("path", 'path = "/a/{room_id}/b/{room_id}"', "occurs twice"),
        ("path", 'path = "/a/{?room_id}"', "RFC 6570"),
        ("path", "path = 1", "path must be a text"),
        ("path", 'path = "/agents/{room_id}"', "is reserved: /agents/NAME"),
        ("description", 'description = ""', "description must be one line"),
        ("description", 'description = "two\\nlines"', "description must be one line"),
        ("namespace", "namespace = 1", "namespace must be one line"),
        ("errors", 'errors = ["two words"]', "errors has 'two words'"),
        ("errors", 'errors = ["a", "a"]', "errors has 'a' twice"),
        ("errors", 'errors = "a"', "errors must be a list"),
        ("required_scopes", 'required_scopes = ["booking"]', "required_scopes has 'booking'"),
        ("required_scopes", 'required_scopes = ["Booking:Room"]', "is not a scope token"),
        ("min_assurance", 'min_assurance = "high"', "min_assurance is not one of none, header, gateway"),
        ("timeout", "timeout = 0", "timeout must be a number of seconds"),
        ("timeout", "timeout = true", "timeout must be a number of seconds"),
        ("timeout", "timeout = nan", "timeout must be a number of seconds"),
        ("timeout", "timeout = 90000", "timeout must be a number of seconds"),
        ("strict_output", 'strict_output = "yes"', "strict_output must be true or false"),
        ("agents", 'agents = ["a.b"]', "is not the name of an agent"),
        ("function", 'function = "book"', "is not a dotted path"),
        ("function", 'function = "a..b"', "is not a dotted path"),
        ("function", "function = 1", "is not a dotted path"),
        ("intent", 'intent = ""', "semantic.intent must be one line"),
        ("actor", "actor = 5", "semantic.actor must be one line"),
        ("capability", 'capability = "magic"', "semantic.capability is not one of"),
        ("confidence", "confidence = 1.5", "semantic.confidence must be a number"),
        ("confidence", "confidence = true", "semantic.confidence must be a number"),
        ("confidence", "confidence = nan", "semantic.confidence must be a number"),
        ("impact", 'impact = "maybe"', "semantic.impact is not one of"),
        ("impact", "impact = []", "semantic.impact is not one of"),
        ("is_idempotent", 'is_idempotent = "yes"', "semantic.is_idempotent must be true or false"),
        ("additionalProperties", "additionalProperties = true", "/additionalProperties: must be false"),
        ("room_id", 'room = { type = "string" }', "the path has the parameter 'room_id', and room is unknown"),
        ("room_id", 'night = { type = "string" }', "parameter 'room_id' is not declared"),
        ("room_id", 'room_id = { type = "array" }', "parameter 'room_id' is declared as array"),
        ("nights", 'nights = { type = "integr" }', "breaks the dialect"),
        ("nights", "nights = { const = 2026-01-01 }", "is not JSON"),
        ("deprecated_in", "deprecated_in = 2.1", "deprecated.deprecated_in must be a version"),
        ("deprecated_in", "", "deprecated.deprecated_in is missing"),
        ("removed_in", 'removed_in = "3; x"', "deprecated.removed_in must be a version"),
        ("successor", 'successor = "RESERVE"', "deprecated.successor must be a table"),
        ("successor", 'successor = { method = "reserve" }', "successor.method is not a method name"),
        ("successor", 'successor = { path = "rooms" }', "deprecated.successor.path is not a path"),
        ("successor", 'successor = { verb = "RESERVE" }', "deprecated.successor.verb is unknown"),
    ],
)  # fmt: skip
def test_a_wrong_field_is_refused_with_its_line(old: str, new: str, message: str) -> None:
    """API-005, API-009, API-030 to 033, API-060, API-068 to 070, API-142: one rule broken at a time."""
    endpoints, problems = read(changed(old, new))
    assert endpoints == []
    assert any(message in str(problem) for problem in problems), [str(problem) for problem in problems]
    assert all(problem.file == "rooms.toml" and problem.line > 0 for problem in problems)
    if new and "const" not in new and old != "room_id":
        assert line_of(old) in {problem.line for problem in problems}


def test_a_shape_that_is_no_table_is_refused() -> None:
    """A block written as a value."""
    for name in ("handler", "semantic", "input_schema", "output_schema", "deprecated"):
        endpoints, problems = read(f'{name} = "x"\n' + without_table(name))
        assert endpoints == []
        assert any(f"{name} must be a table" in problem.message and problem.line == 1 for problem in problems)


def test_other_handlers_are_named_as_unsupported() -> None:
    """What is supported is said."""
    _, problems = read(changed('type = "registered_function"', 'type = "lambda"'))
    assert any("handler.type 'lambda' is not supported" in problem.message for problem in problems)
    assert any("external_service" in problem.hint for problem in problems)


def test_unknown_fields_are_refused_with_a_close_match() -> None:
    """A typing error must not pass for a default."""
    _, (problem,) = read(changed("timeout", "timout = 5"))
    assert problem.message.endswith("timout is unknown")
    assert problem.hint == "did you mean 'timeout'?"
    _, (inner,) = read(changed("confidence", "confidence = 1\nconfidance = 1"))
    assert "semantic.confidance is unknown" in inner.message


def test_close_methods_are_suggested() -> None:
    """An operator reads what the 459 body says."""
    _, (problem,) = read(changed("method", 'method = "RESERV"'))
    assert "RESERVE" in problem.hint
    _, (legacy,) = read(changed("method", 'method = "DELETE"'))
    assert "REMOVE" in legacy.hint


RESERVED = ["/", "/methods", "/methods/v2", "/agents", "/agents-extended", "/genesis", "/tools", "/toolset"]
RESERVED += ["/apis", "/patterns-v2", "/contracts/history", "/Methods"]


@each_row("path", RESERVED)
def test_reserved_discover_paths_are_refused(path: str) -> None:
    """API-054, API-060: all seven names and what begins with them; a configuration error."""
    text = changed("method", 'method = "DISCOVER"').replace("/rooms/{room_id}", path)
    _, problems = read(text)
    assert any("is reserved" in problem.message for problem in problems)


def test_reserved_paths_are_free_for_other_methods() -> None:
    """API-055: QUERY /methods is the operator's; DISCOVER /rooms too."""
    text = changed("method", 'method = "QUERY"').replace("/rooms/{room_id}", "/methods")
    assert sound(text).path == "/methods"
    assert sound(changed("method", 'method = "DISCOVER"')).method == "DISCOVER"


def test_what_the_host_answers_is_refused() -> None:
    """API-060: a tier A binding cannot be shadowed."""
    text = changed("method", 'method = "EXECUTE"').replace('"/rooms/{room_id}"', '"/"')
    _, problems = read(text)
    assert any(
        "EXECUTE / is answered by the host itself; choose another path" in problem.message for problem in problems
    )


def test_custom_methods_are_accepted() -> None:
    """API-006, AGTP-254, AGTP-256: where declared, and only there."""
    text = changed("method", 'method = "PRESCRIBE"')
    assert sound(text).method == "PRESCRIBE"
    assert read(text, Rules(catalog=RULES.catalog))[0] == []


@each_row(
    ("impact", "relaxed", "expected"),
    [
        ("informational", False, Assurance.GATEWAY),
        ("informational", True, Assurance.HEADER),
        ("reversible", False, Assurance.CERTIFICATE),
        ("irreversible", False, Assurance.CERTIFICATE),
        ("irreversible", True, Assurance.HEADER),
    ],
)
def test_assurance_follows_the_impact(impact: str, relaxed: bool, expected: Assurance) -> None:
    """Design decision 4: a proven caller for what reads, a certificate for the rest, unless declared or relaxed."""
    text = changed("impact", f'impact = "{impact}"')
    rules = dataclasses.replace(RULES, relaxed=relaxed)
    assert sound(text, rules).min_assurance is Assurance.CERTIFICATE
    assert sound(text.replace('min_assurance = "certificate"\n', ""), rules).min_assurance is expected


# Files


def _listed(*paths: str) -> str:
    body = textwrap.indent(SOUND, "").replace("[handler]", "[endpoint.handler]")
    for name in ("semantic", "input_schema", "output_schema", "deprecated"):
        body = body.replace(f"[{name}", f"[endpoint.{name}")
    return "\n".join("[[endpoint]]\n" + body.replace("/rooms/", path) for path in paths)


def test_a_file_may_hold_several_endpoints() -> None:
    """Each with its own line."""
    endpoints, problems = read(_listed("/a/", "/b/"))
    assert problems == []
    assert [endpoint.path for endpoint in endpoints] == ["/a/{room_id}", "/b/{room_id}"]
    assert [endpoint.line for endpoint in endpoints] == [1, _listed("/a/").count("\n") + 2]


def test_one_bad_endpoint_leaves_the_others() -> None:
    """API-017: the rest serves; the bad one is named with its own line."""
    text = _listed("/a/", "/b/")
    second = text.rindex('method = "BOOK"')
    endpoints, (problem,) = read(text[:second] + 'method = "FROB"' + text[second + 15 :])
    assert [endpoint.path for endpoint in endpoints] == ["/a/{room_id}"]
    assert problem.message.startswith("FROB /b/{room_id}: ")
    assert problem.line == text[:second].count("\n") + 1


def test_members_beside_a_list_are_refused() -> None:
    """A key that belongs to no endpoint."""
    _, problems = read("oops = 1\n" + _listed("/a/"))
    assert any("oops is unknown" in problem.message and problem.line == 1 for problem in problems)


@each_row("text", ["method = ", "[[endpoint]", 'a = "\x01"', "a = 1\na = 2", "[" * 5_000])
def test_what_is_no_toml_is_refused_with_its_line(text: str) -> None:
    """Malformed TOML has a named reason and a location."""
    endpoints, (problem,) = read(text)
    assert endpoints == []
    assert problem.message.startswith("it is not TOML")
    assert problem.line >= 1 or "nested" in problem.message


def test_an_empty_file_is_pointed_out() -> None:
    """Probably not what its author meant."""
    _, (problem,) = read("# nothing\n")
    assert "declares no endpoint" in problem.message


def test_a_directory_is_read_in_order(tmp_path: Path) -> None:
    """And nothing but TOML files."""
    (tmp_path / "b.toml").write_text(SOUND.replace("/rooms/", "/b/"))
    (tmp_path / "a.toml").write_text(SOUND.replace("/rooms/", "/a/"))
    (tmp_path / "notes.txt").write_text("not TOML")
    endpoints, problems = load_endpoints(tmp_path, RULES)
    assert problems == []
    assert [endpoint.path for endpoint in endpoints] == ["/a/{room_id}", "/b/{room_id}"]


def test_providers_are_bound_where_their_method_is_on(tmp_path: Path) -> None:
    """A provider serves a standard method that is on, unless another endpoint has its method and path."""
    translating = changed("method", 'method = "TRANSLATE"').replace("/rooms/{room_id}", "/{room_id}")
    helping = SOUND.replace("/rooms/", "/help/")
    (tmp_path / "a.toml").write_text("provider = true\n" + translating)
    (tmp_path / "b.toml").write_text("provider = true\n" + helping)

    def names(*standard: str) -> list[str]:
        endpoints, problems = load_endpoints(tmp_path, dataclasses.replace(RULES, standard=standard))
        assert problems == []
        return [endpoint.name for endpoint in endpoints]

    assert names() == []
    assert names("SIGN") == ["BOOK /help/{room_id}"]
    assert names("SIGN", "TRANSLATE") == ["TRANSLATE /{room_id}", "BOOK /help/{room_id}"]
    (tmp_path / "c.toml").write_text(translating)
    assert names("TRANSLATE") == ["BOOK /help/{room_id}", "TRANSLATE /{room_id}"]
    (tmp_path / "c.toml").unlink()
    (tmp_path / "b.toml").write_text("provider = true\n" + without_table("handler").replace("BOOK", "TRANSLATE"))
    assert names() == [], "what is not bound is not checked"
    _, problems = load_endpoints(tmp_path, dataclasses.replace(RULES, standard=("TRANSLATE",)))
    assert "handler is missing" in problems[0].message
    (tmp_path / "b.toml").unlink()
    (tmp_path / "a.toml").write_text("provider = 1\n" + translating)
    _, (problem,) = load_endpoints(tmp_path, RULES)
    assert (problem.message, problem.line) == ("TRANSLATE /{room_id}: provider must be true or false", 1)
    assert problem.hint == "write provider = true, or leave it out"


def test_ambiguous_endpoints_name_both(tmp_path: Path) -> None:
    """API-036: file and line of each; the first one stays."""
    (tmp_path / "a.toml").write_text(SOUND)
    (tmp_path / "b.toml").write_text("\n\n" + SOUND)
    (tmp_path / "c.toml").write_text(SOUND.replace("room_id", "other"))
    endpoints, problems = load_endpoints(tmp_path, RULES)
    assert [Path(endpoint.file).name for endpoint in endpoints] == ["a.toml"]
    assert [Path(problem.file).name for problem in problems] == ["b.toml", "c.toml"]
    assert all("a.toml:1" in problem.hint for problem in problems)
    assert "registered twice" in problems[0].message
    assert "match the same requests" in problems[1].message


def test_what_cannot_be_read_is_reported(tmp_path: Path) -> None:
    """A missing directory, an odd file: problems, not tracebacks."""
    assert load_endpoints(tmp_path / "none", RULES)[1][0].message.endswith("is not a directory")
    (tmp_path / "odd.toml").mkdir()
    (tmp_path / "latin.toml").write_bytes(b'method = "BOOK"\npath = "/\xe9"\n')
    (tmp_path / "vast.toml").write_bytes(b"#" * (1 << 20) + b"\n")
    _, problems = load_endpoints(tmp_path, RULES)
    found = {Path(problem.file).name: problem for problem in problems}
    assert "cannot be read" in found["odd.toml"].message
    assert (found["latin.toml"].message, found["latin.toml"].line) == ("it is not UTF-8", 2)
    assert "octets" in found["vast.toml"].message
    assert read_endpoints(tmp_path / "gone.toml", "gone.toml", RULES)[1]


def test_every_problem_is_reported_at_once() -> None:
    """In the order of the file."""
    text = changed("method", 'method = "FROB"').replace("0.9", "9").replace("timeout = 5", "timeout = -1")
    _, problems = read(text)
    assert [problem.line for problem in problems] == [line_of(k) for k in ("method", "timeout", "confidence")]


@pytest.mark.parametrize("said", ['\'say """ once\'', "\"say ''' once\""])
def test_quotes_inside_a_text_move_no_line(said: str) -> None:
    """Three of them in a text of one line open none of several; what follows is reported where it stands."""
    text = changed("description", f"description = {said}").replace("confidence = 0.9", "confidence = 9")
    (problem,) = read(text)[1]
    assert problem.line == line_of("confidence")


def test_a_quoted_table_with_brackets_keeps_its_line() -> None:
    """The name of a table is no end of its header."""
    text = SOUND.replace(
        "[input_schema.properties]\n", "[input_schema.properties.'a[0]']\ntype = 5\n[input_schema.properties]\n"
    )
    (problem,) = read(text)[1]
    assert problem.line in (line_of("[input_schema.properties]"), line_of("[input_schema.properties]") + 1)


@settings(max_examples=200, deadline=None)
@given(
    at=st.integers(0, len(SOUND)),
    cut=st.integers(0, 40),
    new=st.one_of(st.text(max_size=20), st.sampled_from(["{}", "[]", "=", "[[endpoint]]", "\n[a.b]\n", "1", "nan"])),
)
def test_no_damage_to_a_file_makes_loading_raise(at: int, cut: int, new: str) -> None:
    """Whatever stands in a file, the answer is endpoints and problems with lines of the file."""
    text = SOUND[:at] + new + SOUND[at + cut :]
    endpoints, problems = read(text)
    assert endpoints or problems
    assert all(0 <= problem.line <= text.count("\n") + 1 and problem.message for problem in problems)


def acting(action: str, path: str = "/flights", method: str = "EXECUTE") -> str:
    """The sound file as an action."""
    text = SOUND.replace('"/rooms/{room_id}"', f'"{path}"').replace('method = "BOOK"', f'method = "{method}"', 1)
    return f"action = {action}\n{text}"


def test_an_action_is_declared(tmp_path: Path) -> None:
    """Core v08 section 7.2.8: an EXECUTE endpoint has a name that ``action`` calls it by, and 455 for its scopes."""
    (tmp_path / "a.toml").write_text(acting('"reserve-flight"'))
    (endpoint,), problems = load_endpoints(tmp_path, RULES)
    assert not problems
    assert (endpoint.action, endpoint.projection()["action"]) == ("reserve-flight", "reserve-flight")
    assert endpoint.bind(object()).scope_status == 455  # type: ignore[arg-type]
    (tmp_path / "b.toml").write_text(acting('"reserve-flight"', "/trains"))
    (one,), (problem,) = load_endpoints(tmp_path, RULES)
    assert "declared twice" in problem.message
    assert one.path == "/flights"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (acting("7"), "is not a valid name"),
        (acting('"Reserve Flight"'), "is not a valid name"),
        (acting('"mcp.tools.call"'), "begins with the name of a framework"),
        (acting('"x"', method="BOOK"), "only with method EXECUTE"),
        (acting('"x"', "/rooms/{room_id}"), "parameters in its path"),
    ],
)
def test_a_wrong_action_is_told(tmp_path: Path, text: str, said: str) -> None:
    """A name of no form, one of a framework's, one of another method's, one with a path that it cannot fill."""
    (tmp_path / "a.toml").write_text(text)
    endpoints, problems = load_endpoints(tmp_path, RULES)
    assert not endpoints
    assert any(said in problem.message for problem in problems)


def test_every_place_where_a_schema_breaks_its_dialect_is_told() -> None:
    """The metaschema words them all, each with its path and line; the compiler stops at one."""
    text = changed("nights", 'nights = { type = "integr", minimum = "1" }')
    endpoints, problems = read(text)
    assert endpoints == []
    said = "\n".join(str(problem) for problem in problems)
    for pointer in ("/properties/nights/type", "/properties/nights/minimum"):
        assert f"{pointer}: breaks the dialect" in said, said
    lines = {problem.line for problem in problems if "breaks the dialect" in problem.message}
    assert text[: text.index("nights =")].count("\n") + 1 in lines


def test_an_endpoint_says_that_a_person_approves_its_calls() -> None:
    """``required``, or nothing; by ``[approvals] irreversible`` what is irreversible does without saying so."""
    declared = sound('approval = "required"\n' + SOUND)
    assert declared.approval and declared.projection()["approval"] == "required"
    binding = declared.bind(object(), ["a" * 64])  # type: ignore[arg-type]
    assert binding.approval and binding.details["approval"] == "required"
    assert not sound(SOUND).approval and "approval" not in sound(SOUND).projection()
    rules = dataclasses.replace(RULES, irreversible_approved=True)
    for impact, expected in (("irreversible", True), ("reversible", False), ("informational", False)):
        assert sound(changed("impact", f'impact = "{impact}"'), rules).approval is expected
    for value, shown in (('"optional"', "'optional'"), ("true", "True"), ("1", "1")):
        endpoints, (problem, *_) = read(f"approval = {value}\n" + SOUND)
        assert endpoints == [] and problem.message.endswith(f"approval has the unknown value {shown}")
    _, (problem, *_) = read('approval = "required"\n' + changed("min_assurance", 'min_assurance = "none"'))
    assert "min_assurance is none, but an approval needs a known caller" in problem.message
