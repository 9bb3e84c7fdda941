/** One open connection to `GET /v1/live` for bench/live.bench.ts: notes when each node of each trace arrived, and how many messages that took. */
import { once } from 'node:events';
import { request, type IncomingMessage } from 'node:http';

type Change = { readonly rollouts?: readonly { readonly traces?: readonly { readonly trace: string; readonly nodeRange?: { from: number; to: number }; readonly counts: { nodes?: number } }[] }[] }; // prettier-ignore

/** Called for nodes `from` to `to` (both included) of a trace, as they arrive. */
export type OnNodes = (trace: string, from: number, to: number) => void;

export class LiveFollower {
  readonly #response: IncomingMessage;
  readonly #onNodes: OnNodes;
  #text = '';
  /** Nodes heard of, per topic once. */
  nodes = 0;
  messages = 0;
  skipped = 0;
  bytes = 0;

  private constructor(response: IncomingMessage, onNodes: OnNodes) {
    this.#response = response;
    this.#onNodes = onNodes;
    response.setEncoding('utf8');
    response.on('error', () => {});
    response.on('data', (text: string) => this.#take(text));
  }

  /** Resolves when the server has answered. */
  static async open(url: string, topics: readonly string[], onNodes: OnNodes): Promise<LiveFollower> {
    const query = topics.map((topic) => `topic=${encodeURIComponent(topic)}`).join('&');
    const sent = request(`${url}/v1/live?${query}`, { agent: false });
    sent.end();
    const [response] = (await once(sent, 'response')) as [IncomingMessage];
    if (response.statusCode !== 200) throw new Error(`live: ${response.statusCode}`);
    return new LiveFollower(response, onNodes);
  }

  #take(text: string): void {
    this.bytes += text.length;
    const parts = (this.#text + text).split('\n\n');
    this.#text = parts.pop() as string;
    for (const part of parts) this.#hear(part);
  }

  #hear(part: string): void {
    if (part.includes('\nevent: skipped')) this.skipped++;
    if (!part.includes('\nevent: changes')) return;
    this.messages++;
    const { changes } = JSON.parse(part.slice(part.indexOf('\ndata: ') + 7)) as { changes: readonly Change[] };
    for (const { rollouts = [] } of changes) {
      for (const { traces = [] } of rollouts)
        for (const { trace, nodeRange, counts } of traces) this.#count(trace, nodeRange, counts.nodes);
    }
  }

  #count(trace: string, range: { from: number; to: number } | undefined, nodes = 0): void {
    if (range === undefined) return;
    this.nodes += nodes;
    this.#onNodes(trace, range.from, range.to);
  }

  close(): void {
    this.#response.destroy();
  }
}
