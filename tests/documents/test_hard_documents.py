"""Kinds of documents that people have and that are easily read wrong without a word."""

from __future__ import annotations

import base64
import itertools
from pathlib import Path

import pytest
from archives import docx

from graphdoc.documents.document import Document
from graphdoc.documents.readers import read_documents
from graphdoc.errors import DocumentError

STORY = "".join(f"The harbour master wrote that tide {n} had turned before noon. " for n in range(8))
DATA = f'<script type="application/ld+json">[{{"@type": "NewsArticle", "articleBody": "{STORY}"}}]</script>'
SIGNED = "-----BEGIN PGP SIGNED MESSAGE-----"


def read(path: Path, content: str | bytes) -> Document:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    (document,) = read_documents(path)
    return document


@pytest.mark.parametrize("sign", [";", "\t", "|", ","])
def test_the_header_of_a_table_tells_its_delimiter(tmp_path: Path, sign: str) -> None:
    rows = [["id", "title", "text"], ["1", "Gate", f'"The gate{sign} at noon."'], ["2", "Tide", "It came in."]]
    (tmp_path / "c.csv").write_text("\n".join(sign.join(row) for row in rows))
    found = [(one.id, one.title, one.text) for one in read_documents(tmp_path / "c.csv")]
    assert found == [("1", "Gate", f"The gate{sign} at noon."), ("2", "Tide", "It came in.")]
    # They are counted outside of quotation marks.
    tables = ('"Name, first";text\n"a, b";one\n', "id;text;a,b\n1;one;x\n", '"text"|"x;y;z"\n"one"|"2"\n')
    for table in (*tables, "\nid;text\n1;one\n", "sep=;\nid;text\n1;one\n", 'id, "text"\n1, "one"\n'):
        (tmp_path / "e.csv").write_text(table)
        assert [one.text for one in read_documents(tmp_path / "e.csv")] == ["one"]
    # Their names may be written in any case, but a column that is called exactly so counts.
    for header in ("ID;Text;Title", "Id;TEXT;TITLE;text", "_id;tExT;title;"):
        (tmp_path / "f.csv").write_text(f"{header}\n1;one;A{';two' * (header.count(';') > 2)}\n")
        (found,) = read_documents(tmp_path / "f.csv")
        assert (found.id, found.title, found.text) == ("1", "A", "two" if ";text" in header else "one")
    # A comma in the header decides, whatever else stands there.
    (tmp_path / "d.csv").write_text("id,a;b,text\n1,x,one; two | three\n")
    (document,) = read_documents(tmp_path / "d.csv")
    assert document.text == "one; two | three" and document.metadata == {"a;b": "x"}


def test_front_matter_of_toml(tmp_path: Path) -> None:
    text = '+++\ntitle = "Tides"\ndate = 2024-01-02\ntags = ["sea", "moon"]\n[place]\nname = "Cuxhaven"\n+++\nIt rose.'
    document = read(tmp_path / "a.md", text)
    assert (document.title, document.text) == ("Tides", "It rose.")
    assert document.metadata["date"] == "2024-01-02" and document.metadata["tags"] == ("sea", "moon")
    assert read(tmp_path / "c.md", "+++\r\ntitle = 'Tides'\r\n+++\r\n\r\n## Ebb\r\n\r\nIt fell.\r\n").title == "Tides"
    assert read(tmp_path / "d.md", "+++\n+++\n# Tides\n\nIt rose.").text == "It rose."
    for broken in ("+++\nno toml\n+++\nIt rose.", "+++\nIt rose."):
        assert "It rose." in read(tmp_path / "b.md", broken).text


