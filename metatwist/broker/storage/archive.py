"""Taking an expired segment out of a partition: archive it or delete it.

The order of steps is the point (spec storage 13.1, D-13): the source goes last, after
the archive is on disk, has been read back and is known by its name. Whatever fails, and
wherever the process dies, the bytes are there under one of the two names, and the next
run finishes the work. Blocking; meant for worker threads. No state is shared, so
several segments may be worked on at once, but each by one thread only.
"""

from __future__ import annotations

import os
import re
import stat
import zipfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import IO

from metatwist.errors import StorageError

COPY_BYTES = 1024 * 1024
"""How much of a segment is in memory at a time."""

_LEFTOVER = re.compile(r"\d+\.meta\.zip\.tmp", re.ASCII)


def archive_segment(path: Path, compress: bool) -> Path:
    """Move the sealed segment `path` aside and return the name it is kept under.

    `<name>.meta.arc` is the file renamed; with `compress`, `<name>.meta.zip` holds it
    as its one entry. An archive with the same content, left by a run that died, is
    taken as done. Raises `StorageError`, which names the file, and leaves the source in
    place; only a failing sync of the directory after the source was removed, with the
    archive safe, raises without it.
    """
    try:
        return _compressed(path) if compress else _renamed(path)
    except OSError as error:
        raise StorageError(f"cannot archive {path}: {error}") from error


def delete_segment(path: Path) -> None:
    """Remove the segment `path` for good; one that is gone already is no error.

    Raises `StorageError`, which names the file.
    """
    try:
        path.unlink(missing_ok=True)
        _sync_directory(path.parent)
    except OSError as error:
        raise StorageError(f"cannot delete {path}: {error}") from error


def remove_leftovers(directory: Path) -> tuple[Path, ...]:
    """Remove half-written archives of a run that died, and return their paths.

    For the start of a run, while nothing is being archived in the partition's
    `directory`. Raises `StorageError`, which names the directory.
    """
    try:
        found = [
            entry for entry in directory.iterdir() if _LEFTOVER.fullmatch(entry.name)
        ]
        for leftover in found:
            leftover.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"cannot tidy {directory}: {error}") from error
    return tuple(sorted(found))


def _renamed(path: Path) -> Path:
    target = path.with_name(f"{path.name}.arc")
    if os.path.lexists(target):
        with open(path, "rb") as source, open(target, "rb") as kept:
            same = _same_bytes(source, kept)
        return _finished_before(path, target, same)
    os.rename(path, target)
    try:
        _sync_directory(path.parent)
    except OSError:
        with suppress(OSError):
            os.rename(target, path)
        raise
    return target


def _compressed(path: Path) -> Path:
    target = path.with_name(f"{path.name}.zip")
    if os.path.lexists(target):
        return _finished_before(path, target, _zip_holds(target, path))
    temporary = path.with_name(f"{target.name}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        _write_zip(path, temporary)
        if not _zip_holds(temporary, path):
            raise StorageError(f"cannot archive {path}: its zip reads back differently")
        os.rename(temporary, target)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    _sync_directory(path.parent)
    _remove_source(path)
    return target


def _finished_before(path: Path, target: Path, same: bool) -> Path:
    """Complete a run that died between the archive and the removal of its source."""
    if not same:
        raise StorageError(
            f"cannot archive {path}: {target} exists and holds something else"
        )
    with open(target, "rb") as kept:
        os.fsync(kept.fileno())
    _sync_directory(path.parent)
    _remove_source(path)
    return target


def _remove_source(path: Path) -> None:
    # Without the sync a crash could bring back one segment and not its successor.
    path.unlink()
    _sync_directory(path.parent)


def _write_zip(path: Path, temporary: Path) -> None:
    with open(path, "rb") as source, open(temporary, "xb") as out:
        os.fchmod(out.fileno(), stat.S_IMODE(os.fstat(source.fileno()).st_mode))
        # `from_file` gives the size too, by which zipfile decides on zip64.
        entry = zipfile.ZipInfo.from_file(path, path.name, strict_timestamps=False)
        entry.compress_type = zipfile.ZIP_DEFLATED
        with zipfile.ZipFile(out, "w") as archive, archive.open(entry, "w") as packed:
            while chunk := source.read(COPY_BYTES):
                packed.write(chunk)
        out.flush()
        os.fsync(out.fileno())


def _zip_holds(archive_path: Path, path: Path) -> bool:
    """Tell whether the zip is whole and its one entry is the file `path`."""
    try:
        with zipfile.ZipFile(archive_path) as archive, open(path, "rb") as source:
            if archive.namelist() != [path.name]:
                return False
            # Reading to the end also checks the entry's CRC.
            with archive.open(path.name) as packed:
                return _same_bytes(source, packed)
    except (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError):
        return False


def _same_bytes(first: IO[bytes], second: IO[bytes]) -> bool:
    while True:
        chunk = first.read(COPY_BYTES)
        if chunk != _read_exactly(second, len(chunk) or 1):
            return False
        if not chunk:
            return True


def _read_exactly(source: IO[bytes], size_bytes: int) -> bytes:
    """Read up to the end or `size_bytes`; a zip entry may give less in one go."""
    parts = []
    while size_bytes and (part := source.read(size_bytes)):
        parts.append(part)
        size_bytes -= len(part)
    return b"".join(parts)


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
