"""Matching pairs of documents view by view (SST)."""
