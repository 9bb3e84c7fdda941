/** What is known to be stored, by event id and by entity. Nested maps instead of joined keys: no key text is built per event. */

export type Known = { readonly offset: number; readonly hash: string };

/** Names an entity: `traceText` is one text for all ids of its trace (`traceText` in classify.ts). */
export type EntityName = { readonly table: 'nodes' | 'calls'; readonly traceText: string; readonly index: number };

export type EventName = { readonly partition: number; readonly project: string; readonly id: string };

/** Events by log partition, project and id. What was stored before ids were a project's own names no project, and stands for every one. */
export class KnownIds {
  readonly #partitions = new Map<number, Map<string, Map<string, Known>>>();

  get({ partition, project, id }: EventName): Known | undefined {
    const projects = this.#partitions.get(partition);
    return projects?.get(project)?.get(id) ?? projects?.get('')?.get(id);
  }

  set({ partition, project, id }: EventName, known: Known): void {
    let projects = this.#partitions.get(partition);
    if (projects === undefined) this.#partitions.set(partition, (projects = new Map<string, Map<string, Known>>()));
    let ids = projects.get(project);
    if (ids === undefined) projects.set(project, (ids = new Map<string, Known>()));
    ids.set(id, known);
  }
}

export class KnownEntities {
  readonly #tables = { nodes: new Map<string, Map<number, Known>>(), calls: new Map<string, Map<number, Known>>() };

  get({ table, traceText, index }: EntityName): Known | undefined {
    return this.#tables[table].get(traceText)?.get(index);
  }

  set({ table, traceText, index }: EntityName, known: Known): void {
    const traces = this.#tables[table];
    let indexes = traces.get(traceText);
    if (indexes === undefined) traces.set(traceText, (indexes = new Map<number, Known>()));
    indexes.set(index, known);
  }
}

/** Events and the entities they made. */
export type KnownFacts = { readonly ids: KnownIds; readonly entities: KnownEntities };

export function nothingKnown(): KnownFacts {
  return { ids: new KnownIds(), entities: new KnownEntities() };
}
