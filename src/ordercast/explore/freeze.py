"""The state of a core as one immutable value: it can be hashed, compared, kept, and put back into the same core.

A core is a graph of objects: roles, parts, tables, and functions that were handed from one to the other and hold on to
all of these. A copy would have to copy the functions as well. So nothing is copied: whatever there is when a core has
just been made (its *anchors*) stays, and only what is in it is taken out and put back. Whatever comes into being later
is made anew.

The contents of an anchor have numbers, and a state is a row of these: two states differ in few of them, and what is in
place already is not put there again.
"""

from __future__ import annotations

import itertools
from collections import defaultdict, deque
from enum import Enum
from functools import cached_property, partial
from operator import is_
from random import Random
from types import (
    BuiltinMethodType,
    CellType,
    FunctionType,
    GetSetDescriptorType,
    MappingProxyType,
    MemberDescriptorType,
    MethodType,
)
from typing import Any

import msgspec

from ordercast.core import Context, Options
from ordercast.core.errors import InvariantViolation


class Unfreezable(InvariantViolation):
    """A core holds something whose state cannot be taken out and put back."""


class ConstantRandom(Random):
    """Chance without a state: always the middle. An explorer decides itself when timers fire, and in which order."""

    def random(self) -> float:
        return 0.5

    def getrandbits(self, k: int, /) -> int:
        # Less than any number of so many bits: who asks until it is less than a bound, asks once.
        return ((1 << k) - 1) >> 1

    def seed(self, *_arguments: Any, **_keywords: Any) -> None:
        """There is nothing to seed."""

    def shuffle(self, x: Any) -> None:
        """In the order in which it is."""


class Frozen(tuple[Any, ...]):
    """Something mutable: first its kind, then what is in it."""

    __slots__ = ()


class Anchor(tuple[int]):
    """A reference to something that was there from the beginning, by its number."""

    __slots__ = ()


class Alias(tuple[int]):
    """A second reference to something that was frozen before, by its place among those."""

    __slots__ = ()


_ATOMS = {
    *(int, str, float, bool, bytes, memoryview, type(None), type, range),
    *(Anchor, Alias, Frozen, ConstantRandom),
}
_GIVEN = (Context, Options)
"""What a core was given and does not change."""
_CONSTANT = (FunctionType, BuiltinMethodType, MethodType, Enum, partial)
_MISSING = object()
_CHANGEABLE = (
    *(msgspec.inspect.CustomType, msgspec.inspect.AnyType),
    *(msgspec.inspect.DictType, msgspec.inspect.ListType, msgspec.inspect.SetType),
)
"""Declared types of what can change, or be anything."""


def _is_frozen_struct(kind: type) -> bool:
    return issubclass(kind, msgspec.Struct) and bool(kind.__struct_config__.frozen)


def _is_plain_struct(kind: type) -> bool:
    """Whether its values never change, nor what they hold, and can be hashed: it is frozen, and what it is declared to
    hold is as plain. (A route holds the counters of its links, a roster a table.)"""
    if not _is_frozen_struct(kind):
        return False
    try:
        waiting: list[Any] = [msgspec.inspect.type_info(kind)]
    except (NameError, TypeError):  # declared with what there is for type checkers only
        return False
    seen = set()
    while waiting:
        each = waiting.pop()
        if isinstance(each, _CHANGEABLE):
            return False
        if isinstance(each, msgspec.inspect.StructType) and not each.cls.__struct_config__.frozen:
            return False
        if isinstance(each, tuple):
            waiting.extend(each)
        elif isinstance(each, msgspec.Struct) and id(each) not in seen:
            seen.add(id(each))
            waiting.extend(getattr(each, name) for name in each.__struct_fields__)
    return True


class _Layout:
    """Where the objects of one class keep their attributes."""

    def __init__(self, kind: type) -> None:
        names: dict[str, None] = {}
        if issubclass(kind, msgspec.Struct):
            names.update(dict.fromkeys(kind.__struct_fields__))
        else:
            for ancestor in kind.__mro__:
                for name, value in vars(ancestor).items():
                    if isinstance(value, MemberDescriptorType):
                        names[name] = None
        self.slots = tuple(names)
        self.cached = {
            name
            for ancestor in kind.__mro__
            for name, value in vars(ancestor).items()
            if isinstance(value, cached_property)
        }
        """What is worked out when it is asked for: no part of the state."""
        self.has_dict = any(isinstance(vars(each).get("__dict__"), GetSetDescriptorType) for each in kind.__mro__)


