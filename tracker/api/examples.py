"""An example of each body and answer, for the documentation."""

from typing import Any

_INSTANT = "2026-01-31T13:45:00Z"
_NEXT = "http://localhost:8000/api/v1/detectors?limit=1&after=det_1"
_DETECTOR = {
    "id": "det_1",
    "name": "door",
    "question": "Is the door closed?",
    "classes": ["YES", "NO"],
    "confidence_level": 0.95,
    "target": 0.9,
    "created_at": _INSTANT,
    "archived_at": None,
    "versions": [{"name": "v3", "created_at": _INSTANT}],
}
_QUERY = {
    "id": "iq_16777216",
    "detector": "det_1",
    "key": "frame-0001",
    "predicted": "YES",
    "confidence": 0.97,
    "version": "v3",
    "asked_at": _INSTANT,
    "created_at": _INSTANT,
    "metadata": {"camera": 2},
    "image_url": None,
    "image": "http://localhost:8000/api/v1/queries/iq_16777216/image",
    "label": "NO",
    "sampling": "random",
}
_LABEL = {
    "id": "lab_33554432",
    "query": "iq_16777216",
    "label": "NO",
    "sampling": "random",
    "note": "A hand is in the way.",
    "labeler": "alice",
    "labelled_at": _INSTANT,
    "created_at": _INSTANT,
    "is_current": True,
}
_YES = {
    "correct": 23,
    "labelled": 28,
    "accuracy": 0.8214285714285714,
    "low": 0.6310551567788598,
    "high": 0.9393550586825389,
}
_NO = {
    "correct": 41,
    "labelled": 44,
    "accuracy": 0.9318181818181818,
    "low": 0.8133897379658938,
    "high": 0.9857117047129698,
}
_BALANCED = {
    "accuracy": 0.8766233766233766,
    "low": 0.6995736306553083,
    "high": 0.9691049853028706,
}
_ROW = {
    "computed_at": _INSTANT,
    "detector": "door",
    "version": "v3",
    "labels": 72,
    "scope": "balanced",
    "correct": 64,
    "labelled": 72,
    **_BALANCED,
    "confidence_level": 0.95,
    "method": "exact",
}

EXAMPLES: dict[str, dict[str, Any]] = {
    "NewDetector": {
        "name": "door",
        "question": "Is the door closed?",
        "classes": ["YES", "NO"],
        "confidence_level": 0.95,
        "target": 0.9,
    },
    "DetectorChange": {"target": 0.95},
    "Detector": _DETECTOR,
    "DetectorPage": {"items": [_DETECTOR], "next": _NEXT},
    "NewQuery": {
        "key": "frame-0001",
        "predicted": "YES",
        "confidence": 0.97,
        "version": "v3",
        "asked_at": _INSTANT,
        "metadata": {"camera": 2},
        "label": "NO",
        "sampling": "random",
    },
    "Query": _QUERY,
    "QueryPage": {"items": [_QUERY], "next": None},
    "NewLabel": {"label": "NO", "sampling": "random", "note": "A hand is in the way."},
    "Label": _LABEL,
    "LabelPage": {"items": [_LABEL], "next": None},
    "ImportBody": {
        "items": [
            {
                "key": "frame-0001",
                "predicted": "YES",
                "label": "NO",
                "sampling": "random",
            },
            {"key": "frame-0000", "label": "YES"},
        ]
    },
    "ImportReport": {
        "queries_added": 1,
        "labels_added": 1,
        "unchanged": 0,
        "bad_rows": 1,
        "errors": [
            {
                "row": 2,
                "field": "label",
                "message": "'MAYBE' is not right: it must be one of YES, NO, UNCLEAR",
            }
        ],
    },
    "Estimate": {
        "detector": "det_1",
        "name": "door",
        "version": "v3",
        "computed_at": _INSTANT,
        "confidence_level": 0.95,
        "method": "exact",
        "labels": 72,
        "unclear": 1,
        "targeted_left_out": 5,
        "includes_targeted": False,
        "classes": [{"class": "YES", **_YES}, {"class": "NO", **_NO}],
        "balanced": _BALANCED,
        "confusion": {"YES": {"YES": 23, "NO": 5}, "NO": {"YES": 3, "NO": 41}},
    },
    "HistoryPage": {
        "items": [
            _ROW,
            {**_ROW, "scope": "YES", **_YES},
            {**_ROW, "scope": "NO", **_NO},
        ],
        "next": None,
    },
    "Problem": {
        "type": "about:blank",
        "title": "The input is wrong",
        "status": 422,
        "detail": "predicted: 'MAYBE' is not right: it must be one of YES, NO",
        "errors": [
            {
                "field": "predicted",
                "message": "'MAYBE' is not right: it must be one of YES, NO",
            }
        ],
    },
}
TEXTS = {
    "text/csv": "key,predicted,confidence,label\r\nframe-0001,YES,0.97,NO\r\n",
    "application/x-ndjson": '{"key":"frame-0001","predicted":"YES","label":"NO"}\n',
}
