"""How many labels an audit is said to take, seen from where it stands."""

from tracker.services.labelling.auditing.audit_estimates import expected_in_all
from tracker.stats import Step
from tracker.storage.labelling.audits import Audit

SET = 2_000


def test_of_a_few_labels_both_forecasts_are_those_of_the_beginning() -> None:
    audit = Audit(
        classes=["YES", "NO"],
        target=0.8,
        labels_expected=1_600,
        labels_at_random=1_700,
    )
    chosen, at_random = Step(60, 0.182, 0.805), Step(60, 0.187, 0.799)
    assert expected_in_all(audit, SET, chosen) == 1_600
    assert expected_in_all(audit, SET, at_random, at_random=True) == 1_700
    # What is there is there, after however few labels.
    assert expected_in_all(audit, SET, at_random) == 60
    # Of many labels the interval itself tells.
    assert expected_in_all(audit, SET, at_random._replace(labels=200)) == 200
    assert expected_in_all(audit, SET, Step(200, 0.18, 0.81)) < 400
