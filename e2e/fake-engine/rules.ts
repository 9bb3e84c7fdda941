/** A behaviour from a rules file: the first rule that matches answers, else the built-in behaviour. For demos without a line of code. */
import { z } from 'zod';
import type { Behaviour, BehaviourAsk, Reply } from './behaviour.ts';

const ruleSchema = z.strictObject({
  /** All given conditions must hold. `last`: a regular expression over the text of the last message. */
  when: z
    .strictObject({ last: z.string().optional(), role: z.string().optional(), model: z.string().optional(), tool: z.string().optional() })
    .default({}),
  /** `$1` … in texts are the groups of `last`. */
  reply: z.strictObject({
    content: z.string().optional(),
    reasoning: z.string().optional(),
    toolCalls: z.array(z.strictObject({ name: z.string(), arguments: z.unknown(), id: z.string().optional() })).optional(),
  }),
});
export const rulesSchema = z.array(ruleSchema).min(1);
export type Rules = z.input<typeof rulesSchema>;

/** Throws a ZodError or a SyntaxError (of a regular expression) on rules that cannot be. */
export function rulesBehaviour(input: unknown, otherwise: Behaviour): Behaviour {
  const rules = rulesSchema.parse(input).map((rule) => ({ ...rule, last: new RegExp(rule.when.last ?? '', 's') }));
  return (ask) => {
    const message = ask.messages.at(-1);
    for (const { when, reply, last } of rules) {
      const match = last.exec(message?.content ?? '');
      if (match === null || (when.role !== undefined && when.role !== message?.role)) continue;
      if ((when.model !== undefined && when.model !== ask.model) || (when.tool !== undefined && !offers(ask, when.tool))) continue;
      return filled(reply, match);
    }
    return otherwise(ask);
  };
}

function offers(ask: BehaviourAsk, tool: string): boolean {
  return ask.toolChoice !== 'none' && ask.tools.some((t) => t.name === tool);
}

function filled(reply: unknown, match: RegExpExecArray): Reply {
  const fill = (text: string): string => text.replaceAll(/\$(\d)/g, (whole, group: string) => match[Number(group)] ?? whole);
  const value = (from: unknown): unknown => {
    if (typeof from === 'string') return fill(from);
    if (Array.isArray(from)) return from.map(value);
    if (typeof from !== 'object' || from === null) return from;
    return Object.fromEntries(Object.entries(from).map(([name, each]) => [name, value(each)]));
  };
  return value(reply) as Reply;
}
