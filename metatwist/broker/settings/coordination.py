"""Builds the settings of coordination from `[metatwist]` and `[zookeeper]`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from metatwist.broker.settings.endpoint import check_endpoint
from metatwist.broker.settings.findings import Findings
from metatwist.broker.settings.model import BrokerSettings, ZooKeeperSettings
from metatwist.broker.settings.schema import ZOOKEEPER
from metatwist.broker.settings.values import SectionReader

_SCHEME = "digest"
_OTHERS_READ = 0o004
_ONLY_WITH = {
    "coordinatorEndpoint": "embedded",
    "coordinatorPath": "embedded",
    "zooKeeperAuthFile": "ensemble",
    "zooKeeperAcl": "ensemble",
}


def coordination(
    own: SectionReader,
    zookeeper: ZooKeeperSettings | None,
    data_path: Path,
    findings: Findings,
) -> dict[str, Any]:
    """The fields of `BrokerSettings` about coordination that depend on other values.

    The file with the credentials is read here, so that a wrong one stops the start.
    """
    chosen = own.choice("coordinator", "ensemble" if zookeeper else "embedded")
    auth_file, auth = _authentication(own, findings)
    acl = own.entries.get("zooKeeperAcl")
    if acl is not None and acl.value == "creator" and auth_file is None:
        findings.problems.append(
            acl.at("creator needs credentials: set zooKeeperAuthFile as well")
        )
    _check_choice(own, chosen, zookeeper, findings)
    return {
        "coordinator": chosen,
        "coordinator_endpoint": _endpoint(own, findings),
        "coordinator_path": own.path("coordinatorPath", _beside(data_path)),
        "zookeeper_auth_file": auth_file,
        "zookeeper_auth": auth,
    }


def tree_settings(settings: BrokerSettings) -> ZooKeeperSettings:
    """`[zookeeper]`, or its defaults: an embedded coordinator needs no section."""
    if settings.zookeeper is not None:
        return settings.zookeeper
    reader = SectionReader(ZOOKEEPER, {}, Findings(), Path())
    return ZooKeeperSettings(**reader.plain_values())


def _beside(data_path: Path) -> Path:
    """Not inside: to a Java broker a file there would hide all partitions."""
    return Path(f"{data_path}.coordinator")


def _endpoint(own: SectionReader, findings: Findings) -> str:
    text = own.text("coordinatorEndpoint")
    if own.has("coordinatorEndpoint"):
        try:
            check_endpoint(text)
        except ValueError as error:
            entry = own.entries["coordinatorEndpoint"]
            findings.problems.append(entry.at(str(error)))
    return text


def _check_choice(
    own: SectionReader,
    chosen: str,
    zookeeper: ZooKeeperSettings | None,
    findings: Findings,
) -> None:
    entry = own.entries.get("coordinator")
    if entry is not None and chosen == "ensemble" and zookeeper is None:
        findings.problems.append(
            entry.at(
                "ensemble needs to know which: set [zookeeper] zk.zkConnect, or"
                " coordinator=embedded"
            )
        )
    if entry is not None and chosen == "none" and zookeeper is not None:
        findings.warnings.append(
            entry.at(
                "none: [zookeeper] is not used, and clients do not find the broker"
            )
        )
    _check_used(own, chosen, findings)


def _check_used(own: SectionReader, chosen: str, findings: Findings) -> None:
    """Point out what is given for another coordinator than the chosen one."""
    how = "" if own.has("coordinator") else ", which is the default here"
    for key, kind in _ONLY_WITH.items():
        if own.has(key) and kind != chosen:
            findings.warnings.append(
                own.entries[key].at(
                    f"is not used with coordinator={chosen}{how}, only with {kind}"
                )
            )


def _authentication(
    own: SectionReader, findings: Findings
) -> tuple[Path | None, str | None]:
    """The path of the file with credentials, and its line; None without one."""
    entry = own.entries.get("zooKeeperAuthFile")
    if entry is None:
        return None, None
    path = own.path("zooKeeperAuthFile", Path())
    try:
        text = path.read_text(encoding="utf-8").strip()
        if path.stat().st_mode & _OTHERS_READ:
            findings.warnings.append(
                entry.at(f"everybody can read {path}: chmod 600 it")
            )
    except OSError as error:
        problem = f"{path} cannot be read: {error.strerror}"
    except UnicodeDecodeError:
        problem = f"{path} is not UTF-8"
    else:
        if _is_credentials(text):
            return path, text
        # What stands there is a secret, even if it is a wrong one.
        problem = f"{path} must hold one line {_SCHEME}:USER:PASSWORD"
    findings.problems.append(entry.at(problem))
    return path, None


def _is_credentials(text: str) -> bool:
    scheme, _, rest = text.partition(":")
    user, colon, password = rest.partition(":")
    one_line = text.isprintable()
    return bool(one_line and scheme == _SCHEME and user and colon and password)
