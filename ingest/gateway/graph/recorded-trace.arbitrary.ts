/** For tests: a trace that is recorded call by call, and what to ask about it. */
import type { JsonObject, Message } from '../dialects/dialect.ts';
import { choiceOf, completionOf, exchangeOf, promptOf, spansOf, type Template } from './conversation.arbitrary.ts';
import type { Exchange, ExchangePlan, NodePlan } from './exchange.ts';
import { planExchange } from './plan-exchange.ts';
import { applyNodes, emptyGraph, type TraceGraph } from './trace-graph.ts';

export const system: Message = { role: 'system', content: 'be brief' };
export const user = (content: string): Message => ({ role: 'user', content });
export const tool = (id: string, content: string): Message => ({ role: 'tool', tool_call_id: id, content });
export const assistant = (content: string, more: JsonObject = {}): Message => ({ role: 'assistant', content, ...more });
export const calls = (id: string, q: string): Message =>
  assistant('', { tool_calls: [{ id, name: 'search', arguments: `{"q": "${q}"}` }] });

/** A trace under test: a graph and every node that was appended to it. */
export type Trace = { readonly graph: TraceGraph; readonly nodes: NodePlan[] };
export const newTrace = (): Trace => ({ graph: emptyGraph(), nodes: [] });

export function record(trace: Trace, exchange: Exchange): ExchangePlan {
  const plan = planExchange(trace.graph, exchange);
  applyNodes(trace.graph, plan.nodes);
  trace.nodes.push(...plan.nodes);
  return plan;
}

/** A chat call with ids; the answer is sampled as the template spells it, unless `completion` says otherwise. */
export function chat(trace: Trace, messages: readonly Message[], answer: Message, options: { template?: Template; completion?: readonly number[]; prompt?: readonly number[]; ladder?: boolean; more?: Partial<Exchange> } = {}): ExchangePlan {
  const { template = {}, completion = completionOf(answer), ladder = false } = options;
  const prompt = options.prompt ?? promptOf(messages, template);
  const spans = ladder ? spansOf(messages, prompt, template) : null;
  return record(trace, exchangeOf(messages, prompt, [choiceOf(answer, completion)], { tools: template.tools ?? [], spans, ...options.more }));
} // prettier-ignore

/** The path from the root to a node: [role, ids, mask] of each. */
export function pathOf(trace: Trace, node: number): NodePlan[] {
  const path: NodePlan[] = [];
  for (let at: number | null = node; at !== null; at = trace.nodes[at]?.parent ?? null) path.unshift(trace.nodes[at] as NodePlan);
  return path;
}
export const idsOf = (trace: Trace, node: number): number[] => pathOf(trace, node).flatMap(({ tokens }) => [...(tokens?.ids ?? [])]);
export const maskOf = (trace: Trace, node: number): number[] => pathOf(trace, node).flatMap(({ tokens }) => [...(tokens?.mask ?? [])]);
export const answerOf = (plan: ExchangePlan): number => plan.answers[0]?.node as number;
export const rolesOf = (nodes: readonly NodePlan[]): string[] => nodes.map(({ role, sampled }) => (sampled ? `${role}*` : role));
export const ones = (ids: readonly number[]): number[] => ids.map(() => 1);
export const zeros = (ids: readonly number[]): number[] => ids.map(() => 0);
