"""Messages decode to what was encoded: any numeric dtype, any shape, any text."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf import descriptor_pb2
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from devmind.errors import SessionError
from devmind.moment import same_arrays
from devmind.sessions.messages import as_s16, decode, encode
from devmind.sessions.schemas import ARRAY, AUDIO, IMAGE, LOG, NUMBERS, TICK, fields_of, message_class, schema_bytes

NUMERIC = st.one_of(hnp.boolean_dtypes(), hnp.integer_dtypes(), hnp.unsigned_integer_dtypes(), hnp.floating_dtypes())


@given(
    hnp.arrays(NUMERIC, hnp.array_shapes(min_dims=0, min_side=0, max_side=4)),
    st.sampled_from(["sound", "sight", "own"]),
)
def test_every_array_round_trips_bit_for_bit(value: np.ndarray, name: str) -> None:
    back = decode(*encode(name, value, 0))
    assert same_arrays({name: value}, {name: back})
    assert isinstance(back, np.ndarray)
    assert back.flags.writeable


@given(st.text(st.characters()))
def test_every_text_round_trips(text: str) -> None:
    assert decode(*encode("words", text, 0)) == text


def test_a_lone_surrogate_round_trips() -> None:
    assert decode(*encode("words", "a\ud800b", 0)) == "a\ud800b"


def test_senses_use_schemas_that_viewers_know() -> None:
    assert encode("sight", np.zeros((4, 5, 3), np.uint8), 0)[0] == IMAGE
    assert encode("sound", np.full((2, 3), -0.5, np.float32), 0)[0] == AUDIO
    assert encode("words", "hello", 0)[0] == LOG
    assert encode("body", np.zeros(3, np.float32), 0)[0].startswith(NUMBERS)
    assert encode("periphery", np.zeros((1, 16, 16), np.float32), 0)[0] == ARRAY, "too many to plot"


def test_a_few_numbers_become_named_fields() -> None:
    value = np.array([0.5, np.nan, -2], ">f2")
    schema, data = encode("body", value, 0, ["pan", "2nd joint", "data"])
    message = message_class(schema).FromString(data)  # type: ignore[attr-defined]
    assert (message.pan, message.n_2nd_joint, message.n_data) == (0.5, pytest.approx(np.nan, nan_ok=True), -2)
    assert same_arrays({"body": value}, {"body": decode(schema, data)})
    assert message_class(encode("say", np.array(7), 0)[0])().DESCRIPTOR.fields[-1].name == "value"


@pytest.mark.parametrize("names", [(), ("a",), ("a.b", "a_b"), ("aB", "a_b")])
def test_numbers_without_fitting_names_are_counted(names: tuple[str, ...]) -> None:
    assert fields_of((2,), 2, names) == ("n0", "n1")


@pytest.mark.parametrize("sample", [1.0, -0.0, 1 / 65536, np.nan, np.inf, -1.0000001])
def test_sound_off_the_16_bit_grid_is_kept_exactly(sample: float) -> None:
    sound = np.array([[0.25, sample]], np.float32)
    assert as_s16(sound) is None
    assert same_arrays({"sound": sound}, {"sound": decode(*encode("sound", sound, 0))})


def test_the_limits_of_the_16_bit_grid_are_on_it() -> None:
    assert as_s16(np.array([[-1.0, 32767 / 32768]], np.float32)).tolist() == [[-32768, 32767]]


@pytest.mark.parametrize("value", [[1, 2], 3.0, None, np.array(["a"]), np.array([None]), np.zeros(2, complex)])
def test_other_types_are_refused(value: object) -> None:
    with pytest.raises(SessionError, match="numeric numpy array or a str"):
        encode("own", value, 0)


@pytest.mark.parametrize("schema", [IMAGE, AUDIO, LOG, ARRAY, "somebody.Else"])
def test_damaged_messages_are_refused(schema: str) -> None:
    with pytest.raises(SessionError, match="cannot be decoded"):
        decode(schema, b"\xff\xff\xff")


def test_an_array_of_objects_is_refused() -> None:
    schema, data = encode("own", np.zeros(1, np.int64), 0)
    with pytest.raises(SessionError, match="cannot be decoded"):
        decode(schema, data.replace(b"<i8", b"|O8"))


@pytest.mark.parametrize("schema", [IMAGE, AUDIO, LOG, ARRAY, TICK])
def test_a_schema_includes_its_message_and_all_imports(schema: str) -> None:
    files = descriptor_pb2.FileDescriptorSet.FromString(schema_bytes(schema)).file
    package, name = schema.split(".")
    assert name in [message.name for file in files if file.package == package for message in file.message_type]
    given_names = {file.name for file in files}
    assert all(needed in given_names for file in files for needed in file.dependency)
