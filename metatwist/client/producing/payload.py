"""What may be sent: checks, and the bytes that travel (spec client 5.4)."""

from __future__ import annotations

import re

from metatwist.client.errors import InvalidMessage, Where
from metatwist.client.message import Message
from metatwist.coordination.names import path_element_problem
from metatwist.wire.records import join_payload

_UNFIT = re.compile(r"[\s\x00-\x1f\x7f]")


def topic_problem(topic: object) -> str | None:
    """Why a text is no topic that can be sent to, None if it is one."""
    if not isinstance(topic, str):
        return f"must be str, not {type(topic).__name__}"
    if not topic:
        return "is empty"
    unfit = _UNFIT.search(topic)
    if unfit is not None:
        return f"contains {unfit[0]!r}"
    if not topic.isprintable():
        return "has characters that cannot be printed"
    return path_element_problem(topic)


def payload_of(message: Message, most_bytes: int) -> tuple[int, bytes]:
    """(flag, payload); the topic's characters are checked when it is first sent to.

    Raises InvalidMessage.
    """
    attribute, body, key = message.attribute, message.body, message.key
    topic: object = message.topic
    if not isinstance(topic, str):
        kind = type(topic).__name__
        raise InvalidMessage(f"the topic must be str, not {kind}")
    if key is not None:
        _check_key(message, key)
    if type(body) is not bytes:
        kind = type(body).__name__
        raise _invalid(message, f"the body must be bytes, not {kind}")
    if attribute is None:
        flag, payload = 0, body
    else:
        flag, payload = _with_attribute(message, attribute, body)
    if len(payload) > most_bytes:
        said = f"{len(payload)} bytes, more than the {most_bytes} allowed"
        raise _invalid(message, said)
    return flag, payload


def _with_attribute(
    message: Message, attribute: object, body: bytes
) -> tuple[int, bytes]:
    if not isinstance(attribute, str):
        kind = type(attribute).__name__
        raise _invalid(message, f"the attribute must be str, not {kind}")
    try:
        return join_payload(attribute, body)
    except UnicodeEncodeError as error:
        raise _invalid(message, f"the attribute is no text: {error}") from error


def _check_key(message: Message, key: object) -> None:
    """It is not sent, but selectors hash it and local stores keep it."""
    if isinstance(key, bytes):
        return
    if not isinstance(key, str):
        kind = type(key).__name__
        raise _invalid(message, f"the key must be bytes or str, not {kind}")
    try:
        key.encode()
    except UnicodeEncodeError as error:
        raise _invalid(message, f"the key is no text: {error}") from error


def _invalid(message: Message, text: str) -> InvalidMessage:
    return InvalidMessage(text, Where(topic=message.topic))