def test_mails_inside_a_mail_are_sections_under_their_subjects(tmp_path: Path) -> None:
    def mail(subject: str, body: str, kind: str = "text/plain") -> str:
        return f"From: a@example.org\nSubject: {subject}\nMIME-Version: 1.0\nContent-Type: {kind}\n\n{body}\n"

    def multipart(subject: str, kind: str, sign: str, *parts: str) -> str:
        body = "".join(f"--{sign}\n{part}\n" for part in parts) + f"--{sign}--"
        return mail(subject, body, f'{kind}; boundary="{sign}"')

    inner = "Content-Type: message/rfc822\n\n"
    deep = multipart("Re: gate", "multipart/mixed", "B", "\nSecond.", inner + mail("gate", "First."))
    whole = multipart("Fwd: gate", "multipart/mixed", "A", "\nSee below.", inner + deep)
    document = read(tmp_path / "a.eml", whole)
    assert document.title == "Fwd: gate" and "attachments" not in document.metadata
    found = [(one.level, one.heading, one.text.strip()) for one in document.sections]
    assert found == [(1, "", "See below."), (1, "Re: gate", "Second."), (2, "gate", "First.")]
    assert document.sections[2].path == ("Re: gate", "gate")
    # So are those that were pasted in with their heads.
    marks = {"-- Forwarded message --": "", "Begin forwarded message:\n": "> ", "_____": ">> ", "______": ""}
    for mark, quote in marks.items():
        head = ["To: a", "From: b", "Date: Mon", "Subject: gate", "References: <1@x>", "\t<2@x>", "MIME-Version: 1"]
        folded = [*head[:3], "Subject: the", "\tgate", *head[4:]]
        pasted = [quote + line for line in (*(folded if mark == "______" else head[1:4]), "", "First.")]
        body = "\n".join(["See below.", "", mark.replace("--", "-----"), *pasted])
        pasted = read(tmp_path / "c.eml", mail("Fwd", body))
        expected = [("", "See below."), ("the " * (mark == "______") + "gate", "First.")]
        assert [(one.heading, one.text) for one in pasted.sections] == expected
    # Those without headers are read as well.
    bare = inner + "Content-Type: text/plain\n\nBare text.\n"
    for part in (bare, f'Content-Type: multipart/mixed; boundary="B"\n\n--B\n{bare}\n--B--\n'):
        text = read(tmp_path / "b.eml", multipart("Whole", "multipart/mixed", "A", "\nOuter text.", part)).text
        assert "Outer text." in text and "Bare text." in text
    # Some servers pack them.
    packed = "Content-Type: message/rfc822\nContent-Transfer-Encoding: base64\n\n"
    packed += base64.encodebytes(mail("gate", "First.").encode()).decode()
    document = read(tmp_path / "b.eml", multipart("Whole", "multipart/mixed", "A", "\nOuter.", packed))
    assert [(one.heading, one.text.strip()) for one in document.sections] == [("", "Outer."), ("gate", "First.")]
    parts = ("\nOne.", "\nTwo.", f"Content-Type: message/rfc822\n\n{mail('x', '<p>Three.', 'text/html')}")
    texts = read(tmp_path / "d.eml", multipart("a", "multipart/mixed", "A", *parts)).text.split()
    assert texts == ["One.", "Two.", "Three."]
    for encoding in ("utf-16", "utf-16-le", "utf-8-sig", "utf-8", "latin-1"):
        document = read(tmp_path / "e.eml", mail("Käse", "Käse.").encode(encoding))
        assert (document.title, document.text) == ("Käse", "Käse.")
    for encoding in ("utf-16", "utf-16-be"):
        wide = base64.b64encode("Käse.".encode(encoding)).decode()
        kind = f"text/plain; charset={encoding}\nContent-Transfer-Encoding: base64"
        assert read(tmp_path / "e.eml", mail("Tides", wide, kind)).text == "Käse."
    signature = "-----BEGIN PGP SIGNATURE-----\nVersion: 1\n\niQEzBAEBCAAd\n=aB1c\n-----END PGP SIGNATURE-----"
    document = read(tmp_path / "e.eml", mail("Tides", f"{SIGNED}\nHash: SHA1\n\nThey rise.\n{signature}"))
    assert document.text == "They rise." and document.metadata["dropped_elements"] == {"PGP block": 2}
    for name, wrong in itertools.product(("utf-8", "latin-1", "us-ascii", "gb2312", "none"), (b"", b"\xff")):
        body = mail("Tides", "Käse. " * 40, f"text/plain; charset={name}").encode() + wrong
        document = read(tmp_path / "e.eml", body)
        assert document.text.count("Käse.") == 40 and document.text.count("\ufffd") == len(wrong)
        assert len(document.metadata.get("warnings", ())) == len(wrong)
    # What was cut off in a head or in base64 is not read as text.
    for cut in ("From: a@b.c\nSubject: Tides\nConte", multipart("Tides", "multipart/mixed", "A", "Conte")[:-7]):
        with pytest.raises(DocumentError, match="no text"):
            read(tmp_path / "f.eml", cut)
    letters, kind = base64.b64encode(b"The tide rose.").decode()[:17], "text/plain\nContent-Transfer-Encoding: base64"
    whole = multipart("Tides", "multipart/mixed", "A", "\nThe tide ros")
    for cut in (mail("Tides", letters, kind), whole.rpartition("\n--")[0]):
        document = read(tmp_path / "g.eml", cut)
        assert document.text == "The tide ros" and len(document.metadata["warnings"]) == 1


