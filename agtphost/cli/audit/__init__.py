"""
``agtp audit``: records, checked.

- :mod:`.commands`: the group and its own commands: records, one by one, as chains, verified, exported
- :mod:`.answered`: one record as it came with an answer over HTTP, on standard input
- :mod:`.accept`: ``agtp audit accept-store``: go on with a store that its witness file contradicts, knowingly
- :mod:`.entries`: records as INSPECT shows them, taken for true only once checked
- :mod:`.export`: ``agtp audit export``: records as a file that anybody can verify
- :mod:`.follow`: ``agtp audit follow``: records as they are made
- :mod:`.prove`: ``agtp audit prove`` and ``agtp audit checkpoint``: records as part of a log that only ever
  grows
- :mod:`.report`: ``agtp audit report``: an export as a page that a person can read and a table for spreadsheets
- :mod:`.report_page`: the page of it
- :mod:`.store`: the host's own store, read by commands on its machine: also while the host runs
- :mod:`.verify`: ``agtp audit verify``: is what was recorded whole, in order, and signed?
"""
