/**
 * The chat template: messages and tools to token ids, as engines render them (ChatML, tools in the system message, as the Qwen family does).
 * Each part of a message is encoded by itself, so that an answer sent back unchanged renders to exactly the ids that were sampled and the next prompt extends the last.
 * `thinking` templates keep the reasoning of the answers after the last user message and drop that of earlier ones, so that prompts stop extending.
 */
import { decode, MARKER_TEXT, type Tokenizer } from './tokenizer.ts';

export type ToolCall = { readonly id: string; readonly name: string; readonly arguments: string };
/** One message as the template and the behaviour see it, whatever the dialect it came in. `images`: how many stand before the text. */
export type ChatMessage = {
  readonly role: string;
  readonly content: string;
  readonly images: number;
  readonly reasoning: string;
  readonly toolCalls: readonly ToolCall[];
  readonly toolCallId: string | null;
};
export type Tool = { readonly name: string; readonly description?: string | undefined; readonly parameters?: unknown };

export type TemplateOptions = {
  /** `keep`: reasoning is rendered wherever a message carries it. `drop`: only after the last user message. */
  readonly earlierReasoning: 'keep' | 'drop';
  readonly addGenerationPrompt: boolean;
  /** Splits the words of earlier answers into other tokens with the same text: what a template does that renders ids from text. */
  readonly retokeniseAnswers?: boolean;
  /** Placeholder ids per image. */
  readonly idsPerImage: number;
};

/** A run of ids of an answer and what its text is. */
export type Span = {
  readonly ids: readonly number[];
  readonly part: 'scaffold' | 'reasoning' | 'content' | 'arguments';
  /** Index of the tool call a scaffold before the arguments opens, or that the arguments belong to. */
  readonly call?: number;
};

export function renderPrompt(
  tokenizer: Tokenizer,
  messages: readonly ChatMessage[],
  tools: readonly Tool[],
  options: TemplateOptions,
): number[] {
  const { imStart, imEnd, toolResponse, toolResponseEnd, image } = tokenizer.markers;
  const ids: number[] = [];
  const text = (value: string): void => append(ids, tokenizer.encode(value));
  const open = (role: string): void => {
    ids.push(imStart);
    text(`${role}\n`);
  };
  const close = (): void => {
    ids.push(imEnd);
    text('\n');
  };
  const lastUser = messages.findLastIndex((m) => m.role === 'user');
  messages.forEach((message, i) => {
    if (i === 0 && tools.length > 0 && !isSystem(message)) {
      open('system');
      text(toolsText(tools));
      close();
    }
    if (message.role === 'tool') {
      if (messages[i - 1]?.role !== 'tool') open('user');
      else text('\n');
      ids.push(toolResponse);
      text(`\n${message.content}\n`);
      ids.push(toolResponseEnd);
      if (messages[i + 1]?.role !== 'tool') close();
      return;
    }
    open(message.role === 'developer' ? 'system' : message.role);
    if (message.role === 'assistant') {
      const shown = options.earlierReasoning === 'drop' && i < lastUser ? { ...message, reasoning: '' } : message;
      for (const span of answerSpans(tokenizer, shown)) {
        append(ids, options.retokeniseAnswers === true && span.part === 'content' ? splitIds(tokenizer, span.ids) : span.ids);
      }
    } else {
      for (let n = 0; n < message.images * options.idsPerImage; n++) ids.push(image);
      text(message.content);
      if (i === 0 && tools.length > 0 && isSystem(message)) text(`\n\n${toolsText(tools)}`);
    }
    close();
  });
  if (options.addGenerationPrompt) open('assistant');
  return ids;
}

