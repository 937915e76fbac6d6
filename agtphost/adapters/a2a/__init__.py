"""
A2A agents behind AGTP: adapters section 1.2, A2A 1.0 with 0.3 read.

From the wire upwards: :mod:`.card` judges what an agent says of itself;
:mod:`.dialects` writes requests and reads answers, :mod:`.legacy` those of
0.3; :mod:`.agent` is one agent; :mod:`.tasks` follows events; :mod:`.messages`
reads what callers send; :mod:`.handlers` are the actions and :mod:`.bindings`
what the gates see of them; :mod:`.adapter` is what EXECUTE asks. :mod:`.relay`
carries whole operations for A2A clients of the front, :mod:`.relayed` says in
which terms; :mod:`.fronted` keeps their tasks with the host's own agents.
"""

from agtphost.adapters.a2a.adapter import A2AAdapter
from agtphost.adapters.a2a.agent import A2AAgent
from agtphost.adapters.a2a.card import CardKey

__all__ = ["A2AAdapter", "A2AAgent", "CardKey"]
