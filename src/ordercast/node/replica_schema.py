"""What a replicated class looks like from outside: its public methods, which calls fit them, and a short name for it.

Two replicas with the same name of a schema take the same calls. What the methods do is not in it: an application whose
methods change within gives its versions names.
"""

from __future__ import annotations

import hashlib
import inspect
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, get_type_hints

import msgspec

from ordercast.core import UsageError
from ordercast.node.replica_context import Context
from ordercast.node.replica_messages import Call, encode_value

DIGEST_LENGTH = 12
VERSION_LENGTH_MAX = 64
"""It travels with every call."""


class NoSuchMethod(Exception):
    """A call names a method that the class has not."""


BARRIER = "a read"
"""The name of a call that changes nothing. No method can have it."""


class Misfit(Exception):
    """A call's arguments do not fit the method's parameters."""


class Arguments(NamedTuple):
    """What a method is called with, the state aside."""

    positional: tuple[Any, ...]
    named: dict[str, Any]


class Method:
    """One method, with the types of its parameters: what comes from the network becomes exactly that."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        if inspect.iscoroutinefunction(function):
            raise UsageError(f"{function.__name__} is a coroutine: replicas apply calls at once, without waiting")
        hints = get_type_hints(function)
        own, *parameters = inspect.signature(function).parameters.values()
        self.takes_context = bool(parameters) and hints.get(parameters[0].name) is Context
        """Whether it wants to know the circumstances of its call; then its first parameter is for them."""
        self._parameters = parameters[1:] if self.takes_context else parameters
        for each in self._parameters:
            if hints.get(each.name) is Context:
                raise UsageError(f"{function.__name__}: the Context comes first, before {parameters[0].name}")
        self._signature = inspect.Signature([own, *self._parameters])
        self._types: dict[str, Any] = {each.name: hints.get(each.name, Any) for each in self._parameters}
        self._decoders = {name: _make_decoder(wanted) for name, wanted in self._types.items()}
        plain = itertools.takewhile(lambda each: each.kind in _PLAIN_KINDS, self._parameters)
        self._plain_decoders = [self._decoders[each.name] for each in plain]
        """Of the parameters that are given by their places."""
        needed = [index for index, each in enumerate(self._parameters, 1) if _is_needed(each)]
        self._needed_count = max(needed, default=0)

    def pack(
        self, arguments: Iterable[Any], named: Mapping[str, Any]
    ) -> tuple[list[msgspec.Raw], dict[str, msgspec.Raw]]:
        """Arguments as they travel; `TypeError` for those that do not fit, which is the caller's mistake."""
        positional = [msgspec.Raw(encode_value(argument)) for argument in arguments]
        by_name = {key: msgspec.Raw(encode_value(value)) for key, value in named.items()}
        try:
            self.unpack(positional, by_name)
        except Misfit as error:
            raise TypeError(f"{self.function.__name__}: {error}") from None
        return positional, by_name

    def unpack(self, arguments: Sequence[msgspec.Raw], named: Mapping[str, msgspec.Raw]) -> Arguments:
        """Arguments as the method wants them; `Misfit` when that cannot be."""
        if not named and self._needed_count <= len(arguments) <= len(self._plain_decoders):
            # Most calls are like this, and whoever comes back takes all of its history at once. (Binding each of them
            # to the signature takes three times as long.) What does not fit is told below, with its name.
            with suppress(msgspec.DecodeError, TypeError, ValueError, RecursionError):
                values = (decode(raw) for decode, raw in zip(self._plain_decoders, arguments, strict=False))
                return Arguments(tuple(values), {})
        return self._bind(arguments, named)

    def _bind(self, arguments: Sequence[msgspec.Raw], named: Mapping[str, msgspec.Raw]) -> Arguments:
        try:
            bound = self._signature.bind(None, *arguments, **named)
        except TypeError as error:
            raise Misfit(str(error)) from None
        values = bound.arguments
        for parameter in self._parameters:
            name, decode = parameter.name, self._decoders[parameter.name]
            if name not in values:
                continue
            try:
                if parameter.kind is parameter.VAR_POSITIONAL:
                    values[name] = tuple(map(decode, values[name]))
                elif parameter.kind is parameter.VAR_KEYWORD:
                    values[name] = {key: decode(raw) for key, raw in values[name].items()}
                else:
                    values[name] = decode(values[name])
            except (msgspec.DecodeError, TypeError, ValueError, RecursionError) as error:
                raise Misfit(f"argument {name!r}: {error}") from None
        return Arguments(bound.args[1:], bound.kwargs)

    def description(self) -> list[Any]:
        """Everything that decides which calls fit it, the same in every process."""
        return [
            [each.name, each.kind.name, describe_type(self._types[each.name]), _describe_default(each.default)]
            for each in self._parameters
        ]


