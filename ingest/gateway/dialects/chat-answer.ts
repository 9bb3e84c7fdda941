/** Answers of the chat dialect (one body, not a stream) to neutral form and back. */
import { fail, ok, type Result } from '../../../base/result.ts';
import { readChatMessage, writeChatCall } from './chat-message.ts';
import type { Answer, Ask, Choice, JsonObject, Message, Naming } from './dialect.ts';
import type { Finish } from './finish.ts';
import { compact, countOf, isList, isObject, textOf } from './json.ts';
import { isThought, refuseState, stateOf } from './provider-state.ts';
import { readChatUsage, writeChatUsage } from './usage.ts';

/** Problems: `malformed_stream` when there are no choices to read. */
export function parseChatAnswer(body: JsonObject): Result<Answer> {
  const raw = body['choices'];
  if (!isList(raw)) return fail('malformed_stream', 'the answer has no list of choices', 'choices');
  const choices: Choice[] = [];
  for (const [i, choice] of raw.entries()) {
    const message = isObject(choice) ? choice['message'] : undefined;
    if (!isObject(choice) || !isObject(message)) return fail('malformed_stream', `choices[${i}] has no message`, `choices[${i}].message`);
    choices.push({
      index: countOf(choice['index']) ?? i,
      message: readChatMessage({ role: 'assistant', ...message }),
      ...finishOf(choice),
    });
  }
  return ok({ ...headOf(body), choices: choices.toSorted((a, b) => a.index - b.index), usage: readChatUsage(body['usage']) });
}

export function headOf(body: JsonObject): { readonly id: string; readonly model: string; readonly created: number } {
  const created = body['created'];
  return { id: textOf(body['id']) ?? '', model: textOf(body['model']) ?? '', created: typeof created === 'number' ? created : 0 };
}

/** vLLM says which stop string or token ended it; OpenRouter adds the provider's own word. */
export function finishOf(choice: JsonObject): Finish {
  const stop = choice['stop_reason'];
  return {
    finishReason: textOf(choice['finish_reason']),
    nativeFinish: textOf(choice['native_finish_reason']),
    stopSequence: typeof stop === 'string' || typeof stop === 'number' ? stop : null,
  };
}

export function writeChatAnswer(answer: Answer, ask: Ask, naming: Naming): Result<JsonObject> {
  for (const { message } of answer.choices) {
    const problem = refuseState(message, 'the answer', 'openai.chat', true);
    if (problem !== null) return problem;
  }
  return ok({
    id: naming.newId('chatcmpl-'),
    object: 'chat.completion',
    created: naming.nowSeconds(),
    model: answer.model === '' ? ask.model : answer.model,
    choices: answer.choices.map((choice) => ({
      index: choice.index,
      message: writeAnswerMessage(choice.message),
      logprobs: null,
      finish_reason: choice.finishReason,
    })),
    ...(answer.usage !== null && { usage: writeChatUsage(answer.usage) }),
  });
}

/** Thoughts go out as `reasoning_details`, so that a harness which sends them back loses nothing. */
function writeAnswerMessage(message: Message): JsonObject {
  const calls = message['tool_calls'];
  const details = stateOf(message).filter(isThought);
  return {
    role: 'assistant',
    content: message['content'] ?? null,
    refusal: message['refusal'] ?? null,
    ...compact({
      reasoning_content: message['reasoning_content'],
      reasoning_details: details.length > 0 ? details : undefined,
      tool_calls: isList(calls) ? calls.map(writeChatCall) : undefined,
    }),
  };
}
