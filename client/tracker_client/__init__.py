"""Log predictions and labels to a Tracker server without ever waiting for it."""

from tracker_client.estimates import Estimate
from tracker_client.server import ServerError, UnreachableError
from tracker_client.tracker import Detector, Tracker

__all__ = ["Detector", "Estimate", "ServerError", "Tracker", "UnreachableError"]
