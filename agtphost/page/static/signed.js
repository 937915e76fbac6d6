/*
 * Signed records and the keys that count: agtphost/audit/verify.py, agtphost/identity/key_ring.py, jws.py and cose.py.
 */

const LONGEST_SIGNED = 131072;
const LONGEST_NOTE = 16384;
const LONGEST_PROOF = 130;
const MOST_LINKS = 256;
const ROTATED = "signing-key-rotated";
const NO_RECORD = "0".repeat(64);
const EVENT_TYPE = "application/agtp-lifecycle+json";

/** Something is not what it should be; `kind` is one of agtphost.audit.verify.FaultKind. */
class Wrong extends Error {
  constructor(kind, message) {
    super(message);
    this.kind = kind;
  }
}

const utf8 = (text) => new TextEncoder().encode(text);

const text_of = (octets, what) => {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(octets);
  } catch {
    throw new Wrong("signature", `the ${what} is not UTF-8`);
  }
};

const join = (...parts) => {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
};

const same = (one, other) => one.length === other.length && one.every((octet, at) => octet === other[at]);

const hex = (octets) => Array.from(octets, (octet) => octet.toString(16).padStart(2, "0")).join("");

const unhex = (text) => Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));

const is_audit_id = (text) => typeof text === "string" && /^[0-9a-f]{64}$/.test(text);

const sha256 = async (octets) => new Uint8Array(await crypto.subtle.digest("SHA-256", octets));

/** Octets of base64 in its one spelling; null for any other text: two texts for the same octets are two records. */
const base64 = (text) => {
  if (typeof text !== "string" || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) return null;
  try {
    const binary = atob(text);
    return btoa(binary) === text ? Uint8Array.from(binary, (character) => character.charCodeAt(0)) : null;
  } catch {
    return null;
  }
};

const base64url = (text) => {
  if (typeof text !== "string" || !/^[A-Za-z0-9_-]*$/.test(text) || text.length % 4 === 1) return null;
  return base64(text.replaceAll("-", "+").replaceAll("_", "/") + "=".repeat((4 - (text.length % 4)) % 4));
};

const object = (octets, what) => {
  let value;
  try {
    value = JSON.parse(text_of(octets, what));
  } catch (error) {
    if (error instanceof Wrong) throw error;
    throw new Wrong("signature", `the ${what} is not JSON`);
  }
  if (value === null || typeof value !== "object" || Array.isArray(value)) {
    throw new Wrong("signature", `the ${what} is not a JSON object`);
  }
  return value;
};

const members = (value) => Object.keys(value).sort().join(" ");

/** Milliseconds of a time with its zone; null for everything else. */
const moment = (text) => {
  if (typeof text !== "string" || !/^\d{4}-\d\d-\d\d[T ].*(Z|[+-]\d\d:?\d\d)$/.test(text)) return null;
  const value = Date.parse(text);
  return Number.isNaN(value) ? null : value;
};

// Keys

/** An Ed25519 key of 32 octets in base64url; its name is of its fingerprint, the SHA-256 of these octets. */
const key_of = async (text) => {
  const raw = base64url(String(text).replace(/=+$/, ""));
  if (raw === null || raw.length !== 32) throw new Wrong("key", "a key is not 32 octets in base64url");
  const fingerprint = hex(await sha256(raw));
  const jwk = { kty: "OKP", crv: "Ed25519", x: String(text).replace(/=+$/, "") };
  const key = await crypto.subtle.importKey("jwk", jwk, { name: "Ed25519" }, true, ["verify"]);
  return { raw, key, fingerprint, kid: `ed25519-${fingerprint.slice(0, 16)}` };
};

const signed_by = (key, signature, octets) => crypto.subtle.verify({ name: "Ed25519" }, key.key, signature, octets);

/** A statement that one key followed another, which both signed: agtphost/identity/key_history.py. */
const succession = async (said) => {
  const names = "new_key new_kid new_signature old_key old_kid old_signature rotated_at server_id type";
  if (said === null || typeof said !== "object" || members(said) !== names || said.type !== ROTATED) {
    throw new Wrong("key", "the statement of a key rotation has the wrong form");
  }
  if (!Object.values(said).every((value) => typeof value === "string")) {
    throw new Wrong("key", "the statement of a key rotation has the wrong form");
  }
  const [old, next] = [await key_of(said.old_key), await key_of(said.new_key)];
  if (old.fingerprint === next.fingerprint || old.kid !== said.old_kid || next.kid !== said.new_kid) {
    throw new Wrong("key", "the statement of a key rotation names keys by the wrong identifiers");
  }
  if (moment(said.rotated_at) === null) throw new Wrong("key", "rotated_at of a key rotation is not a time");
  const { old_signature, new_signature, ...content } = said;
  const octets = utf8(JSON.stringify(content, Object.keys(content).sort()));
  for (const [key, signature] of [[old, old_signature], [next, new_signature]]) {
    const value = base64url(signature.replace(/=+$/, ""));
    if (value === null || !(await signed_by(key, value, octets))) {
      throw new Wrong("key", "a signature of the statement of a key rotation does not match");
    }
  }
  return { old, next, rotated_at: said.rotated_at };
};

