"""TOML tables in and out: typed, with errors of one line that name the file, the key and what to do."""

from __future__ import annotations

import json
import math
import re
import tomllib
import warnings
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin

import msgspec

from ordercast.core.contract import Options
from ordercast.core.errors import RenamedOption, UsageError

FILE_BYTES_MAX = 1 << 20
"""A scenario of a thousand sites and a thousand faults is a tenth of this; what is larger is another kind of file."""

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")

Table = TypeVar("Table", bound=msgspec.Struct)

_WORDS = {
    "float": "a number",
    "int": "a whole number",
    "str": "text in quotes",
    "bool": "true or false",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a file; whatever is wrong with the file is a `UsageError`."""
    text = read_text(path)
    try:
        tables = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        # Not a TOMLDecodeError: a number of thousands of digits, or thousands of brackets.
        reason = str(error) if isinstance(error, tomllib.TOMLDecodeError) else "it has a value beyond all measure"
        raise UsageError(f"{path}: is not valid TOML: {reason}") from error
    check_numbers(tables, str(path))
    return tables


def read_text(path: Path) -> str:
    """The text of a file of reasonable size."""
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from error
    if len(content) > FILE_BYTES_MAX:
        raise UsageError(f"{path}: is larger than {FILE_BYTES_MAX} bytes; is it the right file?")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: is not UTF-8 text (byte {error.start}); is it the right file?") from error


def check_numbers(value: Any, where: str) -> None:
    """TOML knows nan, inf and integers of any length; no key of ours means anything with them."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            check_numbers(inner, f"{where}: {key}")
    elif isinstance(value, list):
        for inner in value:
            check_numbers(inner, where)
    elif isinstance(value, float) and not math.isfinite(value):
        raise UsageError(f"{where}: {value} is no number to calculate with; give a finite one")
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise UsageError(f"{where}: {value} does not fit into 64 bits; give a smaller number")


def check_keys(table: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Refuse a key that is not known, with the nearest one that is."""
    known = tuple(known)
    for key in table:
        if key not in known:
            raise UsageError(f"{where}: unknown key {key!r}; {nearest(key, known)}")


def nearest(word: str, known: Iterable[str]) -> str:
    """What to say to someone who wrote a word that is not known."""
    known = tuple(known)
    near = get_close_matches(word, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known) or 'none'}"


def expect_table(value: Any, where: str) -> dict[str, Any]:
    """The value, when it is a table."""
    if not isinstance(value, dict):
        raise UsageError(f"{where}: expected a table, got {_word_for(value)}")
    return value


def expect_tables(value: Any, where: str) -> list[dict[str, Any]]:
    """The value, when it is a list of tables, as `[[name]]` makes one."""
    if not isinstance(value, list):
        raise UsageError(f"{where}: write [[{where.rsplit(' ', 1)[-1]}]], with double brackets: there can be several")
    return [expect_table(inner, f"{where} {number}") for number, inner in enumerate(value, 1)]


def to_struct(table: Mapping[str, Any], kind: type[Table], where: str) -> Table:
    """The table as a struct of that type; unknown and missing keys and wrong types are errors that name the key."""
    tag = kind.__struct_config__.tag_field
    check_keys(table, (*([tag] if tag else ()), *kind.__struct_encode_fields__), where)
    try:
        return msgspec.convert(table, kind)
    except msgspec.ValidationError as error:
        raise UsageError(_explain(error, kind, where)) from error


def rename_options(table: Mapping[str, Any], kind: type[Options], where: str) -> dict[str, Any]:
    """The table with every option under its present name; an old name is taken, with a warning."""
    given = dict(table)
    for old, renamed in kind.renamed.items():
        if old in given:
            if renamed.to in given:
                raise UsageError(f"{where}: {old} is the old name of {renamed.to}; leave out {old}")
            value = given[renamed.to] = renamed.convert(given.pop(old), given)
            text = f"{where}: the option {old} is called {renamed.to} now (here: {value}); the old name will go"
            warnings.warn(text, RenamedOption, stacklevel=2)
    return given


def to_value(value: Any, kind: Any, where: str) -> Any:
    """A single value of a type (a float, a tuple of texts, …)."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise UsageError(_explain(error, None, where)) from error


def _explain(error: msgspec.ValidationError, kind: type[msgspec.Struct] | None, where: str) -> str:
    """msgspec's sentence in the words of the file."""
    sentence, _, place = str(error).partition(" - at `$")
    key = place.rstrip("`").removeprefix(".")
    inner = re.sub(r"\[(\d+)\]", lambda index: f" (entry {int(index[1]) + 1})", key)
    at = f"{where}: {inner}" if inner and not inner.startswith(" ") else f"{where}{inner}"
    if missing := re.fullmatch(r"Object missing required field `(.*)`", sentence):
        return f"{at}: the key {missing[1]!r} is missing; add it"
    if wrong := re.fullmatch(r"Expected `(.*)`, got `(.*)`", sentence):
        expected = " or ".join(_WORDS.get(word.strip(), word) for word in wrong[1].split("|") if word.strip() != "null")
        return f"{at}: expected {expected}, got {_WORDS.get(wrong[2], wrong[2])}"
    if sentence.startswith("Invalid enum value"):
        return f"{at}: {sentence.removeprefix('Invalid enum value ')} is not among {', '.join(_choices(kind, key))}"
    return f"{at}: {sentence[0].lower()}{sentence[1:]}"


def _choices(kind: type[msgspec.Struct] | None, key: str) -> Iterator[str]:
    for field in msgspec.structs.fields(kind) if kind else ():
        if field.encode_name == key and get_origin(field.type) is Literal:
            yield from map(repr, get_args(field.type))


def _word_for(value: Any) -> str:
    names = {bool: "bool", int: "int", float: "float", str: "str", list: "array", dict: "object"}
    return _WORDS.get(names.get(type(value), ""), type(value).__name__)


# ---------------------------------------------------------------------- out
def toml_text(document: Mapping[str, Any]) -> str:
    """A document of plain values, tables of them, and lists of tables; whatever lies deeper is written inline."""
    lines = [f"{_key(key)} = {_value(value)}" for key, value in document.items() if not _is_table(value)]
    for key, value in document.items():
        if isinstance(value, Mapping):
            lines += ["", f"[{_key(key)}]", *_assignments(value)]
        elif _is_table(value):
            for table in value:
                lines += ["", f"[[{_key(key)}]]", *_assignments(table)]
    return "\n".join(lines).lstrip("\n") + "\n"


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, list | tuple) and bool(value) and all(isinstance(inner, Mapping) for inner in value)
    )


def _assignments(table: Mapping[str, Any]) -> Iterator[str]:
    return (f"{_key(key)} = {_value(value)}" for key, value in table.items())


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(_assignments(value)) + " }" if value else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    raise TypeError(f"TOML has no value for {value!r}")


def _text(text: str) -> str:
    # JSON escapes as TOML does, but leaves the one control character beyond ASCII's first 32 alone.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
