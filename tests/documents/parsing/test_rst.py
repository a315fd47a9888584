from __future__ import annotations

from pathlib import Path

from graphdoc.documents.document import Document
from graphdoc.documents.parsing.rst import parse_rst
from graphdoc.documents.section import Section

SOURCE = """\
.. image:: garden.png
   :alt: A garden

=====
Tides
=====

Read by :func:`gauge <tide.gauge>`, see `the map <https://example.org>`_ and ``level``.

Marsh
-----

- samphire
- sea lavender

  - white
  - blue

.. note:: Closed in May.

.. versionadded:: 3.1
   The *second* gauge.

.. code-block:: python

   level = 1

.. toctree::

   other

.. a comment

===== =====
name  metre
===== =====
Reed  1.4
===== =====

Depth
~~~~~

Four [1]_.

.. [1] At noon.

Night
-----

Dark.
"""


def test_sections_and_text() -> None:
    parsed = parse_rst(SOURCE)
    assert parsed.title == "Tides"
    assert parsed.sections == (
        Section("A garden\n\nRead by gauge, see the map and level."),
        Section(
            "samphire\nsea lavender\nwhite\nblue\n\nClosed in May.\n\n3.1\n\nThe second gauge.\n\nlevel = 1\n\n"
            "name\tmetre\n\nReed\t1.4",
            "Marsh",
            2,
            ("Marsh",),
        ),
        Section("Four 1.\n\n1\n\nAt noon.", "Depth", 3, ("Marsh", "Depth")),
        Section("Dark.", "Night", 2, ("Night",)),
    )
    assert parsed.metadata == {"dropped_elements": {"comment": 1, "toctree": 1}}


def test_nothing_is_included(tmp_path: Path) -> None:
    (tmp_path / "secret.txt").write_text("secret words")
    file = tmp_path / "page.rst"
    file.write_text(
        "Words.\n\n.. include:: secret.txt\n\n.. raw:: html\n   :file: secret.txt\n\n"
        ".. csv-table::\n   :file: secret.txt\n\n.. literalinclude:: secret.txt\n"
    )
    document = Document.from_file(file)
    assert "secret words" not in document.text and "Words." in document.text


def test_broken_markup_keeps_its_words() -> None:
    document = parse_rst(
        "Title\n==\n\nText with *open emphasis, |missing| and `bad_.\n\n.. unknown:: Argument\n\n   Inside.\n"
    )
    text = " ".join(f"{section.heading} {section.text}" for section in document.sections) + document.title
    for word in ("Title", "open emphasis", "missing", "bad", "Inside"):
        assert word in text
