"""
What the page computes in a browser, against what this program computes: one verdict on every record, good and bad.

Chains with lifecycle events in both envelopes, unsigned records and changes of the key; then each of them damaged in
every way that a seeded chance finds. The browser is Chromium, and its signatures are its own.
"""

from __future__ import annotations

import base64
import dataclasses
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import pytest
import rfc8785

from agtphost.audit import checkpoint, cosignature
from agtphost.audit.checkpoint import CheckpointError
from agtphost.audit.drafts import HOST_CHAIN, StoredRecord
from agtphost.audit.merkle import ProofError, Tree, leaf_hash, proof_from_texts, proof_to_texts, verify_inclusion
from agtphost.audit.verify import Verifier
from agtphost.identity import envelope, jws
from agtphost.identity.jws import JWSError
from agtphost.identity.key_ring import follow_statements
from agtphost.identity.keys import SigningKey, VerifyingKey
from agtphost.stores import Selection
from tests.audit.drafting import ALICE, BOB, sealed, transition
from tests.audit.test_successions import KEYS, Host
from tests.identity.samples import key_of
from tests.page.browser import Browser, shown
from tests.page.static_site import serving
from tests.programmes import length

SEED = 20261122
STRANGER = key_of("a stranger to the page")
WITNESS = key_of("a witness of the page")
PLACES = length(90, 270)
"""Of each record at which a bit is changed."""

UNREADABLE = b"\x00"
"""Of a text that stands for no octets at all."""


@pytest.fixture(scope="module")
def script() -> Iterator[str]:
    """Where a view has the page's script, and nothing else."""
    with serving({"/": "<p>Nothing to see.</p>"}) as address:
        yield f"{address}/"


@pytest.fixture
def browser(window: Browser, script: str) -> Browser:
    def opened() -> None:
        window.open(script)
        window.one("html[data-ready]")

    window.beginning(opened)
    return window


@pytest.fixture(autouse=True)
def nothing_left() -> None:
    """The page stays: all that these tests have of it is its script."""


@dataclass(kw_only=True)
class Case:
    """Records of one chain, oldest first, as INSPECT would list them."""

    what: str
    chain: str
    entries: list[dict[str, Any]]
    whole: bool = False
    keys: Sequence[VerifyingKey] = ()
    links: Sequence[Mapping[str, Any]] = ()
    unsigned: bool = field(default=False)

    def faults(self) -> list[tuple[int, str]]:
        """What this program finds: kinds by the record's place in the list."""
        verifier = Verifier(
            follow_statements(self.keys, list(self.links)), whole=self.whole, allow_unsigned=self.unsigned
        )
        found = set()
        for place, entry in enumerate(self.entries):
            before = len(verifier.finish().faults)
            stored = self._stored(entry)
            verifier.add(stored)
            kinds = {fault.kind.value for fault in verifier.finish().faults[before:]}
            if stored.signed == UNREADABLE:
                # There are no octets that could have a hash or a signature.
                kinds = kinds - {"hash", "signature"} | {"form"}
            found |= {(place, kind) for kind in kinds}
        return sorted(found)

    def _stored(self, entry: dict[str, Any]) -> StoredRecord:
        signed, previous = UNREADABLE, ""
        try:
            signed = envelope.from_text(entry["format"], entry[entry["format"]])
            previous = str(envelope.parse_unverified(entry["format"], signed).get("previous_audit_id", ""))
        except JWSError:
            pass
        return StoredRecord(
            chain=self.chain,
            seq=entry["seq"],
            audit_id=entry["audit_id"],
            previous_audit_id=previous,
            kind=entry["kind"],
            format=entry["format"],
            signed=signed,
        )

    def sent(self) -> dict[str, Any]:
        """For the browser."""
        return {
            "chain": self.chain,
            "entries": self.entries,
            "whole": self.whole,
            "unsigned": self.unsigned,
            "keys": [key.text for key in self.keys],
            "links": [dict(link) for link in self.links],
        }


JUDGE = """
const outcomes = [];
for (const one of arguments[0]) {
  const ring = await agtphost.evidence.ring_of(one.keys, one.links, "");
  const walk = new agtphost.evidence.Walk(ring, one.chain, one);
  const found = [];
  for (const [place, entry] of one.entries.entries()) {
    for (const fault of await walk.add(entry)) found.push([place, fault.kind]);
  }
  outcomes.push(found);
}
return outcomes;
"""


def judged(browser: Browser, cases: Sequence[Case]) -> list[list[tuple[int, str]]]:
    """What the browser finds in each."""
    found: list[list[tuple[int, str]]] = []
    for at in range(0, len(cases), 200):
        outcomes = browser.run(JUDGE, [case.sent() for case in cases[at : at + 200]])
        found += [sorted({(place, kind) for place, kind in outcome}) for outcome in outcomes]
    return found