/** The keys of one host by kid, and until when each was in use: agtphost/identity/key_ring.py. */
class KeyRing {
  constructor() {
    this.keys = new Map();
    this.until = new Map();
    this.links = new Map();
  }

  add(key) {
    this.keys.set(key.kid, key);
  }

  trusts(key) {
    return this.keys.get(key.kid)?.fingerprint === key.fingerprint;
  }

  /** End the use of the earlier key where it is trusted, and trust the one that follows it. */
  follow(link) {
    if (!this.trusts(link.old)) return false;
    const before = this.links.get(link.old.kid);
    if (before && before.next.fingerprint !== link.next.fingerprint) {
      throw new Wrong("key", `key ${link.old.kid} has two different successors`);
    }
    if (this.precedes(link.next.kid, link.old.kid)) {
      throw new Wrong("key", `key ${link.next.kid} came before ${link.old.kid}, so it cannot be its successor`);
    }
    this.add(link.next);
    const known = before ? moment(this.until.get(link.old.kid)) : null;
    if (known === null || known < moment(link.rotated_at)) {
      this.until.set(link.old.kid, link.rotated_at);
      this.links.set(link.old.kid, link);
    }
    return true;
  }

  precedes(earlier, later) {
    for (let link = this.links.get(earlier); link; link = this.links.get(link.next.kid)) {
      if (link.next.kid === later) return true;
    }
    return false;
  }

  ended(kid, time) {
    if (!this.until.has(kid)) return false;
    const [end, signed] = [moment(this.until.get(kid)), moment(time)];
    return end === null || signed === null || signed > end;
  }
}

/**
 * The keys that count: the one whose fingerprint is known from elsewhere, and those that statements link to it.
 *
 * A statement is signed by both of its keys, so that it leads from either to the other. Without a fingerprint the
 * host's present key counts, on its own word: `pinned` says which.
 */
const ring_of = async (published, links, pin) => {
  const ring = new KeyRing();
  const known = [];
  for (const text of published ?? []) known.push(await key_of(text));
  const statements = [];
  for (const said of (links ?? []).slice(0, MOST_LINKS)) statements.push(await succession(said));
  const every = [...known, ...statements.flatMap((link) => [link.old, link.next])];
  const anchor = pin ? every.find((key) => key.fingerprint === pin) : known[0];
  if (!anchor) {
    const shown = known[0] ? known[0].fingerprint : "none";
    throw new Wrong("key", `the host's key has the fingerprint ${shown}, but the sign-in link names ${pin ?? "any"}`);
  }
  ring.add(anchor);
  // Backwards first: an earlier key that the anchor, or one before it, says it followed.
  for (let grown = true; grown; ) {
    grown = false;
    for (const link of statements) {
      if (ring.trusts(link.next) && !ring.trusts(link.old)) {
        ring.add(link.old);
        grown = true;
      }
    }
  }
  for (let grown = true; grown; ) {
    const before = ring.keys.size;
    for (const link of statements) ring.follow(link);
    grown = ring.keys.size > before;
  }
  ring.anchor = anchor;
  ring.pinned = Boolean(pin);
  return ring;
};

// Signed records

/** The octets of CBOR's definite strings, in their shortest form alone: RFC 8949 section 4.2. */
class Reader {
  constructor(octets) {
    this.octets = octets;
    this.at = 0;
  }

  octet() {
    if (this.at >= this.octets.length) throw new Wrong("signature", "the message is not CBOR");
    return this.octets[this.at++];
  }

  expect(...wanted) {
    for (const octet of wanted) {
      if (this.octet() !== octet) throw new Wrong("signature", "the message is not a COSE_Sign1 of an event");
    }
  }

  string(major) {
    const first = this.octet();
    let size = first & 31;
    if (first >> 5 !== major || size > 26) throw new Wrong("signature", "a part of the message has the wrong type");
    if (size >= 24) {
      const wide = 1 << (size - 24);
      size = 0;
      for (let count = 0; count < wide; count++) size = size * 256 + this.octet();
      if (size < [24, 256, 0, 65536][wide - 1]) throw new Wrong("signature", "the message is not CBOR in its shortest form");
    }
    if (this.at + size > this.octets.length) throw new Wrong("signature", "the message is cut off");
    this.at += size;
    return this.octets.subarray(this.at - size, this.at);
  }

