"""Manual pages as they lie on a Unix machine: roff with the macros man(7) and mdoc(7)."""
