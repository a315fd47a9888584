"""What the words of a line say about whether it is a heading: numbers, labels, captions, names of boxes."""

from __future__ import annotations

import re

NUMBER = re.compile(
    r"^(?:(?:chapter|section|part|appendix|article|kapitel|abschnitt|teil|anhang|artikel|chapitre|partie|annexe|§+)\s*)?"
    r"(?:(\d{1,3}(?:\.\d{1,3}){0,5})([.):]|(?=\s))|([A-Z](?:\.\d{1,3}){1,5})([.):]|(?=\s))|([IVXLC]{1,7}|[A-Z])[.):])"
    r"\s*(?=\S)",
    re.IGNORECASE,
)
NAMED = re.compile(
    r"^(?:chapter|part|appendix|section|kapitel|teil|anhang|chapitre|annexe)\s+(?:\d+|[IVXLC]+|[A-Z])\b", re.I
)
LABEL = re.compile(
    r"(?:chapter|part|appendix|section|kapitel|teil|anhang|chapitre|partie|annexe)\s+(?:\d+|[IVXLC]+|[A-Z]|[a-z]+)[.:]?",
    re.IGNORECASE,
)
# Sphinx sets CHAPTER and the number in words on lines of their own.
SPELLED = re.compile(
    r"one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|(?:thir|four|fif|six|seven|eigh|nine)teen|"
    r"(?:twen|thir|for|fif|six|seven|eigh|nine)ty(?:[- ]?(?:one|two|three|four|five|six|seven|eight|nine))?",
    re.IGNORECASE,
)
CAPTION = re.compile(
    r"^(?:fig(?:ure|\.)?|table|tab\.|listing|algorithm|abbildung|abb\.|tabelle|tableau|scheme|plate|box)\s*[A-Z]?\d+\b",
    re.IGNORECASE,
)
KNOWN = re.compile(
    r"abstract|introduction|conclusions?|references|bibliography|acknowledge?ments?|summary|preface|appendix|discussion|"
    r"results|methods|background|related work|index|foreword|notes|literature",
    re.IGNORECASE,
)
ENDS_AS_TEXT = re.compile(r"[.;,][\"'”’)]*$")
# Chapters of novels are named so.
NUMBER_ALONE = re.compile(r"(?:[IVXLC]{1,7}|\d{1,3})\.?")
AS_CODE = re.compile(r"[\\{}=<>|]")
# What manuals print over a box, and over lists of parameters.
_BOX = re.compile(
    r"(?:note|notes|tip|hint|warning|caution|important|attention|danger|remark|remarque|avertissement|astuce|hinweis|"
    r"warnung|achtung|tipp|wichtig|vorsicht|nota|aviso|advertencia|attenzione|avvertenza|suggerimento|notera|varning|"
    r"parameters?|returns?|see also|since|deprecated|"
    r"(?:theorem|lemma|corollary|proposition|proof)(?: \d+(?:\.\d+)*)?)\s*[:.!]?",
    re.IGNORECASE,
)
_SIGN_FIRST = re.compile(r"^[-–−,.;%(/*+&~]")
_LATIN_WORD = re.compile(r"[A-Za-z\u00c0-\u024f]+")
_DEEP_NUMBER = re.compile(r"^(?:\d{1,3}|[A-Z])(?:\.\d{1,3})+[.):]?\s+\S")


def names_a_box(text: str) -> bool:
    """Whether a line is the name of a box, such as ``Note``, or of what describes a parameter."""
    return bool(_BOX.fullmatch(text))


def has_deep_number(text: str) -> bool:
    """Whether a line begins with a number of several parts, which no entry of a list has."""
    return bool(_DEEP_NUMBER.match(text))


def begins_as_option(text: str) -> bool:
    """Whether a line begins with a sign, as options of commands and lines of code do."""
    return bool(_SIGN_FIRST.match(text))


def is_formula(text: str) -> bool:
    """Whether most of the letters of a line are names of quantities and not words."""
    letters = [letter for letter in text if letter.isalpha()]
    latin = _LATIN_WORD.findall(text)
    digits = sum(map(str.isdigit, text))
    if sum(map(len, latin)) < 0.5 * len(letters) or digits > 2 * len(letters):
        return False
    return sum(len(word) for word in latin if len(word) > 2) < 0.34 * len(letters)
