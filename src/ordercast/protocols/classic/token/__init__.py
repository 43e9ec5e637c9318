"""Token passing (Chang, Maxemchuk 1984; Spauster 1991, 2.3). The contract is in README.md."""

from ordercast.protocols.classic.token.protocol import Token

__all__ = ["Token"]
