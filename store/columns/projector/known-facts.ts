/** What is known to be stored, by event id and by entity. Nested maps instead of joined keys: no key text is built per event. */

export type Known = { readonly offset: number; readonly hash: string };

/** Names an entity: `traceText` is one text for all ids of its trace (`traceText` in classify.ts). */
export type EntityName = { readonly table: 'nodes' | 'calls'; readonly traceText: string; readonly index: number };

/** Events by log partition and id. */
export class KnownIds {
  readonly #partitions = new Map<number, Map<string, Known>>();

  get(partition: number, id: string): Known | undefined {
    return this.#partitions.get(partition)?.get(id);
  }

  set(partition: number, id: string, known: Known): void {
    let ids = this.#partitions.get(partition);
    if (ids === undefined) this.#partitions.set(partition, (ids = new Map<string, Known>()));
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
