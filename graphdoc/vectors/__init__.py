"""Folders of vectors: written in shards, resumable, and read back."""
