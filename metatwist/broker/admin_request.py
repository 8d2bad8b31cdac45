"""Admin verbs, and what a request line of the control socket does with them.

A request is `{"verb": "close-partitions", "args": {"topic": "news", ...}}`; its answer
is `{"ok": true, "result": ...}` or `{"ok": false, "error": "..."}`, each on one line.
Every fault of a request is answered with a sentence that says what was expected.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches

from attrs import frozen
from twisted.internet.defer import maybeDeferred
from twisted.logger import Logger

from metatwist.errors import AdminError

_KIND_NAMES = {str: "a string", int: "a whole number", bool: "true or false"}

_log = Logger()


@frozen
class Parameter:
    """One argument of a verb; `kind` is `str`, `int` or `bool`.

    An optional one that is left out, or null, reaches the verb as `default`.
    """

    name: str
    kind: type[str] | type[int] | type[bool]
    help: str
    required: bool = True
    default: object = None


@frozen
class Verb:
    """An operation that an operator may ask for.

    `run` gets every parameter as a keyword and returns a JSON value or a Deferred of
    one. It raises `AdminError` to refuse; anything else is logged as a defect.
    """

    name: str
    help: str
    parameters: tuple[Parameter, ...]
    run: Callable[..., object]


def read_request(
    line: bytes, verbs: Mapping[str, Verb]
) -> tuple[Verb, dict[str, object]]:
    """Check a request line against `verbs`; all arguments come back, defaults too.

    Raises `AdminError`, which names everything that is wrong with the arguments.
    """
    try:
        request = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise AdminError(f"the request is not a line of JSON: {error}") from None
    if not isinstance(request, dict) or not isinstance(request.get("verb"), str):
        raise AdminError('a request looks like {"verb": "status", "args": {}}')
    unknown = sorted(request.keys() - {"verb", "args"})
    if unknown:
        raise AdminError(f"a request has verb and args, but not {', '.join(unknown)}")
    verb = verbs.get(request["verb"])
    if verb is None:
        raise AdminError(f"unknown verb {_suggest(request['verb'], list(verbs))}")
    given = request.get("args", {})
    if not isinstance(given, dict):
        raise AdminError(f"{verb.name}: args must be an object of names and values")
    problems = list(_argument_problems(verb, given))
    if problems:
        raise AdminError(f"{verb.name}: {'; '.join(problems)}")
    return verb, {one.name: _argument(one, given) for one in verb.parameters}


def _suggest(word: str, known: list[str]) -> str:
    close = get_close_matches(word, known, n=1)
    if close:
        return f"'{word}'; did you mean '{close[0]}'?"
    return f"'{word}'; known: {', '.join(known) or 'none'}"


def _argument(parameter: Parameter, given: Mapping[str, object]) -> object:
    value = given.get(parameter.name)
    return parameter.default if value is None else value


def _argument_problems(verb: Verb, given: Mapping[str, object]) -> Iterator[str]:
    names = [parameter.name for parameter in verb.parameters]
    for parameter in verb.parameters:
        value = given.get(parameter.name)
        if parameter.name not in given and parameter.required:
            yield f"argument '{parameter.name}' is missing ({parameter.help})"
        elif value is None and not parameter.required:
            continue
        elif type(value) is not parameter.kind:  # a bool is an int to isinstance
            kind = _KIND_NAMES[parameter.kind]
            got = json.dumps(value)[:60]
            yield f"argument '{parameter.name}' must be {kind}, not {got}"
    for name in given:
        if name not in names:
            yield f"unknown argument {_suggest(name, names)}"


async def answer_to(line: bytes, verbs: Mapping[str, Verb]) -> bytes:
    """Run the request in `line` and encode its answer; never raises."""
    try:
        verb, arguments = read_request(line, verbs)
        result = await maybeDeferred(verb.run, **arguments)
        return _encode({"ok": True, "result": result})
    except AdminError as refused:
        return refusal(str(refused))
    except Exception as defect:
        _log.failure("admin request failed: {line!r}", line=line[:200])
        return refusal(f"internal error: {type(defect).__name__}: {defect}")


def _encode(answer: dict[str, object]) -> bytes:
    text = json.dumps(answer, ensure_ascii=False, allow_nan=False)
    # For a lone surrogate the backslash form is at once the JSON escape of it.
    return text.encode("utf-8", "backslashreplace") + b"\n"


def refusal(sentence: str) -> bytes:
    """Encode the answer that refuses with `sentence`."""
    return _encode({"ok": False, "error": sentence})
