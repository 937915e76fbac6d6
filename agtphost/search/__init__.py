"""
Search by words and by meaning, over everything with a name and a description: tools, endpoints, agents, cards.

Theory of operation. An :class:`.index.Index` is built from :class:`.index.SearchEntry` values, and rebuilt when they
change. :meth:`.index.Index.search` ranks them for an :class:`.index.SearchQuery`, in any thread. It searches by words
only (BM25) until :class:`.engine.SearchEngine` has given it a vector for each entry. The engine is asynchronous, and
the rest of the host calls it::

    engine = services.table.search                # the host's, in a feature
    engine = SearchEngine(run, clock)             # by words only, in a test
    index = engine.index([SearchEntry("merge_pull_request", "Merge a pull request", languages=("en",)), ...])
    found = await engine.search(index, SearchQuery(text="land the PR", among=allowed, limit=5))
    found.engine, found.total, found.hits         # "static", 3, ((number of the entry, score from 0 to 1), ...)

Access to entries is decided before ranking: ``among`` removes entries first, and the others have
the scores that they would have if the removed ones did not exist.

Scores are fused, never ranks: the cosine plus a tenth of BM25 relative to its best, scaled to 0..1. If an embedder
fails, BM25 is used, and ``engine`` tells that.

- :mod:`.index`: entries, queries, and ranking
- :mod:`.word_stems`: the words of a text, and their stems
- :mod:`.lexical`: BM25 over an inverted index of words
- :mod:`.languages`: the language that a query asks for
- :mod:`.engine`: searches with an embedder outside of the reactor, and its failures
- :mod:`.configured_engines`: the host's engines, one for each ``[search]``, kept over reloads
- :mod:`.models`: embedders that run here: static vectors, and an operator's ONNX model
- :mod:`.remote`: an embeddings service
- :mod:`.vectors`: a cache of vectors in ``state_dir``
"""