def believable(found: Sequence[tuple[int, str]]) -> list[tuple[int, str]]:
    """Without links of records that nobody signed: how much of such a one can be read differs, and says nothing."""
    unread = {place for place, kind in found if kind in ("signature", "form")}
    return [(place, kind) for place, kind in found if kind != "link" or place not in unread]


def compare(browser: Browser, cases: Sequence[Case]) -> int:
    """Hold that both find the same in each case; how many have a fault."""
    expected = [case.faults() for case in cases]
    differ = [
        (case.what, theirs, ours)
        for case, theirs, ours in zip(cases, judged(browser, cases), expected, strict=True)
        if believable(theirs) != believable(ours)
    ]
    assert not differ, f"seed {SEED}: {len(differ)} of {len(cases)}, browser and program: {shown(differ[:10])}"
    return sum(bool(found) for found in expected)


def listed(record: StoredRecord) -> dict[str, Any]:
    return {
        "audit_id": record.audit_id,
        "format": record.format,
        record.format: envelope.to_text(record.format, record.signed),
        "kind": record.kind,
        "seq": record.seq,
    }


@pytest.fixture(scope="module", params=["jws", "cose"])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Host:
    """A store of some sixty records: three keys, events of both kinds."""
    made = Host(tmp_path_factory.mktemp(request.param), events=request.param)
    sealed(made.writer, transition(None, "suspended"), transition(None, "suspended", agent_id=BOB))
    sealed(made.writer, transition("suspended", "active", "agent-lifecycle-reinstated"))
    for _ in range(10):
        made.work()
    made.tree.catch_up()
    return made


def chains(host: Host) -> list[Case]:
    """Its chains, whole, with the first key and what followed it."""
    links = [dict(link.statement) for link in host.links]
    found = []
    for chain in (HOST_CHAIN, ALICE, BOB):
        records = [listed(record) for record in host.records(chain=chain)]
        records.sort(key=lambda entry: entry["seq"])
        case = Case(what=f"chain {chain[:4]}", chain=chain, entries=records, whole=True, keys=[KEYS[0].public])
        found.append(dataclasses.replace(case, links=links))
    return found


def flipped(text: str, chance: random.Random) -> str:
    """One of the lower seven bits of one character."""
    at = chance.randrange(len(text))
    return text[:at] + chr(ord(text[at]) ^ 1 << chance.randrange(7)) + text[at + 1 :]


def renamed(entry: dict[str, Any]) -> dict[str, Any]:
    """The entry under the Audit-ID of the octets that it has now, as a forger would put it."""
    try:
        octets = envelope.from_text(entry["format"], entry[entry["format"]])
    except JWSError:
        octets = entry[entry["format"]].encode()
    return {**entry, "audit_id": sha256(octets).hexdigest()}


def resigned(entry: dict[str, Any], chance: random.Random, key: SigningKey) -> dict[str, Any]:
    """The entry with one member of its payload changed or gone, signed again."""
    payload = dict(
        envelope.parse_unverified(entry["format"], envelope.from_text(entry["format"], entry[entry["format"]]))
    )
    name = chance.choice(["previous_audit_id", "agent_id", "issued_at", "event_type", "durable", "status", "new_key"])
    if name in payload and chance.random() < 0.3:
        del payload[name]
    else:
        payload[name] = chance.choice(["", "0" * 64, "2031-01-01T00:00:00.000Z", "1999-01-01T00:00:00.000Z", 7, None])
    text = jws.compact(jws.protected_header(key), rfc8785.dumps(payload), key)
    changed = {name: value for name, value in entry.items() if name != entry["format"]}
    return renamed({**changed, "format": "jws", "jws": text})


