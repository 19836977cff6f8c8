"""The oddities of CSV files, as spreadsheets and people write them."""

from hashlib import sha256

import pytest

from tests.api.problems import assert_problem

PATH = "/detectors/door/import"
PLAIN = "key,predicted,label,note\r\na,YES,NO,fine\r\nb,NO,,\r\n"
LONG = "x" * 131_073

GOOD = {
    "as it is": PLAIN,
    "byte-order mark": "\ufeff" + PLAIN,
    "UTF-16 little-endian": b"\xff\xfe" + PLAIN.encode("utf-16-le"),
    "UTF-16 big-endian": b"\xfe\xff" + PLAIN.encode("utf-16-be"),
    "semicolons": PLAIN.replace(",", ";"),
    "tabs": PLAIN.replace(",", "\t"),
    "bars": PLAIN.replace(",", "|"),
    "line feeds": PLAIN.replace("\r\n", "\n"),
    "no last line feed": PLAIN.rstrip(),
    "blank lines": PLAIN.replace("\r\n", "\r\n\r\n"),
    "all quoted": PLAIN.replace("a,YES,NO,fine", '"a","YES","NO","fine"'),
    "sep= line": "sep=;\r\n" + PLAIN.replace(",", ";"),
    "another order": "label,note,key,predicted\nNO,fine,a,YES\n,,b,NO\n",
    "header in capitals, with spaces": PLAIN.replace(
        "key,predicted,label,note", " Key ,Predicted,LABEL, note"
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", GOOD)
def test_each_way_to_write_a_file_means_the_same(api, door, kind):
    sent = api.send_file(PATH, GOOD[kind])
    assert sent.status_code == 200, sent.text
    assert (sent.json["queries_added"], sent.json["labels_added"]) == (2, 1)
    queries = api.walk("/detectors/door/queries")[::-1]
    assert [(one["key"], one["predicted"], one["label"]) for one in queries] == [
        *[("a", "YES", "NO"), ("b", "NO", None)]
    ]
    labels = api.walk(f"/queries/{queries[0]['id']}/labels")
    assert [label["note"] for label in labels] == ["fine"]


def test_quoted_cells_hold_anything(api, door):
    note = 'line one\r\nline two, "quoted"; with\ttabs'
    quoted = note.replace('"', '""')
    api.send_file(PATH, f'predicted,label,note\nYES,NO,"{quoted}"\n')
    query = api.walk("/detectors/door/queries")[0]
    assert api.walk(f"/queries/{query['id']}/labels")[0]["note"] == note


BAD = {
    "empty": (b"", None, "body"),
    "only white space": (b" \n", None, "body"),
    "duplicate column": ("key,predicted,key\na,YES,b\n", None, "key"),
    "duplicate column in another case": ("key,predicted,KEY\na,YES,b\n", None, "key"),
    "unknown column": ("key,predicted,colour\na,YES,red\n", None, "colour"),
    "missing column": ("key,confidence\na,0.5\n", 1, "predicted"),
    "no header": ("a,YES\nb,NO\n", None, "a"),
    "too few cells": ("key,predicted\na,YES\nb\n", 2, "row"),
    "too many cells": ("key,predicted\na,YES\nb,NO,x\n", 2, "row"),
    "half of UTF-16": (b"\xff\xfe" + PLAIN.encode("utf-16-le")[:-3], None, "body"),
    "open quote": ('key,predicted\n"a,YES\n', None, "body"),
    "text behind a quote": ('key,predicted\n"a"b,YES\n', None, "body"),
    "NUL": ("key,predicted\na\0b,YES\n", 1, "key"),
    "confidence is no number": ("predicted,confidence\nYES,high\n", 1, "confidence"),
    "confidence is NaN": ("predicted,confidence\nYES,NaN\n", 1, "confidence"),
    "confidence is Infinity": ("predicted,confidence\nYES,Infinity\n", 1, "confidence"),
    "confidence overflows": ("predicted,confidence\nYES,1e999\n", 1, "confidence"),
    "confidence with a comma": ('predicted,confidence\nYES,"0,5"\n', 1, "confidence"),
    "confidence with underscores": ("predicted,confidence\nYES,0_1\n", 1, "confidence"),
    "confidence above one": ("predicted,confidence\nYES,1.000002\n", 1, "confidence"),
    "no such day": ("predicted,asked_at\nYES,2026-02-30T00:00:00Z\n", 1, "asked_at"),
    "metadata is no JSON": ("predicted,metadata\nYES,{a}\n", 1, "metadata"),
    "metadata is no object": ("predicted,metadata\nYES,[1]\n", 1, "metadata"),
    "metadata holds NaN": ('predicted;metadata\nYES;{"a":NaN}\n', 1, "metadata"),
    "unknown class": ("predicted\nyep\n", 1, "predicted"),
    "unknown label": ("predicted,label\nYES,vague\n", 1, "label"),
    "unknown sampling": ("predicted,sampling\nYES,Random\n", 1, "sampling"),
    "name too long": (f"key,predicted\n{'k' * 201},YES\n", 1, "key"),
    "version *": ("predicted,version\nYES,*\n", 1, "version"),
    "field over the limit of the reader": (f"predicted,note\nYES,{LONG}\n", 1, "note"),
    "image address": ("predicted,image_url\nYES,javascript:alert(1)\n", 1, "image_url"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("kind", BAD)
def test_what_is_wrong_is_named_and_nothing_is_written(api, door, tables, kind):
    before = tables()
    content, row, field = BAD[kind]
    assert_problem(api.send_file(PATH, content), 422, field=field, row=row)
    assert tables() == before


def test_of_thousands_of_wrong_columns_a_hundred_are_named(api, door):
    header = ",".join(f"c{number}" for number in range(5_000))
    for content in (f"predicted,{header}\n", f"predicted,{header},{header}\n"):
        sent = api.send_file(PATH, content)
        errors = assert_problem(sent, 422)["errors"]
        assert len(errors) == 101
        assert errors[-1]["field"] == "columns"
        assert errors[-1]["message"].endswith("00 more are wrong")
        assert len(sent.data) < 50_000


def test_of_a_long_input_a_hash_is_kept_and_that_is_said(api, door):
    sent = api.send_file(PATH, f"predicted,input\nYES,{'k' * 201}\n")
    (query,) = api.get("/detectors/door/queries").json["items"]
    assert query["input"] == f"sha256:{sha256(b'k' * 201).hexdigest()}"
    assert "texts of more than 200 characters" in sent.text


def test_a_header_alone_adds_nothing(api, door, tables):
    before = tables()
    sent = api.send_file(PATH, "key,predicted\n")
    assert sent.status_code == 200
    assert sent.json["queries_added"] == sent.json["unchanged"] == 0
    assert tables() == before


def test_a_text_that_was_quoted_against_spreadsheets_is_unquoted(api, door):
    api.send_file(PATH, "key,predicted\n'=1+1,YES\n'plain,NO\n''@a,NO\n")
    keys = {query["key"] for query in api.walk("/detectors/door/queries")}
    assert keys == {"=1+1", "'plain", "'@a"}
