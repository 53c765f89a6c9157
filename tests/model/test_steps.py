"""The steps of the assignment model are named as what does them: a new name in the code needs one in the model."""

from collections.abc import Callable, Mapping

from app.catalog.registrar import Registration
from app.consumer.commits import mark_set_offsets
from app.delivery.assignment import Assignment
from app.delivery.deliver import Upload
from app.journal.log import AssignmentLog
from app.journal.own_log import OwnLog
from app.journal.recovery import Settlement, roll_forward
from app.journal.takeover import _Attempt
from app.storage.document import Document
from tests.faults.steps import STEPS
from tests.model.assignment_model import Bounds, Model

DONE_BY: Mapping[str, Callable[..., object]] = {
    "read claim": _Attempt._read_claim,
    "read log": Document.read,
    "close": _Attempt._close,
    "check files": Settlement._list_missing,
    "keep": AssignmentLog.kept,
    "roll back": AssignmentLog.rolled_back,
    "register theirs": roll_forward,
    "done theirs": AssignmentLog.done,
    "take over": OwnLog.take_over,
    "point": _Attempt._point,
    "fill": OwnLog.remove_rolled_back,
    "mark": mark_set_offsets,
    "run": Assignment.take,
    "intend": OwnLog.intend,
    "advance": OwnLog.advance,
    "upload": Upload.run,
    "verify": OwnLog.verify,
    "register": Registration.run,
}
WRONG = {"fill before rolling back"}  # what a model does without a rule
OF_SERVERS_ALONE = {"read footer", "create table", "done"}


def test_each_step_of_the_model_is_done_by_a_function() -> None:
    assert Model(Bounds())._steps.keys() == DONE_BY.keys() | WRONG


def test_the_steps_that_meet_faults_are_those_of_the_model() -> None:
    assert {name for name in STEPS if not any(step in name for step in DONE_BY)} == OF_SERVERS_ALONE
