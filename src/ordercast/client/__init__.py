"""Clients that are no members: `connect`, and what it gives."""

from ordercast.client.client import Client, connect
from ordercast.client.group import ClientGroup
from ordercast.client.replica import ClientReplica

__all__ = ["Client", "ClientGroup", "ClientReplica", "connect"]
