"""
``agtp audit``: verify, export and prove records.

- :mod:`.commands`: the group, and commands for single records and chains
- :mod:`.http_answer`: verify the record of an HTTP answer on standard input
- :mod:`.accept`: ``agtp audit accept-store``: accept a store that its witness file contradicts
- :mod:`.entries`: verified records from answers of INSPECT
- :mod:`.export`: ``agtp audit export``: write records to a file that anyone can verify
- :mod:`.follow`: ``agtp audit follow``: print records as they are made
- :mod:`.prove`: ``agtp audit prove`` and ``agtp audit checkpoint``: prove that records are in an append-only log
- :mod:`.search`: ``agtp audit search``: find records of all chains, and count them
- :mod:`.summary`: find the event of a summary, for ``agtp audit get``
- :mod:`.filter_options`: the options of the filter language; :mod:`.record_table`: records as rows of a table
- :mod:`.report`: ``agtp audit report``: an export as a readable page and as a spreadsheet
- :mod:`.report_page`: the page of ``agtp audit report``
- :mod:`.store`: read the host's own store, also while the host runs
- :mod:`.verify`: ``agtp audit verify``: verify that records are complete, in order and signed
"""
