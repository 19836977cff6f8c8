"""An example of each body and answer, for the documentation."""

from typing import Any

from tracker.api.deciding.comparison_example import BALANCED, COMPARISON, NO, YES
from tracker.api.deciding.planning_examples import PLANNING_EXAMPLES
from tracker.api.labelling.audit_examples import AUDIT_EXAMPLES
from tracker.api.labelling.team_examples import TEAM_EXAMPLES
from tracker.api.telling.webhook_examples import WEBHOOK_EXAMPLES

_INSTANT = "2026-01-31T13:45:00Z"
_NEXT = "http://localhost:8000/api/v1/detectors?limit=1&after=det_1"
_DETECTOR = {
    "id": "det_1",
    "name": "door",
    "question": "Is the door closed?",
    "classes": ["YES", "NO"],
    "confidence_level": 0.95,
    "target": 0.9,
    "guideline": "YES if you see no gap.\nUNCLEAR if the door is out of sight.",
    "queue_rate": 1.0,
    "gold_rate": 0.05,
    "labels_wanted": 1,
    "method": "joint",
    "stalled_after_hours": None,
    "production_version": None,
    "added_classes": [],
    "predictor": None,
    "slices": ["camera"],
    "text_field": None,
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
    "is_repeat": False,
    "tags": ["blurry"],
}
_NEXT_QUERY = {
    "id": "iq_16777216",
    "detector": "det_1",
    "question": "Is the door closed?",
    "classes": ["YES", "NO"],
    **{name: _QUERY[name] for name in ("key", "input", "asked_at", "metadata")},
    **{name: _QUERY[name] for name in ("image_url", "image")},
    "sampling": "random",
    "recheck": False,
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
    "source": None,
}
_ROW = {
    "computed_at": _INSTANT,
    "detector": "door",
    "version": "v3",
    "labels": 72,
    "scope": "balanced",
    "correct": 64,
    "labelled": 72,
    **BALANCED,
    "confidence_level": 0.95,
    "method": "exact",
    "formula": 1,
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
    "percent": 100,
    "rows": 2,
    "rows_done": 2,
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
_ESTIMATE = {
    "detector": "det_1",
    "name": "door",
    "version": "v3",
    "computed_at": _INSTANT,
    "confidence_level": 0.95,
    "method": "exact",
    "labels": 72,
    "last_label_at": _INSTANT,
    "unclear": 1,
    "corrections": 2,
    "unstated": 0,
    "targeted_left_out": 5,
    "repeats_left_out": 2,
    "includes_targeted": False,
    "classes": [{"class": "YES", **YES}, {"class": "NO", **NO}],
    "balanced": BALANCED,
    "confusion": {"YES": {"YES": 23, "NO": 5}, "NO": {"YES": 3, "NO": 41}},
    "target": 0.9,
    "decision": {
        "verdict": "undecided",
        "target": 0.9,
        "method": "anytime",
        "low": 0.6938,
        "high": 0.9774,
        "labels_to_decide": 3222,
    },
    "no_decision_because": None,
    "window": None,
    "as_known_at": None,
}
_BADGE = {"id": "bdg_1", "created_at": _INSTANT, "created_by": "ann"}
_OVERALL = {
    "correct": 64,
    "labelled": 72,
    "accuracy": 0.8888888888888888,
    "low": 0.7927,
    "high": 0.9508,
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
    "QueryPage": {"items": [_QUERY], "next": None, "total": 1},
    "NextQuery": _NEXT_QUERY,
    "QueryCompletion": {"predicted": "YES", "confidence": 0.97, "version": "v3"},
    "NewLabel": {"label": "NO", "sampling": "random", "note": "A hand is in the way."},
    "NewTags": {"tags": ["blurry"]},
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
    "Mapping": {
        "columns": {"predicted": "answer", "asked_at": "when"},
        "classes": {"closed": "YES", "open": "NO"},
        "extra": "metadata",
        "time_zone": "Europe/Berlin",
        "time_format": None,
    },
    "ImportPage": {"items": [_IMPORT], "next": None},
    "Estimate": _ESTIMATE,
    "MeasuredEstimate": {**_ESTIMATE, "overall": _OVERALL},
    "MadeBadge": {
        **_BADGE,
        "token": "kf83nVdP0dZ0pWb1Vb7bqkYzv1r9Wm2c",
        "svg": "http://localhost:8000/badge/kf83nVdP0dZ0pWb1Vb7bqkYzv1r9Wm2c.svg",
        "json": "http://localhost:8000/badge/kf83nVdP0dZ0pWb1Vb7bqkYzv1r9Wm2c.json",
        "embed": "http://localhost:8000/embed/kf83nVdP0dZ0pWb1Vb7bqkYzv1r9Wm2c",
    },
    "BadgePage": {"items": [_BADGE], "next": None},
    "Comparison": COMPARISON,
    "HistoryPage": {
        "items": [
            _ROW,
            {**_ROW, "scope": "YES", **YES},
            {**_ROW, "scope": "NO", **NO},
        ],
        "next": None,
    },
    "LabelFile": {
        "items": [
            {
                "query": "iq_1",
                "key": "frame-0001",
                "version": "v3",
                "predicted": "YES",
                "confidence": 0.97,
                "asked_at": _INSTANT,
                "metadata": {"camera": "north"},
                "label": "NO",
                "sampling": "random",
                "note": None,
                "labeler": "alice",
                "labelled_at": _INSTANT,
                "is_current": True,
                "input": None,
                "is_repeat": False,
                "tags": ["blurry"],
            }
        ],
        "next": None,
    },
    "RoundFile": {
        "items": [{"validation": 0.8958, "training": 0.9606, "no_information": 0.3333}],
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
    **WEBHOOK_EXAMPLES,
    **AUDIT_EXAMPLES,
    **TEAM_EXAMPLES,
    "Problem": {
        "type": "about:blank",
        "title": "Invalid input",
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
