"""An index of a few documents, made anew for every test."""

from __future__ import annotations

from small_index import documents as documents
from small_index import encoder as encoder
from small_index import index as index
from small_index import place as place
from small_index import read_index as read_index
