"""One road for plug-ins: a registered name, an entry point, or `module:Name` for a file at hand.

Built-ins take the same road: they are entry points of this package. `spec` strings carry
parameters, as in `s3fifo:small=0.2`; a value is read as int, float, bool or text.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from tiermem.errors import InputError, TiermemError, UnknownName

_registered: dict[str, dict[str, Any]] = {}


@dataclass(frozen=True, slots=True)
class Spec:
    """A plug-in as the user wrote it: what to load, and with which parameters."""

    target: str
    parameters: tuple[tuple[str, Any], ...] = ()

    @property
    def label(self) -> str:
        """The spec as text again; two specs with one label are the same plug-in."""
        pairs = (f"{key}={_written(value)}" for key, value in self.parameters)
        return ":".join([self.target, *pairs])


def parse_spec(text: str) -> Spec:
    """`NAME`, `module:Class`, either followed by `:key=value` for each parameter."""
    parts = [part.strip() for part in text.strip().split(":")]
    names = [part for part in parts if "=" not in part]
    pairs = [part for part in parts if "=" in part]
    if not names or len(names) > 2 or not all(names) or parts != names + pairs:
        raise InputError(f"{text!r} is not NAME or module:Class with :key=value parameters")
    parameters: dict[str, Any] = {}
    for pair in pairs:
        key, _, value = pair.partition("=")
        if not key.isidentifier():
            raise InputError(f"{key!r} in {text!r} is not a parameter name")
        if key in parameters:
            raise InputError(f"{key!r} is given twice in {text!r}")
        parameters[key] = parse_literal(value)
    return Spec(":".join(names), tuple(parameters.items()))


def register(group: str, name: str, plugin: Any) -> None:
    """Give `plugin` a name in this process, as an entry point would in every process."""
    _registered.setdefault(group, {})[name] = plugin


def names(group: str) -> list[str]:
    """Every name known in `group`, sorted."""
    return sorted({point.name for point in _installed(group)} | set(_registered.get(group, ())))


def find(group: str, target: str, *, kind: str) -> Any:
    """Load `target` from `group`, or from a module when it reads `module:Name`."""
    if ":" in target:
        name, _, rest = target.partition(":")
        if name in names(group) and not _file_of(name).is_file():
            raise InputError(
                f"{target!r}: {rest!r} has no value; a parameter is written {name}:{rest}=VALUE"
            )
        return _load_from_module(target)
    if target in _registered.get(group, {}):
        return _registered[group][target]
    for point in _installed(group):
        if point.name == target:
            return _load(point, kind)
    raise UnknownName(kind, target, names(group))


def reason(error: BaseException) -> str:
    """What a plug-in raised, for a message: a plain `SystemExit` says nothing by itself."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__


def build(group: str, spec: Spec, *arguments: Any, kind: str) -> Any:
    """Find what `spec` names and make one: `plugin(*arguments, **parameters)`."""
    return make(find(group, spec.target, kind=kind), spec, *arguments, kind=kind)


def make(plugin: Any, spec: Spec, *arguments: Any, kind: str) -> Any:
    """`plugin(*arguments, **parameters)`, with the parameters of `spec`.

    A parameter that the plug-in does not take raises `UnknownName` with the nearest one it does;
    whatever else goes wrong in the making is an `InputError` that names the spec.
    """
    if not callable(plugin):
        raise InputError(f"{kind} {spec.target!r} is of type {type(plugin).__name__}, not a class")
    try:
        known, open_ended = _keywords(plugin, len(arguments))
        for name, _ in spec.parameters:
            if name not in known and not open_ended:
                raise UnknownName(f"parameter of {kind} {spec.target!r}:", name, known)
        return plugin(*arguments, **dict(spec.parameters))
    except (TiermemError, KeyboardInterrupt):
        raise
    except BaseException as error:  # also a plug-in that calls sys.exit()
        raise InputError(f"{kind} {spec.label!r} cannot be made: {reason(error)}") from error


def _keywords(plugin: Any, taken: int) -> tuple[list[str], bool]:
    """The parameters of `plugin` after the first `taken`, and whether it takes any other name."""
    parameters = list(inspect.signature(plugin).parameters.values())
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    places = [each for each in parameters if each.kind is not inspect.Parameter.KEYWORD_ONLY]
    known = [each.name for each in parameters if each.kind in named and each not in places[:taken]]
    return known, any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)


def _installed(group: str) -> tuple[EntryPoint, ...]:
    return _scanned(group, tuple(sys.path))


@cache
def _scanned(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """The entry points of `group`; reading every package's metadata takes milliseconds."""
    return tuple(entry_points(group=group))


def _load(point: EntryPoint, kind: str) -> Any:
    try:
        return point.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        said = f"{kind} {point.name!r} ({point.value}) cannot be loaded: {reason(error)}"
        raise InputError(said) from error


def _file_of(module_name: str) -> Path:
    return Path(module_name.removesuffix(".py").replace(".", "/") + ".py")


def _load_from_module(target: str) -> Any:
    module_name, _, attribute = target.partition(":")
    path = _file_of(module_name)
    here = path.is_file()
    if not here and (module_name.startswith(".") or {"/", "\\"} & set(module_name)):
        raise InputError(
            f"{target!r} names a path; a policy file is named as module:Class, without a folder, "
            "from the folder in which it lies"
        )
    try:
        module = _load_file(path) if here else importlib.import_module(module_name)
        found = hasattr(module, attribute)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        lacks = error.name or "" if isinstance(error, ModuleNotFoundError) else ""
        if lacks and not here and f"{module_name}.".startswith(f"{lacks}."):
            raise InputError(
                f"no module {lacks!r} here or installed (looked for {path})"
            ) from error
        what = f"{path} was found, but" if here and lacks else repr(module_name)
        raise InputError(f"{what} cannot be imported: {reason(error)}") from error
    if not found:
        public = [name for name in vars(module) if not name.startswith("_")]
        raise UnknownName(f"name in {module_name}", attribute, public)
    return getattr(module, attribute)


def _load_file(path: Path) -> Any:
    """Import a file of the current folder, and what it imports from beside it; `sys.path` is
    afterwards as it was."""
    name = path.stem
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(name, module)
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


def parse_literal(text: str) -> int | float | bool | str:
    """`text` as int, float or bool where it reads like one, else as it stands."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _written(value: object) -> str:
    """The inverse of `parse_literal`."""
    return str(value).lower() if isinstance(value, bool) else str(value)
