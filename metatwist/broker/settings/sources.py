"""Brings file and environment together and refuses what nobody knows.

The result has, for each section, at most one entry per known key. An empty value in
the file counts as not set; an empty variable as not there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from attrs import frozen

from metatwist.broker.settings.findings import Findings
from metatwist.broker.settings.ini import IniEntry, IniFile
from metatwist.broker.settings.key import Key
from metatwist.broker.settings.schema import INTERNAL, SECTIONS, TOPIC
from metatwist.broker.settings.suggestions import closest, did_you_mean
from metatwist.broker.settings.topic_names import (
    compile_pattern,
    is_pattern,
    is_safe_topic,
    looks_like_regex,
)

TOPIC_PREFIX = "topic="
_VARIABLE_PREFIX = "METATWIST_"
_ALMOST_TOPIC = re.compile(r"topics?[\s=_.-]+(\S+)", re.IGNORECASE)
_ALMOST_SECTION = 0.8
_JAVA_ONLY = "a Java broker ignores this name, and so does this one"

Entries = Mapping[str, IniEntry]


@frozen
class Sources:
    """The entries by key: of each section with a fixed name, and of each topic."""

    file: IniFile
    fixed: Mapping[str, Entries]
    topics: Mapping[str, Entries]


def gather(file: IniFile, environ: Mapping[str, str], findings: Findings) -> Sources:
    """Check names of sections, keys and variables, and merge their values."""
    findings.problems += file.problems
    fixed = {
        section: _known(file.merged(section), section, SECTIONS[section], findings)
        for section in SECTIONS
    }
    for entry in environment_entries(environ, findings):
        fixed[entry.section][entry.key] = entry
    return Sources(file, fixed, _topics(file, findings))


def environment_entries(
    environ: Mapping[str, str], findings: Findings
) -> list[IniEntry]:
    """The overrides `METATWIST_<SECTION>_<KEY>`, in any case, dots written as `_`."""
    found: dict[str, IniEntry] = {}
    for variable in sorted(environ):
        name = variable.upper()
        if not name.startswith(_VARIABLE_PREFIX) or not environ[variable].strip():
            continue
        known = _variables()
        if name in known:
            section, key = known[name]
            if name in found:
                findings.problems.append(
                    f"{variable}: {found[name].source} is set too, only one may be"
                )
            value = environ[variable].strip()
            found[name] = IniEntry(section, key, value, variable)
        else:
            _report_variable(variable, known, findings)
    return list(found.values())


def _variables() -> dict[str, tuple[str, str]]:
    return {
        f"{_VARIABLE_PREFIX}{section}_{key.name.replace('.', '_')}".upper(): (
            section,
            key.name,
        )
        for section, keys in SECTIONS.items()
        for key in keys
        if not key.per_value
    }


def _report_variable(variable: str, known: Iterable[str], findings: Findings) -> None:
    """Refuse unknown keys of our sections; other METATWIST_ names are not ours."""
    head = variable.upper().removeprefix(_VARIABLE_PREFIX).partition("_")[0]
    hint = did_you_mean(variable, known)
    if head.lower() in SECTIONS:
        # The prefix that all names share says nothing about likeness.
        prefix = f"{_VARIABLE_PREFIX}{head}_"
        keys = {
            name.removeprefix(prefix): name for name in known if name.startswith(prefix)
        }
        found = closest(variable.upper().removeprefix(prefix), keys)
        hint = f" (did you mean {keys[found]}?)" if found else ""
        findings.problems.append(
            f"{variable}: names no key of [{head.lower()}] that a variable can set"
            f"{hint}"
        )
    elif closest(head, SECTIONS, _ALMOST_SECTION):
        findings.warnings.append(f"{variable}: is not used{hint}")


def _topics(file: IniFile, findings: Findings) -> dict[str, Entries]:
    """The topic sections by topic name, sorted; others are warned about."""
    topics: dict[str, dict[str, IniEntry]] = {}
    for section, line in file.sections.items():
        where = f"{file.source}:{line}: [{section}]"
        if section.startswith(TOPIC_PREFIX):
            name = section.removeprefix(TOPIC_PREFIX).strip()
            if _usable_topic(name, where, findings):
                entries = _known(file.merged(section), section, TOPIC, findings)
                topics.setdefault(name, {}).update(entries)
        elif section not in SECTIONS:
            findings.warnings.append(
                f"{where} is no section of a broker and is ignored"
                f"{_section_hint(section)}"
            )
    return dict(sorted(topics.items()))


def _section_hint(section: str) -> str:
    almost = _ALMOST_TOPIC.fullmatch(section)
    if almost:
        return f" (did you mean [{TOPIC_PREFIX}{almost[1]}]?)"
    found = closest(section, SECTIONS)
    return f" (did you mean [{found}]?)" if found else ""


def _usable_topic(name: str, where: str, findings: Findings) -> bool:
    if is_pattern(name):
        try:
            compile_pattern(name)
        except ValueError as error:
            findings.problems.append(f"{where}: {error}")
            return False
        return True
    if not is_safe_topic(name) or re.search(r"\s", name):
        findings.problems.append(
            f"{where}: `{name}` cannot be a topic: a name is 1 to 200 bytes of UTF-8 "
            "without blanks, / and control characters, and neither . nor .."
        )
        return False
    if looks_like_regex(name):
        findings.warnings.append(
            f"{where}: without a * the name is taken as it stands; a Java broker "
            "reads it as a regular expression"
        )
    return True


def _known(
    entries: Entries, section: str, keys: tuple[Key, ...], findings: Findings
) -> dict[str, IniEntry]:
    """The entries whose key is in `keys` and whose value is not empty."""
    exact = {key.name for key in keys if not key.per_value}
    begun = tuple(key.name for key in keys if key.per_value)
    internal = INTERNAL.get(section, INTERNAL["topic"])
    known: dict[str, IniEntry] = {}
    for entry in entries.values():
        if entry.key in exact or (begun and _continues(entry.key, begun)):
            known[entry.key] = entry
        elif entry.key in internal:
            findings.warnings.append(entry.at(_JAVA_ONLY))
        else:
            hint = _key_hint(entry.key, section, [*exact, *begun])
            findings.problems.append(entry.at(f"unknown key{hint}"))
    return {key: entry for key, entry in known.items() if entry.value}


def _continues(key: str, begun: tuple[str, ...]) -> bool:
    return any(key.startswith(start) and key != start for start in begun)


def _key_hint(key: str, section: str, own: list[str]) -> str:
    topic = section.removeprefix(TOPIC_PREFIX)
    homes = [
        name
        for name, keys in SECTIONS.items()
        if name != section and any(known.name == key for known in keys)
    ]
    if topic != section and "metatwist" in homes:
        own_line = " or ".join(
            f"{known.name}{topic}"
            for known in SECTIONS["metatwist"]
            if known.per_value and known.name == f"{key}."
        )
        return f": write {own_line or key} in [metatwist], which a Java broker skips"
    if homes:
        return f" (it belongs into [{homes[0]}])"
    return did_you_mean(key, own)
