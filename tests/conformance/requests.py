"""What the checks of spec wire-protocol 8 send, and what the codec reads in it.

Keyed by number, with a letter where a check has several inputs. The socket tests send
these bytes to a broker, the codec tests feed them in pieces; `violates` means that the
connection closes. Checks about transactions wait for transactions.
"""

from __future__ import annotations

from attrs import frozen

from metatwist.wire.commands import (
    DEFAULT_OPAQUE,
    NO_CHECKSUM,
    GetCommand,
    Message,
    OffsetCommand,
    PutCommand,
    QuitCommand,
    ResultReply,
    StatsCommand,
    SyncCommand,
    ValueReply,
    VersionCommand,
)

HELLO_SUM = 907060870
X_SUM = 215750275
TAGGED = b"\0\0\0\3tagbody"
TAGGED_SUM = 1870258491
LARGEST = 9223372036854775807


@frozen
class Sent:
    """`data`, the messages in it, and whether it breaks the grammar behind them."""

    data: bytes
    reads: tuple[Message, ...] = ()
    violates: bool = False


def _reads(data: bytes, *messages: Message) -> Sent:
    return Sent(data, messages)


def _closes(data: bytes, *messages: Message) -> Sent:
    return Sent(data, messages, True)


def _version(data: bytes, opaque: int) -> Sent:
    return _reads(data, VersionCommand(opaque))


def _hello(data: bytes, partition: int, checksum: int, opaque: int) -> Sent:
    put = PutCommand("test", partition, 0, checksum, None, opaque, b"hello")
    return _reads(data, put)


def _keyed(data: bytes, checksum: int, key: str, opaque: int) -> Sent:
    return _reads(data, PutCommand("test", 0, 0, checksum, key, opaque, b"x"))


def _get(data: bytes, partition: int, offset: int, size: int, opaque: int) -> Sent:
    return _reads(data, GetCommand("test", "g", partition, offset, size, opaque))


def _offset(data: bytes, partition: int, offset: int, opaque: int) -> Sent:
    return _reads(data, OffsetCommand("test", "g", partition, offset, opaque))


def _stats(data: bytes, item: str, opaque: int) -> Sent:
    return _reads(data, StatsCommand(item, opaque))


_LONG = b"t" * 59_000

FRAMING = {
    "1": _version(b"version 7\r\n", 7),
    "2": _version(b"version\r\n", DEFAULT_OPAQUE),
    "3": _version(b"version 7 8 9\r\n", 7),
    "4": _version(b"vfoo 11\r\n", 11),
    "5": _version(b"version -2147483648\r\n", -2147483648),
    "6": _version(b"version 007\r\n", 7),
    "7": _closes(b"version 2147483648\r\n"),
    "8": _closes(b"version abc\r\n"),
    "9": _closes(b"version  7\r\n"),
    "10": _closes(b"version 7\n\r\n"),
    "11": _closes(b"version 7\r\r\n"),
    "12": _closes(b"\r\n"),
    "13": _closes(b"   \r\n"),
    "14": _closes(b" version 7\r\n"),
    "15": _closes(b"foo 1 2\r\n"),
    "16": _closes(b"VERSION 7\r\n"),
    "17a": _closes(b"getx test g 0 0 100 1\r\n"),
    "17b": _closes(b"putx test 0 1 0 5\r\nx"),
    "17c": _closes(b"stuff 1\r\n"),
    "17d": _closes(b"tfoo 1\r\n"),
    "17e": _closes(b"rfoo 1 0 1\r\n"),
    "18a": _reads(b"quit\r\n", QuitCommand()),
    "18b": _reads(b"qzzz\r\n", QuitCommand()),
    "19": _reads(b"version 1\r\nquit\r\n", VersionCommand(1), QuitCommand()),
    "20": _closes(b"version 1\r\nfoo\r\nversion 2\r\n", VersionCommand(1)),
    "21": _reads(b"version 1\r\nversion 1\r\n", VersionCommand(1), VersionCommand(1)),
    "22": _reads(
        b"value 3 1\r\nabcversion 2\r\n", ValueReply(1, b"abc"), VersionCommand(2)
    ),
    "23": _reads(
        b"result 200 3 1\r\nabcversion 2\r\n",
        ResultReply(200, 1, b"abc"),
        VersionCommand(2),
    ),
    "24a": _closes(b"value -1 1\r\n"),
    "24b": _closes(b"result 200\r\n"),
    "26": _reads(
        b"get " + _LONG + b" g 0 0 1 5\r\n", GetCommand(_LONG.decode(), "g", 0, 0, 1, 5)
    ),
    "27": _get(b"get test g 0 0 100 1 2 3\r\n", 0, 0, 100, 1),
    "28a": _closes(b"get test g 0 0 100\r\n"),
    "28b": _closes(b"offset test g 0 0\r\n"),
    "29": _get(b"get test g 0 0 100 5  \r\n", 0, 0, 100, 5),
    "30a": _closes(b"get test g 0 1e3 100 5\r\n"),
    "30b": _closes(b"get test g 0x0 0 100 5\r\n"),
    "30c": _closes(b"get test g 0 9223372036854775808 100 5\r\n"),
    "30d": _closes(b"get test g 0 0 2147483648 5\r\n"),
}

