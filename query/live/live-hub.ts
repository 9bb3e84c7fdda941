/**
 * The one reader of the log behind all live followers. It reads only while somebody follows, decodes only events that somebody listens to, and never waits for a follower.
 */
import type { Clock } from '../../base/clock.ts';
import { isTapedeckError, TapedeckError } from '../../base/errors.ts';
import type { EventLog, StoredRecord } from '../../store/log/event-log.ts';
import type { LogPosition } from '../positions/log-position.ts';
import { catchUp } from './catch-up.ts';
import { FanOut, type Channel } from './fan-out.ts';
import { message, Follower } from './follower.ts';
import { decodeEvent, keysOfEvent, peek } from './live-event.ts';
import { topicKey, type LiveTopic } from './live-topic.ts';
import type { ServerResponse } from 'node:http';

export type LiveLogs = { readonly events: EventLog; readonly feeds: EventLog | null };
export type LiveOptions = {
  readonly logs: LiveLogs;
  readonly clock: Clock;
  /** Bytes that may wait for one follower (default 1 MiB). */
  readonly followerBytes?: number;
  readonly maxFollowers?: number;
  readonly onError?: (error: unknown) => void;
};
export type FollowRequest = {
  readonly project: string;
  readonly topics: readonly LiveTopic[];
  /** Where the client stands; the present when null. */
  readonly from: LogPosition | null;
};

const READ_BYTES = 1024 * 1024;
const WAIT_MS = 10_000;
const RETRY_MS = 500;
const FOLLOWER_BYTES = 1024 * 1024;
/** Followers of one process: each is an open connection. */
const MAX_FOLLOWERS = 2_000;
const POSITION_EVERY_MS = 15_000;

export class LiveHub {
  readonly #options: LiveOptions;
  readonly #stop = new AbortController();
  readonly #fanOut: FanOut;
  #position: { events: number[]; feeds: number[] } = { events: [], feeds: [] };
  #reading: Promise<void> | null = null;
  #pause: AbortController | null = null;
  #opening: Promise<void> | null = null;
  #followers = 0;

  constructor(options: LiveOptions) {
    this.#options = options;
    this.#fanOut = new FanOut(options.clock, () => this.position);
  }

  get followers(): number {
    return this.#followers;
  }