def test_a_paragraph_whose_mark_was_deleted_goes_on_in_the_next(tmp_path: Path) -> None:
    deleted = '<w:pPr><w:rPr><w:del w:id="1"/></w:rPr></w:pPr>'
    runs = [f'<w:r><w:t xml:space="preserve">{part}</w:t></w:r>' for part in ["One ", "two ", "three."]]
    body = "<w:bookmarkEnd/>".join(f"<w:p>{deleted if run is not runs[-1] else ''}{run}</w:p>" for run in runs)
    body += "<w:p><w:r><w:t>Apart.</w:t></w:r></w:p>"
    assert read(tmp_path / "a.docx", docx(body)).text == "One two three.\n\nApart."
    cells = "".join(f"<w:tc>{cell}</w:tc>" for cell in (f"<w:p>{deleted}{runs[0]}</w:p><w:p>{runs[1]}</w:p>", "<w:p/>"))
    table = docx(f"<w:tbl><w:tr>{cells}</w:tr></w:tbl><w:p>{deleted}{runs[2]}</w:p><w:tbl/><w:p>{runs[0]}</w:p>")
    assert read(tmp_path / "c.docx", table).text == "One two\n\nthree.\n\nOne"
    # Nothing follows the last one.
    assert read(tmp_path / "b.docx", docx(f"<w:p>{deleted}{runs[2]}</w:p>")).text == "three."


@pytest.mark.parametrize(
    ("html", "gone"),
    [
        (f"<main><p>Photo: agency</p></main><div><p>{STORY}</p></div>", None),
        (f"<div role=main><h1>Share</h1></div><div id=text><h1>Tide</h1><p>{STORY}</p></div>", None),
        (f"<div id=app></div><noscript><article><h1>Tide</h1><p>{STORY}</p></article></noscript>", None),
        (f"<p>{STORY}</p><noscript><p>Turn on scripts.</p></noscript>", "Turn on"),
        (f"<header><nav><a href='/'>Home</a><main><p>{STORY}</p></main>", "Home"),
        (f"<nav><ul><li><a href='/'>Home</a></ul><main><h1>Tide</h1><p>{STORY}</p>", "Home"),
        (f"<p>Wait.</p><noscript><p>{STORY}</p></noscript>", None),
        (f"<nav><ul><li><a href='/'>Home</a></ul><div><h1>Tide</h1><p>{STORY}</p></div>", None),
        (f"<article><nav><a href='#t'>Tide</a><h1 id=t>Tide</h1><p>{STORY}</p></article>", None),
        (f"<p>Subscribe.</p><div hidden><div style='display:none'><p>{STORY}</p></div></div>", None),
        (f"<dialog open><p>{STORY}</p></dialog><div role=dialog><p>We use cookies.</p></div>", "cookies"),
        (f"<x-story><template shadowrootmode=open><p>{STORY}</p></template></x-story>", None),
        (f"<div><h1>Tide</h1><p>{STORY}</p></div><main><p>I do not believe a word of it.</p></main>", None),
        (f"<div><h2>Tide</h2><p>{STORY}</p></div><main><h2>Two comments</h2>{'<p>Not a word.</p>' * 7}</main>", None),
        (f"<head><noscript><p>{STORY}</p></noscript></head><p>Wait.</p>", None),
        (f"{DATA}<h1>Tide</h1><p>{STORY[:90]}</p><p>Log in.</p>", None),
        (f"{DATA}<h1>Tide</h1><p>{STORY}</p><p>Log in.</p>", None),
        (f"{DATA}<h1>Tide</h1><p>Log in.</p>", None),
        (DATA, None),
        (f"<p>Wait.</p><button aria-controls=t>+</button>{'<p>Tide.</p>' * 30}<div id=t hidden>{STORY}</div>", None),
        (f"<p>{STORY}</p><div id=comments><p>So it is.</p><form><textarea></textarea></form></div>", "So it"),
        (f"<p>{STORY}</p><div id=comments><h2>Comments on the law</h2><p>So.</p></div>".replace("So.", STORY), None),
    ],
)
def test_the_text_of_a_page_is_found_where_it_is(tmp_path: Path, html: str, gone: str | None) -> None:
    text = read(tmp_path / "a.html", html).text
    assert text.count(STORY.strip()) == (2 if "law" in html else 1) and (gone is None or gone not in text)


