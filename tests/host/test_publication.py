"""The manifest as published: signed, encoded once, and with versions that move exactly when the content does."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.python.failure import Failure

from agtphost.contract.binding import Binding
from agtphost.contract.manifest import content_digest, verify_manifest
from agtphost.contract.manifest_parts import merge_parts, next_part
from agtphost.contract.manifest_validation import examine
from agtphost.errors import Refusal
from agtphost.handlers.context import EndpointResponse
from agtphost.host.host_loader import LoadedHost, load_host
from agtphost.host.publication import HISTORY, ManifestForm, Publication
from agtphost.host.publication_history import PublicationHistory
from agtphost.host.transports import OfferedTransports
from agtphost.identity import files
from agtphost.identity.agents import Agent
from agtphost.identity.jws import JWSError
from agtphost.vocabulary.steps import run_to_end
from tests.dispatch.hosts import Recorder
from tests.host.hosts import configured, reloaded
from tests.measuring import measured
from tests.methods.hosts import Toolbox
from tests.test_parser_bounds import limit


def ticking() -> Callable[[], str]:
    """A clock that never says the same twice."""
    seconds = count()
    return lambda: f"2026-06-01T00:00:{next(seconds):02d}Z"


def make_publication(
    loaded: LoadedHost,
    box: Toolbox | None = None,
    now: Callable[[], str] | None = None,
    hosted: Callable[[], Sequence[Agent]] | None = None,
    transports: Callable[[], tuple[Mapping[str, Any], ...]] = tuple,
) -> Publication:
    """A publication as the assembly builds it."""
    return Publication(
        loaded.config,
        catalog=loaded.catalog,
        policy=loaded.policy,
        endpoints=loaded.endpoints,
        built_ins=tuple,
        adapters=() if box is None else (box,),
        hosted=hosted or loaded.directory.list_hosted,
        key=loaded.key,
        history=PublicationHistory(loaded.config.host.state_dir / HISTORY, now or ticking()),
        clock=Turns(),
        transports=transports,
    )


class Turns(Clock):
    """Time stands still; what is due runs a turn at a time, as a reactor runs it."""

    def turn(self) -> None:
        """What was due before, and not what comes of it."""
        due, self.calls = self.calls, []
        for call in due:
            call.func(*call.args, **call.kw)


def form(
    publication: Publication, disclosed: bool = True, known: bool = False, *, turns: list[float] | None = None
) -> ManifestForm:
    """What is asked for, once it is there; ``turns`` gets the seconds of CPU of each turn of the reactor."""
    outcomes: list[ManifestForm | Failure] = []
    taken = [] if turns is None else turns
    begun = time.thread_time()
    Deferred.fromCoroutine(publication.find_form(disclosed, known)).addBoth(outcomes.append)
    taken.append(time.thread_time() - begun)
    while not outcomes:
        begun = time.thread_time()
        publication._clock.turn()  # type: ignore[attr-defined]
        taken.append(time.thread_time() - begun)
    if isinstance(outcomes[0], Failure):
        outcomes[0].raiseException()
    return outcomes[0]


def serve_manifest(publication: Publication, disclosed: bool = True) -> EndpointResponse:
    """The manifest as it is sent."""
    return form(publication, disclosed).response


def document(publication: Publication, disclosed: bool = True) -> Mapping[str, Any]:
    """The manifest as a reader of the octets has it."""
    octets = serve_manifest(publication, disclosed).body
    assert octets is not None
    found: Mapping[str, Any] = json.loads(octets)
    assert found == form(publication, disclosed).document
    return found


def restart_publication(loaded: LoadedHost, append: str = "") -> Publication:
    """The publication of a host that starts again, with more in its configuration."""
    file = loaded.config.file
    file.write_text(file.read_text() + append)
    return make_publication(load_host(reloaded(file)))


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedHost:
    return load_host(configured(tmp_path))


def version(manifest: Any) -> tuple[str, str, str]:
    """Version, first issue and last change."""
    return manifest["document_version"], manifest["server"]["issued"], manifest["server"]["updated"]


def a_tool(name: str, description: str = "Does it.") -> Binding:
    return Binding(method="EXECUTE", path="files", handler=Recorder(), tier="B", name=name, description=description)


def test_the_manifest_is_signed_by_the_hosts_key(loaded: LoadedHost) -> None:
    """API-081: the signature verifies with the host's key, covers every member, and fails with another key."""
    manifest = dict(document(make_publication(loaded)))
    assert loaded.key is not None
    keys = {loaded.key.kid: loaded.key.public}
    verify_manifest(manifest, keys)
    for changed in ("server", "directory", "policies"):
        with pytest.raises(JWSError):
            verify_manifest({**manifest, changed: {}}, keys)
    with pytest.raises(JWSError):
        verify_manifest(manifest, {})
    assert manifest["server"]["signing_keys"][0]["kid"] == loaded.key.kid


