"""Traces verified: every property of every run, judged by the judges of `ordercast.check`.

    verified = verify_folder(Here(), "trace")
    verified.verdicts["run-1"]["integrity"].verdict

Where the work is done is a `Place`: this process (`Here`), or Spark's workers (`ordercast.spark.verify.OnSpark`). What
is judged, and how, is the same at both. Nothing here imports a protocol: a verifier must not share code with what it
verifies.
"""

from ordercast.verify.folder import Verified, verify_folder
from ordercast.verify.here import Here
from ordercast.verify.place import Judged, Place

__all__ = ["Here", "Judged", "Place", "Verified", "verify_folder"]
