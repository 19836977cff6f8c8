"""An example of each calculation and plan, for the documentation."""

from typing import Any

PLANNING_EXAMPLES: dict[str, dict[str, Any]] = {
    "CalculatedIntervals": {
        "method": "exact",
        "is_guaranteed": True,
        "confidence_level": 0.95,
        "side": "both",
        "set_size": None,
        "classes": [
            {
                "correct": 23,
                "labelled": 28,
                "accuracy": 0.8214285714285714,
                "low": 0.6310666505176896,
                "high": 0.9393570912747284,
            },
            {
                "correct": 41,
                "labelled": 44,
                "accuracy": 0.9318181818181818,
                "low": 0.8134379898466336,
                "high": 0.9857123316715961,
            },
        ],
        "balanced": {
            "accuracy": 0.8766233766233766,
            "low": 0.6996243567934961,
            "high": 0.9691065488084805,
        },
    },
    "Coverage": {
        "method": "normal",
        "is_guaranteed": False,
        "confidence_level": 0.95,
        "labelled": [50],
        "accuracy": [0.99],
        "holds": 0.39484824359447707,
        "above": 0.6050060671375364,
        "below": 0.00014568926798645213,
        "expected_width": 0.026880743625633134,
    },
    "LabelPlan": {
        "detector": "det_1",
        "name": "door",
        "version": "v3",
        "computed_at": "2026-01-31T13:45:00Z",
        "confidence_level": 0.95,
        "width": 0.1,
        "target": 0.9,
        "accuracy": None,
        "power": 0.8,
        "more": 200,
        "classes": [
            {
                "class": "YES",
                "correct": 23,
                "labelled": 28,
                "for_width": 214,
                "for_balanced_width": 212,
                "to_certify": None,
                "chance_to_certify": 2.767073642715595e-09,
            },
            {
                "class": "NO",
                "correct": 41,
                "labelled": 44,
                "for_width": 71,
                "for_balanced_width": 151,
                "to_certify": 608,
                "chance_to_certify": 0.3891338565433225,
            },
        ],
        "for_balanced_width": 363,
        "next": {"class": "YES", "reason": "narrows_most"},
    },
}
