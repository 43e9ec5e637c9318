"""A run too large for one worker, judged in bounded memory; the verdicts are those of `ordercast.check`.

Properties of single messages are judged in parts, a share of the messages each, by the judges themselves (`parts`).
Order is judged by a certificate or by a merge, and where that fails by the judges again, on what failed (`order`).
Nothing but the names of sites, verdicts and witnesses reaches the driver.
"""

from ordercast.spark.verify.large.causality import CAUSAL
from ordercast.spark.verify.large.judge import DEFAULT_LIMITS, LARGE_PROPERTIES, judge_large

__all__ = ["CAUSAL", "DEFAULT_LIMITS", "LARGE_PROPERTIES", "judge_large"]
