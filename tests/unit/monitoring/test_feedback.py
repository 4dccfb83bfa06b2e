"""Labels as clients send them: what is not meant so is refused in one sentence."""

import pytest

from calibsft.errors import InputError
from calibsft.monitoring import Feedback, read_feedback


def test_a_label_has_an_id_and_says_whether_each_model_is_right() -> None:
    assert read_feedback({"id": "r1", "correct": True}) == Feedback(id="r1", correct=True)
    given = {"id": "r1", "correct": False, "strong_correct": True}
    assert read_feedback(given).model_dump() == given
    assert read_feedback({**given, "strong_correct": None}).strong_correct is None


@pytest.mark.parametrize(
    "data, told",
    [
        ([], "'[]' is no object; send an object with id and correct"),
        ("\x1b[31mtext", "'\\x1b[31mtext' is no object"),
        ({}, "id is missing; add it"),
        ({"id": "r"}, "correct is missing; add it"),
        ({"id": 7, "correct": True}, "id = 7: input should be a valid string"),
        ({"id": "", "correct": True}, "id = '': string should have at least 1 character"),
        ({"id": "r" * 201, "correct": True}, "string should have at most 200 characters"),
        ({"id": "\ud800", "correct": True}, "id = '\\ud800': input should be a valid string"),
        ({"id": "r", "correct": "true"}, "correct = 'true': input should be a valid boolean"),
        ({"id": "r", "correct": 1}, "correct = 1: input should be a valid boolean"),
        ({"id": "r", "correct": None}, "correct = None: input should be a valid boolean"),
        ({"id": "r", "correct": [True]}, "correct = [True]: input should be a valid boolean"),
        ({"id": "r", "correct": True, "strong_correct": "no"}, "strong_correct = 'no': input should be"),
        ({"id": "r", "correct": True, "strong": True}, "unknown key 'strong'; did you mean 'strong_correct'?"),
        ({"id": "r", "correct": True, "\x1b]0;": 1}, "unknown key"),
    ],
)  # fmt: skip
def test_anything_else_is_refused(data: object, told: str) -> None:
    with pytest.raises(InputError) as error:
        read_feedback(data)
    said = str(error.value)
    assert said.startswith("feedback: ") and told in said and "\n" not in said and len(said) < 400