class Schema:
    """The public methods of a class."""

    def __init__(self, state_class: type, version: str) -> None:
        """`version` is the application's own name of what it runs, or empty."""
        if len(version) > VERSION_LENGTH_MAX:
            raise UsageError(
                f"a version of {len(version)} characters: at most {VERSION_LENGTH_MAX}, it is in every call"
            )
        _check_state(state_class)
        self.methods = {
            name: Method(function)
            for name, function in inspect.getmembers(state_class, inspect.isfunction)
            if not name.startswith("_")
        }
        described = {name: method.description() for name, method in self.methods.items()}
        content = msgspec.json.encode(
            [state_class.__name__, describe_type(state_class), described], order="deterministic"
        )
        digest = hashlib.sha256(content).hexdigest()[:DIGEST_LENGTH]
        self.name = f"{version}-{digest}" if version else digest

        # Behind the digest: every class has it.
        self.methods[BARRIER] = Method(_change_nothing)

    def unpack(self, call: Call) -> Arguments:
        """What a call wants its method called with; `NoSuchMethod` or `Misfit` when it is a call of another schema."""
        method = self.methods.get(call.method)
        if method is None:
            raise NoSuchMethod(f"there is no method {call.method!r}")
        return method.unpack(call.arguments, call.named)


def _check_state(state_class: type) -> None:
    """What no bytes can be made of could be given to nobody, and stop the node with the first snapshot."""
    with suppress(TypeError, NameError, RecursionError):
        if isinstance(msgspec.inspect.type_info(state_class), msgspec.inspect.CustomType):
            raise UsageError(
                f"a state is a dataclass or a msgspec struct, of which a snapshot can be made, and "
                f"{state_class.__name__} is neither: write @dataclass above it, and name its fields with their types"
            )


_PLAIN_KINDS = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _is_needed(parameter: inspect.Parameter) -> bool:
    is_collecting = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and not is_collecting


def _change_nothing(_state: object) -> None:
    """The call of a read: it has its place in the order."""


def _make_decoder(wanted: Any) -> Callable[[msgspec.Raw], Any]:
    try:
        return msgspec.msgpack.Decoder(wanted).decode
    except TypeError:
        # No argument can become that. It is a mistake to call the method, and none to have it.
        return partial(msgspec.msgpack.decode, type=wanted)


def describe_type(wanted: Any) -> Any:
    """A type, down to the fields of its fields."""
    try:
        return _without_descriptions(msgspec.json.schema(wanted))
    except (TypeError, NameError, RecursionError):
        return getattr(wanted, "__qualname__", None) or str(wanted)


def _without_descriptions(schema: Any) -> Any:
    """A docstring may change: it does not decide what fits."""
    if isinstance(schema, dict):
        return {
            key: _without_descriptions(value)
            for key, value in schema.items()
            if key != "description" or not isinstance(value, str)
        }
    return [_without_descriptions(each) for each in schema] if isinstance(schema, list) else schema


def _describe_default(default: Any) -> Any:
    if default is inspect.Parameter.empty:
        return []
    try:
        return [msgspec.json.encode(default, order="deterministic").decode()]
    except (TypeError, ValueError, RecursionError):
        return [type(default).__qualname__]
