"""An example of each body and answer about events and webhooks."""

from typing import Any

_INSTANT = "2026-01-31T13:45:00Z"
# The bytes are those of the text that counts to 31.
_SECRET = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="  # noqa: S105 - of nobody.
_DATA = {
    "detector": "det_1",
    "name": "door",
    "version": "v3",
    "verdict": "met",
    "before": "undecided",
    "target": 0.9,
    "confidence_level": 0.95,
    "method": "anytime",
    "low": 0.902,
    "high": 0.981,
    "labels": 412,
}
_EVENT = {
    "id": "evt_7",
    "type": "verdict.changed",
    "timestamp": _INSTANT,
    "detector": "det_1",
    "version": "v3",
    "data": _DATA,
}
_WEBHOOK = {
    "id": "whk_1",
    "url": "https://example.org/hook",
    "events": ["verdict.changed", "labels.stalled"],
    "detectors": ["det_1"],
    "format": "standard",
    "created_by": "alice",
    "created_at": _INSTANT,
    "is_enabled": True,
    "disabled_at": None,
    "disabled_because": None,
}
_DELIVERY = {
    "id": "dlv_12",
    "message": "evt_7",
    "event": "evt_7",
    "type": "verdict.changed",
    "state": "waiting",
    "attempts": 1,
    "created_at": _INSTANT,
    "last_tried_at": _INSTANT,
    "next_try_at": "2026-01-31T13:45:05Z",
    "status": 503,
    "error": None,
}
_AGREEMENT = {
    "correct": 1,
    "labelled": 1,
    "accuracy": 1.0,
    "low": 0.024999999999999998,
    "high": 1.0,
}
WEBHOOK_EXAMPLES: dict[str, dict[str, Any]] = {
    "JudgeReport": {
        "detector": "det_1",
        "name": "door",
        "version": "v1",
        "confidence_level": 0.95,
        "items": [
            {
                "name": "llm",
                "kind": "model",
                "judgements": 3,
                "labelled": 2,
                "classes": [
                    {
                        "class": name,
                        "sensitivity": _AGREEMENT,
                        "specificity": _AGREEMENT,
                    }
                    for name in ("YES", "NO")
                ],
            }
        ],
    },
    "JudgementPage": {
        "items": [
            {
                "judge": "llm",
                "kind": "model",
                "judged": "YES",
                "score": 0.9,
                "explanation": None,
                "judged_at": _INSTANT,
            }
        ],
        "next": None,
    },
    "NewWebhook": {
        "url": "https://example.org/hook",
        "events": ["verdict.changed", "labels.stalled"],
        "detectors": ["door"],
    },
    "WebhookChange": {"is_enabled": True},
    "Webhook": _WEBHOOK,
    "MadeWebhook": {**_WEBHOOK, "secret": _SECRET},
    "WebhookSecret": {
        "id": "whk_1",
        "secret": _SECRET,
        "old_secret_until": "2026-02-01T13:45:00Z",
    },
    "WebhookPage": {"items": [_WEBHOOK], "next": None},
    "Event": _EVENT,
    "EventPage": {"items": [_EVENT], "next": None},
    "Delivery": _DELIVERY,
    "DeliveryPage": {"items": [_DELIVERY], "next": None},
}
