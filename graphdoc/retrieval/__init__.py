"""Retrieval: an index of documents that is kept up to date, searched by words and by vectors, and that explains."""
