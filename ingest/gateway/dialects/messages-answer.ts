/** Answers of the Messages dialect (one body, not a stream) to neutral form and back. */
import { fail, ok, type Result } from '../../../base/result.ts';
import { headOf } from './chat-answer.ts';
import type { Answer, Ask, Choice, JsonObject, Naming } from './dialect.ts';
import { fromMessages, toMessages } from './finish.ts';
import { assistantOf, writeAssistantBlocks } from './messages-assistant.ts';
import { isList, isObject, textOf } from './json.ts';
import { cannotTranslate } from './refusals.ts';
import { readMessagesUsage, writeMessagesUsage } from './usage.ts';

const TO = 'anthropic.messages';

/** Problems: `malformed_stream` when there is no content to read. */
export function parseMessagesAnswer(body: JsonObject): Result<Answer> {
  const content = body['content'];
  if (!isList(content)) return fail('malformed_stream', 'the answer has no list of content', 'content');
  const wrong = content.findIndex((block) => !isObject(block));
  if (wrong >= 0) return fail('malformed_stream', `content[${wrong}] must be an object`, `content[${wrong}]`);
  const message = assistantOf((content as readonly JsonObject[]).map((json) => ({ json, inputText: null })));
  const finish = fromMessages(textOf(body['stop_reason']), textOf(body['stop_sequence']));
  return ok({ ...headOf(body), choices: [{ index: 0, message, ...finish }], usage: readMessagesUsage(body['usage']) });
}

export function writeMessagesAnswer(answer: Answer, ask: Ask, naming: Naming): Result<JsonObject> {
  const [choice, ...others] = answer.choices;
  if (choice === undefined || others.length > 0) return cannotTranslate('the answer', TO, 'it has exactly one', 'ask with n = 1');
  const content = writeAssistantBlocks(choice.message, { field: 'the answer', same: false, forHarness: true });
  if (!content.ok) return content;
  const finish = stopOf(choice);
  if (!finish.ok) return finish;
  return ok({
    id: naming.newId('msg_'),
    type: 'message',
    role: 'assistant',
    model: answer.model === '' ? ask.model : answer.model,
    content: content.value,
    stop_reason: finish.value.reason,
    stop_sequence: finish.value.sequence,
    usage: writeMessagesUsage(answer.usage ?? NO_USAGE),
  });
}

/** A stop reason is required: a reason that has no word here is refused. */
export function stopOf(choice: Choice): Result<{ reason: string; sequence: string | null }> {
  const calls = choice.message['tool_calls'];
  const stop = toMessages(choice, isList(calls) && calls.length > 0);
  if (stop !== null) return ok(stop);
  return cannotTranslate(`finish reason ${String(choice.finishReason)}`, TO, 'it has no such stop reason', 'see the recorded call');
}

export const NO_USAGE = {
  promptTokens: null,
  completionTokens: null,
  cachedTokens: null,
  cacheWriteTokens: null,
  reasoningTokens: null,
  cost: null,
} as const;
