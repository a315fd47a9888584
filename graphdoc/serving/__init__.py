"""Serving an index: JSON and pages over HTTP, and the same as tools for agents."""
