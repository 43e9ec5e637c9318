"""Process group membership (Berket 2000, chapter 5)."""

from ordercast.protocols.intergroup.membership.membership import ROLES, Membership

__all__ = ["ROLES", "Membership"]
