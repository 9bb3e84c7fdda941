/**
 * For tests: a small chat template over whole words, exchanges made with it, and random conversations of harnesses that continue, re-sample, edit,
 * compact, strip reasoning, rewrite call ids and re-tokenise.
 */
import fc from 'fast-check';
import type { JsonObject, Message } from '../dialects/dialect.ts';
import type { Choice, Exchange } from './exchange.ts';

/** Special ids of the template. */
export const ID = { start: 1, end: 2, newline: 3, think: 4, thinkEnd: 5, call: 6, tools: 7 } as const;
const ROLE_IDS: Readonly<Record<string, number>> = { system: 10, user: 11, assistant: 12, tool: 13 };

const vocabulary = new Map<string, number>();
const FIRST_WORD = 100;

/** One id per word, the same for the life of the process. */
export function wordIds(text: unknown): number[] {
  if (typeof text !== 'string') return [];
  const words = text.split(' ').filter((word) => word !== '');
  return words.map((word) => {
    const known = vocabulary.get(word) ?? FIRST_WORD + vocabulary.size;
    vocabulary.set(word, known);
    return known;
  });
}

export type Template = {
  /** Reasoning of all answers before the last user message is left out, as thinking templates do. */
  readonly dropReasoning?: boolean;
  /** Stands in the system header. */
  readonly date?: string;
  readonly tools?: readonly JsonObject[];
};

/** What the model samples for a message: reasoning, text, calls, and the stop token. */
export function completionOf(message: Message, withReasoning = true): number[] {
  const reasoning = withReasoning ? wordIds(message['reasoning_content']) : [];
  const calls = ((message['tool_calls'] ?? []) as JsonObject[]).flatMap((call) => [
    ID.call,
    ...wordIds(call['name']),
    ...wordIds(call['arguments']),
  ]);
  return [...(reasoning.length > 0 ? [ID.think, ...reasoning, ID.thinkEnd] : []), ...wordIds(message['content']), ...calls, ID.end];
}

export function renderMessages(messages: readonly Message[], template: Template = {}): number[] {
  const lastUser = messages.findLastIndex((message) => message.role === 'user');
  const header = [...(template.tools ?? []).flatMap((tool) => [ID.tools, ...wordIds(tool['name'])]), ...wordIds(template.date)];
  return [
    ...header,
    ...messages.flatMap((message, k) => [
      ID.start,
      ROLE_IDS[message.role] as number,
      ID.newline,
      ...completionOf(message, !(template.dropReasoning === true && k < lastUser)),
      ID.newline,
    ]),
  ];
}

export const GENERATION_PROMPT = [ID.start, ROLE_IDS['assistant'] as number, ID.newline];

/** The flat prompt of a request. */
export function promptOf(messages: readonly Message[], template: Template = {}): number[] {
  return [...renderMessages(messages, template), ...GENERATION_PROMPT];
}

/** What the ladder finds: where each message ends, if the prompt begins with the rendering up to it. */
export function spansOf(messages: readonly Message[], prompt: readonly number[], template: Template = {}): (number | null)[] {
  return messages.map((_, k) => {
    const upTo = renderMessages(messages.slice(0, k + 1), template);
    return upTo.length <= prompt.length && upTo.every((id, i) => id === prompt[i]) ? upTo.length : null;
  });
}

export function choiceOf(message: Message | null, ids: readonly number[] | null, more: Partial<Choice> = {}): Choice {
  return {
    index: 0,
    message,
    ids: ids === null ? null : Uint32Array.from(ids),
    logprobs: ids === null ? null : Float32Array.from(ids, (id, i) => -((id % 7) + i / 8)),
    policyRuns: null,
    partial: false,
    tokenError: null,
    ...more,
  };
}

let clock = 1_000_000;

/** An exchange that begins after all others ended. */
export function exchangeOf(
  messages: readonly Message[] | null,
  prompt: readonly number[] | null,
  choices: readonly Choice[],
  more: Partial<Exchange> = {},
): Exchange {
  const start = (clock += 10);
  const end = (clock += 10);
  const promptIds = prompt === null ? null : Uint32Array.from(prompt);
  return { tools: [], messages, promptIds, spans: null, choices, start, end, retry: false, compaction: false, ...more };
}

// Random conversations

/** One step of a harness: what it sends (from the answers so far), and how the engine answers. */
export type Step = {
  readonly from: number;
  readonly what: 'continue' | 'again' | 'edit' | 'compact' | 'call_ids' | 'strip' | 'respell' | 'new';
  readonly says: string;
  readonly answers: readonly { readonly text: string; readonly reasoning: string; readonly call: boolean; readonly ids: boolean }[];
  readonly mode: 'flat' | 'ladder' | 'text' | 'token_in';
  readonly template: { readonly dropReasoning: boolean; readonly date: string };
  readonly tool: string;
  readonly overlaps: boolean;
};

