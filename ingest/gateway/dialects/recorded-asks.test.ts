/** Real requests and answers: written back in their own dialect they say the same, in every other too, or they are refused by name. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Ask, DialectName, Json, JsonObject, Message } from './dialect.ts';
import { dialectOf } from './dialects.ts';
import { isList, isObject, textOf, without } from './json.ts';
import { comparable } from './message-hash.ts';
import { recordedAnswers, recordedAsks, skip, testNaming, value, type RecordedBody } from './recorded-logs.arbitrary.ts';

const TARGETS = ['openai.chat', 'openai.responses', 'anthropic.messages'] as const;
const ASKS = skip === false ? recordedAsks() : [];
const ANSWERS = skip === false ? recordedAnswers() : [];

/** The one request in the logs that no provider can have taken: a list with a text in it. */
const parsed = ({ dialect, body }: RecordedBody): Ask | null => {
  const ask = dialectOf(dialect).parseAsk(body);
  if (!ask.ok) assert.equal(ask.error.field, 'messages[11].content[0]');
  return ask.ok ? ask.value : null;
};

function essence(ask: Ask): unknown {
  const { messages, tools, toolChoice, sampling, n } = ask;
  return { messages: messages.map(comparable), tools, toolChoice, sampling, n };
}

test('a request written back in its own dialect is read as the same', { skip }, () => {
  let count = 0;
  for (const recorded of ASKS) {
    const ask = parsed(recorded);
    if (ask === null) continue;
    const { dialect, name } = recorded;
    const again = value(dialectOf(dialect).parseAsk(value(dialectOf(dialect).writeAsk(ask))));
    assert.deepEqual(essence(again), essence(ask), name);
    assert.deepEqual(again.rest, ask.rest, name);
    count++;
  }
  assert.ok(count > 500);
});

type HeldMessage = { readonly role: string; readonly content: readonly Json[]; readonly tool_calls?: readonly Json[] };

/** Neutral messages as a dialect can hold them: what it says in another place, or not at all. */
function held(messages: readonly Message[], dialect: DialectName): unknown {
  const plain = messages.map((message) => {
    const { provider_state: _state, content = null, ...said } = comparable(message);
    return { ...said, content: heldContent(content, message, dialect) } as HeldMessage & JsonObject;
  });
  return dialect === 'anthropic.messages' ? mergeSystem(plain) : dialect === 'openai.responses' ? mergeAssistants(plain) : plain;
}

/** A failed result says so in its text outside Messages; there a refusal is text. Empty texts have no part. */
function heldContent(content: Json, message: Message, dialect: DialectName): readonly Json[] {
  const parts: readonly Json[] = isList(content) ? content : [{ type: 'text', text: content ?? '' }];
  const texts = parts.map((part) => {
    if (!isObject(part)) return part;
    if (part['type'] === 'refusal') return { type: 'text', text: part['refusal'] ?? '' };
    return part['type'] === 'image_url' && isObject(part['image_url']) && part['image_url']['detail'] === 'auto'
      ? { ...part, image_url: without(part['image_url'], new Set(['detail'])) }
      : part;
  });
  const isMarked = message['is_error'] === true && dialect !== 'anthropic.messages';
  return joinTexts(isMarked ? [{ type: 'text', text: 'Error: ' }, ...texts] : texts);
}

function textIn(part: Json | undefined): string | null {
  return isObject(part) && part['type'] === 'text' ? (textOf(part['text']) ?? '') : null;
}

function joinTexts(parts: readonly Json[]): readonly Json[] {
  const joined: Json[] = [];
  for (const part of parts) {
    const [before, text] = [textIn(joined.at(-1)), textIn(part)];
    if (before !== null && text !== null) joined[joined.length - 1] = { type: 'text', text: before + text };
    else joined.push(text === null ? part : { type: 'text', text });
  }
  return joined.filter((part) => textIn(part) !== '');
}

/** Items of one assistant message cannot be told from those of the next. */
function mergeAssistants(messages: readonly HeldMessage[]): HeldMessage[] {
  const merged: HeldMessage[] = [];
  for (const message of messages) {
    const last = merged.at(-1);
    if (last?.role !== 'assistant' || message.role !== 'assistant') {
      merged.push(message);
      continue;
    }
    const calls = [...(last.tool_calls ?? []), ...(message.tool_calls ?? [])];
    merged[merged.length - 1] = {
      ...last,
      content: joinTexts([...last.content, ...message.content]),
      ...(calls.length > 0 && { tool_calls: calls }),
    };
  }
  return merged;
}

