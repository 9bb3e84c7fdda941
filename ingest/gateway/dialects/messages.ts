/** Anthropic Messages. */
import type { Dialect } from './dialect.ts';
import { anthropicErrorBody } from './error-bodies.ts';
import { parseMessagesAnswer, writeMessagesAnswer } from './messages-answer.ts';
import { parseMessagesAsk } from './messages-ask.ts';
import { createMessagesFold } from './messages-fold.ts';
import { writeMessagesAsk } from './messages-request.ts';
import { createMessagesWriter } from './messages-writer.ts';

export const messages: Dialect = {
  name: 'anthropic.messages',
  parseAsk: parseMessagesAsk,
  writeAsk: writeMessagesAsk,
  parseAnswer: parseMessagesAnswer,
  writeAnswer: writeMessagesAnswer,
  errorBody: anthropicErrorBody,
  createFold: createMessagesFold,
  createWriter: createMessagesWriter,
};