def test_a_complete_manifest_is_sound(tmp_path: Path) -> None:
    """API-072 to 077: everything that can be configured is shown, and the validator has nothing to say."""
    config = configured(
        tmp_path,
        edit=(('agent_disclosure = "public"', 'agent_disclosure_notice = "Ask."\nmethods.custom = ["PRESCRIBE"]'),),
        append=(
            '\n[manifest]\ndomain = "agents.example"\n'
            '[[api]]\nname = "shop"\nbase_url = "https://shop.example/v1"\nopenapi_url = "https://shop.example/o.json"\n'
            '[[data_class]]\nname = "location"\ndescription = "Where."\nformats = ["json"]\n'
        ),
    )
    box = Toolbox()
    box.hosted_protocols = lambda: [{"protocol": "MCP", "method": "EXECUTE", "path": "/mcp/files"}]  # type: ignore[method-assign]
    manifest = document(make_publication(load_host(config), box))
    assert [finding for finding in examine(manifest) if finding.fault] == []
    assert manifest["custom_methods"] == ["PRESCRIBE"]
    assert manifest["server"]["domain"] == "agents.example"
    assert manifest["agent_disclosure_notice"] == "Ask."
    assert manifest["apis"] == [
        {"name": "shop", "base_url": "https://shop.example/v1", "openapi_url": "https://shop.example/o.json"}
    ]
    assert "location" in [each["class"] for each in manifest["data_manifest"]["available_data"]]
    (protocol,) = manifest["hosted_protocols"]
    assert (protocol["protocol"], protocol["method"], protocol["path"]) == ("MCP", "EXECUTE", "/mcp/files")
    assert manifest["server"]["supported_features"] == ["endpoint-registry", "mcp", "synthesis", "signed-manifest"]


def test_transports_are_stated_where_there_is_a_choice(loaded: LoadedHost) -> None:
    """Spec reading 73: both carriers, signed, while QUIC listens; without it not an octet differs from before."""
    offered = OfferedTransports()
    publication = make_publication(loaded, transports=offered.entries)
    before = serve_manifest(publication).body
    assert "transports" not in document(publication)
    assert before == serve_manifest(make_publication(loaded)).body
    number = publication.api_version
    offered.offer(4480, 4481)
    shown = document(publication)
    assert shown["transports"] == [
        {"carrier": "tls", "port": 4480},
        {"carrier": "quic", "port": 4481, "alpn": "agtp"},
    ]
    assert loaded.key is not None
    keys = {loaded.key.kid: loaded.key.public}
    verify_manifest(shown, keys)
    with pytest.raises(JWSError):
        verify_manifest({**shown, "transports": []}, keys)
    assert [finding for finding in examine(shown) if finding.fault] == []
    assert publication.api_version == number  # What can be called is the same,
    assert before is not None
    assert shown["document_version"] != json.loads(before)["document_version"]  # and the document another.
    offered.offer(0, 4481)  # TLS at a socket that is none of TCP
    assert document(publication)["transports"][0] == {"carrier": "tls"}


