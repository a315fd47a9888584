"""Checkpoints: folders that hold a whole model, read and written without pickle or remote code."""
