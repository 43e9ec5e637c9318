"""Where alerts go: to whoever looks on, to a table, to a web address."""

from __future__ import annotations

import json
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any, Final

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - what everybody calls it

from ordercast.core.errors import UsageError
from ordercast.spark.tables import check_format
from ordercast.watch import Alert

WEBHOOK_SECONDS_MAX: Final = 5.0
"""A query that waits for a web server does not watch."""
BATCH: Final = "batch"


class Outlets:
    """Of one query."""

    def __init__(
        self, show: Callable[[Alert], None], table: str | None = None, table_format: str = "parquet", webhook: str = ""
    ) -> None:
        """`show` is called with each alert, in this process."""
        if webhook and not webhook.startswith(("http://", "https://")):
            raise UsageError(f"a webhook is a web address, http://… or https://…, not {webhook!r}")
        self.alerts = 0
        """How many there were."""
        self._show = show
        self._table = table
        self._format = table_format
        self._webhook = webhook

    def check(self, spark: SparkSession) -> None:
        """`UsageError` where the table cannot be written: better now than at the first alert."""
        if self._table is not None:
            check_format(spark, self._format)

    def tell(self, found: DataFrame, batch: int) -> None:
        """Those of a micro-batch. One that is done again after a crash replaces its own rows in the table; whoever
        looks on, and the web server, may hear of it twice."""
        found = found.persist()
        try:
            alerts = [msgspec.convert(row.asDict(), Alert) for row in found.collect()]
            if alerts and self._table is not None:
                rows = found.withColumn(BATCH, F.lit(batch)).write.format(self._format).partitionBy(BATCH)
                rows.mode("overwrite").option("partitionOverwriteMode", "dynamic").save(self._table)
        finally:
            found.unpersist()
        self.alerts += len(alerts)
        for alert in alerts:
            self._show(alert)
        if alerts and self._webhook:
            self._post([msgspec.to_builtins(alert) for alert in alerts])

    def _post(self, alerts: list[Any]) -> None:
        request = urllib.request.Request(
            self._webhook, json.dumps({"alerts": alerts}).encode(), {"Content-Type": "application/json"}
        )
        try:
            with urllib.request.urlopen(request, timeout=WEBHOOK_SECONDS_MAX):
                pass
        except (urllib.error.URLError, OSError, ValueError) as error:
            print(f"ordercast: {self._webhook} has not taken {len(alerts)} alerts: {error}", file=sys.stderr)
