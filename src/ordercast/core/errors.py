"""Three kinds of error, three fates; and what they have in common."""

from __future__ import annotations


class OrdercastError(Exception):
    """Everything that ordercast raises on purpose."""


class UsageError(OrdercastError):
    """The caller misused the API or gave bad input: raised to the caller, one line that says what to do."""


class RenamedOption(FutureWarning):
    """An option has another name now. The old one still works; CONTRIBUTING.md says for how long."""


class WireError(OrdercastError):
    """The network brought garbage: counted and dropped."""


class InvariantViolation(OrdercastError):
    """Our own bug: stop loudly."""


class StorageError(OrdercastError):
    """The stable log could not be written or read: the site stops rather than act on what it could not log."""