_LAYOUTS: dict[type, _Layout] = {}


def _layout(kind: type) -> _Layout:
    layout = _LAYOUTS.get(kind)
    if layout is None:
        layout = _LAYOUTS[kind] = _Layout(kind)
    return layout


class _Place:
    """An anchor, and every content that it has had."""

    __slots__ = ("_names", "anchor", "contents", "is_table", "number", "numbers", "values")

    def __init__(self, anchor: Any) -> None:
        self.anchor = anchor
        self.is_table = type(anchor) in (dict, list, set)
        self.contents: list[Frozen] = []
        self._names: list[tuple[str, ...]] = []
        """Of each content of a plain object its attributes; none where that has parts of its own."""
        self.numbers: dict[Frozen, int] = {}
        self.number = -1
        """Of what is in it now; -1: nobody knows."""
        self.values: tuple[Any, ...] = ()
        """The attributes of a plain object, which is the same as long as they are the same objects."""

    def add(self, content: Frozen) -> int:
        """The number of a content that it has not had before."""
        number = self.numbers[content] = len(self.contents)
        self.contents.append(content)
        plain = len(content) == 4 and content[2] and not content[1] and not issubclass(content[0], dict)
        whole = plain and not any(type(each) is Frozen or type(each) is Alias for each in content[3])
        self._names.append(content[2] if whole else ())
        return number

    def note(self, number: int) -> None:
        """This is in it now."""
        self.number = number
        names = self._names[number]
        if names:
            attributes = vars(self.anchor)
            self.values = tuple([attributes[name] for name in names])

    def is_as_it_was(self) -> bool:
        """Whether nothing has changed, as far as one can tell at once."""
        number = self.number
        if number < 0:
            return False
        if self.is_table:
            # Most tables are empty, before a step and after it.
            return not self.anchor and not any(self.contents[number][1:])
        names = self._names[number]
        return bool(names) and all(map(is_, self.values, map(vars(self.anchor).get, names)))


def _may_change(anchor: Any) -> bool:
    """Functions do not, nor do tables of functions, which are made once."""
    if isinstance(anchor, (*_CONSTANT, *_GIVEN, MappingProxyType)):
        return False
    if isinstance(anchor, dict):
        return not anchor or not all(callable(each) for each in anchor.values())
    if isinstance(anchor, list):
        return not anchor or not all(callable(each) for each in anchor)
    return True


