"""Makes ONNX models of a GGUF file's own weights, for the peers that read nothing else.

    python export_onnx.py MODEL.gguf FOLDER

FOLDER gets the layout of a Hugging Face repository: configuration, tokenizer, and in `onnx/`
`model_quantized.onnx` (dynamic int8, for the CPU) and `model_q4.onnx` (int4 in blocks of 32, for
WebGPU). Needs torch, transformers, gguf, onnx, onnxruntime and onnxruntime-genai.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from onnxruntime.quantization import QuantType, quantize_dynamic
from transformers import AutoModelForCausalLM, AutoTokenizer

# Logits of the last position only, which is all that is read.
LAST_ROW = "prune_lm_head=true"
# Not every adapter has f16.
NO_F16 = "use_webgpu_fp32=true"


def export(plain: Path, precision: str, provider: str, to: Path, *options: str) -> Path:
    builder = [sys.executable, "-m", "onnxruntime_genai.models.builder"]
    where = ["-m", str(plain), "-i", str(plain), "-o", str(to), "-c", str(to / "cache")]
    extra = ["--extra_options", *options] if options else []
    subprocess.run([*builder, *where, "-p", precision, "-e", provider, *extra], check=True)
    return to / "model.onnx"


def main() -> None:
    source, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    onnx = folder / "onnx"
    onnx.mkdir(parents=True, exist_ok=True)
    place = {"gguf_file": source.name}
    with tempfile.TemporaryDirectory() as scratch:
        plain = Path(scratch) / "plain"
        AutoTokenizer.from_pretrained(source.parent, **place).save_pretrained(plain)
        model = AutoModelForCausalLM.from_pretrained(source.parent, dtype="float32", **place)
        # It remembers that it came from a quantized file, and will not be written; a copy does not.
        del model.config.quantization_config
        copy = AutoModelForCausalLM.from_config(model.config)
        copy.load_state_dict(model.state_dict())
        copy.save_pretrained(plain)
        for file in plain.glob("*.json"):
            shutil.copy(file, folder)
        full = export(plain, "fp32", "cpu", Path(scratch) / "fp32", LAST_ROW)
        quantize_dynamic(full, onnx / "model_quantized.onnx", weight_type=QuantType.QInt8)
        int4 = export(plain, "int4", "webgpu", Path(scratch) / "int4", LAST_ROW, NO_F16)
        for file in int4.parent.glob("model.onnx*"):
            shutil.copy(file, onnx / file.name.replace("model.onnx", "model_q4.onnx"))


main()
