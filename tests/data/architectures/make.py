"""Makes the tiny models of this folder: random weights, odd sizes, and logits to match.

usage: python make.py [NAME ...]

For each model: `NAME.gguf`, all tensors F32, laid out as llama.cpp's converter does (Q and K of
the Llama family permuted to interleaved rotary pairs, Gemma's norms plus one, Phi-3's stacked
tensors as they are), and `NAME.json` with prompts and the logits that `transformers` computes in
float32. Where llama-cpp-python is installed, the same file is run through it with an F32 cache, and
must agree to 1e-3; the result is noted in the JSON.

Needs torch, transformers, gguf, numpy (PyPI); llama-cpp-python for the second opinion.
"""
import json
import math
import os
import sys
import zlib

os.environ["HF_HUB_OFFLINE"] = "1"
import gguf
import numpy as np
import torch
import transformers
from transformers import AutoModelForCausalLM

torch.set_num_threads(1)
HERE = os.path.dirname(os.path.abspath(__file__))
TOLERANCE = 1e-3
SPECIALS = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MERGES = ["h e", "i n"]
VOCAB = len(SPECIALS) + 256 + len(MERGES)
CONTEXT = 512


def plain(theta=10000.0):
    return {"rope_type": "default", "rope_theta": theta}


# Common to all: sizes that are no power of two and no multiple of a SIMD width where the
# architecture lets them be.
def sizes(hidden, intermediate, layers, heads, kv_heads, **more):
    return dict(vocab_size=VOCAB, hidden_size=hidden, intermediate_size=intermediate,
                num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads,
                max_position_embeddings=CONTEXT, rms_norm_eps=1e-5, pad_token_id=0, bos_token_id=1,
                eos_token_id=2, **more)


YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 8.0,
        "original_max_position_embeddings": 64, "beta_fast": 32.0, "beta_slow": 1.0}
LLAMA3 = {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 64}
LONGROPE = {"rope_type": "longrope", "rope_theta": 10000.0, "partial_rotary_factor": 0.75,
            "original_max_position_embeddings": 256, "short_factor": [1.0, 1.1, 1.7],
            "long_factor": [1.3, 2.9, 5.3]}

