/** Answers and conversations in neutral form, odd ones too, for property tests. */
import fc from 'fast-check';
import type { Delta, JsonObject, Message } from './dialect.ts';

/** Text with everything that JSON, UTF-8 and event streams may stumble over. */
export const text = fc
  .array(
    fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 6 }),
      fc.string({ unit: 'binary', maxLength: 3 }),
      fc.constantFrom('\ud800', '\udfff', '\0', '\u2028', '\r\n', '\n\n', 'data: [DONE]', '"}', '\\', '日本', '👩‍👩‍👧', '\uFEFF'),
    ),
    { maxLength: 6 },
  )
  .map((pieces) => pieces.join(''));

/** What models write as arguments: objects, numbers beyond 2^53, a key twice, no JSON at all, nothing. */
export const argumentsText = fc.oneof(
  fc
    .dictionary(fc.string({ maxLength: 5 }), fc.jsonValue({ maxDepth: 2 }), { maxKeys: 3, noNullPrototype: true })
    .map((value) => JSON.stringify(value)),
  fc.constantFrom(
    '',
    '{}',
    ' {"a" : 1.0} ',
    '{"n":12345678901234567890}',
    '{"a":1,"a":2}',
    '{"cut":',
    'not json',
    '[1]',
    '{"__invalid_json__":"x"}',
    '"x"',
    '{"s":"\\ud800"}',
  ),
  text,
);

/** Arguments that JavaScript clients do not round when they parse and write them again. */
export const plainArguments = fc
  .dictionary(
    fc.string({ unit: 'grapheme', maxLength: 5 }),
    fc.oneof(fc.string({ unit: 'grapheme' }), fc.integer(), fc.boolean(), fc.constant(null)),
    { maxKeys: 3, noNullPrototype: true },
  )
  .map((value) => JSON.stringify(value));

export type Said = {
  readonly content: string;
  readonly reasoning: string;
  readonly calls: readonly { readonly id: string; readonly name: string; readonly arguments: string }[];
  readonly finishReason: string;
};

export function said(options: { readonly text: fc.Arbitrary<string>; readonly arguments: fc.Arbitrary<string> }): fc.Arbitrary<Said> {
  const calls = fc.array(fc.record({ name: fc.constantFrom('search', 'run'), arguments: options.arguments }), { maxLength: 3 });
  return fc
    .record({ content: options.text, reasoning: options.text, calls, finishReason: fc.constantFrom('stop', 'length') })
    .map(({ calls: given, finishReason, ...rest }) => ({
      ...rest,
      calls: given.map((call, i) => ({ ...call, id: `call_${i}` })),
      finishReason: given.length > 0 && finishReason === 'stop' ? 'tool_calls' : finishReason,
    }));
}

export function messageOf({ content, reasoning, calls }: Said): Message {
  return {
    role: 'assistant',
    content: content === '' ? null : content,
    ...(reasoning !== '' && { reasoning_content: reasoning }),
    ...(calls.length > 0 && { tool_calls: calls }),
  };
}

/** The deltas of an answer: texts in pieces, reasoning first, parallel calls interleaved, as `order` says. */
export function deltasOf(answer: Said, choice: number, order: readonly number[]): Delta[] {
  const queues: Delta[][] = answer.calls.map(({ id, name, arguments: given }, call) => [
    { type: 'tool_call', choice, call, id, name, custom: false },
    ...pieces(given, order).map((piece): Delta => ({ type: 'tool_arguments', choice, call, text: piece })),
  ]);
  const first: Delta[] = [
    ...pieces(answer.reasoning, order).map((piece): Delta => ({ type: 'reasoning', choice, text: piece })),
    ...pieces(answer.content, order).map((piece): Delta => ({ type: 'text', choice, text: piece })),
    ...queues.flatMap((queue) => queue.splice(0, 1)),
  ];
  return [
    ...first,
    ...interleaved(queues, order),
    { type: 'finish', choice, finishReason: answer.finishReason, nativeFinish: null, stopSequence: null },
  ];
}

function pieces(whole: string, order: readonly number[]): string[] {
  const found: string[] = [];
  for (let at = 0, i = 0; at < whole.length; i++) {
    const size = 1 + ((order[i % order.length] ?? 0) % 5);
    found.push(whole.slice(at, at + size));
    at += size;
  }
  return found;
}

/** Takes from the queues in turn until all are empty. */
export function interleaved<T>(queues: readonly T[][], order: readonly number[]): T[] {
  const mixed: T[] = [];
  const left = queues.map((queue) => [...queue]);
  for (let i = 0; left.some((queue) => queue.length > 0); i++) {
    const open = left.filter((queue) => queue.length > 0);
    mixed.push((open[(order[i % order.length] ?? 0) % open.length] as T[]).shift() as T);
  }
  return mixed;
}

export const order = fc.array(fc.nat(20), { minLength: 1, maxLength: 12 });

const wellFormed = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 });
const part = fc.oneof(
  wellFormed.map((value): JsonObject => ({ type: 'text', text: value })),
  fc.constantFrom<JsonObject>(
    { type: 'image_url', image_url: { url: 'data:image/png;base64,iVBORw0KGgo=' } },
    { type: 'image_url', image_url: { url: 'https://example.org/a.png' } },
    { type: 'file', file: { filename: 'a.pdf', file_data: 'data:application/pdf;base64,JVBERi0=' } },
  ),
);
const content = fc.oneof(wellFormed, fc.array(part, { minLength: 1, maxLength: 3 }));

/** A user turn, and an answer to it whose calls, if any, have their results. */
const turn = fc
  .record({
    user: content,
    answer: said({ text: wellFormed, arguments: argumentsText }),
    results: fc.array(content, { minLength: 3, maxLength: 3 }),
  })
  .map(({ user, answer, results }): Message[] => [
    { role: 'user', content: user },
    messageOf({ ...answer, reasoning: '' }),
    ...answer.calls.map((call, i): Message => ({ role: 'tool', tool_call_id: call.id, content: results[i] ?? '' })),
  ]);

/** A conversation that every dialect can hold: no reasoning, no failed results, one system message at most. */
export const conversation = fc
  .record({ system: fc.option(wellFormed), turns: fc.array(turn, { minLength: 1, maxLength: 4 }) })
  .map(({ system, turns }): Message[] => [...(system === null ? [] : [{ role: 'system', content: system }]), ...turns.flat()]);

export const tools = fc.uniqueArray(
  fc.record({ name: fc.constantFrom('search', 'run', 'read'), description: wellFormed }),
  { selector: ({ name }) => name, maxLength: 3 },
).map((given): JsonObject[] => given.map((body) => ({ type: 'function', function: { ...body, parameters: { type: 'object', properties: { q: { type: 'string' } } } } }))); // prettier-ignore
