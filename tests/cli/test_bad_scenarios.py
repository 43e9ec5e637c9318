"""Bad scenarios: one line on standard error that names the file, the key and what to do; exit code 2; no traceback."""

from pathlib import Path

import pytest

from ordercast.cli import main
from tests.support import run_ordercast

GOOD = """
protocol = "sequencer"
seed = 1
duration = 2.0
settle = 2.0
[groups]
g = ["a", "b", "c"]
[network]
kind = "point-to-point"
processing = 0.0001
latency = 0.001
[[workload]]
sources = ["a"]
groups = ["g"]
rate = 10.0
size = 100
[[fault]]
kind = "loss"
from = 0.5
to = 1.0
rate = 0.2
"""
FAN = GOOD.replace('"sequencer"', '"fan-1"')
INTERGROUP = GOOD.replace('"sequencer"', '"intergroup"')
CHOICE = INTERGROUP + '[[change]]\nkind = "service"\nat = 0.5\nsites = ["b"]\ngroup = "g"\nservice = "unreliable"\n'
TWO_GROUPS = FAN.replace('g = ["a", "b", "c"]', 'g = ["a", "b"]\nh = ["b", "c"]')
NETWORK = 'kind = "point-to-point"\nprocessing = 0.0001\nlatency = 0.001'


def changed(old: str, new: str, text: str = GOOD) -> str:
    assert old in text
    return text.replace(old, new, 1)


def network(lines: str) -> str:
    return changed(NETWORK, lines)


WIDE_AREA = 'kind = "wide-area"\nregions = { eu = ["a", "b", "c"] }\nlatency = { eu = { eu = 1 } }'

