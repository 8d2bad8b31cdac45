"""Settings of coordination that are fine each for itself, but not together."""

from __future__ import annotations

import tempfile
from pathlib import Path

from settings_samples import MINIMAL, SYSTEM, load, notes, problems
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.settings import default_settings
from metatwist.errors import SettingsError

EMBEDDED = f"{SYSTEM}[topic=test]\n"


def system(lines: str, base: str = EMBEDDED) -> str:
    """The file `base` with lines of [system]."""
    return f"{base}[system]\n{lines}"


def own(lines: str, base: str = EMBEDDED) -> str:
    """The file `base` with lines of [metatwist]."""
    return f"{base}[metatwist]\n{lines}"


class AddressTests(SynchronousTestCase):
    """What is registered must be of use to clients."""

    def test_unfit_hosts(self) -> None:
        """A host that Java clients cannot use is a warning with any coordination."""
        for host, reason in {
            "my_host": "is not made of letters, digits, dots and hyphens",
            "bücher": "is not made of letters, digits, dots and hyphens",
            "h:1": "is no IPv6 address",
            "[h]": "is no IPv6 address",
            "[::1": "is no IPv6 address",
            "1.2.3": "is neither an address nor a name",
            "fe80::1%eth0": "has a zone",
        }.items():
            for base in (EMBEDDED, MINIMAL):
                (note,) = notes(load(system(f"hostName={host}\n", base)))
                self.assertIn("[system] hostName: clients are told meta://", note)
                self.assertIn(f":8123, but its host {reason}", note)

    def test_place(self) -> None:
        """The place is that of the key the host comes from."""
        (note,) = notes(load(system("hostName=my_host\n")))
        self.assertStartsWith(note, "server.ini:10: [system] hostName: ")
        (note,) = notes(load(own("brokerEndpoint=tcp:1:interface=my_host\n")))
        self.assertStartsWith(note, "server.ini:10: [metatwist] brokerEndpoint: ")
        (note,) = notes(load(EMBEDDED, {"METATWIST_SYSTEM_HOSTNAME": "my_host"}))
        self.assertStartsWith(note, "METATWIST_SYSTEM_HOSTNAME: [system] hostName: ")

    def assertStartsWith(self, text: str, start: str) -> None:
        """Fail unless `text` starts with `start`."""
        self.assertEqual(text[: len(start)], start)

    def test_fit_hosts(self) -> None:
        """Names and addresses of either kind are no warning."""
        for host in ("h", "a.example", "10.0.0.1", "2001:db8::1", "[2001:db8::1]"):
            self.assertEqual(notes(load(system(f"hostName={host}\n"))), [], host)

    def test_nobody_told(self) -> None:
        """What is not registered is not looked at."""
        host = "hostName=my_host\n[metatwist]\n"
        self.assertEqual(notes(load(system(f"{host}coordinator=none\n"))), [])
        hidden = f"{host}coordinator=embedded\n[zookeeper]\nzk.zkEnable=false\n"
        self.assertEqual(notes(load(system(hidden))), [])

    def test_any_port(self) -> None:
        """A port that the system chooses is not the one that is registered."""
        (note,) = notes(load(own("brokerEndpoint=tcp:0:interface=10.0.0.1\n")))
        self.assertIn("[metatwist] brokerEndpoint: clients are told", note)
        self.assertIn("meta://10.0.0.1:0, but nobody can connect to port 0", note)