def test_features_are_those_the_host_has(tmp_path: Path) -> None:
    """AGTP-API section 8.3: no MCP server, no key, no synthesis: none of them is claimed."""
    without = (("synthesis_enabled = true", "synthesis_enabled = false"),)
    config = configured(tmp_path, edit=without, append="\n[audit]\nsigning = false\n")
    manifest = document(make_publication(load_host(config)))
    assert manifest["server"]["supported_features"] == ["endpoint-registry"]


def test_the_same_content_keeps_its_version_over_restarts(loaded: LoadedHost) -> None:
    """API-073, API-085: a restart changes neither version, times, ETag nor a single octet."""
    clock = ticking()
    first = make_publication(loaded, now=clock)
    before = version(document(first))
    again = make_publication(load_host(reloaded(loaded.config.file)), now=clock)
    assert version(document(again)) == before
    assert serve_manifest(again, True).body == serve_manifest(first, True).body
    assert serve_manifest(again, True).headers == serve_manifest(first, True).headers


def test_changed_content_gets_the_next_version(loaded: LoadedHost) -> None:
    """API-073, API-085: a changed endpoint moves version, ``updated`` and ETag; ``issued`` and server_id stay."""
    clock = ticking()
    before = make_publication(loaded, now=clock)
    first, tag = document(before), serve_manifest(before, True).headers[0]
    (loaded.config.file.parent / "endpoints" / "text.toml").unlink()
    after = make_publication(load_host(reloaded(loaded.config.file)), now=clock)
    second = document(after)
    assert second["document_version"] != first["document_version"]
    assert second["server"]["issued"] == first["server"]["issued"]
    assert second["server"]["server_id"] == first["server"]["server_id"]
    assert second["server"]["updated"] > first["server"]["updated"]
    assert serve_manifest(after, True).headers[0] != tag


def test_a_version_is_never_used_for_two_contents(loaded: LoadedHost) -> None:
    """Going back to an earlier content still takes a new document_version, ETag and AGTP-API-Version."""
    clock = ticking()
    text = loaded.config.file.parent / "endpoints" / "text.toml"
    content = text.read_text()
    seen = []
    for change in (lambda: None, text.unlink, lambda: text.write_text(content)):
        change()
        publication = make_publication(load_host(reloaded(loaded.config.file)), now=clock)
        seen.append(
            (document(publication)["document_version"], serve_manifest(publication).headers[0], publication.api_version)
        )
    versions, tags, numbers = zip(*seen, strict=True)
    assert (len(set(versions)), len(set(tags)), list(numbers)) == (3, 3, [1, 2, 3])


def test_the_two_forms_are_two_documents(loaded: LoadedHost) -> None:
    """API-075: with and without the hosted agents: different contents never share a version or an ETag."""
    publication = make_publication(loaded)
    open_form, reserved = document(publication, True), document(publication, False)
    assert open_form["document_version"] != reserved["document_version"]
    assert serve_manifest(publication).headers[0] != serve_manifest(publication, False).headers[0]
    assert "librarian" in str(open_form)
    assert loaded.directory.list_hosted()[0].agent_id not in str(reserved)


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        ((), "max-age=300"),
        ((('agent_disclosure = "public"', 'agent_disclosure = "private"'),), "max-age=300"),
        ((('agent_disclosure = "public"', 'agent_disclosure = "authenticated"'),), "private, max-age=300"),
        ((('agent_disclosure = "public"', "anonymous_discovery = false"),), "private, max-age=300"),
    ],
)
def test_cache_headers(tmp_path: Path, edit: tuple[tuple[str, str], ...], expected: str) -> None:
    """API-085: Cache-Control from the configuration, private where the answer depends on who asks; a strong ETag."""
    headers = dict(serve_manifest(make_publication(load_host(configured(tmp_path, edit=edit))), False).headers)
    assert headers["Cache-Control"] == expected
    assert headers["ETag"].startswith('"')
    assert headers["ETag"].endswith('"')