def damaged(case: Case, chance: random.Random, number: int) -> Iterator[Case]:
    """Each time one thing done to one record."""
    keys = [*KEYS, STRANGER]
    for _ in range(number):
        entries = [dict(entry) for entry in case.entries]
        at = chance.randrange(len(entries))
        entry = entries[at]
        form = entry["format"]
        what = chance.choice(
            ["flip", "flip", "flip and rename", "drop", "swap", "twice", "seq", "kind", "form", "sign", "id", "unsign"]
        )
        if what == "flip":
            entry[form] = flipped(entry[form], chance)
        elif what == "flip and rename":
            entry[form] = flipped(entry[form], chance)
            entries[at] = renamed(entry)
        elif what == "drop":
            del entries[at]
        elif what == "swap":
            other = chance.randrange(len(entries))
            entries[at], entries[other] = entries[other], entries[at]
        elif what == "twice":
            entries.insert(at, dict(entry))
        elif what == "seq":
            entry["seq"] += chance.choice([-1, 1, 7])
        elif what == "kind":
            entry["kind"] = "event" if entry["kind"] == "record" else "record"
        elif what == "form":
            entry[form] = entry[form][:-1] if chance.random() < 0.5 else entry[form] + "A"
        elif what == "sign":
            entries[at] = resigned(entry, chance, chance.choice(keys))
        elif what == "id":
            entry["audit_id"] = flipped(entry["audit_id"], chance)
        else:
            payload = envelope.parse_unverified(form, envelope.from_text(form, entry[form]))
            text = jws.compact(jws.protected_header(None), rfc8785.dumps(dict(payload)), None)
            entries[at] = renamed({**entry, "format": "jws", "jws": text})
        whole, unsigned = chance.random() < 0.7, chance.random() < 0.2
        yield dataclasses.replace(
            case, what=f"{case.what}: {what} at {at}", entries=entries, whole=whole, unsigned=unsigned
        )


@pytest.mark.release
def test_whole_chains_are_green_in_both(browser: Browser, host: Host) -> None:
    """The control of all that follows: nothing is wrong with what was not touched."""
    cases = chains(host)
    assert compare(browser, cases) == 0
    assert sum(len(case.entries) for case in cases) > 50
    browser.quiet()


@pytest.mark.programme
def test_every_verdict_is_the_programs(browser: Browser, host: Host) -> None:
    """Hundreds of damaged chains, a thousand at full length: the same records are named, for the same fault."""
    chance = random.Random(SEED)
    cases = [damage for case in chains(host) for damage in damaged(case, chance, length(57, 170))]
    assert compare(browser, cases) > length(133, 400)
    browser.quiet()


@pytest.mark.programme
def test_every_flipped_bit_is_red(browser: Browser, host: Host) -> None:
    """Each of three records with one bit changed, at hundreds of places: none of them passes."""
    chance = random.Random(SEED)
    cases = []
    for case in chains(host):
        entry = chance.choice(case.entries)
        for _ in range(PLACES):
            form = entry["format"]
            changed = {**entry, form: flipped(entry[form], chance)}
            cases.append(dataclasses.replace(case, what=f"seed {SEED}", entries=[changed], whole=False))
    passed = [case.what for case, found in zip(cases, judged(browser, cases), strict=True) if not found]
    assert passed == []
    assert len(cases) == 3 * PLACES


def test_keys_count_by_statements_alone(browser: Browser, host: Host) -> None:
    """Without the statements, with one forged, or from a stranger's key on, later records are not believed."""
    case = chains(host)[0]
    links = [dict(link.statement) for link in host.links]
    forged = [dict(links[0], new_signature=links[1]["new_signature"]), links[1]]
    red = [
        dataclasses.replace(case, what="no links", links=[], keys=[STRANGER.public]),
        dataclasses.replace(case, what="another key", links=[], keys=[KEYS[2].public], whole=False),
    ]
    assert compare(browser, red) == 2
    script = """
    try { await agtphost.evidence.ring_of(arguments[0], arguments[1], ""); return ""; }
    catch (error) { return error.message; }
    """
    assert "a signature of the statement of a key rotation does not match" in browser.run(
        script, [KEYS[0].public.text], forged
    )
    assert browser.run(script, [KEYS[0].public.text], links) == ""


def test_a_pinned_fingerprint_decides_which_key_counts(browser: Browser, host: Host) -> None:
    """That of any of the host's keys leads to all of them; a stranger's leads nowhere, whatever the host publishes."""
    links = [dict(link.statement) for link in host.links]
    script = """
    try { return [...(await agtphost.evidence.ring_of(arguments[0], arguments[1], arguments[2])).keys.keys()].sort() }
    catch (error) { return error.message }
    """
    published = [KEYS[2].public.text]
    everything = sorted(key.kid for key in KEYS)
    for key in KEYS:
        assert browser.run(script, published, links, key.public.fingerprint) == everything
    assert "but the sign-in link names" in browser.run(script, published, links, STRANGER.public.fingerprint)


# The tree


@dataclass(kw_only=True)
class Proven:
    """One record's place in the tree."""

    what: str
    audit_id: str
    index: int
    proof: Any
    note: str
    witnesses: Sequence[tuple[str, VerifyingKey]] = ()

    def holds(self) -> tuple[bool, list[str]]:
        """This program's word on the proof, and who cosigned."""
        try:
            found = checkpoint.verify(self.note, [key.public for key in KEYS])
            verify_inclusion(
                self.index,
                found.size,
                leaf_hash(bytes.fromhex(self.audit_id)),
                proof_from_texts(self.proof),
                found.root,
            )
        except (CheckpointError, ProofError):
            return False, []
        keys = [key for _, key in self.witnesses]
        return True, sorted(line.witness for line in cosignature.find_cosignatures(self.note, keys))


