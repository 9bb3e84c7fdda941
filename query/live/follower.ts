/**
 * One client that follows. What it has not read yet is bounded by bytes: beyond that nothing more is written to it, and once it reads again it is told which stretch it missed
 * and from where to go on. It never slows down anybody else.
 */
import type { ServerResponse } from 'node:http';
import { positionText, type LogPosition } from '../positions/log-position.ts';

export type FollowerOptions = {
  readonly limitBytes: number;
};

export class Follower {
  readonly #response: ServerResponse;
  readonly #limitBytes: number;
  /** Where the client stands: the position behind the last message that was written. */
  #position: LogPosition;
  #missed: { readonly from: LogPosition; to: LogPosition } | null = null;
  #held: { readonly chunk: Buffer; readonly position: LogPosition }[] | null = [];
  #heldBytes = 0;
  skips = 0;

  constructor(response: ServerResponse, position: LogPosition, { limitBytes }: FollowerOptions) {
    this.#response = response;
    this.#position = position;
    this.#limitBytes = limitBytes;
    response.on('drain', () => this.#tellMissed());
  }

  get isOpen(): boolean {
    return !this.#response.destroyed && !this.#response.writableEnded;
  }

  /** A message of the channel. While the past is still being read it is held back, bounded like everything else. */
  send(chunk: Buffer, position: LogPosition): void {
    if (this.#held === null) return this.write(chunk, position);
    this.#held.push({ chunk, position });
    this.#heldBytes += chunk.length;
    while (this.#heldBytes > this.#limitBytes) {
      const oldest = this.#held.shift() as { chunk: Buffer; position: LogPosition };
      this.#heldBytes -= oldest.chunk.length;
      this.#miss(oldest.position);
    }
  }

  /** Writes at once, unless the client is behind. */
  write(chunk: Buffer, position: LogPosition): void {
    if (!this.isOpen) return;
    if (this.#response.writableLength > this.#limitBytes) return this.#miss(position);
    this.#tellMissed();
    this.#response.write(chunk);
    this.#position = position;
  }

  #miss(to: LogPosition): void {
    this.#missed ??= { from: this.#position, to };
    this.#missed.to = to;
    this.skips++;
  }

  /** Says which stretch is missing: the client reads it elsewhere, or connects again with the older position. */
  #tellMissed(): void {
    if (this.#missed === null || this.#held !== null || !this.isOpen) return;
    const { from, to } = this.#missed;
    this.#missed = null;
    this.#position = to;
    this.#response.write(message('skipped', to, { from: positionText(from), to: positionText(to), reason: 'slow' }));
  }

  /** The past is read: what was held back follows, from now on everything goes straight through. */
  goLive(): void {
    const held = this.#held ?? [];
    this.#held = null;
    this.#tellMissed();
    for (const { chunk, position } of held) this.write(chunk, position);
  }

  /** Resolves when the client has read so much that more may be written; at once when it has gone. */
  async drained(signal: AbortSignal): Promise<void> {
    if (!this.isOpen || !this.#response.writableNeedDrain) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const done = (): void => resolve();
    this.#response.once('drain', done).once('close', done);
    signal.addEventListener('abort', done, { once: true });
    await promise;
    this.#response.off('drain', done).off('close', done);
    signal.removeEventListener('abort', done);
  }

  end(): void {
    if (this.isOpen) this.#response.end();
  }
}

/** One event of the stream; `data` as an object or as JSON text. Its id is the position behind it, which a client sends back as `Last-Event-ID`. */
export function message(event: string, position: LogPosition, data: object | string): string {
  return `id: ${positionText(position)}\nevent: ${event}\ndata: ${typeof data === 'string' ? data : JSON.stringify(data)}\n\n`;
}
