/** Keeps the projector's state as it moves, and tells whoever listens. */
import type { Clock } from '../../../base/clock.ts';
import type { Decision, Status } from './classify.ts';
import type { Gathered } from './gather.ts';
import type { ProjectorState } from './state.ts';

export class StateTracker {
  readonly #clock: Clock;
  readonly #tell: ((state: ProjectorState) => void) | undefined;
  readonly #counts: Record<Status, number> = { stored: 0, duplicate: 0, conflict: 0, dead: 0, deleted: 0 };
  #positions: readonly number[];
  #ends: readonly number[];
  #phase: ProjectorState['phase'] = 'starting';
  #resume: ProjectorState['phase'] = 'starting';
  #waitingFor: string | null = null;
  #since: number;
  #behindSince: number | null = null;
  #blocks = 0;
  #events = 0;
  #lastBlock: ProjectorState['lastBlock'] = null;

  constructor(clock: Clock, partitions: number, tell?: (state: ProjectorState) => void) {
    this.#clock = clock;
    this.#tell = tell;
    this.#positions = Array.from({ length: partitions }, () => 0);
    this.#ends = this.#positions;
    this.#since = clock.nowMicros();
  }

  current(): ProjectorState {
    return {
      phase: this.#phase,
      waitingFor: this.#waitingFor,
      sinceMicros: this.#since,
      positions: this.#positions,
      ends: this.#ends,
      lagEvents: this.#ends.reduce((lag, end, p) => lag + Math.max(0, end - (this.#positions[p] ?? 0)), 0),
      lagSeconds: this.#behindSince === null ? 0 : (this.#clock.nowMicros() - this.#behindSince) / 1e6,
      blocks: this.#blocks,
      events: this.#events,
      lastBlock: this.#lastBlock,
      byStatus: { ...this.#counts },
    };
  }

  phase(phase: ProjectorState['phase']): void {
    if (phase === this.#phase) return;
    this.#phase = phase;
    this.#since = this.#clock.nowMicros();
    if (phase === 'projecting') this.#behindSince ??= this.#since;
    this.#publish();
  }

  caughtUp(): void {
    this.#behindSince = null;
  }

  /** Something failed and is tried again. */
  waiting(waitingFor: string, error: unknown): void {
    if (this.#phase !== 'waiting') {
      this.#resume = this.#phase;
      this.#phase = 'waiting';
      this.#since = this.#clock.nowMicros();
      this.#behindSince ??= this.#since;
    }
    this.#waitingFor = `${waitingFor}: ${error instanceof Error ? error.message : String(error)}`.slice(0, 1000);
    this.#publish();
  }

  /** What was waited for worked. */
  proceed(): void {
    if (this.#phase !== 'waiting') return;
    this.#phase = this.#resume;
    this.#waitingFor = null;
    this.#since = this.#clock.nowMicros();
    this.#publish();
  }

  moved(positions: readonly number[], ends: readonly number[]): void {
    this.#positions = [...positions];
    this.#ends = [...ends];
    this.#publish();
  }

  stored(positions: readonly number[], gathered: Gathered, decisions: readonly Decision[], ms: number): void {
    for (const { status } of decisions) this.#counts[status]++;
    this.#blocks++;
    this.#events += decisions.length;
    this.#lastBlock = { events: decisions.length, bytes: gathered.bytes, ms: Math.round(ms) };
    this.moved(positions, gathered.ends);
  }

  #publish(): void {
    this.#tell?.(this.current());
  }
}
