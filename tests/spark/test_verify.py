"""`ordercast verify`: planted violations are found and shown, the document keeps its contract, the report is whole."""

from __future__ import annotations

import base64
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from ordercast.check import PROPERTIES, judge
from ordercast.cli import main
from ordercast.spark import tables
from ordercast.spark.tables import open_trace
from ordercast.spark.verify import verification as verification_module
from ordercast.spark.verify import verify
from ordercast.trace import write_trace
from ordercast.trace.pieces import Trace
from ordercast.verify import plan
from tests.check.build import describe, events
from tests.check.test_acyclic import CYCLE
from tests.check.test_causality import CAUSE
from tests.check.test_failures import ALLOWED_ANOMALY, FORBIDDEN_TWIN, SENT
from tests.check.test_views import two_sites
from tests.spark.traces import by_hand, refused, verify_json, write_per_site, write_scattered

pytestmark = pytest.mark.usefixtures("place")

AGREED = SENT + "b deliver m\nb deliver n\nc deliver m\nc deliver n\na deliver m\na deliver n"

PLANTED = {
    "duplicate delivery": ("no-duplication", AGREED + "\nc deliver n", "g:a,b,c", {"c"}, {"n"}),
    "missing delivery": ("uniform-agreement", AGREED.replace("c deliver n\n", ""), "g:a,b,c", {"c"}, {"n"}),
    "swapped messages of different groups": (
        "multiple-group-order",
        "a multicast m g\na multicast n h\nb deliver m\nb deliver n\nc deliver n\nc deliver m",
        "g:b,c h:b,c",
        {"b", "c"},
        {"m", "n"},
    ),
    "cycle of three where every pair agrees": ("acyclic-order", CYCLE, "g:a,b,c", {"a", "b", "c"}, {"m1", "m2", "m3"}),
    "delivery before its multicast": ("integrity", "b deliver m\na multicast m g", "g:a,b,c", {"b"}, {"m"}),
    "delivery outside the group": ("integrity", "a multicast m g\nd deliver m", "g:a,b,c", {"d"}, {"m"}),
    "effect before its cause": ("causal-order", CAUSE + "c deliver n\nc deliver m", "g:a,b,c", {"c"}, {"m", "n"}),
    "different messages in one view": ("virtual-synchrony", two_sites("m n", "m"), "g:a,b", {"a", "b"}, {"n"}),
    "R2's forbidden twin": ("R2", FORBIDDEN_TWIN, "g:a,b,c", {"b", "c"}, {"m", "n"}),
}


