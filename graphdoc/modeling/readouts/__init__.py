"""Readouts: how the nodes of a document become its vector."""