/** Leading system and developer messages are one there. */
function mergeSystem(messages: readonly HeldMessage[]): unknown {
  const isSystem = (message: HeldMessage | undefined): boolean => message?.role === 'system' || message?.role === 'developer';
  const end = messages.findIndex((message) => !isSystem(message));
  const leading = messages.slice(0, end < 0 ? messages.length : end);
  const content = joinTexts(leading.flatMap((message) => message.content));
  return [...(leading.length > 0 ? [{ role: 'system', content }] : []), ...messages.slice(leading.length)];
}

const REFUSED = [
  'anthropic.messages -> openai.chat: messages[N].content[N]: it has no part of type tool_reference',
  'anthropic.messages -> openai.chat: tools[N]: a tool of type web_search_20250305 runs at the provider',
  'anthropic.messages -> openai.responses: messages[N].content[N]: it has no part of type tool_reference',
  'anthropic.messages -> openai.responses: messages[N].reasoning_content: an engine takes only reasoning that it made',
  'anthropic.messages -> openai.responses: stop: it has no such parameter',
  'anthropic.messages -> openai.responses: tools[N]: it has no tool of type web_search_20250305',
  'openai.chat -> anthropic.messages: messages[N].content[N].image_url.url: it takes links and base64 data URLs',
  'openai.chat -> anthropic.messages: messages[N].content[N]: it has no block for a part of type image',
  'openai.chat -> anthropic.messages: messages[N].role: it has no role model',
  'openai.chat -> openai.responses: messages[N].content[N]: it has no part of type image',
  'openai.responses -> anthropic.messages: messages[N].reasoning_content: an engine takes only thinking that it signed',
];

test('a request told in another dialect is the same conversation there, or is refused by name', { skip }, () => {
  const told: Record<string, number> = {};
  const refused = new Set<string>();
  for (const recorded of ASKS) {
    const ask = parsed(recorded);
    if (ask === null) continue;
    for (const target of TARGETS) {
      if (target === ask.dialect) continue;
      const pair = `${ask.dialect} -> ${target}`;
      const written = dialectOf(target).writeAsk({ ...ask, sampling: { ...ask.sampling, max_tokens: 100 } });
      if (!written.ok) {
        assert.equal(written.error.code, 'cannot_translate');
        const [why] = (written.error.message.split(': ').at(-1) as string).split('; ');
        refused.add(`${pair}: ${(written.error.field ?? '').replaceAll(/\d+/g, 'N')}: ${why}`);
        continue;
      }
      told[pair] = (told[pair] ?? 0) + 1;
      const again: Ask = value(dialectOf(target).parseAsk(written.value));
      assert.deepEqual(held(again.messages, target), held(ask.messages, target), `${recorded.name} -> ${target}`);
      assert.deepEqual(again.tools.length, ask.tools.length);
    }
  }
  assert.deepEqual([...refused].toSorted(), REFUSED);
  for (const count of Object.values(told)) assert.ok(count >= 38);
});

test('an answer written back, and in every other dialect, is read as the same', { skip }, () => {
  const told: Record<string, number> = {};
  for (const { name, dialect, body } of ANSWERS) {
    const answer = value(dialectOf(dialect).parseAnswer(body));
    const [choice] = answer.choices;
    if (dialect === 'openai.completions' || choice === undefined || choice.finishReason === null) continue;
    for (const target of TARGETS) {
      const ask = value(dialectOf(target).parseAsk({ model: 'm', messages: [], input: [] }));
      const written = dialectOf(target).writeAnswer(answer, ask, testNaming());
      if (!written.ok) {
        assert.equal(written.error.code, 'cannot_translate');
        continue;
      }
      told[target] = (told[target] ?? 0) + 1;
      const again = value(dialectOf(target).parseAnswer(written.value));
      assert.deepEqual(held(again.choices.map((c) => c.message), target), held([choice.message], target), `${name} -> ${target}`); // prettier-ignore
      assert.deepEqual(again.usage?.promptTokens, answer.usage?.promptTokens ?? (again.usage === null ? undefined : 0), name);
    }
  }
  for (const target of TARGETS) assert.ok((told[target] ?? 0) > 30, `${target}: ${told[target]}`);
});