def test_encodings_of_pages(tmp_path: Path) -> None:
    style = f"<style>{'p { margin: 0 } ' * 200}</style>"
    tide, kana, capitals = "Приливы", "潮が満ちてきた", "Über Ähren: ÜBER ÄHREN, größer als Öl"
    for label, word in (
        *(("windows-1251", tide), ("koi8-r", tide), ("koi8-r", tide.upper()), ("windows-1251", tide.upper())),
        *(("iso-8859-1", "Käse’s"), ("iso-8859-1", capitals), ("x-sjis", kana), ("euc-jp", kana)),
    ):
        page = f"<html><head>{style}<meta charset={label}><title>{word}</title></head><p>{word}.</p></html>"
        name = {"iso-8859-1": "cp1252", "x-sjis": "cp932"}.get(label, label)
        assert read(tmp_path / "a.html", page.encode(name)).text == f"{word}."
        # Old pages that declare nothing are in the encoding that is usual in their language, or in no known one.
        language = {"iso-8859-1": "de-AT", "x-sjis": "ja", "euc-jp": "ja"}.get(label, "ru")
        document = read(tmp_path / "a.html", f"<html lang={language}><p>{word}.</p></html>".encode(name))
        assert document.text == f"{word}." and document.metadata["warnings"]
    moon, cheese = "潮水每天漲兩次，是月亮吸引海洋的。", "für große Käse"
    for language, name, word in (("ru", "cp866", tide), ("de", "mac-roman", cheese), ("zh", "big5", moon)):
        with pytest.raises(DocumentError, match="cp1252" if language == "de" else name):
            read(tmp_path / "a.html", f"<html lang={language}><p>{word}.</p></html>".encode(name, "ignore"))
    russian = f"{tide} приходят два раза в день. Луна поднимает море. "
    for name, text in (("koi8-r", russian), ("cp1251", russian), ("euc-jp", kana * 5), ("cp932", kana * 5)):
        document = read(tmp_path / "a.txt", text.encode(name))
        assert document.text == text.strip() and document.metadata["warnings"]
    for name, text in (("cp1253", "ΚΑΙ ΤΟ ΦΕΓΓΑΡΙ ΣΗΚΩΝΕΙ"), ("mac-cyrillic", russian), ("cp1252", cheese * 9)):
        with pytest.raises(DocumentError, match="utf-8"):
            read(tmp_path / "a.txt", (text * 3).encode(name))
    # This is ASCII throughout, and UTF-8 too.
    for name, text in (("iso2022_jp", kana), ("iso2022_kr", "조수")):
        assert all(read(tmp_path / file, text.encode(name)).text == text for file in ("a.html", "a.txt"))
    # What a file is counts more than what it is called.
    others = {"RTF": b"{\\rtf1 Tide.}", "PDF": b"%PDF-1.4\n1 0\xff", "PostScript": b"%!PS-Adobe-3.0\n(Tide) show"}
    others |= {"DOCX": docx("<w:p/>"), "Outlook": bytes.fromhex("d0cf11e0a1b11ae1ff")}
    for (said, content), kind in itertools.product(others.items(), ("txt", "md", "eml")):
        with pytest.raises(DocumentError, match=said):
            read(tmp_path / f"a.{kind}", content)
    # Neither comments nor scripts end a head or declare its encoding, and a head may end without a sign.
    hidden = f"<!-- {tide * 400} <meta charset=koi8-r></head> -->", f"<script>'<body>{tide * 400}'</script>"
    for before in (*hidden, "<!-->", "<script src=a.js />"):
        for page in (f"<html><head>{before}<meta charset=cp1251></head>", f"{before}<meta charset=cp1251>"):
            assert read(tmp_path / "a.html", f"{page}<p>{tide}.</p>".encode("cp1251")).text == f"{tide}."
    # What a body says of encodings declares none.
    said = f"<html><head></head><body>{'<p>Käse.</p>' * 300}<pre>&lt;meta charset=koi8-r></pre></body></html>"
    with pytest.raises(DocumentError, match="utf-8"):
        read(tmp_path / "b.html", said.encode("latin-1"))
    page = f"<html><body>{'<p>Käse reift.</p>' * 40}</body></html>".encode()
    rare = (page.replace("ä".encode(), b"e") + b"<p>reift</p>" * 999).replace(b"Kese", "Käse".encode(), 1)
    for wrong, kind in itertools.product((b"re\xe4ft", b"reift\xff", b"\x93reift"), ("html", "txt")):
        for content in (page, rare):
            document = read(tmp_path / f"c.{kind}", content.replace(b"reift", wrong, 1))
            assert document.text.count("\ufffd") == 1 and document.text.count("Käse") == (40 if content == page else 1)
            assert document.metadata["warnings"] and "1" in document.metadata["warnings"][0]


