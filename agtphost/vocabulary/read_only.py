"""Objects and arrays of JSON that cannot be changed: values that the host shares with code of operators."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NoReturn


def _refuse(self: Any, *_: object, **__: object) -> NoReturn:
    raise TypeError(f"{type(self).__name__} cannot be changed, because the host reads it too; change a copy of it")


class ReadOnlyObject(dict[str, Any]):
    """
    An object of JSON that is read and encoded as a dictionary is, and that cannot be changed.

    Its copies can be changed: ``dict(value)`` for its own members, ``copy.deepcopy(value)`` for nested ones too.
    """

    __slots__ = ()
    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return dict, (dict(self),)


class ReadOnlyArray(list[Any]):
    """An array of JSON that is read and encoded as a list is, and that cannot be changed; its copies can."""

    __slots__ = ()
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)


_READ_ONLY = frozenset({ReadOnlyObject, ReadOnlyArray})


def read_only(value: Any) -> Any:
    """
    Return a value of JSON that is equal and cannot be changed, nested values included.

    :param value: of mappings, lists and scalars; it is left as it is.
    """
    if type(value) in _READ_ONLY:
        return value
    if isinstance(value, Mapping):
        return ReadOnlyObject((name, read_only(each)) for name, each in value.items())
    return ReadOnlyArray(map(read_only, value)) if isinstance(value, list) else value
