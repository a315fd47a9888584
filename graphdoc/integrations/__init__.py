"""Graphdoc inside of other libraries."""
