"""Writes reference.safetensors with the reference implementation (pip install safetensors==0.8.0).

tests/io/safetensors_test.cpp holds the same values.
"""
import ctypes
import pathlib
import struct

import safetensors

tensors = {
    "conv/kernel": ("float32", [2, 3], struct.pack("<6f", 0.5, -1.25, 3.0, 1e-7, 65504.0, -0.0)),
    "double": ("float64", [1], struct.pack("<d", 0.1)),
    "half": ("float16", [3], struct.pack("<3H", 0x3C00, 0x0001, 0x7C00)),
    "brain": ("bfloat16", [2], struct.pack("<2H", 0x3F80, 0xC049)),
    "counter": ("int64", [], struct.pack("<q", -(2**40))),
    "labels": ("int32", [4], struct.pack("<4i", 0, -1, 2**31 - 1, 7)),
    "pixels": ("uint8", [1, 5], bytes([0, 1, 127, 128, 255])),
    "mask": ("bool", [3], bytes([1, 0, 1])),
    "empty": ("float32", [0, 4], b""),
}
buffers = {name: ctypes.create_string_buffer(b, len(b)) for name, (_, _, b) in tensors.items()}
specs = {
    name: safetensors.TensorSpec(
        dtype=dtype, shape=shape, data_ptr=ctypes.addressof(buffers[name]), data_len=len(raw)
    )
    for name, (dtype, shape, raw) in tensors.items()
}
data = safetensors.serialize(specs, metadata={"format": "demi"})
pathlib.Path(__file__).with_name("reference.safetensors").write_bytes(bytes(data))
