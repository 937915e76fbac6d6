"""Finding what there is: by words, by meaning, and where one of them fails."""
