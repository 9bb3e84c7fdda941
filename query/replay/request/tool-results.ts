/** The results of tools in a request, apart from the rest: for replays in which the tools run. Pure. */
import { isMap } from '../../../events/fields.ts';
import type { Fields } from './canonical-request.ts';

export type ToolResult = { readonly id: string; readonly name: string | null; readonly content: unknown };
export type Split = { readonly request: Fields; readonly results: readonly ToolResult[] };

const CUT = '<tool result>';

/** The canonical request with the content of every tool result cut out, and those contents by tool call id, in order. All dialects. */
export function cutToolResults(request: Fields): Split {
  const names = new Map<string, string>();
  const results: ToolResult[] = [];
  const cut = (id: unknown, content: unknown): string => {
    if (typeof id === 'string') results.push({ id, name: names.get(id) ?? null, content });
    return CUT;
  };
  const item = (value: unknown): unknown => {
    if (!isMap(value)) return value;
    note(value, names);
    if (value['role'] === 'tool') return { ...value, content: cut(value['tool_call_id'], value['content']) };
    if (value['type'] === 'function_call_output' || value['type'] === 'custom_tool_call_output') {
      return { ...value, output: cut(value['call_id'], value['output']) };
    }
    const { content } = value;
    if (!Array.isArray(content)) return value;
    const blocks = content.map((block: unknown) => {
      if (isMap(block)) note(block, names);
      return isMap(block) && block['type'] === 'tool_result'
        ? { ...block, content: cut(block['tool_use_id'], block['content'] ?? null) }
        : block;
    });
    return { ...value, content: blocks };
  };
  const list = (key: string): Fields => {
    const value = request[key];
    return Array.isArray(value) ? { [key]: value.map(item) } : {};
  };
  return { request: { ...request, ...list('messages'), ...list('input') }, results };
}

/** Which tool a call id belongs to. */
function note(value: Fields, names: Map<string, string>): void {
  const { id, name, type } = value;
  if (type === 'tool_use' && typeof id === 'string' && typeof name === 'string') names.set(id, name);
  if ((type === 'function_call' || type === 'custom_tool_call') && typeof value['call_id'] === 'string' && typeof name === 'string')
    names.set(value['call_id'], name);
  const calls = value['tool_calls'];
  if (!Array.isArray(calls)) return;
  for (const call of calls) {
    const of = isMap(call) ? (call['function'] ?? call['custom']) : undefined;
    if (isMap(call) && typeof call['id'] === 'string' && isMap(of) && typeof of['name'] === 'string') names.set(call['id'], of['name']);
  }
}
