"""Collections over TLS: the draft's use cases of FETCH, SEARCH, SCAN, REGISTER, IMPORT, LINK, EMBED, SYNC and FIND."""

from __future__ import annotations

from tests.system.pages import playing, steps
from tests.system.standard.hosted import Standard
from tests.system.standard.paged import played


def test_a_contract_is_kept_until_it_is_analysed(standard: Standard) -> None:
    """METH-001, METH-021, METH-031, METH-036: entered, fetched, related and embedded; who may not read sees nothing."""
    entered = standard.result("REGISTER", {"entity_type": "contracts", "data": {"title": "Lease"}})
    name = entered["resource_id"]
    found = standard.result("FETCH", {"resource_id": name}, by="archivist")
    assert found["content"] == {"title": "Lease"}
    since = {"resource_id": name, "if_modified_since": found["last_modified"]}
    assert "content" not in standard.result("FETCH", since)
    assert standard.ask("FETCH", {"resource_id": name}, by="stranger").status == 404
    model = standard.result("REGISTER", {"entity_type": "orders", "data": {"score": 3}})["resource_id"]
    link = {"source": model, "target": name, "relationship": "scores"}
    assert standard.result("LINK", link)["link_id"] and standard.ask("LINK", link).status == 409
    embed = {"source": model, "target": name, "binding": "risk"}
    assert standard.result("EMBED", embed)["binding"] == "risk" and standard.ask("EMBED", embed).status == 409
    assert standard.result("FETCH", {"resource_id": f"{name}/risk"})["content"] == {"score": 3}


def test_orders_are_imported_searched_and_scanned(standard: Standard) -> None:
    """METH-002, METH-003, METH-033: CSV in, orders of an amount out, and all of them page by page."""
    text = "id,buyer,amount\n" + "".join(f"tls-{n},Ada,{n}\n" for n in range(40))
    imported = standard.result("IMPORT", {"target": "orders", "source": text, "format": "csv"})
    assert imported["records"] == imported["created"] == 40
    found = standard.result("SEARCH", {"query": {"buyer": "Ada"}, "scope": "orders", "sort": "-id", "limit": 3})
    assert found["total"] == 40 and [each["id"] for each in found["results"]] == ["tls-9", "tls-8", "tls-7"]
    seen, cursor = [], {}
    while cursor is not None:
        page = standard.result("SCAN", {"collection": "orders", "filter": {"buyer": "Ada"}, "page_size": 15, **cursor})
        seen += [item["id"] for item in page["items"]]
        cursor = {"cursor": page["cursor"]} if page["cursor"] else None
    assert len(seen) == len(set(seen)) == 40


def test_purchase_orders_of_a_csv_are_chained_to_a_report(standard: Standard) -> None:
    """METH-067: the draft's use cases of IMPORT, SEARCH and CHAIN in one call, with the right number of orders."""
    amounts = (900, 50000, 50001, "61000.50", 70000)
    text = "id,amount,zip\n" + "".join(f"chain-{n},{amount},0106{n}\n" for n, amount in enumerate(amounts))
    over = {"all": [{"amount": {"gt": 50000}}, {"zip": {"starts_with": "0106"}}]}
    steps = [
        {"method": "IMPORT", "parameters": {"target": "orders", "source": text, "format": "csv"}},
        {"method": "SEARCH", "parameters": {"query": over, "scope": "orders", "sort": "-amount"}, "capture": "found"},
        {"method": "ANALYZE", "parameters": {"target": "=found.results"}, "capture": "read"},
        {
            "method": "REPORT",
            "parameters": {"report_type": "orders", "recipient": "operator", "scope": {"rows": "=read.findings"}},
        },
    ]
    chain = standard.result("CHAIN", {"steps": steps, "context_propagation": True})
    imported, found, read, report = (step["result"] for step in chain["steps"])
    assert imported["columns"] == {"id": "text", "amount": "number", "zip": "text"}
    assert [each["data"]["amount"] for each in found["results"]] == [70000, 61000.5, 50001]
    assert read["examined"] == {"rows": 3, "members": ["amount"]} and report["delivered"] == 1
    told = standard.result("SEARCH", {"query": {"amount": {"gt": "50000"}}, "scope": "orders"})
    assert told["total"] == 0 and told["warnings"][0]["member"] == "amount"


def test_rooms_are_synchronized_with_what_has_them(standard: Standard) -> None:
    """METH-032: by an endpoint of the host, whose call is on record by itself."""
    synced = standard.result("SYNC", {"resource": "rooms", "remote": "library"})
    assert synced["changes"]["created"] == 2
    assert standard.result("FETCH", {"resource_id": "rooms/blue"})["content"] == {"seats": 8}
    assert standard.ask("SYNC", {"resource": "rooms", "remote": "https://elsewhere.example/"}).status == 404
    called = standard.result("SEARCH", {"query": {"path": "/stock"}, "scope": "records"})
    assert called["total"] == 1


def test_an_agent_is_found(standard: Standard) -> None:
    """METH-005: by words, and by a method that it has to offer."""
    (entity,) = standard.result("FIND", {"criteria": {"methods": ["QUERY"]}, "namespace": "agents"})["entities"]
    assert entity["name"] == "librarian"
    assert standard.ask("FIND", {"criteria": {"governance_zone": "zone:nowhere"}}).status == 404


def test_the_page_shows_what_the_commands_say(standard: Standard) -> None:
    """The pages on the standard methods: each command of them, with its exit status and every line of its output."""
    pages = ("standard-methods.rst", "checks-and-quotes.rst", "collections.rst")
    every = [step for page in pages for step in steps(page)]
    assert len(every) >= 8
    with playing(every) as player:
        played(player, every, standard)


def test_a_reload_takes_methods_and_collections(standard: Standard) -> None:
    """A collection that is added is there with the reload, and one that is taken away waits for the next."""
    text = standard.config.read_text(encoding="utf-8")
    register = {"entity_type": "late", "data": {"id": "first"}}
    assert standard.ask("REGISTER", register).status == 404
    for present, before in ((True, 404), (False, 404), (True, 200)):
        added = '\n[[methods.collection]]\nname = "late"\n' if present else ""
        standard.config.write_text(text + added, encoding="utf-8")
        done = standard.host.agtp("reload")
        assert done.returncode == 0, done.stdout + done.stderr
        assert standard.ask("FETCH", {"resource_id": "late/first"}).status == before
        assert standard.ask("REGISTER", register).status == ((200 if before == 404 else 409) if present else 404)
    assert standard.result("FETCH", {"resource_id": "late/first"})["version"] == 1
    standard.config.write_text(text, encoding="utf-8")
    assert standard.host.agtp("reload").returncode == 0
