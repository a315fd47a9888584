from __future__ import annotations

import pytest

from graphdoc.documents.document import Document
from graphdoc.documents.parsing.xml import parse_xml
from graphdoc.documents.section import Section
from graphdoc.errors import DocumentError

JATS = """<?xml version="1.0" encoding="iso-8859-1"?>
<!DOCTYPE article PUBLIC "-//NLM//DTD JATS (Z39.96) v1.2//EN" "http://192.0.2.1/JATS-archivearticle1.dtd">
<article xmlns:mml="http://www.w3.org/1998/Math/MathML"><front><journal-meta><p>Journal</p></journal-meta><article-meta>
<title-group><article-title>The <italic>T</italic>itle&nbsp;é<xref>*</xref></article-title></title-group>
<abstract><p>Summary.</p></abstract></article-meta></front>
<body><p>Lead &alpha; &unknown;.</p>
<sec><label>1</label><title>One</title><p>Text [<xref>1</xref>]<fn><p>Note.</p></fn> goes on.</p>
<sec><title>Two</title><list><list-item><p>i</p></list-item><list-item><p>j</p></list-item></list></sec>
<p>After two.</p><fig><label>Figure 1</label><caption><title>Cap</title></caption></fig></sec>
<sec><title>Three</title><p>x
<alternatives><tex-math>$y$</tex-math><mml:math><mml:mi>y</mml:mi></mml:math></alternatives></p>
<boxed-text><sec><title>Box</title><p>b</p></sec></boxed-text></sec></body>
<back><ack><p>Thanks.</p></ack><ref-list><ref>Reference</ref></ref-list></back>
<sub-article><front-stub><title-group><article-title>Sub</article-title></title-group></front-stub>
<body><p>s</p></body></sub-article></article>"""

TEI = """<TEI xmlns="http://www.tei-c.org/ns/1.0"><teiHeader><fileDesc><titleStmt><title>T</title></titleStmt></fileDesc>
<profileDesc><abstract><p>Summary.</p></abstract></profileDesc></teiHeader><text><body>
<div><head n="1">One</head><p>Text<note place="foot">Note.</note> of
<choice><sic>teh</sic><corr>the</corr></choice> <sic>lone</sic> kind.</p>
<div><head>Two</head><lg><l>verse</l><l>line</l></lg></div></div></body>
<back><div><listBibl><bibl>Reference</bibl></listBibl></div></back></text></TEI>"""


def test_jats() -> None:
    parsed = parse_xml(JATS)
    assert parsed.title == "The Title é"
    assert parsed.metadata == {"dropped_elements": {"ref-list": 1}}
    assert parsed.sections == (
        Section("Summary.", "Abstract", 1, ("Abstract",)),
        Section("Lead α &unknown;."),
        Section("Text [1] goes on.\n\nNote.", "1 One", 1, ("1 One",)),
        Section("i\nj", "Two", 2, ("1 One", "Two")),
        Section("After two.\n\nFigure 1\n\nCap", "1 One", 1, ("1 One",)),
        Section("x y\n\nBox\n\nb", "Three", 1, ("Three",)),
        Section("Thanks.", "Acknowledgements", 1, ("Acknowledgements",)),
        Section("s", "Sub", 1, ("Sub",)),
    )


def test_tei() -> None:
    parsed = parse_xml(TEI)
    assert parsed.title == "T"
    assert parsed.metadata == {"dropped_elements": {"listBibl": 1}}
    assert parsed.sections == (
        Section("Summary.", "Abstract", 1, ("Abstract",)),
        Section("Text of the lone kind.\n\nNote.", "One", 1, ("One",)),
        Section("verse\nline", "Two", 2, ("One", "Two")),
    )


def test_untitled_sections_keep_their_place() -> None:
    parsed = parse_xml("<article><body><sec><p>a</p><sec><title>B</title></sec></sec><p>c</p></body></article>")
    assert parsed.sections == (Section("a"), Section("", "B", 2, ("B",)), Section("c"))


def test_xhtml_in_an_xml_file() -> None:
    parsed = parse_xml('<html xmlns="http://www.w3.org/1999/xhtml"><body><h1>T</h1><h2>A</h2><p>a</p></body></html>')
    assert (parsed.title, parsed.sections) == ("T", (Section("a", "A", 2, ("A",)),))


BOMB = "<!DOCTYPE l [<!ENTITY a 'aaaa'>{}]><article><body><p>&i;</p></body></article>".format(
    "".join(f"<!ENTITY {name} '{f'&{inner};' * 10}'>" for inner, name in zip("abcdefgh", "bcdefghi", strict=True))
)


@pytest.mark.parametrize(
    "text",
    [
        BOMB,
        '<!DOCTYPE article [<!ENTITY e SYSTEM "file:///etc/passwd">]><article><body><p>&e;</p></body></article>',
        '<!DOCTYPE article [<!ENTITY % p SYSTEM "http://192.0.2.1/x.dtd"> %p;]><article/>',
        '<!-- <a> --><?p <b> ?>\n<!DOCTYPE article [<!-- <c> --><!ENTITY e "x">]><article><body>&e;</body></article>',
        '<?xml version="1.0"?><!DOCTYPE html [<!ENTITY e "x">]><html><body>&e;</body></html>',
        f'<?xml version="1.0"?>{BOMB.replace("[", "[<!-- <a --><?b <c ?>")}',
    ],
    ids=["bomb", "external", "parameter", "behind comments", "xhtml", "behind a comment in xhtml"],
)
def test_declared_entities_are_refused(text: str) -> None:
    with pytest.raises(DocumentError, match=r"^document 'a': its DOCTYPE declares entities"):
        Document.from_xml(text, id="a")
    if "<?xml" in text:
        with pytest.raises(DocumentError, match="declares entities"):
            Document.from_html(text, id="a")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"<{'a' * 9999}/>", "^its root element <a{60}...> is unknown"),
        ("<rss><channel/></rss>", "its root element <rss> is unknown; XML is read as JATS"),
        ("<article><body></article>", "it is not well-formed XML .*line 1"),
        ("", "it is not well-formed XML"),
        ("<article>&nbsp;</article>", "it is not well-formed XML .*nbsp"),
        ("<sec>" * 5000, "it is not well-formed XML .*depth"),
    ],
)
def test_other_xml_is_an_error_of_one_line(text: str, message: str) -> None:
    with pytest.raises(DocumentError, match=message) as caught:
        parse_xml(text)
    assert "\n" not in str(caught.value)
