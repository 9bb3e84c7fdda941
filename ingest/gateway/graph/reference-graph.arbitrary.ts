/** For tests: the rules of the graph in the plainest words, over plain objects and arrays. Slow. */
import type { Message } from '../dialects/dialect.ts';
import { canonicalHash, messageHash } from '../dialects/message-hash.ts';
import type { Exchange, NodePlan } from './exchange.ts';

export type ReferenceNode = {
  readonly parent: number | null;
  readonly role: string;
  readonly message: Message | null;
  readonly sampled: boolean;
  readonly ids: readonly number[] | null;
  readonly mask: readonly number[] | null;
  readonly logprobs: readonly number[] | null;
  /** Roots only. */
  readonly tools: string | null;
};

type Match = { readonly path: readonly number[]; readonly offset: number; readonly drifted: number };

/** All ways in which the request may begin in the graph: every chain from a root whose nodes match, each with what it covers. */
export function matchesOf(nodes: readonly ReferenceNode[], { messages, promptIds, tools }: Exchange): Match[] {
  const prompt = promptIds === null ? null : [...promptIds];
  const found: Match[] = [{ path: [], offset: 0, drifted: 0 }];
  const extend = (match: Match): void => {
    const parent = match.path.at(-1) ?? null;
    for (const [index, node] of nodes.entries()) {
      if (node.parent !== parent) continue;
      if (parent === null && messages !== null && node.tools !== canonicalHash(tools as never)) continue;
      const kind = kindOf(node, messages === null ? null : (messages[match.path.length] ?? 'beyond'), prompt?.slice(match.offset) ?? null);
      if (kind === 'none') continue;
      const offset = match.offset + (prompt === null ? 0 : (node.ids?.length ?? 0));
      const next = { path: [...match.path, index], offset, drifted: match.drifted + (kind === 'drift' ? 1 : 0) };
      found.push(next);
      extend(next);
    }
  };
  extend(found[0] as Match);
  return found;
}

function kindOf(node: ReferenceNode, message: Message | null | 'beyond', rest: readonly number[] | null): 'none' | 'exact' | 'drift' {
  const own = node.ids ?? [];
  const sameIds = rest !== null && own.every((id, i) => rest[i] === id);
  if (message === null) return node.ids !== null && sameIds ? 'exact' : 'none';
  if (message === 'beyond' || node.role !== message.role) return 'none';
  const sameMessage = node.message !== null && messageHash(node.message) === messageHash(message);
  if (rest === null || own.length === 0) return sameMessage ? 'exact' : 'none';
  if (!sameIds) return 'none';
  return sameMessage ? 'exact' : 'drift';
}

/** The best of the matches: most ids (messages first where there are no ids), then most messages, least drift, newest at the first parting. */
export function bestOf(nodes: readonly ReferenceNode[], matches: readonly Match[], exchange: Exchange): Match {
  const idsOn = (match: Match): number => match.path.reduce((sum, node) => sum + (nodes[node]?.ids?.length ?? 0), 0);
  const newer = (a: Match, b: Match): number => {
    const parting = a.path.findIndex((node, i) => node !== b.path[i]);
    return parting < 0 ? 0 : (a.path[parting] as number) - (b.path[parting] ?? -1);
  };
  const order = (a: Match, b: Match): number => {
    const [ids, length] = [idsOn(a) - idsOn(b), a.path.length - b.path.length];
    return (exchange.promptIds === null ? length || ids : ids || length) || b.drifted - a.drifted || newer(a, b);
  };
  let best = matches[0] as Match;
  for (const match of matches) if (order(match, best) > 0) best = match;
  if (exchange.messages !== null) return best;
  const last = best.path.findLastIndex((node) => (nodes[node]?.ids?.length ?? 0) > 0);
  return { ...best, path: best.path.slice(0, last + 1) };
}

/** The nodes that an exchange adds. */
export function referenceNodes(nodes: readonly ReferenceNode[], exchange: Exchange): ReferenceNode[] {
  const { messages, promptIds, spans, choices } = exchange;
  if (choices.length === 0 && promptIds === null) return [];
  const match = bestOf(nodes, matchesOf(nodes, exchange), exchange);
  const prompt = promptIds === null ? null : [...promptIds];
  const added: ReferenceNode[] = [];
  let end = match.offset;
  const parent = (): number | null => (added.length > 0 ? nodes.length + added.length - 1 : (match.path.at(-1) ?? null));
  const rootTools = (): string | null => (parent() === null && messages !== null ? canonicalHash(exchange.tools as never) : null);
  const input = (role: string, message: Message | null, upTo: number): void => {
    const ids = prompt === null ? null : prompt.slice(end, upTo);
    added.push({
      parent: parent(),
      role,
      message,
      sampled: false,
      ids,
      mask: ids?.map(() => 0) ?? null,
      logprobs: null,
      tools: rootTools(),
    });
    end = upTo;
  };
  if (messages === null) {
    if (prompt !== null && prompt.length > end) input('input', null, prompt.length);
  } else {
    for (let k = match.path.length; k < messages.length; k++) {
      const message = messages[k] as Message;
      const span = spans?.[k] ?? null;
      input(message.role, message, prompt !== null && span !== null && span > end && span <= prompt.length ? span : end);
    }
  }
  const [above, tools] = [parent(), rootTools()];
  for (const choice of choices) {
    const whole = prompt === null || choice.ids === null || choice.tokenError !== null ? null : [...prompt.slice(end), ...choice.ids];
    const mask = whole?.map((_, i) => (i < (prompt?.length ?? 0) - end ? 0 : 1)) ?? null;
    const logprobs = whole === null || choice.logprobs === null ? null : [...choice.logprobs];
    added.push({ parent: above, role: 'assistant', message: choice.message, sampled: true, ids: whole, mask, logprobs, tools });
  }
  return added;
}

/** A planned node in the reference's words. */
export function asReference(node: NodePlan): ReferenceNode {
  const { parent, role, message, sampled, tokens, toolsHash } = node;
  const list = (array: ArrayLike<number> | null | undefined): number[] | null =>
    array === null || array === undefined ? null : Array.from(array);
  return {
    parent,
    role,
    message,
    sampled,
    ids: list(tokens?.ids),
    mask: list(tokens?.mask),
    logprobs: list(tokens?.logprobs),
    tools: toolsHash,
  };
}
