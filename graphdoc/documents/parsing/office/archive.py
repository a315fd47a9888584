"""Archives (ZIP) that hold a document: their parts, read with limits."""

from __future__ import annotations

import io
import posixpath
import zipfile
import zlib
from typing import TYPE_CHECKING
from urllib.parse import unquote

from lxml import etree

from ....errors import DocumentError
from ....runtime.memory import free_memory
from ..elements import parse_tree
from ..formats import LARGE, MOST_PACKED

if TYPE_CHECKING:
    from lxml.etree import _Element

# A tree takes several times the memory of its text.
_COPIES = 8
_MOST_PARTS = 100_000
_OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED = "EncryptedPackage".encode("utf-16-le")


class Archive:
    """The parts of an archive in memory; ``kind`` says what it should be, for messages: ``DOCX``, ``EPUB``."""

    def __init__(self, content: bytes, kind: str) -> None:
        if content.startswith(_OLD_OFFICE):
            if _ENCRYPTED in content:
                raise DocumentError(f"it is protected by a password; save it as {kind} without one")
            raise DocumentError(f"it is an older kind of Office file under the name of {kind}; save it as {kind}")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(content))
        except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
            raise DocumentError(f"it is damaged, or no {kind} file at all; fetch or save it again") from None
        self._kind = kind
        self._infos = {info.filename.lstrip("/"): info for info in self._zip.infolist()[:_MOST_PARTS]}
        free = free_memory()
        self._left = (free if free is not None else 2**33) // _COPIES

    def __contains__(self, name: str) -> bool:
        return name in self._infos

    @property
    def names(self) -> list[str]:
        """Names of all parts, in the order of the archive."""
        return list(self._infos)

    def read(self, name: str) -> bytes:
        """Read a part; one so large that it is made to fill the memory is refused."""
        info = self._infos.get(name)
        if info is None:
            raise DocumentError(f"its part {name!r} is missing; it is damaged, or no {self._kind} file at all")
        if info.file_size > LARGE and info.file_size > MOST_PACKED * info.compress_size:
            raise DocumentError(
                f"its part {name!r} unpacks from {info.compress_size:,} to {info.file_size:,} bytes, as no text does; "
                "it is not read"
            )
        self._left -= info.file_size
        if self._left < 0:
            raise DocumentError(f"its part {name!r} unpacks to {info.file_size:,} bytes, more than fits into memory")
        if info.flag_bits & 1:
            raise DocumentError(f"it is protected by a password; save it as {self._kind} without one")
        try:
            # No more than the size that is named comes out, whatever the packed data hold.
            return self._zip.read(info)
        except (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError):
            raise DocumentError(f"its part {name!r} is damaged; fetch or save it again") from None

    def tree(self, name: str) -> _Element:
        """Parse a part that is XML."""
        return xml_part(self.read(name), name)

    def links(self, name: str) -> dict[str, tuple[str, str]]:
        """Where a part of an Office file leads: kind and name of the target by id; links to the web are left out."""
        folder, _, file = name.rpartition("/")
        part = f"{folder}/_rels/{file}.rels".lstrip("/")
        if part not in self:
            return {}
        found = {}
        for link in self.tree(part).iter("{*}Relationship"):
            if link.get("TargetMode") != "External":
                target = resolved(folder, link.get("Target", ""))
                found[link.get("Id", "")] = (link.get("Type", "").rpartition("/")[2], target)
        return found


def resolved(folder: str, target: str) -> str:
    """The name of a part that another one in a folder leads to."""
    path = unquote(target.partition("#")[0])
    joined = path.lstrip("/") if path.startswith("/") else posixpath.join(folder, path)
    return posixpath.normpath(joined).lstrip("/") if path else ""


def xml_part(content: bytes, name: str) -> _Element:
    """Parse XML of a part; a byte order mark or its declaration gives the encoding."""
    encoding = "utf-16" if content[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    try:
        return parse_tree(content.decode(encoding))
    except (UnicodeError, etree.XMLSyntaxError) as error:
        reason = " ".join(str(error).split())
        raise DocumentError(f"its part {name!r} is damaged ({reason}); fetch or save it again") from None


def archive_title(archive: Archive, part: str = "docProps/core.xml") -> str:
    """The title in the properties of an Office file."""
    try:
        tree = archive.tree(part)
    except DocumentError:
        return ""
    return next((" ".join((element.text or "").split()) for element in tree.iter("{*}title")), "")