PUT = {
    "31": _hello(b"put test 0 5 0 907060870 2\r\nhello", 0, HELLO_SUM, 2),
    "32": _hello(b"put test 0 5 0 1\r\nhello", 0, NO_CHECKSUM, 1),
    "34": _hello(b"put test 0 5 0 -1 3\r\nhello", 0, NO_CHECKSUM, 3),
    "35": _hello(b"put test 0 5 0 1 4\r\nhello", 0, 1, 4),
    "36": _hello(b"put test 0 5 0 -2 4\r\nhello", 0, -2, 4),
    "37": _closes(b"put test 0 5 0 +1 4\r\nhello"),
    "38": _closes(b"put test 0 1 0  5\r\nx"),
    "39": _hello(b"put test -1 5 0 907060870 5\r\nhello", -1, HELLO_SUM, 5),
    "40": _hello(b"put test 3 5 0 907060870 6\r\nhello", 3, HELLO_SUM, 6),
    "41": _hello(b"put test -2 5 0 907060870 6\r\nhello", -2, HELLO_SUM, 6),
    "42": _reads(
        b"put nope 0 5 0 907060870 7\r\nhello",
        PutCommand("nope", 0, 0, HELLO_SUM, None, 7, b"hello"),
    ),
    "43": _reads(
        b"put wildcat 0 1 0 215750275 8\r\nx",
        PutCommand("wildcat", 0, 0, X_SUM, None, 8, b"x"),
    ),
    "44": _hello(b"put test 2 5 0 907060870 8\r\nhello", 2, HELLO_SUM, 8),
    "45": _reads(b"put test 0 0 0 0 9\r\n", PutCommand("test", 0, 0, 0, None, 9, b"")),
    "46": _reads(
        b"put test 0 11 1 1870258491 13\r\n" + TAGGED,
        PutCommand("test", 0, 1, TAGGED_SUM, None, 13, TAGGED),
    ),
    "47": _reads(
        b"put test 0 1 -2147483648 215750275 13\r\nx",
        PutCommand("test", 0, -2147483648, X_SUM, None, 13, b"x"),
    ),
    "48": _closes(b"put test 0 1 2147483648 -1 5\r\nx"),
    "49": _closes(b"put test 0 1 0\r\nx"),
    "50": _closes(b"put test 0 1 0 1 null 5 6\r\nx"),
    "51a": _closes(b"put test 0 -1 0 5\r\n"),
    "51b": _closes(b"put test 0 z 0 5\r\n"),
    "52": _hello(b"put test 0 5 0 6\r\nhello", 0, NO_CHECKSUM, 6),
    "53": _closes(
        b"put test 0 3 0 -1 5\r\nhelloversion 1\r\n",
        PutCommand("test", 0, 0, NO_CHECKSUM, None, 5, b"hel"),
    ),
    "54a": _closes(b"put test 0 1 0 215750275 GARB 12\r\nx"),
    "54b": _closes(b"put test 0 1 0 215750275 TX:1 12\r\nx"),
    "55": _keyed(b"put test 0 1 0 215750275 TX:s1:1 11\r\nx", X_SUM, "TX:s1:1", 11),
    "56": _keyed(b"put test 0 1 0 TX:s1:1 11\r\nx", NO_CHECKSUM, "TX:s1:1", 11),
    "57": _keyed(
        b"put test 0 1 0 215750275 XID:1:0a:0b:uq 12\r\nx", X_SUM, "XID:1:0a:0b:uq", 12
    ),
}

