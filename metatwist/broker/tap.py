"""`twistd metaq`: the command line, and the service it makes."""

from __future__ import annotations

import gc
import os
import signal
import sys
from pathlib import Path
from typing import Any

from twisted.application.service import IService
from twisted.internet.defer import Deferred
from twisted.python import usage
from twisted.python.failure import Failure

from metatwist.broker.service import Broker
from metatwist.broker.settings import (
    BrokerSettings,
    compare,
    default_settings,
    load_settings,
)
from metatwist.errors import (
    AdminError,
    SettingsError,
    StartAbandoned,
    StorageError,
)

_LATER_PLUGINS = ("metaslave", "samsa", "gregor", "jettyBroker")


class Options(usage.Options):
    """What `twistd metaq` understands."""

    synopsis = "[-f FILE] [--data DIR] [--check]"
    longdesc = (
        "A MetaQ 1.4 message broker. Without -f it listens on 127.0.0.1:8123 and serves"
        " a topic `test`. Settings can also come from the environment, for instance"
        " METATWIST_SYSTEM_serverPort=9123."
    )
    optParameters = [
        ["file", "f", None, "Configuration, a server.ini as the Java broker reads it."],
        ["data", "d", "data", "Data directory of a broker that runs without -f."],
    ]
    optFlags = [
        ["check", None, "Check the configuration, say what is wrong, and exit."],
    ]

    def opt_plugin(self, value: str) -> None:
        """A plugin and its properties, as in -Fsamsa=FILE; none is available yet."""
        name = value.partition("=")[0]
        if name in _LATER_PLUGINS:
            raise usage.UsageError(f"plugin {name} is not part of this version")
        known = ", ".join(_LATER_PLUGINS)
        raise usage.UsageError(f"unknown plugin {name!r}; the original has {known}")

    opt_F = opt_plugin

    def postOptions(self) -> None:
        """Read the settings, so that all faults are told before anything starts."""
        try:
            self["settings"] = self.load()
        except SettingsError as error:
            raise SystemExit(f"metaq: {error}") from None
        except OSError as error:
            raise SystemExit(f"metaq: {error.filename}: {error.strerror}") from None
        if self["check"]:
            self._report_check(self["settings"])

    def load(self) -> BrokerSettings:
        """The settings as they are now; raises SettingsError or OSError."""
        if self["file"] is None:
            return default_settings(Path(self["data"]), os.environ)
        return load_settings(Path(self["file"]), os.environ)

    def _report_check(self, settings: BrokerSettings) -> None:
        for warning in settings.warnings:
            sys.stderr.write(f"warning: {warning}\n")
        where = settings.path or "the defaults"
        topics = ", ".join(settings.topics)
        sys.stdout.write(
            f"{where}: good. broker {settings.broker_id}, {settings.broker_endpoint},"
            f" data in {settings.data_path}, topics {topics}\n"
        )
        raise SystemExit(0)


class ConfiguredBroker(Broker):
    """A broker that knows where its settings come from, and follows SIGHUP."""

    def __init__(self, reactor: Any, options: Options) -> None:
        super().__init__(reactor, options["settings"])
        self._options = options
        self.ground.give_up = self._cannot_start
        self._handles_signals = False

    def privilegedStartService(self) -> None:
        """Lock the data before anything runs, so that a refusal is an exit code."""
        super().privilegedStartService()
        try:
            self.lock()
        except StorageError as error:
            _tell(f"metaq: {error}\n")
            raise SystemExit(1) from None

    def startService(self) -> None:
        """Start; when that fails, say why and end the process with an error."""
        for warning in self.ground.settings.warnings:
            self._log.warn("{warning}", warning=warning)
        super().startService()
        self.started.addCallbacks(calm_collector, self._cannot_start)
        if hasattr(signal, "SIGHUP"):
            signal.signal(signal.SIGHUP, self._hung_up)
            self._handles_signals = True

    def stopService(self) -> Deferred[Any]:
        """Stop; the signals that asked for it now only ask to hurry, since the reactor
        takes a second one for an error."""
        if self._handles_signals:
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, self._stop_again)
        return super().stopService()

    def _stop_again(self, *_: object) -> None:
        self._reactor.callFromThread(self.request_stop)

    def _hung_up(self, *_: object) -> None:
        self._reactor.callFromThread(self._reload_and_log)

    def _reload_and_log(self) -> None:
        try:
            self.reload()
        except AdminError as error:
            self._log.error("{error}", error=error)

    def _cannot_start(self, failure: Failure) -> None:
        if failure.check(StartAbandoned):
            return
        self._log.critical("cannot start: {reason}", reason=failure.value)
        _tell(f"metaq: cannot start: {failure.getErrorMessage()}\n")
        # twistd knows no other way to end with an error once the reactor runs.
        self._reactor.addSystemEventTrigger("after", "shutdown", os._exit, 1)
        # The reactor may not run yet.
        self._reactor.callWhenRunning(self._reactor.stop)

    def reload(self) -> dict[str, list[str]]:
        """Read the settings again and apply what may change, all or nothing.

        Raises AdminError, with every fault, when they are wrong: then nothing changes.
        """
        try:
            fresh = self._options.load()
        except SettingsError as error:
            raise AdminError(f"nothing was changed: {error}") from None
        except OSError as error:
            raise AdminError(f"nothing was changed: {error}") from None
        result = compare(self.settings, fresh)
        self.apply(result.settings)
        for line in result.changed:
            self._log.info("reload: {line}", line=line)
        for line in result.needs_restart:
            self._log.warn("reload: needs a restart: {line}", line=line)
        if not result.changed and not result.needs_restart:
            self._log.info("reload: nothing has changed")
        return {
            "changed": list(result.changed),
            "needs_restart": list(result.needs_restart),
            "warnings": list(fresh.warnings),
        }


def _tell(text: str) -> None:
    """To the terminal itself: twistd has put its log in the place of stderr."""
    if sys.__stderr__ is not None:
        sys.__stderr__.write(text)
        sys.__stderr__.flush()


def calm_collector(_: object) -> None:
    """Keep the garbage collector from walking what will never be garbage.

    A busy connection makes containers by the thousand, none of them in cycles; with the
    defaults a tenth of the time of a put goes into looking for some.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


def makeService(options: Options, reactor: Any = None) -> IService:
    """The broker; the reactor is given in tests only."""
    if reactor is None:
        from twisted.internet import reactor as installed

        reactor = installed
    broker: IService = ConfiguredBroker(reactor, options)
    return broker
