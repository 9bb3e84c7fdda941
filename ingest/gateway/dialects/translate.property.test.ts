/** What holds for any answer and any conversation, whichever dialects they pass through. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import fc from 'fast-check';
import { encodeSse } from '../sse/sse-encoder.ts';
import type { Answer, Ask, Delta, DialectName, Json, JsonObject, Message } from './dialect.ts';
import { dialectOf } from './dialects.ts';
import { isList, readStrict, writeJson } from './json.ts';
import { comparable, messageHash } from './message-hash.ts';
import {
  argumentsText,
  conversation,
  deltasOf,
  interleaved,
  messageOf,
  order,
  plainArguments,
  said,
  text,
  tools,
} from './neutral.arbitrary.ts';
import { anthropicStream, openaiResponsesStream } from './official-clients.arbitrary.ts';
import { eventsOf, testNaming, value } from './recorded-logs.arbitrary.ts';

const DIALECTS = ['openai.chat', 'openai.responses', 'anthropic.messages'] as const;
const dialectName = fc.constantFrom<(typeof DIALECTS)[number]>(...DIALECTS);
const USAGE = { promptTokens: 7, completionTokens: 5, cachedTokens: 3, cacheWriteTokens: null, reasoningTokens: null, cost: null };

function emptyAsk(dialect: DialectName, more: JsonObject = {}): Ask {
  return value(
    dialectOf(dialect).parseAsk({
      model: 'm',
      stream: true,
      messages: [],
      input: [],
      max_tokens: 9,
      stream_options: { include_usage: true },
      ...more,
    }),
  );
}

/** The stream of these deltas in a dialect. */
function streamOf(dialect: DialectName, deltas: readonly Delta[], more?: JsonObject): Uint8Array {
  const writer = dialectOf(dialect).createWriter(emptyAsk(dialect, more), testNaming());
  const frames = deltas.flatMap((delta) => [...value(writer.write(delta))]);
  return Buffer.concat([...frames, ...writer.end()].map(encodeSse));
}

function foldOf(dialect: DialectName, bytes: Uint8Array, size: number, n = 1): Answer {
  const fold = dialectOf(dialect).createFold(n);
  for (const event of eventsOf(bytes, size)) value(fold.add(event));
  assert.deepEqual(fold.state().error, null);
  assert.ok(fold.state().finished && fold.state().ended);
  return fold.answer();
}

const START: Delta = { type: 'start', id: 'x', model: 'm', created: 1 };
const END: Delta = { type: 'usage', usage: USAGE };

test('any answer, told as a stream in any dialect and cut anywhere, folds to that answer', () => {
  fc.assert(
    fc.property(
      said({ text, arguments: argumentsText }),
      dialectName,
      order,
      fc.integer({ min: 1, max: 50 }),
      (answer, dialect, cuts, size) => {
        const folded = foldOf(dialect, streamOf(dialect, [START, ...deltasOf(answer, 0, cuts), END]), size);
        const [choice] = folded.choices;
        assert.deepEqual(comparable(choice?.message as Message), comparable(messageOf(answer)));
        assert.equal(
          choice?.finishReason,
          answer.calls.length > 0 && dialect === 'openai.responses' && answer.finishReason !== 'length'
            ? 'tool_calls'
            : answer.finishReason,
        );
        assert.equal(folded.usage?.promptTokens, 7);
        assert.equal(folded.usage?.cachedTokens, 3);
        if (dialect !== 'anthropic.messages') assert.deepEqual(callTexts(choice?.message as Message), answer.calls.map((call) => call.arguments)); // prettier-ignore
      },
    ),
    { numRuns: 250 },
  );
});

/** The arguments letter by letter: only Messages, where they are an object, may write them anew. */
function callTexts(message: Message): Json[] {
  const calls = message['tool_calls'];
  return isList(calls) ? calls.map((call) => (call as JsonObject)['arguments'] as Json) : [];
}

test('several choices of a chat stream, interleaved, come apart again', () => {
  fc.assert(
    fc.property(
      fc.array(said({ text, arguments: argumentsText }), { minLength: 2, maxLength: 4 }),
      order,
      fc.integer({ min: 1, max: 30 }),
      (answers, cuts, size) => {
        const deltas = interleaved(answers.map((answer, i) => deltasOf(answer, i, cuts)), cuts); // prettier-ignore
        const folded = foldOf('openai.chat', streamOf('openai.chat', [START, ...deltas, END], { n: answers.length }), size, answers.length);
        assert.deepEqual(folded.choices.map(({ message }) => comparable(message)), answers.map((answer) => comparable(messageOf(answer)))); // prettier-ignore
      },
    ),
    { numRuns: 150 },
  );
});

