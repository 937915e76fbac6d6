"""
Agents' identities and their proofs. Without Twisted and without network access.

- :mod:`.canonical`, :mod:`.encoding`: the octets that hashes and signatures cover
- :mod:`.keys`: Ed25519 keys; :mod:`.jws`: signed records
- :mod:`.genesis`: the Agent Genesis and the Agent-ID that follows from it
- :mod:`.documents`: the Agent Identity Document, its signature and its served form
- :mod:`.trust`: trust tier, verification path and owner, and where each comes from
- :mod:`.agents`: everything above of an agent; :mod:`.agent_files` loads all of a host, :mod:`.directory` finds them;
  :mod:`.live_directory`: for objects that outlive a configuration
- :mod:`.peer`: the other end of a connection
- :mod:`.required_assurance`: how surely a caller must be known, where the operator wrote nothing
- :mod:`.certificates`, :mod:`.extensions`: X.509 with the AGTP extensions; :mod:`.alternative_names`: those of servers
- :mod:`.chain_verification`: the peer's certificate chain where OpenSSL does not shake hands
- :mod:`.provisioning`: new agents, and the development profile's files; :mod:`.description_update`: descriptions that
  were edited since; :mod:`.files`: writing them whole
- :mod:`.dns_anchor`: what a Tier 1 Genesis rests on, as far as the DNS can show it
- :mod:`.authorities`: which client authority may vouch for which agents: what ``[[tls.client_authority]]`` gives it,
  and no others
- :mod:`.bearer`: bearer tokens of external identity providers: on whose behalf an agent acts
- :mod:`.cose`: COSE_Sign1 for lifecycle events
- :mod:`.delegation`: delegation and governance tokens: signed, short-lived and used once
- :mod:`.detached`: signatures that are sent next to a document instead of in it: a JWS with detached content
- :mod:`.envelope`: signed records in either envelope: JWS Compact or COSE_Sign1
- :mod:`.expiry`: certificates, lists and grants that expire, and the warnings before that
- :mod:`.renewal`: a certificate issued again, for the same key and saying the same
- :mod:`.intent`: Intent-Assertions: a principal wants one purchase, and the platform that governs its agent says so
- :mod:`.scope_statement`: which scopes an agent has from now on, by a statement of its issuer
- :mod:`.issuance`: issuing an agent: what is checked before, and the registrar's statement of it
- :mod:`.cached_encoding`: long arrays of a document that keep their texts, so that the whole is written and signed
  without looking at each item
- :mod:`.key_history`: the host's signing key and those before it: issue of a new one, the statement that links both,
  and what is kept
- :mod:`.key_ring`: the keys of one host over time: which are trusted, which followed which, and until when each
  counts
- :mod:`.manifest_signature`: the signature of a server manifest
- :mod:`.packages`: packaged agents
- :mod:`.document_view`: an Identity Document for people
- :mod:`.revocation`: certificate revocation lists: reading them, issuing them, and asking them on every request
"""
