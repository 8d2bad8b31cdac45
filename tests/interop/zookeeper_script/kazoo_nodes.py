"""Scenes by kazoo: creating, reading, setting, deleting, listing."""

from __future__ import annotations

from kazoo.client import KazooClient

from .scene import Scene, pass_a_millisecond

BIG = bytes(range(256)) * 3600  # 900 KiB


def creating(scene: Scene) -> None:
    """Every mode of create that is not a sequence, and what refuses it."""
    client, root = scene.kazoo("A"), scene.root
    ask = scene.ask
    ask("persistent", client.create, f"{root}/p", b"x")
    ask("its data", client.get, f"{root}/p")
    ask("again", client.create, f"{root}/p", b"y")
    ask("again, ephemeral", client.create, f"{root}/p", b"y", ephemeral=True)
    ask("data after refusals", client.get, f"{root}/p")
    ask("without parent", client.create, f"{root}/none/child")
    ask("deep without parent", client.create, f"{root}/none/child/grandchild")
    ask("child of persistent", client.create, f"{root}/p/child")
    ask("ephemeral", client.create, f"{root}/e", b"x", ephemeral=True)
    ask("ephemeral's stat", client.exists, f"{root}/e")
    ask("ephemeral again", client.create, f"{root}/e", ephemeral=True)
    ask("under ephemeral", client.create, f"{root}/e/child")
    ask("ephemeral under it", client.create, f"{root}/e/child", ephemeral=True)
    ask("sequence under it", client.create, f"{root}/e/child-", sequence=True)
    ask("deep under it", client.create, f"{root}/e/child/grandchild")
    ask("ephemeral under p", client.create, f"{root}/p/e", ephemeral=True)
    ask("p's stat", client.exists, f"{root}/p")
    ask("with parents", client.create, f"{root}/a/b/c", b"1", makepath=True)
    ask("made parent", client.get, f"{root}/a/b")
    ask("ensured path", client.ensure_path, f"{root}/a/b/d/e")
    ask("ensured again", client.ensure_path, f"{root}/a/b/d/e")
    ask("the root", client.create, "/")
    ask("other's ephemeral", scene.kazoo("B").exists, f"{root}/e")


def creating_with_stat(scene: Scene) -> None:
    """create2 in every mode."""
    client, root = scene.kazoo("A"), scene.root

    def ask(words: str, path: str, data: bytes, **keys: bool) -> None:
        scene.ask(words, client.create, path, data, include_data=True, **keys)

    ask("persistent", f"{root}/p", b"data")
    ask("persistent again", f"{root}/p", b"data")
    ask("ephemeral", f"{root}/e", b"data", ephemeral=True)
    ask("sequence", f"{root}/p/s-", b"", sequence=True)
    ask("ephemeral sequence", f"{root}/p/s-", b"1", sequence=True, ephemeral=True)
    ask("without parent", f"{root}/none/p", b"")
    ask("under ephemeral", f"{root}/e/p", b"")
    scene.ask("parent's stat", client.exists, f"{root}/p")


def sequences(scene: Scene) -> None:
    """Sequence numbers are the parent's affair, and never come back."""
    client, root = scene.kazoo("A"), scene.root
    for name in ("q", "r", "t"):
        client.create(f"{root}/{name}")

    def add(words: str, path: str, ephemeral: bool = False) -> None:
        scene.ask(words, client.create, path, sequence=True, ephemeral=ephemeral)

    for number in range(3):
        add(f"number {number}", f"{root}/q/n-")
    add("another prefix", f"{root}/q/m-")
    add("in a parallel directory", f"{root}/r/n-")
    add("ephemeral", f"{root}/q/n-", ephemeral=True)
    client.delete(f"{root}/q/n-0000000002")
    add("after a deletion", f"{root}/q/n-")
    client.create(f"{root}/q/plain")
    add("after a plain child", f"{root}/q/n-")
    client.set(f"{root}/q", b"changed")
    client.set(f"{root}/q/plain", b"changed")
    add("after sets", f"{root}/q/n-")
    scene.ask("a refused create", client.create, f"{root}/q/plain")
    add("after a refusal", f"{root}/q/n-")
    client.create(f"{root}/q/plain/deeper")
    add("after a grandchild", f"{root}/q/n-")
    add("without a prefix", f"{root}/q/")
    add("ephemeral without a prefix", f"{root}/r/", ephemeral=True)
    add("without parent", f"{root}/none/n-")
    add("without parent or prefix", f"{root}/none/")
    client.create(f"{root}/t/n-0000000001")
    add("name that is taken", f"{root}/t/n-")
    add("after a taken name", f"{root}/t/n-")
    scene.ask("all", client.get_children, f"{root}/q", include_data=True)
    for child in client.get_children(f"{root}/q"):
        client.delete(f"{root}/q/{child}", recursive=True)
    scene.ask("emptied", client.exists, f"{root}/q")
    add("in the emptied directory", f"{root}/q/n-")
    client.delete(f"{root}/q", recursive=True)
    client.create(f"{root}/q")
    add("in the directory made anew", f"{root}/q/n-")