class Freezer:
    """Takes the state out of one core, and puts it back."""

    def __init__(self, core: object, leave_out: frozenset[str] = frozenset()) -> None:
        """`leave_out` names attributes of the core itself that are no part of its state."""
        self._core = core
        self._leave_out = leave_out
        self._anchors: list[Any] = []
        self._numbers: dict[int, Anchor] = {}
        self._memo: dict[int, Alias] = {}
        self._keep: list[Any] = []
        self._made: list[Any] = []
        self._aliased = False
        """Whether anything was ever held by two: then what is made anew must be made anew for both."""
        self._atoms = set(_ATOMS)
        self._find_anchors(core)
        self._places = [_Place(each) for each in self._anchors if _may_change(each)]

    # ------------------------------------------------------------------ anchors
    def _find_anchors(self, root: object) -> None:
        """Everything that can be reached now and can change, functions included for what they hold on to."""
        waiting = [root]
        left_out = {id(getattr(root, name)) for name in self._leave_out}
        while waiting:
            value = waiting.pop()
            if isinstance(value, _GIVEN):
                self._anchor(value)
                continue
            # A counter cannot be set back: it is always made anew.
            if self._is_atom(value) or id(value) in self._numbers or isinstance(value, itertools.count):
                continue
            if id(value) in left_out:
                continue
            if isinstance(value, tuple | frozenset):
                waiting.extend(value)
                continue
            if _is_frozen_struct(type(value)):
                # Nothing can be put into it: like a tuple, it is made anew where something that it holds was made anew.
                waiting.extend(_inside(value))
                continue
            self._anchor(value)
            waiting.extend(_inside(value))

    def _anchor(self, value: Any) -> None:
        self._numbers[id(value)] = Anchor((len(self._anchors),))
        self._anchors.append(value)

    def _is_atom(self, value: object) -> bool:
        kind = type(value)
        if kind in self._atoms:
            return True
        if isinstance(value, type) or _is_plain_struct(kind):
            self._atoms.add(kind)
            return True
        return False

    # ------------------------------------------------------------------ out
    def freeze(self) -> tuple[int, ...]:
        """The state now."""
        self._memo = {}
        self._keep = []
        return tuple([self._number(place) for place in self._places])

    def contents(self, state: tuple[int, ...]) -> tuple[Frozen, ...]:
        """What is in a state."""
        return tuple([place.contents[number] for place, number in zip(self._places, state, strict=True)])

    def _number(self, place: _Place) -> int:
        if place.is_as_it_was():
            return place.number
        content = self._freeze_content(place.anchor)
        number = place.numbers.get(content)
        if number is None:
            number = place.add(content)
        place.note(number)
        return number

    def _freeze(self, value: Any) -> Any:
        kind = type(value)
        if kind in self._atoms:
            return value
        number = self._numbers.get(id(value))
        if number is not None:
            return number
        if kind is tuple:
            atoms = self._atoms
            for each in value:
                if type(each) not in atoms:
                    break
            else:
                return value
            frozen = tuple([self._freeze(each) for each in value])
            return value if all(a is b for a, b in zip(frozen, value, strict=True)) else Frozen((tuple, frozen))
        if self._is_atom(value) or isinstance(value, _CONSTANT) or kind is frozenset:
            return self._freeze_constant(value)
        seen = self._memo.get(id(value))
        if seen is not None:
            self._aliased = True
            return seen
        self._memo[id(value)] = Alias((len(self._memo),))
        # Else the next temporary object may have the same identity.
        self._keep.append(value)
        return self._freeze_content(value)

    def _freeze_constant(self, value: Any) -> Any:
        if isinstance(value, partial):
            arguments = tuple(self._freeze(each) for each in value.args)
            return Frozen((partial, self._freeze(value.func), arguments))
        if isinstance(value, MethodType | BuiltinMethodType):
            return Frozen((MethodType, self._freeze(value.__self__), value.__name__))
        if isinstance(value, FunctionType) and value.__closure__:
            for cell in value.__closure__:
                inside = _cell_content(cell)
                if not (self._is_atom(inside) or id(inside) in self._numbers):
                    raise Unfreezable(
                        f"{value.__qualname__} was made under way and holds on to {type(inside).__name__}"
                    )
        return value

    def _freeze_content(self, value: Any) -> Frozen:
        kind = type(value)
        freeze = self._freeze
        if issubclass(kind, dict):
            factory = value.default_factory if kind is defaultdict else None
            keys = tuple([freeze(each) for each in value])
            values = tuple([freeze(each) for each in value.values()])
            attributes = getattr(value, "__dict__", None)
            if not attributes:
                return Frozen((kind, freeze(factory), keys, values))
            # A table of a class of its own, which knows more than its entries.
            more = (tuple(attributes), tuple([freeze(each) for each in attributes.values()]))
            return Frozen((kind, freeze(factory), keys, values, *more))
        if kind is MappingProxyType:
            return Frozen((kind, tuple(value), tuple([freeze(each) for each in value.values()])))
        if kind is set:
            elements = tuple([freeze(each) for each in value])
            # What is made anew is made in the order in which it was met, or its second references would be to others.
            # References to what is made already have no order. (Else: objects that are put back lie at other
            # addresses, the set goes through them in another order, and the same state looks like another one.)
            is_plain = not any(type(each) is Frozen for each in elements)
            return Frozen((set, frozenset(elements) if is_plain else elements))
        if kind is list or kind is deque:
            return Frozen((kind, tuple([freeze(each) for each in value]), value.maxlen if kind is deque else None))
        if kind is itertools.count:
            return Frozen((kind, value.__reduce__()[1]))
        if kind is bytearray:
            return Frozen((kind, bytes(value)))
        layout = _layout(kind)
        if kind.__module__ in ("builtins", "itertools", "collections", "_io"):
            raise Unfreezable(f"a {kind.__name__} is no state that can be put back")
        slots = tuple([freeze(getattr(value, name, _MISSING)) for name in layout.slots])
        if not layout.has_dict:
            return Frozen((kind, slots))
        attributes = vars(value)
        if value is self._core and self._leave_out:
            attributes = {name: each for name, each in attributes.items() if name not in self._leave_out}
        if layout.cached:
            attributes = {name: each for name, each in attributes.items() if name not in layout.cached}
        return Frozen((kind, slots, tuple(attributes), tuple([freeze(each) for each in attributes.values()])))

    # ------------------------------------------------------------------ back
    def restore(self, state: tuple[int, ...]) -> None:
        """Put a state back that was taken from this core."""
        self._made = []
        for place, number in zip(self._places, state, strict=True):
            if number != place.number or self._aliased:
                self._fill(place.anchor, place.contents[number])
                place.note(number)

    def forget(self) -> None:
        """The core has gone on, and nobody has taken its state: everything is to be put back."""
        for place in self._places:
            place.number = -1

    def _thaw(self, value: Any) -> Any:
        kind = type(value)
        if kind is Anchor:
            return self._anchors[value[0]]
        if kind is Alias:
            return self._made[value[0]]
        if kind is not Frozen:
            return value
        made_of = value[0]
        if made_of is tuple:
            return tuple([self._thaw(each) for each in value[1]])
        if made_of is partial:
            return partial(self._thaw(value[1]), *(self._thaw(each) for each in value[2]))
        if made_of is MethodType:
            return getattr(self._thaw(value[1]), value[2])
        if made_of is MappingProxyType:
            place = len(self._made)
            self._made.append(None)
            table = dict(zip(value[1], map(self._thaw, value[2]), strict=True))
            proxy = self._made[place] = MappingProxyType(table)
            return proxy
        if issubclass(made_of, msgspec.Struct):
            names = _layout(made_of).slots
            made: Any = made_of(**dict.fromkeys(names))
            # It is there before what it holds, which may hold it.
            self._made.append(made)
            for name, each in zip(names, value[1], strict=True):
                msgspec.structs.force_setattr(made, name, self._thaw(each))
            return made
        if made_of is itertools.count:
            made = itertools.count(*value[1])
        elif made_of is deque:
            made = deque(maxlen=value[2])
        else:
            made = made_of.__new__(made_of)
        self._made.append(made)
        if made_of is not itertools.count:
            self._fill(made, value)
        return made

    def _fill(self, made: Any, value: Frozen) -> None:
        kind = value[0]
        thaw = self._thaw
        if issubclass(kind, dict):
            made.clear()
            if kind is defaultdict:
                made.default_factory = thaw(value[1])
            keys = [thaw(key) for key in value[2]]
            for key, each in zip(keys, value[3], strict=True):
                made[key] = thaw(each)
            if len(value) > 4:
                vars(made).clear()
                vars(made).update(zip(value[4], [thaw(each) for each in value[5]], strict=True))
        elif kind is set:
            made.clear()
            made.update([thaw(each) for each in value[1]])
        elif kind is list:
            made[:] = [thaw(each) for each in value[1]]
        elif kind is deque:
            made.clear()
            made.extend([thaw(each) for each in value[1]])
        elif kind is bytearray:
            made[:] = value[1]
        else:
            self._fill_object(made, value)

    def _fill_object(self, made: Any, value: Frozen) -> None:
        layout = _layout(value[0])
        for name, each in zip(layout.slots, value[1], strict=True):
            thawed = self._thaw(each)
            if thawed is not _MISSING:
                setattr(made, name, thawed)
            elif hasattr(made, name):
                delattr(made, name)
        if layout.has_dict:
            attributes = made.__dict__
            names = value[2]
            if len(attributes) != len(names):
                for name in [name for name in attributes if name not in names and name not in self._leave_out]:
                    del attributes[name]
            for name, each in zip(names, value[3], strict=True):
                attributes[name] = self._thaw(each)


def _cell_content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # nothing was put into it yet
        return None


def _inside(value: Any) -> list[Any]:
    """What an object holds on to."""
    if isinstance(value, FunctionType):
        cells = [_cell_content(cell) for cell in value.__closure__ or ()]
        return [*cells, *(value.__defaults__ or ())]
    if isinstance(value, MethodType | BuiltinMethodType):
        return [] if isinstance(value.__self__, type) else [value.__self__]
    if isinstance(value, partial):
        return [value.func, *value.args, *value.keywords.values()]
    if isinstance(value, MappingProxyType):
        return list(value.values())
    if isinstance(value, dict):
        more = (
            [value.default_factory] if isinstance(value, defaultdict) else list(getattr(value, "__dict__", {}).values())
        )
        return [*value, *value.values(), *more]
    if isinstance(value, list | set | deque):
        return list(value)
    if isinstance(value, bytearray | Enum):
        return []
    kind = type(value)
    if kind.__module__ in ("builtins", "itertools", "_io"):
        return []
    layout = _layout(kind)
    found = [getattr(value, name, None) for name in layout.slots]
    return [*found, *vars(value).values()] if layout.has_dict else found
