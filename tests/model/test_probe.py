"""Is this the audited model: one comparison for loading an artifact and for the sidecar."""

from types import SimpleNamespace

import numpy as np
import pytest

from fairmend.data.columns import Frame
from fairmend.model.answers import Answers
from fairmend.model.probe import Probe

SCORE = np.array([0.1, 0.5, 0.9])
DECISION = np.array([0.0, 0.0, 1.0])


def probe(score=SCORE):
    return Probe(Frame.read(np.arange(3)[:, None]), Answers(DECISION, score))


@pytest.mark.parametrize(
    ("decision", "score", "changed"),
    [
        (DECISION, SCORE, [False, False, False]),
        (DECISION, SCORE + 1e-9, [False, False, False]),
        (DECISION, np.array([0.1, 0.5, 0.95]), [False, False, True]),  # the decisions stay
        ([0.0, 1.0, 1.0], SCORE, [False, False, False]),  # a score at the cut
        ([1.0, 0.0, 1.0], SCORE, [True, False, False]),
        (DECISION, None, [True, True, True]),  # labels in place of scores
    ],
)
def test_another_score_or_decision_is_another_model(decision, score, changed):
    answers = Answers(np.array(decision), score)
    assert probe().changed(answers, 0.5).tolist() == changed


def test_labels_are_compared_as_they_are():
    answers = Answers(np.array([0.0, 1.0, 1.0]), None)
    assert probe(None).changed(answers, 0.5).tolist() == [False, True, False]


def test_rows_are_spread_over_groups_and_decisions():
    table = Frame.read(np.arange(40)[:, None])
    populations = [
        SimpleNamespace(rows=np.arange(30), decision=np.arange(30) % 2.0, score=None),
        SimpleNamespace(rows=np.arange(30, 40), decision=np.zeros(10), score=None),
    ]
    chosen = Probe.choose(table, populations, most=9)
    assert len(chosen.rows) == 9
    rows = chosen.rows.native[:, 0]
    assert (rows >= 30).sum() == 3
    assert chosen.answers.decision[rows < 30].sum() == 3
