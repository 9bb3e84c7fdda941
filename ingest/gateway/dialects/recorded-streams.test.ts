/** Real streams of real providers: any chunking, the official clients' own parsers, and every other dialect. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import type { Answer, AnswerFold, Delta, DialectName, Json, JsonObject } from './dialect.ts';
import { createAnswerFold, dialectOf } from './dialects.ts';
import { isList, isObject, without } from './json.ts';
import { comparable } from './message-hash.ts';
import { anthropicStream, openaiChatStream, openaiResponsesStream } from './official-clients.arbitrary.ts';
import { eventsOf, recordedStreams, skip, testNaming, value, type RecordedStream } from './recorded-logs.arbitrary.ts';
import { encodeSse } from '../sse/sse-encoder.ts';

/** A server that began a second message in the middle of the first, which the official clients refuse too. */
const SPLICED = 'anthropic__spliced-message-start.chunks.txt';
/** Its texts were shortened by hand after it was recorded: the last event says another text than its deltas. */
const EDITED = 'openai__openai-shell-container.1.chunks.txt';
const ALL = skip === false ? recordedStreams() : [];
const STREAMS = ALL.filter(({ name }) => !name.endsWith(SPLICED) && !name.endsWith(EDITED));

function folded({ bytes, dialect }: Pick<RecordedStream, 'bytes' | 'dialect'>, size?: number): { fold: AnswerFold; deltas: Delta[] } {
  const fold = createAnswerFold(dialect);
  const deltas = eventsOf(bytes, size).flatMap((event) => [...value(fold.add(event)).deltas]);
  return { fold, deltas };
}

/** What of an answer must be the same whichever way it came. */
function essence(answer: Answer): { index: number; message: JsonObject; finishReason: string | null }[] {
  return answer.choices.map(({ index, message, finishReason }) => ({ index, message: comparable(message), finishReason }));
}

test('there are streams of every dialect', { skip }, () => {
  const count = (dialect: DialectName): number => STREAMS.filter((stream) => stream.dialect === dialect).length;
  assert.ok(count('openai.chat') >= 30 && count('anthropic.messages') >= 50 && count('openai.responses') >= 30);
});

test('a second message in one stream is malformed', { skip }, () => {
  const spliced = ALL.find((stream) => stream.name.endsWith(SPLICED)) as RecordedStream;
  const fold = createAnswerFold(spliced.dialect);
  const problems = eventsOf(spliced.bytes).map((event) => fold.add(event)).filter((step) => !step.ok); // prettier-ignore
  assert.equal(problems[0]?.error.code, 'malformed_stream');
});

test('every recorded stream folds to the same answer in chunks of any size, and its events are its bytes', { skip }, () => {
  for (const stream of STREAMS) {
    const whole = folded(stream).fold.answer();
    for (const size of [1, 13, 1000]) assert.deepEqual(folded(stream, size).fold.answer(), whole, stream.name);
    const events = eventsOf(stream.bytes, 11);
    assert.ok(Buffer.concat(events.map((event) => event.raw)).equals(stream.bytes), stream.name);
  }
});

/** Streams that a provider broke off by an error, and what it said. */
const BROKEN: Readonly<Record<string, string>> = {
  'test_openrouter_stream_error__0.sse': 'error',
  'test_tool_use_failed_error_streaming_with_text__0.sse': 'invalid_request_error',
  'openai_responses_error_event.sse': 'insufficient_quota',
  'openai__openai-error.1.chunks.txt': 'insufficient_quota',
};

test('every recorded stream ends finished, or with the error that its provider told', { skip }, () => {
  for (const stream of STREAMS) {
    const { fold, deltas } = folded(stream);
    const { finished, error } = fold.state();
    const file = stream.name.split('/').at(-1) as string;
    if (BROKEN[file] !== undefined) assert.equal(error?.type, BROKEN[file], file);
    else assert.deepEqual([finished, error], [true, null], file);
    assert.equal(
      deltas.some((delta) => delta.type === 'error'),
      error !== null,
      file,
    );
  }
});

