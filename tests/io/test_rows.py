"""Rows of every kind of file: the same from each, bad ones with their reason, none lost."""

import csv
import gzip
import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from attnflow.errors import InputError
from attnflow.io.rows import Columns, Row, open_rows, row_bytes

TEXTS = ['the "keys", to\tit' + " é", "a cat", "on the mat"]
QUOTED = ['the "keys", to it é', "a cat", "on the mat"]
IDS = ["a", "b", "c"]
TARGETS = [1, 0, "plural"]
ALL = Columns("sentence", "label", "name")


def jsonl(path, texts):
    rows = zip(texts, TARGETS, IDS, strict=True)
    lines = [json.dumps({"sentence": t, "label": y, "name": i}) for t, y, i in rows]
    path.write_text("\n".join(lines) + "\n\n", encoding="utf-8")


def delimited(path, texts, **dialect):
    with path.open("w", newline="", encoding="utf-8-sig") as file:
        rows = csv.writer(file, **dialect)
        rows.writerow(["name", "sentence", "label"])
        rows.writerows(zip(IDS, texts, TARGETS, strict=True))


def table(texts):
    return pa.table({"name": IDS, "sentence": texts, "label": list(map(str, TARGETS))})


def dataset(folder, tables):
    """As ``save_to_disk`` of Hugging Face's datasets lays it out."""
    folder.mkdir(parents=True)
    names = []
    for number, each in enumerate(tables):
        names.append({"filename": f"data-{number:05d}-of-{len(tables):05d}.arrow"})
        path = str(folder / names[-1]["filename"])
        with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, each.schema) as stream:
            stream.write_table(each, max_chunksize=1)
    (folder / "dataset_info.json").write_text("{}")
    (folder / "state.json").write_text(json.dumps({"_data_files": names, "_split": None}))


def expected(texts):
    return [Row(*each) for each in zip(texts, map(str, TARGETS), IDS, strict=True)]


def read(given, columns=ALL, file_format=None):
    return list(open_rows(given, columns, file_format).read())


def test_every_kind_of_file_gives_the_same_rows(tmp_path):
    jsonl(tmp_path / "a.jsonl", TEXTS)
    assert read(tmp_path / "a.jsonl") == expected(TEXTS)
    delimited(tmp_path / "a.csv", TEXTS)
    assert read(tmp_path / "a.csv") == expected(TEXTS)
    delimited(tmp_path / "a.tsv", QUOTED, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None)
    assert read(tmp_path / "a.tsv") == expected(QUOTED)
    pq.write_table(table(TEXTS), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet") == expected(TEXTS)
    dataset(tmp_path / "set", [table(TEXTS).slice(0, 2), table(TEXTS).slice(2)])
    assert read(tmp_path / "set") == expected(TEXTS)
    (tmp_path / "a.txt").write_bytes("\ufeffone é\r\n\n  \ntwo\x0bhalves".encode())
    assert read(tmp_path / "a.txt", Columns()) == [Row("one é"), Row("two\x0bhalves")]
    mappings = [
        {"sentence": t, "label": y, "name": i, "more": 1}
        for t, y, i in zip(TEXTS, TARGETS, IDS, strict=True)
    ]
    assert read(mappings) == expected(TEXTS)
    assert read(TEXTS, Columns()) == [Row(text) for text in TEXTS]


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv"])
def test_compressed_files_and_formats_by_name(tmp_path, name):
    (jsonl if name == "a.jsonl" else delimited)(tmp_path / name, TEXTS)
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress((tmp_path / name).read_bytes()))
    assert read(packed) == expected(TEXTS)
    packed.write_bytes(packed.read_bytes()[:-12])
    with pytest.raises(InputError, match=r"\.gz can't be read: its compression is damaged"):
        read(packed)
    renamed = (tmp_path / name).rename(tmp_path / "a.data")
    with pytest.raises(InputError, match=r"format of a \.data file is not known; .* jsonl, csv"):
        read(renamed)
    assert read(renamed, file_format=name[2:]) == expected(TEXTS)


def test_bad_rows_have_a_reason_and_keep_their_place(tmp_path):
    path = tmp_path / "a.jsonl"
    lines = [
        '{"text": "good", "n": 7}',
        "{",
        "[1]",
        '{"text": null, "n": 1}',
        '{"text": "  ", "n": 2}',
        '{"n": 3}',
        '{"text": "half \\ud83d", "n": 4}',
    ]
    path.write_text("\n".join(lines))
    rows = read(path, Columns(id="n"))
    assert rows[0] == Row("good", id="7")
    reasons = [
        "line 2 is not JSON",
        "line 3 is not a JSON object",
        "text=None must be a text",
        "is empty",
    ]
    reasons += ["it has no 'text'", "lone surrogate"]
    for row, reason in zip(rows[1:], reasons, strict=True):
        assert reason in row.error
    assert [row.id for row in rows] == ["7", None, None, "1", "2", None, "4"]
    path = tmp_path / "a.csv"
    path.write_text("text,label\ngood,1\nbad\ngood again,\n")
    rows = read(path, Columns(target="label"))
    assert rows[0] == Row("good", "1")
    assert rows[1].error == "line 3 has 1 fields instead of 2"
    assert rows[2] == Row("good again", None)
    assert "the second with pair_column=" in read([("a", "b")], Columns())[0].error
    assert "a row is a text" in read([3], Columns())[0].error


