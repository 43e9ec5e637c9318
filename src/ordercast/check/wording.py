"""Words of witnesses that are found in more than one way: by a judge, and by Spark in a run too large for one."""

from __future__ import annotations

from typing import Final

SKIPPED: Final = "{0} delivers {a} before {b}, {1} delivers {b} without {a}, and neither was refused before"
"""Of `no-silent-divergence`: {0} and {1} are sites, {a} and {b} messages."""

OFFSETS_DIFFER: Final = "{a} has the offset {one} of {group} at {0}, and {two} at {1}"
OFFSETS_AT_THE_END: Final = "{0} ends at the offset {one} of {group}, {1} at {two}"
"""Both of `offset-agreement`: {0} and {1} are sites, {a} is a message."""