def test_max_age_is_configured(tmp_path: Path) -> None:
    """API-085: ``[manifest] max_age``."""
    config = configured(tmp_path, append="\n[manifest]\nmax_age = 5\n")
    assert dict(serve_manifest(make_publication(load_host(config))).headers)["Cache-Control"] == "max-age=5"


def test_a_private_host_shows_no_agent(tmp_path: Path) -> None:
    """API-075: whoever asks."""
    edit = (('agent_disclosure = "public"', 'agent_disclosure = "private"'),)
    publication = make_publication(load_host(configured(tmp_path, edit=edit)))
    assert document(publication, True)["hosted_agents"] == document(publication, False)["hosted_agents"] == []


# Caching


def many(loaded: LoadedHost, number: int) -> LoadedHost:
    """The same host with so many endpoints."""
    endpoint = loaded.endpoints[0]
    endpoints = [dataclasses.replace(endpoint, path=f"/generated/{n}") for n in range(number)]
    return dataclasses.replace(loaded, endpoints=endpoints)


def test_a_thousand_endpoints_are_encoded_once(loaded: LoadedHost) -> None:
    """The manifest of 1,000 endpoints is served from a cache: the very same octets, one build for each form."""
    publication = make_publication(many(loaded, 1000))
    answers = [serve_manifest(publication) for _ in range(50)]
    assert all(answer is answers[0] for answer in answers)
    assert len(document(publication)["endpoints"]) == 1000
    serve_manifest(publication, False)
    assert publication.builds == 2


@measured
def test_with_5000_endpoints_and_agents_a_change_of_state_holds_nobody_up(loaded: LoadedHost) -> None:
    """Of 13 MB, agents and signature are new after each change; no turn is long, and who was stopped is not in it."""
    (agent, *_) = loaded.directory.list_hosted()
    hosted = [
        dataclasses.replace(agent, agent_id=f"{number:064x}", name=f"a{number}", genesis=None) for number in range(5000)
    ]
    publication = make_publication(many(loaded, 5000), hosted=lambda: hosted)
    publication.announce_to(lambda number: None)
    form(publication)
    longest = []
    for _ in range(3):
        stopped = hosted.pop()
        publication.drop_forms()
        turns: list[float] = []
        made = form(publication, turns=turns)
        longest.append(max(turns))
        octets = made.response.body
        assert octets is not None and len(octets) > 10_000_000
        assert stopped.agent_id.encode() not in octets
    print([f"{seconds * 1000:.1f} ms" for seconds in longest])
    assert min(longest) < limit()
    found = json.loads(octets)
    assert found == made.document
    assert (len(found["endpoints"]), len(found["hosted_agents"])) == (5000, len(hosted))
    assert loaded.key is not None
    verify_manifest(found, {loaded.key.kid: loaded.key.public})


def test_who_asks_after_a_change_is_not_told_what_was_being_built(loaded: LoadedHost) -> None:
    """Who asked before it may be; of those who ask meanwhile, each has the agents of a moment after its question."""
    hosted = list(loaded.directory.list_hosted())
    publication = make_publication(many(loaded, 3000), hosted=lambda: tuple(hosted))
    publication.announce_to(lambda number: None)
    outcomes: list[ManifestForm] = []
    for _ in range(2):
        Deferred.fromCoroutine(publication.find_form(True)).addCallback(outcomes.append)
    assert not outcomes, "it takes more than a turn"
    gone = hosted.pop()
    publication.drop_forms()
    Deferred.fromCoroutine(publication.find_form(True)).addCallback(outcomes.append)
    while len(outcomes) < 3:
        publication._clock.turn()  # type: ignore[attr-defined]
    shown = [gone.name in {each["name"] for each in outcome.document["hosted_agents"]} for outcome in outcomes]
    assert shown == [True, False, False]
    assert outcomes[1] is outcomes[2] is form(publication)
    assert publication.builds == 2


