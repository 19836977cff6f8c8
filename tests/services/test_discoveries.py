"""Which verdicts hold up together, by the measure of each detector."""

from sqlalchemy.orm import Session

from tests.conftest import by
from tests.services.conftest import Bench
from tracker.services.deciding.discoveries import find_discoveries
from tracker.services.detectors import DetectorChange, change_detector
from tracker.services.estimates.estimate import Estimate, get_estimate


def look(bench: Bench, session: Session, **change: object) -> Estimate:
    detector = bench.attached(session)
    wanted = DetectorChange.model_validate(change)
    change_detector(session, detector, wanted, by(at=bench.clock()))
    return get_estimate(session, detector, computed_at=bench.clock())


def test_a_verdict_holds_up_in_the_measure_that_it_is_on(bench: Bench) -> None:
    # Nearly all are right, and none of the rare class.
    bench.log_all([{"predicted": "YES", "label": "YES"}] * 290)
    bench.log_all([{"predicted": "YES", "label": "NO"}] * 10)
    with bench.database.write() as session:
        overall = look(bench, session, measure="overall", target=0.85)
        recall = look(bench, session, measure="recall:NO", target=0.85)
        balanced = look(bench, session, measure="balanced", target=0.85)
    verdicts = [
        one.decision.verdict
        for one in (overall, recall, balanced)
        if one.decision is not None
    ]
    assert verdicts == ["met", "missed", "missed"]
    assert find_discoveries([overall, recall, balanced]) == [True, True, True]
    assert find_discoveries([overall]) == [True]
