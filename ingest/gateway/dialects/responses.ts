/** OpenAI Responses. */
import type { Dialect } from './dialect.ts';
import { openaiErrorBody } from './error-bodies.ts';
import { parseResponsesAnswer, writeResponsesAnswer } from './responses-answer.ts';
import { parseResponsesAsk } from './responses-ask.ts';
import { createResponsesFold } from './responses-fold.ts';
import { writeResponsesAsk } from './responses-request.ts';
import { createResponsesWriter } from './responses-writer.ts';

export const responses: Dialect = {
  name: 'openai.responses',
  parseAsk: parseResponsesAsk,
  writeAsk: writeResponsesAsk,
  parseAnswer: parseResponsesAnswer,
  writeAnswer: writeResponsesAnswer,
  errorBody: openaiErrorBody,
  createFold: createResponsesFold,
  createWriter: createResponsesWriter,
};
