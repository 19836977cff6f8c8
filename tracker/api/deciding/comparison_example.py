"""An example of a comparison, for the documentation."""

from typing import Any

_INSTANT = "2026-01-31T13:45:00Z"
YES = {
    "correct": 23,
    "labelled": 28,
    "accuracy": 0.8214285714285714,
    "low": 0.6310666505176896,
    "high": 0.9393570912747284,
}

NO = {
    "correct": 41,
    "labelled": 44,
    "accuracy": 0.9318181818181818,
    "low": 0.8134379898466336,
    "high": 0.9857123316715961,
}

BALANCED = {
    "accuracy": 0.8766233766233766,
    "low": 0.6996243567934961,
    "high": 0.9691065488084805,
}
COMPARISON: dict[str, Any] = {
    "detector": "det_1",
    "name": "door",
    "old": "v2",
    "new": "v3",
    "computed_at": _INSTANT,
    "confidence_level": 0.95,
    "paired": {
        "method": "exact",
        "pairs": 211,
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
            "low": 0.013105776928232496,
            "high": 0.1834445791348763,
        },
        "overall": {
            "difference": 0.08056872037914692,
            "low": 0.029496815081875245,
            "high": 0.13537569116643483,
            "method": "exact",
            "pairs": 211,
            "gained": 24,
            "lost": 7,
            "both": 160,
            "p_value": 0.003326892852783203,
        },
        "decision": {
            "verdict": "better",
            "method": "anytime",
            "won": 24,
            "lost": 7,
            "low": 0.5076916497725934,
            "high": 0.9471275929222616,
        },
    },
    "unpaired": {
        "method": "exact",
        "classes": [
            {
                "class": "YES",
                "old": {
                    "correct": 30,
                    "labelled": 40,
                    "accuracy": 0.75,
                    "low": 0.5880380197897662,
                    "high": 0.8730852011544638,
                },
                "new": YES,
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
                    "low": 0.801613032320789,
                    "high": 0.9166161934521355,
                },
                "new": NO,
                "difference": 0.06515151515151507,
                "low": -0.12735748901939917,
                "high": 0.19708708167931735,
            },
        ],
        "balanced": {
            "old": {
                "correct": 160,
                "labelled": 190,
                "accuracy": 0.8083333333333333,
                "low": 0.6787714037297645,
                "high": 0.9041756073406129,
            },
            "new": {"correct": 64, "labelled": 72, **BALANCED},
            "difference": 0.06829004329004324,
            "low": -0.23362562810250288,
            "high": 0.3102959218412807,
        },
    },
    "verdict": "better",
    "verdict_from": "paired",
}
