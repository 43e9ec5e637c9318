"""Where the values of a configuration come from: a file, the environment over it, keyword arguments over both."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from difflib import get_close_matches
from os.path import expanduser
from pathlib import Path
from typing import Any

import msgspec

from ordercast.core import UsageError
from ordercast.core.tables import check_keys, check_numbers, read_toml

logger = logging.getLogger("ordercast.node")

VARIABLE_PREFIX = "ORDERCAST_"

Source = str | Path | Mapping[str, Any]
"""A file, or a mapping of the same keys."""

_TEXTS = (
    "cluster",
    "protocol",
    "key_file",
    "log_directory",
    "trace_directory",
    "control",
    "multicast",
    "channel",
    "interface",
)
_TABLES = ("discovery", "processes", "added", "groups", "clients", "metrics", "options")
KEYS: tuple[str, ...] = (
    "cluster",
    "protocol",
    "key_file",
    "insecure",
    "log_directory",
    "trace_directory",
    "control",
    "max_datagram",
    "multicast",
    "channel",
    "interface",
    "socket_buffer",
    "busy_poll",
    "retain_bytes",
    "payload_max",
    "queue_bytes",
    "history_bytes",
    *_TABLES,
)
"""In the order in which people read them."""
SCALAR_KEYS = tuple(key for key in KEYS if key not in _TABLES)


class Origin(msgspec.Struct, frozen=True):
    """Where a value came from."""

    kind: str
    """`file`, `environment` or `keyword`."""
    where: str
    """How complaints about it begin."""
    folder: Path
    """What relative paths are relative to."""


class Layers:
    """The values as they were given, the upper layers' before the lower ones', and where each was found."""

    def __init__(self, source: Source, environment: Mapping[str, str], overrides: Mapping[str, Any]) -> None:
        self.values: dict[str, Any] = {}
        self.origins: dict[str, Origin] = {}
        self._unused_key = ""
        """Where the key file was named that an upper layer has set aside; nothing for none."""
        if isinstance(source, Mapping):
            self.name, folder, document = "configuration", Path.cwd(), _expect_texts(source)
            check_numbers(document, self.name)
        else:
            path = Path(expanduser(source))
            self.name, folder, document = str(source), path.absolute().parent, _read_file(path)
        check_keys(document, KEYS, self.name)
        self._lay({key: (value, Origin("file", f"{self.name}: {key}", folder)) for key, value in document.items()})
        self._lay(_read_environment(environment))
        check_keys(overrides, KEYS, "keyword arguments")
        check_numbers(overrides, "keyword arguments")
        self._lay({key: (value, Origin("keyword", f"keyword {key}", Path.cwd())) for key, value in overrides.items()})
        if self._unused_key and self.values.get("insecure") is True:
            # A variable that somebody forgot must not unseal a cluster in silence.
            logger.warning(
                "%s: everything is sent in the clear, although there is a key (%s); take insecure away to use it",
                self.where("insecure"),
                self._unused_key,
            )

    def where(self, key: str) -> str:
        """How a complaint about a key begins."""
        return self.origins[key].where if key in self.origins else f"{self.name}: {key}"

    def _lay(self, layer: dict[str, tuple[Any, Origin]]) -> None:
        """Put a layer over those before. `None` takes a key away; of key_file and insecure, the upper one counts."""
        if layer.get("key_file", (None,))[0] is not None and "insecure" not in layer:
            self._forget("insecure")
        if layer.get("insecure", (False,))[0] is True and "key_file" not in layer:
            if "key_file" in self.values:
                self._unused_key = self.where("key_file")
            self._forget("key_file")
        for key, (value, origin) in layer.items():
            if value is None:
                self._forget(key)
            else:
                self.values[key], self.origins[key] = value, origin

    def _forget(self, key: str) -> None:
        self.values.pop(key, None)
        self.origins.pop(key, None)


def _expect_texts(source: Mapping[Any, Any]) -> dict[str, Any]:
    for key in source:
        if not isinstance(key, str):
            raise UsageError(f"configuration: {key!r} is no key; known: {', '.join(KEYS)}")
    return dict(source)


def _read_file(path: Path) -> dict[str, Any]:
    try:
        return read_toml(path)
    except UsageError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise UsageError(f"{error}; make one with `ordercast config new {path}`") from error
        raise


def _read_environment(environment: Mapping[str, str]) -> dict[str, tuple[Any, Origin]]:
    """The keys that the environment sets. An empty variable counts as not set: shells and containers leave those."""
    layer: dict[str, tuple[Any, Origin]] = {}
    for variable, text in environment.items():
        if not variable.startswith(VARIABLE_PREFIX) or not text:
            continue
        key = variable.removeprefix(VARIABLE_PREFIX).lower()
        where = f"environment: {variable}"
        if key in _TABLES:
            raise UsageError(f"{where}: {key} is a table, and stands in the file; unset the variable")
        if key in SCALAR_KEYS:
            layer[key] = (_from_text(key, text, where), Origin("environment", where, Path.cwd()))
        elif near := get_close_matches(key, SCALAR_KEYS, n=1, cutoff=0.8):
            # Others are none of ours: there are variables for Spark and Java too.
            raise UsageError(f"{where}: unknown key {key!r}; did you mean {VARIABLE_PREFIX}{near[0].upper()}?")
    return layer


def _from_text(key: str, text: str, where: str) -> Any:
    if key in _TEXTS:
        return text
    if key == "insecure":
        if text.lower() not in ("true", "false"):
            raise UsageError(f"{where}: expected true or false, got {text!r}")
        return text.lower() == "true"
    if not re.fullmatch(r"-?[0-9]{1,19}", text):
        raise UsageError(f"{where}: expected a whole number, got {text!r}")
    return int(text)
