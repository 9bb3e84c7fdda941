/** OpenAI Completions and Embeddings: relayed and recorded as calls, without messages. */
import { fail, ok, type Result } from '../../../base/result.ts';
import { finishOf, headOf } from './chat-answer.ts';
import { CHAT_SAMPLING, pick, readModel, withoutAll } from './chat-ask.ts';
import type { Answer, Ask, Dialect, DialectName, JsonObject, Naming, OutFrame, StreamWriter } from './dialect.ts';
import { openaiErrorBody } from './error-bodies.ts';
import { countOf, isList, isObject, textOf } from './json.ts';
import { notWritten, refusingWriter, writeOwnAsk } from './own-engine.ts';
import { answerOfChunk, createTextFold, type TextChunk } from './text-fold.ts';
import { readChatUsage, writeChatUsage } from './usage.ts';

const READ: ReadonlySet<string> = new Set(['model', 'stream', 'return_token_ids']);
const EMBEDDING_SAMPLING: ReadonlySet<string> = new Set();

function parseAsk(body: JsonObject, dialect: DialectName, sampling: ReadonlySet<string>): Result<Ask> {
  const model = readModel(body);
  if (!model.ok) return model;
  const logprobs = countOf(body['logprobs']);
  const options = body['stream_options'];
  return ok({
    dialect,
    model: model.value,
    stream: body['stream'] === true,
    n: countOf(body['n']) ?? 1,
    messages: [],
    instructions: 0,
    tools: [],
    toolChoice: undefined,
    sampling: pick(body, sampling),
    wants: {
      logprobs: logprobs !== null,
      topLogprobs: logprobs,
      tokenIds: body['return_token_ids'] === true,
      usageInStream: isObject(options) && options['include_usage'] === true,
    },
    previousResponseId: null,
    rest: withoutAll(body, READ, sampling),
  });
}

function writeAsk(ask: Ask, dialect: DialectName): Result<JsonObject> {
  return writeOwnAsk(ask, dialect, { ...ask.sampling, ...(ask.wants.tokenIds && { return_token_ids: true }) });
}

function readChunk(json: JsonObject): Result<TextChunk> {
  const choices = json['choices'] ?? [];
  if (!isList(choices) || !choices.every(isObject)) return fail('malformed_stream', 'choices must be a list of objects', 'choices');
  const pieces = choices.map((choice, i) => ({
    index: countOf(choice['index']) ?? i,
    text: textOf(choice['text']),
    isWhole: false,
    finish: finishOf(choice),
  }));
  return ok({ head: headOf(json), pieces, usage: readChatUsage(json['usage']) });
}

function parseAnswer(body: JsonObject): Result<Answer> {
  const chunk = readChunk(body);
  return chunk.ok ? ok(answerOfChunk(chunk.value)) : chunk;
}

function writeAnswer(answer: Answer, ask: Ask, naming: Naming): Result<JsonObject> {
  if (ask.dialect !== 'openai.completions') return notWritten('openai.completions');
  return ok({
    ...headFor(answer.model, ask, naming),
    choices: answer.choices.map(({ index, message, finishReason }) => textChoice(index, textOf(message['content']) ?? '', finishReason)),
    ...(answer.usage !== null && { usage: writeChatUsage(answer.usage) }),
  });
}

function headFor(model: string, ask: Ask, naming: Naming): JsonObject {
  return { id: naming.newId('cmpl-'), object: 'text_completion', created: naming.nowSeconds(), model: model === '' ? ask.model : model };
}

function textChoice(index: number, text: string, reason: string | null): JsonObject {
  return { index, text, logprobs: null, finish_reason: reason };
}

function createWriter(ask: Ask, naming: Naming): StreamWriter {
  const head = headFor('', ask, naming);
  const frame = (json: JsonObject, terminal: boolean): OutFrame => ({ name: null, data: JSON.stringify(json), terminal });
  const finishes = new Map<number, string>();
  let usage: JsonObject | null = null;
  return {
    write: (delta) => {
      if (delta.type === 'text') return ok([frame({ ...head, choices: [textChoice(delta.choice, delta.text, null)] }, false)]);
      if (delta.type === 'finish') finishes.set(delta.choice, delta.finishReason);
      else if (delta.type === 'usage') usage = writeChatUsage(delta.usage);
      else if (delta.type !== 'start') return notWritten('openai.completions');
      return ok([]);
    },
    end: () => [
      ...[...finishes].map(([index, reason]) => frame({ ...head, choices: [textChoice(index, '', reason)] }, true)),
      ...(usage !== null && ask.wants.usageInStream ? [frame({ ...head, choices: [], usage }, true)] : []),
      { name: null, data: '[DONE]', terminal: true },
    ],
    fail: (status, code, message) => [frame(openaiErrorBody(status, code, message), true)],
  };
}

export const completions: Dialect = {
  name: 'openai.completions',
  parseAsk: (body) => parseAsk(body, 'openai.completions', CHAT_SAMPLING),
  writeAsk: (ask) => writeAsk(ask, 'openai.completions'),
  parseAnswer,
  writeAnswer,
  errorBody: openaiErrorBody,
  createFold: (n) => createTextFold(n, readChunk),
  createWriter,
};

/** Vectors are not interpreted: an answer has usage and no choices. */
export const embeddings: Dialect = {
  name: 'openai.embeddings',
  parseAsk: (body) => parseAsk(body, 'openai.embeddings', EMBEDDING_SAMPLING),
  writeAsk: (ask) => writeAsk(ask, 'openai.embeddings'),
  parseAnswer: (body) => ok({ ...headOf(body), choices: [], usage: readChatUsage(body['usage']) }),
  writeAnswer: () => notWritten('openai.embeddings'),
  errorBody: openaiErrorBody,
  createFold: (n) => createTextFold(n, readChunk),
  createWriter: () => refusingWriter('openai.embeddings', openaiErrorBody),
};
