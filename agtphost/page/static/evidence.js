/*
 * What can be verified of records, without a page: agtphost/audit/verify.py, merkle.py, checkpoint.py and cosignature.py.
 */
import {
  LONGEST_NOTE, LONGEST_PROOF, NO_RECORD, Walk, Wrong, base64, is_audit_id, join, key_of, opened, ring_of, same, sha256,
  signed_by, signed_octets, unhex, utf8,
} from "./signed.js";

// The tree over all records

/** The root that an inclusion proof leads to: RFC 9162 section 2.1.3.2. */
const root_from = async (index, size, leaf, proof) => {
  if (!Number.isSafeInteger(index) || !(index >= 0 && index < size)) {
    throw new Wrong("proof", `a tree of ${size} records cannot have record number ${index}`);
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
    throw new Wrong("proof", `the inclusion proof leads to a different root than the checkpoint of ${checkpoint.size} records has`);
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
    ? ok("key", `key ${ring.anchor.kid} has the fingerprint in your link, ${ring.anchor.fingerprint}`)
    : note("key", `key ${ring.anchor.kid}, which only the host vouches for; compare its fingerprint with what agtp page ` +
        `prints: ${ring.anchor.fingerprint}`);

const by_key = (ring, kid) => {
  const until = ring.until.get(kid);
  return until ? `signature of key ${kid}, which was in use until ${until}` : `signature of key ${kid}`;
};

/** The lines about membership in the tree over all records. */
const about_tree = async (bundle, ring, entry, payload) => {
  const found = bundle.inclusion;
  if (bundle.unproven) return [bad("proof", `${place_of(entry)}: ${bundle.unproven}`)];
  if (!found) return [note("proof", `no checkpoint has this record yet: ${bundle.pending || "try again in a second"}`)];
  const lines = [];
  const origin = String(payload?.server_id ?? "").replace(/[\s+]/g, "-") || "agtphost";
  const proven = async (from) => {
    const signed = await checkpoint_of(from.checkpoint, ring);
    if (signed.origin !== origin) throw new Wrong("proof", `the checkpoint is that of a different log, ${signed.origin}`);
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
    if (!entry || !is_audit_id(entry.audit_id)) throw new Wrong("form", "the host sent no record");
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
    return first ? ok("link", "the first record of its chain") : bad("link", `${place_of(entry)} names ${named} as its predecessor, which a first record cannot have`);
  }
  if (!before) return bad("link", `${place_of(entry)}: the host did not send the previous record, ${named}`);
  const walk = new Walk(ring, chain);
  const faults = await walk.add(before);
  if (faults.length) return bad("link", `the previous record, ${place_of(before)}: ${faults[0].text}`);
  const later = (await walk.add(entry)).filter((fault) => ["gap", "link", "time"].includes(fault.kind));
  if (!later.length && entry.seq !== before.seq + 1) later.push({ text: `the previous record has the number ${before.seq}` });
  if (later.length) return bad("link", `${place_of(entry)}: ${later[0].text}`);
  return ok("link", `links to the previous record, ${place_of(before)}, whose hash and signature are valid`);
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
      lines.push(ok("link", `records ${entries[0].seq} to ${walk.end.seq}: each links to its predecessor`));
    }
    if (bundle.damaged) {
      // It is named by the one after it.
      const { payload } = opened(entries[0], signed_octets(entries[0]));
      const named = { seq: entries[0].seq - 1, audit_id: payload.previous_audit_id };
      lines.push(bad("hash", `${place_of(named)}: ${bundle.damaged}`));
    }
    for (const fault of walk.faults.slice(0, 20)) lines.push(bad(fault.kind, `${place_of(fault)}: ${fault.text}`));
    if (walk.faults.length > 20) lines.push(bad("form", `and ${walk.faults.length - 20} more faults`));
    const newest = entries.at(-1);
    if (!walk.faults.some((fault) => fault.audit_id === newest.audit_id)) {
      const { payload } = opened(newest, signed_octets(newest));
      for (const line of await about_tree(bundle, ring, newest, payload)) {
        lines.push({ ...line, text: `the newest record: ${line.text}` });
      }
    }
    return verdict(lines, { faults: walk.faults });
  } catch (error) {
    return failed(error);
  }
};

export { Walk, checkpoint_of, included, opened, range, record, ring_of, signed_octets, witnesses_of };