GET = {
    "59": _get(b"get test g 0 0 1000 20\r\n", 0, 0, 1000, 20),
    "60": _get(b"get test g 0 25 25 20\r\n", 0, 25, 25, 20),
    "61": _get(b"get test g 0 0 40 21\r\n", 0, 0, 40, 21),
    "62": _get(b"get test g 0 0 1 21\r\n", 0, 0, 1, 21),
    "63": _get(b"get test g 0 3 40 23\r\n", 0, 3, 40, 23),
    "64": _get(b"get test g 0 75 100 25\r\n", 0, 75, 100, 25),
    "65": _get(b"get test g 0 76 100 25\r\n", 0, 76, 100, 25),
    "66": _get(b"get test g 0 9223372036854775807 100 25\r\n", 0, LARGEST, 100, 25),
    "67": _get(b"get test g 0 -1 100 23\r\n", 0, -1, 100, 23),
    "68": _get(b"get test g 0 0 0 22\r\n", 0, 0, 0, 22),
    "69": _reads(b"get nope g 0 0 100 1\r\n", GetCommand("nope", "g", 0, 0, 100, 1)),
    "70": _get(b"get test g 1 0 0 1\r\n", 1, 0, 0, 1),
    "71": _get(b"get test g -1 0 100 1\r\n", -1, 0, 100, 1),
    "72": _get(b"get test g 2 0 100 1\r\n", 2, 0, 100, 1),
    "73a": _get(b"get test g 1 0 100000 1\r\n", 1, 0, 100000, 1),
    "73b": _get(b"get test g 1 4550 100000 1\r\n", 1, 4550, 100000, 1),
    "74a": _offset(b"offset test g 1 4559 24\r\n", 1, 4559, 24),
    "74b": _offset(b"offset test g 1 99999999 24\r\n", 1, 99999999, 24),
    "75a": _offset(b"offset test g 0 -1 24\r\n", 0, -1, 24),
    "75b": _offset(b"offset test g 0 9223372036854775807 24\r\n", 0, LARGEST, 24),
    "76": _reads(b"offset nope g 0 0 9\r\n", OffsetCommand("nope", "g", 0, 0, 9)),
    "82": _reads(b"get test  0 0 100 5\r\n", GetCommand("test", "", 0, 0, 100, 5)),
}

OTHER = {
    "83": _stats(b"stats  1\r\n", "", 1),
    "84a": _stats(b"stats\r\n", "", DEFAULT_OPAQUE),
    "84b": _closes(b"stats a b\r\n"),
    "85": _stats(b"stats 5\r\n", "5", DEFAULT_OPAQUE),
    "86": _stats(b"stats help 5\r\n", "help", 5),
    "87": _stats(b"stats reset 9\r\n", "reset", 9),
    "88": _stats(b"stats offsets 3\r\n", "offsets", 3),
    "89": _stats(b"stats realtime 4\r\n", "realtime", 4),
    "91a": _stats(b"stats nostat 8\r\n", "nostat", 8),
    "91b": _stats(b"stats zzz 8\r\n", "zzz", 8),
    "91c": _stats(b"stats test 8\r\n", "test", 8),
    "92": _stats(b"stats topics 2\r\n", "topics", 2),
    "93": _stats(b"stats config 11\r\n", "config", 11),
    "112": _reads(
        b"sync test 0 1 0 123 -1 5\r\nx", SyncCommand("test", 0, 0, 123, -1, 5, b"x")
    ),
}

CHECKS: dict[str, Sent] = {**FRAMING, **PUT, **GET, **OTHER}
