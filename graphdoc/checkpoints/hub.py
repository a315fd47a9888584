"""Uploading checkpoints to the hub."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any


def upload(save: Callable[[str], Any], repository: str, private: bool, message: str) -> str:
    """Upload a checkpoint.

    Args:
        save: writes the checkpoint into a folder.
        repository: ``owner/name``; made if it is missing.
        private: whether a new repository is private.
        message: commit message.

    Returns:
        The address of the commit.
    """
    from huggingface_hub import HfApi

    api = HfApi()
    api.create_repo(repository, private=private, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        save(folder)
        return str(api.upload_folder(repo_id=repository, folder_path=folder, commit_message=message))
