"""Compares carton-server/proto/open_inference.proto with the descriptors that clients have compiled in.

The types here are a part of theirs: each message, field, enum and call must be there with the same number, type and name.
"""

from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from grpc_tools import protoc
from tritonclient.grpc import model_config_pb2, service_pb2

PROTO = Path(__file__).parents[2] / "proto" / "open_inference.proto"


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    out = tmp_path_factory.mktemp("proto") / "set.bin"
    arguments = ["protoc", f"-I{PROTO.parent}", f"--descriptor_set_out={out}", str(PROTO)]
    assert protoc.main(arguments) == 0
    (file,) = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes()).file
    return file


@pytest.fixture(scope="module")
def theirs():
    merged = descriptor_pb2.FileDescriptorProto()
    for module in (model_config_pb2, service_pb2):
        file = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(file)
        merged.MergeFrom(file)
    return merged


def messages(file):
    """All messages by full name, nested ones and the entries of maps included."""
    pending = [(message.name, message) for message in file.message_type]
    while pending:
        name, message = pending.pop()
        yield name, message
        pending += [(f"{name}.{nested.name}", nested) for nested in message.nested_type]


def fields(message):
    """What decides the encoding of each field, by name."""
    choices = [choice.name for choice in message.oneof_decl]
    return {
        field.name: (
            field.number,
            field.type,
            field.label,
            field.type_name,
            choices[field.oneof_index] if field.HasField("oneof_index") else None,
        )
        for field in message.field
    }


def test_messages_have_the_fields_of_clients(ours, theirs):
    known = dict(messages(theirs))
    for name, message in messages(ours):
        assert fields(message).items() <= fields(known[name]).items(), name


def test_enums_have_the_numbers_of_clients(ours, theirs):
    def enums(file):
        yield from ((enum.name, enum) for enum in file.enum_type)
        for name, message in messages(file):
            yield from ((f"{name}.{enum.name}", enum) for enum in message.enum_type)

    known = {name: {value.name: value.number for value in enum.value} for name, enum in enums(theirs)}
    for name, enum in enums(ours):
        assert {value.name: value.number for value in enum.value}.items() <= known[name].items(), name


def test_calls_are_those_of_clients(ours, theirs):
    def calls(file):
        (service,) = file.service
        return service.name, {
            call.name: (call.input_type, call.output_type, call.client_streaming, call.server_streaming)
            for call in service.method
        }

    assert ours.package == theirs.package == "inference"
    (name, mine), (known_name, known) = calls(ours), calls(theirs)
    assert name == known_name
    assert mine.items() <= known.items()
    assert len(mine) == 12
