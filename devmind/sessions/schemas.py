"""The protobuf classes of a session's messages: Foxglove's where one fits, else our own.

The descriptors of our own messages are built here, in Python: they are small, and a generated file would require one
protobuf release. Up to 64 numbers get a schema with a field for each, because viewers plot fields, not bytes: beside
the fields of `devmind.Array` it has one double for each number, with the source's names.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

IMAGE, AUDIO, LOG = "foxglove.RawImage", "foxglove.RawAudio", "foxglove.Log"
CAMERA = "foxglove.CompressedImage"
ARRAY, TICK = "devmind.Array", "devmind.Tick"
NUMBERS = "devmind.Numbers_"
"""Prefix of the schemas of few numbers; the rest distinguishes their fields."""
MAX_FIELDS = 64

_Field = tuple[str, str, bool]
_ARRAY_FIELDS: tuple[_Field, ...] = (("dtype", "STRING", False), ("shape", "INT64", True), ("data", "BYTES", False))
_TICK_FIELDS: tuple[_Field, ...] = (
    ("time_s", "DOUBLE", False),
    ("reward", "DOUBLE", False),
    ("first", "BOOL", False),
    ("last", "BOOL", False),
    ("terminal", "BOOL", False),
    ("senses", "STRING", True),
    ("acted", "BOOL", False),
    ("effectors", "STRING", True),
)
_FIRST_NUMBER = 16
_fields_by_schema: dict[str, tuple[str, ...]] = {}


def fields_of(shape: Sequence[int], size: int, names: Sequence[str]) -> tuple[str, ...]:
    """Field names of an array's `size` numbers in its schema: `names` in a form that protobuf allows, else n0, n1, …

    A single number without dimensions is called `value`. Empty for too many numbers, or none.
    """
    if not 1 <= size <= MAX_FIELDS:
        return ()
    if len(names) == size:
        fitting = tuple(_identifier(name) for name in names)
        taken = {field for field, _, _ in _ARRAY_FIELDS}
        if len({name.replace("_", "").lower() for name in fitting} - taken) == size:  # protobuf distinguishes no finer
            return fitting
    return tuple(f"n{k}" for k in range(size)) if shape else ("value",)


def numbers_schema(fields: tuple[str, ...]) -> str:
    """The schema of numbers with these fields."""
    schema = f"{NUMBERS}{zlib.crc32(','.join(fields).encode()):08x}"
    _fields_by_schema[schema] = fields
    return schema


@cache
def message_class(schema: str) -> Callable[..., Any]:
    """The protobuf class of a schema; for numbers, with the fields given to `numbers_schema` in this process."""
    from google.protobuf import descriptor_pool, message_factory

    package, name = schema.split(".")
    if package == "foxglove":
        from foxglove_schemas_protobuf import CompressedImage_pb2, Log_pb2, RawAudio_pb2, RawImage_pb2

        known: dict[str, Any] = {
            "CompressedImage": CompressedImage_pb2.CompressedImage,
            "Log": Log_pb2.Log,
            "RawAudio": RawAudio_pb2.RawAudio,
            "RawImage": RawImage_pb2.RawImage,
        }
        return known[name]
    pool = descriptor_pool.DescriptorPool()
    pool.Add(_own_file(schema))
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(schema))


def schema_bytes(schema: str) -> bytes:
    """The serialized FileDescriptorSet MCAP asks for: the message's file and everything it imports."""
    from google.protobuf import descriptor_pb2

    files: dict[str, Any] = {}

    def visit(file: Any) -> None:
        for dependency in file.dependencies:
            visit(dependency)
        if file.name not in files:
            files[file.name] = descriptor_pb2.FileDescriptorProto()
            file.CopyToProto(files[file.name])

    visit(message_class(schema).DESCRIPTOR.file)  # type: ignore[attr-defined]
    return descriptor_pb2.FileDescriptorSet(file=list(files.values())).SerializeToString()


def _identifier(name: str) -> str:
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)
    taken = plain in {field for field, _, _ in _ARRAY_FIELDS}
    return plain if plain[:1].isalpha() and not taken else f"n_{plain}"


def _own_file(schema: str) -> Any:
    """The file of one message of ours."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

    name = schema.partition(".")[2]
    fields = list(enumerate(_TICK_FIELDS if schema == TICK else _ARRAY_FIELDS, start=1))
    numbers = _fields_by_schema.get(schema, ())
    fields += [(k, (field, "DOUBLE", False)) for k, field in enumerate(numbers, start=_FIRST_NUMBER)]
    file = FileDescriptorProto(name=f"devmind/{name}.proto", package="devmind", syntax="proto3")
    message = file.message_type.add(name=name)
    for number, (field, kind, repeated) in fields:
        label = FieldDescriptorProto.LABEL_REPEATED if repeated else FieldDescriptorProto.LABEL_OPTIONAL
        kind_number = getattr(FieldDescriptorProto, f"TYPE_{kind}")
        message.field.add(name=field, number=number, type=kind_number, label=label)
    return file
