"""The results page of a search."""
