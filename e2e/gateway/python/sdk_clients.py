"""The unmodified Python SDKs through the gateway, as the tests of this folder run them. Prints one JSON object: what each step answered.
usage: sdk_clients.py OPENAI_BASE ANTHROPIC_BASE KEY      needs: openai, anthropic"""
import asyncio
import json
import sys

import anthropic
import openai

openai_base, anthropic_base, key = sys.argv[1:4]
client = openai.OpenAI(base_url=openai_base, api_key=key, max_retries=0)
claude = anthropic.Anthropic(base_url=anthropic_base, api_key=key, max_retries=0)
FACTS = {"type": "function", "function": {"name": "facts_lookup", "parameters": {"type": "object", "properties": {"entity": {"type": "string"}}}}}
CLAUDE_FACTS = {"name": "facts_lookup", "input_schema": FACTS["function"]["parameters"]}
said = {}


def chat_tools():
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": 'Look up "iron" and "tin".'}]
    first = client.chat.completions.create(model="toy", messages=messages, tools=[FACTS]).choices[0].message
    calls = [c.function.arguments for c in first.tool_calls]
    messages.append(first)
    messages += [{"role": "tool", "tool_call_id": c.id, "content": f"fact {i}"} for i, c in enumerate(first.tool_calls)]
    stream = client.chat.completions.create(model="toy", messages=messages, tools=[FACTS], stream=True, stream_options={"include_usage": True})
    text, usage = "", None
    for chunk in stream:
        text += "".join(c.delta.content or "" for c in chunk.choices)
        usage = chunk.usage or usage
    return {"calls": calls, "text": text, "tokens": usage.completion_tokens}


def chat_ids():
    answer = client.chat.completions.create(model="toy", messages=[{"role": "user", "content": "3 + 4"}], logprobs=True, extra_body={"return_token_ids": True})
    return {
        "prompt": answer.model_extra["prompt_token_ids"],
        "ids": answer.choices[0].model_extra["token_ids"],
        "logprobs": [t.logprob for t in answer.choices[0].logprobs.content],
    }


def chat_parse():
    with client.chat.completions.stream(model="toy", messages=[{"role": "user", "content": 'Look up "zinc".'}], tools=[FACTS]) as stream:
        types = sorted({event.type for event in stream})
        final = stream.get_final_completion()
    return {"types": types, "arguments": final.choices[0].message.tool_calls[0].function.arguments}


def responses():
    first = client.responses.create(model="toy", input="5 + 6", instructions="Be brief.")
    with client.responses.stream(model="toy", input="7 + 8") as stream:
        types = [event.type for event in stream]
        final = stream.get_final_response()
    return {"text": first.output_text, "streamed": final.output_text, "first": types[0], "last": types[-1]}


def messages_tools():
    ask = [{"role": "user", "content": 'Look up "iron" and "tin".'}]
    with claude.messages.stream(model="toy", max_tokens=500, system="Be brief.", messages=ask, tools=[CLAUDE_FACTS]) as stream:
        first = stream.get_final_message()
    uses = [b for b in first.content if b.type == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": b.id, "content": f"fact {i}"} for i, b in enumerate(uses)]
    history = [*ask, {"role": "assistant", "content": first.content}, {"role": "user", "content": results}]
    second = claude.messages.create(model="toy", max_tokens=500, system="Be brief.", messages=history, tools=[CLAUDE_FACTS])
    return {"inputs": [b.input for b in uses], "stop": first.stop_reason, "text": second.content[0].text, "tokens": second.usage.output_tokens}


def retried():
    """Two refusals of the engine wait for this text."""
    return client.with_options(max_retries=3).chat.completions.create(model="toy", messages=[{"role": "user", "content": "say: retried"}]).choices[0].message.content


def timed_out():
    """The engine is slow for this text, once."""
    patient = client.with_options(max_retries=3, timeout=1.0)
    return patient.chat.completions.create(model="toy", messages=[{"role": "user", "content": "say: timed out"}]).choices[0].message.content


def failures():
    names = []
    for call in (
        lambda: client.chat.completions.create(model="no-such", messages=[{"role": "user", "content": "x"}]),
        lambda: claude.messages.create(model="no-such", max_tokens=5, messages=[{"role": "user", "content": "x"}]),
        lambda: client.with_options(api_key="wrong").chat.completions.create(model="toy", messages=[{"role": "user", "content": "x"}]),
        lambda: list(client.chat.completions.create(model="toy", messages=[{"role": "user", "content": "say: cut me off in the middle"}], stream=True)),
    ):
        try:
            call()
            names.append("no error")
        except Exception as error:
            names.append(type(error).__name__)
    return names


async def many():
    async with openai.AsyncOpenAI(base_url=openai_base, api_key=key, max_retries=0) as many_client:
        async def one(i):
            text = ""
            async for chunk in await many_client.chat.completions.create(model="toy", messages=[{"role": "user", "content": f"{i} + 100"}], stream=True):
                text += "".join(c.delta.content or "" for c in chunk.choices)
            return text
        return await asyncio.gather(*(one(i) for i in range(20)))


for step in (chat_tools, chat_ids, chat_parse, responses, messages_tools, retried, timed_out, failures):
    said[step.__name__] = step()
said["many"] = asyncio.run(many())
print(json.dumps(said))
