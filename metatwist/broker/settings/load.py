"""From `server.ini` and the environment to `BrokerSettings`.

Every problem is collected before anything is raised, so that an operator repairs a file
once (spec configuration 2 to 5, and C-13).
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Mapping
from pathlib import Path

from attrs import evolve, field, frozen

from metatwist.broker.settings.coordination import coordination
from metatwist.broker.settings.coordination_checks import check_coordination
from metatwist.broker.settings.findings import Findings
from metatwist.broker.settings.host import first_address, interface_addresses
from metatwist.broker.settings.ini import parse_ini, render_ini
from metatwist.broker.settings.model import BrokerSettings
from metatwist.broker.settings.network import network
from metatwist.broker.settings.schema import METATWIST, SYSTEM
from metatwist.broker.settings.sources import (
    TOPIC_PREFIX,
    Sources,
    environment_entries,
    gather,
)
from metatwist.broker.settings.suggestions import closest
from metatwist.broker.settings.topics import all_topics, topic_defaults
from metatwist.broker.settings.values import SectionReader
from metatwist.broker.settings.zookeeper import zookeeper
from metatwist.errors import SettingsError

_DEFAULT_PORT = "8123"
_WITHOUT_FILE = "built-in settings"


@frozen
class _Origin:
    """The bytes that were read, their file if there is one, and the surroundings."""

    text: bytes
    path: Path | None
    environ: Mapping[str, str]
    home: Path = field(init=False)

    @home.default
    def _home(self) -> Path:
        return Path(self.environ.get("HOME") or os.path.expanduser("~"))


def load_settings(path: Path, environ: Mapping[str, str]) -> BrokerSettings:
    """Read the file at `path` and apply the overrides in `environ`.

    Raises `SettingsError` with all problems, a file that cannot be read included.
    """
    try:
        text = path.read_bytes()
    except OSError as error:
        reason = error.strerror or str(error)
        raise SettingsError([f"{path}: cannot be read: {reason}"]) from error
    absolute = Path(os.path.abspath(path))
    return _settings(_Origin(text, absolute, environ), str(path))


def default_settings(data_path: Path, environ: Mapping[str, str]) -> BrokerSettings:
    """Settings for a start without any file: one broker for this machine alone.

    Topic `test` with 4 partitions below `data_path`, group commit, reachable from
    127.0.0.1 only. `text` is a file that loads to the same settings. Raises
    `SettingsError` when an override in `environ` is wrong.
    """
    try:
        text = _default_text(Path(os.path.abspath(data_path)), environ).encode()
    except UnicodeEncodeError as error:
        raise SettingsError([f"{data_path!r}: the path is not UTF-8"]) from error
    return _settings(_Origin(text, None, environ), _WITHOUT_FILE)


def _default_text(data_path: Path, environ: Mapping[str, str]) -> str:
    overrides = environment_entries(environ, Findings())
    # The endpoint below would otherwise win over a port from the environment.
    ports = [entry.value for entry in overrides if entry.key == "serverPort"]
    port = next((port for port in ports if port.isdigit()), _DEFAULT_PORT)
    system = {
        "brokerId": "0",
        "numPartitions": "4",
        "dataPath": str(data_path),
        "unflushThreshold": "0",
        "unflushInterval": "10000",
        "maxSegmentSize": "1024*1024*1024",
        "maxTransferSize": "1024*1024",
    }
    metatwist = {"brokerEndpoint": f"tcp:{port}:interface=127.0.0.1"}
    return render_ini({"system": system, "metatwist": metatwist, "topic=test": {}})


def _settings(origin: _Origin, source: str) -> BrokerSettings:
    findings = Findings()
    sources = gather(parse_ini(origin.text, source), origin.environ, findings)
    _require(sources, findings)
    settings = _build(origin, sources, findings)
    _check_sense(settings, findings)
    check_coordination(settings, sources, findings)
    if findings.problems:
        raise SettingsError(findings.problems)
    return evolve(settings, warnings=tuple(findings.warnings))


def _require(sources: Sources, findings: Findings) -> None:
    """Note the lines and sections without which a broker does not start."""
    source, sections = sources.file.source, sources.file.sections
    if "system" not in sections:
        near = closest("system", sections)
        hint = f" (is [{near}] meant to be it?)" if near else ""
        findings.problems.append(f"{source}: there is no section [system]{hint}")
    for key in SYSTEM:
        if key.required and key.name not in sources.fixed["system"]:
            findings.problems.append(
                f"{source}: [system] {key.name}: has no value; add a line "
                f"{key.name}={key.example} below [system]"
            )
    if not any(name.startswith(TOPIC_PREFIX) for name in sections):
        findings.problems.append(
            f"{source}: there is no topic; add a section, for instance [topic=test]"
        )


def _build(origin: _Origin, sources: Sources, findings: Findings) -> BrokerSettings:
    home = origin.home
    system = SectionReader(SYSTEM, sources.fixed["system"], findings, home)
    own = SectionReader(METATWIST, sources.fixed["metatwist"], findings, home)
    plain = system.plain_values() | own.plain_values()
    data_path = system.path("dataPath", home / "meta")
    defaults = topic_defaults(system, data_path, plain["retention_bytes"])
    ensemble = zookeeper(sources, findings, home)
    net = network(system, own, plain["server_port"], findings, _this_host)
    return BrokerSettings(
        path=origin.path,
        text=origin.text,
        config_checksum=zlib.crc32(origin.text),
        host_name=net.host_name,
        broker_endpoint=net.endpoint,
        data_path=data_path,
        data_log_path=system.path("dataLogPath", data_path),
        app_class_path=_app_class_path(system, origin.path),
        defaults=defaults,
        topics=all_topics(sources, defaults, findings, home),
        zookeeper=ensemble,
        **coordination(own, ensemble, data_path, findings),
        **plain | {"server_port": net.server_port},
    )


def _this_host() -> str:
    return first_address(interface_addresses())


def _app_class_path(system: SectionReader, path: Path | None) -> Path | None:
    """The directory of filters: as given, else `provided` beside the file's folder."""
    beside = path.parent.parent / "provided" if path else None
    if system.has("appClassPath"):
        return system.path("appClassPath", Path())
    return beside if beside is not None and beside.is_dir() else None


def _check_sense(settings: BrokerSettings, findings: Findings) -> None:
    """Note values that are fine each for itself, but not together or in production."""
    if settings.max_pending_bytes < settings.max_message_bytes:
        findings.problems.append(
            f"{_source(settings)}: [metatwist] maxPendingBytes: "
            f"{settings.max_pending_bytes} leaves no room for one message of "
            f"maxMessageBytes, {settings.max_message_bytes}"
        )
    if settings.update_consumer_offsets:
        findings.warnings.append(
            f"{_source(settings)}: [system] updateConsumerOffsets: true lets consumers "
            "skip messages without notice; set it to false outside of test systems"
        )
    filtered = [topic.name for topic in settings.topics.values() if topic.filters]
    folder = settings.app_class_path
    if filtered and (folder is None or not folder.is_dir()):
        what = "is not set" if folder is None else f"{folder} is no directory"
        findings.warnings.append(
            f"{_source(settings)}: [system] appClassPath: {what}, so the group.* keys "
            f"of {', '.join(filtered)} are not used and every group gets everything"
        )


def _source(settings: BrokerSettings) -> str:
    return str(settings.path or _WITHOUT_FILE)
