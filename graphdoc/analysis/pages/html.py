"""What all HTML pages share: one file that loads nothing, with everything in it escaped."""

from __future__ import annotations

import base64
import hashlib
import re
from pathlib import Path

import jinja2

SHARED = Path(__file__).parent
BASE = SHARED / "base.css"
BOOT = SHARED / "boot.js"
TOOLS = SHARED / "tools.js"
# Lone surrogates cannot be written as UTF-8, and HTML has no form for the other control characters.
_UNWRITABLE = re.compile("[\ud800-\udfff\x00-\x08\x0b\x0e-\x1f]")


def environment(folder: Path) -> jinja2.Environment:
    """Templates of a folder and shared ones; what is put into them is escaped, and what is missing is an error."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, SHARED]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def source_of(*files: Path) -> str:
    """The text of style sheets or scripts, one after the other."""
    return "\n".join(file.read_text(encoding="utf-8") for file in files)


def in_one_function(*files: Path) -> str:
    """Scripts whose names are shared among them and kept out of the window's; each comes after those it takes from."""
    return f"(() => {{\n'use strict';\n{source_of(*files)}\n}})();\n"


def content_policy(style: str, *scripts: str, form: bool = False) -> str:
    """The content security policy of a page that loads nothing and runs only what is in it.

    Args:
        style: the style sheet in the page.
        *scripts: the scripts in it.
        form: whether it may send a form to where it came from.
    """
    allowed = f"script-src {' '.join(map(_hash, scripts))}; " if scripts else ""
    target = "'self'" if form else "'none'"
    own = f"{allowed}style-src {_hash(style)}; img-src data:"
    return f"default-src 'none'; {own}; base-uri 'none'; form-action {target}"


def _hash(source: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(source.encode()).digest()).decode('ascii')}'"


def writable(page: str) -> str:
    """A page in which characters that HTML or UTF-8 cannot hold are replaced."""
    return _UNWRITABLE.sub("\ufffd", page)
