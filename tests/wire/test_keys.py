"""Key files: made for their owner only, and refused with one line when they are not what they should be."""

import base64
import os
import stat
from pathlib import Path

import pytest

from ordercast.core import UsageError
from ordercast.wire import ClusterKeys, create_key_file, fingerprint, new_key, read_keys
from ordercast.wire.keys import key_text
from tests.wire.cluster import KEY, OTHER_KEY


def write(path: Path, text: str, mode: int = 0o600) -> Path:
    path.write_text(text)
    path.chmod(mode)
    return path


def test_a_new_key_file_is_private_and_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "bank.key"
    key = create_key_file(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    keys = read_keys(path)
    assert (keys.used, keys.accepted) == (key, (key,))


def test_a_key_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        create_key_file(tmp_path / "bank.key")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "bank.key").stat().st_mode) == 0o600


def test_no_two_keys_are_alike() -> None:
    assert len({new_key() for _ in range(100)}) == 100
    assert len({fingerprint(new_key()) for _ in range(100)}) == 100


def test_the_first_line_is_used_and_the_second_accepted_too(tmp_path: Path) -> None:
    keys = read_keys(write(tmp_path / "bank.key", key_text(KEY) + key_text(OTHER_KEY)))
    assert (keys.used, keys.accepted) == (KEY, (KEY, OTHER_KEY))


def test_keys_do_not_show_themselves() -> None:
    for text in (repr(ClusterKeys(KEY, OTHER_KEY)), str(ClusterKeys(KEY))):
        assert KEY.hex() not in text
        assert base64.b64encode(KEY).decode() not in text


def test_an_existing_file_is_not_overwritten(tmp_path: Path) -> None:
    path = write(tmp_path / "bank.key", "precious")
    with pytest.raises(UsageError, match=r"bank\.key exists"):
        create_key_file(path)
    assert path.read_text() == "precious"


def test_a_link_is_not_followed_to_make_a_file(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(UsageError):
        create_key_file(tmp_path / "link")
    assert not (tmp_path / "elsewhere").exists()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot write"):
        create_key_file(tmp_path / "nowhere" / "bank.key")


def text_of(size: int) -> str:
    return base64.b64encode(bytes(size)).decode() + "\n"


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ("", 0o600, "holds no key"),
        ("\n\n", 0o600, "holds no key"),
        (text_of(31), 0o600, "31 bytes, not 32"),
        (text_of(16), 0o600, "16 bytes, not 32"),
        (text_of(33), 0o600, "33 bytes, not 32"),
        (text_of(64), 0o600, "64 bytes, not 32"),
        ("correct horse battery staple", 0o600, "4 keys"),
        ("correct-horse", 0o600, "not base64"),
        ("schlüssel", 0o600, "not base64"),
        (key_text(KEY) * 2, 0o600, "same key twice"),
        (key_text(KEY) + text_of(31), 0o600, "31 bytes"),
        (key_text(KEY) + key_text(OTHER_KEY) + text_of(32), 0o600, "3 keys"),
        ("A" * 1025, 0o600, "too long"),
        (key_text(KEY), 0o644, "chmod 600"),
        (key_text(KEY), 0o640, "chmod 600"),
        (key_text(KEY), 0o604, "chmod 600"),
        (key_text(KEY), 0o602, "chmod 600"),
        (key_text(KEY), 0o610, "chmod 600"),
    ],
)
def test_bad_key_files_are_refused_with_one_line(tmp_path: Path, text: str, mode: int, words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        read_keys(write(tmp_path / "bank.key", text, mode))
    assert "\n" not in str(caught.value)
    assert "bank.key" in str(caught.value)


def test_a_key_file_that_is_not_there_or_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="ordercast key new"):
        read_keys(tmp_path / "bank.key")
    with pytest.raises(UsageError, match="cannot read"):
        read_keys(tmp_path)


@pytest.mark.parametrize("size", [0, 31, 33])
def test_keys_have_32_bytes(size: int) -> None:
    with pytest.raises(UsageError):
        ClusterKeys(bytes(size))
    with pytest.raises(UsageError):
        ClusterKeys(KEY, bytes(size))


def test_a_key_file_of_another_owner_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """He can read the key, and give us one of his own."""
    path = write(tmp_path / "bank.key", key_text(KEY))
    monkeypatch.setattr("os.geteuid", lambda: path.stat().st_uid + 1)
    with pytest.raises(UsageError) as caught:
        read_keys(path)
    assert "belongs to another user" in str(caught.value)
    assert "\n" not in str(caught.value)