# Name: GGUF architecture, config class, its arguments, prompts as (context length, ids).
MODELS = {
    "llama-linear": ("llama", "LlamaConfig", dict(
        **sizes(42, 54, 2, 3, 3), attention_bias=True, tie_word_embeddings=True,
        rope_parameters={"rope_type": "linear", "rope_theta": 10000.0, "factor": 3.0}), [(64, 37)]),
    "llama3": ("llama", "LlamaConfig", dict(
        **sizes(42, 58, 3, 7, 1, head_dim=10), rope_parameters=LLAMA3), [(128, 71)]),
    "llama-yarn": ("llama", "LlamaConfig", dict(
        **sizes(42, 58, 2, 6, 2, head_dim=14), rope_parameters=YARN), [(128, 71)]),
    "mistral": ("llama", "MistralConfig", dict(
        **sizes(42, 58, 3, 6, 2, head_dim=10), sliding_window=7, rope_parameters=plain()),
        [(64, 37)]),
    "qwen2": ("qwen2", "Qwen2Config", dict(
        **sizes(42, 58, 3, 7, 1), rope_parameters=plain(1000000.0)), [(64, 37)]),
    "qwen3": ("qwen3", "Qwen3Config", dict(
        **sizes(42, 58, 3, 6, 2, head_dim=10), tie_word_embeddings=True,
        rope_parameters=plain(1000000.0)), [(64, 37)]),
    "qwen3-yarn": ("qwen3", "Qwen3Config", dict(
        **sizes(42, 58, 2, 3, 3, head_dim=14), tie_word_embeddings=True, rope_parameters=YARN),
        [(128, 71)]),
    "gemma3": ("gemma3", "Gemma3TextConfig", dict(
        **sizes(30, 36, 7, 6, 2, head_dim=8), sliding_window=5, query_pre_attn_scalar=8,
        rope_parameters={
            "full_attention": {"rope_type": "linear", "rope_theta": 1000000.0, "factor": 8.0},
            "sliding_attention": plain()}), [(64, 37)]),
    "gemma2": ("gemma2", "Gemma2Config", dict(
        **sizes(35, 44, 3, 7, 1, head_dim=10), sliding_window=6, query_pre_attn_scalar=10,
        attn_logit_softcapping=1.5, final_logit_softcapping=2.5, rope_parameters=plain()),
        [(64, 37)]),
    "phi3": ("phi3", "Phi3Config", dict(
        **sizes(42, 58, 3, 3, 3), sliding_window=9, rope_parameters=plain()), [(64, 37)]),
    "phi3-longrope": ("phi3", "Phi3Config", dict(
        **sizes(48, 58, 2, 6, 2), sliding_window=None, original_max_position_embeddings=256,
        rope_parameters=LONGROPE),
        [(256, 41), (320, 293)]),
    "smollm3": ("smollm3", "SmolLM3Config", dict(
        **sizes(42, 50, 5, 7, 1), tie_word_embeddings=True, rope_parameters=plain(50000.0)),
        [(64, 37)]),
    "olmo2": ("olmo2", "Olmo2Config", dict(
        **sizes(48, 58, 2, 6, 2), tie_word_embeddings=False, rope_parameters=plain(500000.0)),
        [(64, 37)]),
    "olmo3": ("olmo2", "Olmo3Config", dict(
        **sizes(30, 38, 5, 3, 3), tie_word_embeddings=False, sliding_window=8,
        rope_parameters={"full_attention": YARN, "sliding_attention": plain()}), [(128, 71)]),
    "granite": ("granite", "GraniteConfig", dict(
        **sizes(42, 58, 3, 7, 1), tie_word_embeddings=True, embedding_multiplier=1.7,
        attention_multiplier=0.31, residual_multiplier=0.6, logits_scaling=2.3,
        rope_parameters=plain()), [(64, 37)]),
}


def tokens():
    """Special tokens, then GPT-2's byte alphabet, then the merged ones."""
    alphabet, extra = [], 256
    for byte in range(256):
        if 33 <= byte <= 126 or 161 <= byte <= 172 or 174 <= byte <= 255:
            alphabet.append(chr(byte))
        else:
            alphabet.append(chr(extra))
            extra += 1
    return SPECIALS + alphabet + [merge.replace(" ", "") for merge in MERGES]


def randomize(model, arch):
    """Weights that make every part matter: scores spread, gains differ, biases are there."""
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape)
        if "norm" in name:
            value = 0.3 * noise + (0.0 if arch.startswith("gemma") else 1.0)
        elif name.endswith("bias"):
            value = 0.3 * noise
        elif "embed_tokens" in name:
            value = 0.7 * noise
        else:
            gain = 1.8 if any(part in name for part in ("q_proj", "k_proj", "qkv_proj")) else 1.2
            value = gain * noise / math.sqrt(weight.shape[1])
        with torch.no_grad():
            weight.copy_(value)


def permute(weight, heads):
    """Rotary pairs (i, i + D / 2) to (2 i, 2 i + 1)."""
    return (weight.reshape(heads, 2, weight.shape[0] // heads // 2, *weight.shape[1:])
            .swapaxes(1, 2).reshape(weight.shape))


NAMES = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.qkv_proj": "attn_qkv", "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.gate_up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm",
    "pre_feedforward_layernorm": "ffn_norm", "post_feedforward_layernorm": "post_ffw_norm",
}


def gguf_name(name, sandwich):
    top = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight":
           "output_norm.weight", "lm_head.weight": "output.weight"}
    if name in top:
        return top[name]
    _, _, layer, rest = name.split(".", 3)
    stem, kind = rest.rsplit(".", 1)
    if stem == "post_attention_layernorm":
        # The norm of attention's output where there are norms after, else of what follows it.
        stem = "post_attention_norm" if sandwich else "ffn_norm"
    else:
        stem = NAMES[stem]
    return f"blk.{layer}.{stem}.{kind}"


