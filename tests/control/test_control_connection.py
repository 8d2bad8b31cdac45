"""The line protocol of the control socket, on a transport in memory."""

from __future__ import annotations

import json
from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from metatwist.broker.control import ControlConnection, Parameter, Verb
from metatwist.errors import AdminError

TOPIC = Parameter("topic", str, "the topic")
FIRST = Parameter("first", int, "first partition")
FORCE = Parameter("force", bool, "do not ask", required=False, default=False)


def verb(name: str, run: Any, *parameters: Parameter) -> Verb:
    return Verb(name, f"does {name}", parameters, run)


class ConnectionCase(SynchronousTestCase):
    """A connection with verbs that echo, wait, refuse and break."""

    def setUp(self) -> None:
        self.pending: list[Deferred[object]] = []
        self.echoed: list[dict[str, object]] = []
        verbs = [
            verb("echo", self.echo, TOPIC, FIRST, FORCE),
            verb("wait", self.wait),
            verb("refuse", self.refuse),
            verb("break", lambda: {}["absent"]),
            verb("unspeakable", lambda: object()),
        ]
        self.connection = ControlConnection({one.name: one for one in verbs})
        self.transport = StringTransport()
        self.connection.makeConnection(self.transport)

    def echo(self, **arguments: object) -> object:
        self.echoed.append(arguments)
        return arguments

    def wait(self) -> Deferred[object]:
        self.pending.append(Deferred())
        return self.pending[-1]

    def refuse(self) -> None:
        raise AdminError("partition 3 of news is open; close it first")

    def send(self, *requests: object) -> None:
        lines = [json.dumps(request).encode() + b"\n" for request in requests]
        self.connection.dataReceived(b"".join(lines))

    def answers(self) -> list[Any]:
        lines = self.transport.value().splitlines()
        self.transport.clear()
        return [json.loads(line) for line in lines]

    def error_of(self, request: object) -> str:
        self.send(request)
        (answer,) = self.answers()
        self.assertIs(answer["ok"], False)
        text = answer["error"]
        assert isinstance(text, str)
        return text

    def leave(self) -> None:
        self.connection.connectionLost(Failure(ConnectionDone()))


def echo(**arguments: object) -> dict[str, object]:
    return {"verb": "echo", "args": arguments}


class RequestTests(ConnectionCase):
    """What a single request gets."""

    def test_result(self) -> None:
        """A verb gets its arguments by name, and its result is the answer."""
        self.send(echo(topic="新闻", first=2, force=True))
        expected = {"topic": "新闻", "first": 2, "force": True}
        self.assertEqual(self.answers(), [{"ok": True, "result": expected}])

    def test_answer_is_utf8(self) -> None:
        """Text beyond ASCII travels as UTF-8, and half a surrogate still as JSON."""
        self.send(echo(topic="é\ud800", first=0))
        self.assertIn('"é\\ud800"'.encode(), self.transport.value())

    def test_default(self) -> None:
        """An optional argument left out, or null, takes its default."""
        self.send(echo(topic="t", first=0), echo(topic="t", first=0, force=None))
        self.assertEqual([one["force"] for one in self.echoed], [False, False])

    def test_args_left_out(self) -> None:
        """A verb without parameters needs no args."""
        self.send({"verb": "wait"})
        self.pending[0].callback(None)
        self.assertEqual(self.answers(), [{"ok": True, "result": None}])

    def test_byte_by_byte(self) -> None:
        """A request may arrive in any pieces."""
        for byte in json.dumps(echo(topic="t", first=1)).encode() + b"\r\n":
            self.connection.dataReceived(bytes([byte]))
        self.assertEqual(len(self.answers()), 1)

    def test_refusal(self) -> None:
        """A refused verb answers with the text of its AdminError."""
        expected = "partition 3 of news is open; close it first"
        self.assertEqual(self.error_of({"verb": "refuse"}), expected)

    def test_defect(self) -> None:
        """A verb that breaks is answered as an internal error and logged."""
        self.assertIn("internal error: KeyError", self.error_of({"verb": "break"}))
        self.assertEqual(len(self.flushLoggedErrors(KeyError)), 1)

    def test_result_that_is_not_json(self) -> None:
        """A result that JSON cannot carry is an internal error, not a silence."""
        self.assertIn("internal error", self.error_of({"verb": "unspeakable"}))
        self.assertEqual(len(self.flushLoggedErrors(TypeError)), 1)

    def test_unknown_verb(self) -> None:
        """A misspelt verb is answered with the likely one."""
        self.assertIn("did you mean 'echo'", self.error_of({"verb": "ecco"}))

    def test_unlike_any_verb(self) -> None:
        """A verb like no other is answered with the list of verbs."""
        self.assertIn("echo, wait, refuse", self.error_of({"verb": "zzz"}))

    def test_missing_and_unknown_argument(self) -> None:
        """All faults of the arguments come in one answer."""
        error = self.error_of(echo(topik="t", first=1))
        self.assertIn("echo: argument 'topic' is missing (the topic)", error)
        self.assertIn("unknown argument 'topik'; did you mean 'topic'?", error)

    def test_mistyped_arguments(self) -> None:
        """Types are checked exactly: neither true nor "1" nor 1.0 is a whole number."""
        for wrong in (True, "1", 1.0, None):
            error = self.error_of(echo(topic="t", first=wrong))
            self.assertIn("'first' must be a whole number, not", error)

    def test_not_json(self) -> None:
        """Lines that are no request get an answer each, and the connection lives."""
        lines = [b"{", b"", b"\xff", b"[]", b'"wait"', b'{"verb": 1}', b"[" * 100_000]
        lines.append(b'{"verb": "wait", "args": []}')
        lines.append(b'{"verb": "wait", "id": 7}')
        self.connection.dataReceived(b"".join(line + b"\n" for line in lines))
        self.assertEqual([one["ok"] for one in self.answers()], [False] * len(lines))
        self.send(echo(topic="t", first=0))
        self.assertIs(self.answers()[0]["ok"], True)