/** The neutral message that a harness of this dialect sends back after it was given this body or final message. */
function sentBack(dialect: DialectName, body: JsonObject): Message {
  const requests: Record<string, JsonObject> = {
    'openai.chat': { model: 'm', messages: [(body['choices'] as { message: Json }[] | undefined)?.[0]?.message ?? null] },
    'openai.responses': { model: 'm', input: body['output'] ?? null },
    'anthropic.messages': { model: 'm', max_tokens: 9, messages: [{ role: 'assistant', content: body['content'] ?? null }] },
  };
  const wire = readStrict(Buffer.from(writeJson(requests[dialect] as JsonObject)));
  const ask = value(dialectOf(dialect).parseAsk(value(wire) as JsonObject));
  assert.equal(ask.messages.length, 1);
  return ask.messages[0] as Message;
}

test('what a harness is answered in any dialect is the same message when it sends it back', () => {
  fc.assert(
    fc.property(said({ text, arguments: argumentsText }), dialectName, fc.boolean(), (answer, dialect, encrypted) => {
      const ask = emptyAsk(dialect, encrypted ? { include: ['reasoning.encrypted_content'] } : {});
      const message = messageOf(answer);
      const choices = [{ index: 0, message, finishReason: answer.finishReason, nativeFinish: null, stopSequence: null }];
      const body = value(dialectOf(dialect).writeAnswer({ id: 'x', model: 'm', created: 1, choices, usage: USAGE }, ask, testNaming()));
      const back = sentBack(dialect, body);
      assert.deepEqual(comparable(back), comparable(message));
      assert.equal(messageHash(back), messageHash(message));
    }),
    { numRuns: 250 },
  );
});

test('the official clients, too, send back what the engine said', async () => {
  const plain = fc.string({ unit: 'grapheme', maxLength: 20 });
  await fc.assert(
    fc.asyncProperty(said({ text: plain, arguments: plainArguments }), order, async (answer, cuts) => {
      const deltas = [START, ...deltasOf(answer, 0, cuts), END];
      const anthropic = await anthropicStream(streamOf('anthropic.messages', deltas));
      assert.deepEqual(comparable(sentBack('anthropic.messages', anthropic)), comparable(messageOf(answer)));
      const responses = await openaiResponsesStream(streamOf('openai.responses', deltas));
      assert.deepEqual(comparable(sentBack('openai.responses', responses)), comparable(messageOf(answer)));
    }),
    { numRuns: 40 },
  );
});

const essence = ({ messages, tools: offered, toolChoice, sampling }: Ask): unknown => ({
  messages: messages.map(comparable),
  tools: offered
    .map((tool) => tool['function'])
    .map((body) => ({ ...(body as JsonObject), strict: ((body as JsonObject)['strict'] ?? false) === true })),
  toolChoice,
  limit: sampling['max_completion_tokens'] ?? sampling['max_tokens'],
  temperature: sampling['temperature'],
});

test('any conversation that all dialects can hold goes there and back unchanged', () => {
  const choice = fc.constantFrom<Json>('auto', 'none', 'required', { type: 'function', function: { name: 'search' } });
  fc.assert(
    fc.property(conversation, tools, choice, dialectName, dialectName, (messages, offered, wanted, from, to) => {
      const hasTools = offered.length > 0;
      const body = { model: 'm', messages, tools: offered, max_tokens: 50, temperature: 0.5, ...(hasTools && { tool_choice: wanted }) };
      const wireMessages = value(
        dialectOf('openai.chat').writeAsk({
          ...value(dialectOf('openai.chat').parseAsk({ ...body, messages: [] })),
          messages,
          dialect: 'anthropic.messages',
        }),
      );
      const chat = value(dialectOf('openai.chat').parseAsk(wireMessages));
      assert.deepEqual(chat.messages.map(comparable), messages.map(comparable));
      const there = passed(chat, from);
      const back = passed(passed(there, to), from);
      assert.deepEqual(essence(back), essence(there));
      assert.deepEqual(essence(there), essence(chat));
    }),
    { numRuns: 300 },
  );
});

/** The ask as an engine of `to` reads it, by way of JSON text. */
function passed(ask: Ask, to: DialectName): Ask {
  const text = writeJson(value(dialectOf(to).writeAsk(ask)));
  return value(dialectOf(to).parseAsk(value(readStrict(Buffer.from(text))) as JsonObject));
}