def rope_parameters(config):
    parameters = config.rope_parameters
    return parameters.get("full_attention", parameters)


def write_metadata(writer, arch, config, head_dim):
    # llama.cpp expects certain tokens of models whose name has "phi3" in it.
    writer.add_name("Tiny random model")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    if head_dim * config.num_attention_heads != config.hidden_size or "gemma" in arch:
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    rope = rope_parameters(config)
    # Gemma 2's converter leaves the base to the default.
    if arch != "gemma2":
        writer.add_rope_freq_base(rope["rope_theta"])
    if arch in ("llama", "smollm3", "granite"):
        writer.add_rope_dimension_count(head_dim)
    if rope["rope_type"] in ("linear", "yarn"):
        writer.add_rope_scaling_type(gguf.RopeScalingType(rope["rope_type"]))
        writer.add_rope_scaling_factor(rope["factor"])
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
    if arch == "phi3":
        original = rope.get("original_max_position_embeddings", config.max_position_embeddings)
        writer.add_rope_scaling_orig_ctx_len(original)
        partial = rope.get("partial_rotary_factor", 1.0)
        writer.add_rope_dimension_count(int(partial * head_dim))
        if rope["rope_type"] == "longrope":
            scale = config.max_position_embeddings / original
            writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(scale) / math.log(original)))
    window = getattr(config, "sliding_window", None)
    if window or arch == "phi3":
        writer.add_sliding_window(window or 0)
    if window and arch == "olmo2":
        pattern = [kind == "sliding_attention" for kind in config.layer_types]
        writer.add_sliding_window_pattern(pattern)
    if arch == "gemma2":
        writer.add_attn_logit_softcapping(config.attn_logit_softcapping)
        writer.add_final_logit_softcapping(config.final_logit_softcapping)
    if arch == "granite":
        writer.add_attention_scale(config.attention_multiplier)
        writer.add_embedding_scale(config.embedding_multiplier)
        writer.add_residual_scale(config.residual_multiplier)
        writer.add_logit_scale(config.logits_scaling)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(tokens())
    writer.add_token_types([3] * len(SPECIALS) + [1] * (VOCAB - len(SPECIALS)))
    writer.add_token_merges(MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)