/** The texts of the deltas, joined, as an answer's message has them. */
function joined(deltas: readonly Delta[], choice: number) {
  const texts = { text: '', reasoning: '', refusal: '' };
  const calls: { id: string; name: string; arguments: string }[] = [];
  for (const delta of deltas) {
    if (!('choice' in delta) || delta.choice !== choice) continue;
    if (delta.type === 'text' || delta.type === 'reasoning' || delta.type === 'refusal') texts[delta.type] += delta.text;
    if (delta.type === 'tool_call') calls[delta.call] = { id: delta.id, name: delta.name, arguments: '' };
    if (delta.type === 'tool_arguments') (calls[delta.call] as { arguments: string }).arguments += delta.text;
  }
  return { ...texts, calls };
}

test('the deltas of a stream, joined, are its answer; at any event the answer is a beginning of it', { skip }, () => {
  for (const stream of STREAMS) {
    const fold = createAnswerFold(stream.dialect);
    const deltas: Delta[] = [];
    const texts: string[] = [];
    for (const event of eventsOf(stream.bytes)) {
      deltas.push(...value(fold.add(event)).deltas);
      texts.push(String((fold.answer().choices[0]?.message['content'] as string | null | undefined) ?? ''));
    }
    for (const { index, message } of fold.answer().choices) {
      const finishes = deltas.filter((delta) => delta.type === 'finish' && delta.choice === index);
      assert.equal(finishes.length <= 1 && (fold.state().error !== null || finishes.length === 1), true, stream.name);
      const { text, reasoning, refusal, calls } = joined(deltas, index);
      assert.equal(text, message['content'] ?? '', stream.name);
      assert.equal(reasoning, message['reasoning_content'] ?? '', stream.name);
      assert.equal(refusal, message['refusal'] ?? '', stream.name);
      const own = (isList(message['tool_calls']) ? message['tool_calls'] : []).filter(isObject);
      assert.deepEqual(calls, own.map(({ id, name, arguments: text }) => ({ id, name, arguments: text })), stream.name); // prettier-ignore
    }
    for (const [i, text] of texts.entries()) assert.ok((texts.at(-1) ?? '').startsWith(text), `${stream.name} at event ${i}`);
  }
});

const CLIENTS: Partial<Record<DialectName, (bytes: Uint8Array) => Promise<JsonObject>>> = {
  'openai.chat': openaiChatStream,
  'openai.responses': openaiResponsesStream,
  'anthropic.messages': anthropicStream,
};

/** Streams that the official client of OpenAI does not take: errors, ids that change on the way, an event it does not know. */
const CLIENTS_REFUSE = [
  'openai__github-copilot-id-rotation.1.chunks.txt',
  'openai__openai-apply-patch-tool.1.chunks.txt',
  'openai__openai-error.1.chunks.txt',
  'openai_responses_error_event.sse',
  'test_openrouter_stream_error__0.sse',
  'test_tool_use_failed_error_streaming_with_text__0.sse',
];

test('the official clients read the same answer from the same bytes', { skip }, async () => {
  const refused: string[] = [];
  let compared = 0;
  for (const stream of STREAMS) {
    const client = CLIENTS[stream.dialect];
    if (client === undefined) continue;
    const { fold } = folded(stream);
    let body: JsonObject;
    try {
      body = await client(stream.bytes);
    } catch (error) {
      assert.ok(error instanceof Error);
      refused.push(stream.name.split('/').at(-1) as string);
      continue;
    }
    compared++;
    assert.deepEqual(
      official(essence(fold.answer()), stream.dialect),
      official(essence(value(dialectOf(stream.dialect).parseAnswer(body))), stream.dialect),
      stream.name,
    );
  }
  assert.deepEqual(refused.toSorted(), CLIENTS_REFUSE);
  assert.ok(compared > 110);
});

/** Without what the official client of chat does not gather: reasoning. */
function official(answers: ReturnType<typeof essence>, dialect: DialectName): unknown {
  if (dialect !== 'openai.chat') return answers;
  return answers.map(({ message, ...rest }) => ({ ...rest, message: without(message, new Set(['reasoning_content', 'provider_state'])) }));
}

