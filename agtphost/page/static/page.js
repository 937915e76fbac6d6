/*
 * The operators' page in the browser: verifies evidence, follows the feed, draws the chart, enters by a link.
 *
 * Every view is whole without it. It asks the host for octets and believes nothing that comes with them: what it shows
 * in green it has computed here. docs/page.rst names what it cannot know: this text comes from the host as well.
 * No markup is ever made of text: elements and text nodes alone.
 */
"use strict";

/* What can be verified, without a page: agtphost/audit/verify.py, merkle.py, checkpoint.py and cosignature.py. */
const evidence = (() => {
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
      throw new Wrong("key", "it is not a statement of two keys");
    }
    if (!Object.values(said).every((value) => typeof value === "string")) {
      throw new Wrong("key", "it is not a statement of two keys");
    }
    const [old, next] = [await key_of(said.old_key), await key_of(said.new_key)];
    if (old.fingerprint === next.fingerprint || old.kid !== said.old_kid || next.kid !== said.new_kid) {
      throw new Wrong("key", "its keys are not what they are named for");
    }
    if (moment(said.rotated_at) === null) throw new Wrong("key", "its rotated_at is not a time");
    const { old_signature, new_signature, ...content } = said;
    const octets = utf8(JSON.stringify(content, Object.keys(content).sort()));
    for (const [key, signature] of [[old, old_signature], [next, new_signature]]) {
      const value = base64url(signature.replace(/=+$/, ""));
      if (value === null || !(await signed_by(key, value, octets))) {
        throw new Wrong("key", "one of its signatures is wrong");
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
        throw new Wrong("key", `two keys follow ${link.old.kid}`);
      }
      if (this.precedes(link.next.kid, link.old.kid)) {
        throw new Wrong("key", `${link.next.kid} was followed by ${link.old.kid}, and cannot follow it`);
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
      throw new Wrong("key", `the host's key has the fingerprint ${shown}, and not ${pin ?? "any"}, which the link named`);
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
        if (size < [24, 256, 0, 65536][wide - 1]) throw new Wrong("signature", "a length is not in its shortest form");
      }
      if (this.at + size > this.octets.length) throw new Wrong("signature", "the message is cut off");
      this.at += size;
      return this.octets.subarray(this.at - size, this.at);
    }

    end() {
      if (this.at !== this.octets.length) throw new Wrong("signature", "something follows the message");
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
    if (parts.length !== 3) throw new Wrong("signature", `a JWS Compact has three parts, this has ${parts.length}`);
    const [header, payload, signature] = parts.map(base64url);
    if (!header || !payload || !signature) throw new Wrong("signature", "a part is not canonical base64url");
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
    if (typeof text !== "string") throw new Wrong("form", `the format ${entry.format} is not known`);
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
      if (members(header) !== "alg typ") throw new Wrong("signature", "the header has other members than alg and typ");
      if (parts.signature.length) throw new Wrong("signature", "an unsigned record has a signature");
      return "";
    }
    if (header.alg !== "EdDSA") throw new Wrong("signature", "the alg is not EdDSA");
    if (members(header) !== "alg kid typ") {
      throw new Wrong("signature", "the header has other members than alg, kid and typ");
    }
    const key = typeof header.kid === "string" ? ring.keys.get(header.kid) : undefined;
    if (!key) throw new Wrong("signature", "the kid names no key known here");
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
      if (typeof payload.previous_audit_id !== "string") fault("place", "the record names none before it");
      if (payload.agent_id !== this.chain) fault("place", "the record was signed for another chain");
      if (entry.kind !== ("event_type" in payload ? "event" : "record")) fault("place", `the record is no ${entry.kind}`);
      if ("durable" in payload) fault("place", "the record was signed outside every chain");
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
        fault("key", `${kid} signed it after ${last}, which followed that key`);
      } else if (linking) {
        await this.linked(kid, payload, fault);
      } else if (this.ring.ended(kid, payload.issued_at)) {
        fault("key", `the use of ${kid} ended at ${this.ring.until.get(kid)}, before this`);
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
        if (link.old.kid !== kid) throw new Wrong("key", `it is signed by ${kid}, and not by the key that it retires`);
        if (this.ring.ended(kid, payload.issued_at) && link.rotated_at !== this.ring.until.get(kid)) {
          throw new Wrong("key", `the use of ${kid} had ended before`);
        }
        this.ring.follow(link);
      } catch (error) {
        if (!(error instanceof Wrong)) throw error;
        fault("key", `the link from one key to the next is not to be believed: ${error.message}`);
      }
    }

    place(entry, previous, issued, fault) {
      const before = this.end ?? (this.whole ? { seq: 0, audit_id: NO_RECORD, issued: "" } : null);
      if (before === null) return;
      const adjacent = entry.seq === before.seq + 1;
      if (entry.seq <= before.seq || (this.whole && !adjacent)) fault("gap", `it follows record ${before.seq}`);
      if ((adjacent || this.whole) && previous !== before.audit_id) {
        fault("link", `it names ${previous || "no record"} as the one before, which is ${before.audit_id}`);
      }
      // All times are written alike, in UTC to the millisecond, so they compare as text.
      if (issued && issued < before.issued) fault("time", `the record before it was issued at ${before.issued}`);
    }
  }

  // The tree over all records

  /** The root that an inclusion proof leads to: RFC 9162 section 2.1.3.2. */
  const root_from = async (index, size, leaf, proof) => {
    if (!Number.isSafeInteger(index) || !(index >= 0 && index < size)) {
      throw new Wrong("proof", `a tree of ${size} records has no record ${index}`);
    }
    const node_hash = (left, right) => sha256(join(Uint8Array.of(1), left, right));
    const half = (number) => Math.floor(number / 2);
    let [node, last, digest] = [index, size - 1, leaf];
    for (const sibling of proof) {
      if (last === 0) throw new Wrong("proof", "the inclusion proof is too long");
      if (node % 2 === 1 || node === last) {
        digest = await node_hash(sibling, digest);
        while (node % 2 === 0 && node) [node, last] = [half(node), half(last)];
      } else {
        digest = await node_hash(digest, sibling);
      }
      [node, last] = [half(node), half(last)];
    }
    if (last) throw new Wrong("proof", "the inclusion proof is too short");
    return digest;
  };

  /** Check that the tree of a checkpoint holds a record. */
  const included = async (audit_id, index, texts, checkpoint) => {
    const proof = Array.isArray(texts) && texts.length <= LONGEST_PROOF ? texts.map(base64) : [null];
    if (proof.some((digest) => digest === null || digest.length !== 32)) {
      throw new Wrong("proof", "the proof is not a list of digests in base64");
    }
    const leaf = await sha256(join(Uint8Array.of(0), unhex(audit_id)));
    if (!same(await root_from(index, checkpoint.size, leaf, proof), checkpoint.root)) {
      throw new Wrong("proof", `the inclusion proof leads to another root than that of ${checkpoint.size} records`);
    }
  };

  const LINE = /^\u2014 ([^\s+]+) ([A-Za-z0-9+/]+={0,2})$/;

  /** What a checkpoint says, its signatures not looked at: C2SP tlog-checkpoint. */
  const read_note = (note) => {
    if (typeof note !== "string" || utf8(note).length > LONGEST_NOTE) throw new Wrong("proof", "there is no checkpoint");
    const cut = note.indexOf("\n\n");
    const text = cut < 0 ? "" : note.slice(0, cut);
    const [origin, size, root] = text.split("\n");
    const digest = base64(root);
    if (!origin || !/^(0|[1-9][0-9]{0,18})$/.test(size ?? "") || digest === null || digest.length !== 32) {
      throw new Wrong("proof", "the checkpoint is not origin, size and root on a line each, then an empty line");
    }
    if (!Number.isSafeInteger(Number(size))) throw new Wrong("proof", "the checkpoint is of more records than there are");
    const lines = note.slice(cut + 2).split("\n");
    if (lines.pop() !== "") throw new Wrong("proof", "the checkpoint's last line has no line feed");
    const signatures = lines.map((line) => {
      const match = LINE.exec(line);
      const octets = match && base64(match[2]);
      if (!octets) throw new Wrong("proof", "a signature line of the checkpoint is malformed");
      return { name: match[1], octets };
    });
    return { origin, size: Number(size), root: digest, text: `${text}\n`, signatures };
  };

  const name_hash = async (name, type, raw) =>
    (await sha256(join(utf8(`${name}\n`), Uint8Array.of(type), raw))).subarray(0, 4);

  /** Read a checkpoint that one of a host's keys signed; `signer` is the kid. */
  const checkpoint_of = async (note, ring) => {
    const found = read_note(note);
    let signer = "";
    for (const key of ring.keys.values()) {
      const hash = await name_hash(found.origin, 1, key.raw);
      for (const { name, octets } of found.signatures) {
        if (name !== found.origin || !same(octets.subarray(0, 4), hash)) continue;
        if (!(await signed_by(key, octets.subarray(4), utf8(found.text)))) {
          throw new Wrong("proof", "the signature of the checkpoint does not match");
        }
        signer = key.kid;
      }
    }
    if (!signer) throw new Wrong("proof", "no key of the host signed the checkpoint");
    return { ...found, signer };
  };

  /** Who cosigned a checkpoint, of witnesses `{name, key}`: C2SP tlog-cosignature. */
  const witnesses_of = async (found, witnesses) => {
    const names = [];
    for (const witness of witnesses ?? []) {
      const key = await key_of(witness.key);
      for (const { name, octets } of found.signatures) {
        if (octets.length !== 76 || !same(octets.subarray(0, 4), await name_hash(name, 4, key.raw))) continue;
        const seconds = new DataView(octets.buffer, octets.byteOffset + 4, 8).getBigUint64(0);
        const covered = utf8(`cosignature/v1\ntime ${seconds}\n${found.text}`);
        if (await signed_by(key, octets.subarray(12), covered)) {
          const at = seconds < 253402300800n ? new Date(Number(seconds) * 1000).toISOString() : `second ${seconds}`;
          names.push({ name, kid: key.kid, at });
        }
      }
    }
    return names;
  };

  // Texts for the reader

  const ok = (what, text) => ({ state: "ok", what, text });
  const note = (what, text) => ({ state: "note", what, text });
  const bad = (what, text) => ({ state: "bad", what, text });
  const count = (number, word) => `${number.toLocaleString("en")} ${word}${number === 1 ? "" : "s"}`;

  const about_keys = (ring) =>
    ring.pinned
      ? ok("key", `key ${ring.anchor.kid}: its fingerprint is the one that your link named, ${ring.anchor.fingerprint}`)
      : note("key", `key ${ring.anchor.kid} on the host's word alone; compare its fingerprint with what agtp page ` +
          `prints: ${ring.anchor.fingerprint}`);

  const by_key = (ring, kid) => {
    const until = ring.until.get(kid);
    return until ? `signature of key ${kid}, which was in use until ${until}` : `signature of key ${kid}`;
  };

  /** The lines about membership in the tree over all records. */
  const about_tree = async (bundle, ring, entry, payload) => {
    const found = bundle.inclusion;
    if (bundle.unproven) return [bad("proof", `${place_of(entry)}: ${bundle.unproven}`)];
    if (!found) return [note("proof", `not in a checkpoint yet: ${bundle.pending || "ask again in a second"}`)];
    const lines = [];
    const origin = String(payload?.server_id ?? "").replace(/[\s+]/g, "-") || "agtphost";
    const proven = async (from) => {
      const signed = await checkpoint_of(from.checkpoint, ring);
      if (signed.origin !== origin) throw new Wrong("proof", `the checkpoint is of the log ${signed.origin}`);
      await included(entry.audit_id, found.index, from.proof, signed);
      return signed;
    };
    try {
      const newest = await proven(found);
      lines.push(ok("proof", `included in the tree of ${count(newest.size, "record")} of ${newest.origin}, ` +
        `signature of key ${newest.signer} under its checkpoint`));
      if (found.cosigned?.proof) {
        const signed = await proven(found.cosigned);
        const by = await witnesses_of(signed, bundle.witnesses);
        for (const { name, kid, at } of by) {
          lines.push(ok("witness", `included in the tree of ${count(signed.size, "record")} that ${name} ` +
            `(key ${kid}) cosigned at ${at}`));
        }
        if (!by.length) lines.push(note("witness", "no witness known here cosigned that tree"));
      } else {
        lines.push(note("witness", found.cosigned ? "no witness has cosigned a tree that holds it, yet"
          : "no other host witnesses this log"));
      }
    } catch (error) {
      if (!(error instanceof Wrong)) throw error;
      lines.push(bad("proof", `${place_of(entry)}: ${error.message}`));
    }
    return lines;
  };

  const verdict = (lines, extra = {}) => ({ ok: !lines.some((line) => line.state === "bad"), lines, ...extra });

  const failed = (error) => {
    if (error instanceof Wrong) return verdict([bad(error.kind, error.message)]);
    if (error?.name === "NotSupportedError") {
      return verdict([bad("form", "this browser cannot compute Ed25519 signatures; use agtp audit verify")]);
    }
    throw error;
  };

  /** Where a record says that it is. */
  const place_of = (entry) => `record ${entry.seq} (${entry.audit_id})`;

  /**
   * Verify one record with the one before it and its place in the tree.
   *
   * @param bundle what /evidence/record answers
   * @param pin the fingerprint of the host's key, known from elsewhere; "" where nothing is
   * @return {ok, lines: [{state: "ok"|"note"|"bad", what, text}], payload}
   */
  const record = async (bundle, pin = "") => {
    try {
      const { record: entry, before, chain } = bundle;
      if (!entry || !is_audit_id(entry.audit_id)) throw new Wrong("form", "the host showed no record");
      const ring = await ring_of(bundle.keys, bundle.links, pin);
      const lines = [about_keys(ring)];
      const alone = new Walk(ring, chain);
      const faults = await alone.add(entry);
      const wrong = (kinds) => faults.filter((fault) => kinds.includes(fault.kind));
      const tell = (kinds, what, good) => {
        const found = wrong(kinds);
        for (const fault of found) lines.push(bad(what, `${place_of(entry)}: ${fault.text}`));
        if (!found.length) lines.push(ok(what, good()));
      };
      let payload = null;
      let size = 0;
      try {
        const octets = signed_octets(entry);
        size = octets.length;
        payload = opened(entry, octets).payload;
      } catch (error) {
        if (!(error instanceof Wrong)) throw error;
      }
      tell(["hash", "form"], "hash", () => `the Audit-ID is the SHA-256 of these ${count(size, "octet")}`);
      tell(["signature", "unsigned", "key"], "signature", () => by_key(ring, [...alone.signers.keys()][0] ?? ""));
      tell(["place", "time"], "place", () => `signed as ${entry.kind} of ${chain ? `the chain ${chain}` : "the host's own chain"}`);
      if (payload !== null) lines.push(await about_link(ring, chain, entry, before, payload));
      if (!wrong(["hash", "form"]).length) lines.push(...(await about_tree(bundle, ring, entry, payload)));
      return verdict(lines, { payload });
    } catch (error) {
      return failed(error);
    }
  };

  const about_link = async (ring, chain, entry, before, payload) => {
    const named = payload.previous_audit_id;
    if (entry.seq === 1 || named === NO_RECORD) {
      const first = entry.seq === 1 && named === NO_RECORD;
      return first ? ok("link", "the first record of its chain") : bad("link", `${place_of(entry)} names ${named} as the one before`);
    }
    if (!before) return bad("link", `${place_of(entry)}: the host does not show the record before, ${named}`);
    const walk = new Walk(ring, chain);
    const faults = await walk.add(before);
    if (faults.length) return bad("link", `the record before, ${place_of(before)}: ${faults[0].text}`);
    const later = (await walk.add(entry)).filter((fault) => ["gap", "link", "time"].includes(fault.kind));
    if (!later.length && entry.seq !== before.seq + 1) later.push({ text: `it follows record ${before.seq}` });
    if (later.length) return bad("link", `${place_of(entry)}: ${later[0].text}`);
    return ok("link", `links to the record before, ${place_of(before)}, whose hash and signature hold`);
  };

  /**
   * Verify the newest records of a chain.
   *
   * @param bundle what /evidence/chain answers: records newest first, and the newest one's place in the tree
   * @param progress called with how many were verified
   */
  const range = async (bundle, pin = "", progress = () => undefined) => {
    try {
      const ring = await ring_of(bundle.keys, bundle.links, pin);
      const entries = [...bundle.records].reverse();
      const lines = [about_keys(ring)];
      if (!entries.length) {
        const { damaged } = bundle;
        return verdict([...lines, damaged ? bad("hash", `the newest record: ${damaged}`) : note("form", "the chain has no record")]);
      }
      const walk = new Walk(ring, bundle.chain, { whole: entries[0].seq === 1 });
      let octets = 0;
      for (const entry of entries) {
        await walk.add(entry);
        octets += (entry[entry.format] ?? "").length;
        progress(walk.records);
      }
      const gaps = entries.slice(1).filter((entry, at) => entry.seq !== entries[at].seq + 1);
      for (const entry of gaps) {
        if (!walk.faults.some((fault) => fault.seq === entry.seq && fault.kind === "gap")) {
          walk.faults.push({ kind: "gap", seq: entry.seq, audit_id: entry.audit_id, text: "a record before it is missing" });
        }
      }
      const whom = bundle.chain ? `the chain ${bundle.chain}` : "the host's own chain";
      if (!walk.faults.length) {
        lines.push(ok("hash", `the Audit-IDs of ${count(entries.length, "record")} of ${whom} are the SHA-256 of ` +
          `their ${count(octets, "octet")}`));
        for (const [kid, number] of walk.signers) lines.push(ok("signature", `${count(number, "record")}: ${by_key(ring, kid)}`));
        lines.push(ok("link", `records ${entries[0].seq} to ${walk.end.seq}: each links to the one before`));
      }
      if (bundle.damaged) {
        // It is named by the one after it.
        const { payload } = opened(entries[0], signed_octets(entries[0]));
        const named = { seq: entries[0].seq - 1, audit_id: payload.previous_audit_id };
        lines.push(bad("hash", `${place_of(named)}: ${bundle.damaged}`));
      }
      for (const fault of walk.faults.slice(0, 20)) lines.push(bad(fault.kind, `${place_of(fault)}: ${fault.text}`));
      if (walk.faults.length > 20) lines.push(bad("form", `and ${walk.faults.length - 20} faults more`));
      const newest = entries.at(-1);
      if (!walk.faults.some((fault) => fault.audit_id === newest.audit_id)) {
        const { payload } = opened(newest, signed_octets(newest));
        for (const line of await about_tree(bundle, ring, newest, payload)) {
          lines.push({ ...line, text: `the newest of them: ${line.text}` });
        }
      }
      return verdict(lines, { faults: walk.faults });
    } catch (error) {
      return failed(error);
    }
  };

  return Object.freeze({ record, range, ring_of, Walk, checkpoint_of, witnesses_of, included });
})();