@measured
def test_what_a_manifest_costs_does_not_grow_with_the_endpoints(loaded: LoadedHost) -> None:
    """Serving the manifest of 1,000 endpoints takes no longer than that of 10, the octets aside."""

    def cost(publication: Publication) -> float:
        serve_manifest(publication)
        rounds = []
        for _ in range(5):
            began = time.process_time()
            for _ in range(400):
                serve_manifest(publication)
            rounds.append(time.process_time() - began)
        return min(rounds)

    few, lots = make_publication(many(loaded, 10)), make_publication(many(loaded, 1000))
    assert cost(lots) < 5 * cost(few) + 0.01


def test_a_manifest_encoded_anew_would_be_noticed(loaded: LoadedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: a publication that forgets its forms builds other octets objects each time, and counts them."""
    publication = make_publication(loaded)
    first = serve_manifest(publication)
    monkeypatch.setattr(publication, "_forms", {})
    second = serve_manifest(publication)
    assert second.body is not first.body
    assert publication.builds == 2


# AGTP-API-Version


def test_the_api_version_is_a_number_that_outlives_the_host(loaded: LoadedHost) -> None:
    """AGTP-269: 1 at first, announced once, and the same after a restart without changes."""
    heard: list[int] = []
    publication = make_publication(loaded)
    publication.announce_to(heard.append)
    publication.refresh()
    assert heard == [publication.api_version] == [1]
    assert restarted_number(loaded) == 1


def restarted_number(loaded: LoadedHost, append: str = "") -> int:
    heard: list[int] = []
    restart_publication(loaded, append).announce_to(heard.append)
    return heard[-1]


def test_what_raises_the_api_version(loaded: LoadedHost) -> None:
    """AGTP-269: a new endpoint, a changed semantic block, a custom method and a data class each raise it."""
    make_publication(loaded).refresh()
    endpoints = loaded.config.file.parent / "endpoints"
    text = endpoints / "text.toml"
    content = text.read_text()
    numbers = [1]
    text.write_text(content.replace('intent = "', 'intent = "Now: ', 1))
    assert text.read_text() != content
    numbers.append(restarted_number(loaded))
    text.unlink()
    numbers.append(restarted_number(loaded))
    text.write_text(content)
    numbers.append(restarted_number(loaded))
    numbers.append(restarted_number(loaded, '\n[[data_class]]\nname = "location"\n'))
    file = loaded.config.file
    file.write_text(file.read_text().replace("[policies]\n", '[policies]\nmethods.custom = ["PRESCRIBE"]\n', 1))
    numbers.append(restarted_number(loaded))
    assert numbers == [1, 2, 3, 4, 5, 6]


def test_what_does_not_raise_the_api_version(loaded: LoadedHost) -> None:
    """The control of AGTP-269: operator and fronted APIs change the document, and not what can be called."""
    first = make_publication(loaded)
    before = document(first)["document_version"]
    again = restart_publication(loaded, '\n[[api]]\nname = "shop"\nbase_url = "https://shop.example/"\n')
    assert document(again)["document_version"] != before
    assert again.api_version == first.api_version == 1


def test_the_state_of_an_upstream_is_no_content(loaded: LoadedHost) -> None:
    """A tool server that restarts moves neither version: what was last known of it is shown."""
    box = Toolbox(a_tool("files.list"))
    publication = make_publication(loaded, box)
    first = serve_manifest(publication)
    tools, box.bound, box.state = box.bound, (), "backoff"
    assert serve_manifest(publication) is first
    box.bound, box.state = tools, "ready"
    assert serve_manifest(publication) is first
    assert publication.api_version == 1
    assert "ready" not in str(document(publication)["hosted_protocols"])


def test_an_upstream_that_is_not_up_yet_is_as_before_the_restart(loaded: LoadedHost) -> None:
    """AGTP-269: a restart with slow tool servers is no change; neither is their coming up."""
    publication = make_publication(loaded, Toolbox(a_tool("files.list")))
    publication.refresh()
    box = Toolbox()
    box.state = "starting"
    again = make_publication(load_host(reloaded(loaded.config.file)), box)
    heard: list[int] = []
    again.announce_to(heard.append)
    box.bound, box.state = (a_tool("files.list"),), "ready"
    again.refresh()
    assert heard == [1]


def test_changed_tools_move_both_versions_while_the_host_runs(loaded: LoadedHost) -> None:
    """AGTP-269: a new tool, and another definition of a known one; each is announced, and the manifest is new."""
    box = Toolbox(a_tool("files.list"))
    publication = make_publication(loaded, box)
    heard: list[int] = []
    publication.announce_to(heard.append)
    versions = [document(publication)["document_version"]]
    for tools in ((a_tool("files.list"), a_tool("files.read")), (a_tool("files.list"), a_tool("files.read", "Other."))):
        box.bound = tools
        publication.refresh()
        versions.append(document(publication)["document_version"])
    assert heard == [1, 2, 3]
    assert len(set(versions)) == 3
    box.bound = tuple(dataclasses.replace(tool) for tool in box.bound)
    publication.refresh()
    assert heard == [1, 2, 3], "the same definitions, listed again"


def test_a_number_that_cannot_be_written_is_not_seen(loaded: LoadedHost, monkeypatch: pytest.MonkeyPatch) -> None:
    """AGTP-268 in spirit: with a full disk the old number stays, and the next look tries again."""
    box = Toolbox(a_tool("files.list"))
    publication = make_publication(loaded, box)
    heard: list[int] = []
    publication.announce_to(heard.append)

    def full(*_: object) -> None:
        raise OSError("No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(files, "replace", full)
        box.bound = ()
        publication.refresh()
        assert heard == [1]
        with pytest.raises(Refusal) as refused:
            serve_manifest(publication)
        assert (refused.value.status, refused.value.reason) == (503, "manifest-unavailable")
    publication.refresh()
    assert heard == [1, 2]


# The rest


def test_the_history_is_private_and_replaced_whole(loaded: LoadedHost) -> None:
    """What was published when is for the host alone."""
    serve_manifest(make_publication(loaded))
    history = loaded.config.host.state_dir / HISTORY
    assert history.stat().st_mode & 0o077 == 0


def test_an_unsigned_host_publishes_an_unsigned_manifest(tmp_path: Path) -> None:
    """API-082: without a key the member is null, and verification says so."""
    manifest = document(make_publication(load_host(configured(tmp_path, append="\n[audit]\nsigning = false\n"))))
    assert manifest["manifest_signature"] is None
    with pytest.raises(JWSError):
        verify_manifest(manifest, {})


def test_the_directory_is_part_of_what_is_signed_and_counted(loaded: LoadedHost) -> None:
    """Spec reading 35: the manifest carries the directory; a host with another one has another content."""
    manifest = document(make_publication(loaded))
    assert {"path": "/methods", "tier": "A"} in manifest["directory"]
    assert content_digest(manifest) != content_digest({**manifest, "directory": []})


CLASS = """
[[data_class]]
name = "reservation"
description = "Booking records."
formats = ["json"]
sensitivity = "high"
"""


def test_strangers_are_told_less_of_data_classes(loaded: LoadedHost) -> None:
    """AGIS-058: two forms, each with its own ETag; the full one is for no shared cache, and counts no version."""
    publication = restart_publication(loaded, CLASS)
    publication.refresh()
    version = publication.api_version
    forms = [form(publication, True, known) for known in (False, True)]
    shown = [form.document["data_manifest"]["available_data"] for form in forms]
    shown = [[each for each in listed if each["class"] == "reservation"] for listed in shown]
    assert shown[0] == [{"class": "reservation", "description": "Booking records.", "formats": ["json"]}]
    assert shown[1] == [{**shown[0][0], "sensitivity": "high", "requires_authorization": False}]
    heads = [dict(form.response.headers) for form in forms]
    assert heads[0]["ETag"] != heads[1]["ETag"]
    assert "private" not in heads[0]["Cache-Control"] and "private" in heads[1]["Cache-Control"]
    assert publication.api_version == version
    assert form(make_publication(loaded), True, True) is not None


def test_without_data_classes_there_is_one_form(loaded: LoadedHost) -> None:
    """Nothing is signed twice for the same content."""
    bare = dataclasses.replace(loaded, config=loaded.config.model_copy(update={"data_class": ()}))
    publication = make_publication(bare)
    assert form(publication, True, True) is form(publication, True, False)


# Parts


def ask(publication: Publication, part: str, disclosed: bool = True) -> EndpointResponse | Refusal:
    """What a reader gets who asks for a part."""
    outcomes: list[Any] = []
    Deferred.fromCoroutine(publication(disclosed, False, part)).addBoth(outcomes.append)
    while not outcomes:
        publication._clock.turn()  # type: ignore[attr-defined]
    found = outcomes[0]
    return found.value if isinstance(found, Failure) else found


def test_many_endpoints_are_published_in_signed_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part is a sound, signed manifest; together they have every endpoint; the first leads to the others."""
    monkeypatch.setattr("agtphost.host.publication.SINGLE_OCTETS", 100)
    monkeypatch.setattr("agtphost.contract.manifest_parts.split_items.__defaults__", (100,))
    loaded = load_host(configured(tmp_path))
    publication = make_publication(loaded)
    first = json.loads(serve_manifest(publication).body or b"")
    parts = [first]
    while token := next_part(parts[-1], len(parts), 0):
        answer = ask(publication, token)
        assert not isinstance(answer, Refusal)
        parts.append(json.loads(answer.body or b""))
    assert len(parts) > 1 and all(len(each["endpoints"]) >= 1 for each in parts)
    assert loaded.key is not None
    for each in parts:
        verify_manifest(each, {loaded.key.kid: loaded.key.public})
        assert [finding for finding in examine(each) if finding.fault] == []
    whole = merge_parts(parts)
    assert [(each["method"], each["path"]) for each in whole["endpoints"]] == [
        (each.method, each.path) for each in loaded.endpoints
    ]


def test_tokens_are_of_what_this_reader_is_shown_now(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody reads a part of the manifest of others, and a token of an earlier manifest says to begin again."""
    monkeypatch.setattr("agtphost.host.publication.SINGLE_OCTETS", 100)
    monkeypatch.setattr("agtphost.contract.manifest_parts.split_items.__defaults__", (100,))
    publication = make_publication(load_host(configured(tmp_path)))
    token = next_part(json.loads(serve_manifest(publication).body or b""), 1, 0)
    assert token is not None and not isinstance(ask(publication, token), Refusal)
    for asked, disclosed in ((token, False), ("0" * 36, True)):
        refused = ask(publication, asked, disclosed)
        assert isinstance(refused, Refusal) and refused.status == 422
        assert "DISCOVER / without part" in str(refused.remedy)


def test_parts_are_encoded_when_they_are_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is kept of a part behind the first has no octets of it; asked again, it is the same, and signed once."""
    monkeypatch.setattr("agtphost.host.publication.SINGLE_OCTETS", 100)
    monkeypatch.setattr("agtphost.contract.manifest_parts.split_items.__defaults__", (100,))
    loaded = load_host(configured(tmp_path))
    publication = make_publication(loaded)
    made = form(publication)
    assert loaded.key is not None
    tokens = list(made.further)
    assert len(tokens) > 1 and "body" not in vars(made.further[tokens[0]])
    first, second = ask(publication, tokens[0]), ask(publication, tokens[1])
    assert not isinstance(first, Refusal) and not isinstance(second, Refusal)
    assert ask(publication, tokens[1]) is second and ask(publication, tokens[0]) == first
    assert first.body != second.body
    # What was signed when it was built is not signed again, unless the host has another key by then.
    part = dataclasses.replace(made.further[tokens[0]], signature=b"\0" * 64)
    kept, other = (
        json.loads(run_to_end(each.encoding(loaded.key)).body or b"")["manifest_signature"].rpartition(".")[2]
        for each in (part, dataclasses.replace(part, kid="another"))
    )
    assert kept == "A" * 86 and other != kept
    verify_manifest(json.loads(first.body or b""), {loaded.key.kid: loaded.key.public})