/** Work of provider-run tools and features. */
const REFUSED = [
  'cannot_translate a block of type code_execution_tool_result',
  'cannot_translate a block of type compaction',
  'cannot_translate a block of type fallback',
  'cannot_translate a block of type mcp_tool_use',
  'cannot_translate a block of type server_tool_use',
  'cannot_translate a call of a custom tool',
  'cannot_translate an item of type apply_patch_call',
  'cannot_translate an item of type file_search_call',
  'cannot_translate an item of type image_generation_call',
  'cannot_translate an item of type local_shell_call',
  'cannot_translate an item of type mcp_list_tools',
  'cannot_translate an item of type program',
  'cannot_translate an item of type program_output',
  'cannot_translate an item of type shell_call',
  'cannot_translate an item of type tool_search_call',
];

/** Here the provider encrypted the same reasoning once more for its last event, so that item and response differ; or its messages have a phase. */
const NOT_ALL =
  /openai__openai-phase\.1\.chunks\.txt$|test_openai_responses_streaming_usage__0\.sse$|openai__github-copilot-id-rotation\.1\.chunks\.txt$/;

const TARGETS = ['openai.chat', 'openai.responses', 'anthropic.messages'] as const;

test(
  'every recorded stream is told in every other dialect, read back and by the official clients, or refused by name',
  { skip },
  async () => {
    const told: Record<string, number> = {};
    const refused: string[] = [];
    for (const stream of STREAMS) {
      const { fold, deltas } = folded(stream);
      if (!fold.state().finished || fold.state().error !== null || stream.dialect === 'openai.completions') continue;
      for (const target of TARGETS) {
        if (target === stream.dialect) continue;
        const bytes = translated(deltas, target);
        if (typeof bytes === 'string') {
          refused.push(bytes);
          continue;
        }
        told[`${stream.dialect} -> ${target}`] = (told[`${stream.dialect} -> ${target}`] ?? 0) + 1;
        const again = folded({ bytes, dialect: target }).fold.answer();
        const isSame = isDeepStrictEqual(sayable(again, target), sayable(fold.answer(), target));
        assert.ok(isSame || NOT_ALL.test(stream.name), `${stream.name} -> ${target}`);
        const client = CLIENTS[target] as (bytes: Uint8Array) => Promise<JsonObject>;
        const theirs: Answer = value(dialectOf(target).parseAnswer(await client(bytes)));
        assert.deepEqual(official(essence(theirs), target), official(essence(again), target), `${stream.name} -> ${target}`);
        assert.deepEqual(counts(theirs), counts(fold.answer()), `${stream.name} -> ${target}`);
      }
    }
    assert.deepEqual([...new Set(refused)].toSorted(), REFUSED);
    for (const count of Object.values(told)) assert.ok(count >= 13);
  },
);

function translated(deltas: readonly Delta[], target: DialectName): Uint8Array | string {
  const dialect = dialectOf(target);
  const ask = value(
    dialect.parseAsk({ model: 'm', stream: true, messages: [], input: [], max_tokens: 1, stream_options: { include_usage: true } }),
  );
  const writer = dialect.createWriter(ask, testNaming());
  const frames: Uint8Array[] = [];
  for (const delta of deltas) {
    const written = writer.write(delta);
    if (!written.ok) return `${written.error.code} ${written.error.field}`;
    frames.push(...written.value.map(encodeSse));
  }
  return Buffer.concat([...frames, ...writer.end().map(encodeSse)]);
}

/** The answer without what the target says in another place: a refusal is text in Messages, and a stop sequence's reason is a stop. */
function sayable(answer: Answer, target: DialectName): unknown {
  return answer.choices.map(({ message, finishReason }) => {
    const { refusal, content, ...rest } = comparable(message);
    const text =
      target === 'anthropic.messages'
        ? `${(content as string | undefined) ?? ''}${(refusal as string | undefined) ?? ''}`
        : [content, refusal];
    const calls = isList(rest['tool_calls']) && rest['tool_calls'].length > 0;
    return { ...rest, text, finishReason: calls && finishReason === 'stop' ? 'tool_calls' : finishReason };
  });
}

function counts(answer: Answer): Json {
  const { promptTokens, completionTokens, cachedTokens } = answer.usage ?? {
    promptTokens: null,
    completionTokens: null,
    cachedTokens: null,
  };
  return [promptTokens ?? 0, completionTokens ?? 0, cachedTokens ?? 0];
}
