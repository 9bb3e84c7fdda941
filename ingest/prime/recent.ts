/** A bounded memory of what was seen lately: the least recently used entry goes first. */
export type Recent<V> = { get(key: string): V | undefined; set(key: string, value: V): void };

export function recent<V>(limit: number): Recent<V> {
  const entries = new Map<string, V>();
  const set = (key: string, value: V): void => {
    entries.delete(key);
    entries.set(key, value);
    if (entries.size > limit) entries.delete(entries.keys().next().value as string);
  };
  return {
    get(key) {
      const value = entries.get(key);
      if (value !== undefined) set(key, value);
      return value;
    },
    set,
  };
}
