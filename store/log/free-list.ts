/**
 * Things that can do one job at a time, made when none is free. A broker answers the requests of a connection in order, so a read that waits at the broker
 * needs a connection of its own.
 */
export type FreeList<T> = {
  /** Runs `work` with one of them. The result of `work` frees it; an error retires it. */
  with<R>(work: (item: T) => Promise<R>): Promise<R>;
  close(): Promise<void>;
};

export function createFreeList<T>(make: () => Promise<T> | T, end: (item: T) => Promise<void>): FreeList<T> {
  const all = new Set<T>();
  const free: T[] = [];
  let closed = false;
  const retire = async (item: T): Promise<void> => {
    if (all.delete(item)) await end(item).catch(() => {});
  };
  return {
    with: async (work) => {
      const item = free.pop() ?? (await make());
      all.add(item);
      try {
        const result = await work(item);
        if (closed) await retire(item);
        else free.push(item);
        return result;
      } catch (error) {
        await retire(item);
        throw error;
      }
    },
    close: async () => {
      closed = true;
      free.length = 0;
      await Promise.all([...all].map(retire));
    },
  };
}
