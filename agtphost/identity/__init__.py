"""
Who agents are, and how that is proven. No Twisted, no network; files are read by whoever names them.

- :mod:`.canonical`, :mod:`.encoding`: the octets that hashes and signatures cover
- :mod:`.keys`: Ed25519 keys; :mod:`.jws`: signed records
- :mod:`.genesis`: the Agent Genesis and the Agent-ID that follows from it
- :mod:`.documents`: the Agent Identity Document, its signature and its served form
- :mod:`.trust`: trust tier, verification path and owner, and where each comes from
- :mod:`.agents`: everything above, loaded for all agents of a host; :mod:`.directory` finds them
- :mod:`.peer`: the other end of a connection
- :mod:`.certificates`, :mod:`.extensions`: X.509 with the AGTP extensions
- :mod:`.provisioning`: new agents, and the development profile's files; :mod:`.files`: writing them whole
"""
