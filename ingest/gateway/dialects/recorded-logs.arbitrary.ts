/** Collected streams, requests and answers of real providers (../shared/data), sorted by dialect, for tests. */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Result } from '../../../base/result.ts';
import type { SseEvent } from '../sse/sse-event.ts';
import { createSseDecoder } from '../sse/sse-decoder.ts';
import type { DialectName, Json, JsonObject, Naming } from './dialect.ts';
import { isList, isObject, readJson, readStrict, writeJson } from './json.ts';

const DATA = join(import.meta.dirname, '../../../../shared/data');
export const skip = existsSync(join(DATA, 'sse')) ? false : 'the collected files (../shared/data) are not here';

export type RecordedStream = { readonly name: string; readonly dialect: DialectName; readonly bytes: Uint8Array };

/** Every stream, as server-sent events; bare lists of JSON are framed first. Streams of dialects that are not ours are left out. */
export function recordedStreams(): RecordedStream[] {
  return globSync('sse/**/*.{sse,txt,ndjson}', { cwd: DATA })
    .toSorted()
    .flatMap((name) => {
      const text = readFileSync(join(DATA, name), 'utf8');
      const framed = name.endsWith('.sse') || /^(event|data): /m.test(text) ? text : frames(text);
      const dialect = streamDialect(framed);
      return dialect === null ? [] : separated(framed).map((part) => ({ name, dialect, bytes: Buffer.from(part) }));
    });
}

/** Some files hold the streams of several turns, one behind the other. */
function separated(text: string): string[] {
  const blocks = text.split(/(?<=\n\n)/);
  const streams: string[] = [''];
  let ended = false;
  for (const block of blocks) {
    if (ended && /"type":\s*"(message_start|response\.created)"/.test(block)) streams.push('');
    ended = /"type":\s*"(message_stop|response\.completed)"/.test(block) || (ended && streams.at(-1) !== '');
    streams.push(`${streams.pop() ?? ''}${block}`);
  }
  return streams;
}