def contents(scene: Scene) -> None:
    """Data of every size comes back as it was."""
    client, root = scene.kazoo("A"), scene.root
    values = (("null", None), ("empty", b""), ("one byte", b"\0"), ("big", BIG))
    for words, value in values:
        path = f"{root}/{words.replace(' ', '-')}"
        scene.ask(f"create with {words}", client.create, path, value)
        scene.ask(f"get {words}", client.get, path)
        scene.ask(f"list {words}", client.get_children, path, include_data=True)
    client.create(f"{root}/target", b"before")
    for words, value in values:
        scene.ask(f"set {words}", client.set, f"{root}/target", value)
        scene.ask(f"get {words} again", client.get, f"{root}/target")


def versions(scene: Scene) -> None:
    """Setting and deleting with the right, a wrong and no version."""
    client, root = scene.kazoo("A"), scene.root
    scene.ledger.tells_times = True
    path = f"{root}/v"
    client.create(path, b"0")
    for version in (1, 0, 0, 1, -1, 2, 3, -2, 2147483647):
        pass_a_millisecond()
        scene.ask(f"set with {version}", client.set, path, b"%d" % version, version)
    scene.ask("data", client.get, path)
    scene.ask("set of a missing", client.set, f"{root}/none", b"")
    scene.ask("set of a missing, versioned", client.set, f"{root}/none", b"", 3)
    for version in (3, 5, -2, 4):
        scene.ask(f"delete with {version}", client.delete, path, version)
    scene.ask("delete of a missing", client.delete, path)
    scene.ask("delete of a missing, versioned", client.delete, path, 0)
    client.create(path, b"again")
    scene.ask("made anew", client.get, path)
    client.create(f"{path}/child")
    scene.ask("delete with a child", client.delete, path)
    scene.ask("delete with a child, right version", client.delete, path, 0)
    scene.ask("delete with a child, wrong version", client.delete, path, 7)
    client.delete(f"{path}/child")
    scene.ask("delete after its child", client.delete, path)
    scene.ask("exists then", client.exists, path)
    scene.ask("get then", client.get, path)


def stats(scene: Scene) -> None:
    """Each kind of change moves its own fields of the stat, and no others."""
    client, root = scene.kazoo("A"), scene.root
    scene.ledger.tells_times = True
    path = f"{root}/s"

    def after(words: str) -> None:
        scene.ask(f"{words}: the node", client.exists, path)
        scene.ask(f"{words}: its parent", client.exists, root)
        pass_a_millisecond()

    client.create(path, b"four")
    after("created")
    client.set(path, b"longer than before")
    after("set")
    client.set(path, b"longer than before")
    after("set to the same")
    client.create(f"{path}/a", b"1")
    after("child created")
    scene.ask("the child", client.exists, f"{path}/a")
    client.set(f"{path}/a", b"2")
    after("child set")
    client.create(f"{path}/a/b")
    after("grandchild created")
    client.create(f"{path}/e", ephemeral=True)
    after("ephemeral child created")
    _refused(client, path)
    after("refused changes")
    client.delete(f"{path}/e")
    after("ephemeral child deleted")
    client.delete(f"{path}/a", recursive=True)
    after("child deleted")
    client.set_acls(path, client.get_acls(path)[0])
    after("acl set")
    client.delete(path)
    after("deleted")
    client.create(path, b"")
    after("made anew")


def _refused(client: KazooClient, path: str) -> None:
    requests = (
        client.create_async(f"{path}/a"),
        client.delete_async(path),
        client.set_async(path, b"", 77),
        client.delete_async(f"{path}/none"),
    )
    for request in requests:
        request.wait()


def listing(scene: Scene) -> None:
    """Children are listed by name alone, whatever the name."""
    client, root = scene.kazoo("A"), scene.root
    scene.ask("empty", client.get_children, root)
    names = ["a", "a.b", "...", ".hidden", "two words", "-", "%2F", "zookeeper", "\xe9"]
    names += ["\u4e2d\u6587", "x" * 200, "0", "~`!@#$^&*()+={}[]|\\:;\"'<>,?"]
    for name in names:
        scene.ask(f"create {name[:30]!a}", client.create, f"{root}/{name}")
    scene.ask("all", client.get_children, root)
    scene.ask("all with stat", client.get_children, root, include_data=True)
    scene.ask("of a leaf", client.get_children, f"{root}/a")
    scene.ask("of a missing", client.get_children, f"{root}/none")
    scene.ask(
        "of a missing, with stat", client.get_children, f"{root}/none", None, True
    )
    client.create(f"{root}/many")
    made = [client.create_async(f"{root}/many/{number}") for number in range(500)]
    for one in made:
        one.get()
    scene.note("many", str(len(set(client.get_children(f"{root}/many")))))
    scene.ask("many's stat", client.exists, f"{root}/many")
    scene.note("root in /", str(root[1:] in client.get_children("/")))
    scene.note("zookeeper in /", str("zookeeper" in client.get_children("/")))
    scene.ask("data of /", lambda: client.get("/")[0])
    scene.ask("children of /zookeeper", client.get_children, "/zookeeper")
    scene.ask("sync", client.sync, root)
    scene.ask("sync of a missing", client.sync, f"{root}/none")
    chrooted = scene.kazoo("B", f"{scene.address[0]}:{scene.address[1]}{root}")
    scene.ask("chroot create", chrooted.create, "/in-chroot", b"1")
    scene.ask("chroot get", chrooted.get, "/in-chroot")
    scene.ask("chroot seen from outside", client.get, f"{root}/in-chroot")


SCENES = (creating, creating_with_stat, sequences, contents, versions, stats, listing)