@pytest.mark.parametrize(
    ("written", "plain"),
    [
        ("so\u00adft\u200bware", "software"),
        ("cafe\u0301 nai\u0308ve", "café naïve"),
        ("o\ufb03ce \ufb01nds \ufb02ow", "office finds flow"),
        ("na\u0131\u0308ve soft\u200eware, 2\u2062x, self\u2011made", "naïve software, 2x, self-made"),
        ("\uff27\uff21\uff34\uff11", "GAT1"),
        # Joiners are letters of these.
        ("می\u200cخواهم \U0001f469\u200d\U0001f52c", "می\u200cخواهم \U0001f469\u200d\U0001f52c"),
    ],
)
def test_words_that_look_the_same_are_the_same(tmp_path: Path, written: str, plain: str) -> None:
    for document in (
        Document.from_text(written, title=written),
        read(tmp_path / "a.html", f"<title>{written}</title><h2>{written}</h2><p>{written}</p>"),
        read(tmp_path / "a.md", f"# {written}\n\n{written}"),
    ):
        assert document.title == plain and document.sections[-1].text == plain
        assert document.sections[-1].heading in ("", plain)


@pytest.mark.parametrize(
    ("name", "content", "title"),
    [
        ("a.rst", "PEP: 1\nTitle: Tides\nAuthor: A. Doe <a@example.org>\n\nIntro\n=====\n\nThey rise.\n", "Tides"),
        ("b.rst", ":Title: Tides\n:Author: A. Doe\n\nThey rise.\n", "Tides"),
        ("c.txt", "From: a@b.org\nContent-type: b\nSubject: Tides\n  of it\nDate: Mon\n\nThey rise.\n", "Tides of it"),
        ("k.rst", "Tides\n=====\n\n:Author: A. Doe <a@example.org>\n:Date: 2024\n\nThey rise.\n", "Tides"),
        ("l.txt", "A group   A. Doe\nRequest for Comments: 1   May 2024\n\n\n      Tides\n\nThey rise.\n", "Tides"),
        ("q.txt", "From: a@example.org\nSubject: Tides\nX-I.D.: b\nX-I.D.: c\nSummary: They rise.\n\nSo.\n", "Tides"),
        ("d.md", "## Tides\n\nThey rise.\n\n## Moon\n\nIt pulls.\n", "Tides"),
        ("2.md", "### Tides\n\nThey rise.\n", "Tides"), ("3.md", "## Tides\n\n### Ebb\n\nThey rise.\n", "Tides"),
        ("a.md", "Tides of 2024\n\nThey rise. They fall again.\n", "Tides of 2024"),
        ("6.md", "# Tides {#tides .wide}\n\nThey rise.\n", "Tides"), ("7.md", "# Sets {a}\n\nThey rise.", "Sets {a}"),
        ("8.md", "# Sets `{.a}`\n\nThey rise.", "Sets {.a}"), ("9.md", "# Notes {# #}\n\nThey rise.", "Notes {# #}"),
        ("e.txt", "Tides of the harbour\n\nThey rise. They fall again.\n", "Tides of the harbour"),
        ("f.html", "<title>Untitled document</title><h2>Tides</h2><p>They rise.</p>", "Tides"),
        ("g.html", "<title>Microsoft Word - tides.doc</title><p>They rise.</p>", "Microsoft Word - tides.doc"),
        ("o.md", "\n---\ntitle: Tides: the moon\nauthor: 'A. Doe'\n---\nThey rise.\n", "Tides: the moon"),
        ("r.txt", "Tides\n=====\n\n1. Ebb\n\n    They rise.\n\n2. Flood\n\n" + "    So.\n" * 9, "Tides"),
        ("s.txt", "\t\t   Tides\n\t\tVersion 2.1\n\t\t  A. Doe\n\n1. Ebb\n\nThey rise.\n\n2. Flood\n\nSo.\n", "Tides"),
        ("t.txt", "# " + "Tides " * 20 + "\n\n## Ebb\n\nThey rise.\n\n## Flood\n\nSo.\n", ("Tides " * 20).strip()),
        ("n.txt", ".. include:: a\n\nTides\n=====\n\n:Author: A. Doe\n:Web Site: b@c\n\nThey rise.\n", "Tides"),
        ("u.txt", "$Id$\n\n\tTides: of it\n\nThey rise.\n\nSo.\n", "Tides: of it"),
        ("w.html", "Content-type: text/html; charset=UTF-8\n\n<html><title>Tides</title><p>They rise.</p>", "Tides"),
        ("u.txt", "Tides of 2024\n\nEBB\n\nThey rise.\n\nFLOOD\n\nThey fall.\n", "Tides of 2024"),
        ("v.md", "Ebb\tFlood\n\n(tide)=\n# Tides\n\nThey rise.\n\n## Moon\n\nIt pulls.\n", "Tides"),
        ("w.html", "<title>Top (Tides): </title><p>They rise.</p>", "Tides"),
        ("x.html", "<h2>Name</h2><p>tide − rise and fall</p><h2>Use</h2><p>They rise.</p>", "tide − rise and fall"),
        ("5.html", "<title>2. Tides</title><h1>Sea</h1><h2>Chapter 2: Tides</h2><p>They rise.</p>", "2. Tides"),
        ("a.htm", "<title>Tides</title>1.2<h1>Tides of the sea</h1><p>They rise.</p>", "Tides of the sea"),
        ("b.htm", "<title>Tides</title>1.2<h1>1. Tides of the sea</h1><p>They rise.</p>", "Tides"),
        ("e.txt", "Tides\nOf A\nBy B. Roe\n\nA rise.\n", "Tides"), ("p.md", "% Tides\n% A. Doe\n\nA rise.\n", "Tides"),
        ("a.xml", "<book><bookinfo><title>Tides</title></bookinfo><part>They rise.</part></book>", "Tides"),
        ("y.xml", "<article><title>Tides</title><sect1><title/><para>They rise.</para></sect1></article>", "Tides"),
        # These have none.
        ("z.txt", "Tides in 1.2\n========\n\nThey rise.\n\nTides in 1.1\n========\n\nThey fall.\n", ""),
        ("0.txt", "Preface\n=====\n\nThey rise.\n\nTides\n=====\n\nThey fall.\n", ""),
        ("1.txt", "# These are comments on tides, of which none is read\n# as a heading.\n\nThey rise.\n", ""),
        ("8.html", "<title>Untitled 2</title><p>They rise.</p>", ""), ("9.txt", "Ebb\nvon A. B.\n\nThey rise.\n", ""),
        ("h.txt", "Dear friends,\n\nthe tides rise.\n", ""), ("i.txt", "They rise.\n\nThey fall.\n", ""),
        ("4.txt", "Copyright 2024 A. Doe\n\nThey rise. They fall.\n\nSo.\n", ""),
        ("j.txt", "Note: they rise.\nThen: they fall.\n\nSo it goes.\n", ""),
    ],
)  # fmt: skip
def test_documents_are_called_as_people_call_them(tmp_path: Path, name: str, content: str, title: str) -> None:
    document = read(tmp_path / name, content)
    assert document.title == title
    assert not any(word in document.text for word in ("@", "Author", "Subject", "Request", "type"))
    assert "rise" in document.text and document.metadata.get("author", "A. Doe") == "A. Doe"
    assert document.metadata.get("pep") == ("1" if "PEP" in content else None)


