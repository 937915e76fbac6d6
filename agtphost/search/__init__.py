"""
Search by words and by meaning, over whatever has a name and a description: tools, endpoints, agents, cards.

Theory of operation. An :class:`.index.Index` is made of :class:`.index.Entry` values once, and again when they change;
:meth:`.index.Index.search` ranks them for an :class:`.index.Wanted`, in whatever thread it is called. It finds by
words alone (BM25) until :class:`.engine.SearchEngine` has given it a vector for each entry. That one is asynchronous
and is what the rest of the host calls::

    engine = on.lasting.searching.of(on.config, on.loaded.model, volatile=on.loaded.volatile)   # the host's
    engine = SearchEngine(run, clock)             # by words alone, in a test
    index = engine.index([Entry("merge_pull_request", "Merge a pull request", languages=("en",)), ...])
    found = await engine.search(index, Wanted(text="land the PR", among=allowed, limit=5))
    found.engine, found.total, found.hits         # "static", 3, ((number of the entry, score from 0 to 1), ...)

Who may know of an entry is decided before anything is ranked: ``among`` takes entries out first, and what is left has
the scores that it would have if the others did not exist.

Scores are fused, and ranks never: the cosine plus a tenth of BM25's share of its best, brought to 0..1. An embedder
that fails leaves BM25, and ``engine`` says so.

- :mod:`.index`: entries, what is wanted, and ranking
- :mod:`.words`: the words of a text, and their stems
- :mod:`.lexical`: BM25 over an inverted index of them
- :mod:`.languages`: the language that a query asks for
- :mod:`.engine`: an embedder behind an index, off the reactor; what happens where it fails
- :mod:`.models`: embedders that run here: static vectors, and an operator's ONNX model
- :mod:`.remote`: an embeddings service
- :mod:`.vectors`: vectors that were made once, kept in ``state_dir``
"""
