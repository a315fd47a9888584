"""Graphs over the passages of documents, and batches of them."""