BAD: dict[str, tuple[str, list[str]]] = {
    # the file
    "broken-toml": (changed("seed = 1", "seed = "), ["is not valid TOML", "line 3"]),
    "open-bracket": (changed("[groups]", "[groups"), ["is not valid TOML", "line 6"]),
    "key-twice": (changed("seed = 1", "seed = 1\nseed = 2"), ["is not valid TOML", "line 4"]),
    "thousand-brackets": ("x = " + "[" * 5000, ["is not valid TOML"]),
    "number-beyond-measure": (changed("seed = 1", "seed = " + "9" * 6000), ["is not valid TOML"]),
    "empty-file": ("", ["the key 'protocol' is missing"]),
    # keys
    "unknown-key": (changed("duration", "durration"), ["unknown key 'durration'", "did you mean 'duration'?"]),
    "unknown-key-far-off": (changed("seed", "xyz"), ["unknown key 'xyz'", "known: description, protocol, seed"]),
    "unknown-key-of-network": (changed("latency", "latancy"), ["[network]", "'latancy'", "did you mean 'latency'?"]),
    "unknown-key-of-workload": (changed("size", "sise"), ["[[workload]] 1", "'sise'", "did you mean 'size'?"]),
    "unknown-key-of-fault": (changed("rate = 0.2", "rat = 0.2"), ["[[fault]] 1", "'rat'", "did you mean 'rate'?"]),
    "unknown-key-of-storage": (GOOD + "[storage]\nsinc = 1", ["[storage]", "'sinc'", "did you mean 'sync'?"]),
    "unknown-option": (GOOD + "[options]\nwindow_mesage = 4", ["[options]", "'window_mesage'", "window_messages"]),
    "no-protocol": (changed('protocol = "sequencer"', ""), ["the key 'protocol' is missing"]),
    "no-groups": (changed('[groups]\ng = ["a", "b", "c"]', ""), ["the key 'groups' is missing"]),
    "no-kind-of-fault": (changed('kind = "loss"', ""), ["[[fault]] 1", "'kind' is missing", "burst-loss"]),
    "no-from": (changed("from = 0.5", ""), ["[[fault]] 1", "'from' is missing"]),
    "no-sources": (changed('sources = ["a"]', ""), ["[[workload]] 1", "'sources' is missing"]),
    # types
    "text-for-number": (changed("duration = 2.0", 'duration = "long"'), ["duration", "a number", "text"]),
    "number-for-text": (changed('"sequencer"', "3"), ["protocol", "text in quotes", "a whole number"]),
    "fraction-for-whole-number": (changed("seed = 1", "seed = 1.5"), ["seed", "a whole number"]),
    "flag-for-number": (changed("rate = 10.0", "rate = true"), ["[[workload]] 1: rate", "a number", "true or false"]),
    "text-for-list": (changed('["a", "b", "c"]', '"a"'), ["[groups]: g", "a list", "text"]),
    "number-in-list": (changed('["a", "b", "c"]', '["a", 2]'), ["[groups]: g (entry 2)", "text", "whole number"]),
    "list-for-table": (changed("[groups]\n", "groups = []\n[options]\n"), ["[groups]", "expected a table, got a list"]),
    "single-brackets": (changed("[[workload]]", "[workload]"), ["[[workload]]", "double brackets"]),
    "not-a-number": (changed("duration = 2.0", "duration = nan"), ["duration", "nan", "finite"]),
    "endless": (changed("to = 1.0", "to = inf"), ["to", "inf", "finite"]),
    "too-many-bits": (changed("seed = 1", f"seed = {2**64}"), ["seed", "64 bits"]),
    "unknown-arrivals": (changed("size", 'arrivals = "poison"\nsize'), ["arrivals", "'poison'", "'regular'"]),
    # values
    "unknown-protocol": (changed("sequencer", "sequenser"), ["protocol", "'sequenser'", "did you mean 'sequencer'?"]),
    "negative-seed": (changed("seed = 1", "seed = -1"), ["seed", "-1"]),
    "no-duration": (changed("duration = 2.0", "duration = 0"), ["duration", "positive"]),
    "negative-settle": (changed("settle = 2.0", "settle = -1"), ["settle", "0 or more"]),
    "negative-sync": (GOOD + "[storage]\nsync = -1", ["[storage]", "sync"]),
    "bad-option": (GOOD + "[options]\nwindow_messages = 0", ["[options]", "window", "1 or more"]),
    "option-that-fits-no-site": (GOOD + '[options]\nsequencer = "z"', ["[options]", "there is no site 'z'"]),
    # groups and sites
    "empty-groups": (changed('g = ["a", "b", "c"]', ""), ["[groups]", "is empty"]),
    "empty-group": (changed('["a", "b", "c"]', "[]"), ["[groups]", "g has no sites"]),
    "site-twice": (changed('["a", "b", "c"]', '["a", "b", "a"]'), ["[groups]", "'a' twice"]),
    "name-with-a-blank": (changed('["a", "b", "c"]', '["a", "b c"]'), ["'b c'", "without blanks"]),
    "nameless-site": (changed('["a", "b", "c"]', '["a", ""]'), ["is no name"]),
    # the network
    "unknown-network": (network('kind = "broadcst"'), ["[network]", "'broadcst'", "did you mean 'broadcast'?"]),
    "host-without-server": (
        network('kind = "servers"\nhosts = { a = "one" }'),
        ["[network]", "is at no server; add it to hosts"],
    ),
    "outage-without-servers": (
        changed('kind = "loss"', 'kind = "outage"\nservers = ["one"]').replace("rate = 0.2\n", ""),
        ["[[fault]] 1", 'only a network of kind = "servers"'],
    ),
    "no-buffers": (network('kind = "one-channel"\nbuffers = 0'), ["[network]", "at least one buffer"]),
    "latency-of-a-medium": (network('kind = "broadcast"\nlatency = 1'), ["[network]", "unknown key 'latency'"]),
    "negative-latency": (changed("latency = 0.001", "latency = -1"), ["[network]", "latency"]),
    "negative-phi-n": (changed("latency = 0.001", "phi_n = -1"), ["[network]", "phi_n"]),
    "topology-of-nothing": (network('kind = "topology"'), ["[network]", "exactly one of shape"]),
    "unknown-shape": (network('kind = "topology"\nshape = "torus"'), ["[network]", "'torus'", "grid"]),
    "site-without-link": (network('kind = "topology"\nlinks = [["a", "b", 1]]'), ["[network]", "'c' has no link"]),
    "loop": (network('kind = "topology"\nlinks = [["a", "a", 1]]'), ["[network]", "'a' to itself"]),
    "link-without-weight": (network('kind = "topology"\nlinks = [["a", "b"]]'), ["[network]", "links (entry 1)"]),
    "parts-apart": (
        changed('"c"]', '"c", "d"]', network('kind = "topology"\nlinks = [["a", "b", 1], ["c", "d", 1]]')),
        ["[network]", "not connected"],
    ),
    "no-such-file-of-links": (network('kind = "topology"\nfile = "nowhere.txt"'), ["nowhere.txt", "cannot be read"]),
    "no-regions": (network('kind = "wide-area"'), ["[network]", "'regions' is missing"]),
    "unknown-region": (
        network('kind = "wide-area"\nregions = { eu = ["a", "b", "c"] }\nlatency = { eu = { eu = 1, us = 2 } }'),
        ["[network]", "'us'"],
    ),
    "site-in-no-region": (
        network('kind = "wide-area"\nregions = { eu = ["a", "b"] }\nlatency = { eu = { eu = 1 } }'),
        ["[network]", "'c' is in no region"],
    ),
    "hops-to-an-unknown-region": (
        network(f"{WIDE_AREA}\nhops = {{ eu = {{ us = 4 }} }}"),
        ["[network]", "hops names the region 'us'"],
    ),
    "no-hops": (network(f"{WIDE_AREA}\nhops = {{ eu = {{ eu = 0 }} }}"), ["[network]", "from eu to eu", "not 0"]),
    "half-a-hop": (network(f"{WIDE_AREA}\nhops = {{ eu = {{ eu = 1.5 }} }}"), ["[network]", "hops"]),
    "all-is-lost-by-a-region": (network(f"{WIDE_AREA}\nshared_loss = 1.0"), ["[network]", "shared_loss"]),
    # workloads
    "unknown-source": (changed('sources = ["a"]', 'sources = ["z"]'), ["[[workload]] 1", "'z'", "known: a, b, c"]),
    "unknown-group": (changed('groups = ["g"]', 'groups = ["h"]'), ["[[workload]] 1", "no group 'h'", "known: g"]),
    "negative-rate": (changed("rate = 10.0", "rate = -10.0"), ["[[workload]] 1", "rate", "-10"]),
    "huge-size": (changed("size = 100", "size = 99999999999"), ["[[workload]] 1", "size"]),
    "nobody-multicasts": (changed('sources = ["a"]', "sources = []"), ["[[workload]] 1", "sources is empty"]),
    "start-after-the-end": (changed("size = 100", "start = 2.0"), ["[[workload]] 1", "start", "duration"]),
    "choose-too-many": (changed("size = 100", "choose = 2"), ["[[workload]] 1", "choose", "1 groups"]),
    "two-groups-at-once": (
        changed('groups = ["g"]', 'groups = ["g", "h"]', TWO_GROUPS),
        ["[[workload]] 1", "fan-1 multicasts to one group at a time", "choose = 1"],
    ),
    "destinations": (changed('groups = ["g"]', "destinations = 2"), ["[[workload]] 1", "sequencer addresses groups"]),
    "source-left-out": (FAN + '[options]\nsources = ["b"]', ["[options]", "sources leaves out 'a'"]),
    # faults
    "unknown-fault": (changed('"loss"', '"los"'), ["[[fault]] 1", "'los'", "did you mean 'loss'?"]),
    "fault-ends-before-it-begins": (changed("to = 1.0", "to = 0.1"), ["[[fault]] 1", "from <= to"]),
    "fault-before-the-beginning": (changed("from = 0.5", "from = -1"), ["[[fault]] 1", "0 <= from"]),
    "fault-after-the-end": (changed("from = 0.5\nto = 1.0", "from = 2.0"), ["[[fault]] 1", "from = 2.0", "duration"]),
    "rate-above-one": (changed("rate = 0.2", "rate = 1.5"), ["[[fault]] 1", "share from 0 to 1"]),
    "fault-of-an-unknown-site": (changed("rate = 0.2", 'rate = 0.2\nsites = ["q"]'), ["[[fault]] 1", "no site 'q'"]),
    "crash-of-nobody": (changed('"loss"', '"crash"').replace("rate = 0.2", ""), ["[[fault]] 1", "name the sites"]),
    # services
    "unknown-service": (
        changed('"unreliable"', '"unrelable"', CHOICE),
        ["[[change]] 1", "intergroup has no service 'unrelable'", "did you mean 'unreliable'?"],
    ),
    "unknown-source-of-a-service": (
        CHOICE + 'sources = ["z"]',
        ["[[change]] 1", "no site 'z'", "known: a, b, c"],
    ),
    "unknown-service-of-all": (
        INTERGROUP + '[options]\nservice = "reliable-sorce"',
        ["[options]", "no service 'reliable-sorce'", "did you mean 'reliable-source'?"],
    ),
    "thresholds-that-cross": (
        INTERGROUP + "[options]\ncoordinators_low = 9\ncoordinators_high = 3",
        [".toml: [options]", "coordinators_low = 9 is above coordinators_high = 3"],
    ),
    "no-keep-alive": (
        INTERGROUP + "[options]\nkeep_alive_seconds = 0",
        [".toml: [options]", "keep_alive_seconds is positive, not 0"],
    ),
    "sender-outside-the-group": (
        INTERGROUP + '[options]\nsenders = ["bb"]',
        ["[options]", "option senders: 'bb' is in no group", "did you mean 'b'?"],
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_one_line_that_names_the_file_and_what_to_do(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, words = BAD[name]
    file = tmp_path / f"{name}.toml"
    file.write_text(text, encoding="utf-8")
    assert main(["simulate", str(file)]) == 2
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.count("\n") == 1
    assert output.err.startswith("ordercast simulate: ")
    if "nowhere" not in name and "no-such-file" not in name:
        assert str(file) in output.err
    for word in words:
        assert word in output.err
    assert len(output.err) < 600


def test_a_source_that_does_not_send_is_refused_under_way_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = CHOICE.replace('"unreliable"', '"reliable-source"') + 'sources = ["c"]\n[options]\nsenders = ["a"]'
    (tmp_path / "refused.toml").write_text(text)
    assert main(["simulate", str(tmp_path / "refused.toml")]) == 0
    assert "note: refused: b: 'c' is no sender of g; known: a" in capsys.readouterr().out


def test_the_good_scenario_from_which_they_are_made_is_good(tmp_path: Path) -> None:
    for number, text in enumerate((GOOD, FAN.replace("loss", "duplication"))):
        (tmp_path / f"{number}.toml").write_text(text)
        assert main(["simulate", str(tmp_path / f"{number}.toml"), "--json"]) == 0


@pytest.mark.parametrize("content", [b"\xff\xfe\x00nothing", b"#" * ((1 << 20) + 1)])
def test_a_file_that_is_no_scenario_at_all(content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "binary.toml"
    file.write_bytes(content)
    assert main(["simulate", str(file)]) == 2
    assert "is it the right file?" in capsys.readouterr().err


def test_a_file_that_is_not_there_and_a_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for path in (tmp_path / "nothing.toml", tmp_path):
        assert main(["simulate", str(path)]) == 2
        assert f"{path}: cannot be read: " in capsys.readouterr().err


def test_no_traceback_in_a_process_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(changed("seed", "sead"))
    result = run_ordercast("simulate", str(file))
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"ordercast simulate: {file}: unknown key 'sead'; did you mean 'seed'?\n"
