"""Verification on Spark: every property of every run, judged on the workers by the judges of `ordercast.check`.

    trace = open_trace(spark, "trace")
    verification = verify(spark, trace)
    verification.witnesses.show()               # run, property, sites, messages, why
    verification.collect()["run-1"]["integrity"].verdict

Runs are spread over the workers as they lie in the files; what comes back is verdicts and witnesses. Nothing here
imports a protocol: a verifier must not share code with what it verifies.
"""

from ordercast.spark.verify.on_spark import OnSpark, session_settings
from ordercast.spark.verify.verification import LARGE_ROWS, Verification, verify

__all__ = ["LARGE_ROWS", "OnSpark", "Verification", "session_settings", "verify"]
