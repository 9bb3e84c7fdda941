/**
 * Sends events in batches over a fixed number of lanes. A rollout stays in one lane and a lane sends one batch at a time, so the order inside a rollout is
 * kept. Memory is bounded: per lane one batch on its way and one being filled.
 */
import type { Problem } from '../../base/result.ts';
import type { ImportedEvent } from './event-maker.ts';

export type Refusal = Problem & { readonly index: number };
export type SinkResult = { readonly accepted: number; readonly duplicates: number; readonly rejected: readonly Refusal[] };
/** Takes one batch; resolves when every event has its final answer, throws when it gives up. */
export type Sink = (slices: readonly Uint8Array[], signal: AbortSignal) => Promise<SinkResult>;

/** Where an event came from, for reports. */
export type Origin = { readonly path: string; readonly line: number | null };
type Item = { readonly event: ImportedEvent; readonly origin: Origin };
type Lane = { items: Item[]; bytes: number; sending: Promise<void> | null };

export type LaneOptions = {
  readonly sink: Sink;
  readonly signal: AbortSignal;
  readonly lanes: number;
  /** A batch is sent when it has this many bytes or events; one larger event goes alone. */
  readonly batchBytes: number;
  readonly batchEvents: number;
  readonly onResult: (result: SinkResult, items: readonly { readonly event: ImportedEvent; readonly origin: Origin }[]) => void;
};
export type Lanes = {
  /** Adds the events of one rollout; waits while its lane is full. Throws what the sink threw. */
  send(events: readonly ImportedEvent[], origin: Origin): Promise<void>;
  /** Sends what is left and waits for everything on its way. */
  flush(): Promise<void>;
};

export function openLanes(options: LaneOptions): Lanes {
  const lanes = Array.from({ length: options.lanes }, (): Lane => ({ items: [], bytes: 0, sending: null }));
  let turn = 0;
  let failure: { readonly error: unknown } | null = null;

  const ship = (lane: Lane): void => {
    const { items } = lane;
    lane.items = [];
    lane.bytes = 0;
    const slices = items.map(({ event }) => event.slice);
    lane.sending = options
      .sink(slices, options.signal)
      .then((result) => options.onResult(result, items))
      .catch((error: unknown) => void (failure ??= { error }))
      .finally(() => void (lane.sending = null));
  };
  const check = (): void => {
    if (failure !== null) throw failure.error;
    options.signal.throwIfAborted();
  };
  const shipInTurn = async (lane: Lane): Promise<void> => {
    await lane.sending;
    check();
    ship(lane);
  };
  return {
    send: async (events, origin) => {
      const lane = lanes[turn++ % lanes.length] as Lane;
      check();
      for (const event of events) {
        if (lane.items.length > 0 && lane.bytes + event.slice.length > options.batchBytes) await shipInTurn(lane);
        lane.items.push({ event, origin });
        lane.bytes += event.slice.length;
        if (lane.items.length >= options.batchEvents) await shipInTurn(lane);
      }
    },
    flush: async () => {
      for (const lane of lanes) {
        await lane.sending;
        if (failure === null && !options.signal.aborted && lane.items.length > 0) ship(lane);
      }
      for (const lane of lanes) await lane.sending;
      check();
    },
  };
}