def llama3_factors(rope, head_dim):
    factors = []
    for pair in range(head_dim // 2):
        wavelength = 2 * math.pi * rope["rope_theta"] ** (2 * pair / head_dim)
        low = rope["original_max_position_embeddings"] / rope["low_freq_factor"]
        high = rope["original_max_position_embeddings"] / rope["high_freq_factor"]
        if wavelength < high:
            factors.append(1.0)
        elif wavelength > low:
            factors.append(rope["factor"])
        else:
            smooth = rope["original_max_position_embeddings"] / wavelength - rope["low_freq_factor"]
            smooth /= rope["high_freq_factor"] - rope["low_freq_factor"]
            factors.append(1 / ((1 - smooth) / rope["factor"] + smooth))
    return factors


def write_tensors(writer, arch, config, model, head_dim):
    tied = config.tie_word_embeddings
    sandwich = arch in ("gemma2", "gemma3", "olmo2")
    rope = rope_parameters(config)
    vector = lambda values: np.array(values, dtype=np.float32)
    if rope["rope_type"] == "llama3":
        writer.add_tensor("rope_freqs.weight", vector(llama3_factors(rope, head_dim)))
    if rope["rope_type"] == "longrope":
        writer.add_tensor("rope_factors_long.weight", vector(rope["long_factor"]))
        writer.add_tensor("rope_factors_short.weight", vector(rope["short_factor"]))
    for name, weight in model.state_dict().items():
        if name == "lm_head.weight" and tied:
            continue
        weight = weight.detach().float()
        if arch in ("llama", "smollm3", "granite"):
            if ".q_proj." in name:
                weight = permute(weight, config.num_attention_heads)
            if ".k_proj." in name:
                weight = permute(weight, config.num_key_value_heads)
        if arch.startswith("gemma") and name.endswith("norm.weight"):
            weight = weight + 1
        writer.add_tensor(gguf_name(name, sandwich), weight.contiguous().numpy())


class HalfGelu(torch.nn.Module):
    """GELU as ggml's CPU code has it: from a table over half-precision floats."""

    def forward(self, x):
        return torch.nn.functional.gelu(x.half().float(), approximate="tanh").half().float()


def logits(model, ids):
    with torch.no_grad():
        return model(torch.tensor([ids]), use_cache=False).logits[0].numpy()


def second_opinion(path, cases):
    """The same through llama.cpp: its logits of each case, or None where it is not installed."""
    try:
        import llama_cpp
    except ImportError:
        return None
    results = []
    for context, ids in cases:
        llm = llama_cpp.Llama(path, n_ctx=context, n_batch=512, n_ubatch=512, logits_all=True,
                              n_threads=1, type_k=0, type_v=0, flash_attn=False, verbose=False)
        llm.eval(ids)
        results.append(np.array(llm.scores[:len(ids)]))
        llm.close()
    return llama_cpp.__version__, results


def make(name):
    arch, config_class, arguments, prompts = MODELS[name]
    torch.manual_seed(zlib.crc32(name.encode()))
    config = getattr(transformers, config_class)(**arguments)
    build = lambda config: AutoModelForCausalLM.from_config(
        config, dtype=torch.float32, attn_implementation="eager").eval()
    model = build(config)
    randomize(model, arch)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    path = os.path.join(HERE, name + ".gguf")
    writer = gguf.GGUFWriter(path, arch)
    write_metadata(writer, arch, config, head_dim)
    write_tensors(writer, arch, config, model, head_dim)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert os.path.getsize(path) <= 300_000, os.path.getsize(path)

    cases, out = [], []
    for context, count in prompts:
        ids = torch.randint(len(SPECIALS), VOCAB, (count,)).tolist()
        cases.append((context, ids))
        full = logits(model, ids)
        rows = sorted({0, 1, 4, count // 3, count // 2, count - 3, count - 2, count - 1})
        out.append({"context_length": context, "ids": ids, "rows": rows,
                    "logits": [[round(float(x), 6) for x in full[row]] for row in rows]})
    result = {"model": name, "architecture": arch, "made_with":
              f"transformers {transformers.__version__}, torch {torch.__version__}", "cases": out}
    # What llama.cpp is compared with: the model itself, but for what it is known to do otherwise.
    judged, known = model, None
    if arch.startswith("gemma"):
        known = "GELU from a table of half-precision floats"
        judged = build(config)
        judged.load_state_dict(model.state_dict())
        for layer in judged.model.layers:
            layer.mlp.act_fn = HalfGelu()
    # It does not apply the window of these.
    if getattr(config, "sliding_window", None) and arch in ("llama", "phi3"):
        known = "no window"
        judged = build(getattr(transformers, config_class)(**{**arguments, "sliding_window": None}))
        judged.load_state_dict(model.state_dict())
        changed = max(float(np.abs(logits(model, ids) - logits(judged, ids)).max())
                      for _, ids in cases)
        assert changed > 0.1, "the window shows"
    opinion = second_opinion(path, cases)
    if opinion:
        version, theirs = opinion
        worst = max(float(np.abs(logits(judged, ids) - other).max())
                    for (_, ids), other in zip(cases, theirs))
        result["llama_cpp"] = {"version": version, "max_abs_difference": round(worst, 7),
                               "known_difference": known}
        print(name, "llama.cpp differs by", worst, flush=True)
        assert worst <= TOLERANCE, (name, worst)
    with open(os.path.join(HERE, name + ".json"), "w") as file:
        json.dump(result, file, separators=(",", ":"))
        file.write("\n")
    print(name, os.path.getsize(path), "bytes", flush=True)


if __name__ == "__main__":
    for name in sys.argv[1:] or MODELS:
        make(name)
