"""Start the Java process behind a session without a word on the terminal, and end it for certain."""

from __future__ import annotations

import contextlib
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pyspark import SparkConf
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway

from ordercast.core.errors import UsageError
from ordercast.spark.internals import adopt_gateway, forget_gateway

EXIT_SECONDS_MAX = 10.0
"""Java's own tidying up at the end (temporary folders, sockets) takes half a second; past this it hangs."""

# Everything goes to the process's standard error, which is a file. Spark's own default would do that too, but on the
# way it prints to the terminal that it does. The gateway has a level of its own because it lowers everybody's to its
# own one, to warnings where it has none.
_LOGGING = """\
rootLogger.level = {level}
rootLogger.appenderRef.stderr.ref = stderr
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = {level}
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""


def launch(settings: Mapping[str, str], folder: Path, log: Path, level: str) -> Any:
    """Start Java with these settings; what it says from now on goes to the log file."""
    logging = folder / "log4j2.properties"
    logging.write_text(_LOGGING.format(level=level))
    options = settings.get("spark.driver.extraJavaOptions", "")
    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(settings.items()))
    # The quotes are Spark's own syntax: a temporary folder's name may have blanks.
    conf.set("spark.driver.extraJavaOptions", f'{options} "-Dlog4j2.configurationFile={logging}"'.strip())
    try:
        with log.open("ab") as output:
            gateway = launch_gateway(conf, popen_kwargs={"stdout": output, "stderr": output})
    except (PySparkRuntimeError, OSError) as error:
        raise UsageError(f"Spark did not start: {explain(log, str(error))}") from error
    adopt_gateway(gateway)
    return gateway


def end(gateway: Any) -> None:
    """End the Java process; afterwards another one can be started."""
    forget_gateway()
    with contextlib.suppress(Exception):
        gateway.shutdown()
    process: subprocess.Popen[bytes] | None = gateway.proc
    if process is None:
        return
    # The end of its standard input is its sign to stop the jobs, tidy up and go, and its Python workers with it.
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(EXIT_SECONDS_MAX)
    except BaseException as error:
        process.kill()
        process.wait()
        if not isinstance(error, subprocess.TimeoutExpired):
            raise


_COMPLAINTS = (
    r"^(?:Exception in thread \"main\"|Caused by:)\s+(?:[\w.$]+(?:Exception|Error): )?(.+)$",
    r"^(?:Error: |\S+ ERROR \S+: )(?!Error initializing SparkContext)(.+)$",
    r"^(.*\S.*)$",
)
"""Where Java says what is wrong, the best places first. That the context could not be initialized is known."""


def explain(log: Path, otherwise: str) -> str:
    """What Java complained about last, in one line."""
    text = log.read_text(errors="replace") if log.exists() else ""
    found = (re.findall(pattern, text, re.MULTILINE) for pattern in _COMPLAINTS)
    return " ".join(next((lines[-1] for lines in found if lines), otherwise).split())
