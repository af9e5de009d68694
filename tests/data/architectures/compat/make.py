"""Makes the tiny models of this folder: architectures that candle-transformers runs.

usage: python make.py [NAME ...]

Like `../make.py`, whose parts it uses: random weights, odd sizes, all tensors F32 and named as
llama.cpp's converter names them, logits by `transformers` in float32, and llama.cpp's second opinion
to 1e-3. Some names come in two forms, because files of both are about: Phi-2 with queries, keys and
values in one tensor or in three, Mixtral with each expert a tensor or all experts of a kind in one.
"""
import json
import os
import sys
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
sys.dont_write_bytecode = True
# pylint: disable=wrong-import-position
import importlib.util

spec = importlib.util.spec_from_file_location("base", os.path.join(HERE, "..", "make.py"))
base = importlib.util.module_from_spec(spec)
spec.loader.exec_module(base)

import gguf
import numpy as np
import torch
import transformers
from transformers import AutoModelForCausalLM

ROPE = base.plain
SIZES = dict(vocab_size=base.VOCAB, max_position_embeddings=base.CONTEXT, pad_token_id=0,
             bos_token_id=1, eos_token_id=2)

PHI = ("phi2", "PhiConfig", dict(
    **SIZES, hidden_size=42, intermediate_size=58, num_hidden_layers=3, num_attention_heads=3,
    num_key_value_heads=3, layer_norm_eps=1e-5, hidden_act="gelu_new",
    rope_parameters={**ROPE(), "partial_rotary_factor": 0.43}))
MIXTRAL = ("llama", "MixtralConfig", dict(
    **SIZES, hidden_size=42, intermediate_size=30, num_hidden_layers=2, num_attention_heads=3,
    num_key_value_heads=1, rms_norm_eps=1e-5, num_local_experts=5, num_experts_per_tok=2,
    rope_parameters=ROPE(1000000.0)))

MODELS = {
    "phi2": PHI,
    "phi2-split": PHI,
    "glm4": ("glm4", "Glm4Config", dict(
        **SIZES, hidden_size=42, intermediate_size=58, num_hidden_layers=3, num_attention_heads=7,
        num_key_value_heads=1, head_dim=12, rms_norm_eps=1e-5, attention_bias=True,
        rope_parameters={**ROPE(), "partial_rotary_factor": 0.5})),
    "lfm2": ("lfm2", "Lfm2Config", dict(
        **SIZES, hidden_size=42, intermediate_size=58, num_hidden_layers=4, num_attention_heads=3,
        num_key_value_heads=1, norm_eps=1e-5, conv_L_cache=3, conv_bias=False,
        block_auto_adjust_ff_dim=False, tie_word_embeddings=True,
        layer_types=["conv", "full_attention", "conv", "full_attention"],
        rope_parameters=ROPE(1000000.0))),
    "mixtral": MIXTRAL,
    "mixtral-split": MIXTRAL,
}
PROMPT = 37
# Of single bytes in this vocabulary, whose tokens follow the special ones.
TEXT = "a quick brown fox, bold"

NAMES = {
    "phi2": {
        "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.dense": "attn_output", "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down",
        "input_layernorm": "attn_norm"},
    "glm4": {
        **base.NAMES, "post_attention_layernorm": "ffn_norm",
        "post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm"},
    "lfm2": {
        "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
        "self_attn.out_proj": "attn_output", "self_attn.q_layernorm": "attn_q_norm",
        "self_attn.k_layernorm": "attn_k_norm", "conv.conv": "shortconv.conv",
        "conv.in_proj": "shortconv.in_proj", "conv.out_proj": "shortconv.out_proj",
        "feed_forward.w1": "ffn_gate", "feed_forward.w2": "ffn_down", "feed_forward.w3": "ffn_up",
        "operator_norm": "attn_norm", "ffn_norm": "ffn_norm"},
    "llama": {**base.NAMES, "post_attention_layernorm": "ffn_norm", "mlp.gate": "ffn_gate_inp"},
}
TOP = {
    "model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output",
    "model.final_layernorm": "output_norm", "model.embedding_norm": "token_embd_norm",
}


