"""`ordercast graph`: what it prints, draws and refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support import run_ordercast

FIGURE_3_2 = """
[groups]
a1 = ["c", "d"]
a2 = ["a", "b", "c"]
a3 = ["b", "c", "d", "e"]
a4 = ["d", "e", "f"]
a5 = ["e", "f"]
a6 = ["b", "g"]
a7 = ["c", "h"]
a8 = ["d", "j"]
a9 = ["d", "a"]
"""
KEYS = {"trees", "primary", "extra", "depth", "load", "bypass", "mean_depth", "mean_extra", "max_load"}


@pytest.fixture
def groups(tmp_path: Path) -> str:
    file = tmp_path / "groups.toml"
    file.write_text(FIGURE_3_2, encoding="utf-8")
    return str(file)


def graph_json(*words: str, exit_code: int = 0) -> dict[str, Any]:
    result = run_ordercast("graph", *words, "--json")
    assert result.returncode == exit_code, result.stderr
    document: dict[str, Any] = json.loads(result.stdout)
    assert set(document) >= KEYS
    return document


def nested(trees: list[dict[str, Any]]) -> dict[str, Any]:
    return {tree["site"]: nested(tree["children"]) for tree in trees}


def test_the_graph_of_figure_3_2_as_json(groups: str) -> None:
    found = graph_json("--groups", groups, "--prefer", "d,c,e")
    assert nested(found["trees"]) == {"d": {"c": {"a": {}, "b": {"g": {}}, "h": {}}, "e": {"f": {}}, "j": {}}}
    assert found["primary"]["a9"] == "d"
    assert found["extra"]["a9"] == ["c"]
    assert found["depth"] == {"a1": 1, "a2": 1, "a3": 2, "a4": 2, "a5": 1, "a6": 1, "a7": 1, "a8": 1, "a9": 2}
    assert found["max_load"] == max(found["load"].values()) == found["load"]["d"]
    assert found["bypass"] == []


def test_a_bypass_names_both_ends_and_the_group(groups: str) -> None:
    found = graph_json("--groups", groups, "--prefer", "d,c,e", "--bypass")
    assert found["bypass"] == [["d", "a", "a9"]]
    assert found["mean_extra"] == 0


def test_the_prices_of_both_options_are_told(groups: str) -> None:
    found = graph_json("--groups", groups, "--prefer", "d,c,e")
    root, bypass = found["options"]["entry = root"], found["options"]["bypass"]
    assert root["max_load"] > found["max_load"], "the root has the load of all groups of its tree"
    assert root["mean_depth"] > found["mean_depth"]
    assert bypass["mean_extra"] == 0 < found["mean_extra"]
    shown = run_ordercast("graph", "--groups", groups, "--prefer", "d,c,e").stdout
    assert "entry = root" in shown
    assert "any two sites agree" in shown
    assert "options" not in graph_json("--groups", groups, "--bypass")


def test_an_extra_node_that_stays_is_explained(tmp_path: Path) -> None:
    file = tmp_path / "figure_3_6.json"
    file.write_text(json.dumps({"α1": list("abc"), "α2": list("abd"), "α3": list("acd"), "α4": list("bcd")}))
    found = graph_json("--groups", str(file), "--bypass")
    assert found["dependent"] == [
        {"site": "b", "group": "α3", "why": "α1 and α3 would be merged at a and again at c"},
    ]
    assert "stays b for α3" in run_ordercast("graph", "--groups", str(file), "--bypass").stdout


def test_random_groups_follow_the_seed() -> None:
    words = ("--random", "30,8,4", "--seed", "5", "--ties", "random")
    first, second = graph_json(*words), graph_json(*words)
    assert first == second != graph_json("--random", "30,8,4", "--seed", "6", "--ties", "random")
    assert len(first["primary"]) == 8
    assert all(name.startswith("s00") for name in first["load"])


@pytest.mark.parametrize("heuristic", ["most-groups-near", "nearest", "spanning-tree", "shortest-path"])
def test_a_grid_brings_paths(heuristic: str) -> None:
    found = graph_json("--random", "30,8,4", "--heuristic", heuristic, "--topology", "grid")
    assert found["mean_path"] >= found["mean_depth"] > 0


def test_a_topology_from_a_file(groups: str, tmp_path: Path) -> None:
    links = tmp_path / "links.txt"
    links.write_text("a b 1\nb c 1\nc d 2\nd e 1\ne f 1\nf g 1\ng h 1\nh j 1\n")
    found = graph_json("--groups", groups, "--topology", str(links), "--heuristic", "spanning-tree")
    assert found["mean_path"] > 0


def test_a_tree_deeper_than_python_recurses_is_written(tmp_path: Path) -> None:
    file = tmp_path / "chain.json"
    file.write_text(json.dumps({f"g{n:04}": [f"s{n:04}", f"s{n + 1:04}"] for n in range(3000)}))
    result = run_ordercast("graph", "--groups", str(file), "--json")
    assert result.returncode == 0
    assert result.stdout.count('"children": [') == 3001
    assert run_ordercast("graph", "--groups", str(file)).returncode == 0


def test_a_bound_that_cannot_be_kept_is_said(groups: str) -> None:
    found = graph_json("--groups", groups, "--load-bound", "2", exit_code=1)
    assert found["over_bound"]
    result = run_ordercast("graph", "--groups", groups, "--load-bound", "2")
    assert "above the bound of 2" in result.stderr


def test_the_terminal_shows_the_forest_with_primary_destinations_and_extra_nodes(groups: str) -> None:
    shown = run_ordercast("graph", "--groups", groups, "--prefer", "d,c,e").stdout
    assert "d  orders a1, a3, a4, a8, a9" in shown
    assert "├─ c  orders a2, a7  extra for a9" in shown
    assert "│  ├─ b  orders a6" in shown
    assert "3L + 4P" in shown


def test_the_picture_is_drawn_as_svg_and_png(groups: str, tmp_path: Path) -> None:
    svg, png = tmp_path / "graph.svg", tmp_path / "graph.png"
    result = run_ordercast("graph", "--groups", groups, "--svg", str(svg), "--png", str(png))
    assert result.returncode == 0, result.stderr
    assert svg.read_text().lstrip().startswith("<?xml")
    assert png.read_bytes().startswith(b"\x89PNG")


def test_without_the_laboratory_everything_but_files_of_links_and_pictures_works(groups: str) -> None:
    blocked = ("networkx", "numpy", "pyarrow", "scipy", "matplotlib")
    assert run_ordercast("graph", "--groups", groups, "--json", blocked=blocked).returncode == 0
    result = run_ordercast("graph", "--groups", groups, "--svg", "graph.svg", blocked=blocked)
    assert result.returncode == 2
    assert "pip install" in result.stderr


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ((), "give the groups"),
        (("--random", "3,4"), "three numbers"),
        (("--random", "3,4,5"), "from 1 to the 3 sites"),
        (("--random", "0,1,1"), "number of sites"),
        (("--random", "10,3,3", "--heuristic", "nearest"), "needs a topology"),
        (("--random", "10,3,3", "--heuristic", "best"), "there is no heuristic 'best'"),
        (("--random", "10,3,3", "--ties", "luck"), "--ties is name or random"),
        (("--random", "10,3,3", "--prefer", "q"), "no such site"),
        (("--random", "10,3,3", "--load-bound", "0"), "1 or more"),
        (("--groups", "nowhere.toml"), "No such file"),
    ],
)
def test_misuse_ends_in_one_line(words: tuple[str, ...], complaint: str) -> None:
    result = run_ordercast("graph", *words)
    assert (result.returncode, result.stdout) == (2, "")
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[groups]\ng = []\n", "group 'g' has no members"),
        ("[groups]\n", "no groups"),
        ("[groups]\ng = 'ab'\n", "not a list of site names"),
        ("groups = 3\n", "a table from names to lists"),
        ("g = [", "write a table [groups]"),
    ],
)
def test_bad_files_are_refused(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "bad.toml"
    file.write_text(text)
    result = run_ordercast("graph", "--groups", str(file))
    assert result.returncode == 2
    assert complaint in result.stderr
    assert result.stderr.count("\n") == 1
