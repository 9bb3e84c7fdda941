/** A whole answer as the deltas of a stream, for a harness that asked for a stream where the answer came in one piece (or is told again). Pure. */
import type { Answer, Choice, Delta, Json } from '../dialects/dialect.ts';
import { isList, isObject, textOf } from '../dialects/json.ts';

export function* deltasOf(answer: Answer): Generator<Delta> {
  yield { type: 'start', id: answer.id, model: answer.model, created: answer.created };
  for (const choice of answer.choices) yield* choiceDeltas(choice);
  if (answer.usage !== null) yield { type: 'usage', usage: answer.usage };
}

function* choiceDeltas({ index: choice, message, finishReason, nativeFinish, stopSequence }: Choice): Generator<Delta> {
  const reasoning = textOf(message['reasoning_content']);
  if (reasoning !== null && reasoning !== '') yield { type: 'reasoning', choice, text: reasoning };
  const states = message['provider_state'];
  for (const state of isList(states) ? states : []) if (isObject(state)) yield { type: 'state', choice, state };
  for (const text of texts(message['content'])) yield { type: 'text', choice, text };
  const refusal = textOf(message['refusal']);
  if (refusal !== null && refusal !== '') yield { type: 'refusal', choice, text: refusal };
  const calls = message['tool_calls'];
  for (const [call, value] of (isList(calls) ? calls : []).entries()) {
    if (!isObject(value)) continue;
    yield {
      type: 'tool_call',
      choice,
      call,
      id: textOf(value['id']) ?? '',
      name: textOf(value['name']) ?? '',
      custom: value['type'] === 'custom',
    };
    yield { type: 'tool_arguments', choice, call, text: textOf(value['arguments']) ?? '' };
  }
  if (finishReason !== null) yield { type: 'finish', choice, finishReason, nativeFinish, stopSequence };
}

function texts(content: Json | undefined): string[] {
  if (typeof content === 'string') return content === '' ? [] : [content];
  return (isList(content) ? content : []).flatMap((part) =>
    isObject(part) && part['type'] === 'text' ? [textOf(part['text']) ?? ''] : [],
  );
}
