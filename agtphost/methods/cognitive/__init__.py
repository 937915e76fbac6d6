"""
QUERY, SUMMARIZE and PLAN: answers from the host's documents and endpoints.

- :mod:`.query`: QUERY: which documents and endpoints answer a question
- :mod:`.summary`: SUMMARIZE: a text in fewer sentences
- :mod:`.plan`: PLAN: which endpoints lead to a goal, in which order
- :mod:`.documents`: the operator's documents, which QUERY and SUMMARIZE read
- :mod:`.relevance`: how well a text answers a question, by the words both have: plain, offline, and the same every
  time
"""
