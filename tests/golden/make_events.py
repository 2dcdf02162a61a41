#!/usr/bin/env python3
"""Writes events.tfevents beside this file with TensorBoard's own package, for tests/io/event_writer_test.cpp.

Needs `pip install tensorboard` (made with 2.21); run it anew only to change the events below.
Usage: tests/golden/make_events.py
"""
import pathlib

from google.protobuf import struct_pb2
from tensorboard.compat.proto import (attr_value_pb2, event_pb2, graph_pb2, summary_pb2,
                                      tensor_pb2, tensor_shape_pb2, types_pb2)
from tensorboard.plugins.hparams import plugin_data_pb2
from tensorboard.summary.writer.record_writer import RecordWriter

WALL_TIME = 1700000000.25


def event(**fields):
    return event_pb2.Event(wall_time=WALL_TIME, **fields)


def summary_event(step, **value):
    return event(step=step, summary=summary_pb2.Summary(value=[summary_pb2.Summary.Value(**value)]))


def metadata(plugin, content=b""):
    return summary_pb2.SummaryMetadata(
        plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name=plugin, content=content))


def histogram():
    return summary_pb2.HistogramProto(min=-1, max=2, num=4, sum=2.5, sum_squares=6.25,
                                      bucket_limit=[-0.5, 1, 2], bucket=[1, 2, 1])


def text(value):
    return tensor_pb2.TensorProto(
        dtype=types_pb2.DT_STRING,
        tensor_shape=tensor_shape_pb2.TensorShapeProto(
            dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=1)]),
        string_val=[value.encode()])


def graph():
    definition = graph_pb2.GraphDef()
    x = definition.node.add(name="inputs/x", op="input", device="cpu")
    x.attr["dtype"].type = types_pb2.DT_HALF
    y = definition.node.add(name="dense/matmul", op="matmul", device="cpu")
    y.input.extend(["inputs/x", "inputs/x:1"])
    shape = tensor_shape_pb2.TensorShapeProto()
    for size in (32, 10):
        shape.dim.add(size=size)
    y.attr["_output_shapes"].list.shape.append(shape)
    y.attr["kernel"].s = b"gemm"
    definition.versions.producer = 22
    return definition.SerializeToString(deterministic=True)


def session(**what):
    return plugin_data_pb2.HParamsPluginData(**what).SerializeToString(deterministic=True)


def session_start():
    start = plugin_data_pb2.SessionStartInfo(group_name="run", start_time_secs=WALL_TIME)
    start.hparams["learning_rate"].CopyFrom(struct_pb2.Value(number_value=0.001))
    start.hparams["shuffle"].CopyFrom(struct_pb2.Value(bool_value=True))
    start.hparams["policy"].CopyFrom(struct_pb2.Value(string_value="mixed_float16"))
    return session(session_start_info=start)


def session_end():
    return session(session_end_info=plugin_data_pb2.SessionEndInfo(status=1,
                                                                   end_time_secs=WALL_TIME))


def main():
    path = pathlib.Path(__file__).resolve().with_name("events.tfevents")
    events = [
        event(file_version="brain.Event:2"),
        summary_event(7, tag="loss", simple_value=0.125),
        summary_event(7, tag="weights/dense/kernel", histo=histogram()),
        summary_event(0, tag="configuration", tensor=text("# mixed ½"), metadata=metadata("text")),
        event(graph_def=graph()),
        summary_event(0, tag="_hparams_/session_start_info",
                      metadata=metadata("hparams", session_start())),
        summary_event(0, tag="_hparams_/session_end_info",
                      metadata=metadata("hparams", session_end())),
    ]
    with open(path, "wb") as file:
        writer = RecordWriter(file)
        for each in events:
            writer.write(each.SerializeToString(deterministic=True))
        writer.flush()


if __name__ == "__main__":
    main()
