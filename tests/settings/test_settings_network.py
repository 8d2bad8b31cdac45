"""Endpoint, published address, environment and the start without a file."""

from __future__ import annotations

from pathlib import Path

from attrs import evolve
from settings_samples import MINIMAL, load, notes, problems
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.settings import default_settings
from metatwist.broker.settings.host import first_address
from metatwist.errors import SettingsError


def listening(endpoint: str, more: str = "") -> str:
    """The minimal file with an endpoint and more lines of [system]."""
    return f"{MINIMAL}[metatwist]\nbrokerEndpoint={endpoint}\n[system]\n{more}"


class EndpointTests(SynchronousTestCase):
    """`brokerEndpoint`, `serverPort`, `hostName`."""

    def test_port_of_the_endpoint(self) -> None:
        """Without serverPort the endpoint's port is the published one."""
        for text in ("tcp:9000", "tcp:port=9000", "tcp:interface=127.0.0.1:port=9000"):
            self.assertEqual(load(listening(text)).server_port, 9000, text)

    def test_endpoint_wins(self) -> None:
        """When both name a port the endpoint's holds, and a warning says so."""
        settings = load(listening("tcp:9000", "serverPort=9001\n"))
        self.assertEqual(settings.server_port, 9000)
        (note,) = notes(settings)
        self.assertIn("server.ini:14: [system] serverPort: 9001 is not used", note)

    def test_equal_ports_are_fine(self) -> None:
        """Saying the same twice needs no warning."""
        settings = load(listening("tcp:9000", "serverPort=9000\n"))
        self.assertEqual(settings.warnings, ())

    def test_endpoint_without_port(self) -> None:
        """A Unix socket leaves the published port to serverPort."""
        settings = load(listening("unix:/run/x", "serverPort=9001\n"))
        self.assertEqual(settings.server_port, 9001)
        self.assertEqual(settings.broker_endpoint, "unix:/run/x")

    def test_bad_endpoints(self) -> None:
        """An endpoint that Twisted cannot use is refused with the reason."""
        for text, reason in {
            "tpc:1": "Unknown endpoint type: 'tpc'",
            "tcp:x": "invalid literal",
            "tcp": "missing 1 required positional argument: 'port'",
            "tcp:1:interfce=::1": "unexpected keyword argument 'interfce'",
            "ssl:1:privateKey=/nowhere.pem": "/nowhere.pem",
            "tcp:65536": "port 65536 is above 65535",
        }.items():
            (problem,) = problems(listening(text))
            self.assertIn("server.ini:12: [metatwist] brokerEndpoint: ", problem)
            self.assertIn(reason, problem)

    def test_server_port_listens_everywhere(self) -> None:
        """Without an endpoint the broker listens on all interfaces, as Java does."""
        settings = load(MINIMAL + "[system]\nserverPort=9002\n")
        self.assertEqual(settings.broker_endpoint, "tcp:9002")

    def test_host_name(self) -> None:
        """The published host is the given one, else the endpoint's interface."""
        given = load(listening("tcp:1:interface=10.0.0.1", "hostName=mq.example\n"))
        self.assertEqual(given.host_name, "mq.example")
        self.assertEqual(
            load(listening("tcp:1:interface=10.0.0.1")).host_name, "10.0.0.1"
        )
        self.assertEqual(
            load(listening("tcp6:1:interface=\\\\:\\\\:1")).host_name, "[::1]"
        )

    def test_ipv6_host_name(self) -> None:
        """An IPv6 address stands in brackets in the published URI, given so or not."""
        for given in ("\\:\\:1", "::1", "[::1]"):
            settings = load(f"{MINIMAL}[system]\nhostName={given}\n")
            self.assertEqual(settings.address, "meta://[::1]:8123", given)
            self.assertEqual(settings.warnings, ())

    def test_unusable_host_name(self) -> None:
        """A host that would break the published URI is refused."""
        (problem,) = problems(MINIMAL + "[system]\nhostName=a/b\n")
        self.assertIn("[system] hostName: `a/b` is no host", problem)

    def test_first_address(self) -> None:
        """Loopback addresses are published only when there is no other."""
        self.assertEqual(
            first_address(["127.0.0.1", "10.1.2.3", "10.9.9.9"]), "10.1.2.3"
        )
        self.assertEqual(first_address(["127.0.0.1", "127.0.1.1"]), "127.0.0.1")
        self.assertEqual(first_address([]), "127.0.0.1")
        self.assertNotEqual(load(MINIMAL).host_name, "")


