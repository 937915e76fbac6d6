"""The bootstrap document: core v08 section 6.1."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from agtphost.client.bootstrap import BootstrapPolicy, Bootstraps, HTTPAnswer
from agtphost.config.presence import NoPresence, bootstrap_facts
from agtphost.errors import ConfigurationError
from agtphost.http.bootstrap_document import DomainFacts, bootstrap_document, encode_document
from agtphost.vocabulary.uris import Form, parse
from tests.host.hosts import configured, reloaded
from tests.system.hosting import sample

FACTS: dict[str, Any] = {"domain": "acme.tld", "host": "agtp.acme.tld", "updated_at": "2026-04-30T00:00:00Z"}


def test_the_document_has_every_member() -> None:
    """AGTP-127: the draft's members, with what is known of each."""
    namespace = DomainFacts(**FACTS, dns_anchor="_agtp.acme.tld", issuer="https://ca.acme.tld")
    assert bootstrap_document(namespace) == {
        "agtp_version": "1.0",
        "endpoint": "agtp://agtp.acme.tld/agents",
        "namespace_root": "agtp://acme.tld/agents",
        "verification": {"dns_anchor": "_agtp.acme.tld", "log_anchor": None},
        "issuer": "https://ca.acme.tld",
        "discovery": {
            "namespace_document": "agtp://agtp.acme.tld/agents",
            "well_known_updated_at": "2026-04-30T00:00:00Z",
        },
    }
    assert json.loads(encode_document(namespace)) == bootstrap_document(namespace)


def test_the_root_has_the_port_of_a_domain_that_is_its_host() -> None:
    """AGTP-127: a URI below it leads to the host; a domain that another machine serves has no port of its own."""
    own = DomainFacts(**{**FACTS, "host": "acme.tld"}, port=4481)
    assert bootstrap_document(own)["namespace_root"] == "agtp://acme.tld:4481/agents"
    assert own.root == own.namespace
    assert DomainFacts(**FACTS, port=4481).root == "agtp://acme.tld/agents"


@pytest.mark.parametrize(
    ("port", "endpoint"), [(4480, "agtp://agtp.acme.tld/agents"), (4481, "agtp://agtp.acme.tld:4481")]
)
def test_our_client_reads_what_we_write(port: int, endpoint: str) -> None:
    """AGTP-127, AGTP-128: the endpoint is a URI of the grammar, and leads to host and port."""
    namespace = DomainFacts(**FACTS, port=port)
    assert namespace.endpoint == endpoint
    # Off the port of AGTP, too, the namespace document is named and not the server (core v08 section 6.1).
    document = parse(bootstrap_document(namespace)["discovery"]["namespace_document"])
    assert (document.form, document.host, document.port) == (Form.NAMESPACE, "agtp.acme.tld", port)
    bootstraps = Bootstraps(BootstrapPolicy())
    bootstraps.note("acme.tld", HTTPAnswer(status=200, body=encode_document(namespace)), 0.0)
    located = bootstraps.locate(parse("agtp://acme.tld/agents/desk"))
    assert (located.host, located.port, located.agent_name) == ("agtp.acme.tld", port, "desk")


def test_the_facts_come_from_the_configuration(tmp_path: Path) -> None:
    """AGTP-127: domains, anchors and port as configured; the time is that of the file."""
    config = configured(
        tmp_path,
        append='\n[manifest]\ndomain = "agtp.acme.tld"\n[wellknown]\ndomain = "acme.tld"\nport = 4480\n'
        'dns_anchor = "_agtp.acme.tld"\nlog_anchor = "https://log.acme.tld/"\nissuer = "https://ca.acme.tld"\n',
    )
    os.utime(config.file, (0, 0))
    assert bootstrap_facts(config) == {
        "domain": "acme.tld",
        "host": "agtp.acme.tld",
        "port": 4480,
        "dns_anchor": "_agtp.acme.tld",
        "log_anchor": "https://log.acme.tld/",
        "issuer": "https://ca.acme.tld",
        "updated_at": "1970-01-01T00:00:00Z",
    }


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ('server_id = "localhost"', 'server_id = "127.0.0.1"', "domain"),
        ('server_id = "localhost"', 'server_id = "agents:1"', "domain"),
        ('address = "127.0.0.1"\n', 'endpoint = "unix:socket"\n', "port"),
    ],
)
def test_what_is_not_told_is_asked_for(tmp_path: Path, old: str, new: str, word: str) -> None:
    """AGTP-127: no domain or no port is no document; a host that is to serve it does not start."""
    file = sample(tmp_path)
    text = file.read_text()
    if word == "port":
        text = re.sub("port = [0-9]+\n", "", text)
    assert old in text
    file.write_text(text.replace(old, new))
    with pytest.raises(NoPresence, match=word):
        bootstrap_facts(reloaded(file))
    file.write_text(file.read_text() + '\n[wellknown]\nlisten = "ssl:0:interface=127.0.0.1"\n')
    with pytest.raises(ConfigurationError, match=word):
        reloaded(file)