def tensors(name, arch, config, model):
    """Names and values as a converter writes them."""
    split = name.endswith("-split")
    layers = {}
    for key, weight in model.state_dict().items():
        weight = weight.detach().float()
        if key == "lm_head.weight" and config.tie_word_embeddings:
            continue
        stem, kind = key.rsplit(".", 1)
        if stem in TOP:
            yield f"{TOP[stem]}.{kind}", weight
            continue
        _, _, layer, rest = key.split(".", 3)
        if rest.startswith("mlp.experts."):
            yield from experts(layer, rest, weight, split)
            continue
        stem, kind = rest.rsplit(".", 1)
        part = NAMES[arch][stem]
        if arch == "llama" and part in ("attn_q", "attn_k"):
            heads = config.num_attention_heads if part == "attn_q" else config.num_key_value_heads
            weight = base.permute(weight, heads)
        if arch == "phi2" and part in ("attn_q", "attn_k", "attn_v") and not split:
            layers.setdefault((layer, kind), {})[part] = weight
            parts = layers[(layer, kind)]
            if len(parts) == 3:
                stacked = torch.cat([parts[p] for p in ("attn_q", "attn_k", "attn_v")])
                yield f"blk.{layer}.attn_qkv.{kind}", stacked
            continue
        if part == "shortconv.conv":
            weight = weight.squeeze(1)
        yield f"blk.{layer}.{part}.{kind}", weight


def experts(layer, rest, weight, split):
    """`gate_up_proj [E, 2 F, C]` and `down_proj [E, C, F]`."""
    if rest == "mlp.experts.gate_up_proj":
        gate, up = weight.chunk(2, dim=1)
        kinds = {"ffn_gate": gate, "ffn_up": up}
    else:
        kinds = {"ffn_down": weight}
    for kind, stack in kinds.items():
        if not split:
            yield f"blk.{layer}.{kind}_exps.weight", stack
            continue
        for expert, one in enumerate(stack):
            yield f"blk.{layer}.{kind}.{expert}.weight", one


def write_metadata(writer, arch, config):
    writer.add_name("Tiny random model")
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_head_count(config.num_attention_heads)
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    rope = config.rope_parameters
    if arch == "lfm2":
        kinds = config.layer_types
        writer.add_head_count_kv([config.num_key_value_heads if kind == "full_attention" else 0
                                  for kind in kinds])
        writer.add_shortconv_l_cache(config.conv_L_cache)
        writer.add_layer_norm_rms_eps(config.norm_eps)
        writer.add_vocab_size(config.vocab_size)
    else:
        writer.add_head_count_kv(config.num_key_value_heads)
    if arch == "phi2":
        writer.add_layer_norm_eps(config.layer_norm_eps)
        writer.add_rope_dimension_count(int(rope["partial_rotary_factor"] * head_dim))
    else:
        writer.add_rope_freq_base(rope["rope_theta"])
    if arch in ("glm4", "llama"):
        writer.add_layer_norm_rms_eps(config.rms_norm_eps)
        partial = rope.get("partial_rotary_factor", 1.0)
        writer.add_rope_dimension_count(int(partial * head_dim))
    if arch == "glm4":
        writer.add_key_length(head_dim)
        writer.add_value_length(head_dim)
    if arch == "llama":
        writer.add_expert_count(config.num_local_experts)
        writer.add_expert_used_count(config.num_experts_per_tok)
    base_tokens(writer)


def base_tokens(writer):
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(base.tokens())
    writer.add_token_types([3] * len(base.SPECIALS) + [1] * (base.VOCAB - len(base.SPECIALS)))
    writer.add_token_merges(base.MERGES)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.add_add_bos_token(False)


