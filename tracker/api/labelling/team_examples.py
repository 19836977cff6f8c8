"""Examples of what teams that label use: re-checks, gold queries, assignments."""

from typing import Any

_INSTANT = "2026-01-31T13:45:00Z"
_LABEL_ERRORS = {
    "drawn_until": _INSTANT,
    "drawn": 200,
    "answered": 150,
    "counted": 150,
    "different": 4,
    "unanswered": 0,
    "untrusted_left_out": 0,
    "trusted": True,
    "assumption": "none: all second labels that count are by people trusted to know "
    "the truth",
    "error_high": 0.05998104030749131,
    "classes": [
        {
            "class": "YES",
            "drawn": 76,
            "different": 2,
            "error_high": 0.08052895143830507,
            "low": 0.788586739106716,
            "high": 1.0,
        },
        {
            "class": "NO",
            "drawn": 74,
            "different": 2,
            "error_high": 0.08264214421767695,
            "low": 0.7659753121878681,
            "high": 1.0,
        },
    ],
    "balanced": {"low": 0.7772810256472849, "high": 1.0},
}
_AGREEMENT = {
    "correct": 146,
    "labelled": 150,
    "accuracy": 0.9733333333333334,
    "low": 0.9331321232291973,
    "high": 0.9926874537012607,
}
_LABELER = {
    "name": "alice",
    "known": 150,
    "wrong": 4,
    "low": 0.007312546397276996,
    "high": 0.0668678766841764,
    "careless": False,
    "classes": [
        {
            "class": "YES",
            "known": 76,
            "wrong": 2,
            "low": 0.003203005344412228,
            "high": 0.09184952333235105,
        },
        {
            "class": "NO",
            "known": 74,
            "wrong": 2,
            "low": 0.0032900227177776143,
            "high": 0.09424433949394392,
        },
    ],
}
_ASSIGNMENT = {
    "labeler": "alice",
    "labels": 200,
    "done": 37,
    "made_by": "carol",
    "made_at": _INSTANT,
}
_GOLD = {
    "query": "iq_16777216",
    "key": "frame-1",
    "label": "NO",
    "marked_by": "carol",
    "marked_at": _INSTANT,
    "active": True,
    "answers": 12,
    "wrong": 1,
}
TEAM_EXAMPLES: dict[str, dict[str, Any]] = {
    "NewAssignment": {"labeler": "alice", "labels": 200},
    "Assignment": _ASSIGNMENT,
    "AssignmentList": {"items": [_ASSIGNMENT], "next": None},
    "NewGold": {"label": "NO"},
    "Gold": _GOLD,
    "GoldPage": {"items": [_GOLD], "next": None},
    "NewRechecks": {"count": 200, "version": "v3"},
    "RecheckReport": {
        "detector": "det_1",
        "version": "v3",
        "drawn": 200,
        "answered": 150,
        "waiting": 50,
        "label_errors": _LABEL_ERRORS,
    },
    "NewRecheck": {"label": "NO", "labeler": "house", "trusted": True},
    "Recheck": {
        "query": "iq_16777216",
        "label": "NO",
        "labeler": "house",
        "trusted": True,
        "note": None,
        "answered_at": _INSTANT,
    },
    "LabelerReport": {
        "detector": "det_1",
        "name": "door",
        "confidence_level": 0.95,
        "agreed": _AGREEMENT,
        "disputed": 4,
        "several": {
            "kappa": 0.9466571834992888,
            "low": 0.7542930152719732,
            "high": 0.9951135018721484,
            "labelers": 2,
            "queries": 150,
        },
        "pairs": [
            {
                "kappa": 0.9466571834992888,
                "low": 0.7816212400636027,
                "high": 0.9934554607635622,
                "labelers": ["alice", "house"],
                "agreed": _AGREEMENT,
            }
        ],
        "items": [_LABELER],
        "gold": [_LABELER],
    },
}
