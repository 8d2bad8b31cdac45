"""Scenes by kazoo: transactions, all or nothing."""

from __future__ import annotations

from collections.abc import Callable

from kazoo.client import KazooClient, TransactionRequest

from .scene import Scene, WatchLog

Fill = Callable[[TransactionRequest], None]


def _commit(scene: Scene, client: KazooClient, words: str, fill: Fill) -> None:
    transaction = client.transaction()
    fill(transaction)
    scene.ask(words, transaction.commit)


def committed(scene: Scene) -> None:
    """Every operation, alone and building on those before it."""
    client, root = scene.kazoo("A"), scene.root

    def everything(one: TransactionRequest) -> None:
        one.create(f"{root}/a", b"1")
        one.create(f"{root}/a/b", b"2")
        one.check(f"{root}/a", 0)
        one.set_data(f"{root}/a", b"3", 0)
        one.set_data(f"{root}/a", b"33", 1)
        one.check(f"{root}/a", 2)
        one.create(f"{root}/a/e", b"", ephemeral=True)
        one.create(f"{root}/a/s-", b"", sequence=True)
        one.create(f"{root}/a/s-", b"", sequence=True, ephemeral=True)
        one.delete(f"{root}/a/b", 0)
        one.create(f"{root}/a/b", b"anew")

    _commit(scene, client, "everything", everything)
    for name in ("a", "a/b", "a/e", "a/s-0000000002", "a/s-0000000003"):
        scene.ask(f"then {name}", client.get, f"{root}/{name}")
    scene.ask("then the root", client.exists, root)
    _commit(scene, client, "nothing", lambda one: None)
    _commit(scene, client, "check any", lambda one: one.check(f"{root}/a", -1))
    _commit(scene, client, "set any", lambda one: one.set_data(f"{root}/a", b"4", -1))
    scene.ask("after set any", client.exists, f"{root}/a")

    def come_and_go(one: TransactionRequest) -> None:
        one.create(f"{root}/brief", b"")
        one.delete(f"{root}/brief")

    _commit(scene, client, "create and delete", come_and_go)
    scene.ask("the root after that", client.exists, root)
    scene.ask("next sequence", client.create, f"{root}/s-", sequence=True)


def refused(scene: Scene) -> None:
    """The first failure rolls all back and names itself."""
    client, root = scene.kazoo("A"), scene.root
    client.create(f"{root}/p", b"1")
    client.create(f"{root}/p/kid")
    client.create(f"{root}/e", ephemeral=True)
    failures: dict[str, Fill] = {
        "create of a present": lambda one: one.create(f"{root}/p", b""),
        "create without parent": lambda one: one.create(f"{root}/x/y", b""),
        "create under ephemeral": lambda one: one.create(f"{root}/e/y", b""),
        "delete of a missing": lambda one: one.delete(f"{root}/x"),
        "delete with a wrong version": lambda one: one.delete(f"{root}/e", 9),
        "delete with children": lambda one: one.delete(f"{root}/p"),
        "set of a missing": lambda one: one.set_data(f"{root}/x", b""),
        "set with a wrong version": lambda one: one.set_data(f"{root}/p", b"", 9),
        "check of a missing": lambda one: one.check(f"{root}/x", 0),
        "check any of a missing": lambda one: one.check(f"{root}/x", -1),
        "check of a wrong version": lambda one: one.check(f"{root}/p", 9),
    }
    for words, fail in failures.items():
        _commit(scene, client, f"{words}, alone", fail)

        def between(one: TransactionRequest, fail: Fill = fail) -> None:
            one.create(f"{root}/new", b"")
            one.create(f"{root}/s-", b"", sequence=True)
            one.set_data(f"{root}/p", b"changed")
            fail(one)
            one.delete(f"{root}/p/kid")

        _commit(scene, client, words, between)
    for name in ("p", "p/kid", "e", "new"):
        scene.ask(f"then {name}", client.exists, f"{root}/{name}")
    scene.ask("then the root", client.exists, root)
    scene.ask("next sequence", client.create, f"{root}/s-", sequence=True)

    def two_failures(one: TransactionRequest) -> None:
        one.check(f"{root}/p", 9)
        one.delete(f"{root}/x")

    _commit(scene, client, "two failures", two_failures)


def watched(scene: Scene) -> None:
    """Watches fire for a transaction that took place, one event a change."""
    client, changer = scene.kazoo("A"), scene.kazoo("B")
    root = scene.root
    changer.create(f"{root}/d", b"")
    changer.create(f"{root}/g", b"")
    log = WatchLog(client, scene.fence)

    def watch() -> None:
        for name in "cdg":
            client.exists(f"{root}/{name}", watch=log.watch("exists"))
        client.get_children(root, watch=log.watch("list"))

    def change(one: TransactionRequest) -> None:
        one.create(f"{root}/c", b"")
        one.set_data(f"{root}/d", b"1")
        one.set_data(f"{root}/d", b"2")
        one.delete(f"{root}/g")

    def fail(one: TransactionRequest) -> None:
        change(one)
        one.check(f"{root}/none", 0)

    watch()
    _commit(scene, changer, "refused", fail)
    scene.note("no events", " | ".join(log.drain(scene.ledger)))
    _commit(scene, changer, "committed", change)
    scene.note("events", " | ".join(log.drain(scene.ledger)))


SCENES = (committed, refused, watched)