class OrderTests(ConnectionCase):
    """Many requests on a connection, and its end."""

    def test_one_after_the_other(self) -> None:
        """A verb begins when the one before it has been answered."""
        self.send({"verb": "wait"}, echo(topic="t", first=0), {"verb": "wait"})
        self.assertEqual((self.answers(), self.echoed), ([], []))
        self.pending[0].callback("first")
        answers = self.answers()
        self.assertEqual(answers[0]["result"], "first")
        self.assertEqual((len(answers), len(self.pending)), (2, 2))

    def test_pauses_while_busy(self) -> None:
        """Nothing more is read from a client whose verb is running."""
        self.send({"verb": "wait"})
        self.assertEqual(self.transport.producerState, "paused")
        self.pending[0].callback(None)
        self.assertEqual(self.transport.producerState, "producing")

    def test_unread_answers(self) -> None:
        """While a client leaves answers unread its next verb does not begin."""
        self.connection.pauseProducing()
        self.send(*[echo(topic="t", first=n) for n in range(3)])
        self.assertEqual(len(self.echoed), 1)
        self.connection.resumeProducing()
        self.assertEqual(len(self.echoed), 3)

    def test_many_quick_verbs(self) -> None:
        """A burst of requests does not exhaust the stack."""
        self.send(*[echo(topic="t", first=n) for n in range(3000)])
        firsts = [one["result"]["first"] for one in self.answers()]
        self.assertEqual(firsts, list(range(3000)))

    def test_client_leaves(self) -> None:
        """A begun verb goes on when its client leaves; those behind it never begin."""
        self.send({"verb": "wait"}, echo(topic="t", first=0))
        self.leave()
        self.assertFalse(self.pending[0].called)
        self.pending[0].callback("dropped")
        self.assertEqual((self.answers(), self.echoed), ([], []))

    def test_leaves_with_unread_answers(self) -> None:
        """A client that leaves its answers unread does not hold a verb for ever."""
        self.connection.pauseProducing()
        self.send(echo(topic="t", first=0), echo(topic="t", first=1))
        self.leave()
        self.assertEqual(len(self.echoed), 1)

    def test_half_close(self) -> None:
        """A client may close its side at once and still gets every answer."""
        self.send({"verb": "wait"}, echo(topic="t", first=0))
        self.connection.readConnectionLost()
        self.assertFalse(self.transport.disconnecting)
        self.pending[0].callback(None)
        self.assertEqual(len(self.answers()), 2)
        self.assertTrue(self.transport.disconnecting)

    def test_torn_request(self) -> None:
        """A request without its line end is not run when the client closes."""
        self.connection.dataReceived(json.dumps(echo(topic="t", first=0)).encode())
        self.connection.readConnectionLost()
        self.assertEqual(self.echoed, [])
        self.assertTrue(self.transport.disconnecting)

    def test_longest_line(self) -> None:
        """A line of exactly 1 MiB is a request."""
        frame = len(json.dumps(echo(topic="", first=0)))
        self.send(echo(topic="x" * ((1 << 20) - frame), first=0))
        self.assertIs(self.answers()[0]["ok"], True)

    def test_line_too_long(self) -> None:
        """A longer line ends the connection, after the answers to what came before."""
        self.send({"verb": "wait"})
        self.connection.dataReceived(b"x" * (1 << 20) + b"y")
        self.connection.dataReceived(b"\n")
        self.pending[0].callback("before")
        first, last = self.answers()
        self.assertEqual(first["result"], "before")
        self.assertIn("limited to 1048576", last["error"])
        self.assertTrue(self.transport.disconnecting)

    def test_finish(self) -> None:
        """The end of the service closes a connection whatever its verb does."""
        self.send({"verb": "wait"}, {"verb": "wait"})
        self.connection.finish()
        self.assertTrue(self.transport.disconnecting)
        self.pending[0].callback("late")
        self.assertEqual((self.answers(), len(self.pending)), ([], 1))