class ReachTests(SynchronousTestCase):
    """A coordinator that others can use must not send them to themselves."""

    def noted(self, endpoint: str, host: str) -> list[str]:
        """The warnings of a coordinator's endpoint and a host."""
        lines = f"coordinatorEndpoint={endpoint}\n[system]\nhostName={host}\n"
        return notes(load(own(lines)))

    def test_out_of_reach(self) -> None:
        """An endpoint beyond loopback and a host of loopback is a warning."""
        for endpoint in (
            "tcp:2181",
            "tcp:2181:interface=0.0.0.0",
            "tcp:2181:interface=10.0.0.5",
            "tcp6:2181",
            "tcp6:2181:interface=2001\\\\:db8\\\\:\\\\:1",
        ):
            for host in ("127.0.0.1", "127.1.2.3", "::1", "[::1]", "localhost"):
                (note,) = self.noted(endpoint, host)
                self.assertIn("[metatwist] coordinatorEndpoint: `tcp", note)
                self.assertIn("their own machine: set [system] hostName", note)
        for host in ("LOCALHOST.", "0.0.0.0", "::", "::ffff:127.0.0.1"):
            self.assertEqual(len(self.noted("tcp:2181", host)), 1, host)

    def test_from_the_broker_endpoint(self) -> None:
        """So is a host that comes from where the broker listens."""
        lines = "coordinatorEndpoint=tcp:2181\nbrokerEndpoint=tcp:1:interface=127.0.0.1"
        (note,) = notes(load(own(f"{lines}\n")))
        self.assertIn("meta://127.0.0.1:1, which to them is their own machine", note)

    def test_within_reach(self) -> None:
        """A host that others can reach, or a coordinator that they cannot, is fine."""
        self.assertEqual(self.noted("tcp:2181", "10.0.0.5"), [])
        self.assertEqual(self.noted("tcp:2181", "mq.example"), [])
        for endpoint in (
            "tcp:2181:interface=127.0.0.1",
            "tcp:2181:interface=localhost",
            "tcp6:2181:interface=\\\\:\\\\:1",
            "unix:/run/zk",
        ):
            self.assertEqual(self.noted(endpoint, "127.0.0.1"), [], endpoint)


class PortTests(SynchronousTestCase):
    """Broker and coordinator cannot have one port."""

    def clash(self, coordinator: str, broker: str) -> str:
        """The problem of two endpoints, empty when they go together."""
        lines = f"coordinatorEndpoint={coordinator}\nbrokerEndpoint={broker}\n"
        try:
            load(own(f"{lines}[system]\nhostName=h\n"))
        except SettingsError as error:
            (problem,) = error.problems
            return problem
        return ""

    def test_overlap(self) -> None:
        """One port on interfaces that overlap is an error with both keys."""
        v6 = "interface=\\\\:\\\\:1"
        for one, other in (
            ("tcp:9", "tcp:9"),
            ("tcp:9", "tcp:9:interface=127.0.0.1"),
            ("tcp:9:interface=127.0.0.1", "tcp:9:interface=127.0.0.1"),
            ("tcp:9:interface=127.0.0.1", "tcp:interface=localhost:port=9"),
            ("tcp6:9", "tcp:9"),
            ("tcp6:9", "tcp:9:interface=127.0.0.1"),
            ("tcp6:9", f"tcp6:9:{v6}"),
            (f"tcp6:9:{v6}", f"tcp:9:{v6}"),
            ("tcp:9:interface=eth.example", "tcp:9:interface=eth.example"),
        ):
            for problem in (self.clash(one, other), self.clash(other, one)):
                self.assertIn("[metatwist] coordinatorEndpoint: `tcp", problem)
                self.assertIn("same port as [metatwist] brokerEndpoint, `tcp", problem)

    def test_apart(self) -> None:
        """Other ports, interfaces or kinds go together."""
        v6 = "interface=\\\\:\\\\:1"
        for one, other in (
            ("tcp:9", "tcp:10"),
            ("tcp:0:interface=10.0.0.1", "tcp:0:interface=10.0.0.1"),
            ("tcp:9:interface=127.0.0.1", "tcp:9:interface=10.0.0.1"),
            ("tcp:9:interface=127.0.0.1", f"tcp6:9:{v6}"),
            (f"tcp6:9:{v6}", "tcp:9"),
            ("unix:/run/a", "unix:/run/b"),
            ("tcp:9:interface=a.example", "tcp:9:interface=b.example"),
        ):
            self.assertEqual(self.clash(one, other), "", (one, other))
            self.assertEqual(self.clash(other, one), "", (other, one))

    def test_server_port(self) -> None:
        """Without an endpoint of the broker it is serverPort that is named."""
        (problem,) = problems(own("coordinatorEndpoint=tcp:8123\n"))
        self.assertEqual(
            problem,
            "server.ini:10: [metatwist] coordinatorEndpoint: `tcp:8123` has the same"
            " port as [system] serverPort, `tcp:8123`: give one of them another",
        )

    def test_default_endpoint(self) -> None:
        """The coordinator's port by default counts too, also without a file."""
        (problem,) = problems(system("serverPort=2181\n"))
        self.assertIn("server.ini:10: [system] serverPort: `tcp:2181` has", problem)
        self.assertIn("same port as [metatwist] coordinatorEndpoint, `tcp:2", problem)
        environ = {"METATWIST_SYSTEM_SERVERPORT": "2181"}
        error = self.assertRaises(SettingsError, default_settings, Path("/x"), environ)
        self.assertIn("brokerEndpoint: `tcp:2181:interface", error.problems[0])

    def test_ensemble(self) -> None:
        """Nothing else listens on the port of a coordinator that does not run."""
        load(own("coordinatorEndpoint=tcp:8123\n", MINIMAL))
        load(system("serverPort=2181\n", MINIMAL))


