/** The dialects by name. */
import { chat } from './chat.ts';
import { completions, embeddings } from './completions.ts';
import type { AnswerFold, Dialect, DialectName } from './dialect.ts';
import { sglangGenerate, vllmGenerate } from './generate.ts';
import { messages } from './messages.ts';
import { responses } from './responses.ts';

const BY_NAME: Readonly<Record<DialectName, Dialect>> = {
  'openai.chat': chat,
  'openai.responses': responses,
  'anthropic.messages': messages,
  'openai.completions': completions,
  'openai.embeddings': embeddings,
  'vllm.generate': vllmGenerate,
  'sglang.generate': sglangGenerate,
};

export function dialectOf(name: DialectName): Dialect {
  return BY_NAME[name];
}

/** A fold for a stream of this dialect; `n` is the number of choices that were asked for. */
export function createAnswerFold(name: DialectName, n = 1): AnswerFold {
  return BY_NAME[name].createFold(n);
}
