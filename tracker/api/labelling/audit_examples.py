"""An example of each body and answer of audits, for the documentation."""

from typing import Any

_INSTANT = "2026-01-31T13:45:00Z"
_AUDIT = {
    "id": "aud_1",
    "detector": "det_1",
    "name": "November, all lines",
    "version": "v3",
    "since": "2025-11-01T00:00:00Z",
    "until": "2025-12-01T00:00:00Z",
    "where": ["metadata.camera:north"],
    "aim": "balanced",
    "half_width": 0.025,
    "target": None,
    "confidence_level": 0.95,
    "queries": 5192,
    "labels_expected": 390,
    "labels_at_random": 580,
    "created_by": "mara",
    "created_at": _INSTANT,
    "paused_at": None,
    "closed_at": None,
    "extensions": [
        {
            "at": _INSTANT,
            "by": "mara",
            "half_width_before": 0.05,
            "half_width": 0.025,
            "labels": 140,
        }
    ],
    "result": None,
    "key": None,
}
_CLASSES = [
    {
        "class": "YES",
        "correct": 206,
        "labelled": 211,
        "accuracy": 0.981,
        "low": 0.955,
        "high": 0.996,
    },
    {
        "class": "NO",
        "correct": 82,
        "labelled": 96,
        "accuracy": 0.896,
        "low": 0.829,
        "high": 0.943,
    },
]
_BALANCED = {"accuracy": 0.9385, "low": 0.906, "high": 0.967}

AUDIT_EXAMPLES: dict[str, dict[str, Any]] = {
    "NewAudit": {
        "name": "November, all lines",
        "version": "v3",
        "since": "2025-11-01T00:00:00Z",
        "until": "2025-12-01T00:00:00Z",
        "where": ["metadata.camera:north"],
        "aim": "balanced",
        "half_width": 0.025,
    },
    "AuditChange": {"half_width": 0.025},
    "AuditSummary": _AUDIT,
    "AuditPage": {"items": [_AUDIT], "next": None},
    "AuditDraws": {
        "items": [
            {
                "draw": 307,
                "id": "iq_16777216",
                "detector": "det_1",
                "question": "Is the seal intact?",
                "classes": ["YES", "NO"],
                "key": "seal-03350",
                "input": None,
                "asked_at": _INSTANT,
                "metadata": {"camera": "north"},
                "image_url": None,
                "image": None,
                "sampling": "targeted",
                "recheck": False,
                "reserved_until": "2026-01-31T14:15:00Z",
            }
        ],
        "next": None,
    },
    "SetEstimate": {
        "audit": "aud_1",
        "detector": "det_1",
        "name": "seal-intact",
        "version": "v3",
        "computed_at": _INSTANT,
        "confidence_level": 0.95,
        "method": "active",
        "labels": 307,
        "last_label_at": "2026-01-31T13:45:00Z",
        "unclear": 0,
        "corrections": 0,
        "unstated": 0,
        "targeted_left_out": 0,
        "repeats_left_out": 0,
        "includes_targeted": False,
        "classes": _CLASSES,
        "balanced": _BALANCED,
        "confusion": {"YES": {"YES": 206, "NO": 5}, "NO": {"YES": 14, "NO": 82}},
        "target": None,
        "decision": None,
        "no_decision_because": "the audit has no target",
        "queries": 5192,
        "overall": {
            "correct": 288,
            "labelled": 307,
            "accuracy": 0.968,
            "low": 0.948,
            "high": 0.982,
        },
        "draws": 308,
        "open_draws": 1,
        "labels_used": 307,
        "half_width": 0.0305,
        "is_reached": False,
        "labels_left": 150,
    },
    "AuditHistory": {
        "items": [
            {
                "at": _INSTANT,
                "draws": 307,
                "labels_expected": 390,
                "labels": 307,
                "classes": _CLASSES,
                "balanced": _BALANCED,
            }
        ],
        "next": None,
    },
}
