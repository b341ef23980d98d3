"""The journal keeps every event, also around a line that a crash cut off."""

from devmind.curriculum.journal import Journal


def test_events_come_back_in_order_and_by_kind(tmp_path):
    journal = Journal(tmp_path / "j.jsonl")
    assert journal.last() is None
    for step in range(3):
        journal.write("progress", step=step)
    journal.write("finished", passed=True)
    assert [e["step"] for e in journal.events("progress")] == [0, 1, 2]
    assert journal.last("progress")["step"] == 2
    assert journal.last()["event"] == "finished"


def test_a_line_cut_off_by_a_crash_costs_only_itself(tmp_path):
    journal = Journal(tmp_path / "j.jsonl")
    journal.write("progress", step=1)
    whole = journal.path.read_bytes()
    journal.path.write_bytes(whole + whole[: len(whole) // 2])
    journal.write("progress", step=2)
    assert [e["step"] for e in journal.events()] == [1, 2]


def test_a_journal_is_followed_without_reading_it_again(tmp_path):
    journal = Journal(tmp_path / "j.jsonl")
    assert journal.after(0) == ([], 0)
    journal.write("progress", step=1)
    found, offset = journal.after(0)
    assert ([e["step"] for e in found], journal.after(offset)) == ([1], ([], offset))
    with journal.path.open("ab") as file:
        file.write(b'{"event": "progress", "st')  # being written just now
    assert journal.after(offset) == ([], offset)
    with journal.path.open("ab") as file:
        file.write(b'ep": 2}\n')
    found, offset = journal.after(offset)
    assert [e["step"] for e in found] == [2]
    journal.path.write_bytes(b'{"event": "start"}\n')
    assert [e["event"] for e in journal.after(offset)[0]] == ["start"]