class PathTests(SynchronousTestCase):
    """The embedded coordinator's database and the data lie apart."""

    def topic(self, data: str, coordinator: str = "") -> str:
        """A file with a topic that has its own dataPath, and a coordinatorPath."""
        line = f"coordinatorPath={coordinator}\n" if coordinator else ""
        return own(f"{line}[topic=a]\ndataPath={data}\n")

    def test_in_the_data(self) -> None:
        """In or at dataPath it is refused: a Java broker would not see partitions."""
        for path in ("~/meta/zk", "~/meta", "~/other/../meta/zk"):
            (problem,) = problems(own(f"coordinatorPath={path}\n"))
            self.assertIn("server.ini:10: [metatwist] coordinatorPath: /home", problem)
            self.assertIn("lies in [system] dataPath, /home/meta/meta, where", problem)
            self.assertIn("put it elsewhere", problem)
        load(own("coordinatorPath=~/meta-zk\n"))

    def test_around_the_data(self) -> None:
        """Around dataPath it is refused too."""
        for path in ("~", "/home", "/"):
            (problem,) = problems(own(f"coordinatorPath={path}\n"))
            self.assertIn("[metatwist] coordinatorPath: /", problem)
            self.assertIn("holds [system] dataPath, /home/meta/meta: keep", problem)

    def test_of_a_topic(self) -> None:
        """The same holds for each topic's own dataPath, wildcards included."""
        (problem,) = problems(self.topic("/data", "/data/zk"))
        self.assertIn("/data/zk lies in [topic=a] dataPath, /data, where", problem)
        (problem,) = problems(self.topic("/zk/data", "/zk"))
        self.assertIn("/zk holds [topic=a] dataPath, /zk/data: keep", problem)
        (problem,) = problems(own("coordinatorPath=/b\n[topic=x*]\ndataPath=/b\n"))
        self.assertIn("/b lies in [topic=x*] dataPath, /b, where", problem)
        load(self.topic("/data", "/zk"))

    def test_once(self) -> None:
        """A directory of several topics is told once."""
        more = "[topic=b]\ndataPath=/data\n"
        self.assertEqual(len(problems(self.topic("/data", "/data/zk") + more)), 1)

    def test_default_path(self) -> None:
        """The place by default counts too, told where the data is named."""
        (problem,) = problems(self.topic("/home/meta"))
        self.assertEqual(
            problem,
            "server.ini:11: [topic=a] dataPath: coordinatorPath,"
            " /home/meta/meta.coordinator, lies in [topic=a] dataPath, /home/meta,"
            " where it would hide partitions from a Java broker: put it elsewhere",
        )
        (problem,) = problems(system("dataPath=/\n"))
        self.assertIn(
            "[system] dataPath: coordinatorPath, /.coordinator, lies", problem
        )

    def test_links(self) -> None:
        """What counts is where links lead, not how a path is written."""
        with tempfile.TemporaryDirectory() as directory:
            data, link = Path(directory) / "data", Path(directory) / "link"
            data.mkdir()
            link.symlink_to(data)
            lines = f"dataPath={data}\n[metatwist]\ncoordinatorPath={link}/zk\n"
            (problem,) = problems(system(lines))
            self.assertIn(f"{link}/zk lies in [system] dataPath, {data}", problem)

    def test_not_embedded(self) -> None:
        """A path that is not used may be anywhere."""
        load(own("coordinator=none\ncoordinatorPath=~/meta/zk\n"))
        load(own("coordinatorPath=~/meta/zk\n", MINIMAL))


class ServersTests(SynchronousTestCase):
    """`zk.zkConnect`."""

    def test_chroot_of_each(self) -> None:
        """A chroot behind each server, which would be one of all, is an error."""
        text = MINIMAL.replace("localhost:2181", "a:1/x,b:1/y")
        (problem,) = problems(text)
        self.assertIn("[zookeeper] zk.zkConnect: `a:1/x,b:1/y` is no list", problem)
        self.assertIn("the chroot comes once, at the end", problem)
        load(MINIMAL.replace("localhost:2181", "a:1,b:1/x/y"))
