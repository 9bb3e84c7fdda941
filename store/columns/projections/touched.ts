/** What a block touched: which summaries must be computed again, which ids must resolve, which projects need their views. */

export type RolloutKey = readonly [project: string, run: string, rollout: string];
export type TraceKey = readonly [project: string, run: string, rollout: string, trace: string];

/** Nested maps instead of joined keys: an id may hold any character, and no key text is built per event. */
export class Touched {
  readonly #projects = new Map<string, Map<string, Map<string, Set<string>>>>();
  readonly #runs = new Map<string, Map<string, Set<number>>>();
  #last: { project: string; run: string; rollout: string; traces: Set<string> } | null = null;

  project(project: string): void {
    if (!this.#projects.has(project)) this.#projects.set(project, new Map());
  }

  /** True when the rollout was not touched before in this block. */
  rollout(project: string, run: string, rollout: string): boolean {
    const last = this.#last;
    if (last !== null && last.rollout === rollout && last.run === run && last.project === project) return false;
    const runs = getOrMake(this.#projects, project, () => new Map<string, Map<string, Set<string>>>());
    const rollouts = getOrMake(runs, run, () => new Map<string, Set<string>>());
    const known = rollouts.get(rollout);
    const traces = known ?? new Set<string>();
    if (known === undefined) rollouts.set(rollout, traces);
    this.#last = { project, run, rollout, traces };
    return known === undefined;
  }

  /** True when no rollout of the run was touched before in this block by an event of this partition (as the store numbers it). */
  run(project: string, run: string, partition: number): boolean {
    const runs = getOrMake(this.#runs, project, () => new Map<string, Set<number>>());
    const partitions = getOrMake(runs, run, () => new Set<number>());
    if (partitions.has(partition)) return false;
    partitions.add(partition);
    return true;
  }

  /** True when the trace was not touched before in this block. */
  trace(project: string, run: string, rollout: string, trace: string): boolean {
    this.rollout(project, run, rollout);
    const traces = (this.#last as { traces: Set<string> }).traces;
    if (traces.has(trace)) return false;
    traces.add(trace);
    return true;
  }

  get projects(): readonly string[] {
    return [...this.#projects.keys()];
  }

  get rollouts(): readonly RolloutKey[] {
    const keys: RolloutKey[] = [];
    for (const [project, runs] of this.#projects) {
      for (const [run, rollouts] of runs) for (const rollout of rollouts.keys()) keys.push([project, run, rollout]);
    }
    return keys;
  }

  get traces(): readonly TraceKey[] {
    const keys: TraceKey[] = [];
    for (const [project, runs] of this.#projects) {
      for (const [run, rollouts] of runs) {
        for (const [rollout, traces] of rollouts) for (const trace of traces) keys.push([project, run, rollout, trace]);
      }
    }
    return keys;
  }

  clear(): void {
    this.#projects.clear();
    this.#runs.clear();
    this.#last = null;
  }
}

function getOrMake<K, V>(map: Map<K, V>, key: K, make: () => V): V {
  const found = map.get(key);
  if (found !== undefined) return found;
  const made = make();
  map.set(key, made);
  return made;
}