def test_readings_above_words_are_left_out_and_notes_of_books_are_kept(tmp_path: Path) -> None:
    ruby = "The <ruby>漢<rp>(</rp><rt>かん</rt><rp>)</rp>字<rt>じ</rt></ruby> is read."
    document = read(tmp_path / "a.html", f"<p>{ruby}</p>")
    assert document.text == "The 漢字 is read." and document.metadata["dropped_elements"] == {"rp": 2, "rt": 2}
    for ruby in ("<ruby><rb>漢</rb><rb>字</rb><rtc><rt>かん</rt></rtc></ruby>", "<ruby>漢<rt>かん</rt>字</ruby>"):
        assert read(tmp_path / "d.html", f"<p>{ruby}</p>").text == "漢字"
    base, above = (f"<w:r><w:t>{text}</w:t></w:r>" for text in ("漢字", "かんじ"))
    body = f"<w:p><w:r><w:ruby><w:rt>{above}</w:rt><w:rubyBase>{base}</w:rubyBase></w:ruby></w:r></w:p>"
    body += "<w:p><w:r><w:instrText>EQ \\f(1,2)</w:instrText></w:r></w:p><w:altChunk/>"
    document = read(tmp_path / "a.docx", docx(body + body))
    left_out = {"rt": 2, "formula in a field": 2, "embedded document": 2}
    assert document.text == "漢字\n\n漢字" and document.metadata["dropped_elements"] == left_out
    note = "<aside epub:type='footnote' id='n'><p>By three feet.</p></aside>"
    for other in (note, note.replace("epub:type='footnote'", "role=doc-footnote"), note.replace(" id", " hidden id")):
        assert "By three feet." in read(tmp_path / "b.html", f"<h1>One</h1><p>{STORY}</p>{other}").text
    aside = read(tmp_path / "c.html", f"<h1>One</h1><p>{STORY}</p><aside><a href='/x'>Buy tide tables</a></aside>")
    assert "Buy" not in aside.text


