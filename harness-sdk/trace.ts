/** One agent's part of a rollout: messages as a graph, calls, tools, links, rewards. */
import { TapedeckError } from '../base/errors.ts';
import { withTrace } from './current-trace.ts';
import { scopeHead, type ScopeHead, type ScopeIds } from './encode-event.ts';
import { tokensOf } from './encode-tokens.ts';
import { errorInfo } from './error-info.ts';
import type { Agent, Message, MessageOptions, ToolOptions, TraceOptions } from './record-types.ts'; // prettier-ignore
import type { Scribe } from './scribe.ts';
import { recordError, recordMetric, recordNote, recordReward } from './values.ts';
import type { Tool, Trace } from './api.ts';

/** What wrapped clients need of a trace, beyond what everybody may do. */
export type TraceInternals = {
  readonly scribe: Scribe;
  /** Called when the trace ends: calls that are still open are recorded as they are. */
  readonly onEnd: Set<() => void>;
  /** Called for every node that is recorded, however it came. */
  onNode: ((node: RecordedNode) => void) | null;
};
export type RecordedNode = {
  readonly index: number;
  readonly parent: number | null;
  readonly message: Message;
  readonly options: MessageOptions;
};

const internals = new WeakMap<Trace, TraceInternals>();
let observer: ((trace: Trace) => void) | null = null;

/** Tells `observe` of every trace that begins from now on. */
export function observeTraces(observe: (trace: Trace) => void): void {
  observer = observe;
}

export function internalsOf(trace: Trace): TraceInternals {
  const found = internals.get(trace);
  if (found === undefined) throw new TapedeckError('usage', 'this is no trace of a recorder');
  return found;
}

/** Starts a trace. Throws what recording throws. */
export function openTrace(scribe: Scribe, rollout: ScopeIds & { readonly rollout: string }, options: TraceOptions): Trace {
  const id = options.id ?? scribe.newId();
  const head = scopeHead({ ...rollout, trace: id });
  const agent: Agent = typeof options.agent === 'string' ? { name: options.agent } : (options.agent ?? {});
  const inside: TraceInternals = { scribe, onEnd: new Set(), onNode: null };
  const tools = new Set<Tool>();
  let nodes = 0;
  let calls = 0;
  let failed = false;
  let ended = false;
  const started = scribe.now();
  scribe.write(head, 'trace.started', {
    agent, runtime: options.runtime, tools: options.tools as Record<string, unknown>[] | undefined, started, extra: options.extra,
  }); // prettier-ignore

  const trace: Trace = {
    id,
    rollout: rollout.rollout,
    get nodes() {
      return nodes;
    },
    get calls() {
      return calls;
    },
    message: (message, given = {}) => {
      const index = nodes;
      const parent = given.parent === undefined ? (index === 0 ? null : index - 1) : given.parent;
      if (parent !== null && !(Number.isInteger(parent) && parent >= 0 && parent < index))
        throw new TapedeckError(
          'parent_not_before',
          `parent must be the index of a node recorded before (0 to ${index - 1}), or null for a root`,
        );
      const { tokens, tokenError, policyVersion, call, forkReason, attribution, partial, extra } = given;
      const sampled = given.sampled ?? false;
      scribe.write(head, 'node.appended', {
        index, parent, role: message.role, message: message as Record<string, unknown>, sampled, tokens: tokens && tokensOf(tokens, sampled), tokenError,
        policyVersion, call, forkReason, attribution, partial, extra,
      }); // prettier-ignore
      nodes++;
      inside.onNode?.({ index, parent, message, options: given });
      return index;
    },
    call: ({ error, ...call }) => {
      const index = calls;
      scribe.write(head, 'call.recorded', { index, ...call, error: error === undefined || error === null ? undefined : errorInfo(error) });
      calls++;
      return index;
    },
    tool: (given) => {
      const tool = openTool(scribe, head, given, () => tools.delete(tool));
      tools.add(tool);
      return tool;
    },
    link: (type, to, node) => void scribe.write(head, 'link.added', { from: { trace: id, node }, to, type }),
    at: (node) => (node === undefined ? { trace: id } : { trace: id, node }),
    reward: (name, score, weight, source, given = {}) => recordReward(scribe, head, 'trace', name, score, weight, source, given),
    metric: (name, value, node) => void recordMetric(scribe, head, 'trace', name, value, node),
    error: (error, node) => {
      failed = true;
      recordError(scribe, head, 'trace', error, node);
    },
    note: (note, node) => void recordNote(scribe, head, 'trace', note, node),
    run: (work) => withTrace(trace, work),
    ready: (signal) => scribe.ready(signal),
    end: (given = {}) => {
      if (ended) return;
      ended = true;
      for (const finish of inside.onEnd) finish();
      for (const tool of tools) tool.end();
      const { ok = !failed, stopCondition, truncated, timing, extra } = given;
      scribe.write(head, 'trace.ended', {
        ok, stopCondition, truncated, counts: { nodes, calls }, timing: timing as Record<string, unknown> | undefined, started, ended: scribe.now(), extra,
      }); // prettier-ignore
    },
    // whether it went well is not known here: an exception passes by unseen
    [Symbol.asyncDispose]: async () => trace.end({ ok: failed ? false : null }),
  };
  internals.set(trace, inside);
  observer?.(trace);
  return trace;
}

function openTool(scribe: Scribe, head: ScopeHead, { name, id, node, extra }: ToolOptions, onEnd: () => void): Tool {
  const start = scribe.now();
  let ended = false;
  const tool: Tool = {
    end: ({ resultNode, error } = {}) => {
      if (ended) return;
      ended = true;
      onEnd();
      const said = error === undefined || error === null ? undefined : errorInfo(error);
      scribe.write(head, 'tool.recorded', {
        toolCallId: id,
        node,
        name,
        time: { start, end: scribe.now() },
        resultNode,
        error: said,
        extra,
      });
    },
    run: async (work) => {
      try {
        const result = await work();
        tool.end();
        return result;
      } catch (error) {
        tool.end({ error });
        throw error;
      }
    },
    [Symbol.dispose]: () => tool.end(),
  };
  return tool;
}
