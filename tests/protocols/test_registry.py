"""Protocols by name: ours, and those that installed packages bring."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import ordercast
from ordercast import protocols
from ordercast.campaign.state import code_version
from ordercast.cli.protocols import find_readme
from ordercast.core import UsageError
from ordercast.protocols import GROUP, PROTOCOL_NAMES, find_protocol, find_protocols
from tests.foreign_package import install
from tests.support import run_ordercast

SOUND = """
from ordercast.core import Arrangement, Contract, Protocol, Tuning, no_options


class Whisper(Protocol):
    contract = Contract("whisper", "", "", (), (), "", ())
    arrangement = Arrangement(order="", crash="", campaign=Tuning(options=no_options, settle=1.0), live=no_options)
"""

Bring = Callable[..., Path]


@pytest.fixture
def bring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bring]:
    """Installs a package that brings one protocol, `whisper` unless it is told another name; its folder."""
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)

    def install_one(package: str, code: str = SOUND, attribute: str = "Whisper", name: str = "whisper") -> Path:
        install(tmp_path, package, {f"{package}/__init__.py": code}, {GROUP: {name: f"{package}:{attribute}"}})
        protocols._foreign.cache_clear()
        return tmp_path / package

    yield install_one
    protocols._foreign.cache_clear()
    for module in set(sys.modules) - before:
        if Path(getattr(sys.modules[module], "__file__", None) or "").is_relative_to(tmp_path):
            del sys.modules[module]


def test_a_protocol_of_an_installed_package_is_found_and_listed_after_ours(bring: Bring) -> None:
    bring("secrets_of_others")
    assert find_protocol("whisper").__module__ == "secrets_of_others"
    found, problems = find_protocols()
    assert (list(found), problems) == ([*PROTOCOL_NAMES, "whisper"], [])


def test_a_name_that_is_nearly_that_of_an_installed_one_is_answered_with_it(bring: Bring) -> None:
    bring("secrets_of_others")
    with pytest.raises(UsageError, match="did you mean 'whisper'"):
        find_protocol("wisper")


def test_one_name_from_two_packages_is_refused_with_both_named(bring: Bring) -> None:
    bring("one_package")
    bring("other_package")
    with pytest.raises(UsageError, match="one_package and other_package both bring a protocol 'whisper'"):
        find_protocol("whisper")


def test_nobody_can_take_the_name_of_one_of_ours(bring: Bring) -> None:
    bring("impostor", SOUND.replace('"whisper"', '"token"'), name="token")
    assert find_protocol("token").__module__.startswith("ordercast.")
    found, problems = find_protocols()
    assert found["token"] is find_protocol("token")
    assert problems == ["impostor: ordercast itself has a protocol 'token'; call this one otherwise"]


def test_ours_are_found_without_a_look_at_what_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def look(**_group: str) -> None:
        raise OSError("a broken installation")

    monkeypatch.setattr("importlib.metadata.entry_points", look)
    protocols._foreign.cache_clear()
    for name in PROTOCOL_NAMES:
        assert find_protocol(name).contract.name == name


WITHOUT_ARRANGEMENT = "".join(line for line in SOUND.splitlines(True) if "arrangement =" not in line)
VARIANT = SOUND + '\n\nclass Shout(Whisper):\n    contract = Contract("shout", "", "", (), (), "", ())\n'

BROKEN = {
    "syntax": ("def", "Whisper", "whisper", r"cannot be imported: SyntaxError"),
    "import": ("import nowhere_to_be_found", "Whisper", "whisper", r"No module named 'nowhere_to_be_found'"),
    "anything": ("raise ValueError('two\\nlines')", "Whisper", "whisper", r"ValueError: two lines$"),
    "attribute": (SOUND, "Wisper", "whisper", r"AttributeError.*Wisper"),
    "no protocol": (SOUND, "Contract", "whisper", r"strange:Contract is no subclass of ordercast.core.Protocol"),
    "a function": (SOUND, "no_options", "whisper", r"strange:no_options is no subclass"),
    "no contract": (SOUND, "Protocol", "whisper", r"strange:Protocol has no contract: write contract ="),
    "another name": (SOUND, "Whisper", "murmur", r"registered as 'murmur': .* not 'whisper'"),
    "no arrangement": (WITHOUT_ARRANGEMENT, "Whisper", "whisper", r"write arrangement = Arrangement\(order=\.\.\., "),
    "that of its base": (VARIANT, "Shout", "shout", r"no arrangement of its own"),
}


@pytest.mark.parametrize(("code", "attribute", "name", "words"), BROKEN.values(), ids=BROKEN)
def test_a_broken_package_is_named_in_one_line_and_breaks_nothing_else(
    bring: Bring, code: str, attribute: str, name: str, words: str
) -> None:
    bring("strange", code, attribute, name)
    bring("sound", SOUND.replace('"whisper"', '"quiet"'), name="quiet")
    with pytest.raises(UsageError, match=words) as caught:
        find_protocol(name)
    assert str(caught.value).startswith("strange:")
    assert "\n" not in str(caught.value)
    found, problems = find_protocols()
    assert list(found) == [*PROTOCOL_NAMES, "quiet"]
    assert problems == [str(caught.value)]


def test_the_command_lists_what_works_and_warns_of_what_does_not(
    bring: Bring, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bring("strange", "import nowhere_to_be_found")
    bring("sound", SOUND.replace('"whisper"', '"quiet"'), name="quiet")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{Path(ordercast.__file__).parents[1]}")
    listed = run_ordercast("protocols")
    assert listed.returncode == 0
    assert "quiet" in listed.stdout
    assert listed.stderr.startswith("warning: strange: the protocol 'whisper' cannot be imported:")
    refused = run_ordercast("simulate", "--campaign", "1", "--protocol", "whisper")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)


def test_outcomes_are_kept_for_this_code_of_the_package_that_brings_the_protocol(bring: Bring) -> None:
    folder = bring("secrets_of_others")
    before = code_version(["whisper"])
    assert before == code_version(["whisper", "token"]) != code_version(["token"]) == code_version()
    (folder / "more.py").write_text("x = 1\n")
    assert code_version(["whisper"]) != before


def test_the_readme_of_a_protocol_is_looked_for_within_its_package_only(bring: Bring, tmp_path: Path) -> None:
    folder = bring("secrets_of_others")
    (tmp_path / "README.md").write_text("Somebody else's.")
    assert find_readme(find_protocol("whisper")) is None
    (folder / "README.md").write_text("Its own.")
    assert find_readme(find_protocol("whisper")) == folder / "README.md"
    assert find_readme(find_protocol("token")) == PACKAGE / "protocols" / "classic" / "token" / "README.md"


# ---------------------------------------------------------------------- who knows what
PACKAGE = Path(ordercast.__file__).parent


def _imports(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""


def test_other_rooms_know_the_registry_and_no_module_of_a_protocol() -> None:
    """Parts belong to no protocol; the search of small worlds looks at them alone."""
    complaints = []
    for file in sorted(PACKAGE.rglob("*.py")):
        name = file.relative_to(PACKAGE).as_posix()
        if not name.startswith("protocols/"):
            modules = [each for each in _imports(file) if each.startswith("ordercast.protocols.")]
            if name.startswith("explore/"):
                modules = [each for each in modules if not each.startswith("ordercast.protocols.parts.")]
            complaints += [f"{name}: {each}" for each in modules]
    assert complaints == []
