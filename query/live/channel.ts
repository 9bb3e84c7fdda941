/** Followers of the same topics share one channel: what happened is put together once, and the same bytes go to all of them, at most four times a second. */
import type { Clock } from '../../base/clock.ts';
import type { TapedeckEvent } from '../../events/registry.ts';
import type { LogPosition } from '../positions/log-position.ts';
import { ChangeSet } from './change-set.ts';
import { message, type Follower } from './follower.ts';
import type { LiveTopic } from './live-topic.ts';

export const TICK_MS = 250;

export class Channel {
  readonly followers = new Set<Follower>();
  readonly topics: ReadonlyMap<string, LiveTopic>;
  readonly #clock: Clock;
  readonly #position: () => LogPosition;
  #changes = new Map<string, ChangeSet>();
  #sentAt = -Infinity;
  #timer: AbortController | null = null;

  /** `topics` by their keys; `position` is where the reader stands. */
  constructor(topics: ReadonlyMap<string, LiveTopic>, clock: Clock, position: () => LogPosition) {
    this.topics = topics;
    this.#clock = clock;
    this.#position = position;
  }

  add(key: string, event: TapedeckEvent): void {
    addChange(this.#changes, this.topics, key, event);
  }

  /** After a read: sends at once when the last message is old enough, else when it will be. */
  moved(): void {
    if (this.#changes.size === 0 || this.#timer !== null) return;
    const wait = this.#sentAt + TICK_MS - this.#clock.monotonicMs();
    if (wait <= 0) return this.flush();
    const timer = new AbortController();
    this.#timer = timer;
    this.#clock.sleep(wait, timer.signal).then(
      () => {
        this.#timer = null;
        this.flush();
      },
      () => {},
    );
  }

  /** Sends what there is. */
  flush(): void {
    if (this.#changes.size === 0) return;
    const position = this.#position();
    const chunk = Buffer.from(message('changes', position, { changes: [...this.#changes.values()] }));
    this.#changes = new Map();
    this.#sentAt = this.#clock.monotonicMs();
    for (const follower of this.followers) follower.send(chunk, position);
  }

  close(): void {
    this.#timer?.abort(new Error('closed'));
    this.#timer = null;
  }
}

/** Puts an event into the changes of a topic. An event that is not what its type says is nobody's news: the projector names it a dead letter. */
export function addChange(
  changes: Map<string, ChangeSet>,
  topics: ReadonlyMap<string, LiveTopic>,
  key: string,
  event: TapedeckEvent,
): void {
  const topic = topics.get(key);
  if (topic === undefined) return;
  let set = changes.get(key);
  if (set === undefined) changes.set(key, (set = new ChangeSet(topic)));
  try {
    set.add(event);
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
  }
}
