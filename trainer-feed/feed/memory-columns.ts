/** Token columns in memory, for tests of what does not need a disk. */
import { TapedeckError } from '../../base/errors.ts';
import type { ColumnsStore, TokenColumns } from '../groups/group-facts.ts';
import type { LoadColumns } from '../groups/member-trace.ts';
import { HAS_COLUMN, type ColumnsRef } from '../groups/rollout-facts.ts';

export type MemoryColumns = ColumnsStore &
  LoadColumns & { readonly held: () => number; /** As it is now. */ readonly copy: () => MemoryColumns };

export function memoryColumns(from: ReadonlyMap<number, TokenColumns | Float32Array> = new Map()): MemoryColumns {
  const kept = new Map(from);
  let next = Math.max(-1, ...kept.keys()) + 1;
  const keep = (columns: TokenColumns | Float32Array): ColumnsRef => {
    kept.set(next, columns);
    return {
      segment: 1,
      start: next++,
      bytes: 1,
      crc: 0,
      columns: 'referenceLogprobs' in columns && columns.referenceLogprobs ? HAS_COLUMN.reference : 0,
    };
  };
  const read = (ref: ColumnsRef): TokenColumns | Float32Array => {
    const found = kept.get(ref.start);
    if (found === undefined) throw new TapedeckError('cache_corrupt', 'these columns were released');
    return found;
  };
  return {
    keep,
    keepScores: (logprobs) => keep(logprobs.typed()),
    release: (ref) => {
      if (!kept.delete(ref.start)) throw new Error('columns were released twice');
    },
    tokens: (ref) => {
      const { ids, mask, isContent, logprobs, referenceLogprobs } = read(ref) as TokenColumns;
      return {
        ids: ids.typed(),
        mask: mask.typed(),
        isContent: isContent?.typed() ?? null,
        logprobs: logprobs?.typed() ?? null,
        referenceLogprobs: referenceLogprobs?.typed() ?? null,
      };
    },
    scores: (ref) => read(ref) as Float32Array,
    held: () => kept.size,
    copy: () => memoryColumns(kept),
  };
}