@pytest.mark.parametrize(("name", "text", "groups", "sites", "messages"), PLANTED.values(), ids=PLANTED)
def test_a_planted_violation_is_found_and_ends_in_exit_code_1(
    name: str,
    text: str,
    groups: str,
    sites: set[str],
    messages: set[str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    folder = by_hand(tmp_path / "trace", text, groups, [name])
    code, document, errors = verify_json(capfd, folder)
    assert (code, document["violated_claims"], errors) == (1, 1, "")
    found = document["runs"]["run"][name]
    assert (found["claimed"], found["verdict"]) == (True, "violated")
    assert found["witnesses"] >= 1
    assert (set(found["first"]["sites"]), set(found["first"]["messages"])) == (sites, messages)


def test_what_r2_allows_holds_and_is_no_violated_claim(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = by_hand(tmp_path / "trace", ALLOWED_ANOMALY, claims=["R2"])
    code, document, _ = verify_json(capfd, folder)
    assert (code, document["violated_claims"]) == (0, 0)
    assert document["runs"]["run"]["R2"]["verdict"] == "holds"


def test_a_causal_hole_is_found(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    # c goes on with a's second message and lacks b's, which a had delivered before it multicast it.
    text = (
        "a view v members=a,b,c\nb view v members=a,b,c\nc view v members=a,b,c\n"
        "b multicast x g source=b source_seq=1\na deliver x\nc deliver x\n"
        "b multicast y g source=b source_seq=2\na deliver y\na multicast m g source=a source_seq=1\nc deliver m"
    )
    name = "reliable-timestamp-order"
    code, document, _ = verify_json(capfd, by_hand(tmp_path / "trace", text, claims=[name]))
    assert code == 1
    assert document["runs"]["run"][name]["first"]["sites"] == ["c"]
    assert set(document["runs"]["run"][name]["first"]["messages"]) == {"m", "y"}


def test_the_document_keeps_its_contract(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = by_hand(tmp_path / "trace", AGREED + "\nc deliver n", claims=["integrity", "no-duplication"])
    code, document, _ = verify_json(capfd, folder)
    assert code == 1
    assert set(document) == {"runs", "violated_claims"}
    verdicts = document["runs"]["run"]
    assert tuple(verdicts) == PROPERTIES
    for name, found in verdicts.items():
        assert list(found) == ["claimed", "verdict", "witnesses", "first"]
        assert found["claimed"] == (name in ("integrity", "no-duplication"))
    assert verdicts["integrity"] == {"claimed": True, "verdict": "holds", "witnesses": 0, "first": None}
    assert verdicts["R1"] == {"claimed": False, "verdict": "not-judged", "witnesses": 0, "first": None}
    assert verdicts["no-duplication"] == {
        "claimed": True,
        "verdict": "violated",
        "witnesses": 1,
        "first": {"sites": ["c"], "messages": ["n"], "why": verdicts["no-duplication"]["first"]["why"]},
    }


def test_unclaimed_properties_are_judged_with_all_and_cost_no_exit_code(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = by_hand(tmp_path / "trace", AGREED + "\nc deliver n", claims=["integrity"])
    code, document, _ = verify_json(capfd, folder, "--all")
    assert (code, document["violated_claims"]) == (0, 0)
    assert document["runs"]["run"]["no-duplication"]["verdict"] == "violated"
    assert document["runs"]["run"]["P2"]["verdict"] == "not-judged"  # the run has no bounds


def test_only_the_properties_asked_for_are_judged(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = by_hand(tmp_path / "trace", AGREED, claims=["integrity"])
    code, document, _ = verify_json(capfd, folder, "--property", "acyclic-order", "--property", "R1")
    assert code == 0
    assert {name: found["verdict"] for name, found in document["runs"]["run"].items()} == {
        "acyclic-order": "holds",
        "R1": "holds",
    }
    assert "did you" not in refused(capfd, folder, "--property", "acyclic")
    assert "'acyclic-order'" in refused(capfd, folder, "--property", "acyclic")


def test_a_run_without_events_is_vacuous(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    folder = by_hand(tmp_path / "trace", "", claims=["integrity"])
    code, document, _ = verify_json(capfd, folder)
    assert code == 0
    assert document["runs"]["run"]["integrity"]["verdict"] == "vacuous"


def test_a_person_sees_the_table_and_the_first_counterexample(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    broken = AGREED.replace("c deliver n\n", "")
    folder = by_hand(tmp_path / "trace", broken, claims=["integrity", "uniform-agreement"])
    capfd.readouterr()
    assert main(["verify", str(folder)]) == 1
    captured = capfd.readouterr()
    assert captured.err == ""
    assert re.search(r"integrity +yes +holds", captured.out)
    assert re.search(r"uniform-agreement +yes +violated +1 ", captured.out)
    assert re.search(r"seconds a +b +c ", captured.out)
    assert "D n" in captured.out
    assert "D m" not in captured.out
    assert "1 claim violated" in captured.out


def test_over_many_runs_the_outcomes_are_counted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    runs = []
    for number in range(7):
        run = describe("g:a,b,c", ("no-duplication", "R1") if number else ("R1",))
        run.run = f"run-{number}"
        runs.append((run, events(AGREED + ("\nc deliver n" if number == 3 else ""), run.run)))
    write_trace(tmp_path / "trace", runs)
    capfd.readouterr()
    assert main(["verify", str(tmp_path / "trace")]) == 1
    output = capfd.readouterr().out
    assert re.search(r"no-duplication +in 6 of 7 runs +violated +5 hold, 1 violated +1 ", output)
    assert re.search(r"R1 +yes +violated +6 hold, 1 violated", output)
    assert "in run run-3:" in output


def test_a_trace_written_by_hand_with_the_fewest_columns_is_accepted(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "runs.jsonl").write_text('{"run":"r","groups":{"g":["a","b"]},"guarantees":["integrity"]}\n')
    lines = [
        {"run": "r", "site": "a", "seq": 0, "time": 1, "kind": "multicast", "message": "m", "groups": ["g"]},
        {"run": "r", "site": "b", "seq": 5, "time": 2.5, "kind": "deliver", "message": "m", "comment": "ignored"},
    ]
    (tmp_path / "events.jsonl").write_text("\n\n".join(map(json.dumps, lines)))
    code, document, _ = verify_json(capfd, tmp_path)
    assert code == 0
    assert document["runs"]["r"]["integrity"]["verdict"] == "holds"


def test_a_live_clusters_folder_is_one_run(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run = describe("g:a,b,c", ("multiple-group-order", "uniform-agreement"))
    write_per_site(tmp_path / "cluster", [(run, events(AGREED))])
    code, document, _ = verify_json(capfd, tmp_path / "cluster")
    assert code == 0
    assert list(document["runs"]) == ["run"]
    assert document["runs"]["run"]["multiple-group-order"]["verdict"] == "holds"


def test_a_trace_whose_runs_are_scattered_is_sorted_first(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = []
    for number in range(12):
        run = describe("g:a,b,c", ("no-duplication",))
        run.run = f"run-{number}"
        runs.append((run, events(AGREED + ("\nc deliver n" if number == 3 else ""), run.run)))
    trace = open_trace(spark, write_scattered(tmp_path / "trace", runs, files=3))
    monkeypatch.setattr(plan, "TASK_ROWS_MIN", 1)
    monkeypatch.setattr(plan, "TASK_ROWS_MAX", 1)
    monkeypatch.setattr(plan, "REREAD_ROWS_MAX", 1)
    compacted = []

    def compact(*words: Any) -> Trace:
        compacted.append(tables.compact(*words))
        return compacted[-1]

    monkeypatch.setattr(verification_module, "compact", compact)
    with verify(spark, trace) as verification:
        found = verification.collect()
        witnesses = verification.witnesses.collect()
    assert len(compacted) == 1
    for run, table in runs:
        assert found[run.run]["no-duplication"].verdict == judge(run, table)["no-duplication"].verdict
    assert [(row.run, row.property, row.sites, row.messages) for row in witnesses] == [
        ("run-3", "no-duplication", ["c"], ["n"])
    ]


def test_a_run_too_large_for_a_worker_is_judged_by_several(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    claims = ["no-duplication", "multiple-group-order", "genuineness"]
    folder = by_hand(tmp_path / "trace", SENT + "b deliver m\nb deliver n\nc deliver n\nc deliver m", claims=claims)
    code, document, errors = verify_json(capfd, folder, "--large-rows", "5")
    assert code == 1
    assert document["runs"]["run"]["no-duplication"]["verdict"] == "holds"
    assert document["runs"]["run"]["multiple-group-order"]["verdict"] == "violated"
    assert document["runs"]["run"]["genuineness"]["verdict"] == "not-judged"
    assert errors == ("note: run 'run' has 6 events, too many for one worker; not judged: genuineness\n")


class _Tags(HTMLParser):
    """Every tag that is opened is closed, in the right order."""

    VOID = frozenset({"meta", "img", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attributes: object) -> None:
        self.seen.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_report_is_one_page_with_pictures(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    broken = AGREED.replace("c deliver n\n", "") + "\nc fail\nc recover"
    folder = by_hand(tmp_path / "<trace>", broken, claims=["integrity", "uniform-agreement"])
    code, _, errors = verify_json(capfd, folder, "--report", tmp_path / "page")
    assert (code, errors) == (1, "")
    assert [file.name for file in (tmp_path / "page").iterdir()] == ["index.html"]
    page = (tmp_path / "page" / "index.html").read_text()
    tags = _Tags()
    tags.feed(page)
    assert tags.open == []
    assert tags.seen.count("img") == 2
    for picture in re.findall(r'src="data:image/png;base64,([^"]+)"', page):
        assert base64.b64decode(picture).startswith(b"\x89PNG")
    assert "Verification of &lt;trace&gt;" in page
    assert "://" not in page  # nothing is fetched from anywhere
    assert "uniform-agreement" in page


def test_a_report_that_cannot_be_written_is_refused_before_the_work(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert "report" in refused(capfd, by_hand(tmp_path / "trace", AGREED), "--report", tmp_path / "file" / "page")
