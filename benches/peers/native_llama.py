"""llama.cpp outside the browser, as one of the engines of the suite `peers`.

    python native_llama.py MODEL.gguf THREADS CONTEXT_TOKENS

Loads the model, then answers each line of its input, `{ "prompt": text, "maxTokens": number }`,
with a line: `{ "text", "ids", "startedMs", "atMs", "promptTokens" }`. The first line that it
writes is `{ "version", "loadMs", "pid" }`. Needs llama-cpp-python.
"""

import json
import os
import sys
import time

import llama_cpp


def now_ms() -> float:
    return time.perf_counter() * 1000


def say(value: dict) -> None:
    print(json.dumps(value), flush=True)


def answer(model: llama_cpp.Llama, prompt: str, most: int) -> dict:
    # Nothing of an earlier prompt is left.
    model.reset()
    started = now_ms()
    prompt_ids = model.tokenize(prompt.encode(), add_bos=True, special=True)
    ids, at = [], []
    for token in model.generate(prompt_ids, temp=0.0, repeat_penalty=1.0, reset=True):
        at.append(now_ms())
        ids.append(int(token))
        if len(ids) == most:
            break
    text = model.detokenize(ids, prev_tokens=prompt_ids).decode(errors="replace")
    made = {"text": text, "ids": ids, "startedMs": started, "atMs": at}
    return {**made, "promptTokens": len(prompt_ids)}


def main() -> None:
    path, threads, context = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    started = now_ms()
    model = llama_cpp.Llama(
        path,
        n_ctx=context,
        n_threads=threads,
        n_threads_batch=threads,
        n_gpu_layers=0,
        verbose=False,
    )
    say({"version": llama_cpp.__version__, "loadMs": now_ms() - started, "pid": os.getpid()})
    for line in sys.stdin:
        asked = json.loads(line)
        say(answer(model, asked["prompt"], asked["maxTokens"]))


main()
