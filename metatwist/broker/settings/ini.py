"""The text form of `server.ini` (spec configuration 2).

Sections, `=` or `:` separators, whole-line comments with `;` or `#`, backslash escapes,
a backslash at the end of a line joins the next one. Each entry remembers
where it was read, so that every later complaint can name file and line. Nothing is
interpreted here: keys and values are text.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Mapping

from attrs import frozen

# What java.lang.String.trim removes: everything up to and including the blank.
_BLANKS = "".join(map(chr, range(33)))
_ESCAPES = {"t": "\t", "n": "\n", "f": "\f", "b": "\b", "r": "\r"}
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_WRITTEN = {"\\": "\\\\"} | {text: "\\" + char for char, text in _ESCAPES.items()}
_TO_WRITE = re.compile(r"[\\\t\n\f\b\r]")


@frozen
class IniEntry:
    """One key with its value, and where it was read.

    `source` is a file with `line` counted from 1, or the name of an environment
    variable with `line` 0.
    """

    section: str
    key: str
    value: str
    source: str
    line: int = 0

    @property
    def where(self) -> str:
        """`FILE:LINE`, or the name of the environment variable."""
        return f"{self.source}:{self.line}" if self.line else self.source

    def at(self, text: str) -> str:
        """The sentence `text` with place, section and key in front."""
        return f"{self.where}: [{self.section}] {self.key}: {text}"


@frozen
class IniFile:
    """A parsed file: all entries in order, repeated ones included.

    `sections` maps each section name to the line of its first header. `problems` holds
    a sentence for each line that could not be read; those lines have no entry.
    """

    source: str
    entries: tuple[IniEntry, ...]
    sections: Mapping[str, int]
    problems: tuple[str, ...]

    def merged(self, section: str) -> dict[str, IniEntry]:
        """The entries of all parts of `section` by key; the last one wins."""
        return {e.key: e for e in self.entries if e.section == section}


def parse_ini(raw: bytes, source: str) -> IniFile:
    """Read a whole file; `source` is its name in messages.

    Raises nothing: what cannot be read is listed in `IniFile.problems`.
    """
    entries: list[IniEntry] = []
    sections: dict[str, int] = {}
    problems: list[str] = []
    section: str | None = None
    for number, line in _logical_lines(raw, source, problems):
        try:
            if line.startswith("["):
                section = _section_name(line)
                sections.setdefault(section, number)
                continue
            key, value = _key_and_value(line)
            if section is None:
                raise ValueError(f"the key {key} stands before the first [section]")
            entries.append(IniEntry(section, key, value, source, number))
        except ValueError as error:
            problems.append(f"{source}:{number}: {error}")
    return IniFile(source, tuple(entries), sections, tuple(problems))


def render_ini(sections: Mapping[str, Mapping[str, str]]) -> str:
    """The text of a file that `parse_ini` reads back as `sections`.

    Blanks at the ends of a value cannot be written in this format and get lost.
    """
    lines: list[str] = []
    for name, values in sections.items():
        lines.append(f"[{_escaped(name)}]")
        lines += [f"{key}={_escaped(value)}" for key, value in values.items()]
    return "\n".join(lines) + "\n"


def _logical_lines(
    raw: bytes, source: str, problems: list[str]
) -> Iterator[tuple[int, str]]:
    """Trimmed lines that say something, continuations joined, with line numbers."""
    joined, first = "", 0
    for number, data in enumerate(raw.removeprefix(codecs.BOM_UTF8).splitlines(), 1):
        line, readable = _decoded(data)
        # Inside a continuation a `;` or `#` starts no comment, but an empty line is
        # passed over; so does the Java parser.
        if not line or (not joined and line[0] in ";#"):
            continue
        if not readable:
            problems.append(f"{source}:{number}: text is neither UTF-8 nor GBK")
            continue
        first = first or number
        if (len(line) - len(line.rstrip("\\"))) % 2:
            joined += line[:-1]
            continue
        yield first, joined + line
        joined, first = "", 0
    if first:
        problems.append(
            f"{source}:{first}: ends in a backslash, but no line follows to join"
        )


def _decoded(data: bytes) -> tuple[str, bool]:
    """One trimmed line, and whether all of its bytes could be understood.

    Line by line, so that a line in UTF-8 reads as the Java broker reads it, whatever
    encoding the comments around it have. Line ends are never part of a GBK character.
    """
    for encoding in ("utf-8", "gbk"):
        try:
            return data.decode(encoding).strip(_BLANKS), True
        except UnicodeDecodeError:
            continue
    return data.decode("utf-8", "replace").strip(_BLANKS), False


def _section_name(line: str) -> str:
    if not line.endswith("]"):
        raise ValueError(f"the section header {line} does not end with ]")
    name = _unescaped(line[1:-1]).strip(_BLANKS)
    if not name:
        raise ValueError("the section header has no name")
    return name


def _key_and_value(line: str) -> tuple[str, str]:
    found = re.search("[=:]", line)
    if found is None:
        raise ValueError(f"`{line}` has neither = nor : (comments start with ; or #)")
    key = _unescaped(line[: found.start()]).strip(_BLANKS)
    if not key:
        raise ValueError(f"no key stands before the {found.group()}")
    return key, _unescaped(line[found.end() :]).strip(_BLANKS)


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_escape_meaning, text) if "\\" in text else text


def _escape_meaning(found: re.Match[str]) -> str:
    code = found.group(1)
    if len(code) > 1:
        return chr(int(code[1:], 16))
    if code == "u":
        raise ValueError(r"\u needs four hexadecimal digits after it")
    return _ESCAPES.get(code, code)


def _escaped(value: str) -> str:
    return _TO_WRITE.sub(lambda found: _WRITTEN[found.group()], value)
