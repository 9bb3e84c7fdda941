/** The dialects by name. */
import type { Dialect, DialectName } from './dialects/dialect.ts';
import { chat } from './dialects/chat.ts';

export function dialectOf(name: DialectName): Dialect {
  if (name === 'openai.chat') return chat;
  return { ...chat, name };
}
