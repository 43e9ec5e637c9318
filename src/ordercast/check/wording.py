"""Words of witnesses that are found in more than one way: by a judge, and by Spark in a run too large for one."""

from __future__ import annotations

from typing import Final

SKIPPED: Final = "{0} delivers {a} before {b}, {1} delivers {b} without {a}, and neither was refused before"
"""Of `no-silent-divergence`: {0} and {1} are sites, {a} and {b} messages."""
