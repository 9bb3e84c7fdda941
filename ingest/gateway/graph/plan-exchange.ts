/**
 * One exchange becomes nodes: the walk, the new inputs with their spans, one sampled node per answer. Pure. What is handed out holds the identity
 * concat(path) = prompt + completion; a plan that would not is a fault of ours and throws `token_identity`.
 */
import { TapedeckError } from '../../../base/errors.ts';
import { canonicalHash } from '../dialects/message-hash.ts';
import { checkPath } from './check-identity.ts';
import type { Choice, Exchange, ExchangePlan, ForkReason, NodePlan, NodeTokens } from './exchange.ts';
import { forkOf, type Fork } from './fork-reason.ts';
import { printMessages, type Prints } from './message-print.ts';
import { faultOf, idsFit, type TokenFault } from './token-faults.ts';
import { bytesOf, hasFlag, NONE, pathTo, type TraceGraph } from './trace-graph.ts';
import { requestOf, walk, type Request, type Walk } from './walk.ts';

/**
 * Plans the nodes of one exchange. `prints` saves the hashing of the messages where the caller has them. An exchange without answers and without
 * prompt ids adds nothing: its inputs would be nodes without tokens, and every later answer below them unfit for training.
 */
export function planExchange(graph: TraceGraph, exchange: Exchange, prints?: Prints): ExchangePlan {
  const { messages } = exchange;
  const known = messages === null ? null : (prints ?? printMessages(messages));
  const tools = messages === null ? null : canonicalHash(exchange.tools);
  const { request, path, promptFault } = placeOf(graph, exchange, known, tools);
  const drift = [...new Set(path.drift.flatMap((d) => d.fields))].toSorted();
  const driftNodes = path.drift.map((d) => d.node);
  if (exchange.choices.length === 0 && request.prompt === null) {
    return { nodes: [], answers: [], extends: null, drift, driftNodes, forkReason: null };
  }
  const fork = forkOf(graph, exchange, request, path);
  const inputs = planInputs(graph, exchange, request, path);
  const carrier: Carrier = {
    prompt: request.prompt,
    promptFault,
    carried: request.prompt?.subarray(inputs.end) ?? new Uint32Array(0),
    attribution: answerAttribution(graph, path, inputs.nodes),
    toolsHash: path.node === NONE && inputs.nodes.length === 0 ? tools : null,
  };
  const answers = exchange.choices.map((choice) => planAnswer(exchange, choice, carrier));
  const nodes = numbered(graph, path.node, inputs.nodes, answers, fork.reason);
  assertIdentity(graph, path, request.prompt, nodes, exchange.choices);
  return {
    nodes,
    answers: exchange.choices.map((choice, i) => ({ choice: choice.index, node: graph.count + inputs.nodes.length + i })),
    extends: extendsLast(graph, request, path, fork),
    drift,
    driftNodes,
    forkReason: fork.reason,
  };
}

type Place = { readonly request: Request; readonly path: Walk; readonly promptFault: TokenFault | null };

/** The walk; a prompt with ids that do not fit counts as not given. Ids of re-used nodes were checked when they came. */
function placeOf(graph: TraceGraph, { promptIds }: Exchange, prints: Prints | null, tools: string | null): Place {
  const request = requestOf(graph, prints, promptIds, tools);
  const path = walk(graph, request);
  if (promptIds === null || idsFit(promptIds, path.offset)) return { request, path, promptFault: null };
  const textOnly = requestOf(graph, prints, null, tools);
  return { request: textOnly, path: walk(graph, textOnly), promptFault: 'token_id_range' };
}

type Draft = Omit<NodePlan, 'index' | 'parent' | 'forkReason'>;

/** The inputs beyond the walk, and where the ids end that are theirs. */
function planInputs(
  graph: TraceGraph,
  exchange: Exchange,
  { prompt, toolsHash: tools }: Request,
  path: Walk,
): { nodes: Draft[]; end: number } {
  const { messages, spans, end: time } = exchange;
  const nodes: Draft[] = [];
  let end = path.offset;
  const add = (role: string, message: NodePlan['message'], upTo: number | null): void => {
    const isRoot = path.node === NONE && nodes.length === 0;
    const tokens = prompt === null ? null : inputTokens(prompt.slice(end, upTo ?? end));
    const attribution = prompt === null || messages === null ? null : upTo === null ? 'none' : 'ladder';
    nodes.push({
      role,
      message,
      sampled: false,
      tokens,
      tokenError: null,
      attribution,
      partial: false,
      toolsHash: isRoot ? tools : null,
      time,
    });
    end = upTo ?? end;
  };
  if (messages === null) {
    if (prompt !== null && prompt.length > end) add('input', null, prompt.length);
    return { nodes, end };
  }
  for (let k = path.depth; k < messages.length; k++) {
    const message = messages[k] as NonNullable<NodePlan['message']>;
    const span = spans?.[k] ?? null;
    const usable = prompt !== null && span !== null && span > end && span <= prompt.length;
    add(message.role, message, usable ? span : null);
  }
  return { nodes, end };
}

function inputTokens(ids: Uint32Array): NodeTokens {
  return { ids, mask: new Uint8Array(ids.length), logprobs: null, policyRuns: null };
}

