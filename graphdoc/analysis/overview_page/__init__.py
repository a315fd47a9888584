"""The page of an overview: a map of documents, their groups, pairs and neighbours in one HTML file."""
