"""What transformers makes of chat templates, for the tests of package internal/jinja.

    pip install transformers jinja2
    python models/peers/chat.py > models/internal/jinja/testdata/chats.json
    python models/peers/chat.py NAME=FILE… > other.json     # templates of published models; RANDFEAT_CHATS=other.json

The templates below use what those of Llama 3, Qwen2, Qwen3 and SmolLM2 use.
"""
import json, sys

from transformers.utils.chat_template_utils import render_jinja_template

TEMPLATES = {
    "smollm2": "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nBe kind.<|im_end|>\n' }}{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}",
    "llama3": "{% set loop_messages = messages %}{% for message in loop_messages %}{% set content = '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n'+ message['content'] | trim + '<|eot_id|>' %}{% if loop.index0 == 0 %}{% set content = bos_token + content %}{% endif %}{{ content }}{% endfor %}{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}",
    "llama3.1": """{{- bos_token }}
{%- if custom_tools is defined %}
    {%- set tools = custom_tools %}
{%- endif %}
{%- if not tools_in_user_message is defined %}
    {%- set tools_in_user_message = true %}
{%- endif %}
{%- if not date_string is defined %}
    {%- set date_string = "26 Jul 2024" %}
{%- endif %}
{%- if not tools is defined %}
    {%- set tools = none %}
{%- endif %}

{#- The system message comes first. #}
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
{%- if tools is not none and not tools_in_user_message %}
    {%- for t in tools %}
        {{- t | tojson }}
    {%- endfor %}
{%- endif %}
{{- system_message }}
{{- "<|eot_id|>" }}
{%- for message in messages %}
    {%- if not (message.role == 'ipython' or message.role == 'tool' or 'tool_calls' in message) %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n'+ message['content'] | trim + '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls|length == 1 %}
            {{- raise_exception("one tool-call at once!") }}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}
{%- endif %}
""",
    "qwen3": """{%- if tools %}
    {{- '<|im_start|>system\\n' }}
    {%- for tool in tools %}
        {{- "\\n" }}
        {{- tool | tojson }}
    {%- endfor %}
{%- else %}
    {%- if messages[0].role == 'system' %}
        {{- '<|im_start|>system\\n' + messages[0].content + '<|im_end|>\\n' }}
    {%- endif %}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" and message.content is string and not(message.content.startswith('<tool_response>') and message.content.endswith('</tool_response>')) %}
        {%- set ns.multi_step_tool = false %}
        {%- set ns.last_query_index = index %}
    {%- endif %}
{%- endfor %}
{%- for message in messages %}
    {%- if message.content is string %}
        {%- set content = message.content %}
    {%- else %}
        {%- set content = '' %}
    {%- endif %}
    {%- if (message.role == "user") or (message.role == "system" and not loop.first) %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- if loop.index0 > ns.last_query_index %}
            {%- if loop.last or (not loop.last and reasoning_content) %}
                {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content.strip('\\n') + '\\n</think>\\n\\n' + content.lstrip('\\n') }}
            {%- else %}
                {{- '<|im_start|>' + message.role + '\\n' + content }}
            {%- endif %}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {%- if message.tool_calls %}
            {%- for tool_call in message.tool_calls %}
                {%- if (loop.first and content) or (not loop.first) %}
                    {{- '\\n' }}
                {%- endif %}
                {{- tool_call.arguments | tojson }}
            {%- endfor %}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- elif message.role == "tool" %}
        {%- if loop.first or (messages[loop.index0 - 1].role != "tool") %}
            {{- '<|im_start|>user' }}
        {%- endif %}
        {{- '\\n<tool_response>\\n' }}
        {{- content }}
        {{- '\\n</tool_response>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- endif %}
{%- endif %}
""",
    "spaces": "a {% if true %} b \n  {% endif %}  \n c {%- if false %}x{% else %} d {%- endif %}\n\n  {% for i in range(3) %}\n  {{ i }},{% if not loop.last %} {{- i * 2 }}{% endif %}\n  {% endfor %}\ne {# note #}\n f{{ '}}' }}{{ \"%}\" ~ (1 + 2) }}\n",
    "words": "{{ ' x y '.strip() }}|{{ 'aXbX'.split('X') | length }}|{{ messages[-1].content[1:3] }}|{{ messages | length is equalto 2 }}|{{ 'a' if not missing else 'b' }}|{{ none | string }}|{{ true }}|{{ missing | default('d') }}|{{ {'k': [1, 'é', none, true]} | tojson }}|{{ 'abc'[::-1] }}|{{ 7 // 2 }}{{ 7 % 4 }}|{{ 'hello world' | capitalize }}|{% for k, v in {'a': 1}.items() %}{{ k }}={{ v }}{% endfor %}|{% set x %}in{% endset %}{{ x | upper }}|{{ ['a', 'b'] | join('-') }}|{{ 'b' not in 'abc' or 2 >= 2.0 }}",
}
CHATS = [
    [{"role": "user", "content": "Hello"}],
    [{"role": "system", "content": " Be short. "}, {"role": "user", "content": " What is \"1 + 1\"?\n"}],
    [{"role": "user", "content": "Hi\n"}, {"role": "assistant", "content": "<think>\nwell\n</think>\n\nHello é"},
     {"role": "user", "content": "And now?"}, {"role": "assistant", "content": "Bye"}, {"role": "user", "content": "ok 🙂"}],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}],
    [],
]
if len(sys.argv) > 1:
    TEMPLATES = {a.split("=")[0]: open(a.split("=", 1)[1]).read() for a in sys.argv[1:]}
out = []
for name, t in TEMPLATES.items():
    for chat in CHATS:
        for prompt in (True, False):
            try:
                text, _ = render_jinja_template([chat], chat_template=t, add_generation_prompt=prompt, bos_token="<bos>",
                                                eos_token="<eos>")
                text = text[0]
            except Exception as e:
                text = None
            out.append({"name": name, "messages": chat, "prompt": prompt, "text": text})
print(json.dumps({"templates": TEMPLATES, "chats": out}, ensure_ascii=False, indent=0))
