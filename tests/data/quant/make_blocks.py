"""Random blocks of quantized types and the floats that they mean, by the package `gguf`.

usage: python make_blocks.py OUT.json     (needs gguf 0.19.0 or later, numpy; PyPI)

For each type: "blocks", the bytes as hex, and "values", the little-endian f32 as hex, so that
they can be compared bit by bit. The first blocks have scales at the ends of their range.
"""
import json, sys

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType as Type
from gguf.quants import dequantize

# Zero, the smallest and largest subnormal, the smallest normal, the largest, a negative one.
F16_SCALES = [0x0000, 0x0001, 0x03FF, 0x0400, 0x7BFF, 0xBC01]
# Both subnormal halves, the first normal one, about 1, the largest two.
E8M0_SCALES = [0, 1, 2, 126, 127, 128, 254, 255]
COUNT = 29

random = np.random.default_rng(39)
out = {}
for kind, scales in [(Type.IQ4_NL, F16_SCALES), (Type.MXFP4, E8M0_SCALES)]:
    blocks = random.integers(0, 256, (COUNT, GGML_QUANT_SIZES[kind][1]), dtype=np.uint8)
    width = 2 if kind == Type.IQ4_NL else 1
    for block, scale in zip(blocks, scales):
        block[:width] = np.frombuffer(scale.to_bytes(width, "little"), dtype=np.uint8)
    if kind == Type.IQ4_NL:
        # A scale that is infinite or NaN loses the top bit of its exponent.
        special = blocks[:, 1] & 0x7C == 0x7C
        blocks[special, 1] &= 0xBF
    with np.errstate(over="ignore"):
        values = dequantize(blocks, kind)
    out[kind.name] = {
        "blocks": blocks.tobytes().hex(),
        "values": values.astype("<f4").tobytes().hex(),
    }
with open(sys.argv[1], "w") as file:
    json.dump(out, file, indent=1)
    file.write("\n")