  end() {
    if (this.at !== this.octets.length) throw new Wrong("signature", "the message is followed by further bytes");
  }
}

const byte_string = (octets) => {
  const size = octets.length;
  const head = size < 24 ? [0x40 | size] : size < 256 ? [0x58, size] : size < 65536 ? [0x59, size >> 8, size & 255]
    : [0x5a, size >>> 24, (size >> 16) & 255, (size >> 8) & 255, size & 255];
  return join(Uint8Array.from(head), octets);
};

/** What an envelope holds, nothing about it verified: agtphost/identity/jws.py. */
const opened_jws = (text) => {
  if (!/^[\x00-\x7f]*$/.test(text)) throw new Wrong("signature", "the JWS is not ASCII");
  if (text.length > LONGEST_SIGNED) throw new Wrong("signature", "the JWS is too long");
  const parts = text.split(".");
  if (parts.length !== 3) throw new Wrong("signature", `a compact JWS has three parts, but this one has ${parts.length}`);
  const [header, payload, signature] = parts.map(base64url);
  if (!header || !payload || !signature) throw new Wrong("signature", "a part of the JWS is not canonical base64url");
  return {
    header: object(header, "header"),
    payload: object(payload, "payload"),
    covered: utf8(text.slice(0, text.lastIndexOf("."))),
    signature,
  };
};

/** The same of a COSE_Sign1 message: agtphost/identity/cose.py. */
const opened_cose = (octets) => {
  if (octets.length > LONGEST_SIGNED) throw new Wrong("signature", "the message is too long");
  const message = new Reader(octets);
  message.expect(0xd2, 0x84);
  const protected_ = message.string(2);
  message.expect(0xa0);
  const payload = message.string(2);
  const signature = message.string(2);
  message.end();
  const header = new Reader(protected_);
  header.expect(0xa3, 0x01, 0x27, 0x04);
  const kid = text_of(header.string(protected_[header.at] >> 5 === 3 ? 3 : 2), "kid");
  header.expect(0x10);
  if (text_of(header.string(3), "type") !== EVENT_TYPE) {
    throw new Wrong("signature", "the protected header is not that of a lifecycle event");
  }
  header.end();
  const start = join(Uint8Array.of(0x84, 0x6a), utf8("Signature1"));
  return {
    header: { alg: "EdDSA", kid, typ: "JWT" },
    payload: object(payload, "payload"),
    covered: join(start, byte_string(protected_), Uint8Array.of(0x40), byte_string(payload)),
    signature,
  };
};

/** The octets that were signed, as INSPECT shows them in text: agtphost/identity/envelope.py. */
const signed_octets = (entry) => {
  const text = entry[entry.format];
  if (typeof text !== "string") throw new Wrong("form", `this page does not know the format ${entry.format}`);
  if (entry.format === "jws") return utf8(text);
  const octets = entry.format === "cose" && text.startsWith("cose:") ? base64url(text.slice(5)) : null;
  if (octets === null) throw new Wrong("form", "the signed octets cannot be read");
  return octets;
};

const opened = (entry, octets) => (entry.format === "cose" ? opened_cose(octets) : opened_jws(entry.jws));

/** Check a signature; returns the kid, empty where the record is not signed. */
const signer_of = async (parts, ring) => {
  const { header } = parts;
  if (header.typ !== "JWT") throw new Wrong("signature", "the typ is not 'JWT'");
  if (header.alg === "none") {
    if (members(header) !== "alg typ") throw new Wrong("signature", "the header must have only the members alg and typ");
    if (parts.signature.length) throw new Wrong("signature", "an unsigned record has a signature");
    return "";
  }
  if (header.alg !== "EdDSA") throw new Wrong("signature", "the alg is not EdDSA");
  if (members(header) !== "alg kid typ") {
    throw new Wrong("signature", "the header must have only the members alg, kid and typ");
  }
  const key = typeof header.kid === "string" ? ring.keys.get(header.kid) : undefined;
  if (!key) throw new Wrong("signature", "no trusted key has the kid of the header");
  if (!(await signed_by(key, parts.signature, parts.covered))) {
    throw new Wrong("signature", "the signature does not match");
  }
  return header.kid;
};

/**
 * Takes the records of one chain, oldest first: agtphost.audit.verify.Verifier.
 *
 * @param chain an Agent-ID, or "" for the host's own chain
 * @param whole whether the chain is there from its first record on
 */
