"""Clients that are no members: the side of the member (`ordercast.client` is the other one)."""
