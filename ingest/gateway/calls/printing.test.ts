/** Prints that go by the text of an earlier request are those that hashing every message gives, whatever was changed in between. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { chat } from '../dialects/chat.ts';
import type { Message } from '../dialects/dialect.ts';
import { writeJson } from '../dialects/json.ts';
import type { Exchange } from '../graph/exchange.ts';
import { printMessages, PRINT_WORDS } from '../graph/message-print.ts';
import { planExchange } from '../graph/plan-exchange.ts';
import { applyNodes, emptyGraph } from '../graph/trace-graph.ts';
import { ENDPOINTS } from './endpoints.ts';
import { readInbound, type Inbound } from './inbound.ts';
import { startPrinting, type Printed } from './printing.ts';

function inboundOf(text: string): Inbound {
  const read = readInbound(Buffer.from(text), ENDPOINTS['openai.chat'], chat);
  assert.ok(read.ok, read.ok ? '' : read.error.message);
  return read.value;
}

/** A trace that is called again and again, as the gateway does it. */
function createTrace() {
  const graph = emptyGraph();
  const known: Printed[] = [];
  const call = (text: string, answer: string): { words: Uint32Array; expected: Uint32Array } => {
    const inbound = inboundOf(text);
    const { messages } = inbound.ask;
    const printing = startPrinting(graph, known, inbound, messages);
    const prints = printing.take();
    const expected = printMessages(messages);
    assert.deepEqual(prints.roles, expected.roles);
    const exchange: Exchange = {
      tools: [], messages, promptIds: null, spans: null, start: 0, end: 1, retry: false, compaction: false,
      choices: [{ index: 0, message: { role: 'assistant', content: answer }, ids: null, logprobs: null, policyRuns: null, partial: false, tokenError: null }],
    }; // prettier-ignore
    const plan = planExchange(graph, exchange, prints);
    applyNodes(graph, plan.nodes);
    if (plan.drift.length === 0) printing.remember(graph.parents[plan.answers[0]?.node as number] as number);
    return { words: prints.words, expected: expected.words };
  };
  return { graph, known, call };
}

const text = fc.constantFrom('', 'a', 'b', 'é😀', '\u0000', '\ud800', '],"x":[', '"]', '{"role":"user"}');
const message = fc.oneof(
  fc.record({ role: fc.constantFrom('user', 'system'), content: text }),
  fc.record({ role: fc.constant('assistant'), content: text, tool_calls: fc.array(fc.record({ id: text, type: fc.constant('function'), function: fc.record({ name: fc.constant('f'), arguments: text }) }), { maxLength: 2 }) }),
  fc.record({ role: fc.constant('tool'), tool_call_id: text, content: fc.array(fc.record({ type: fc.constant('text'), text }), { maxLength: 2 }) }),
) as fc.Arbitrary<Message>; // prettier-ignore
const change = fc.oneof(
  { weight: 6, arbitrary: fc.record({ kind: fc.constant('add' as const), more: fc.array(message, { minLength: 1, maxLength: 3 }) }) },
  fc.record({ kind: fc.constant('edit' as const), at: fc.nat(8), to: message }),
  fc.record({ kind: fc.constant('shorten' as const), to: fc.nat(8) }),
  fc.record({ kind: fc.constant('back' as const), to: fc.nat(8) }),
);
const shape = fc.record({ space: fc.constantFrom('', ' ', '\n  '), first: fc.boolean(), tail: fc.constantFrom('', ' ', '\r\n') });

function written(messages: readonly Message[], { space, first, tail }: { space: string; first: boolean; tail: string }): string {
  const list = `[${space}${messages.map((each) => writeJson(each)).join(`,${space}`)}${tail}]`;
  const rest = '"model":"toy","metadata":{"messages":["],"]}';
  return first ? `{"messages":${list},${rest}}` : `{${rest}, "messages" : ${list}${tail}}`;
}

test('whatever changes between requests, the prints are those of the messages', () => {
  fc.assert(
    fc.property(fc.array(message, { maxLength: 4 }), fc.array(fc.tuple(change, shape, text), { minLength: 1, maxLength: 12 }), (start, steps) => {
      const trace = createTrace();
      const seen: Message[][] = [];
      let messages = start;
      for (const [step, how, answer] of steps) {
        if (step.kind === 'add') messages = [...messages, ...step.more];
        else if (step.kind === 'edit') messages = messages.map((each, i) => (i === step.at ? step.to : each));
        else if (step.kind === 'shorten') messages = messages.slice(0, step.to);
        else messages = seen[step.to] ?? messages;
        seen.push(messages);
        const { words, expected } = trace.call(written(messages, how), answer);
        assert.deepEqual(words, expected);
      }
    }),
    { numRuns: 400 },
  ); // prettier-ignore
});

const say = (n: number): { role: string; content: string }[] =>
  Array.from({ length: n }, (_, i) => ({ role: i % 2 === 0 ? 'user' : 'assistant', content: `m${i}` }));
const plain = (messages: readonly Message[]): string => written(messages, { space: ' ', first: false, tail: '' });

test('what is repeated to the byte is not hashed again; conversations that take turns are each known', () => {
  const trace = createTrace();
  const [a, b] = [say(5), say(7).map((each) => ({ ...each, content: `other ${each.content}` }))];
  trace.call(plain(a), 'x');
  trace.call(plain(b), 'y');
  assert.equal(trace.known.length, 2);
  trace.graph.prints.fill(7, 2 * PRINT_WORDS, 3 * PRINT_WORDS); // node 2 is the third message of a: who takes its print shows it
  const again = trace.call(plain([...a, { role: 'user', content: 'more' }]), 'z');
  assert.deepEqual([...again.words.subarray(2 * PRINT_WORDS, 3 * PRINT_WORDS)], Array(PRINT_WORDS).fill(7));
  assert.notDeepEqual(again.words, again.expected);
  const changed = trace.call(plain([{ role: 'user', content: 'm0!' }, ...a.slice(1)]), 'z');
  assert.deepEqual(changed.words, changed.expected);
  const onB = trace.call(plain([...b, { role: 'user', content: 'more' }]), 'z');
  assert.deepEqual(onB.words, onB.expected);
});

test('a longer number, a longer text and a cut element are no repetition', () => {
  const trace = createTrace();
  const head = '{"model":"toy","messages":[{"role":"user","content":"a"}';
  for (const body of [`${head}]}`, `${head} ]}`, `${head},{"role":"user","content":"a"}]}`, `${head.replace('"a"', '"ab"')}]}`]) {
    const { words, expected } = trace.call(body, 'x');
    assert.deepEqual(words, expected, body);
  }
});

test('long conversations are printed in turns of the event loop before anybody asks', async () => {
  const graph = emptyGraph();
  const messages = say(2_000);
  const inbound = inboundOf(plain(messages));
  const printing = startPrinting(graph, [], inbound, inbound.ask.messages);
  let turns = 0;
  for (; turns < 20; turns++) await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(printing.take().words, printMessages(inbound.ask.messages).words);
});