def randomize(model):
    """As in `../make.py`, for all these names; experts are as wide as any matrix."""
    for name, weight in model.named_parameters():
        noise = torch.randn(weight.shape)
        if "norm" in name:
            value = 0.3 * noise + (0.0 if name.endswith("bias") else 1.0)
        elif name.endswith("bias"):
            value = 0.3 * noise
        elif "embed_tokens" in name:
            value = 0.7 * noise
        elif "conv.conv" in name:
            value = 0.8 * noise
        else:
            wide = any(part in name for part in ("q_proj", "k_proj", "mlp.gate.weight"))
            value = (1.8 if wide else 1.2) * noise / weight.shape[-1] ** 0.5
        with torch.no_grad():
            weight.copy_(value)


def greedy(model, ids, count):
    """Ids that follow, and the least margin between the best two logits on the way."""
    ids, margin = list(ids), float("inf")
    for _ in range(count):
        best = np.sort(base.logits(model, ids)[-1])[::-1]
        margin = min(margin, float(best[0] - best[1]))
        ids.append(int(np.argmax(base.logits(model, ids)[-1])))
    return ids[-count:], margin


def make(name):
    arch, config_class, arguments = MODELS[name]
    # Both forms of a model have the same weights.
    torch.manual_seed(zlib.crc32(name.removesuffix("-split").encode()))
    config = getattr(transformers, config_class)(**arguments)
    # The fused product of experts wants sizes that are multiples of a SIMD width.
    config._experts_implementation = "eager"
    build = lambda: AutoModelForCausalLM.from_config(
        config, dtype=torch.float32, attn_implementation="eager").eval()
    model = build()
    randomize(model)
    path = os.path.join(HERE, name + ".gguf")
    writer = gguf.GGUFWriter(path, arch)
    write_metadata(writer, arch, config)
    for tensor, weight in tensors(name, arch, config, model):
        writer.add_tensor(tensor, weight.contiguous().numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    assert os.path.getsize(path) <= 300_000, os.path.getsize(path)

    ids = torch.randint(len(base.SPECIALS), base.VOCAB, (PROMPT,)).tolist()
    full = base.logits(model, ids)
    rows = sorted({0, 1, 4, PROMPT // 3, PROMPT // 2, PROMPT - 3, PROMPT - 2, PROMPT - 1})
    follow, margin = greedy(model, ids, 8)
    result = {
        "model": name, "architecture": arch,
        "made_with": f"transformers {transformers.__version__}, torch {torch.__version__}",
        "ids": ids, "rows": rows,
        "logits": [[round(float(x), 6) for x in full[row]] for row in rows],
        "greedy": follow, "greedy_margin": round(margin, 4)}
    assert margin > 3 * base.TOLERANCE, margin
    text_ids = [len(base.SPECIALS) + byte for byte in TEXT.encode()]
    follow, margin = greedy(model, text_ids, 6)
    assert margin > 3 * base.TOLERANCE, margin
    result["text"] = {"text": TEXT, "ids": text_ids, "greedy": follow}
    # What llama.cpp is compared with: the model itself, but for what it is known to do otherwise.
    judged, known = model, None
    if arch == "phi2":
        known = "GELU from a table of half-precision floats"
        judged = build()
        judged.load_state_dict(model.state_dict())
        for layer in judged.model.layers:
            layer.mlp.activation_fn = base.HalfGelu()
    # It does not read experts that are apart any more: the other form has the same weights.
    opinion = base.second_opinion(path.replace("mixtral-split", "mixtral"), [(64, ids)])
    if opinion:
        version, theirs = opinion
        worst = float(np.abs(base.logits(judged, ids) - theirs[0]).max())
        result["llama_cpp"] = {"version": version, "max_abs_difference": round(worst, 7),
                               "known_difference": known}
        print(name, "llama.cpp differs by", worst, flush=True)
        assert worst <= base.TOLERANCE, (name, worst)
    with open(os.path.join(HERE, name + ".json"), "w") as file:
        json.dump(result, file, separators=(",", ":"))
        file.write("\n")
    print(name, os.path.getsize(path), "bytes", flush=True)


for name in sys.argv[1:] or MODELS:
    make(name)
