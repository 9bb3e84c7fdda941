/** OpenAI Chat Completions: the dialect that the neutral form is made of. */
import { parseChatAnswer, writeChatAnswer } from './chat-answer.ts';
import { parseChatAsk, writeChatAsk } from './chat-ask.ts';
import { createChatFold } from './chat-fold.ts';
import { createChatWriter } from './chat-writer.ts';
import type { Dialect } from './dialect.ts';
import { openaiErrorBody } from './error-bodies.ts';

export const chat: Dialect = {
  name: 'openai.chat',
  parseAsk: parseChatAsk,
  writeAsk: writeChatAsk,
  parseAnswer: parseChatAnswer,
  writeAnswer: writeChatAnswer,
  errorBody: openaiErrorBody,
  createFold: createChatFold,
  createWriter: createChatWriter,
};