def test_sources_that_cannot_be_used_are_refused(tmp_path):
    with pytest.raises(InputError, match="does not exist; give a file"):
        read(tmp_path / "none.csv")
    (tmp_path / "a.csv").write_text("sentence,label\nx,1\n")
    with pytest.raises(InputError, match="has no column 'text'; its columns: 'sentence', 'label'"):
        read(tmp_path / "a.csv", Columns("text"))
    with pytest.raises(InputError, match="has no column 'name'; its columns: 'sentence', 'label'"):
        read(tmp_path / "a.csv")
    pq.write_table(pa.table({"a": [1], "b": [2]}), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="has no column 'text'; its columns: 'a', 'b'"):
        read(tmp_path / "a.parquet", Columns())
    (tmp_path / "b.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(InputError, match="it is not a Parquet file, or damaged"):
        read(tmp_path / "b.parquet")
    (tmp_path / "b.txt").write_bytes(b"caf\xe9 au lait")
    with pytest.raises(InputError, match="it is not UTF-8 text"):
        read(tmp_path / "b.txt", Columns())
    with pytest.raises(InputError, match="which has no column 'label'"):
        read(tmp_path / "b.txt", Columns(target="label"))
    (tmp_path / "twice.csv").write_text("text,text\nx,1\n")
    with pytest.raises(InputError, match="the column 'text' twice"):
        read(tmp_path / "twice.csv", Columns())
    dataset(tmp_path / "set" / "train", [table(TEXTS)])
    (tmp_path / "set" / "dataset_dict.json").write_text('{"splits": ["train"]}')
    with pytest.raises(InputError, match=r"several splits; give one of them: .*set/train"):
        read(tmp_path / "set")
    with pytest.raises(InputError, match=r"without a state\.json"):
        read(tmp_path)
    for wrong in (3, b"text", {"text": "x"}):
        with pytest.raises(InputError, match="must be a file, a folder, or an iterable"):
            read(wrong)
    with pytest.raises(InputError, match="format='csv' is for files"):
        read(["x"], file_format="csv")
    with pytest.raises(InputError, match="text_column='' must be the name"):
        Columns("")


def test_the_only_column_of_texts_is_the_text(tmp_path):
    expected = [Row("x", "1"), Row("1.5", "0")]
    table = tmp_path / "dev.tsv"
    table.write_text("sentence\tlabel\tscore\nx\t1\t0.5\n1.5\t0\t2\n")
    assert read(table, Columns(target="label")) == expected
    pq.write_table(pa.table({"label": [1, 0], "sentence": ["x", "1.5"]}), tmp_path / "a.parquet")
    assert read(tmp_path / "a.parquet", Columns(target="label")) == expected
    lines = [{"sentence": "x", "label": 1}, {"sentence": "1.5", "label": 0}]
    broken = "no\n" + "\n".join(map(json.dumps, lines))
    (tmp_path / "a.jsonl").write_text(broken)
    assert read(tmp_path / "a.jsonl", Columns(target="label"))[1:] == expected
    assert read(iter(lines), Columns(target="label")) == expected
    pairs = [{"one": "x", "other": "y"}]
    assert read(pairs, Columns(pair="other")) == [Row("x", pair="y")]
    assert read([{"text": "x", "title": "y"}], Columns()) == [Row("x")], "text is the text"
    with pytest.raises(InputError, match=r"several columns of texts: 'one', 'other'; name"):
        read(pairs, Columns())


def test_rows_that_come_once_say_so():
    once = open_rows((text for text in TEXTS), Columns())
    assert not once.repeatable
    assert list(once.read()) == [Row(text) for text in TEXTS]
    assert open_rows(TEXTS, Columns()).repeatable


def test_the_bytes_of_rows_tell_them_apart():
    rows = list(open_rows(TEXTS, Columns()).read())
    assert row_bytes(rows) == row_bytes(list(rows))
    others = [rows[::-1], rows[:2], [Row(TEXTS[0], target=1), *rows[1:]], [rows[0], *rows]]
    assert len({row_bytes(rows), *map(row_bytes, others)}) == 5
