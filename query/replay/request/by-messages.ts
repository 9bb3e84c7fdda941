/**
 * Requests compared by what was said: for calls whose request was not captured but is rebuilt from the messages before their answer. Members that a client may add or leave
 * out without saying anything (names, refusals, reasoning it does not send back) do not count; parameters count where both have them. Pure.
 */
import { isMap } from '../../../events/fields.ts';
import { sortedText, type Fields } from './canonical-request.ts';

/** The conversation alone, of a canonical request of OpenAI's chat API. */
export function conversationOf(request: Fields): Fields {
  const { messages } = request;
  return { messages: Array.isArray(messages) ? messages.map(spoken) : messages };
}

function spoken(message: unknown): unknown {
  if (!isMap(message)) return message;
  const { role, content, tool_calls: calls, tool_call_id: id } = message;
  return {
    role,
    // null, nothing and the empty text say the same
    ...(content !== undefined && content !== '' && { content }),
    ...(Array.isArray(calls) && calls.length > 0 && { tool_calls: calls.map(called) }),
    ...(id !== undefined && { tool_call_id: id }),
  };
}

function called(call: unknown): unknown {
  if (!isMap(call) || !isMap(call['function'])) return call;
  const { name, arguments: given } = call['function'];
  return { id: call['id'], name, arguments: given };
}

/** Both with the conversation and those members that both have, so that what differs is a difference. */
export function comparable(rebuilt: Fields, live: Fields): readonly [Fields, Fields] {
  const both = Object.keys(rebuilt).filter((key) => key !== 'messages' && live[key] !== undefined);
  const of = (request: Fields): Fields => ({
    ...conversationOf(request),
    ...Object.fromEntries(both.map((key) => [key, key === 'tools' ? definitions(request[key]) : request[key]])),
  });
  return [of(rebuilt), of(live)];
}

/** Tools by what they are called with; whether `strict` or an empty description is written out says nothing. */
function definitions(tools: unknown): unknown {
  if (!Array.isArray(tools)) return tools;
  const plain = tools.map((tool: unknown) => (isMap(tool) && isMap(tool['function']) ? tool['function'] : tool));
  const named = plain.map((tool) => (isMap(tool) ? { name: tool['name'], description: tool['description'] ?? '', parameters: tool['parameters'] ?? {} } : tool)); // prettier-ignore
  return named.toSorted((a, b) => (sortedText(a) < sortedText(b) ? -1 : 1));
}
