"""Access control: who is who, and who may do what."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from metatwist.coordination.embedded.acl import (
    ALL,
    CREATE,
    OPEN,
    READ,
    WRITE,
    Identity,
    allows,
    digest_identity,
    resolve,
)
from metatwist.coordination.errors import InvalidAcl

NOBODY: frozenset[Identity] = frozenset({("ip", "10.1.2.3")})
ANN = ("digest", "ann:hash")
BOB = ("digest", "bob:hash")


class IdentityTests(SynchronousTestCase):
    """Credentials."""

    def test_digest(self) -> None:
        """The identity is what ZooKeeper's DigestAuthenticationProvider prints."""
        self.assertEqual(
            digest_identity(b"super:test"),
            ("digest", "super:D/InIHSb7yEEbrWz8b9l71RjZJU="),
        )

    def test_colon_in_password(self) -> None:
        """The user ends at the first colon, and the password keeps the others."""
        found = digest_identity(b"a:b:c")
        assert found is not None
        self.assertEqual(found[1].partition(":")[0], "a")
        self.assertNotEqual(found, digest_identity(b"a:b"))

    def test_no_password(self) -> None:
        """A user alone is somebody, as on a real server."""
        self.assertEqual(
            digest_identity(b"user"), ("digest", "user:Et6pb+wgWTVmq3VpLJlJWWgzrck=")
        )

    def test_nothing(self) -> None:
        """Empty credentials are nobody's."""
        self.assertIsNone(digest_identity(b""))


class AllowsTests(SynchronousTestCase):
    """What an ACL allows."""

    def test_open(self) -> None:
        """An open ACL allows all to everybody, whichever tuple says so."""
        for permission in (1, 2, 4, 8, 16):
            self.assertTrue(allows(OPEN, permission, frozenset()))
            self.assertTrue(allows(((ALL, "world", "anyone"),), permission, NOBODY))

    def test_permission_counts(self) -> None:
        """An entry allows the permissions it has and no others."""
        acl = ((READ | CREATE, "world", "anyone"),)
        self.assertTrue(allows(acl, READ, NOBODY))
        self.assertTrue(allows(acl, CREATE, NOBODY))
        self.assertFalse(allows(acl, WRITE, NOBODY))

    def test_any_of_several(self) -> None:
        """Asked for several permissions, one of them is enough."""
        acl = ((READ, "world", "anyone"),)
        self.assertTrue(allows(acl, READ | WRITE, NOBODY))

    def test_identity_counts(self) -> None:
        """An entry allows those who have its identity, by scheme and id."""
        acl = ((ALL, *ANN), (READ, *BOB))
        self.assertTrue(allows(acl, WRITE, frozenset({ANN})))
        self.assertTrue(allows(acl, READ, frozenset({BOB})))
        self.assertFalse(allows(acl, WRITE, frozenset({BOB})))
        self.assertFalse(allows(acl, READ, NOBODY))
        self.assertFalse(allows(acl, READ, frozenset({("x509", ANN[1])})))

    def test_address(self) -> None:
        """An address or a network allows those who come from there."""
        for name, expected in (
            ("10.1.2.3", True),
            ("10.1.2.4", False),
            ("10.1.0.0/16", True),
            ("10.2.0.0/16", False),
            ("::1", False),
        ):
            self.assertEqual(allows(((ALL, "ip", name),), READ, NOBODY), expected, name)

    def test_nobody(self) -> None:
        """Entries without permissions allow nothing."""
        self.assertFalse(allows(((0, "world", "anyone"),), READ, NOBODY))


class ResolveTests(SynchronousTestCase):
    """The ACL that is kept."""

    def test_open_is_one_object(self) -> None:
        """An open ACL is recognised by identity, which makes the check cheap."""
        self.assertIs(resolve([(ALL, "world", "anyone")], NOBODY), OPEN)
        self.assertIs(resolve([(ALL, "world", "anyone")] * 2, NOBODY), OPEN)

    def test_order_and_duplicates(self) -> None:
        """Entries stay in order, each once."""
        entries = [(READ, *BOB), (ALL, *ANN), (READ, *BOB)]
        self.assertEqual(resolve(entries, NOBODY), ((READ, *BOB), (ALL, *ANN)))

    def test_auth(self) -> None:
        """`auth` stands for the caller's credentials: not for his address, and never
        for the world."""
        caller = NOBODY | {ANN, BOB, ("world", "anyone")}
        self.assertEqual(
            resolve([(READ, "auth", "")], caller), ((READ, *ANN), (READ, *BOB))
        )

    def test_auth_of_nobody(self) -> None:
        """`auth` is refused without credentials, among valid entries as well."""
        for entries in (
            [(ALL, "auth", "")],
            [(ALL, "world", "anyone"), (ALL, "auth", "")],
        ):
            self.assertRaises(InvalidAcl, resolve, entries, NOBODY)

    def test_refused(self) -> None:
        """Empty ACLs, unknown schemes and malformed ids are refused."""
        self.assertRaises(InvalidAcl, resolve, [], NOBODY)
        for scheme, name in (
            ("", ""),
            ("nope", "x"),
            ("world", "someone"),
            ("digest", "ann"),
            ("digest", "ann:"),
            ("digest", "ann:a:b"),
            ("ip", ""),
            ("ip", "here"),
            ("ip", "127.0.0.0/33"),
            ("super", "x:y"),
        ):
            with self.assertRaises(InvalidAcl, msg=f"{scheme}:{name}"):
                resolve([(ALL, "world", "anyone"), (ALL, scheme, name)], NOBODY)
