"""Small archives (DOCX, ODT, PPTX, EPUB) made of the XML that a test names."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

W = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006/relationships"
STYLES = (
    '<w:docDefaults><w:rPrDefault><w:rPr><w:sz w:val="22"/></w:rPr></w:rPrDefault></w:docDefaults>'
    '<w:style w:type="paragraph" w:default="1" w:styleId="Normal"><w:name w:val="Normal"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Title"><w:name w:val="Title"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="H1"><w:name w:val="heading 1"/><w:pPr><w:outlineLvl w:val="0"/></w:pPr>'
    "<w:rPr><w:b/></w:rPr></w:style>"
    '<w:style w:type="paragraph" w:styleId="H2"><w:name w:val="heading 2"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="Own"><w:name w:val="Unser Stil"/><w:basedOn w:val="H2"/></w:style>'
    '<w:style w:type="paragraph" w:styleId="TOC1"><w:name w:val="toc 1"/></w:style>'
)


def archive(files: Mapping[str, str | bytes]) -> bytes:
    """An archive of files by name."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in files.items():
            made.writestr(name, content)
    return stream.getvalue()


def links(*entries: tuple[str, str]) -> str:
    """A part with links: their kind, which is their id as well, and their target."""
    inside = "".join(f'<Relationship Id="{kind}" Type="{_OFFICE}/{kind}" Target="{to}"/>' for kind, to in entries)
    return f'<Relationships xmlns="{_PACKAGE}">{inside}</Relationships>'


def paragraph(text: str, style: str = "", *, bold: bool = False, size: int = 0, extra: str = "") -> str:
    """A paragraph of Word; size in half points."""
    look = ("<w:b/>" if bold else "") + (f'<w:sz w:val="{size}"/>' if size else "")
    named = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f'<w:p>{named}<w:r><w:rPr>{look}</w:rPr><w:t xml:space="preserve">{text}</w:t></w:r>{extra}</w:p>'


def docx(body: str, **parts: str) -> bytes:
    """A DOCX file; further parts by their kind, as ``footnotes``."""
    named = {kind: f"{kind}.xml" for kind in ("styles", *parts)}
    files: dict[str, str | bytes] = {
        "_rels/.rels": links(("officeDocument", "word/document.xml")),
        "word/_rels/document.xml.rels": links(*named.items()),
        "word/document.xml": f"<w:document {W}><w:body>{body}</w:body></w:document>",
        "word/styles.xml": f"<w:styles {W}>{STYLES}</w:styles>",
    }
    return archive(files | {f"word/{kind}.xml": content for kind, content in parts.items()})
