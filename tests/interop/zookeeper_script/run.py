"""Plays the scenes, in order."""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable

from . import (
    kazoo_access,
    kazoo_nodes,
    kazoo_sessions,
    kazoo_transactions,
    kazoo_watches,
    raw_frames,
    raw_order,
    raw_paths,
    raw_sessions,
    raw_watches,
    words,
)
from .scene import Scene
from .transcript import Step

MODULES = (
    kazoo_nodes,
    kazoo_watches,
    kazoo_transactions,
    kazoo_access,
    kazoo_sessions,
    raw_frames,
    raw_paths,
    raw_order,
    raw_watches,
    raw_sessions,
    words,
)


def run(address: str, word: str = "") -> list[Step]:
    """The transcript of the server at `host:port`.

    A scene that cannot go on is a step too, so that the others are still compared;
    `word` leaves only the scenes that have it in their name.
    """
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    host, _, port = address.rpartition(":")
    steps: list[Step] = []
    for module in MODULES:
        title = module.__name__.rpartition(".")[2].replace("_", " ")
        for play in module.SCENES:
            name = f"{title} {play.__name__}".replace("_", " ")
            if word in name:
                steps += _played(name, play, (host, int(port)))
    return steps


def _played(
    name: str, play: Callable[[Scene], None], address: tuple[str, int]
) -> list[Step]:
    scene = Scene(name, address)
    try:
        play(scene)
    except Exception as error:
        where = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in where if "_script" in frame.filename]
        scene.note("went wrong", f"{type(error).__name__}: {error} {lines}")
    finally:
        scene.close()
    return scene.steps
