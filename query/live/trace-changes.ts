/** What happened in one trace since the last message. */
import { PackedArray } from '../../events/packed-array.ts';
import type { TapedeckEvent } from '../../events/registry.ts';

const MAX_LIST = 1_000;

export class TraceChanges {
  readonly #detailed: boolean;
  readonly #nodes: object[] = [];
  readonly #calls: object[] = [];
  readonly #tools: object[] = [];
  readonly #counts = { nodes: 0, tokens: 0, sampledTokens: 0, calls: 0, failedCalls: 0, tools: 0, errors: 0, others: 0 };
  #state: string | undefined;
  #range: { from: number; to: number } | null = null;

  /** `detailed`: nodes, calls and tools are listed one by one, as far as a message goes; else they are counted. */
  constructor(detailed: boolean) {
    this.#detailed = detailed;
  }

  add(event: TapedeckEvent): void {
    const counts = this.#counts;
    switch (event.type) {
      case 'trace.started':
      case 'trace.ended':
        this.#state = event.type.slice('trace.'.length);
        return;
      case 'node.appended': {
        const { index, parent, role, sampled, tokens, call, forkReason } = event.data;
        // a very long stream lies in the blob store; its length is not worth fetching it
        const [ids, mask]: [unknown, unknown] = [tokens?.ids, tokens?.mask];
        const size = ids instanceof PackedArray ? ids.length : null;
        const sampledTokens = mask instanceof PackedArray ? ones(mask.bytes) : null;
        counts.nodes++;
        counts.tokens += size ?? 0;
        counts.sampledTokens += sampledTokens ?? 0;
        this.#range = { from: Math.min(this.#range?.from ?? index, index), to: Math.max(this.#range?.to ?? index, index) };
        this.#list(this.#nodes, { index, parent: parent ?? null, role, sampled, tokens: size, sampledTokens, call: call ?? null, forkReason: forkReason ?? null });
        return;
      }
      case 'call.recorded': {
        const { index, node, model, finishReason, usage, error } = event.data;
        counts.calls++;
        if (error !== null && error !== undefined) counts.failedCalls++;
        this.#list(this.#calls, { index, node: node ?? null, model: model ?? null, finishReason: finishReason ?? null, completionTokens: usage?.completionTokens ?? null, error: error?.type ?? null });
        return;
      }
      case 'tool.recorded': {
        const { toolCallId, name, node, resultNode, error } = event.data;
        counts.tools++;
        this.#list(this.#tools, { toolCallId, name, node: node ?? null, resultNode: resultNode ?? null, error: error?.type ?? null });
        return;
      }
      case 'error.recorded':
        counts.errors++;
        return;
      default:
        counts.others++;
    }
  } // prettier-ignore

  #list(list: object[], entry: object): void {
    if (this.#detailed && list.length < MAX_LIST) list.push(entry);
  }

  /** Counts that are 0 are left out; lists only where they hold everything that is counted. */
  toJSON(): object {
    const counts = Object.fromEntries(Object.entries(this.#counts).filter(([, count]) => count > 0));
    const { nodes, calls, tools } = this.#counts;
    return {
      ...(this.#state === undefined ? {} : { state: this.#state }),
      counts,
      ...(this.#range === null ? {} : { nodeRange: this.#range }),
      ...(this.#detailed && nodes > 0 && this.#nodes.length === nodes ? { nodes: this.#nodes } : {}),
      ...(this.#detailed && calls > 0 && this.#calls.length === calls ? { calls: this.#calls } : {}),
      ...(this.#detailed && tools > 0 && this.#tools.length === tools ? { tools: this.#tools } : {}),
    };
  }
}

function ones(mask: Uint8Array): number {
  let count = 0;
  for (const value of mask) if (value === 1) count++;
  return count;
}
