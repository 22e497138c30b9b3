"""Plug-ins: a registered name, an entry point, or `module:Class` on the desk; one road for all."""

from __future__ import annotations

import sys
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

import pytest

from tiermem import registry
from tiermem.errors import InputError, UnknownName

GROUP = "tiermem.evict"


@pytest.mark.parametrize(
    ("text", "target", "parameters"),
    [
        ("lru", "lru", ()),
        (" lru ", "lru", ()),
        ("s3fifo:small=0.2", "s3fifo", (("small", 0.2),)),
        ("mine:Policy", "mine:Policy", ()),
        ("mine:Policy:a=1:b=true", "mine:Policy", (("a", 1), ("b", True))),
        ("x:a=:b=y=z", "x", (("a", ""), ("b", "y=z"))),
    ],
)
def test_specs_are_read(text: str, target: str, parameters: tuple[tuple[str, object], ...]) -> None:
    """NAME or module:Class, then :key=value for each parameter, typed as it reads."""
    spec = registry.parse_spec(text)
    assert (spec.target, spec.parameters) == (target, parameters)


@pytest.mark.parametrize(
    "text", ["", ":", "a:b:c", "a=1", "a::b", "a:x=1:b", "a:1x=2", "a:=2", "a:x=1:x=2"]
)
def test_what_is_no_spec_is_refused(text: str) -> None:
    """A spec that could be read in two ways, or in none, is an error that shows it."""
    with pytest.raises(InputError) as caught:
        registry.parse_spec(text)
    assert repr(text) in str(caught.value)


def test_labels_can_be_read_again() -> None:
    """Two specs with one label are the same plug-in."""
    for text in ("lru", "mine:Policy:a=1:b=true", "s3fifo:small=0.2"):
        spec = registry.parse_spec(text)
        assert registry.parse_spec(spec.label) == registry.parse_spec(text)


def test_built_ins_take_the_same_road() -> None:
    """Each built-in policy is an entry point of this package, found like a stranger's."""
    built_in = {point.name for point in entry_points(group=GROUP)}
    assert {"lru", "fifo", "lfu", "s3fifo"} <= built_in <= set(registry.names(GROUP))
    for name in sorted(built_in):
        assert isinstance(registry.find(GROUP, name, kind="policy"), type)


def test_a_registered_name_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """`register` gives a plug-in a name for this process."""
    monkeypatch.setattr(registry, "_registered", {})
    registry.register("tiermem.test", "mine", dict)
    assert registry.find("tiermem.test", "mine", kind="plug-in") is dict
    assert registry.names("tiermem.test") == ["mine"]


def test_an_unknown_name_gets_the_nearest() -> None:
    """A misspelt policy is answered with the one that was meant."""
    with pytest.raises(UnknownName, match="unknown policy 'lrru'; did you mean 'lru'"):
        registry.find(GROUP, "lrru", kind="policy")


def test_a_file_on_the_desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`module:Class` loads a file of the current folder, without touching sys.path."""
    (tmp_path / "desk_policy.py").write_text("class Mine:\n    pass\n")
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    try:
        found = registry.find(GROUP, "desk_policy:Mine", kind="policy")
        assert found.__name__ == "Mine"
        with pytest.raises(UnknownName, match="did you mean 'Mine'"):
            registry.find(GROUP, "desk_policy:Mime", kind="policy")
    finally:
        sys.modules.pop("desk_policy", None)
    assert sys.path == before


def test_an_installed_module(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`module:Class` also names an installed module."""
    monkeypatch.chdir(tmp_path)
    assert registry.find(GROUP, "collections:OrderedDict", kind="policy").__name__ == "OrderedDict"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "no module 'not_here' here or installed"),
        ("raise ValueError('boom')", "'not_here' cannot be imported: ValueError: boom"),
        ("class Broken(:", "'not_here' cannot be imported: SyntaxError"),
        ("raise SystemExit", "'not_here' cannot be imported: SystemExit$"),
        ("raise GeneratorExit(1)", "'not_here' cannot be imported: GeneratorExit: 1"),
        (
            "import absent_dependency",
            r"not_here\.py was found, but cannot be imported: .*'absent_dependency'",
        ),
    ],
)
def test_a_module_that_does_not_load(
    content: str | None, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plug-in that is absent or broken is one line that says which and why."""
    if content is not None:
        (tmp_path / "not_here.py").write_text(content)
    monkeypatch.chdir(tmp_path)
    try:
        with pytest.raises(InputError, match=message):
            registry.find(GROUP, "not_here:Mine", kind="policy")
    finally:
        sys.modules.pop("not_here", None)


def test_an_entry_point_that_does_not_load(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broken package is named with what it points at."""
    point = EntryPoint("gone", "absent_package:Policy", "tiermem.test")
    monkeypatch.setattr(registry, "_installed", lambda group: (point,))
    with pytest.raises(
        InputError, match=r"'gone' \(absent_package:Policy\) cannot be loaded: .*absent_package"
    ):
        registry.find("tiermem.test", "gone", kind="policy")
