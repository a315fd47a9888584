"""Names and signs that macros of mdoc(7) stand for."""

from __future__ import annotations

ENCLOSED = {
    "Op": ("[", "]"),
    "Dq": ("“", "”"),
    "Sq": ("‘", "’"),
    "Ql": ("‘", "’"),
    "Pq": ("(", ")"),
    "Bq": ("[", "]"),
    "Aq": ("<", ">"),
    "Qq": ('"', '"'),
    "Brq": ("{", "}"),
}
SYSTEMS = {
    "At": "AT&T UNIX",
    "Bsx": "BSD/OS",
    "Bx": "BSD",
    "Dx": "DragonFly",
    "Fx": "FreeBSD",
    "Nx": "NetBSD",
    "Ox": "OpenBSD",
    "Ux": "UNIX",
}
_LIBRARIES = {
    "libarchive": "Reading and Writing Streaming Archives Library",
    "libbsd": "Utility functions from BSD systems",
    "libc": "Standard C Library",
    "libcrypt": "Crypt Library",
    "libcurses": "Curses Library",
    "libedit": "Command Line Editor Library",
    "libelf": "ELF Access Library",
    "libevent": "Event Notification Library",
    "libfetch": "File Transfer Library for URLs",
    "libintl": "Internationalized Message Handling Library",
    "libkvm": "Kernel Data Access Library",
    "libm": "Math Library",
    "libmagic": "Magic Number Recognition Library",
    "libmd": "Message Digest (MD4, MD5, etc.) Support Library",
    "libmenu": "Curses Menu Library",
    "libpam": "Pluggable Authentication Module Library",
    "libpcap": "Packet Capture Library",
    "libpthread": "POSIX Threads Library",
    "libresolv": "DNS Resolver Library",
    "librt": "POSIX Real-time Library",
    "libtermcap": "Termcap Access Library",
    "libutil": "System Utilities Library",
    "libz": "Compression Library",
}
STANDARDS = {
    "-ansiC": "ANSI X3.159-1989 (“ANSI C89”)",
    "-ansiC-89": "ANSI X3.159-1989 (“ANSI C89”)",
    "-isoC": "ISO/IEC 9899:1990 (“ISO C90”)",
    "-isoC-90": "ISO/IEC 9899:1990 (“ISO C90”)",
    "-isoC-99": "ISO/IEC 9899:1999 (“ISO C99”)",
    "-isoC-2011": "ISO/IEC 9899:2011 (“ISO C11”)",
    "-p1003.1": "IEEE Std 1003.1 (“POSIX.1”)",
    "-p1003.1-88": "IEEE Std 1003.1-1988 (“POSIX.1”)",
    "-p1003.1-90": "IEEE Std 1003.1-1990 (“POSIX.1”)",
    "-p1003.1-96": "ISO/IEC 9945-1:1996 (“POSIX.1”)",
    "-p1003.1-2001": "IEEE Std 1003.1-2001 (“POSIX.1”)",
    "-p1003.1-2004": "IEEE Std 1003.1-2004 (“POSIX.1”)",
    "-p1003.1-2008": "IEEE Std 1003.1-2008 (“POSIX.1”)",
    "-p1003.2": "IEEE Std 1003.2 (“POSIX.2”)",
    "-p1003.2-92": "IEEE Std 1003.2-1992 (“POSIX.2”)",
    "-susv1": "Version 1 of the Single UNIX Specification (“SUSv1”)",
    "-susv2": "Version 2 of the Single UNIX Specification (“SUSv2”)",
    "-susv3": "Version 3 of the Single UNIX Specification (“SUSv3”)",
    "-susv4": "Version 4 of the Single UNIX Specification (“SUSv4”)",
    "-svid4": "System V Interface Definition, Fourth Edition (“SVID4”)",
    "-xpg3": "X/Open Portability Guide Issue 3 (“XPG3”)",
    "-xpg4": "X/Open Portability Guide Issue 4 (“XPG4”)",
    "-xpg4.2": "X/Open Portability Guide Issue 4, Version 2 (“XPG4.2”)",
    "-xsh5": "X/Open System Interfaces and Headers Issue 5 (“XSH5”)",
}


def listed(names: list[str]) -> str:
    """Names in a row, the last one behind an "and"."""
    *before, last = names
    return f"{', '.join(before)}{',' if len(before) > 1 else ''} and {last}" if before else last


def system(name: str, version: list[str]) -> str:
    """The name of a system with its version, such as ``4.3BSD-Reno`` and ``Version 7 AT&T UNIX``."""
    first, rest = (version[0], version[1:]) if version else ("", [])
    if name == "Bx":
        return "-".join([first + SYSTEMS[name], *map(str.title, rest)])
    if name == "At" and first:
        is_version = first[0] == "v" or first == "32v"
        return f"Version {first.removeprefix('v').upper()} AT&T UNIX" if is_version else f"AT&T System {first} UNIX"
    return " ".join([SYSTEMS[name], *version])


def standard_sentence(name: str, subjects: list[str], page: str) -> str:
    """The sentence on exit values (``Ex``) or return values (``Rv``) that pages have word for word.

    Args:
        name: the macro.
        subjects: the utilities or functions that it is about.
        page: the name of the page, which is the utility where none is named.
    """
    many = len(subjects) > 1
    if name == "Ex":
        utilities = f"{listed(subjects or [page])} {'utilities exit' if many else 'utility exits'}"
        return f"The {utilities} 0 on success, and >0 if an error occurs."
    begin = "Upon successful completion, the value 0 is returned"
    if subjects:
        functions = listed([f"{one}()" for one in subjects])
        begin = f"The {functions} {'functions return' if many else 'function returns'} the value 0 if successful"
    return f"{begin}; otherwise the value -1 is returned and the global variable errno is set to indicate the error."


def library(name: str) -> str:
    """What a page calls a library, such as ``Math Library (libm, -lm)``."""
    if name not in _LIBRARIES:
        return f"library “{name}”"
    return f"{_LIBRARIES[name]} ({name}, -l{name.removeprefix('lib')})"
