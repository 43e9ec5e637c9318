"""Read what `pip freeze` prints, and print constraints.txt: the same pins with the hashes of all files that a platform
of ours can install. Run by `make lock`.

pip's own lock knows the files of one platform only, so the index is asked for all of them, the way pip is configured.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from pip._internal.commands import create_command
from pip._internal.index.collector import LinkCollector, parse_links
from pip._internal.models.link import Link
from pip._vendor.packaging.tags import Tag
from pip._vendor.packaging.utils import (
    InvalidSdistFilename,
    InvalidWheelFilename,
    canonicalize_name,
    parse_sdist_filename,
    parse_wheel_filename,
)
from pip._vendor.packaging.version import Version

HEADER = """\
# Every package of the development environment, pinned with the hashes of its files; pip and the build backends too.
# Written by `make lock`, which should be run with the oldest supported Python. Do not edit.
"""
INTERPRETERS = ("py2", "py3", "cp3")
PLATFORMS = ("any", "manylinux", "musllinux", "linux", "macosx")
OLDEST = 11


def _is_ours(tag: Tag) -> bool:
    minor = tag.interpreter.removeprefix("cp3")
    is_too_old = tag.interpreter.startswith("cp3") and tag.abi != "abi3" and minor.isdigit() and int(minor) < OLDEST
    return tag.interpreter.startswith(INTERPRETERS) and tag.platform.startswith(PLATFORMS) and not is_too_old


def _is_file_of(name: str, version: Version, link: Link) -> bool:
    """Whether a file of the index is that version, for one of our platforms."""
    filename = link.filename
    try:
        if filename.endswith(".whl"):
            found, of, _build, tags = parse_wheel_filename(filename)
            return (found, of) == (name, version) and any(map(_is_ours, tags))
        return parse_sdist_filename(filename) == (name, version)
    except (InvalidWheelFilename, InvalidSdistFilename):
        return False


def _lines(pins: Iterable[str]) -> Iterator[str]:
    command = create_command("download")
    options, _ = command.parse_args(["pip"])
    with command.main_context():
        collector = LinkCollector.create(command.get_default_session(options), options)
        for name, version in sorted(_parse(pin) for pin in pins):
            page = collector.fetch_response(Link(f"{options.index_url.rstrip('/')}/{name}/"))
            files = [] if page is None else [link for link in parse_links(page) if _is_file_of(name, version, link)]
            if not files:
                sys.exit(f"lock: the index has no file of {name} {version} for our platforms")
            hashes = sorted({link.hash for link in files if link.hash_name == "sha256"})
            yield f"{name}=={version}" + "".join(f" \\\n    --hash=sha256:{each}" for each in hashes)


def _parse(pin: str) -> tuple[str, Version]:
    name, _, version = pin.strip().partition("==")
    return canonicalize_name(name), Version(version)


if __name__ == "__main__":
    print(HEADER + "\n".join(_lines(sys.stdin)))