PROVE = """
const outcomes = [];
const ring = await agtphost.evidence.ring_of(arguments[1], arguments[2], "");
for (const one of arguments[0]) {
  try {
    const found = await agtphost.evidence.checkpoint_of(one.note, ring);
    await agtphost.evidence.included(one.audit_id, one.index, one.proof, found);
    const by = await agtphost.evidence.witnesses_of(found, one.witnesses);
    outcomes.push([true, by.map((each) => each.name).sort()]);
  } catch (error) {
    if (error.kind === undefined) throw error;
    outcomes.push([false, []]);
  }
}
return outcomes;
"""


def proven(host: Host, chance: random.Random) -> Iterator[Proven]:
    """Proofs of all records in trees of several sizes, good ones and damaged ones."""
    store = host.store.reader()
    ids = sorted((record.audit_id for record in store.records(Selection())), key=lambda one: store.number_of(one) or 0)
    for size in (1, 2, 3, 7, 8, len(ids) - 1, len(ids)):
        tree = Tree(store.tile, size)
        key = KEYS[-1]
        note = checkpoint.issue("agtp.test", size, tree.root(), key).note
        note = cosignature.with_line(note, cosignature.cosign(note, "witness.test", WITNESS, 1_795_000_000))
        for index in range(size):
            good = Proven(
                what=f"{index} of {size}",
                audit_id=ids[index],
                index=index,
                proof=proof_to_texts(tree.inclusion(index)),
                note=note,
                witnesses=[("witness.test", WITNESS.public)],
            )
            yield good
            for what in ("index", "size", "flip proof", "short", "long", "note", "id", "witness"):
                yield broken(good, what, chance)


def broken(good: Proven, what: str, chance: random.Random) -> Proven:
    """A proof with one thing changed."""
    proof = list(good.proof)
    case = dataclasses.replace(good, what=f"{good.what}: {what}")
    if what == "index":
        return dataclasses.replace(case, index=good.index + chance.choice([-1, 1, 64]))
    if what == "size":
        lines = good.note.split("\n")
        return dataclasses.replace(case, note="\n".join([lines[0], str(int(lines[1]) + 1), *lines[2:]]))
    if what == "flip proof" and proof:
        at = chance.randrange(len(proof))
        octets = bytearray(base64.b64decode(proof[at]))
        octets[chance.randrange(32)] ^= 1 << chance.randrange(8)
        proof[at] = base64.b64encode(octets).decode()
        return dataclasses.replace(case, proof=proof)
    if what == "short":
        return dataclasses.replace(case, proof=proof[:-1])
    if what == "long":
        return dataclasses.replace(case, proof=[*proof, base64.b64encode(bytes(32)).decode()])
    if what == "note":
        return dataclasses.replace(case, note=flipped_note(good.note, chance))
    if what == "witness":
        return dataclasses.replace(case, witnesses=[("witness.test", STRANGER.public)])
    return dataclasses.replace(case, audit_id=sha256(good.audit_id.encode()).hexdigest())


def flipped_note(note: str, chance: random.Random) -> str:
    """A note with a bit changed in one of its ASCII characters."""
    places = [at for at, character in enumerate(note) if character.isascii()]
    at = chance.choice(places)
    return note[:at] + chr(ord(note[at]) ^ 1 << chance.randrange(7)) + note[at + 1 :]


@pytest.mark.release
def test_proofs_checkpoints_and_cosignatures_are_judged_alike(browser: Browser, host: Host) -> None:
    """Every place in trees of seven sizes, and eight ways to spoil each proof: one verdict, and the same witnesses."""
    chance = random.Random(SEED)
    cases = list(proven(host, chance))
    expected = [case.holds() for case in cases]
    links = [dict(link.statement) for link in host.links]
    found: list[Any] = []
    for at in range(0, len(cases), 300):
        sent = [
            {
                **dataclasses.asdict(dataclasses.replace(case, witnesses=())),
                "witnesses": [{"name": name, "key": key.text} for name, key in case.witnesses],
            }
            for case in cases[at : at + 300]
        ]
        found += browser.run(PROVE, sent, [KEYS[0].public.text], links)
    differ = [
        (case.what, theirs, ours, case.note)
        for case, theirs, ours in zip(cases, found, expected, strict=True)
        if (theirs[0], theirs[1]) != ours
    ]
    assert not differ, f"seed {SEED}: {len(differ)} of {len(cases)}: {shown(differ[:5])}"
    good = [ours for ours in expected if ours == (True, ["witness.test"])]
    assert len(good) > 50 and len(expected) - len(good) > 500
    browser.quiet()
