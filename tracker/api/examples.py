"""An example of each body and answer, for the documentation."""

from typing import Any

from tracker.api.planning_examples import PLANNING_EXAMPLES

_INSTANT = "2026-01-31T13:45:00Z"
_NEXT = "http://localhost:8000/api/v1/detectors?limit=1&after=det_1"
_DETECTOR = {
    "id": "det_1",
    "name": "door",
    "question": "Is the door closed?",
    "classes": ["YES", "NO"],
    "confidence_level": 0.95,
    "target": 0.9,
    "audit_rate": 1.0,
    "labels_wanted": 1,
    "created_at": _INSTANT,
    "archived_at": None,
    "versions": [{"name": "v3", "created_at": _INSTANT}],
}
_QUERY = {
    "id": "iq_16777216",
    "detector": "det_1",
    "key": "frame-0001",
    "input": "frame-0001.jpg",
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
    "agreement": None,
}
_NEXT_QUERY = {
    "id": "iq_16777216",
    "detector": "det_1",
    "question": "Is the door closed?",
    "classes": ["YES", "NO"],
    **{name: _QUERY[name] for name in ("key", "input", "asked_at", "metadata")},
    **{name: _QUERY[name] for name in ("image_url", "image")},
    "sampling": "random",
    "reserved_until": "2026-01-31T13:50:00Z",
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
    "low": 0.6310666505176896,
    "high": 0.9393570912747284,
}
_NO = {
    "correct": 41,
    "labelled": 44,
    "accuracy": 0.9318181818181818,
    "low": 0.8134379898466336,
    "high": 0.9857123316715961,
}
_BALANCED = {
    "accuracy": 0.8766233766233766,
    "low": 0.6996243567934961,
    "high": 0.9691065488084805,
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
_REPORT = {
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
}
_IMPORT = {
    "id": "imp_1",
    "detector": "det_1",
    "state": "done",
    "on_error": "skip",
    "rows_read": 2,
    "bytes": 61,
    "bytes_read": 61,
    "created_at": _INSTANT,
    "started_at": _INSTANT,
    "finished_at": "2026-01-31T13:45:01Z",
    "report": _REPORT,
    "error": None,
}
_STUDY = {
    "id": "stu_1",
    "detector": "det_1",
    "name": "bootstrap of the tree",
    "kind": "bootstrap",
    "version": "v3",
    "note": "200 rounds on 127 irises, seed 12345",
    "rounds": 200,
    "added_by": "carol",
    "created_at": _INSTANT,
}
_COMPARISON = {
    "detector": "det_1",
    "name": "door",
    "old": "v2",
    "new": "v3",
    "computed_at": _INSTANT,
    "confidence_level": 0.95,
    "paired": {
        "method": "exact",
        "pairs": 211,
        "disagreeing": 0,
        "classes": [
            {
                "class": "YES",
                "pairs": 50,
                "gained": 8,
                "lost": 1,
                "difference": 0.14,
                "low": 0.02131213878647623,
                "high": 0.2739749849262374,
                "p_value": 0.0390625,
            },
            {
                "class": "NO",
                "pairs": 161,
                "gained": 16,
                "lost": 6,
                "difference": 0.062111801242236024,
                "low": 0.004851133807557655,
                "high": 0.12384518511375282,
                "p_value": 0.052478790283203125,
            },
        ],
        "balanced": {
            "difference": 0.10105590062111802,
            "low": 0.0008692282936877405,
            "high": 0.21394141254116494,
        },
    },
    "unpaired": {
        "method": "exact",
        "classes": [
            {
                "class": "YES",
                "old": {"correct": 30, "labelled": 40, "accuracy": 0.75},
                "new": {"correct": 23, "labelled": 28, "accuracy": 0.8214285714285714},
                "difference": 0.0714285714285714,
                "low": -0.28174501191316464,
                "high": 0.38358320840660737,
            },
            {
                "class": "NO",
                "old": {
                    "correct": 130,
                    "labelled": 150,
                    "accuracy": 0.8666666666666667,
                },
                "new": {"correct": 41, "labelled": 44, "accuracy": 0.9318181818181818},
                "difference": 0.06515151515151507,
                "low": -0.12735748901939917,
                "high": 0.19708708167931735,
            },
        ],
        "balanced": {
            "difference": 0.06829004329004324,
            "low": -0.23362562810250288,
            "high": 0.3102959218412807,
        },
    },
    "verdict": "better",
    "verdict_from": "paired",
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
        "input": "frame-0001.jpg",
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
    "NextQuery": _NEXT_QUERY,
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
    "ImportReport": _REPORT,
    "Import": _IMPORT,
    "ImportPage": {"items": [_IMPORT], "next": None},
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
        "decision": {
            "verdict": "undecided",
            "target": 0.9,
            "method": "anytime",
            "low": 0.6938,
            "high": 0.9774,
        },
    },
    "Comparison": _COMPARISON,
    "HistoryPage": {
        "items": [
            _ROW,
            {**_ROW, "scope": "YES", **_YES},
            {**_ROW, "scope": "NO", **_NO},
        ],
        "next": None,
    },
    "NewStudy": {
        "name": "bootstrap of the tree",
        "kind": "bootstrap",
        "version": "v3",
        "note": "200 rounds on 127 irises, seed 12345",
        "rounds": [
            {"validation": 0.8958, "training": 0.9606, "no_information": 0.3333},
            {"validation": 0.8696, "training": 0.9528, "no_information": 0.3333},
        ],
    },
    "Study": _STUDY,
    "StudyPage": {"items": [_STUDY], "next": None},
    "StudyReport": {
        **_STUDY,
        "confidence_level": 0.95,
        "intervals": [
            {
                "method": "percentile",
                "accuracy": 0.9463377985233019,
                "low": 0.8695652173913043,
                "high": 1.0,
                "is_guaranteed": False,
                "meaning": "An approximation that covers the middle of the rounds just "
                "as they came; it does not cover what other data would give, nor that "
                "a round trains on only 63.2 % of its data and so does a little too "
                "badly.",
            }
        ],
    },
    **PLANNING_EXAMPLES,
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