/* The page itself. Each part looks for its mark in the document and does nothing where it is not there. */
const page = (() => {
  const PIN = "agtphost-key";
  const MOST_ROWS = 200;
  const WAIT = 750;
  const TRIES = 8;
  const SVG = "http://www.w3.org/2000/svg";

  /** An element with attributes and children; texts become text nodes and nothing else. */
  const element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };

  const drawn = (name, attributes = {}, ...children) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    made.append(...children);
    return made;
  };

  /** The fingerprint that a link of `agtp page` named when this browser entered here; "" where none did. */
  const pinned = () => {
    try {
      return localStorage.getItem(PIN) ?? "";
    } catch {
      return "";
    }
  };

  const remember = (fingerprint) => {
    try {
      localStorage.setItem(PIN, fingerprint);
    } catch {
      // Then the page says that the key is the host's word alone.
    }
  };

  // Entering

  /** Keep the fingerprint of a link, which no server is sent; returns the token. */
  const token_of = (text) => {
    const [token, fingerprint] = text.trim().split("#").at(-1).split(".");
    if (/^[0-9a-f]{64}$/.test(fingerprint ?? "")) remember(fingerprint);
    return token;
  };

  /** Post the token in the fragment, and remove it from the address. */
  const enter = (form) => {
    const field = form.querySelector("[name=token]");
    form.addEventListener("submit", () => {
      field.value = token_of(field.value);
    });
    if (location.hash.length < 2) return;
    field.value = location.hash;
    history.replaceState(null, "", location.pathname);
    form.requestSubmit();
  };

  // Verifying

  const asked = async (path, parameters) => {
    const address = `${path}?${new URLSearchParams(parameters)}`;
    const answer = await fetch(address, { credentials: "same-origin", redirect: "error", headers: { Accept: "application/json" } });
    let said;
    try {
      said = await answer.json();
    } catch {
      throw new Error(`the host answered ${answer.status} and no evidence`);
    }
    if (!answer.ok) throw new Error(said.explanation || `the host answered ${answer.status}`);
    return said;
  };

  /** Evidence of a record; a record of just now is in a checkpoint a moment later. */
  const evidence_of = async (path, parameters) => {
    for (let tries = 1; ; tries++) {
      const bundle = await asked(path, parameters);
      if (!bundle.pending || tries === TRIES) return bundle;
      await new Promise((resolve) => setTimeout(resolve, WAIT));
    }
  };

  const MARKS = { ok: ["✓", "holds: "], note: ["•", "note: "], bad: ["✗", "does not hold: "] };

  const line_of = ({ state, what, text }) => {
    const [mark, word] = MARKS[state];
    return element("li", { class: state, "data-what": what }, element("span", { "aria-hidden": "true", class: "mark" }, mark),
      element("span", { class: "aside" }, word), text);
  };

  const tell = (place, result, subject) => {
    const head = result.ok ? `Verified in this browser: ${subject}` : `NOT verified: ${subject}`;
    const parts = [element("p", { class: result.ok ? "ok verdict" : "bad verdict" }, head),
      element("ul", { class: "checks" }, ...result.lines.map(line_of))];
    if (result.payload) {
      parts.push(element("details", {}, element("summary", {}, "What was signed"),
        element("pre", { tabindex: "0" }, JSON.stringify(result.payload, null, 2).replace(/[\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g,
          (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`))));
    }
    place.replaceChildren(...parts);
    place.dataset.result = result.ok ? "ok" : "bad";
  };

  /** A button that verifies and a place for what came of it. */
  const verifying = (host, label, subject, run) => {
    const place = element("div", { class: "result", role: "status" });
    const button = element("button", { type: "button", class: "verify" }, label);
    button.addEventListener("click", async () => {
      button.disabled = true;
      place.replaceChildren(element("p", {}, "Computing ..."));
      delete place.dataset.result;
      try {
        await run(place);
      } catch (error) {
        tell(place, { ok: false, lines: [{ state: "bad", what: "form", text: error.message }] }, subject);
      } finally {
        button.disabled = false;
        button.focus();
      }
    });
    host.append(button, place);
  };

  const verify_record = (host) => {
    const audit_id = host.dataset.verify;
    verifying(host, "Verify here", `record ${audit_id}`, async (place) => {
      const bundle = await evidence_of("/evidence/record", { audit_id });
      const result = await evidence.record(bundle, pinned());
      if (bundle.record?.audit_id !== audit_id) {
        result.ok = false;
        result.lines.push({ state: "bad", what: "form", text: `the host showed another record than ${audit_id}` });
      }
      tell(place, result, `record ${audit_id}`);
    });
  };

  const verify_range = (host) => {
    const chain = host.dataset.verifyRange;
    const whose = chain === "host" ? "the host's own chain" : chain;
    verifying(host, "Verify a range here", `records of ${whose}`, async (place) => {
      const bundle = await asked("/evidence/chain", { chain, limit: host.dataset.limit ?? "500" });
      if (bundle.pending) {
        // Of that very record: reading the chain again would find newer ones, this reading among them.
        const { inclusion, pending } = await evidence_of("/evidence/record", { audit_id: bundle.records[0].audit_id });
        Object.assign(bundle, { inclusion, pending });
      }
      const shown = element("p", {}, "Computing ...");
      place.replaceChildren(shown);
      const result = await evidence.range(bundle, pinned(), (done) => {
        if (done % 50 === 0) shown.textContent = `${done} of ${bundle.records.length} records ...`;
      });
      tell(place, result, `${bundle.records.length} records of ${whose}`);
    });
  };

  // The live feed

  /**
   * Follow committed calls. Each event has JSON `{cells: [text, ...], href, state}`, where `href` is of the first cell;
   * events named `skipped` say how many there were that are not shown.
   */
  const follow = (table) => {
    const body = table.tBodies[0] ?? table.appendChild(element("tbody"));
    const columns = table.tHead?.rows[0]?.cells.length ?? 1;
    const state = element("p", { class: "feed", role: "status" }, "Connecting ...");
    const pause = element("button", { type: "button", "aria-pressed": "false" }, "Pause");
    let waiting = [];
    let frame = 0;
    let missed = 0;
    table.before(pause, state);

    const row_of = ({ cells, href, kind, state: status }) => {
      const row = element("tr", kind ? { class: kind } : {});
      cells.slice(0, columns).forEach((text, at) => {
        // Only paths of this page: never what a foreign text would lead to.
        const link = at === 0 && typeof href === "string" && /^\/(?![/\\])/.test(href);
        row.append(element("td", {}, link ? element("a", { href }, String(text)) : String(text)));
      });
      if (status) row.dataset.state = String(status);
      return row;
    };

    const skipped = (number) =>
      element("tr", { class: "skipped" }, element("td", { colspan: String(columns) }, `skipped ${number.toLocaleString("en")}`));

    /** Once a frame, however many came: newest first, and no more than can be read. */
    const show = () => {
      frame = 0;
      const rows = waiting.splice(0).slice(-MOST_ROWS).reverse();
      if (missed) rows.push(skipped(missed));
      missed = 0;
      body.prepend(...rows);
      while (body.rows.length > MOST_ROWS) body.rows[body.rows.length - 1].remove();
    };

    const put = (row) => {
      waiting.push(row);
      if (waiting.length > 2 * MOST_ROWS) missed += waiting.splice(0, waiting.length - MOST_ROWS).length;
      if (!frame && pause.getAttribute("aria-pressed") === "false") frame = requestAnimationFrame(show);
    };

    pause.addEventListener("click", () => {
      const paused = pause.getAttribute("aria-pressed") === "false";
      pause.setAttribute("aria-pressed", String(paused));
      if (!paused && !frame) show();
    });

    const source = new EventSource(table.dataset.live);
    const said = (text, name) => {
      state.textContent = text;
      table.dataset.feed = name;
    };
    source.addEventListener("open", () => said("Live", "open"));
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) said("The feed has ended; load the page again.", "ended");
      else said("Connecting again ...", "again");
    });
    source.addEventListener("message", (event) => put(row_of(JSON.parse(event.data))));
    source.addEventListener("skipped", (event) => put(skipped(Number(event.data))));
    addEventListener("pagehide", () => source.close());
  };

  // The chart

  /** Numbers of a table's columns after the first, which names the minute. */
  const numbers = (table) => Array.from(table.tBodies[0]?.rows ?? [], (row) => ({
    label: row.cells[0].textContent.trim(),
    values: Array.from(row.cells).slice(1).map((cell) => Number(cell.dataset.value ?? cell.textContent.replace(/[^0-9.-]/g, "")) || 0),
  }));

  /** The next of 1, 2, 4, 6, 8, 10, 20 ...: half of it is a number to be read as well. */
  const round = (value) => {
    const unit = 10 ** Math.floor(Math.log10(value));
    return unit * [1, 2, 4, 6, 8, 10].find((step) => step * unit >= value);
  };

  /** A drawing of a table of minutes: bars of calls with those refused in them, and a line of the slowest. */
  const chart = (table) => {
    const rows = numbers(table);
    if (!rows.length) return;
    const names = Array.from(table.tHead?.rows[0]?.cells ?? [], (cell) => cell.textContent.trim());
    // As wide as it is shown, so that its letters are as large as others.
    const width = Math.max(280, Math.min(900, (table.parentElement?.clientWidth ?? 720) - 26));
    const [height, left, foot, top] = [200, 44, 22, 12];
    const [wide, high] = [width - 2 * left, height - foot - top];
    const most = round(Math.max(1, ...rows.map((row) => row.values[0] ?? 0)));
    const slowest = round(Math.max(1, ...rows.map((row) => row.values[2] ?? 0)));
    // An hour is as wide as there is room for; of less, the newest minute is still at the right.
    const step = wide / Math.max(rows.length, 60);
    const begin = left + wide - step * rows.length;
    const title = `${names.slice(1).join(", ")} by ${names[0] ?? "minute"}; the table below says the same`;
    const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title, class: "chart" });
    const text = (x, y, anchor, words) => svg.append(drawn("text", { x, y, "text-anchor": anchor }, words));
    for (const part of [0, 0.5, 1]) {
      const y = top + high * (1 - part);
      svg.append(drawn("line", { class: "grid", x1: left, x2: width - left, y1: y, y2: y }));
      text(left - 6, y + 4, "end", (most * part).toLocaleString("en", { maximumFractionDigits: 1 }));
      if (names.length > 3) text(width - left + 6, y + 4, "start", (slowest * part).toLocaleString("en", { maximumFractionDigits: 1 }));
    }
    const points = [];
    rows.forEach((row, at) => {
      const [calls = 0, refused = 0, time = 0] = row.values;
      const bar = (name, value) => {
        const tall = (value / most) * high;
        svg.append(drawn("rect", { class: name, x: begin + at * step, y: top + high - tall, width: Math.max(step - 1, 0.5), height: tall },
          drawn("title", {}, `${row.label}: ${names.slice(1).map((name_, place) => `${name_} ${row.values[place]}`).join(", ")}`)));
      };
      bar("calls", calls);
      bar("refused", Math.min(refused, calls));
      points.push(`${begin + (at + 0.5) * step},${top + high * (1 - time / slowest)}`);
    });
    if (names.length > 3) svg.append(drawn("polyline", { class: "slow", points: points.join(" ") }));
    const named = rows.length < 12 ? [rows.length - 1] : [0, Math.floor((rows.length - 1) / 2), rows.length - 1];
    for (const at of named) text(begin + (at + 0.5) * step, height - 6, "middle", rows[at].label);
    const legend = element("figcaption", {}, ...["calls", "refused", "slow"].slice(0, names.length - 1).map((name, at) =>
      element("span", { class: `key ${name}` }, names[at + 1])));
    const figure = element("figure", {}, svg, legend);
    const details = element("details", {}, element("summary", {}, "The same as a table"));
    table.replaceWith(figure, details);
    details.append(table);
  };

  const start = () => {
    const each = (mark, act) => document.querySelectorAll(mark).forEach((found) => act(found));
    each("form[data-enter]", enter);
    each("[data-verify]", verify_record);
    each("[data-verify-range]", verify_range);
    each("table[data-live]", follow);
    each("table[data-chart]", chart);
    document.documentElement.dataset.ready = "";
  };

  return Object.freeze({ start });
})();

globalThis.agtphost = Object.freeze({ evidence });
page.start();