  /** The log position everything was read up to. */
  get position(): LogPosition {
    return { events: [...this.#position.events], feeds: [...this.#position.feeds] };
  }

  /** Whether one more may follow, before an answer is begun. Errors: `overloaded` above the limit, `closed`, those of the log. */
  async ready(): Promise<void> {
    if (this.#stop.signal.aborted) throw new TapedeckError('closed', 'the server is closing');
    if (this.#followers >= (this.#options.maxFollowers ?? MAX_FOLLOWERS)) throw new TapedeckError('overloaded', 'too many clients follow; try again later');
    if (this.#reading === null) await this.#options.logs.events.positions(this.#stop.signal);
  } // prettier-ignore

  /** Follows until the client goes away or the hub closes. */
  async follow(response: ServerResponse, request: FollowRequest): Promise<void> {
    this.#followers++;
    try {
      await this.#start();
      await this.#serve(response, request);
    } finally {
      this.#followers--;
      if (this.#followers === 0) await this.#rest();
    }
  } // prettier-ignore

  async close(): Promise<void> {
    this.#stop.abort(new TapedeckError('closed', 'live updates end'));
    this.#fanOut.close();
    for (const follower of this.#fanOut.followers) follower.end();
    await this.#rest();
  }

  async #serve(response: ServerResponse, request: FollowRequest): Promise<void> {
    const gone = new AbortController();
    response.once('close', () => gone.abort(new TapedeckError('aborted', 'the client went away')));
    if (response.destroyed) gone.abort(new TapedeckError('aborted', 'the client went away'));
    const channel = this.#fanOut.hold(new Map(request.topics.map((topic) => [topicKey(request.project, topic), topic])));
    try {
      const { follower, start } = await this.#join(channel, response, request);
      try {
        response.write(message('open', request.from ?? start, {}));
        if (request.from !== null) {
          await catchUp(this.#options.logs, { topics: channel.topics, from: request.from, to: start, follower, signal: gone.signal });
        }
        follower.goLive();
        await this.#keepAlive(channel, follower, gone.signal);
      } finally {
        channel.followers.delete(follower);
        follower.end();
      }
    } catch (error) {
      if (!gone.signal.aborted && !this.#stop.signal.aborted) throw error;
    } finally {
      this.#fanOut.release(channel);
    }
  }

  /** Where everything was told: what comes from there on is told to the new follower, what came before is what it catches up on. */
  #join(channel: Channel, response: ServerResponse, { from }: FollowRequest): Promise<{ follower: Follower; start: LogPosition }> {
    return new Promise((resolve) => {
      this.#fanOut.whenTold(channel, () => {
        const start = this.position;
        const follower = new Follower(response, from ?? start, { limitBytes: this.#options.followerBytes ?? FOLLOWER_BYTES });
        channel.followers.add(follower);
        resolve({ follower, start });
      });
    });
  }

  /** Tells a quiet follower how far the log was read, so that it resumes there and its connection stays open. */
  async #keepAlive(channel: Channel, follower: Follower, signal: AbortSignal): Promise<void> {
    while (!signal.aborted && !this.#stop.signal.aborted) {
      await this.#options.clock.sleep(POSITION_EVERY_MS, signal);
      if (!this.#fanOut.isTold(channel)) continue; // a position says that everything before it was told; the message that is due says it
      const { position } = this;
      follower.send(Buffer.from(message('position', position, {})), position);
    }
  }

  /** Begins to read at the present, once for all who wait. */
  async #start(): Promise<void> {
    if (this.#reading !== null) return;
    this.#opening ??= this.#open().finally(() => (this.#opening = null));
    await this.#opening;
  }

  async #open(): Promise<void> {
    const { events, feeds } = this.#options.logs;
    const ends = async (log: EventLog | null): Promise<number[]> => (log === null ? [] : (await log.positions(this.#stop.signal)).map(({ end }) => end));
    this.#position = { events: await ends(events), feeds: await ends(feeds) };
    const pause = new AbortController();
    this.#pause = pause;
    const signal = signalOf(this.#stop.signal, pause);
    this.#reading = Promise.all([this.#read(events, 'events', signal), ...(feeds === null ? [] : [this.#read(feeds, 'feeds', signal)])]).then(() => {});
  } // prettier-ignore

  /** Nobody follows: stops reading. */
  async #rest(): Promise<void> {
    this.#pause?.abort(new TapedeckError('aborted', 'nobody follows'));
    const reading = this.#reading;
    this.#reading = null;
    this.#pause = null;
    await reading;
  }

  async #read(log: EventLog, topic: 'events' | 'feeds', signal: AbortSignal): Promise<void> {
    const { clock, onError } = this.#options;
    while (!signal.aborted) {
      try {
        const positions = this.#position[topic];
        if (!(await log.waitForAppend(positions, WAIT_MS, signal))) continue;
        for (let partition = 0; partition < log.partitions && !signal.aborted; partition++) await this.#readPartition(log, topic, partition, signal);
        this.#fanOut.moved();
      } catch (error) {
        if (signal.aborted) return;
        onError?.(error);
        await clock.sleep(RETRY_MS, signal).catch(() => {});
      }
    }
  } // prettier-ignore

  async #readPartition(log: EventLog, topic: 'events' | 'feeds', partition: number, signal: AbortSignal): Promise<void> {
    const positions = this.#position[topic];
    try {
      const { records, next } = await log.read(partition, positions[partition] ?? 0, { maxBytes: READ_BYTES, signal });
      if (signal.aborted) return;
      for (const record of records) this.#distribute(record);
      positions[partition] = next;
    } catch (error) {
      if (!isTapedeckError(error, 'position_out_of_range')) throw error;
      positions[partition] = (await log.positions(signal))[partition]?.first ?? 0; // retention was faster
    }
  }

  #distribute({ value }: StoredRecord): void {
    const peeked = peek(value);
    if (peeked === null) return;
    const keys = keysOfEvent(peeked).filter((key) => this.#fanOut.has(key));
    if (keys.length === 0) return;
    const event = decodeEvent(value);
    if (event === null) return;
    for (const key of keys) this.#fanOut.add(key, event);
  }
}

function signalOf(outer: AbortSignal, inner: AbortController): AbortSignal {
  outer.addEventListener('abort', () => inner.abort(outer.reason), { once: true, signal: inner.signal });
  return inner.signal;
}