/** What a model samples to say this message, without the stop token. */
export function answerSpans(tokenizer: Tokenizer, answer: Pick<ChatMessage, 'content' | 'reasoning' | 'toolCalls'>): Span[] {
  const { think, thinkEnd, toolCall, toolCallEnd } = tokenizer.markers;
  const text = (value: string): readonly number[] => tokenizer.encode(value);
  const spans: Span[] = [];
  if (answer.reasoning !== '') {
    spans.push({ ids: [think, ...text('\n')], part: 'scaffold' });
    spans.push({ ids: text(answer.reasoning), part: 'reasoning' });
    spans.push({ ids: [...text('\n'), thinkEnd, ...text('\n\n')], part: 'scaffold' });
  }
  if (answer.content !== '') spans.push({ ids: text(answer.content), part: 'content' });
  answer.toolCalls.forEach((call, index) => {
    const before = index > 0 || answer.content !== '' ? text('\n') : [];
    const head = `\n{"name": ${JSON.stringify(call.name)}, "arguments": `;
    spans.push({ ids: [...before, toolCall, ...text(head)], part: 'scaffold', call: index });
    spans.push({ ids: text(call.arguments), part: 'arguments', call: index });
    spans.push({ ids: [...text('}\n'), toolCallEnd], part: 'scaffold' });
  });
  return spans;
}

/** Reads a rendered prompt back into messages and tools, for calls that come as token ids. Unmarked text becomes one user message. */
export function parsePrompt(tokenizer: Tokenizer, ids: Iterable<number>): { messages: ChatMessage[]; tools: Tool[] } {
  const parts = decode(tokenizer, ids).split(MARKER_TEXT.imStart);
  const messages: ChatMessage[] = [];
  const tools: Tool[] = [];
  if (parts.length === 1) return { messages: [textMessage('user', parts[0] as string)], tools };
  for (const part of parts.slice(1)) {
    const end = part.indexOf(MARKER_TEXT.imEnd);
    if (end < 0) continue; // the generation prompt
    const line = part.indexOf('\n');
    const role = part.slice(0, line);
    const body = part.slice(line + 1, end);
    if (role === 'system') tools.push(...toolsIn(body));
    const results = [...body.matchAll(/<tool_response>\n([\s\S]*?)\n<\/tool_response>/g)].map((m) => m[1] as string);
    if (role === 'user' && results.length > 0) messages.push(...results.map((result) => textMessage('tool', result)));
    else messages.push(textMessage(role, body));
  }
  return { messages, tools };
}

export function textMessage(role: string, content: string): ChatMessage {
  return { role, content, images: 0, reasoning: '', toolCalls: [], toolCallId: null };
}

function isSystem(message: ChatMessage): boolean {
  return message.role === 'system' || message.role === 'developer';
}

function toolsText(tools: readonly Tool[]): string {
  const lines = tools.map((tool) => JSON.stringify({ type: 'function', function: tool }));
  return `# Tools\n\nYou may call one or more functions.\n\n<tools>\n${lines.join('\n')}\n</tools>\n\nFor each call, answer a JSON object with the name and the arguments within <tool_call></tool_call> tags.`;
}

function toolsIn(system: string): Tool[] {
  const block = /<tools>\n([\s\S]*?)\n<\/tools>/.exec(system)?.[1];
  if (block === undefined) return [];
  return block.split('\n').flatMap((line) => {
    try {
      const parsed = JSON.parse(line) as { function?: Tool } & Tool;
      return [parsed.function ?? parsed];
    } catch {
      return [];
    }
  });
}

/** The same bytes in more ids: each id of several bytes becomes one id per byte pair or byte that the vocabulary has. */
function splitIds(tokenizer: Tokenizer, ids: readonly number[]): number[] {
  return ids.flatMap((id) => {
    const text = decode(tokenizer, [id]);
    if (text.length < 2 || text.includes('\u{fffd}')) return [id];
    return Array.from(text).flatMap((character) => [...tokenizer.encode(character)]);
  });
}

function append(target: number[], more: readonly number[]): void {
  for (const id of more) target.push(id);
}

/** Ids of a text in which markers, written out, count as markers: how completion endpoints read a prompt. */
export function encodeMarked(tokenizer: Tokenizer, text: string): number[] {
  const byText = new Map(
    Object.entries(MARKER_TEXT).map(([name, marker]) => [marker, tokenizer.markers[name as keyof typeof MARKER_TEXT]]),
  );
  const parts = text.split(/(<\|im_start\|>|<\|im_end\|>|<\/?think>|<\/?tool_call>|<\/?tool_response>|<\|image_pad\|>)/);
  return parts.flatMap((part) => {
    const marker = byText.get(part);
    return marker === undefined ? (part === '' ? [] : [...tokenizer.encode(part)]) : [marker];
  });
}