class EnvironmentTests(SynchronousTestCase):
    """Overrides from the environment."""

    def test_override(self) -> None:
        """A variable wins over the file, in any case and with dots as underscores."""
        settings = load(
            MINIMAL,
            {
                "METATWIST_SYSTEM_BROKERID": "7",
                "METATWIST_SYSTEM_maxSegmentSize": "1024*4",
                "METATWIST_ZOOKEEPER_ZK_ZKCONNECT": "zoo:1",
                "metatwist_metatwist_idletimeout": "9",
                "OTHER": "x",
                "METATWIST_HOME": "/x",
            },
        )
        self.assertEqual((settings.broker_id, settings.idle_timeout_s), (7, 9))
        self.assertEqual(settings.max_segment_bytes, 4096)
        assert settings.zookeeper is not None
        self.assertEqual(settings.zookeeper.connect, "zoo:1")
        self.assertEqual(settings.warnings, ())

    def test_topics_inherit(self) -> None:
        """A topic inherits an overridden value of [system]."""
        settings = load(MINIMAL, {"METATWIST_SYSTEM_NUMPARTITIONS": "9"})
        self.assertEqual(settings.topics["test"].num_partitions, 9)

    def test_gives_required_keys(self) -> None:
        """A required key may come from the environment alone."""
        text = MINIMAL.replace("brokerId=0\n", "")
        self.assertEqual(load(text, {"METATWIST_SYSTEM_BROKERID": "3"}).broker_id, 3)

    def test_empty_variable(self) -> None:
        """An empty variable changes nothing."""
        self.assertEqual(load(MINIMAL, {"METATWIST_SYSTEM_BROKERID": " "}).broker_id, 0)

    def test_wrong_value(self) -> None:
        """A wrong value is reported under the variable's name."""
        self.assertEqual(
            problems(MINIMAL, {"METATWIST_SYSTEM_BROKERID": "1024"}),
            [
                "METATWIST_SYSTEM_BROKERID: [system] brokerId: "
                "1024 is not within 0 to 1023"
            ],
        )

    def test_unknown_variable(self) -> None:
        """An unknown key of a section is refused with the nearest variable."""
        (problem,) = problems(MINIMAL, {"METATWIST_SYSTEM_BROKRID": "1"})
        self.assertEqual(
            problem,
            "METATWIST_SYSTEM_BROKRID: names no key of [system] that a variable can "
            "set (did you mean METATWIST_SYSTEM_BROKERID?)",
        )

    def test_variable_like_no_other(self) -> None:
        """Nothing is suggested where only the prefix is alike."""
        (problem,) = problems(MINIMAL, {"METATWIST_SYSTEM_FOO": "1"})
        self.assertNotIn("did you mean", problem)

    def test_almost_a_section(self) -> None:
        """A variable of a misspelt section is pointed out."""
        settings = load(MINIMAL, {"METATWIST_SYTEM_BROKERID": "1"})
        self.assertEqual(
            settings.warnings,
            (
                "METATWIST_SYTEM_BROKERID: is not used "
                "(did you mean METATWIST_SYSTEM_BROKERID?)",
            ),
        )

    def test_same_key_twice(self) -> None:
        """Two variables of one key, in different case, are refused."""
        (problem,) = problems(
            MINIMAL,
            {"METATWIST_SYSTEM_BROKERID": "1", "METATWIST_SYSTEM_brokerId": "2"},
        )
        self.assertIn("METATWIST_SYSTEM_BROKERID is set too", problem)


class DefaultTests(SynchronousTestCase):
    """A start without any file."""

    def test_values(self) -> None:
        """One topic on this machine alone, acknowledged after fsync."""
        settings = default_settings(Path("/srv/meta"), {})
        self.assertIsNone(settings.path)
        self.assertEqual(settings.broker_endpoint, "tcp:8123:interface=127.0.0.1")
        self.assertEqual(
            (settings.host_name, settings.server_port), ("127.0.0.1", 8123)
        )
        self.assertEqual((settings.broker_id, settings.zookeeper), (0, None))
        self.assertEqual(settings.max_segment_bytes, 1 << 30)
        self.assertEqual(settings.data_path, Path("/srv/meta"))
        self.assertEqual(list(settings.topics), ["test"])
        self.assertEqual(settings.topics["test"].num_partitions, 4)
        self.assertTrue(settings.topics["test"].group_commit)
        self.assertEqual(settings.warnings, ())

    def test_text_loads_to_the_same(self) -> None:
        """The text shown as the configuration loads to the same settings."""
        for environ in ({}, {"METATWIST_SYSTEM_SERVERPORT": "9000"}):
            settings = default_settings(Path("/srv/数据 x"), environ)
            again = load(settings.text, environ)
            self.assertEqual(evolve(again, path=None), settings)

    def test_environment(self) -> None:
        """Variables hold without a file too, the port included."""
        settings = default_settings(
            Path("/srv/meta"),
            {"METATWIST_SYSTEM_SERVERPORT": "9000", "METATWIST_SYSTEM_BROKERID": "5"},
        )
        self.assertEqual(settings.broker_endpoint, "tcp:9000:interface=127.0.0.1")
        self.assertEqual((settings.server_port, settings.broker_id), (9000, 5))
        self.assertEqual(settings.warnings, ())

    def test_wrong_environment(self) -> None:
        """A wrong variable stops this start as well."""
        error = self.assertRaises(
            SettingsError,
            default_settings,
            Path("/srv/meta"),
            {"METATWIST_SYSTEM_SERVERPORT": "many"},
        )
        (problem,) = error.problems
        self.assertIn("METATWIST_SYSTEM_SERVERPORT: [system] serverPort: ", problem)

    def test_path_that_is_no_text(self) -> None:
        """A data path that no file could name is refused, not altered."""
        self.assertRaises(SettingsError, default_settings, Path("/srv/\udcff"), {})
