"""
INSPECT: records, decisions, definitions, proofs and upstreams, for those who may see them.

- :mod:`.inspect`: INSPECT
- :mod:`.decisions`: INSPECT ``target=decision``: whether an agent may make a call, and which gate says so
- :mod:`.definitions`: ``INSPECT target=endpoint``: the definition of one endpoint, as the manifest has it, in a
  document of its own
- :mod:`.proofs`: INSPECT of the tree over all records: checkpoints and proofs
- :mod:`.upstreams`: ``INSPECT target=upstreams``: what the host's upstreams are up to, for operators
"""