class Walk {
  constructor(ring, chain, { whole = false, unsigned = false } = {}) {
    Object.assign(this, { ring, chain, whole, unsigned, end: null, last: "", records: 0, faults: [] });
    this.signers = new Map();
  }

  /** Check the next record, as INSPECT lists it; its faults are in `faults`, and are what is returned. */
  async add(entry) {
    const found = [];
    const fault = (kind, text) => found.push({ kind, seq: entry.seq, audit_id: entry.audit_id, text });
    this.records += 1;
    let [issued, previous, octets] = ["", "", null];
    try {
      octets = signed_octets(entry);
      if (hex(await sha256(octets)) !== entry.audit_id) {
        fault("hash", "the Audit-ID is not the SHA-256 of what was signed");
      }
      const parts = opened(entry, octets);
      previous = String(parts.payload.previous_audit_id ?? "");
      const kid = await signer_of(parts, this.ring);
      if (kid === "" && !this.unsigned) fault("unsigned", "the record is not signed");
      issued = this.content(entry, parts.payload, fault);
      await this.in_time(kid, parts.payload, fault);
      this.signers.set(kid, (this.signers.get(kid) ?? 0) + 1);
    } catch (error) {
      if (!(error instanceof Wrong)) throw error;
      fault(error.kind, error.message);
    }
    this.place(entry, previous, issued, fault);
    this.end = { seq: entry.seq, audit_id: entry.audit_id, issued: issued || (this.end?.issued ?? "") };
    this.faults.push(...found);
    return found;
  }

  content(entry, payload, fault) {
    if (typeof payload.previous_audit_id !== "string") fault("place", "the record does not name its predecessor");
    if (payload.agent_id !== this.chain) fault("place", "the record was signed for another chain");
    if (entry.kind !== ("event_type" in payload ? "event" : "record")) fault("place", `the host lists the record as ${entry.kind}, which it is not`);
    if ("durable" in payload) fault("place", "the record was signed as one without a chain");
    if (typeof payload.issued_at === "string" && payload.issued_at) return payload.issued_at;
    fault("time", "the record has no time");
    return "";
  }

  /** Whether the key was in use when it signed; a link to the next key is the last word of the one before. */
  async in_time(kid, payload, fault) {
    const linking = payload.event_type === ROTATED && this.chain === "";
    if (!linking && !this.ring.until.size) return;
    const last = this.last || kid;
    if (this.ring.precedes(kid, last)) {
      fault("key", `key ${kid} signed it after its successor ${last} was in use`);
    } else if (linking) {
      await this.linked(kid, payload, fault);
    } else if (this.ring.ended(kid, payload.issued_at)) {
      fault("key", `key ${kid} was retired at ${this.ring.until.get(kid)}, before it signed this`);
    } else {
      this.last = kid;
    }
  }

  async linked(kid, payload, fault) {
    try {
      const said = { type: payload.event_type };
      for (const name of ["server_id", "old_kid", "old_key", "new_kid", "new_key", "rotated_at"]) {
        said[name] = payload[name];
      }
      for (const name of ["old_signature", "new_signature"]) said[name] = payload[name];
      const link = await succession(said);
      if (link.old.kid !== kid) throw new Wrong("key", `it is signed by ${kid}, not by the key that it retires`);
      if (this.ring.ended(kid, payload.issued_at) && link.rotated_at !== this.ring.until.get(kid)) {
        throw new Wrong("key", `key ${kid} was retired earlier`);
      }
      this.ring.follow(link);
    } catch (error) {
      if (!(error instanceof Wrong)) throw error;
      fault("key", `the rotation of the signing key cannot be trusted: ${error.message}`);
    }
  }

  place(entry, previous, issued, fault) {
    const before = this.end ?? (this.whole ? { seq: 0, audit_id: NO_RECORD, issued: "" } : null);
    if (before === null) return;
    const adjacent = entry.seq === before.seq + 1;
    if (entry.seq <= before.seq || (this.whole && !adjacent)) fault("gap", `the previous record has the number ${before.seq}`);
    if ((adjacent || this.whole) && previous !== before.audit_id) {
      fault("link", `it names ${previous || "no record"} as its predecessor, which is ${before.audit_id}`);
    }
    // All times are written alike, in UTC to the millisecond, so they compare as text.
    if (issued && issued < before.issued) fault("time", `the previous record was issued later, at ${before.issued}`);
  }
}

export { LONGEST_NOTE, LONGEST_PROOF, NO_RECORD, Wrong, base64, Walk, is_audit_id, join, key_of, opened, ring_of, same, sha256, signed_by, signed_octets, unhex, utf8 };