function frames(lines: string): string {
  return lines
    .replaceAll('}{"type":', '}\n{"type":') // one file has its events without anything between them
    .split('\n')
    .filter((line) => line.trim() !== '')
    .map((line) => {
      const data = line.replace(/^data:\s*/, '');
      const type = /^\{"type":\s*"(\w+)"/.exec(data)?.[1]; // the official Anthropic client goes by names
      return `${type === undefined ? '' : `event: ${type}\n`}data: ${data}\n\n`;
    })
    .join('');
}

function streamDialect(text: string): DialectName | null {
  if (/"type"\s*:\s*"message_start"/.test(text)) return 'anthropic.messages';
  if (/"type"\s*:\s*"response\./.test(text)) return 'openai.responses';
  if (/"object"\s*:\s*"text_completion"/.test(text)) return 'openai.completions';
  return /"choices"\s*:/.test(text) ? 'openai.chat' : null;
}

export type RecordedBody = { readonly name: string; readonly dialect: DialectName; readonly body: JsonObject };

/** Requests that were recorded beside streams, the input of Gym rollouts, and conversations rebuilt from session logs of agents. */
export function recordedAsks(): RecordedBody[] {
  const beside = globSync('sse/**/*.request.json', { cwd: DATA }).flatMap((name) => bodiesIn(name).map((body) => ({ name, body })));
  const gym = linesOf('nemo-gym/**/*.jsonl').flatMap(({ name, value }) => {
    const params = value['responses_create_params'];
    return isObject(params) ? [{ name, body: { ...params, model: 'm' } }] : [];
  });
  const asks = [...beside, ...gym, ...codexAsks(), ...claudeAsks(), ...chatAsks()];
  return asks.map(({ name, body }) => ({ name, body, dialect: askDialect(name, body) }));
}

function askDialect(name: string, body: JsonObject): DialectName {
  if (body['input'] !== undefined) return 'openai.responses';
  return /anthropic|claude/.test(name) || body['system'] !== undefined ? 'anthropic.messages' : 'openai.chat';
}

/** Every list of chat messages in the logs of trainers, evals and agents, as one request each; equal ones once. */
function chatAsks(): { name: string; body: JsonObject }[] {
  const found = new Map<string, { name: string; body: JsonObject }>();
  for (const { name, value } of linesOf('{verifiers,agent-lightning,tau-bench,openhands,langsmith,inspect-ai}/**/*.{json,jsonl}')) {
    for (const messages of conversationsIn(value, 0)) {
      const body = { model: 'm', messages };
      found.set(writeJson(body), { name, body });
    }
  }
  return [...found.values()];
}

function* conversationsIn(value: Json, depth: number): Generator<readonly Json[]> {
  if (depth > 8 || typeof value !== 'object' || value === null) return;
  if (isList(value) && value.length > 0 && value.every(isChatMessage)) yield value;
  for (const inner of Object.values(value)) yield* conversationsIn(inner, depth + 1);
}

/** Some logs keep tool calls in a form of their own, as texts above all: these are no requests. */
function isChatMessage(item: Json): boolean {
  if (!isObject(item) || typeof item['role'] !== 'string') return false;
  const calls = isList(item['tool_calls']) ? item['tool_calls'] : [];
  return calls.every((call) => isObject(call) && isObject(call['function']));
}

/** One request per session of Codex: all its items as the input. */
function codexAsks(): { name: string; body: JsonObject }[] {
  const items = new Map<string, Json[]>();
  for (const { name, value } of linesOf('codex-cli/*.jsonl')) {
    const item = value['type'] === 'response_item' ? value['payload'] : value;
    if (
      !isObject(item) ||
      !/^(message|reasoning|function_call|function_call_output|custom_tool_call|custom_tool_call_output|local_shell_call)$/.test(
        String(item['type'] as string),
      )
    )
      continue;
    items.set(name, [...(items.get(name) ?? []), item]);
  }
  return [...items].map(([name, input]) => ({ name, body: { model: 'm', input } }));
}

/** One request per session of Claude Code: its messages in order. */
function claudeAsks(): { name: string; body: JsonObject }[] {
  const turns = new Map<string, Json[]>();
  for (const { name, value } of [...linesOf('claude-code/**/*.jsonl'), ...linesOf('agent-session-logs/**/claude*.jsonl')]) {
    const { message } = value;
    if (!isObject(message) || (message['role'] !== 'user' && message['role'] !== 'assistant') || message['content'] === undefined) continue;
    turns.set(name, [...(turns.get(name) ?? []), { role: message['role'], content: message['content'] }]);
  }
  return [...turns].map(([name, messages]) => ({ name, body: { model: 'm', max_tokens: 100, messages } }));
}

/** Whole answers: of chat, Messages and Responses. */
export function recordedAnswers(): RecordedBody[] {
  const files = globSync('{openai-chat-logs,anthropic-messages}/*.json', { cwd: DATA }).flatMap((name) =>
    bodiesIn(name).map((body) => ({ name, body })),
  );
  const nested = files.flatMap(({ name, body }) =>
    [body, body['response'], body['input'], body['output']].filter(isObject).map((one) => ({ name, body: one })),
  );
  const gym = linesOf('nemo-gym/**/*.jsonl').flatMap(({ name, value }) =>
    isObject(value['response']) ? [{ name, body: value['response'] }] : [],
  );
  const vllm = linesOf('agent-lightning/vllm_*.jsonl').flatMap(({ name, value }) =>
    [...objectsIn(value, 0)].map((body) => ({ name, body })),
  );
  return [...nested, ...gym, ...vllm].flatMap(({ name, body }) => {
    const dialect = answerDialect(body);
    return dialect === null ? [] : [{ name, body, dialect }];
  });
}

function* objectsIn(value: Json, depth: number): Generator<JsonObject> {
  if (depth > 8 || typeof value !== 'object' || value === null) return;
  if (isObject(value)) yield value;
  for (const inner of Object.values(value)) yield* objectsIn(inner, depth + 1);
}

function answerDialect(body: JsonObject): DialectName | null {
  const { choices, output, content } = body;
  if (isList(choices)) {
    const [first] = choices;
    if (!isObject(first) || first['delta'] !== undefined) return null;
    return first['message'] === undefined ? 'openai.completions' : 'openai.chat';
  }
  if (isList(output) && output.every(isObject)) return 'openai.responses';
  return body['type'] === 'message' && isList(content) ? 'anthropic.messages' : null;
}

function bodiesIn(name: string): JsonObject[] {
  const read = readStrict(readFileSync(join(DATA, name)));
  return read.ok && isObject(read.value) ? [read.value] : [];
}

/** Lines of JSON, or a file that is one document. */
function linesOf(pattern: string): { name: string; value: JsonObject }[] {
  return globSync(pattern, { cwd: DATA })
    .toSorted()
    .flatMap((name) =>
      (name.endsWith('.json') ? [readFileSync(join(DATA, name), 'utf8')] : readFileSync(join(DATA, name), 'utf8').split('\n')).flatMap(
        (line) => {
          const read = line.trim() === '' ? null : readJson(line);
          if (read?.ok !== true) return [];
          return (isList(read.value) ? read.value : [read.value]).filter(isObject).map((item) => ({ name, value: item }));
        },
      ),
    );
}

/** The events of a stream, cut into chunks of `size` bytes. */
export function eventsOf(bytes: Uint8Array, size = bytes.length): SseEvent[] {
  const decoder = createSseDecoder({ maxEventBytes: 1 << 24 });
  const events: SseEvent[] = [];
  for (let at = 0; at < bytes.length; at += size) events.push(...decoder.push(bytes.slice(at, at + size)));
  const last = decoder.end();
  return last === null ? events : [...events, last];
}

/** Ids that count up, and a time that stands still. */
export function testNaming(): Naming {
  let next = 0;
  return { newId: (prefix) => `${prefix}${next++}`, nowSeconds: () => 1_700_000_000 };
}

export function value<T>(result: Result<T>): T {
  if (!result.ok) throw new Error(`${result.error.code}: ${result.error.message}`);
  return result.value;
}