def test_lines_that_are_text_are_kept(tmp_path: Path) -> None:
    for content in (
        "Title: Tides\nAuthor: Smith\nAbstract: They rise and fall.\n",
        "Title: Rice\nAuthor: Smith\nMethod: Steam the rice.\n\nServe it.\n",
        "Author: How do they rise?\nGuest: By the moon.\nAuthor: And fall?\n\nSo it goes.\n",
    ):
        assert read(tmp_path / "a.txt", content).text.split() == content.split()
    assert read(tmp_path / "b.txt", "Title: Physics today at cern.ch\nDate: 2024\n\nText.\n").title.endswith("cern.ch")
    fields = "From: a@b.c\nSubject: Tides\nAbstract: Rise and\n fall.\n\nHow they rise\n=============\n\nSo.\n"
    page = read(tmp_path / "e.txt", fields)
    assert (page.title, page.metadata["subject"], page.text) == ("How they rise", "Tides", "Rise and fall.\n\nSo.")
    for line in ("12 March 2020", "#!/bin/sh", "https://example.org/a", "* * *", "Dear Sir"):
        assert read(tmp_path / "c.txt", f"{line}\n\n{STORY}\n").title == ""
    # A long line is no field, whatever it begins with.
    assert read(tmp_path / "d.txt", f"Title: {'a' * 200_000}\nDate: 2024\n\nText.\n").text.startswith("Title: aaa")
