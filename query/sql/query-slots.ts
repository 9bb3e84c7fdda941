import { TapedeckError } from '../../base/errors.ts';
import type { SqlAccount } from './limits.ts';

export type QuerySlots = {
  /** One query more; the answer ends it and may be called twice. Throws `overloaded`. */
  take(account: SqlAccount | null): () => void;
};

/** Queries at the same time: so many on the server, and so many of each key that has a limit of its own. */
export function createQuerySlots(concurrent: number): QuerySlots {
  let running = 0;
  const byKey = new Map<string, number>();
  return {
    take: (account) => {
      if (running >= concurrent) throw full(`${concurrent} queries are running already`, concurrent);
      const most = account?.limits.sqlConcurrent;
      const own = account === null ? 0 : (byKey.get(account.key) ?? 0);
      if (account !== null && most !== undefined && own >= most)
        throw full(`${most} queries of the key ${account.key} are running already`, most);
      running++;
      if (account !== null) byKey.set(account.key, own + 1);
      let held = true;
      return () => {
        if (!held) return;
        held = false;
        running--;
        if (account === null) return;
        const left = (byKey.get(account.key) ?? 1) - 1;
        if (left === 0) byKey.delete(account.key);
        else byKey.set(account.key, left);
      };
    },
  };
}

function full(what: string, limit: number): TapedeckError {
  return new TapedeckError('overloaded', `${what}: try again when one has ended`, { details: { limit } });
}
