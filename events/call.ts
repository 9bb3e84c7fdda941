import { z } from 'zod';
import {
  anything,
  callIndex,
  count,
  errorInfo,
  extra,
  float,
  micros,
  name,
  nodeIndex,
  object,
  policyVersion,
  record,
  span,
  stream,
} from './fields.ts';

export const usage = object({
  promptTokens: count.nullish(),
  completionTokens: count.nullish(),
  cachedTokens: count.nullish(),
  reasoningTokens: count.nullish(),
  cost: float.nullish().meta({ description: 'US dollars' }),
});

/** What the harness was told, byte for byte: a replay tells it again. */
export const told = object({
  status: z.int().min(100).max(999),
  headers: record.optional().meta({ description: 'names in lower case; a value is a text or a list of texts' }),
  pieces: stream('u8').nullish().meta({
    description:
      'pieces of the body with their times, each as its difference from the last (events/answer-pieces.ts); null = too large to keep',
  }),
  ending: z.enum(['complete', 'broken', 'left']).meta({
    description:
      'complete; broken: the connection was cut after the last piece; left: the harness went first, the pieces are what had come for it',
  }),
});

/** One exchange with a model server, successful or not. */
export const callRecorded = object({
  index: callIndex,
  node: nodeIndex.nullish().meta({ description: 'the sampled node that holds the answer' }),
  model: name.nullish(),
  endpoint: z.string().max(4096).nullish().meta({ description: 'path or URL that was called' }),
  dialect: name.nullish().meta({ description: 'which API: openai.chat, openai.responses, anthropic.messages …' }),
  sampling: record.nullish().meta({ description: 'the sampling parameters actually used' }),
  requestDigest: z.string().max(128).nullish().meta({ description: 'hash of the canonical request' }),
  request: anything.optional().meta({ description: 'the request, verbatim' }),
  response: anything.optional().meta({ description: 'the response, verbatim' }),
  told: told.nullish().meta({ description: 'the answer as the harness got it, so that a replay can give it again' }),
  finishReason: z.string().max(256).nullish(),
  usage: usage.nullish(),
  time: span.nullish(),
  firstToken: micros.nullish().meta({ description: 'when the first token arrived' }),
  policyVersion: policyVersion.nullish().meta({ description: 'weights at the first token' }),
  policyVersionEnd: policyVersion.nullish().meta({ description: 'weights at the last token, when they changed under way' }),
  logprobsMode: z.enum(['raw', 'processed', 'unknown']).nullish().meta({ description: 'processed = after temperature and top-p' }),
  tokenizerHash: z.string().max(256).nullish(),
  templateHash: z.string().max(256).nullish().meta({ description: 'hash of the chat template' }),
  templateKwargs: record.nullish().meta({ description: 'arguments given to the chat template' }),
  stream: z.boolean().nullish().meta({ description: 'whether the answer was streamed' }),
  extends: z.boolean().nullish().meta({
    description: 'whether its prompt starts with the ids of the answer it continues; null = no question (first call, same prompt, no ids)',
  }),
  drift: z
    .array(name)
    .max(64)
    .nullish()
    .meta({ description: 'fields in which re-sent messages differ from the nodes that hold their ids' }),
  retryOf: callIndex.nullish().meta({ description: 'index of the call that this one repeats' }),
  error: errorInfo.nullish(),
  extra,
});

export const toolRecorded = object({
  toolCallId: z.string().min(1).max(1024),
  node: nodeIndex.nullish().meta({ description: 'the node that holds the tool call' }),
  name: z.string().max(1024).meta({ description: 'name of the tool' }),
  time: span.nullish(),
  resultNode: nodeIndex.nullish().meta({ description: 'the node that holds the result' }),
  error: errorInfo.nullish(),
  extra,
});
