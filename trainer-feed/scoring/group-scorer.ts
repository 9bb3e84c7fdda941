/**
 * The worker of one feed: takes up groups that wait for reducers or a teacher, a bounded number at a time, appends what comes of it to the events topic, and remembers by name
 * what will never come. It decides nothing: the feed reads the events back like anybody's, and a deadline that passes is the feed's decision.
 */
import type { Clock } from '../../base/clock.ts';
import { withDeadline } from '../../base/deadline.ts';
import { isTapedeckError } from '../../base/errors.ts';
import { ByteBudget } from '../../base/byte-budget.ts';
import type { BoundAlgorithm } from '../algorithms/algorithm.ts';
import type { BlobStore } from '../../store/blobs/blob-store.ts';
import type { EventLog } from '../../store/log/event-log.ts';
import type { LoadColumns } from '../groups/member-trace.ts';
import { appendScores } from './append-scores.ts';
import { compareMembers } from './compare-members.ts';
import type { GroupDebts } from './owed.ts';
import { loadReferenceTask, scoreReferences, type LoadedReferenceTask } from './score-references.ts';
import type { ScoringFailure, ScoringUpstreams } from './upstream.ts';

export type ScorerPorts = {
  readonly project: string;
  readonly events: EventLog;
  readonly blobs: BlobStore;
  readonly clock: Clock;
  readonly upstreams: ScoringUpstreams;
  /** Something came of a group: look again. */
  readonly changed: () => void;
  readonly onTrouble: (error: unknown) => void;
};

/** A group that waits. `msLeft`: until the feed gives up waiting. */
export type WaitingGroup = {
  readonly key: string;
  readonly debts: GroupDebts;
  readonly algorithm: BoundAlgorithm;
  readonly teacher: string | null;
  readonly policyVersion: number | null;
  readonly msLeft: number;
};

const GROUPS_AT_A_TIME = 64;
/** After trouble with the log or the blob store. */
const PAUSE_MS = 1_000;
const MEMORY_BYTES = 64 * 1024 * 1024;

export class GroupScorer {
  readonly #ports: ScorerPorts;
  readonly #stop = new AbortController();
  readonly #memory = new ByteBudget(MEMORY_BYTES);
  readonly #running = new Map<string, Promise<void>>();
  /** What was asked for last, by group: the same is not asked for again while the answer is on its way through the log. */
  readonly #asked = new Map<string, string>();
  readonly #failures = new Map<string, ScoringFailure>();
  /** Not yet told: what was appended before the failure must be read before it counts. */
  readonly #fresh = new Map<string, ScoringFailure>();

  constructor(ports: ScorerPorts) {
    this.#ports = ports;
  }

  /** Why what the group waits for will never come; null = it may. */
  failureOf(key: string): ScoringFailure | null {
    return this.#failures.get(key) ?? null;
  }

  /** Groups that failed since this was last asked. */
  takeFailed(): readonly string[] {
    const keys = [...this.#fresh.keys()];
    for (const [key, failure] of this.#fresh) this.#failures.set(key, failure);
    this.#fresh.clear();
    return keys;
  }

  /** Takes up what is not under way. `load` is only used before this returns. Call it when the log was read to its end: what is there need not be asked for. */
  attend(waiting: ReadonlyMap<string, () => WaitingGroup>, load: LoadColumns): void {
    for (const key of [...this.#asked.keys(), ...this.#failures.keys()]) {
      if (waiting.has(key) || this.#running.has(key)) continue;
      this.#asked.delete(key);
      this.#failures.delete(key);
    }
    for (const [key, describe] of waiting) {
      if (this.#running.size >= GROUPS_AT_A_TIME || this.#stop.signal.aborted) return;
      if (this.#running.has(key) || this.#failures.has(key) || this.#fresh.has(key)) continue;
      const group = describe();
      const what = whatOf(group.debts);
      if (this.#asked.get(key) === what || group.msLeft <= 0) continue;
      if (!this.#begin(group, what, load)) return;
    }
  }

  /** False when there is no room now. */
  #begin(group: WaitingGroup, what: string, load: LoadColumns): boolean {
    const loaded = group.debts.reward === null ? group.debts.references.map((task) => loadReferenceTask(task, load)) : [];
    const release = this.#memory.tryTake(Math.max(1, loaded.reduce((sum, { bytes }) => sum + bytes, 0))); // prettier-ignore
    if (release === null) return false;
    this.#asked.set(group.key, what);
    const work = this.#carryOut(group, loaded).finally(() => {
      release();
      this.#running.delete(group.key);
      this.#ports.changed();
    });
    this.#running.set(group.key, work);
    return true;
  }

  async #carryOut(group: WaitingGroup, loaded: readonly LoadedReferenceTask[]): Promise<void> {
    const { clock, onTrouble } = this.#ports;
    const stop = this.#stop.signal;
    try {
      const failure = await withDeadline(
        clock,
        group.msLeft,
        `the scores of group ${group.key}`,
        (signal) => this.#score(group, loaded, signal),
        stop,
      );
      if (failure === null) return;
      this.#fresh.set(group.key, failure);
      onTrouble(new Error(`${failure.reason}: ${failure.message}`));
    } catch (error) {
      this.#asked.delete(group.key);
      if (stop.aborted || isTapedeckError(error, 'deadline_exceeded')) return;
      onTrouble(error);
      await clock.sleep(PAUSE_MS, stop).catch(() => {});
    }
  }

  /** First comparisons, in order: the next one may rest on them; then teachers, trace by trace. What one trace cannot have does not keep the others from it. */
  async #score(group: WaitingGroup, loaded: readonly LoadedReferenceTask[], signal: AbortSignal): Promise<ScoringFailure | null> {
    const { project, upstreams } = this.#ports;
    const { reward } = group.debts;
    if (reward !== null) {
      const scored = await compareMembers(reward, project, this.#ports, signal);
      if (!scored.ok) return scored.error;
      await appendScores(scored.value, this.#ports, signal);
      return null;
    }
    const { algorithm, teacher, policyVersion } = group;
    const context = { project, algorithm, source: teacher ?? '', policyVersion, upstreams };
    const failures = await Promise.all(
      loaded.map(async (task): Promise<ScoringFailure | null> => {
        const scored = await scoreReferences(task, context, signal);
        if (!scored.ok) return scored.error;
        await appendScores(scored.value, this.#ports, signal);
        return null;
      }),
    );
    return failures.find((failure) => failure !== null) ?? null;
  }

  /** Ends all work; what is under way is asked for again by whoever runs the feed next. */
  async close(): Promise<void> {
    this.#stop.abort();
    await Promise.all(this.#running.values());
  }
}

function whatOf({ reward, references }: GroupDebts): string {
  return JSON.stringify([
    reward?.traces.map(({ eventId }) => eventId) ?? null,
    references.map(({ rollout, trace, paths }) => [rollout.key, trace.trace, paths.map((path) => path.at(-1)?.index)]),
  ]);
}
