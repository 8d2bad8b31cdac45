"""Scenes by kazoo: access control lists and credentials."""

from __future__ import annotations

from kazoo.client import KazooClient
from kazoo.security import (
    ACL,
    CREATOR_ALL_ACL,
    OPEN_ACL_UNSAFE,
    READ_ACL_UNSAFE,
    Id,
    Permissions,
    make_acl,
    make_digest_acl,
)

from .scene import Scene


def lists(scene: Scene) -> None:
    """Lists are kept, versioned and checked for sense."""
    client, root = scene.kazoo("A"), scene.root
    path = f"{root}/n"
    client.create(path)
    scene.ask("default", client.get_acls, path)
    scene.ask("set", client.set_acls, path, READ_ACL_UNSAFE + OPEN_ACL_UNSAFE)
    scene.ask("get", client.get_acls, path)
    scene.ask("set, right version", client.set_acls, path, OPEN_ACL_UNSAFE, 1)
    scene.ask("set, wrong version", client.set_acls, path, OPEN_ACL_UNSAFE, 1)
    scene.ask("set, any version", client.set_acls, path, OPEN_ACL_UNSAFE, -1)
    scene.ask("get of a missing", client.get_acls, f"{root}/none")
    scene.ask("set of a missing", client.set_acls, f"{root}/none", OPEN_ACL_UNSAFE)
    odd = {
        "empty": [],
        "unknown scheme": [make_acl("nonsense", "x", all=True)],
        "world with a name": [make_acl("world", "someone", all=True)],
        "auth without credentials": CREATOR_ALL_ACL,
        "malformed digest": [make_acl("digest", "nocolon", all=True)],
        "malformed address": [make_acl("ip", "nonsense", all=True)],
        "the same twice": [*OPEN_ACL_UNSAFE, *OPEN_ACL_UNSAFE],
        "no permissions": [ACL(0, Id("world", "anyone"))],
    }
    for words, acl in odd.items():
        node = f"{root}/{words.replace(' ', '-')}"
        scene.ask(f"create, {words}", client.create, node, b"", acl)
        scene.ask(f"set, {words}", client.set_acls, path, acl)


def permissions(scene: Scene) -> None:
    """Each permission opens its own operations."""
    client, root = scene.kazoo("A"), scene.root
    granted = {
        "none": 0,
        "read": Permissions.READ,
        "write": Permissions.WRITE,
        "create": Permissions.CREATE,
        "delete": Permissions.DELETE,
        "admin": Permissions.ADMIN,
    }
    for words, perms in granted.items():
        path = f"{root}/{words}"
        client.create(path)
        client.create(f"{path}/kid")
        client.set_acls(path, [ACL(perms, Id("world", "anyone"))])
        _try_all(scene, client, words, path)


def _try_all(scene: Scene, client: KazooClient, words: str, path: str) -> None:
    scene.ask(f"{words}: exists", client.exists, path)
    scene.ask(f"{words}: get", client.get, path)
    scene.ask(f"{words}: list", client.get_children, path)
    scene.ask(f"{words}: set", client.set, path, b"1")
    scene.ask(f"{words}: create", client.create, f"{path}/new")
    scene.ask(f"{words}: delete child", client.delete, f"{path}/kid")
    scene.ask(f"{words}: get acl", client.get_acls, path)
    check = client.transaction()
    check.check(path, 0)
    scene.ask(f"{words}: check", check.commit)
    scene.ask(f"{words}: set acl", client.set_acls, path, OPEN_ACL_UNSAFE)


def credentials(scene: Scene) -> None:
    """A name and password open what was closed to the world."""
    owner, other, root = scene.kazoo("A"), scene.kazoo("B"), scene.root
    scene.ask("add auth", owner.add_auth, "digest", "user:secret")
    mine = f"{root}/mine"
    scene.ask("create for its creator", owner.create, mine, b"1", CREATOR_ALL_ACL)
    scene.ask("the list", owner.get_acls, mine)
    scene.ask("own get", owner.get, mine)
    scene.ask("other's get", other.get, mine)
    scene.ask("other's set", other.set, mine, b"2")
    scene.ask("other's exists", other.exists, mine)
    scene.ask("other's get acl", other.get_acls, mine)
    scene.ask("other's child", other.create, f"{mine}/kid")
    scene.ask("other's delete", other.delete, mine)
    scene.ask("wrong password", other.add_auth, "digest", "user:wrong")
    mine = owner.create(f"{root}/mine-too", b"1", CREATOR_ALL_ACL)
    scene.ask("get with a wrong password", other.get, mine)
    scene.ask("right password", other.add_auth, "digest", "user:secret")
    scene.ask("get with the right password", other.get, mine)
    common = [
        make_digest_acl("user", "secret", read=True, admin=True),
        make_acl("world", "anyone", create=True),
    ]
    scene.ask("create common", owner.create, f"{root}/common", b"", common)
    third = scene.kazoo("C")
    scene.ask("third's get", third.get, f"{root}/common")
    scene.ask("third's child", third.create, f"{root}/common/kid")
    scene.ask("second's get", other.get, f"{root}/common")
    scene.ask("second's acl", other.get_acls, f"{root}/common")
    both = f"{root}/both"
    scene.ask("auth of two", other.create, both, b"", CREATOR_ALL_ACL)
    scene.ask("the list of two", lambda: sorted(other.get_acls(both)[0]))
    _by_address(scene, owner, third)


def _by_address(scene: Scene, owner: KazooClient, third: KazooClient) -> None:
    root = scene.root
    here = [make_acl("ip", "127.0.0.1", read=True)]
    elsewhere = [make_acl("ip", "192.0.2.1", all=True)]
    for words, acl in (("here", here), ("elsewhere", elsewhere)):
        scene.ask(f"create for {words}", owner.create, f"{root}/{words}", b"", acl)
        scene.ask(f"get acl from {words}", third.get_acls, f"{root}/{words}")
        scene.ask(f"get from {words}", third.get, f"{root}/{words}")
        scene.ask(f"set from {words}", third.set, f"{root}/{words}", b"")


SCENES = (lists, permissions, credentials)
