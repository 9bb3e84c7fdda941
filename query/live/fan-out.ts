/**
 * From what was read to those who follow. What happened in a topic is put together once and written as JSON once, however many follow it, alone or beside other topics; followers
 * of the same topics get the same bytes. All topics are told in one tick, at most four times a second, so that the position of a message covers every topic of its readers.
 */
import type { Clock } from '../../base/clock.ts';
import type { TapedeckEvent } from '../../events/registry.ts';
import type { LogPosition } from '../positions/log-position.ts';
import { ChangeSet, tell } from './change-set.ts';
import { message, type Follower } from './follower.ts';
import type { LiveTopic } from './live-topic.ts';

export const TICK_MS = 250;

/** A topic that somebody follows. */
type Feed = { readonly key: string; readonly topic: LiveTopic; readonly channels: Set<Channel>; changes: ChangeSet };

/** Followers of the same topics. */
export type Channel = {
  readonly topics: ReadonlyMap<string, LiveTopic>;
  readonly followers: Set<Follower>;
  readonly name: string;
  readonly feeds: readonly Feed[];
  /** Those who hold it: followers, and who will be one. */
  holders: number;
};

export class FanOut {
  readonly #clock: Clock;
  readonly #position: () => LogPosition;
  readonly #feeds = new Map<string, Feed>();
  readonly #channels = new Map<string, Channel>();
  /** Feeds with changes that were not told yet. */
  readonly #pending = new Set<Feed>();
  readonly #waiting: { readonly channel: Channel; readonly action: () => void }[] = [];
  #toldAt = -Infinity;
  #timer: AbortController | null = null;

  /** `position` is where the reader stands. */
  constructor(clock: Clock, position: () => LogPosition) {
    this.#clock = clock;
    this.#position = position;
  }

  get followers(): Follower[] {
    return [...this.#channels.values()].flatMap((channel) => [...channel.followers]);
  }

  /** True when somebody follows the topic. */
  has(key: string): boolean {
    return this.#feeds.has(key);
  }

  /** The channel of these topics, by their keys, until it is released as often as it was held. */
  hold(topics: ReadonlyMap<string, LiveTopic>): Channel {
    const name = JSON.stringify([...topics.keys()].toSorted());
    let channel = this.#channels.get(name);
    if (channel === undefined) {
      const feeds = [...topics].map(([key, topic]) => this.#feedOf(key, topic));
      channel = { topics, followers: new Set(), name, feeds, holders: 0 };
      this.#channels.set(name, channel);
      for (const feed of feeds) feed.channels.add(channel);
    }
    channel.holders++;
    return channel;
  }

  release(channel: Channel): void {
    if (--channel.holders > 0) return;
    this.#channels.delete(channel.name);
    for (const feed of channel.feeds) {
      feed.channels.delete(channel);
      if (feed.channels.size > 0) continue;
      this.#feeds.delete(feed.key);
      this.#pending.delete(feed);
    }
  }

  #feedOf(key: string, topic: LiveTopic): Feed {
    let feed = this.#feeds.get(key);
    if (feed === undefined) this.#feeds.set(key, (feed = { key, topic, channels: new Set(), changes: new ChangeSet(topic) }));
    return feed;
  }

  /** An event of a topic. */
  add(key: string, event: TapedeckEvent): void {
    const feed = this.#feeds.get(key);
    if (feed === undefined) return;
    tell(feed.changes, event);
    if (!feed.changes.isEmpty) this.#pending.add(feed);
  }

  /** True when everything that was read about the topics of a channel was told. */
  isTold({ feeds }: Channel): boolean {
    return !feeds.some((feed) => this.#pending.has(feed));
  }

  /** Runs `action` at a place between messages: at once, or right after the next tick where changes wait for it. */
  whenTold(channel: Channel, action: () => void): void {
    if (this.isTold(channel)) action();
    else this.#waiting.push({ channel, action });
  }

  /** After a read: tells at once when the last tick is old enough, else when it will be. */
  moved(): void {
    if (this.#pending.size === 0 || this.#timer !== null) return;
    const wait = this.#toldAt + TICK_MS - this.#clock.monotonicMs();
    if (wait <= 0) return this.tick();
    const timer = new AbortController();
    this.#timer = timer;
    this.#clock.sleep(wait, timer.signal).then(
      () => {
        this.#timer = null;
        this.tick();
      },
      () => {},
    );
  }

  /** Tells what there is. */
  tick(): void {
    this.#toldAt = this.#clock.monotonicMs();
    const position = this.#position();
    const texts = new Map<Feed, string>();
    const channels = new Set<Channel>();
    for (const feed of this.#pending) {
      texts.set(feed, JSON.stringify(feed.changes));
      feed.changes = new ChangeSet(feed.topic);
      for (const channel of feed.channels) channels.add(channel);
    }
    this.#pending.clear();
    for (const { feeds, followers } of channels) {
      if (followers.size === 0) continue;
      const changes = feeds.flatMap((feed) => texts.get(feed) ?? []).join(',');
      const chunk = Buffer.from(message('changes', position, `{"changes":[${changes}]}`));
      for (const follower of followers) follower.send(chunk, position);
    }
    for (const { action } of this.#waiting.splice(0)) action();
  }

  close(): void {
    this.#timer?.abort(new Error('closed'));
    this.#timer = null;
    for (const { action } of this.#waiting.splice(0)) action();
  }
}
