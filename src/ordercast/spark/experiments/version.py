"""Which code it is: runs that were kept are worth nothing under other code."""

from ordercast.campaign.state import code_version

__all__ = ["code_version"]