const word = fc.constantFrom('a', 'b', 'c', 'a b', 'b a');
export const steps: fc.Arbitrary<readonly Step[]> = fc.array(
  fc.record({
    from: fc.nat(20),
    what: fc.constantFrom<Step['what']>(
      'continue',
      'continue',
      'continue',
      'again',
      'edit',
      'compact',
      'call_ids',
      'strip',
      'respell',
      'new',
    ),
    says: word,
    answers: fc.array(
      fc.record({
        text: word,
        reasoning: fc.constantFrom('', '', 'r s t'),
        call: fc.boolean(),
        ids: fc.constantFrom(true, true, true, true, false),
      }),
      { minLength: 1, maxLength: 3 },
    ),
    mode: fc.constantFrom<Step['mode']>('flat', 'flat', 'flat', 'ladder', 'ladder', 'text', 'token_in'),
    template: fc.record({ dropReasoning: fc.boolean(), date: fc.constantFrom('', '', '', 'today') }),
    tool: fc.constantFrom('', '', '', 'search'),
    overlaps: fc.boolean(),
  }),
  { minLength: 1, maxLength: 14 },
);

type Turn = {
  readonly messages: readonly Message[];
  readonly prompt: readonly number[];
  readonly answer: Message;
  readonly completion: readonly number[];
};

/** The exchanges of a random harness, in order. */
export function conversation(script: readonly Step[]): Exchange[] {
  const turns: Turn[] = [];
  return script.map((step) => {
    const before = turns.length === 0 ? null : (turns[turns.length - 1 - (step.from % turns.length)] as Turn);
    const tools = step.tool === '' ? [] : [{ name: step.tool }];
    const template: Template = { ...step.template, tools };
    const messages = requestAfter(before, step);
    const prompt =
      before !== null && step.what === 'continue' && step.mode === 'token_in'
        ? [...before.prompt, ...before.completion, ID.newline, ...wordIds(step.says)]
        : respelled(promptOf(messages, template), step);
    const answers = step.answers.map((answer, i) => answerMessage(answer, turns.length * 4 + i));
    for (const answer of answers) turns.push({ messages, prompt, answer, completion: completionOf(answer) });
    const isText = step.mode === 'text';
    const isTokenIn = step.mode === 'token_in';
    const choices = answers.map((answer, index) =>
      choiceOf(isTokenIn ? null : answer, isText || step.answers[index]?.ids !== true ? null : completionOf(answer), { index }),
    );
    return exchangeOf(isTokenIn ? null : messages, isText ? null : prompt, choices, {
      tools,
      ...(step.mode === 'ladder' && { spans: spansOf(messages, prompt, template) }),
      ...(step.overlaps && { start: 0 }),
    });
  });
}

function answerMessage(answer: Step['answers'][number], serial: number): Message {
  return {
    role: 'assistant',
    content: answer.text,
    ...(answer.reasoning !== '' && { reasoning_content: answer.reasoning }),
    ...(answer.call && { tool_calls: [{ id: `call_${serial}`, name: 'search', arguments: `{"q":"${answer.text}"}` }] }),
  };
}

function requestAfter(before: Turn | null, { what, says }: Step): readonly Message[] {
  if (before === null || what === 'new')
    return [
      { role: 'system', content: 'be brief' },
      { role: 'user', content: says },
    ];
  if (what === 'again') return before.messages;
  if (what === 'compact') return [before.messages[0] as Message, { role: 'user', content: `so far ${says}` }];
  const { id: _, ...answered } = { id: 0, ...before.answer };
  const calls = (before.answer['tool_calls'] ?? []) as readonly JsonObject[];
  const named = what === 'call_ids' ? calls.map((call, i) => ({ ...call, id: `mine_${i}` })) : calls;
  const { reasoning_content: _reasoning, ...stripped } = answered as Message;
  const history = what === 'edit' ? [...before.messages.slice(0, -1), { role: 'user', content: `${says} edited` }] : before.messages;
  const resent: Message = { ...(what === 'strip' ? (stripped as Message) : before.answer), ...(calls.length > 0 && { tool_calls: named }) };
  const next: Message =
    calls.length > 0 ? { role: 'tool', tool_call_id: named[0]?.['id'] as string, content: says } : { role: 'user', content: says };
  return [...history, resent, next];
}

/** Another spelling of the same text: the first word of the last third of the prompt becomes another id. */
function respelled(prompt: readonly number[], { what }: Step): readonly number[] {
  if (what !== 'respell') return prompt;
  const at = prompt.findIndex((id, i) => id >= FIRST_WORD && i * 3 >= prompt.length * 2);
  return prompt.map((id, i) => (i === at ? id + 10_000 : id));
}