/** What all answers of an exchange share: `carried` is the rest of the prompt that no input owns. */
type Carrier = {
  readonly prompt: Uint32Array | null;
  readonly carried: Uint32Array;
  readonly promptFault: TokenFault | null;
  readonly attribution: NodePlan['attribution'];
  readonly toolsHash: string | null;
};

/** none: the answer carries ids of inputs; ladder: only what follows the last attributed input; null: no input before it could have been attributed. */
function answerAttribution(graph: TraceGraph, path: Walk, inputs: readonly Draft[]): NodePlan['attribution'] {
  const last = inputs.at(-1);
  if (last !== undefined) return last.attribution;
  if (path.node === NONE || !hasFlag(graph, path.node, 'message')) return null;
  if (graph.lengths[path.node] === 0) return 'none';
  return hasFlag(graph, path.node, 'sampled') ? null : 'ladder';
}

/** The sampled node: the rest of the prompt with mask 0, the completion with mask 1. */
function planAnswer(exchange: Exchange, choice: Choice, carrier: Carrier): Draft {
  const fault = faultOf(choice, carrier.prompt, carrier.promptFault);
  const tokens = fault === null && choice.ids !== null ? answerTokens(carrier.carried, choice.ids, choice) : null;
  return {
    role: choice.message?.role ?? 'assistant',
    message: choice.message,
    sampled: true,
    tokens,
    tokenError: fault,
    attribution: tokens === null || carrier.carried.length === 0 ? null : carrier.attribution,
    partial: choice.partial,
    toolsHash: carrier.toolsHash,
    time: exchange.end,
  };
}

function answerTokens(carried: Uint32Array, completion: Uint32Array, { logprobs, policyRuns }: Choice): NodeTokens {
  const ids = new Uint32Array(carried.length + completion.length);
  ids.set(carried);
  ids.set(completion, carried.length);
  return { ids, mask: new Uint8Array(ids.length).fill(1, carried.length), logprobs: logprobs?.slice() ?? null, policyRuns };
}

/** Numbers the drafts: the inputs are a chain below `from`, the answers siblings at its end. */
function numbered(
  graph: TraceGraph,
  from: number,
  inputs: readonly Draft[],
  answers: readonly Draft[],
  reason: ForkReason | null,
): NodePlan[] {
  const first = graph.count;
  const parentOf = (place: number): number | null => (place > 0 ? first + place - 1 : from === NONE ? null : from);
  const chain = inputs.map((draft, i) => ({ ...draft, index: first + i, parent: parentOf(i), forkReason: i === 0 ? reason : null }));
  const parent = parentOf(inputs.length);
  const siblings = answers.map((draft, i): NodePlan => {
    const forkReason = i > 0 ? 'resample' : inputs.length === 0 ? reason : null;
    return { ...draft, index: first + inputs.length + i, parent, forkReason };
  });
  return [...chain, ...siblings];
}

/** Length, then bytes, over what the plan holds and what the graph holds, not over how they came about. */
function assertIdentity(
  graph: TraceGraph,
  path: Walk,
  prompt: Uint32Array | null,
  nodes: readonly NodePlan[],
  choices: readonly Choice[],
): void {
  if (prompt === null) return;
  const stored = path.node === NONE ? 0 : (graph.pathIds[path.node] as number);
  let problem = checkPath(graph, path.node, prompt);
  let end = stored;
  for (const node of nodes.slice(0, nodes.length - choices.length)) {
    problem ??= startsWith(prompt, end, node.tokens?.ids) ? null : `input node ${node.index} does not hold the prompt from ${end} on`;
    end += node.tokens?.ids.length ?? 0;
  }
  for (const [i, choice] of choices.entries()) {
    const ids = nodes[nodes.length - choices.length + i]?.tokens?.ids;
    if (ids === undefined || choice.ids === null) continue;
    const rest = prompt.length - end;
    if (ids.length !== rest + choice.ids.length)
      problem ??= `choice ${choice.index} holds ${ids.length} ids instead of ${rest + choice.ids.length}`;
    else if (!startsWith(prompt, end, ids.subarray(0, rest))) problem ??= `choice ${choice.index} does not hold the prompt from ${end} on`;
    else if (!startsWith(choice.ids, 0, ids.subarray(rest))) problem ??= `choice ${choice.index} does not hold its completion`;
  }
  if (problem !== null) throw new TapedeckError('token_identity', `the ids of the planned path are not prompt + completion: ${problem}`);
}

/** Whether `whole` holds `part` from `at` on; a missing part does not. */
function startsWith(whole: Uint32Array, at: number, part: Uint32Array | undefined): boolean {
  if (part === undefined || at + part.length > whole.length) return false;
  return bytesOf(whole.subarray(at, at + part.length)).equals(bytesOf(part));
}

/** See ExchangePlan.extends. */
function extendsLast(graph: TraceGraph, { prints, prompt }: Request, path: Walk, fork: Fork): boolean | null {
  if (prompt === null || graph.answers === 0 || fork.samePrompt) return null;
  const nodes = pathTo(graph, path.node);
  const isAnswer = (node: number | undefined): boolean =>
    node !== undefined && hasFlag(graph, node, 'sampled') && hasFlag(graph, node, 'tokens');
  if (prints === null) return nodes.some(isAnswer) && (fork.reason === null || fork.reason === 'parallel');
  const last = prints.roles.lastIndexOf('assistant');
  if (last >= 0 && isAnswer(nodes[last])) return true;
  return fork.reason === 'parallel' ? null : false;
}
